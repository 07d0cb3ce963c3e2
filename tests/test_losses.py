"""Losses: derivatives against 30 digits, constants as suprema; ``@law`` tests hold of any loss of a
package outside too, by ``from test_losses import *`` and a fixture ``loss`` of its own.
"""

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest

from skdpdyn.core.losses import LOSSES, PINBALL_WIDTH, Loss, hinge, logistic, poisson, softmax

__all__ = ["loss", "targets"]


def law(test):
    """Export a test that holds of every loss."""
    __all__.append(test.__name__)
    return test


@pytest.fixture(params=LOSSES, ids=lambda loss: f"{loss.name}{loss.n_outputs}")
def loss(request):
    return request.param


@pytest.fixture
def targets(loss):
    """Targets among which is the worst one: labels, or numbers in [-1, 1]."""
    if loss.n_outputs > 1 and not loss.separate:
        return range(loss.n_outputs)
    if loss.name == "poisson":
        return (0.0, 0.3, loss.smoothness - 1)
    return (0.0, 1.0) if loss in (logistic, hinge) else (-1.0, 0.3, 1.0)


def residuals(loss, raw, y):
    """The kernel on a copy, which it may overwrite: a row of raw predictions for each row.

    One output is clipped as kernels clip it; the norm of several is left as it is.
    """
    raw = np.array(np.transpose(raw), dtype=float, order="C")
    out = np.empty(raw.shape)
    loss.residual(raw, np.asarray(y, dtype=float), out)
    clips = loss.clipped and loss.n_outputs == 1
    return np.clip(out, -loss.lipschitz, loss.lipschitz).T if clips else out.T


@pytest.mark.filterwarnings("ignore:invalid:RuntimeWarning")
def test_nan_stays_within_the_bounds():
    assert residuals(logistic, [np.nan], [0.0])[0] == pytest.approx(0.0, abs=1e-300)
    assert residuals(logistic, [np.nan], [1.0])[0] == -1.0


def test_a_derivative_that_asserts_is_refused():
    """Kernels would drop its error, as that of one that raises."""

    def asserts(raw_prediction, y, out):
        assert y[0] <= 1

    with pytest.raises(ValueError, match="raises or asserts"):
        Loss("own", asserts, lipschitz=1.0, smoothness=0.25)


@pytest.mark.filterwarnings("ignore:invalid:RuntimeWarning")
@pytest.mark.parametrize("raw", [-math.inf, -1e308, -800.0, 0.7, 800.0, 1e308, math.inf, math.nan])
def test_counts_of_any_record_have_a_finite_derivative(raw):
    """What kernels clip is finite, and clipped it is exp(r) - y between -1 and 1."""
    for y in (0.0, 3.0, 1e250):
        out = np.empty(1)
        poisson(5.0).residual(np.array([raw]), np.array([y]), out)
        assert np.isfinite(out[0])
        exact = np.exp(min(raw, 709.0)) - y if raw == raw else 1e307 - y
        assert np.clip(out[0], -1, 1) == pytest.approx(np.clip(exact, -1, 1), rel=1e-14)


@pytest.mark.parametrize("largest", [0.0, 0.5, 2.0, 2.5, 500.0])
def test_how_far_the_loss_of_counts_can_fall(largest):
    """Oracle: the clipped derivative integrated from 0 to log(y), or to -infinity for y = 0."""
    end = math.log(largest) if largest > 1 else 0.0
    with mpmath.workdps(20):
        kinks = [0, *([mpmath.log(largest - 1)] if largest > 2 else []), end]
        falls = mpmath.quad(lambda r: min(largest - mpmath.exp(r), 1), kinks)
    assert poisson(largest).at_zero == pytest.approx(max(1.0, float(falls)), rel=1e-12)


