"""Private linear support vector classification."""

from importlib import import_module

from skdpdyn.core import rules
from skdpdyn.core.losses import hinge
from skdpdyn.linear_model.base import PrivateLinearClassifier
from skdpdyn.training.parts import MarginShares
from skdpdyn.training.targets import Labels
from skdpdyn.training.values import Family


class PrivateLinearSVC(PrivateLinearClassifier):
    """Linear support vector classification of two classes, differentially private.

    Minimises ``mean of hinge losses + (alpha/2) |theta|^2`` by noisy gradient descent and releases
    the last iterate. The kink of the hinge is smoothed over margins of 0.5 to 1.5, as in Huber's
    loss. The budget pays for everything that is computed from records. It determines noise and
    number of steps, by the smallest privacy bound that holds. Rows are scaled into the ball of
    radius ``data_norm``, in fit and in prediction alike, so ``coef_`` applies to scaled rows. Every
    "auto" is a function of the shape of X, the budget and ``data_norm`` alone.

    It predicts labels and no probabilities; `PrivateLogisticRegression` predicts both.

    With enough records, a part of the budget first learns a map of rows that gives all directions a
    similar scale, see ``conditioning``. Then ``coef_`` applies to rows that the map does not
    shorten, training takes few and long steps, and only the composition bound holds.

    Parameters
    ----------
    clip : float or "auto", default="auto"
        Bound on the norm of one record's loss gradient, in units of ``data_norm``. The clipped
        gradient is the gradient of another convex loss, so every privacy bound holds. "auto": the
        largest gradient.

    References
    ----------
    K. Chaudhuri, C. Monteleoni, A. Sarwate (2011), Differentially private empirical risk
    minimization: the smoothed hinge loss. R. Chourasia, J. Ye, R. Shokri (2021), Differential
    privacy dynamics of Langevin diffusion and noisy gradient descent. J. Bok, W. Su, J. Altschuler
    (2024), Shifted interpolation for differential privacy.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateLinearSVC
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, (5000, 2))
    >>> y = X @ [1.0, -2.0] > 0
    >>> model = PrivateLinearSVC(epsilon=1.0, classes=[False, True]).fit(X, y)
    >>> bool(model.score(X, y) > 0.95), round(model.epsilon_, 6)
    (True, 1.0)
    """

    family = Family(
        hinge,
        Labels(most=2),
        clip=lambda n_parameters, strength: rules.HINGE_CLIP,
        units=MarginShares(),
        twin=lambda: import_module("sklearn.svm").LinearSVC(),
    )
