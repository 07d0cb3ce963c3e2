"""What the parts of an estimator learn from the records, and what several releases cost together."""

from functools import reduce

import numpy as np
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, PolynomialFeatures
from sklearn.utils import get_tags

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.preprocessing import BoundsScaler, PrivateScaler
from skdpdyn.privacy import GaussianDP, RenyiDP
from skdpdyn.privacy.guarantees import LargestCurve


def composed(guarantees):
    """What several releases of the same records cost together."""
    return reduce(lambda one, other: one.compose(other), guarantees)


def largest(guarantees):
    """A guarantee that is implied by each of several, so that it holds whichever is true of a record."""
    if len(set(guarantees)) == 1:
        return guarantees[0]
    if all(isinstance(guarantee, GaussianDP) for guarantee in guarantees):
        return max(guarantees, key=lambda guarantee: guarantee.mu)
    curves = []
    for guarantee in guarantees:
        curves.append(guarantee._renyi_curve())
        if curves[-1] is None:
            raise UnsupportedMechanismError(
                f"{type(guarantee).__name__} ({guarantee.adjacency}) has no Renyi curve to compare with the others: "
                "take another solver or bound, or adjacency='add_remove' for DP-SGD"
            )
    return RenyiDP(LargestCurve(tuple(dict.fromkeys(curves))), guarantees[0].adjacency)


def reads_records(step):
    """Why a step may carry something of the records into what it does, or None where all it learns is public."""
    if step is None or (isinstance(step, str) and step in ("passthrough", "drop")):
        return None
    if isinstance(step, ColumnTransformer):
        return _first_reason(_parts(step)) or chooses_by_records(step)
    if isinstance(step, (Pipeline, FeatureUnion)):
        return _first_reason(_parts(step))
    if isinstance(step, (BoundsScaler, PolynomialFeatures)):
        return None
    if isinstance(step, (OneHotEncoder, OrdinalEncoder)):
        if isinstance(step.categories, str) or step.min_frequency is not None or step.max_categories is not None:
            return f"{type(step).__name__} learns categories from the records: pass them"
        dropped = getattr(step, "drop", None) is not None and step.handle_unknown != "error"
        if dropped or step.handle_unknown == "warn":
            return f"{type(step).__name__}(handle_unknown={step.handle_unknown!r}) warns of records: pass another handle_unknown"
        return None
    if isinstance(step, FunctionTransformer):
        if step.inverse_func is not None and step.check_inverse:
            return "FunctionTransformer warns of records that func and inverse_func change: pass check_inverse=False"
        if step.func is None or (_acts_on_each_number(step.func) and not step.kw_args):
            return None
        return f"FunctionTransformer(func={step.func!r}) may mix records: only numpy's own functions of a number are known not to"
    if isinstance(step, FrozenEstimator):
        return reads_records(step.estimator)
    if hasattr(step, "privacy_cost") or hasattr(step, "privacy_"):
        return f"{type(step).__name__} spends a budget of its own, which is not counted here"
    if hasattr(step, "transform") and hasattr(step, "__sklearn_tags__") and not get_tags(step).requires_fit:
        return None  # not of predictors, some of which keep the records and call that no fit
    return f"{type(step).__name__} learns from the records without privacy"


def _acts_on_each_number(function):
    """Whether a function is one of numpy's that take each number by itself, and not Python's made to look like one."""
    return isinstance(function, np.ufunc) and function.signature is None and not all("O" in kinds for kinds in function.types)


def chooses_by_records(step):
    """Why a ColumnTransformer's own choices, of columns and of dense or sparse rows, may depend on the records; or None."""
    if any(callable(columns) for *_, columns in step.transformers):
        return "ColumnTransformer chooses columns by a function of the records: name them"
    if step.sparse_threshold == 0 or None not in _kinds(step):
        return None
    # As soon as one of its parts is sparse it counts what is stored, of all records together.
    return (
        f"ColumnTransformer(sparse_threshold={step.sparse_threshold!r}) may choose between sparse and dense rows by how many "
        "values of all records are zero, as it does not with sparse_threshold=0"
    )


def _kinds(step):
    """What each part of a ColumnTransformer or a FeatureUnion stores, see `_stored`."""
    columns = [columns for *_, columns in step.transformers] if isinstance(step, ColumnTransformer) else []
    frame = any(map(_are_names, columns))  # which is never sparse
    return ["all" if frame and _passes(part) else _stored(part) for part in _parts(step)]


def _are_names(columns):
    """Whether columns are told by name, as only those of a data frame are."""
    names = list(columns) if hasattr(columns, "__len__") and not isinstance(columns, str) else [columns]
    return bool(names) and all(isinstance(name, str) for name in names)


def _passes(step):
    """Whether a step hands on the kind of table that it is given."""
    return step is None or isinstance(step, str) or (isinstance(step, FunctionTransformer) and not step.validate)


def _stored(step):
    """How many values a step stores of each record: "all", "alike" many, or None where that may depend on the records."""
    if isinstance(step, (OrdinalEncoder, BoundsScaler)) or (isinstance(step, PrivateScaler) and step.with_mean):
        return "all"  # and none of them takes sparse rows
    if isinstance(step, OneHotEncoder):
        one_for_each = step.drop is None and step.handle_unknown == "error"
        return "all" if not step.sparse_output else "alike" if one_for_each else None
    if isinstance(step, Pipeline):
        kind = None
        for part in _parts(step):
            keeps_dense = _passes(part) or isinstance(part, (PrivateScaler, PolynomialFeatures, FunctionTransformer))
            kind = _stored(part) or ("all" if kind == "all" and keeps_dense else None)
        return kind
    if isinstance(step, ColumnTransformer) and step.sparse_threshold == 0:
        return "all"
    if isinstance(step, (ColumnTransformer, FeatureUnion)):
        kinds = set(_kinds(step))  # dense parts of sparse rows lose their zeros
        return kinds.pop() if len(kinds) == 1 else None
    return None


def _parts(step):
    """What a composite is made of, without what it drops."""
    if isinstance(step, ColumnTransformer):
        parts = [*(transformer for _, transformer, _ in step.transformers), step.remainder]
    else:
        parts = [child for _, child in (step.steps if isinstance(step, Pipeline) else step.transformer_list)]
    return [part for part in parts if not (isinstance(part, str) and part == "drop")]


def _first_reason(steps):
    return next(filter(None, map(reads_records, steps)), None)


def costed(estimator):
    """The last step, which says what a fit costs; the steps before it must learn public numbers only."""
    if isinstance(estimator, Pipeline):
        for _, step in estimator.steps[:-1]:
            reason = reads_records(step)
            if reason is not None:
                raise ValueError(f"{reason}: let it learn public numbers only, such as BoundsScaler's bounds or given categories")
        return costed(estimator.steps[-1][1])
    if not hasattr(estimator, "privacy_cost"):
        raise ValueError(f"{estimator!r} has no privacy_cost: pass an estimator of skdpdyn, or a Pipeline that ends in one")
    return estimator


def with_parameters(estimator, parameters):
    """A clone with some of its parameters changed, to clones of what is given."""
    return clone(estimator).set_params(**{name: clone(value, safe=False) for name, value in parameters.items()})