def exact_derivative(loss, raw, y):
    """The derivative in many digits, of exact raw predictions."""
    if loss.name.startswith("pinball"):  # of 0.9, or these, as in LOSSES
        quantiles = [0.9] if loss.n_outputs == 1 else [0.1, 0.5, 0.9]
        width = mpmath.mpf(PINBALL_WIDTH)
        shares = [min(max((r - y + width) / (2 * width), 0), 1) for r in raw]
        return [share - mpmath.mpf(q) for share, q in zip(shares, quantiles, strict=True)]
    if loss.n_outputs > 1:
        powers = [mpmath.exp(r - max(raw)) for r in raw]
        return [p / sum(powers) - (k == y) for k, p in enumerate(powers)]
    if loss.name == "hinge":
        sign = 2 * y - 1
        return [-sign * min(max((mpmath.mpf(1.5) - sign * raw[0]), 0), 1)]

    def inverse_logit(r):
        return 1 / (1 + mpmath.exp(-r))

    means = {"logistic": inverse_logit, "poisson": mpmath.exp}
    return [means.get(loss.name, mpmath.mpf)(raw[0]) - y]


@pytest.mark.parametrize("own", LOSSES, ids=lambda loss: f"{loss.name}{loss.n_outputs}")
def test_derivatives_are_off_by_what_the_loss_says(own):
    """At raw predictions of all sizes, and where terms cancel; clipped where kernels clip."""
    rng = np.random.default_rng(0)
    eps = np.finfo(float).eps
    worst = 0.0
    for size in (1e-3, 1.0, 5.0, 40.0, 700.0):
        raw = rng.uniform(-size, size, (40, own.n_outputs))
        if own.name == "poisson":
            y = rng.uniform(0, own.smoothness - 1, 40)
            raw[::2, 0] = np.log(np.maximum(y[::2], 1e-3)) + rng.uniform(-1e-3, 1e-3, 20)
        elif own.name in ("squared", "huber"):
            y = rng.uniform(-1, 1, 40)
        else:
            y = rng.integers(0, max(2, own.n_outputs), 40).astype(float)
        computed = residuals(own, raw[:, 0] if own.n_outputs == 1 else raw, y).reshape(40, -1)
        for got, r, target in zip(computed, raw, y, strict=True):
            with mpmath.workdps(50):
                exact = exact_derivative(own, [mpmath.mpf(v) for v in r], mpmath.mpf(target))
                if own.clipped and own.n_outputs == 1:
                    exact = [min(max(e, -own.lipschitz), own.lipschitz) for e in exact]
                off = [mpmath.mpf(float(g)) - e for g, e in zip(got, exact, strict=True)]
                error = mpmath.norm(off)
                allowed = eps * (own.rounding + mpmath.norm(exact))
                worst = max(worst, float(error / allowed))
    assert worst <= 1
    assert worst > 0.003 or own is hinge  # whose differences are exact


@pytest.mark.parametrize(
    "raw",
    [
        *([0.0, raw] for raw in (-1e308, -709.0, -40.0, -1e-9, 0.0, 0.3, 36.0, 708.5, 1e308)),
        [1.0, 2.0, 3.0],
        [1e3, 1e3 - 1e-9, -1e3, 5.0],
        [0.3, -36.0, 1e-300, 708.5, -709.0],
        list(np.linspace(-50, 40, 17)),
        [0.0] * 1000,
    ],
    ids=lambda raw: f"{len(raw)} classes",
)
def test_softmax_derivative(raw):
    """Oracle: exp(r_c) / sum - onehot(y) by mpmath at 30 digits, for each of the first labels."""
    with mpmath.workdps(30):
        powers = [mpmath.exp(mpmath.mpf(r) - max(raw)) for r in raw]
        probabilities = np.array([float(power / sum(powers)) for power in powers])
    for y in range(min(len(raw), 5)):
        exact = probabilities - (np.arange(len(raw)) == y)
        found = residuals(softmax(len(raw)), [raw], [y])[0]
        np.testing.assert_allclose(found, exact, rtol=1e-13, atol=3e-16)
        if len(raw) == 2:  # and the logistic loss, of their difference
            logit = residuals(logistic, [min(raw[1] - raw[0], 1e308)], [y])[0]
            assert logit == pytest.approx(exact[1], rel=1e-14, abs=3e-16)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize(
    "raw", [[math.nan] * 3, [math.nan, 1.0, 2.0], [math.inf, 1.0, math.inf], [-math.inf] * 3]
)
def test_softmax_of_what_is_not_a_number_is_bounded(raw):
    residual = residuals(softmax(3), [raw], [0.0])[0]
    assert np.linalg.norm(residual) <= math.sqrt(2)


