"""Rules, one for each kind of step, for the facts that a pipeline learns from records.

The steps are scikit-learn's, so the rules are no methods of theirs. A kind without a rule is taken
to learn from the records, unless its own tags say that it needs no fit; and so is one that inherits
from a kind with a rule, which may do more.
"""

from collections.abc import Callable, Iterator
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
)
from sklearn.utils import get_tags

from skdpdyn.preprocessing import BoundsScaler, PrivateScaler, RowMapper
from skdpdyn.privacy.arguments import has_own
from skdpdyn.privacy.checks import quoted

_TAG = "A transformer that looks at each row by itself says so by its tag requires_fit=False"
_CALIBRATES = "calibrate on public records, or raise the model's clip"
_IMPUTER = "SimpleImputer(strategy='constant', fill_value=..., keep_empty_features=True)"
_LOGISTIC = "use PrivateLogisticRegression or PrivateSoftmaxRegression"
_LABELS = "takes the labels that occur from y and shows them without noise"
_AS_YOU_SAY = "as you say"
_PASS = "pass what was fitted in it, total_privacy(*fitted.estimators_)"
_NAME_COLUMNS = "name the columns, in a ColumnTransformer"
_ROTATES = "leave it out, conditioning='auto' of the model learns directions within the budget"
_SCALER = "use BoundsScaler or PrivateScaler"
_BOUNDS = "use BoundsScaler with public bounds"

# What well-known classes learn from the records, and what to use instead. They are found by name,
# because importing them is slow. A subclass is treated as its base class.
_LEARNS = {
    "StandardScaler": ("learns means and variances from the records", _SCALER),
    "MinMaxScaler": ("learns ranges from the records", _BOUNDS),
    "MaxAbsScaler": ("learns ranges from the records", _BOUNDS),
    "RobustScaler": ("learns quantiles from the records", _SCALER),
    "QuantileTransformer": ("learns quantiles from the records", _BOUNDS),
    "PowerTransformer": (
        "learns exponents, means and variances from the records",
        "use FunctionTransformer(np.log1p), then BoundsScaler",
    ),
    "KBinsDiscretizer": (
        "learns bins from the records",
        "use FunctionTransformer(np.digitize, kw_args={'bins': edges}) with public edges",
    ),
    "SplineTransformer": (
        "learns knots from the records, or refuses records beyond them",
        "pass knots=array of public numbers, and no extrapolation='error'",
    ),
    "KNNImputer": ("keeps the records and fills in from them", f"use {_IMPUTER}"),
    "IterativeImputer": ("learns from the records", f"use {_IMPUTER}"),
    "TargetEncoder": ("learns means of y", "use OneHotEncoder(categories=...)"),
    "LabelBinarizer": ("learns labels from the records", "use OneHotEncoder(categories=...)"),
    "CountVectorizer": ("learns a vocabulary from the records", "use HashingVectorizer"),
    "TfidfTransformer": ("learns how frequent words are from the records", "pass use_idf=False"),
    "DictVectorizer": ("learns names from the records", "use FeatureHasher"),
    "PCA": ("learns directions from the records", _ROTATES),
    "TruncatedSVD": ("learns directions from the records", _ROTATES),
    "SelectorMixin": ("learns from the records which columns to keep", _NAME_COLUMNS),
    "LogisticRegression": ("learns from the records without privacy", _LOGISTIC),
    "SGDClassifier": ("learns from the records without privacy", _LOGISTIC),
    "LinearSVC": ("learns from the records without privacy", _LOGISTIC),
    "LinearRegression": ("learns from the records without privacy", "use PrivateRidge"),
    "Ridge": ("learns from the records without privacy", "use PrivateRidge"),
    "HuberRegressor": (
        "learns from the records without privacy",
        "use PrivateRidge(loss='huber')",
    ),
    "VotingClassifier": (
        _LABELS,
        _PASS,
    ),
    "OneVsRestClassifier": (
        _LABELS,
        f"use PrivateSoftmaxRegression, which does not split the budget; or {_PASS}",
    ),
    "MultiOutputClassifier": (
        _LABELS,
        _PASS,
    ),
    "VotingRegressor": (
        "is counted by its parts",
        _PASS,
    ),
    "MultiOutputRegressor": (
        "is counted by its parts",
        _PASS,
    ),
    "_BaseStacking": (
        "fits each model once more in every fold, and its final_estimator learns from the records",
        "average models, by VotingClassifier or VotingRegressor",
    ),
    "BaseBagging": (
        "gives its models copies of records (k copies cost as k records) and seeds their noise",
        "use one model, with the whole budget",
    ),
    "CalibratedClassifierCV": (
        "fits models that it does not keep, and learns probabilities without privacy",
        _CALIBRATES,
    ),
    "TunedThresholdClassifierCV": (
        "learns its threshold from the records without privacy",
        "use FixedThresholdClassifier with a public threshold",
    ),
    "OneVsOneClassifier": (
        "chooses records by their labels, so that it shows how many have each",
        "use PrivateSoftmaxRegression",
    ),
    "OutputCodeClassifier": (
        _LABELS,
        "use PrivateSoftmaxRegression",
    ),
    "SelfTrainingClassifier": (
        "chooses records by their labels, so that it shows how many have one",
        "fit the model on the labelled records",
    ),
}


