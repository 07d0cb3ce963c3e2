"""The price of the last of any sequence of noisy steps, given as plain numbers."""

import math
from typing import Any

import numpy as np

from skdpdyn.privacy.accountants.last_iterate import schedule_mu
from skdpdyn.privacy.checks import checked_number


def last_iterate_mu(
    contraction: Any, sensitivity: Any, noise_std: Any, diameter: float | None = None
) -> float:
    """Return the Gaussian-DP parameter of the last of a sequence of noisy Lipschitz steps.

    Step k maps theta to Proj(phi_k(theta) + N(0, noise_std[k]^2 I)), where phi_k is Lipschitz with
    constant contraction[k] and one record moves phi_k by at most sensitivity[k]. O(n_steps) without
    a diameter.

    Parameters
    ----------
    contraction : array-like of shape (n_steps,)
        Lipschitz constants, >= 0; scalars are broadcast.
    sensitivity : array-like of shape (n_steps,)
        How far one record moves the step, >= 0: 0 where the record is absent.
    noise_std : array-like of shape (n_steps,)
        Standard deviation of the noise per coordinate, >= 0.
    diameter : float, default=None
        Diameter of the convex set that every step projects onto.

    Returns
    -------
    mu : float
        ``inf`` where sensitivity is left after the last noise.

    Raises
    ------
    ValueError
        If a number is negative or not finite.

    References
    ----------
    J. Bok, W. Su, J. Altschuler (2024), Shifted interpolation for differential privacy.

    Examples
    --------
    >>> from skdpdyn.privacy import last_iterate_mu
    >>> mu = last_iterate_mu([0.9, 0.8, 1, 0.95, 0.7], [1, 0, 0.5, 0, 0.25], [1, 2, 0.5, 1, 1.5])
    >>> round(mu, 8)
    0.5033524
    """
    steps = {"contraction": contraction, "sensitivity": sensitivity, "noise_std": noise_std}
    for name, values in steps.items():
        try:
            steps[name] = np.atleast_1d(np.asarray(values, dtype=float))
        except (TypeError, ValueError, OverflowError):
            steps[name] = np.array([math.nan])
        if steps[name].ndim != 1 or not (
            steps[name].size and np.all((steps[name] >= 0) & np.isfinite(steps[name]))
        ):
            raise ValueError(f"{name} must hold one finite number >= 0 for each step")
    if len({values.size for values in steps.values()} - {1}) > 1:
        sizes = ", ".join(f"{name} of {values.size}" for name, values in steps.items())
        raise ValueError(f"{sizes} steps: they must be of the same length")
    if diameter is not None:
        diameter = checked_number(
            diameter, "diameter", lambda x: 0 <= x < math.inf, "a finite number >= 0"
        )
    contraction, sensitivity, noise_std = np.broadcast_arrays(*steps.values())
    with np.errstate(divide="ignore"):
        return schedule_mu(np.log(contraction), sensitivity, noise_std, diameter)