def test_what_makes_no_loss_is_refused():
    for n_classes in (1, 0, -3):
        with pytest.raises(ValueError, match=f"n_classes={n_classes} must be an integer >= 2"):
            softmax(n_classes)
    with pytest.raises(ValueError, match="rounding=-1"):
        replace(logistic, rounding=-1)


@law
@pytest.mark.every_case
def test_constants_are_suprema(loss, targets):
    one = loss.n_outputs == 1
    (check_constants_of_one_output if one else check_constants_of_several_outputs)(loss, targets)


def check_constants_of_one_output(loss, targets):
    raw = np.linspace(-60, 60, 20_001)
    slopes = np.array([residuals(loss, raw, np.full(raw.size, y)) for y in targets])
    curvature = np.diff(slopes) / np.diff(raw)
    assert np.all(curvature >= -1e-9)  # convex
    assert 0.99 * loss.smoothness <= curvature.max() <= loss.smoothness * (1 + 1e-9)
    if math.isfinite(loss.lipschitz):
        assert 0.99 * loss.lipschitz <= np.abs(slopes).max() <= loss.lipschitz


def check_constants_of_several_outputs(loss, targets):
    """At random, and where the suprema are: a sure mistake, and a tie of two classes.

    Of separate numbers: predictions in order, beyond which kernels clip, and all at the target.
    """
    rng = np.random.default_rng(0)
    sizes = rng.choice([0.1, 1.0, 10.0, 60.0], (2000, 1))
    raw = rng.standard_normal((2000, loss.n_outputs)) * sizes
    y = rng.choice(targets, 2000)
    raw[0] = np.append(60, np.zeros(loss.n_outputs - 1))
    y[0] = 1
    in_order = np.sort(raw, axis=1) if loss.separate else raw
    slopes = np.linalg.norm(residuals(loss, in_order, y), axis=1)
    assert 0.99 * loss.lipschitz <= slopes.max() <= loss.lipschitz * (1 + 1e-15)

    direction = rng.standard_normal(raw.shape)
    raw[0] = y[0] if loss.separate else -40
    direction[0] = 0
    raw[0, :2] = y[0] if loss.separate else 0
    direction[0, :2] = (1, -1)
    direction *= 1e-4 / np.linalg.norm(direction, axis=1, keepdims=True)
    change = (residuals(loss, raw + direction, y) - residuals(loss, raw - direction, y)) / 2e-4
    curvature = np.linalg.norm(change, axis=1)
    assert 0.99 * loss.smoothness <= curvature.max() <= loss.smoothness * (1 + 1e-9)
    assert np.all(np.sum(change * direction, axis=1) >= -1e-12)  # convex


@law
def test_how_far_a_loss_can_fall_from_zero(loss, targets):
    """The derivative integrated from 0 to where the loss is least, for the worst target.

    Of separate numbers, each for its own worst one: no target is that of all.
    """
    steps = np.concatenate([[0.0], np.geomspace(1e-4, 60.0, 20_001)])
    fallen = []
    for y in targets:
        one = loss.n_outputs == 1
        at_zero = residuals(loss, [0.0] if one else [[0.0] * loss.n_outputs], [y])
        apart = one or loss.separate
        direction = -np.sign(at_zero)[0] if apart else np.arange(loss.n_outputs) == y
        raw = steps * direction if one else steps[:, None] * direction
        along = residuals(loss, raw, np.full(steps.size, y)) * direction
        slopes = along.reshape(steps.size, -1)
        slopes = slopes if apart else slopes.sum(axis=1, keepdims=True)
        fallen.append(-np.trapezoid(np.minimum(slopes, 0.0), steps, axis=0))
    assert np.max(fallen, axis=0).sum() == pytest.approx(loss.at_zero, rel=1e-6)