# Of these, some parameters leave nothing to be learnt but the number of columns: what they do then.
# Parameters of seeds and of the number of components do not read records.
_FREE_WITH: dict[str, tuple[Callable[[Any], bool], str]] = {
    "SplineTransformer": (
        lambda step: not isinstance(step.knots, str) and step.extrapolation != "error",
        "has public knots",
    ),
    "TfidfTransformer": (lambda step: not step.use_idf, "acts on each row by itself"),
    "GaussianRandomProjection": (lambda step: True, "draws a map without looking at records"),
    "SparseRandomProjection": (lambda step: True, "draws a map without looking at records"),
}
# numpy's functions that take each number by itself, with public arguments
_WITH_ARGUMENTS = {
    np.digitize: {"bins", "right"},
    np.clip: {"a_min", "a_max"},
    np.interp: {"xp", "fp", "left", "right", "period"},
}

_COMPOSITE = (Pipeline, FeatureUnion, ColumnTransformer)
# what a step learns that its rows' shape says
_PUBLIC = ("n_features_in_", "feature_names_in_", "_n_features_out")


class Verdict(NamedTuple):
    """Verdict on a step, in one line.

    Parameters
    ----------
    why : str
        Why it may carry something of the records into what it does, with the remedy; or why not.
    leaks : bool, default=True
        Which of these two.
    """

    why: str
    leaks: bool = True


def _free(why: str) -> Verdict:
    return Verdict(why, False)


def reads_records(step: Any) -> str | None:
    """Return why a step may reveal something of the records; None if all it learns is public."""
    return next((verdict.why for _, verdict in verdicts(step) if verdict.leaks), None)


def verdicts(step: Any, name: str = "") -> Iterator[tuple[str, Verdict]]:
    """Yield the name and the verdict of a step; of a composite one, of each of its parts."""
    if type(step) is FrozenEstimator:
        yield from verdicts(step.estimator, name)
    elif type(step) in _COMPOSITE:
        for part_name, part in _named_parts(step):
            yield from verdicts(part, joined(name, part_name))
        reason = chooses_by_records(step) if isinstance(step, ColumnTransformer) else None
        if reason is not None:
            yield name, Verdict(reason)
    else:
        yield name, verdict(step)


def forget_rows(fitted: Any, fresh: Any) -> None:
    """Return steps that need no fit to their state before one: they may have kept rows.

    ``fresh`` is the same estimator before the fit.
    """
    before = dict(_leaves(fresh))
    for name, step in _leaves(fitted):
        if name in before and _verdict.dispatch(type(step)) is _verdict.dispatch(object):
            public = {key: vars(step)[key] for key in _PUBLIC if key in vars(step)}
            step.__dict__ = vars(before[name]) | public


def _leaves(step, name=""):
    """Yield the name and the step for each part before the model, of composite ones for theirs."""
    if type(step) is FrozenEstimator:
        yield from _leaves(step.estimator, name)
    elif type(step) in _COMPOSITE:
        for part_name, part in _named_parts(step, "transformers_"):
            yield from _leaves(part, joined(name, part_name))
    elif hasattr(step, "transform"):
        yield name, step


def joined(name: str, part: str) -> str:
    """Return the name of a part of a composite step, as parameters are named."""
    return f"{name}__{part}" if name and part else name or part


def verdict(step: Any) -> Verdict:
    """Judge one step that has no parts."""
    with_rule = {*_verdict.registry, *_COMPOSITE, FrozenEstimator}
    ruled = next(kind for kind in type(step).__mro__ if kind in with_rule)
    if ruled not in (type(step), object):
        # a pipeline of another library, whose samplers say more
        parts = [part for _, part in step.steps] if ruled is Pipeline else []
        for part in parts:
            if hasattr(part, "fit_resample"):
                return _verdict(part)
        return Verdict(
            f"{type(step).__name__} may learn from the records what {ruled.__name__} does not. "
            f"{_TAG}"
        )
    return _verdict(step)


