"""Sources of the cost of a fit."""

from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from skdpdyn.model_selection._steps import joined, verdicts
from skdpdyn.preprocessing import PrivateScaler


def private_steps(estimator, row_wise=(), name=""):
    """Return the steps with a ``privacy_cost``, the model last; others may learn nothing private.

    Of FunctionTransformers, ``row_wise`` holds the names of functions that the user vouches for.
    """
    if isinstance(estimator, Pipeline):
        *before, (last_name, last) = estimator.steps
        scalers = [step for _, step in before if isinstance(step, PrivateScaler)]
        unlike = [
            (path, verdict.why)
            for step_name, step in before
            if not isinstance(step, PrivateScaler)
            for path, verdict in verdicts(step, joined(name, step_name), row_wise)
            if verdict.leaks
        ]
        if unlike:
            raise ValueError(lines_of(unlike))
        return [*scalers, *private_steps(last, row_wise, joined(name, last_name))]
    if isinstance(estimator, FrozenEstimator):
        raise ValueError(
            f"{estimator!r} is not fitted again: only its first fit cost something, see "
            "total_privacy"
        )
    if not hasattr(estimator, "privacy_cost"):
        raise ValueError(
            f"{estimator!r} has no privacy_cost: pass an estimator of skdpdyn, or a Pipeline "
            "that ends in one"
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
