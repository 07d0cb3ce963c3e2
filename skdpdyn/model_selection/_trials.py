"""The trials of a private search: their number, what each may spend, and how one is run."""

import math
import threading
import warnings

from scipy import optimize
from sklearn import config_context
from sklearn.pipeline import Pipeline

from skdpdyn.base import quoting_no_records, silent_arithmetic
from skdpdyn.exceptions import CalibrationError
from skdpdyn.privacy import GaussianDP


class _Silence:
    """Silence warnings: `warnings.catch_warnings` restores a wrong state where threads overlap."""

    def __init__(self):
        self._lock, self._inside = threading.Lock(), 0

    def __enter__(self):
        with self._lock:
            if self._inside == 0:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.simplefilter("ignore")
            self._inside += 1

    def __exit__(self, *error):
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._filters.__exit__(*error)


_SILENCE = _Silence()


def run_trial(estimator, score, X, y, X_held, y_held, of_rows=None, of_held=None):
    """Fit a candidate, and return it with its exact score.

    ``of_rows`` is what its model is given of each row by name, ``of_held`` what the score is.
    """
    # in this worker; a warning for each trial would tell how many there were
    with _SILENCE, silent_arithmetic():
        if of_rows:  # by name, whatever is requested
            given = {name_of(name, estimator): values for name, values in of_rows.items()}
            with config_context(enable_metadata_routing=False):
                quoting_no_records(estimator.fit, X, y, **given)
        else:
            quoting_no_records(estimator.fit, X, y)
        return estimator, quoting_no_records(
            score.mean, estimator, X_held, y_held, **(of_held or {})
        )


def name_of(parameter, estimator):
    """Return the name by which the model at the end of an estimator is given a parameter."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return f"{name}__{name_of(parameter, last)}"
    return parameter


def number_of_trials(mechanism, generator):
    """Draw from the record's law by inversion: P(k+1)/P(k) = (1 - gamma) (k + shape) / (k + 1)."""
    if mechanism.shape == math.inf:
        return int(generator.poisson(mechanism.expected_trials))
    gamma, shape, left = mechanism.halting_probability, mechanism.shape, generator.random()
    if gamma == 1:
        return 1
    ratio, number = -math.expm1(math.log(gamma)), 1
    first = 1 / -math.log(gamma) if shape == 0 else shape / math.expm1(-shape * math.log(gamma))
    probability = ratio * first
    while left >= probability > 0:
        left -= probability
        probability *= ratio * (number + shape) / (number + 1)
        number += 1
    return number


def trial_budget(mu, delta):
    """Return the (epsilon, delta) at which a candidate's noise is calibrated to mu, from below."""
    epsilon = GaussianDP(mu * (1 - 1e-9)).epsilon(delta)
    if not epsilon > 0:
        raise CalibrationError(
            f"epsilon is so small that at delta={delta} nothing is left for one trial. Raise "
            "it, or lower delta"
        )
    return {"epsilon": epsilon, "delta": delta}


def largest_mu(excess, start):
    """Return a mu, within 1e-4 of the largest, at which ``excess`` is at most 1."""

    def log_excess(log_mu):
        return math.log(excess(math.exp(log_mu)))

    low = high = math.log(start)
    while log_excess(low) > 0:
        low -= 0.1
    while log_excess(high) <= 0:
        high += 0.1
    root = optimize.brentq(log_excess, low, high, xtol=5e-5)
    while log_excess(root) > 0:
        root -= 5e-5
    return math.exp(root)