@singledispatch
def _verdict(step):
    kind = type(step).__name__
    if has_own(step, "privacy_cost") or has_own(step, "privacy_"):
        return Verdict(f"{kind} spends a budget of its own, which is not counted here")
    free, why = _FREE_WITH.get(kind, (None, ""))
    if free is not None and type(step).__module__.startswith("sklearn.") and free(step):
        return _free(f"{kind} {why}")
    if hasattr(step, "fit_resample"):
        return Verdict(
            f"{kind} copies or leaves out records by their labels, and shows how many have each: "
            "leave it out, and weigh classes by class_weight"
        )
    learner = next((base for base in type(step).__mro__ if base.__name__ in _LEARNS), None)
    if learner is not None:
        reads, remedy = _LEARNS[learner.__name__]
        return Verdict(f"{kind} {reads}: {remedy}")
    transforms = hasattr(step, "transform") and hasattr(step, "__sklearn_tags__")
    # Exclude predictors: nearest-neighbour models store the training rows
    if transforms and not get_tags(step).requires_fit:
        return _free(f"{kind} acts on each row by itself")
    if any(hasattr(step, name) for name in ("estimator", "estimators")):
        return Verdict(
            f"{kind} learns from the records without privacy. Nor is a total known of the private "
            "fits inside it, if it draws copies of records, chooses records by their labels, fits "
            "more than it keeps, or learns itself"
        )
    advice = f" {_TAG}" if transforms else ""
    return Verdict(f"{kind} learns from the records without privacy.{advice}".rstrip("."))


for _kind, _why in {
    type(None): "hands rows on",
    BoundsScaler: "BoundsScaler scales by public bounds",
    RowMapper: "RowMapper maps each row by itself",
    PolynomialFeatures: "PolynomialFeatures acts on each row by itself",
}.items():
    _verdict.register(_kind, lambda step, why=_why: _free(why))


@_verdict.register
def _(step: str):
    if step in ("passthrough", "drop"):
        return _free("hands columns on" if step == "passthrough" else "drops columns")
    return Verdict(f"{quoted(step)} is no step")


@_verdict.register(OneHotEncoder)
@_verdict.register(OrdinalEncoder)
def _(step):
    kind = type(step).__name__
    if (
        isinstance(step.categories, str)
        or step.min_frequency is not None
        or step.max_categories is not None
    ):
        return Verdict(
            f"{kind} learns categories from the records: pass categories=[[...], ...], without "
            "min_frequency and max_categories"
        )
    dropped = getattr(step, "drop", None) is not None and step.handle_unknown != "error"
    if dropped or step.handle_unknown == "warn":
        return Verdict(
            f"{kind}(handle_unknown={step.handle_unknown!r}) warns of records: pass another "
            "handle_unknown"
        )
    return _free(f"{kind} encodes public categories")


@_verdict.register
def _(step: SimpleImputer):
    if step.strategy != "constant" or not step.keep_empty_features or step.add_indicator:
        return Verdict(
            "SimpleImputer learns from the records: pass strategy='constant', fill_value=..., "
            "keep_empty_features=True, add_indicator=False"
        )
    if step.fill_value is None:  # 0, or text as soon as a column of numbers holds some
        return Verdict(
            "SimpleImputer(fill_value=None) learns from the records whether to fill in 0 or text: "
            "pass fill_value"
        )
    return _free("SimpleImputer fills in a public value")


@_verdict.register
def _(step: MissingIndicator):
    if step.features != "all":
        return Verdict(
            "MissingIndicator learns which columns have missing values: pass features='all'"
        )
    return _free("MissingIndicator acts on each row by itself")


@_verdict.register
def _(step: FunctionTransformer):
    if step.inverse_func is not None and step.check_inverse:
        return Verdict(
            "FunctionTransformer warns of records that func and inverse_func change: "
            "pass check_inverse=False"
        )
    if step.func is None:
        return _free("FunctionTransformer hands rows on")
    arguments = set(step.kw_args or {})
    by_number = not arguments if acts_on_each_number(step.func) else _takes(step.func, arguments)
    name = getattr(step.func, "__name__", "func")
    if by_number:
        return _free(f"FunctionTransformer({name}) acts on each number by itself")
    if getattr(step.func, "row_wise", False) is True:
        return _free(f"FunctionTransformer({name}) acts on each row by itself, {_AS_YOU_SAY}")
    with_arguments = ", with kw_args," if arguments else ""
    return Verdict(
        f"FunctionTransformer({name}){with_arguments} may mix records: only numpy's functions of "
        "single numbers are known not to. If it is yours, and looks at each row by itself, say so "
        "by its attribute row_wise = True"
    )


