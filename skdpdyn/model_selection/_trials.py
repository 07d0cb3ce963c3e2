"""The trials of a private search: their number, the cost of each, and how one is run."""

import math
from contextlib import nullcontext
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from functools import lru_cache
from typing import NamedTuple

from sklearn import config_context
from sklearn.pipeline import Pipeline

from skdpdyn.exceptions import CalibrationError
from skdpdyn.privacy import GaussianDP
from skdpdyn.privacy._numerics import safe_root
from skdpdyn.training.base import quoting_no_records, silent_arithmetic
from skdpdyn.training.foreign import SILENCE

# of the law of the number of trials; a shape of 5e-324 leaves 280 of the digits
_DIGITS = Context(prec=600, Emin=MIN_EMIN, Emax=MAX_EMAX)
_BYTES = 80
_NOTHING = Decimal("1e-160")


def run_trial(estimator, score, X, y, X_held, y_held, arguments=({}, {})):
    """Fit a candidate, and return it with its exact score.

    ``arguments`` are those that its model is given of each row by name, and what the score is.
    """
    of_rows, of_held = arguments
    # in this worker; a warning for each trial would tell how many there were
    with SILENCE, silent_arithmetic():
        named = {name_of(name, estimator): values for name, values in of_rows.items()}
        # by name, whatever is requested
        with config_context(enable_metadata_routing=False) if named else nullcontext():
            quoting_no_records(estimator.fit, X, y, **named)
        return estimator, quoting_no_records(score.mean, estimator, X_held, y_held, **of_held)


def name_of(parameter, estimator):
    """Return the name by which the model at the end of an estimator is given a parameter."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return f"{name}__{name_of(parameter, last)}"
    return parameter


def number_of_trials(mechanism, generator):
    """Draw from the record's law by inversion: P(k+1)/P(k) = (1 - gamma) (k + shape) / (k + 1).

    Uniform number and probabilities have hundreds of digits, so that the law is off by less than
    1e-150 (the distance in total variation), which no guarantee pays for.
    """
    parameters = mechanism.expected_trials, mechanism.shape, mechanism.halting_probability
    law = _law_from(*parameters)
    number = law.number
    probability = law.probability
    with localcontext(_DIGITS):
        left = Decimal(int.from_bytes(generator.bytes(_BYTES))) / 256**_BYTES
        while left >= probability and left > _NOTHING:
            left -= probability
            number += 1
            probability *= law.ratio / number
            if law.shape is not None:
                probability *= number - 1 + law.shape
    return number


class _Law(NamedTuple):
    """The law of the number of trials, as inversion steps through it."""

    number: int  # the least
    probability: Decimal  # of that number
    ratio: Decimal
    shape: Decimal | None  # None: infinite


@lru_cache(maxsize=16)
def _law_from(expected_trials, shape, halting_probability):
    """Return the law of a record with these parameters.

    Gamma is rounded up: its law has a smaller mean, and costs less.
    """
    with localcontext(_DIGITS):
        if shape == math.inf:
            mean = Decimal(expected_trials)
            return _Law(0, (-mean).exp(), mean, None)
        gamma = Decimal(min(1.0, halting_probability * (1 + 1e-9)))
        shape = Decimal(shape)
        ratio = 1 - gamma
        if not ratio:
            return _Law(1, Decimal(1), ratio, shape)
        log = gamma.ln()
        first = shape / ((-shape * log).exp() - 1) if shape else -1 / log
        return _Law(1, ratio * first, ratio, shape)


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

    def log_room(log_noise):
        return -math.log(excess(math.exp(-log_noise)))

    return math.exp(-safe_root(log_room, -math.log(start), 0.1, xtol=5e-5))
