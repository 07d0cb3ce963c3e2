"""Logistic regression, written once more outside of skdpdyn: the same bits as the built-in one."""

import math

from scipy.special import expit

from skdpdyn.core.losses import Loss, logistic
from skdpdyn.core.rules import logistic_clip
from skdpdyn.linear_model import ClassShares, Family, Labels, PrivateLinearClassifier

again = Loss(
    "logistic again",
    logistic.derivative,
    lipschitz=1.0,
    smoothness=0.25,
    at_zero=math.log(2),
    rounding=4.0,
)
"""The log loss of two classes, for y in {0, 1}."""


class LogisticAgain(PrivateLinearClassifier):
    """Binary logistic regression; parameters are those of `skdpdyn.PrivateLogisticRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2))
    >>> model = LogisticAgain(classes=[False, True]).fit(X, X[:, 0] > 0)
    >>> bool(model.score(X, X[:, 0] > 0) > 0.95)
    True
    """

    family = Family(again, Labels(most=2), clip=logistic_clip, units=ClassShares())

    def predict_proba(self, X):
        """Return the probability of the second class."""
        return expit(self.decision_function(X))
