"""Lower limits for a claim from one fit, in which each record is one game.

Record i is the i-th unit vector, and its label is a fair coin. If nothing connects the columns,
coefficient i depends only on record i and its own noise. So there are d independent games "which
label did record i have", each protected by the guarantee of the fit. Only fitted attributes are
read.
"""

import math
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import betaincinv, nctdtr, ndtr, ndtri
from sklearn.base import is_classifier

from skdpdyn.audit.results import Audit, Finding, audited
from skdpdyn.core.noise import generators
from skdpdyn.core.schema import apply_schema
from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy import (
    Composition,
    CyclicBatches,
    GaussianDP,
    NoisyGradientDescent,
    PerturbedObjective,
    PerturbedOutput,
    PoissonSubsampled,
    WithoutReplacement,
)
from skdpdyn.privacy.arguments import has_own
from skdpdyn.privacy.guarantees import Guarantee, gdp_mu
from skdpdyn.training.targets import listed

__all__ = ["fits_needed", "is_refuted", "limits", "made_up", "of_gaussian", "of_line", "one_fit"]

_SMALLEST = 100  # games of which a limit is worth reading
_FOR_THRESHOLD = 20  # one game in so many sets the threshold of the others
_GUESSED = 20  # one game in so many is guessed where games are not independent
_SHORT_OF = 0.2  # part of the claim by which the limit of a tight fit may fall short
_SIGNS = math.sqrt(math.pi / 2)  # a limit by signs is so many times as far as one by normal noise
_NOT_NORMAL = 0.01  # p-value below which noise is not taken as normal
_MOST_ROWS = 3  # rows of a person


# --- configurations -------------------------------------------------------------------------------


def one_fit(
    estimator: Any, n_games: int, n_fits: int | None, persons: bool, confidence: float
) -> Audit:
    """Attack one game per record, in ``n_fits`` fits; None: as many as the claim needs."""
    asked = made_up(estimator)
    if n_fits is not None and n_fits < 1:
        raise ValueError(f"n_fits={n_fits} must be at least 1")
    if n_fits is None:
        claim = asked.privacy_cost(n_games, n_games)
        n_fits = fits_needed(claim, n_games, confidence)
    fitted, measure, found = limits(asked, n_games, n_fits, persons, confidence)
    return audited("one fit", measure, fitted, found)


def outer_targets(estimator: Any) -> tuple[Any, Any] | None:
    """Return the least and the largest target, or None for an estimator without targets."""
    if hasattr(estimator, "classes"):
        labels = listed(estimator.classes)
        classes = [0, 1] if labels is None else list(labels)
        return classes[0], classes[-1]
    if hasattr(estimator, "target_bounds"):
        low, high = listed(estimator.target_bounds) or (0.0, 1.0)
        return low, high
    return None


def made_up(estimator: Any) -> Any:
    """Return a configuration with the public facts of made-up data in place of its own.

    How it learns stays as it is: solver, relation, map of rows, intercept.
    """
    asked = apply_schema(copy(estimator))
    targets = outer_targets(asked)
    if targets is None or not has_own(estimator, "predict") or has_own(estimator, "interactions"):
        raise UnsupportedMechanismError(
            f"a {type(estimator).__name__} has no coefficient for each column of unit vectors: use "
            "kind='replay'"
        )
    facts: dict[str, Any] = {
        "schema": None,
        "bounds": None,
        "categories": None,
        "random_state": None,
        "weight_bounds": None,
        "start": None,
    }
    if not isinstance(getattr(asked, "conditioning", None), str):
        facts["conditioning"] = None  # a map that is given is of other columns
    norm = getattr(asked, "data_norm", None)
    facts["data_norm"] = norm if isinstance(norm, (int, float)) else 1.0
    if isinstance(getattr(asked, "classes", None), str) or getattr(asked, "classes", 0) is None:
        facts["classes"] = list(targets)
    if listed(getattr(asked, "target_bounds", None)) is None:
        facts["target_bounds"] = targets
    taken = asked.get_params()
    return asked.set_params(**{name: value for name, value in facts.items() if name in taken})


def fits_needed(guarantee: Guarantee, n_games: int, confidence: float) -> int:
    """Return how many fits show most of the claim of a fit that leaks all that it claims.

    Parameters
    ----------
    guarantee : Guarantee
        The claim.
    n_games : int
        Records of one fit.
    confidence : float
        Probability that a true claim passes.

    Returns
    -------
    int
        So many that the limit by signs falls short by a fifth of the claim, on average.
    """
    risk = (1 - confidence) / 2
    error = -2 * _SIGNS * ndtri(risk)  # of one game
    return max(1, math.ceil((error / (_SHORT_OF * _of_advantage(guarantee))) ** 2 / n_games))


def _of_advantage(guarantee: Guarantee) -> float:
    """Return the mu of Gaussian privacy at which a label is guessed as often as under a claim."""
    return float(2 * ndtri((1 + guarantee.advantage) / 2))


