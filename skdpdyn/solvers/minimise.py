"""The certified minimiser of the regularised empirical risk, for proofs that need an exact minimum.

Newton's method on the gradients of the descent's own kernels, and on nothing else: the equations of
a step are solved by conjugate gradients, a product with the Hessian is a difference of two
gradients, and the step's length follows from the slope along it, which a convex function has only
once at zero. So a loss needs no second derivative and no value (a value's rounding would hide
gradients below 1e-8), and clipped losses, whose curvature jumps, are minimised like the others.

Raising an error is a release, and no noise hides it. So whether a minimiser can be certified
depends on public numbers alone: on `largest_rounding` at the largest norm that the minimiser may
have. Where Newton's method stalls, as it may between the kinks of clipped losses, Nesterov's method
goes on: it is slow, but it certainly arrives.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from skdpdyn.core.sealed import opened
from skdpdyn.exceptions import ConvergenceError
from skdpdyn.privacy.checks import checked_number, is_auto
from skdpdyn.support.blas import one_blas_thread
from skdpdyn.support.chunks import largest_number_in_order

_EPS = np.finfo(np.float64).eps
_LEAST_PENALTY = 1e-12  # times the curvature: double precision would lose a smaller penalty
_MAX_STEPS = 200
_MAX_TRIALS = 60
_MAX_PRODUCTS = 500
_DIFFERENCE = 1e-6  # of raw predictions, for products with the Hessian by two gradients
_FORCING = 0.1  # part of a step's equations that may be left unsolved
_FLATTENED = 0.5  # part of the slope along a step that may be left at its end


def minimise(objective, rows, *, tolerance, linear=None, verbose=0):
    """Minimise the objective's empirical risk plus ``linear @ theta``, with a certificate.

    The loss is the clipped one: for a single output that is a convex loss too, whose residual is
    clamped. The gradient at the returned point has norm at most ``tolerance`` in exact arithmetic,
    so that the point is within tolerance / alpha of the exact minimiser.

    Parameters
    ----------
    objective : Objective
        The problem, with ``alpha`` > 0 and a gradient step that contracts (no clipped softmax).
    rows : Rows
        The rows and targets, with the public map that rows go through.
    tolerance : float
        Largest norm of the gradient.
    linear : ndarray of shape (n_parameters,) or None, default=None
        Coefficients of a linear term.
    verbose : int, default=0
        Whether to print that steps show no progress.

    Returns
    -------
    theta : ndarray of shape (n_parameters,)

    Raises
    ------
    ConvergenceError
        If the certificate was not reached.
    ValueError
        If the problem is not strongly convex.
    """
    if not objective.alpha > 0 or not objective.contracts:
        raise ValueError(
            f"alpha={objective.alpha!r}, clip={objective.clip!r}: a unique minimiser needs "
            "alpha > 0, and a loss of several "
            "outputs unclipped"
        )
    rows.check(objective)
    if verbose:
        print("minimising: how many steps this takes depends on the records, and is not told")
    with one_blas_thread():
        gradient = _Gradient(objective, rows, linear)
        theta = np.zeros(objective.n_parameters)
        if gradient.rounding(theta) < tolerance:
            for point in _points(gradient, theta, tolerance):
                if np.linalg.norm(point.slope) + gradient.rounding(point.theta) <= tolerance:
                    return point.theta
    raise ConvergenceError(
        f"tolerance={tolerance:.3g}: the minimiser could not be certified to it in double "
        "precision. Raise tolerance, or alpha"
    )


def largest_rounding(objective, norm, row_map=None, slope=0.0):
    """Bound the rounding term of a certificate at any theta of this norm, by public numbers.

    ``slope``: the largest norm of a linear term.
    """
    n_summed = largest_number_in_order(objective)
    rounds_as = _rounding_objective(objective, row_map)
    of_the_loss = rounds_as.gradient_rounding(norm, rounds_as.n_features, n_summed)
    return of_the_loss + 4 * _EPS * (objective.alpha * norm + slope)


def _rounding_objective(objective, row_map):
    """Return the problem whose `Objective.gradient_rounding` is that of gradients on mapped rows.

    Raw predictions and sums over mapped rows round as those of rows as long as their parts, whose
    norm is at most ``row_map.spread``, and a full matrix adds as many terms as it has columns.
    """
    if row_map is None:
        return objective
    n_terms = 3 if row_map.is_diagonal else 3 * row_map.n_features
    return replace(
        objective,
        data_norm=max(objective.data_norm, row_map.spread),
        clip=objective.clip * row_map.spread,
        n_features=objective.n_features + n_terms,
    )


def check_condition(objective):
    """Refuse a penalty that is too weak for double precision."""
    if not objective.alpha >= _LEAST_PENALTY * objective.curvature:
        raise ValueError(
            f"alpha={objective.alpha:.3g} is less than {_LEAST_PENALTY:g} of the loss's "
            f"curvature {objective.curvature:.3g}, and "
            "double precision too short to minimise that. Raise alpha"
        )


def checked_tolerance(tolerance):
    """Return a positive number, or None for "auto"."""
    if is_auto(tolerance):
        return None
    requirement = "'auto' or a finite number > 0"
    return checked_number(tolerance, "tolerance", lambda x: 0 < x < math.inf, requirement)


def certifiable(tolerance, negligible, least):
    """Return the tolerance; refuse less than ``least``. None: a negligible one."""
    if tolerance is None:
        return max(negligible, least)
    if tolerance < least:
        raise ValueError(
            f"tolerance={tolerance:.3g} is below {least:.3g}, what double precision can certify "
            "for data of this shape with "
            "these parameters. Raise tolerance, or alpha"
        )
    return tolerance


class _Gradient:
    """The gradient of the objective, and a bound on its rounding."""

    def __init__(self, objective, rows, linear):
        self.objective = objective
        self._rows = rows
        self._summed = replace(objective.unclamped(), exact=True)
        self._linear = np.zeros(objective.n_parameters) if linear is None else linear

    def __call__(self, theta):
        """Return the gradient at ``theta``."""
        return self.of_the_loss(theta) + self.objective.alpha * theta + self._linear

    def of_the_loss(self, theta):
        """Return the mean of the losses' gradients at ``theta``."""
        return opened(self._rows.gradient(self._summed, theta)) / self.objective.n_samples

    def derivative(self, theta, slope):
        """Return the Hessian at ``theta`` as an operator of differences."""
        alpha = self.objective.alpha
        at_theta = slope - alpha * theta - self._linear

        def product(vector):
            step = _DIFFERENCE / (self.objective.row_norm * np.linalg.norm(vector))
            return (self.of_the_loss(theta + step * vector) - at_theta) / step + alpha * vector

        return LinearOperator((theta.size, theta.size), matvec=product, dtype=np.float64)

    def rounding(self, theta):
        """Bound the distance between the computed gradient at ``theta`` and the exact one."""
        norm = np.linalg.norm(theta)
        slope = np.linalg.norm(self._linear)
        return largest_rounding(self.objective, norm, self._rows.map, slope)


