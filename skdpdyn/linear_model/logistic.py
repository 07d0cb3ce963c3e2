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

    Minimizes ``mean of log-losses + (alpha/2) |theta|^2`` by noisy gradient descent, and releases
    the last iterate. The budget pays for everything that is computed from the records. It
    determines the noise and the number of steps, by the smallest privacy bound that applies. Rows
    whose norm exceeds ``data_norm`` are scaled down to it, both in ``fit`` and in ``predict``, so
    ``coef_`` applies to scaled rows. Every "auto" follows from the shape of X, the budget and
    ``data_norm``, or is bought (estimated with a part of the budget).

    With enough records, a part of the budget first buys a preprocessing of rows that gives all
    directions a similar scale, see ``conditioning``. Training then takes few and long steps, only
    the composition bound holds, and ``coef_`` applies to rows that preprocessing does not scale
    down.

    Parameters
    ----------
    clip : float or "auto", default="auto"
        Bound on the norm of one record's loss gradient, in units of ``data_norm``. The clipped
        gradient is the gradient of another convex loss, so every privacy bound holds. A smaller
        clip means less noise, but probabilities that are less calibrated. "auto": between half of
        the largest possible gradient norm and no clipping. It increases with n mu divided by the
        number of columns, where n is the number of records and mu the parameter of Gaussian
        differential privacy (see `skdpdyn.privacy.GaussianDP`).

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

        Without ``class_weight``, the mean probability of the second class is near the share of this
        class if training starts at the bought share. From about 1,800 records at epsilon 1 on, the
        mean residual is bought after training (see `skdpdyn.core.rules`), and the two agree up to
        the noise. The fit does not show whether probabilities are calibrated within groups:
        `skdpdyn.evaluation.evaluate` buys a calibration curve. If you set ``clip`` below the
        largest possible gradient norm, probabilities are biased towards 1/2.

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
