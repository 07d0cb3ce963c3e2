"""Private softmax regression."""

from importlib import import_module
from typing import Any

import numpy as np
from scipy.special import log_softmax

from skdpdyn.core import losses, rules
from skdpdyn.linear_model.base import PrivateLinearClassifier
from skdpdyn.training.base import by_blocks
from skdpdyn.training.parts import ClassShares
from skdpdyn.training.targets import Labels
from skdpdyn.training.values import Family


def _loss(classes):
    if classes is None:
        raise ValueError("classes: the privacy cost depends on their number. Pass classes=[...]")
    return losses.softmax(classes.size)


class PrivateSoftmaxRegression(PrivateLinearClassifier):
    """Multinomial logistic regression under (epsilon, delta)-differential privacy.

    Learns all classes at once: one record moves one joint gradient, so the budget is not split
    among the classes. Minimises ``mean of multinomial log-losses + (alpha/2) |theta|^2`` by noisy
    gradient descent and releases the last iterate. Rows are scaled into the ball of radius
    ``data_norm``, in fit and in prediction alike, so ``coef_`` applies to scaled rows. Every "auto"
    follows from the shape of X, the number of classes, the budget and ``data_norm``, or is bought.

    Where ``clip`` is below the largest gradient, as it is by default, an update need not contract.
    Then only the composition bound holds, ``bound_`` says so, and steps may be large. Without
    clipping (``clip`` of at least sqrt(2) times ``data_norm`` and its intercept column) the
    last-iterate bounds apply, at the price of more noise.

    With enough records, a part of the budget first learns a map of rows that gives all directions a
    similar scale, see ``conditioning``. Then ``coef_`` applies to rows that the map does not
    shorten, training takes few and long steps, and only the composition bound holds.

    Parameters
    ----------
    clip : float or "auto", default="auto"
        Bound on the norm of one record's loss gradient, in units of ``data_norm``. A clip below the
        largest gradient means less noise, but probabilities that are less calibrated and no
        last-iterate bounds. "auto": from half of the largest gradient up to no
        clipping, the more the larger n mu is for the number of parameters.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_features)
        Coefficients, for rows within ``data_norm``; two classes have two rows too.

    References
    ----------
    R. Chourasia, J. Ye, R. Shokri (2021), Differential privacy dynamics of Langevin diffusion and
    noisy gradient descent. J. Bok, W. Su, J. Altschuler (2024), Shifted interpolation for
    differential privacy.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateSoftmaxRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, (9000, 2))
    >>> y = np.argmax(X @ [[1, -1, 0], [0, 1, -1]], axis=1)
    >>> model = PrivateSoftmaxRegression(epsilon=1.0, classes=[0, 1, 2]).fit(X, y)
    >>> bool(model.score(X, y) > 0.9), round(model.epsilon_, 6), model.bound_
    (True, 1.0, 'composition')
    """

    family = Family(
        _loss,
        Labels(),
        clip=rules.softmax_clip,
        units=ClassShares(),
        twin=lambda: import_module("sklearn.linear_model").LogisticRegression(),
    )

    @by_blocks
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities.

        Without ``class_weight`` their means are near the shares of the classes where training
        starts at them, and within noise of them from about 1,800 records at epsilon 1 on, when the
        mean residuals are bought after training (see `skdpdyn.core.rules`). Whether they are right
        group by group is not known from the fit: `skdpdyn.evaluation.evaluate` tells. Probabilities
        of fits with an own ``clip`` below the largest gradient are drawn towards equal ones.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return losses.SOFTMAX.mean(self._raw_predictions(X))

    @by_blocks
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of the class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return log_softmax(self._raw_predictions(X), axis=1)