class _Point(NamedTuple):
    theta: np.ndarray
    slope: np.ndarray  # the gradient there


def _points(gradient, theta, tolerance):
    """Yield the points of Newton's method, then those of Nesterov's method from the last one."""
    start = point = _Point(theta, gradient(theta))
    yield point
    for _ in range(_MAX_STEPS):
        # rounding noise, or NaN, is not a descent
        if not np.linalg.norm(point.slope) > gradient.rounding(point.theta):
            break
        direction = _newton_direction(gradient, *point)
        point = _Point(*_flatten(gradient, *point, direction))
        yield point
    yield from _nesterov(
        gradient, point if np.isfinite(np.linalg.norm(point.slope)) else start, tolerance
    )


def _nesterov(gradient, start, tolerance):
    """Yield the points of Nesterov's method, at most as many as it can need.

    With q^2 the strong convexity over the smoothness, the k-th is within 5 norm(slope) (1 -
    q)^(k/2) / strong_convexity of the minimiser, slope the gradient at the start (Nesterov 2004,
    Theorem 2.2.3), and its gradient within that times the smoothness.
    """
    smoothness = gradient.objective.smoothness
    q = math.sqrt(gradient.objective.strong_convexity / smoothness)
    point = start
    previous = start.theta
    largest = 5 * np.linalg.norm(start.slope) / q**2
    for _ in range(math.ceil(2 / q * math.log(max(4.0, 2 * largest / tolerance)))):
        following = point.theta - point.slope / smoothness
        theta = following + (1 - q) / (1 + q) * (following - previous)
        point = _Point(theta, gradient(theta))
        previous = following
        yield point


def _newton_direction(gradient, theta, slope):
    """Solve Hessian @ direction = -slope roughly, or take steepest descent."""
    direction, _ = cg(
        gradient.derivative(theta, slope), -slope, rtol=_FORCING, maxiter=_MAX_PRODUCTS
    )
    return direction if slope @ direction < 0 else -slope / gradient.objective.smoothness


def _flatten(gradient, theta, slope, direction):
    """Return the point along ``direction`` where the function stops falling, and its gradient."""
    start = slope @ direction
    below = 0.0
    above = np.inf
    length = 1.0
    for _ in range(_MAX_TRIALS):
        point = theta + length * direction
        slope = gradient(point)
        along = slope @ direction
        if abs(along) <= -_FLATTENED * start:
            break
        below, above = (length, above) if along < 0 else (below, length)
        length = 2 * length if above == np.inf else (below + above) / 2
    return point, slope