def _each_alone(fitted: Any) -> bool:
    """Return whether a coefficient depends on records and noise of its own column alone."""
    record = fitted.mechanism_
    parts = record.mechanisms if isinstance(record, Composition) else (record,)
    if getattr(fitted, "fit_intercept", True) or getattr(record, "names", None) is not None:
        return False
    steps = NoisyGradientDescent, CyclicBatches, WithoutReplacement, PoissonSubsampled
    for part in parts:
        if isinstance(part, (PerturbedOutput, PerturbedObjective)):
            if part.distribution != "gaussian":
                return False
        elif not isinstance(part, steps) or getattr(part, "diameter", None) is not None:
            return False
    return True


# --- games ----------------------------------------------------------------------------------------


def _games(estimator: Any, n_games: int, persons: bool) -> tuple[Any, np.ndarray, np.ndarray]:
    """Fit once; return the model, a score of each record, and its coin."""
    (generator,) = generators(None)
    coins = generator.integers(0, 2, n_games)
    owners = np.arange(n_games)
    if persons:
        owners = np.repeat(owners, generator.integers(1, _MOST_ROWS + 1, n_games))
    low, high = outer_targets(estimator)  # type: ignore[misc]
    values = np.full(len(owners), float(estimator.data_norm))
    targets = np.where(coins == 1, high, low)[owners]
    removed = str(estimator.adjacency) == "add_remove"
    if removed:  # a row of zeros adds nothing, as if it were not there
        values *= coins[owners]
        targets = np.where(owners == 0, low, high)
    X = sparse.csr_array((values, (np.arange(len(owners)), owners)), shape=(len(owners), n_games))
    groups = {"groups": owners} if persons else {}
    fitted = estimator.fit(X, targets, **groups)
    coefficients = np.atleast_2d(fitted.coef_)
    if is_classifier(fitted) and len(coefficients) > 1:
        scores = coefficients[-1] - coefficients[0]
    else:
        scores = coefficients.mean(axis=0)
    first = int(removed)  # the one record of the other class is no game
    return fitted, scores[first:], coins[first:]


def limits(
    estimator: Any, n_games: int, n_fits: int, persons: bool, confidence: float
) -> tuple[Any, str, list[Finding]]:
    """Attack fits of a configuration with the facts of made-up data.

    Parameters
    ----------
    estimator : estimator
        From `made_up`.
    n_games : int
        Records of each fit, or persons.
    n_fits : int
        Number of fits.
    persons : bool
        Whether a person has one to three rows, of one label.
    confidence : float
        Probability that a true claim passes.

    Returns
    -------
    fitted : estimator
        The last fit.
    measure : str
        What the limits are, and by which theorem.
    list of Finding
    """
    if n_games < _SMALLEST:
        raise ValueError(f"shape={n_games} must be at least {_SMALLEST} records: one game each")
    with_others = getattr(estimator, "fit_intercept", True) or estimator.conditioning is not None
    if str(estimator.adjacency) == "add_remove" and with_others:
        raise UnsupportedMechanismError(
            "adjacency='add_remove': a row of zeros stands for a record that is not there, which "
            "an intercept and a map of rows would see: set fit_intercept=False and "
            "conditioning=None, or use kind='replay'"
        )
    all_scores = []
    all_coins = []
    for _ in range(n_fits):
        fitted, scores, coins = _games(estimator, n_games, persons)
        all_scores.append(scores)
        all_coins.append(coins)
    score = np.concatenate(all_scores)
    coin = np.concatenate(all_coins).astype(bool)
    games = f"{n_fits} fit{'s' if n_fits > 1 else ''} of {n_games:,} games"
    if not _each_alone(fitted):
        unit, finding = _without_independence(fitted, score, coin, 1 - confidence)
        by = "Mahloujifar, Melis and Chaudhuri (2024), who need no independence"
        return fitted, f"lower limit of {unit}, confidence {confidence:g}, {games}; {by}", [finding]
    claim = _of_advantage(fitted.privacy_)
    risk = (1 - confidence) / 2
    found = [Finding("mu, by signs", claim, _by_signs(score, coin, risk))]
    others = ""
    if is_normal(score[coin], score[~coin]):
        # the claim holds at delta too, where normal noise would show more
        claim = min(claim, gdp_mu(fitted.epsilon_, fitted.delta_))
        found.append(Finding("mu, by normal noise", claim, _by_normal_noise(score, coin, risk)))
    else:
        others = "; noise is not normal"
    measure = f"lower limits, confidence {confidence:g}, {games}, which are independent{others}"
    return fitted, measure, found


# --- limits ---------------------------------------------------------------------------------------


