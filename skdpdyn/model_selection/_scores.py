"""Scores of a private search: means over records of numbers in [0, 1].

A new score is a class with ``width`` and ``terms``, and an entry in the table of its kind, whose
first is the default.
"""

import math
from abc import ABC, abstractmethod
from functools import partial

import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor

from skdpdyn.privacy.checks import quoted
from skdpdyn.training.foreign import predicted, quantile_of
from skdpdyn.training.targets import codes_of, most_pinball, pinball_losses


def score_of(scoring, facts, model=None):
    """Return the score of a model by name, with the classes or bounds of targets in ``facts``."""
    fact, kinds = ("classes", _OF_CLASSES) if "classes" in facts else ("target_bounds", _OF_BOUNDS)
    quantile = None if "classes" in facts else quantile_of(model)
    if quantile is not None:
        kinds = {"neg_mean_pinball_loss": partial(PinballLoss, quantile), **kinds}
    name = next(iter(kinds)) if scoring is None else scoring
    if not isinstance(name, str) or name not in kinds:
        raise ValueError(
            f"scoring={quoted(scoring)} must be None or one of {list(kinds)}: a score needs "
            "bounds to be private"
        )
    return kinds[name](facts[fact])


class Score(ABC):
    """A score with its range, and the constant prediction that a search without a trial returns."""

    best = 0.0
    """The largest score in its own units."""

    @property
    @abstractmethod
    def width(self):
        """Range of the score in its own units."""

    @abstractmethod
    def terms(self, estimator, X, y, exposure=None):
        """Return the score of each record, 1 for the best."""

    @abstractmethod
    def constant(self):
        """Return the constant prediction of a search without a trial, from public numbers alone."""

    def mean(self, estimator, X, y, part=None, exposure=None, weight=None):
        """Return the exact mean over held-out records, which needs noise before it is released.

        ``part`` is that of each row in its person, ``weight`` that of a survey, in [0, 1].
        """
        terms = self.terms(estimator, X, y, exposure)
        # NaN too: one record must not decide
        terms = np.where(terms >= 0, np.minimum(terms, 1.0), 0.0)
        if weight is not None:
            terms = 1 - weight * (1 - terms)
        if part is None:
            return float(np.mean(terms))
        # the mean over persons of the means over their rows
        return math.fsum(part * terms) / round(math.fsum(part))

    def in_units(self, score):
        """Return a mean of terms in units of the score."""
        return float(self.best + (score - 1) * self.width)


class ConstantClassifier(DummyClassifier):
    """Predict the first class, as a model with coefficients of 0 does."""

    def __init__(self):
        super().__init__(strategy="prior")

    def decision_function(self, X):
        """Return zeros (n_samples,), or (n_samples, n_classes) for more than two classes."""
        return np.zeros((len(self.predict(X)),) + (self.n_classes_,) * (self.n_classes_ > 2))


CONSTANTS = (ConstantClassifier, DummyRegressor)


class _OfClasses(Score):
    def __init__(self, classes):
        self.classes = None if classes is None else np.unique(classes)

    def constant(self):
        """Return the first class."""
        return ConstantClassifier().fit(np.zeros((self.classes.size, 1)), self.classes)


class Accuracy(_OfClasses):
    """Part of the records whose label is predicted correctly."""

    best = width = 1.0

    def terms(self, estimator, X, y, exposure=None):
        """Return whether each label is predicted, 0 for labels that are not classes."""
        codes = codes_of(y, self.classes)
        answers = codes_of(predicted(estimator, "predict", X, y.size), self.classes)
        return ((codes == answers) & (codes >= 0)).astype(float)


class LogLoss(_OfClasses):
    """Negative log loss, clipped at 3 log(number of classes)."""

    @property
    def width(self):
        """Limit at which the loss is clipped."""
        return 3 * math.log(self.classes.size)

    def terms(self, estimator, X, y, exposure=None):
        """Return scaled log probabilities of the labels, 0 for labels that are not classes."""
        codes = codes_of(y, estimator.classes_)
        log_proba = predicted(estimator, "predict_log_proba", X, y.size)[np.arange(y.size), codes]
        return np.where(codes < 0, 0.0, 1 + log_proba / self.width)


class _ErrorOfNumbers(Score):
    def __init__(self, bounds):
        self.bounds = None if bounds is None else tuple(map(float, bounds))

    def constant(self):
        """Return the middle of the bounds."""
        return DummyRegressor(strategy="constant", constant=sum(self.bounds) / 2).fit([[0]], [0.0])


class PinballLoss(_ErrorOfNumbers):
    """Negative mean pinball loss of targets and predictions within the bounds."""

    def __init__(self, quantile, bounds):
        super().__init__(bounds)
        self.quantile = quantile

    @property
    def width(self):
        """The largest loss."""
        return most_pinball(self.quantile, *self.bounds)

    def terms(self, estimator, X, y, exposure=None):
        """Return a term for each record from the loss of its prediction."""
        found = predicted(estimator, "predict", X, y.size)
        return 1 - pinball_losses(found, y, self.quantile, *self.bounds)[0] / self.width


class SquaredError(_ErrorOfNumbers):
    """Negative mean squared error of targets and predictions within the bounds.

    For counts with an exposure, the prediction is the expected count: rate times exposure.
    """

    @property
    def width(self):
        """The largest error."""
        return (self.bounds[1] - self.bounds[0]) ** 2

    def terms(self, estimator, X, y, exposure=None):
        """Return a term for each record from the error of its prediction."""
        rates = predicted(estimator, "predict", X, y.size)
        error = np.clip(rates * (1 if exposure is None else exposure), *self.bounds) - np.clip(
            y, *self.bounds
        )
        return 1 - error**2 / self.width


_OF_CLASSES = {"accuracy": Accuracy, "neg_log_loss": LogLoss}
_OF_BOUNDS = {"neg_mean_squared_error": SquaredError}
