"""Where training starts, if a start is given: a model that is public, or paid for already.

Every privacy bound holds from any start that does not depend on the records, or that was released
before. Training learns the difference from the start alone: it begins at 0, the penalty and the
ball of a projection are around 0, and nothing else is different but that raw predictions of the
start are added to those of the difference. So the loss at 0 is one at the start: at most the
Lipschitz constant times its norm above the loss of no predictions, and the norm has a public bound,
`LARGEST`. Rounding leaves room for both.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpdyn.core.objective import row_norm_of
from skdpdyn.privacy.checks import quoted
from skdpdyn.training.targets import Targets, listed

LARGEST = 1000.0  # raw prediction of the longest row; no loss asks for more
NUMBERS = "coefficients"  # a start that is no model


@dataclass(frozen=True, eq=False)
class Start:
    """Coefficients in units of X and y, for rows that are not shortened.

    Parameters
    ----------
    coef : ndarray of shape (n_outputs, n_features)
        Coefficients.
    intercept : ndarray of shape (n_outputs,)
        Intercepts.
    label : str
        What a report says they are.
    """

    coef: np.ndarray
    intercept: np.ndarray
    label: str


def encoded(
    targets: Targets, attributes: dict[str, Any], start: Start, centred: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and intercepts of targets as the loss takes them.

    The inverse of `Targets.published`, which multiplies and adds numbers.
    """
    published = [
        targets.published(attributes, np.full((1, 1), x), np.array([x]), centred)
        for x in (0.0, 1.0)
    ]
    low, high = (float(np.ravel(coefficients["intercept_"])[0]) for coefficients in published)
    factor = float(np.ravel(published[1]["coef_"])[0])
    return start.coef / factor, (start.intercept - low) / (high - low)


def largest_start(data_norm: float, intercept_scaling: float) -> float:
    """Return the public bound on the norm of where training starts."""
    return LARGEST / row_norm_of(data_norm, intercept_scaling)


def start_of(model: Any, n_features: int, n_outputs: int) -> Start:
    """Return where an estimator's parameter ``start`` says that training starts.

    Raises
    ------
    ValueError
        If it is no fitted linear model nor coefficients, or is of other columns or classes.
    """
    start = model.start
    if isinstance(start, tuple | list) and len(start) == 2:
        (coef, intercept) = start
        label = NUMBERS
    elif not isinstance(start, type) and hasattr(start, "coef_") and hasattr(start, "intercept_"):
        coef = start.coef_
        intercept = start.intercept_
        label = f"a {type(start).__name__}"
        classes = listed(getattr(model, "classes", None))
        lent = getattr(start, "classes_", None)
        if (
            classes is not None
            and lent is not None
            and not np.array_equal(np.unique(classes), lent)
        ):
            raise ValueError("start has other classes_ than classes: pass a model of the same ones")
        own, lent_names = (getattr(of, "feature_names_in_", None) for of in (model, start))
        if own is not None and lent_names is not None and list(own) != list(lent_names):
            raise ValueError(
                "start has other columns than X, or in another order: pass X[start."
                "feature_names_in_]"
            )
    else:
        raise ValueError(
            f"start={quoted(start)} must be None, a fitted linear model or a pair (coef, "
            "intercept). clone() takes a model's fit away: pass FrozenEstimator(model) of "
            "scikit-learn"
        )
    coef, intercept = _numbers(coef, intercept, model.fit_intercept)
    if coef.shape != (n_outputs, n_features) or intercept.shape not in {(1,), (n_outputs,)}:
        raise ValueError(
            f"start has coefficients of shape {coef.shape} and intercepts of shape "
            f"{intercept.shape}: the data need {(n_outputs, n_features)} and {(n_outputs,)}"
        )
    return Start(coef, np.broadcast_to(intercept, (n_outputs,)), label)


def _numbers(coef, intercept, fit_intercept):
    """Return coefficients and intercepts as arrays of finite numbers."""
    try:
        coef = np.atleast_2d(np.array(coef, dtype=np.float64))
        intercept = np.atleast_1d(np.array(intercept, dtype=np.float64))
    except (TypeError, ValueError):
        raise ValueError("start must hold numbers only") from None
    if not (np.all(np.isfinite(coef)) and np.all(np.isfinite(intercept))):
        raise ValueError("start must hold finite numbers only")
    if not fit_intercept and np.any(intercept):
        raise ValueError("start has an intercept, and fit_intercept=False: pass one of 0")
    return coef, intercept
