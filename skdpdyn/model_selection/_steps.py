"""What the steps before a model learn from the records, and how many values they store: one rule for each kind of step.

The steps are scikit-learn's, so the rules are no methods of theirs. A kind without a rule is taken
to learn from the records, unless its own tags say that it needs no fit; and so is one that inherits
from a kind with a rule, which may do more.
"""

from functools import singledispatch

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
)
from sklearn.utils import get_tags

from skdpdyn.preprocessing import BoundsScaler, PrivateScaler


def reads_records(step):
    """Why a step may carry something of the records into what it does, or None where all it learns is public."""
    ruled = next(kind for kind in type(step).__mro__ if kind in _reads_records.registry)
    if ruled not in (type(step), object):
        return f"{type(step).__name__} may learn from the records what {ruled.__name__} does not"
    return _reads_records(step)


@singledispatch
def _reads_records(step):
    if hasattr(step, "privacy_cost") or hasattr(step, "privacy_"):
        return f"{type(step).__name__} spends a budget of its own, which is not counted here"
    if (
        hasattr(step, "transform")
        and hasattr(step, "__sklearn_tags__")
        and not get_tags(step).requires_fit
    ):
        return None  # not of predictors, some of which keep the records and call that no fit
    return f"{type(step).__name__} learns from the records without privacy"


@_reads_records.register(type(None))
@_reads_records.register(BoundsScaler)
@_reads_records.register(PolynomialFeatures)
def _(step):
    return None


@_reads_records.register
def _(step: str):
    return None if step in ("passthrough", "drop") else f"{step!r} is no step"


@_reads_records.register(OneHotEncoder)
@_reads_records.register(OrdinalEncoder)
def _(step):
    if (
        isinstance(step.categories, str)
        or step.min_frequency is not None
        or step.max_categories is not None
    ):
        return f"{type(step).__name__} learns categories from the records: pass them"
    dropped = getattr(step, "drop", None) is not None and step.handle_unknown != "error"
    if dropped or step.handle_unknown == "warn":
        return f"{type(step).__name__}(handle_unknown={step.handle_unknown!r}) warns of records: pass another handle_unknown"
    return None


@_reads_records.register
def _(step: SimpleImputer):
    if step.strategy != "constant" or not step.keep_empty_features or step.add_indicator:
        return "SimpleImputer learns from the records: pass strategy='constant', keep_empty_features=True, add_indicator=False"
    if step.fill_value is None:  # 0, or text as soon as a column of numbers holds some
        return (
            "SimpleImputer(fill_value=None) fills in what depends on the records: pass fill_value"
        )
    return None


@_reads_records.register
def _(step: MissingIndicator):
    return (
        None
        if step.features == "all"
        else "MissingIndicator learns which columns have missing values: pass features='all'"
    )


@_reads_records.register
def _(step: FunctionTransformer):
    if step.inverse_func is not None and step.check_inverse:
        return "FunctionTransformer warns of records that func and inverse_func change: pass check_inverse=False"
    if step.func is None or (_acts_on_each_number(step.func) and not step.kw_args):
        return None
    return f"FunctionTransformer(func={step.func!r}) may mix records: only numpy's own functions of a number are known not to"


@_reads_records.register
def _(step: FrozenEstimator):
    return reads_records(step.estimator)


@_reads_records.register(Pipeline)
@_reads_records.register(FeatureUnion)
def _(step):
    return _first_reason(_parts(step))


@_reads_records.register
def _(step: ColumnTransformer):
    return _first_reason(_parts(step)) or chooses_by_records(step)


def chooses_by_records(step):
    """Why a ColumnTransformer's own choices, of columns and of dense or sparse rows, may depend on the records; or None."""
    if any(callable(columns) for *_, columns in step.transformers):
        return "ColumnTransformer chooses columns by a function of the records: name them"
    if step.sparse_threshold == 0 or None not in _stored_by_parts(step):
        return None
    # As soon as one of its parts is sparse it counts what is stored, of all records together.
    return (
        f"ColumnTransformer(sparse_threshold={step.sparse_threshold!r}) may choose between sparse and dense rows by how many "
        "values of all records are zero, as it does not with sparse_threshold=0"
    )


@singledispatch
def stored(step, given=None):
    """How many values a step stores of each record: "all", "alike" many, or None where that may depend on the records.

    Or "frame": a data frame, which is never sparse itself, though what is made of it may be.
    ``given``: the same of the rows that reach the step.
    """


@stored.register(type(None))
@stored.register(str)
def _(step, given=None):
    return given  # passed through


@stored.register
def _(step: FunctionTransformer, given=None):
    return given if given == "all" or (given == "frame" and not step.validate) else None


@stored.register(PolynomialFeatures)
@stored.register(SimpleImputer)
def _(step, given=None):
    return "all" if given == "all" else None


@stored.register
def _(step: PrivateScaler, given=None):
    # with the mean it takes no sparse rows
    return "all" if step.with_mean or given == "all" else None


@stored.register(BoundsScaler)
@stored.register(OrdinalEncoder)
def _(step, given=None):
    return "all"  # neither takes sparse rows


@stored.register
def _(step: OneHotEncoder, given=None):
    one_for_each = step.drop is None and step.handle_unknown == "error"
    return "all" if not step.sparse_output else "alike" if one_for_each else None


@stored.register
def _(step: Pipeline, given=None):
    for part in _parts(step):
        given = stored(part, given)
    return given


@stored.register(ColumnTransformer)
@stored.register(FeatureUnion)
def _(step, given=None):
    if isinstance(step, ColumnTransformer) and step.sparse_threshold == 0:
        return "all"
    kinds = set(_stored_by_parts(step))  # dense parts of sparse rows lose their zeros
    return kinds.pop() if len(kinds) == 1 else None


def _parts(step):
    """Return the parts of a composite, without those that it drops."""
    if isinstance(step, ColumnTransformer):
        made_of = [*(transformer for _, transformer, _ in step.transformers), step.remainder]
    else:
        made_of = [
            child
            for _, child in (step.steps if isinstance(step, Pipeline) else step.transformer_list)
        ]
    return [part for part in made_of if not (isinstance(part, str) and part == "drop")]


def _stored_by_parts(step):
    """Return what each part of a ColumnTransformer or a FeatureUnion stores."""
    columns = (
        [columns for *_, columns in step.transformers]
        if isinstance(step, ColumnTransformer)
        else []
    )
    given = "frame" if any(map(_are_names, columns)) else None
    kinds = [stored(part, given) for part in _parts(step)]
    return ["all" if kind == "frame" else kind for kind in kinds]


def _are_names(columns):
    """Whether columns are told by name, as only those of a data frame are."""
    names = (
        list(columns) if hasattr(columns, "__len__") and not isinstance(columns, str) else [columns]
    )
    return bool(names) and all(isinstance(name, str) for name in names)


def _acts_on_each_number(function):
    """Whether a function is one of numpy's that take each number by itself, and not Python's made to look like one."""
    return (
        isinstance(function, np.ufunc)
        and function.signature is None
        and not all("O" in kinds for kinds in function.types)
    )


def _first_reason(steps):
    return next(filter(None, map(reads_records, steps)), None)
