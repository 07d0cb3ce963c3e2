"""Private logistic regression."""

from importlib import import_module
from typing import Any

import numpy as np
from scipy.special import log_expit

from skdpdyn.core import rules
from skdpdyn.core.losses import LOGIT, logistic
from skdpdyn.linear_model.base import PrivateLinearClassifier
from skdpdyn.training.base import by_blocks
from skdpdyn.training.parts import ClassShares
from skdpdyn.training.targets import Labels
from skdpdyn.training.values import Family


class PrivateLogisticRegression(PrivateLinearClassifier):
    """Binary logistic regression under (epsilon, delta)-differential privacy.

    Minimises ``mean of log-losses + (alpha/2) |theta|^2`` by noisy gradient descent and releases
    the last iterate. The budget pays for everything that is computed from records. The budget
    determines the noise and the number of steps, by the smallest privacy bound that applies. Rows
    are scaled into the ball of radius ``data_norm``, in fit and in prediction alike, so ``coef_``
    applies to scaled rows. Every "auto" follows from the shape of X, the budget and ``data_norm``,
    or is bought.

    With enough records, a part of the budget first learns a map of rows that gives all directions a
    similar scale, see ``conditioning``. Then ``coef_`` applies to rows that the map does not
    shorten, training takes few and long steps, and only the composition bound holds.

    Parameters
    ----------
    clip : float or "auto", default="auto"
        Bound on the norm of one record's loss gradient, in units of ``data_norm``. The clipped
        gradient is the gradient of another convex loss, so every privacy bound holds. A smaller
        clip means less noise, and probabilities that are less calibrated. "auto": between half of
        the largest possible gradient norm and no clipping, larger with n mu relative to the number
        of columns.

    References
    ----------
    R. Chourasia, J. Ye, R. Shokri (2021), Differential privacy dynamics of Langevin diffusion and
    noisy gradient descent. J. Bok, W. Su, J. Altschuler (2024), Shifted interpolation for
    differential privacy.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, (5000, 2))
    >>> y = X @ [1.0, -2.0] > 0
    >>> model = PrivateLogisticRegression(epsilon=1.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95), round(model.epsilon_, 6)
    (True, 1.0)
    """

    family = Family(
        logistic,
        Labels(most=2),
        clip=rules.logistic_clip,
        units=ClassShares(),
        twin=lambda: import_module("sklearn.linear_model").LogisticRegression(),
    )

    @by_blocks
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities.

        Without ``class_weight`` their mean is near the share of the second class where training
        starts at it, and within noise of it from about 1,800 records at epsilon 1 on, when the mean
        residual is bought after training (see `skdpdyn.core.rules`). Whether they are right group
        by group is not known from the fit: `skdpdyn.evaluation.evaluate` buys a calibration curve.
        With a ``clip`` of your own below the largest possible gradient norm, probabilities are
        biased towards 1/2.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, 2)
        """
        raw = self._raw_predictions(X)[:, 0]
        return np.column_stack([LOGIT.mean(-raw), LOGIT.mean(raw)])

    @by_blocks
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of the class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, 2)
        """
        raw = self._raw_predictions(X)[:, 0]
        return np.column_stack([log_expit(-raw), log_expit(raw)])