def chooses_by_records(step: ColumnTransformer) -> str | None:
    """Return why a choice of a ColumnTransformer may depend on records."""
    if any(callable(columns) for *_, columns in step.transformers):
        return "ColumnTransformer chooses columns by a function of the records: name them"
    parts = [part for _, part in _named_parts(step)]
    if step.sparse_threshold == 0 or all(type(part) is BoundsScaler for part in parts):
        return None
    # if one of its parts is sparse, it counts the stored values of all records together
    return (
        f"Pass sparse_threshold=0 to ColumnTransformer: with {step.sparse_threshold!r} it may "
        "choose between sparse and dense rows by how many values of all records are zero"
    )


def changes_target(step: TransformedTargetRegressor) -> str | None:
    """Return why the change of a target may depend on the records, or warn of them; or None."""
    kind = type(step).__name__
    if step.transformer is not None:
        reason = reads_records(step.transformer)
        if reason is not None:
            return f"{kind}(transformer=...): {reason}"
    functions = [function for function in (step.func, step.inverse_func) if function is not None]
    if not all(map(acts_on_each_number, functions)):
        return (
            f"{kind} may mix records: func and inverse_func must be numpy's functions of single "
            "numbers, such as np.log1p and np.expm1"
        )
    if step.check_inverse:
        return (
            f"{kind} warns of targets that func and inverse_func change: pass check_inverse=False"
        )
    return None


def _named_parts(step, fitted=""):
    """Return the names and parts of a composite, without those it drops.

    ``fitted`` is where a ColumnTransformer has parts that it has fitted.
    """
    if isinstance(step, ColumnTransformer):
        parts = [(name, part) for name, part, _ in getattr(step, fitted, step.transformers)]
        parts.append(("remainder", step.remainder))
    else:
        parts = step.steps if isinstance(step, Pipeline) else step.transformer_list
    return [(name, part) for name, part in parts if not (isinstance(part, str) and part == "drop")]


def acts_on_each_number(function: Any) -> bool:
    """Return whether a function is one of numpy's own that take each number by itself."""
    return (
        isinstance(function, np.ufunc)
        and function.signature is None
        and not all("O" in kinds for kinds in function.types)
    )


def _takes(function, arguments):
    """Return whether a function of numpy takes each number by itself with these arguments."""
    public = next((names for known, names in _WITH_ARGUMENTS.items() if known is function), None)
    return public is not None and bool(arguments) and arguments <= public


def believed(estimator: Any) -> tuple[str, ...]:
    """Return the assumptions about steps that rest on the user's word."""
    return tuple(why for _, (why, _) in verdicts(estimator) if why.endswith(_AS_YOU_SAY))


def private_steps(estimator, name=""):
    """Return the steps with a ``privacy_cost``, the model last; others learn nothing private."""
    if isinstance(estimator, Pipeline):
        *before, (last_name, last) = estimator.steps
        scalers = [step for _, step in before if isinstance(step, PrivateScaler)]
        unlike = [
            (path, verdict.why)
            for step_name, step in before
            if not isinstance(step, PrivateScaler)
            for path, verdict in verdicts(step, joined(name, step_name))
            if verdict.leaks
        ]
        if unlike:
            raise ValueError(lines_of(unlike))
        return [*scalers, *private_steps(last, joined(name, last_name))]
    if type(estimator) is FixedThresholdClassifier:  # fits what is inside once
        inside = getattr(estimator, "estimator_", estimator.estimator)
        return private_steps(inside, joined(name, "estimator"))
    if isinstance(estimator, FrozenEstimator):
        raise ValueError(
            f"{quoted(estimator)} is not fitted again: only its first fit cost something, see "
            "total_privacy"
        )
    if not has_own(estimator, "privacy_cost"):
        raise ValueError(
            f"a {type(estimator).__name__} has no privacy_cost: pass an estimator of skdpdyn, or "
            "a Pipeline that ends in one"
        )
    return [estimator]


def lines_of(reasons, head="Without privacy"):
    """Return the text of pairs (name of a step, reason): one line for each."""
    lines = [f"step {name!r}: {why}" if name else why for name, why in dict.fromkeys(reasons)]
    return f"{head}: {lines[0]}" if len(lines) == 1 else "\n  ".join([f"{head}:", *lines])


def costed(estimator):
    """Return the only step with a ``privacy_cost``."""
    *others, model = private_steps(estimator)
    if others:
        raise ValueError(
            f"{others[0]!r} spends a budget of its own, where one budget has to pay for all: "
            "scale by public bounds "
            "(BoundsScaler), or take a search of scikit-learn, which search_privacy counts with "
            "all its steps"
        )
    return model


def with_parameters(estimator, parameters):
    """Return a clone with some of its parameters changed, to clones of the values."""
    return clone(estimator).set_params(
        **{name: clone(value, safe=False) for name, value in parameters.items()}
    )