def _by_signs(score: np.ndarray, coin: np.ndarray, risk: float) -> float:
    """Return a limit on mu by the share of labels that are guessed right, whatever the noise.

    Some games set the threshold of the others. Clopper and Pearson (1934).
    """
    n_aside = len(score) // _FOR_THRESHOLD
    threshold = np.median(score[:n_aside])
    right = (score[n_aside:] > threshold) == coin[n_aside:]
    n_right = int(np.sum(right))
    if n_right == 0:
        return 0.0
    share = betaincinv(n_right, len(right) - n_right + 1, risk)
    return max(0.0, float(2 * ndtri(share)))


def is_normal(*samples: np.ndarray) -> bool:
    """Return whether no test finds two samples other than normal, of one deviation.

    Skewness and kurtosis (Jarque and Bera 1980) of each, and the ratio of variances.
    """
    values = []
    for sample in samples:
        unit = (sample - np.mean(sample)) / np.std(sample)
        skewness = np.mean(unit**3)
        excess = np.mean(unit**4) - 3
        values.append(math.exp(-len(sample) / 12 * (skewness**2 + excess**2 / 4)))
    here, there = samples
    spread = math.sqrt(2 / len(here) + 2 / len(there))
    ratio = math.log(np.var(here) / np.var(there))
    values.append(2 * float(ndtr(-abs(ratio) / spread)))
    return min(values) > _NOT_NORMAL / len(values)


def _by_normal_noise(score: np.ndarray, coin: np.ndarray, risk: float) -> float:
    """Return a limit on the distance of two normal laws in units of their deviation."""
    here = score[coin]
    there = score[~coin]
    freedom = len(score) - 2
    squares = np.var(here) * len(here) + np.var(there) * len(there)
    per_unit = math.sqrt(1 / len(here) + 1 / len(there))
    seen = (np.mean(here) - np.mean(there)) / math.sqrt(squares / freedom) / per_unit
    low = seen - 20.0
    high = seen
    for _ in range(60):
        middle = (low + high) / 2
        if 1 - nctdtr(freedom, middle, seen) < risk:
            low = middle
        else:
            high = middle
    return max(0.0, float(low * per_unit))


def _without_independence(
    fitted: Any, score: np.ndarray, coin: np.ndarray, risk: float
) -> tuple[str, Finding]:
    """Return a limit that holds however games depend on each other, and its parameter."""
    far = np.abs(score - np.median(score))
    guessed = np.argsort(-far)[: max(1, len(score) // _GUESSED)]
    right = (score[guessed] > np.median(score)) == coin[guessed]
    n_right = int(np.sum(right))
    counts = n_right, len(guessed), len(score)
    claim = fitted.privacy_
    if isinstance(claim, GaussianDP):
        limit = _least(lambda mu: is_refuted(of_gaussian(mu), *counts, risk), 20.0)
        return "mu", Finding("mu, by the farthest", claim.mu, limit)
    delta = fitted.delta_
    limit = _least(lambda epsilon: is_refuted(of_line(epsilon, delta), *counts, risk), 50.0)
    return "epsilon", Finding("epsilon, by the farthest", fitted.epsilon_, limit)


def of_gaussian(mu: float) -> Callable[[float], float]:
    """Return the least false positive rate, at a true positive rate, of mu-GDP."""
    return lambda caught: float(ndtr(ndtri(caught) - mu))


def of_line(epsilon: float, delta: float) -> Callable[[float], float]:
    """Return the least false positive rate, at a true positive rate, of (epsilon, delta)."""
    growth = math.exp(epsilon)
    return lambda caught: max(0.0, (caught - delta) / growth, 1 - delta - growth * (1 - caught))


def is_refuted(
    false_rate: Callable[[float], float], n_right: int, n_guessed: int, n_games: int, risk: float
) -> bool:
    """Return whether so many right guesses have a probability below ``risk`` under a claim.

    Guesses may depend on each other and on everything that is published; their number is fixed.
    Let p_t be the probability of t right guesses. For every t the claim bounds the sum of
    ``u p_u / n_games`` over u >= t, a true positive rate, by that of ``(n_guessed - u) p_u /
    n_games`` over u >= t - 1, a false one. If ``n_right`` or more had probability ``risk``, all
    p_t together would have to exceed 1 (Mahloujifar, Melis and Chaudhuri 2024).
    """
    caught = risk * n_right / n_games
    false = risk * (n_guessed - n_right) / n_games
    for t in range(n_right, 0, -1):
        needed = max(false, false_rate(caught))
        caught += (t - 1) / (n_guessed - t + 1) * (needed - false)
        false = needed
        if caught + false > n_guessed / n_games:
            return True
    return False


def _least(is_false: Callable[[float], bool], most: float) -> float:
    """Return the largest parameter found to be refuted, 0 if none is."""
    if not is_false(0.0):
        return 0.0
    low = 0.0
    high = most
    for _ in range(30):
        middle = (low + high) / 2
        if is_false(middle):
            low = middle
        else:
            high = middle
    return low
