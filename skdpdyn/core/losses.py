"""Losses of linear models: a derivative on a block of raw predictions, and public constants.

A loss only knows raw predictions and targets, not X, coefficients or penalty. To add one, write its
derivative ``derivative(raw_prediction, y, out)`` on a block of rows, and an
instance of `Loss` with its suprema.
"""

import dis
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np
from scipy import special

from skdpdyn.kernels.later import double_of_bits, entry, inner, residual_signature
from skdpdyn.privacy.checks import as_float, checked_count, checked_flag, checked_number

# exp(t) = 2^k exp(r) with |r| <= log(2)/2 and exp(r) by its Taylor series: 1 ulp + 3e-17 |t|, and
# unlike a call of libm it vectorises. (Splitting log(2) in two words would not help: reassociation
# adds them up again.) What grows with |t| is harmless: exp(-t) t is at most 0.37.
_LOG2_E = 1.4426950408889634
_LN2 = 0.6931471805599453
_MAX_EXPONENT = 708.0

HINGE_WIDTH = 0.5  # half-width of the smoothed kink of the hinge
PINBALL_WIDTH = 0.05  # the same of the pinball loss: a wider one would move quantiles


@inner
def _exp(t):
    """Return exp(t) with t cut to [-708, 708]; NaN counts as 708."""
    t = t if t <= _MAX_EXPONENT else _MAX_EXPONENT  # NaN too, because it has no integer part
    t = t if t >= -_MAX_EXPONENT else -_MAX_EXPONENT
    k = np.floor(t * _LOG2_E + 0.5)
    r = t - k * _LN2
    p = 1 / 479001600 + r * (1 / 6227020800)
    p = 1 / 39916800 + r * p
    p = 1 / 3628800 + r * p
    p = 1 / 362880 + r * p
    p = 1 / 40320 + r * p
    p = 1 / 5040 + r * p
    p = 1 / 720 + r * p
    p = 1 / 120 + r * p
    p = 1 / 24 + r * p
    p = 1 / 6 + r * p
    p = 0.5 + r * p
    p = 1.0 + r * p
    p = 1.0 + r * p
    # 2^k, by way of int32: few processors have vectors of int64 made of doubles
    return p * double_of_bits((np.int64(np.int32(k)) + 1023) << 52)


@inner
def sigmoid(t):
    """Return 1/(1 + exp(-t)); NaN counts as a huge negative number."""
    return 1.0 / (1.0 + _exp(-t))


def _logistic_residual(raw_prediction, y, out):
    """Write sigmoid(raw_prediction) - y."""
    for i in range(out.size):
        out[i] = sigmoid(raw_prediction[i]) - y[i]


def _squared_residual(raw_prediction, y, out):
    """Write raw_prediction - y."""
    for i in range(out.size):
        out[i] = raw_prediction[i] - y[i]


@inner
def _powers(raw_prediction, largest):
    """Write exp(raw_prediction) over that of each column's largest one, in place."""
    n_classes, n_samples = raw_prediction.shape
    for i in range(n_samples):
        largest[i] = raw_prediction[0, i]
    for c in range(1, n_classes):
        for i in range(n_samples):
            largest[i] = raw_prediction[c, i] if raw_prediction[c, i] > largest[i] else largest[i]
    for c in range(n_classes):
        for i in range(n_samples):
            raw_prediction[c, i] -= largest[i]
    power = raw_prediction.ravel()
    for j in range(power.size):
        power[j] = _exp(power[j])


def _softmax_residual(raw_prediction, y, out):
    """Write softmax(raw_prediction) - onehot(y), column by column."""
    n_classes, n_samples = out.shape
    _powers(raw_prediction, out[0])
    for i in range(n_samples):
        out[0, i] = 0.0
    for c in range(n_classes):
        for i in range(n_samples):
            out[0, i] += raw_prediction[c, i]
    for i in range(n_samples):
        out[0, i] = 1.0 / out[0, i]
    for c in range(n_classes - 1, -1, -1):  # the first last, where the factors are
        for i in range(n_samples):
            out[c, i] = raw_prediction[c, i] * out[0, i] - (1.0 if y[i] == c else 0.0)


def _hinge_residual(raw_prediction, y, out):
    """Write the derivative of the smoothed hinge loss."""
    for i in range(out.size):
        sign = 2.0 * y[i] - 1.0
        share = (1.0 + HINGE_WIDTH - sign * raw_prediction[i]) * (0.5 / HINGE_WIDTH)
        share = share if share > 0.0 else 0.0  # NaN becomes 0
        out[i] = -sign * (share if share < 1.0 else 1.0)


def _poisson_residual(raw_prediction, y, out):
    """Write exp(raw_prediction) - y, which kernels clip; NaN counts as a huge prediction."""
    for i in range(out.size):
        out[i] = _exp(raw_prediction[i]) - y[i]


@cache
def _raises(function):
    return any(
        instruction.opname == "RAISE_VARARGS" for instruction in dis.get_instructions(function)
    )


@cache
def _compiled(derivative, several_outputs):
    """Return a derivative that is compiled when it is first used."""
    return entry(residual_signature(several_outputs))(derivative)


@dataclass(frozen=True)
class Link:
    """Scale of raw predictions: which expectations of targets they stand for.

    Losses have one, and predictions, tables and plans take it from here.

    Parameters
    ----------
    name : str
        Its name.
    mean : callable
        Returns expectations of raw predictions; those of several outputs are in the last axis.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.core.losses import LOGIT
    >>> LOGIT.mean(np.array([0.0])).tolist()
    [0.5]
    """

    name: str
    mean: Callable[[np.ndarray], np.ndarray]


def _identity(raw):
    return raw


def _rates(raw):
    """Return exponentials, finite numbers > 0."""
    largest = math.log(np.finfo(raw.dtype).max) - 1
    return np.exp(np.clip(raw, -largest, largest))


def _probabilities(raw):
    """Return exponentials over their sum."""
    return special.softmax(raw, axis=-1)


IDENTITY: Final = Link("identity", _identity)
LOG: Final = Link("log", _rates)
LOGIT: Final = Link("logit", special.expit)
SOFTMAX: Final = Link("softmax", _probabilities)


@dataclass(frozen=True)
class Loss:
    """A convex loss l(r, y) of the raw prediction r: a number, or a vector with one per class.

    Parameters
    ----------
    name : str
        The name used in messages.
    derivative : callable
        ``derivative(raw_prediction, y, out)``, in the Python that numba compiles: writes dl/dr for
        a block of rows. Arrays of shape (rows,), or for several outputs raw_prediction and out of
        shape (n_outputs, rows); raw_prediction may be overwritten. It writes all of out and raises
        nothing: compiled kernels would drop the error and go on.
    lipschitz : float
        Supremum of ``|dl/dr|``, > 0; ``inf`` where only clipping bounds it.
    smoothness : float
        Supremum of the (largest eigenvalue of the) second derivative, finite and > 0.
    n_outputs : int, default=1
        Number of raw predictions of a row.
    at_zero : float, default=inf
        Supremum of l(0, y) less its infimum over r, which bounds how far training can bring any
        record's loss down.
    trace : float or None, default=None
        Supremum of the trace of the second derivative. None: ``n_outputs * smoothness``.
    rank : int or None, default=None
        Dimension of a subspace that holds every dl/dr. None: ``n_outputs``.
    quadratic : bool, default=False
        Whether l(r, y) = (r - y)^2 / 2, which sufficient statistics can learn.
    clipped : bool, default=False
        Whether kernels must clip what ``derivative`` writes to [-lipschitz, lipschitz], as they do
        anyway; all other constants are then those of the clipped loss.
    typical : float or None, default=None
        Second derivative that training times and steps on conditioned rows are reckoned by. No
        guarantee rests on it. None: ``smoothness``.
    rounding : float or None, default=None
        What ``derivative`` writes is off by at most eps (rounding + abs(dl/dr)), at the raw
        prediction that it is given and after clipping. None: off by (16 + 2 n_outputs) max(1,
        smoothness) (1 + abs(r)) eps, which is more and serves all losses that are sums, products
        and exponentials.
    link : Link or None, default=None
        Which expectations raw predictions stand for. None: for none, but a place or a side.
    separate : bool, default=False
        Whether the loss is the sum of a loss of each output, so that training takes the time of
        one.
    kink : float or None, default=None
        Half-width of a smoothed kink, for a loss that is c times itself of raw predictions and
        targets divided by c, but for a kink c times as wide: training narrows it step by step.
        None: there is none.
    apart : float, default=inf
        Supremum of the distance of two dl/dr of any rows, 0 among them, where it is less than
        2 ``lipschitz``.

    Raises
    ------
    ValueError
        If a constant is not a number in its range, naming it: a bound that is too small is a
        privacy bug.
    """

    name: str
    derivative: Callable[..., None]
    lipschitz: float
    smoothness: float
    n_outputs: int = 1
    at_zero: float = math.inf
    trace: float | None = None
    rank: int | None = None
    quadratic: bool = False
    clipped: bool = False
    typical: float | None = None
    rounding: float | None = None
    link: Link | None = None
    separate: bool = False
    kink: float | None = None
    apart: float = math.inf

    def __post_init__(self) -> None:
        if not callable(self.derivative):
            raise ValueError(
                f"derivative={self.derivative!r} of the {self.name} loss must be a function"
            )
        if _raises(self.derivative):
            raise ValueError(
                f"derivative={self.derivative!r} of the {self.name} loss raises or asserts: "
                "compiled kernels would drop the "
                "error and go on with what other rows left behind. Write a number for every row"
            )
        checked_count(self.n_outputs, "n_outputs")
        checked_flag(self.quadratic, "quadratic")
        checked_flag(self.clipped, "clipped")
        if self.typical is None:
            object.__setattr__(self, "typical", as_float(self.smoothness))
        if self.trace is None:
            object.__setattr__(self, "trace", self.n_outputs * as_float(self.smoothness))
        if self.rank is None:
            object.__setattr__(self, "rank", self.n_outputs)
        checked_count(self.rank, "rank", largest=self.n_outputs)
        for name, is_valid, requirement in (
            ("lipschitz", lambda x: x > 0, "a number > 0, or inf where only clipping bounds it"),
            ("smoothness", lambda x: 0 < x < math.inf, "a finite number > 0"),
            ("at_zero", lambda x: x >= 0, "a number >= 0, or inf where it is not known"),
            (
                "trace",
                lambda x: self.smoothness <= x < math.inf,
                "a finite number, at least the smoothness",
            ),
            ("typical", lambda x: 0 < x < math.inf, "a finite number > 0"),
            ("rounding", lambda x: 0 <= x < math.inf, "a finite number >= 0, or None"),
        ):
            if name == "rounding" and self.rounding is None:
                continue
            checked_number(
                getattr(self, name), name, is_valid, f"{requirement} (of the {self.name} loss)"
            )

    @property
    def residual(self) -> Callable[..., None]:
        """The derivative, compiled."""
        return _compiled(self.derivative, self.n_outputs > 1)


logistic: Final = Loss(
    "logistic",
    _logistic_residual,
    lipschitz=1.0,
    smoothness=0.25,
    at_zero=math.log(2),
    rounding=4.0,
    link=LOGIT,
)
"""Logistic loss log(1 + exp(r)) - y r, for y in {0, 1}."""

squared: Final = Loss(
    "squared",
    _squared_residual,
    lipschitz=math.inf,
    smoothness=1.0,
    at_zero=0.5,
    quadratic=True,
    rounding=0.0,
    link=IDENTITY,
)
"""Squared loss (r - y)^2 / 2, for y in [-1, 1]. Clipped, it is Huber's."""


@cache
def huber(width: float) -> Loss:
    """Return Huber's loss, for y in [-1, 1]: u^2 / 2 of u = r - y up to a width, linear beyond it.

    Parameters
    ----------
    width : float
        The largest slope, in (0, 1].

    Returns
    -------
    Loss
    """
    width = checked_number(width, "width", lambda w: 0 < w <= 1, "a number in (0, 1]")
    return replace(
        squared,
        name="huber",
        lipschitz=width,
        at_zero=width * (1 - width / 2),
        quadratic=False,
        clipped=True,
        link=None,
    )


hinge: Final = Loss(
    "hinge",
    _hinge_residual,
    lipschitz=1.0,
    smoothness=1 / (2 * HINGE_WIDTH),
    at_zero=1.0,
    rounding=4.0,
)
"""Hinge loss with a smoothed kink (Chaudhuri, Monteleoni and Sarwate 2011), for y in {0, 1}.

With the margin m = (2 y - 1) r: 1 - m up to 1 - h, (1 + h - m)^2 / (4 h) up to 1 + h, then 0.
"""


def poisson(largest: float) -> Loss:
    """Return the Poisson loss exp(r) - y r, derivative clipped to [-1, 1], y in [0, largest].

    The second derivative is exp(r) where exp(r) < y + 1, and 0 beyond: at most ``largest`` + 1.
    With a record's exposure e > 0 and y / e as its target, kernels clip e (exp(r) - y / e): the
    same bound holds for every e, but ``at_zero`` is that of e = 1.

    Parameters
    ----------
    largest : float
        Largest count, in units of the bound on residuals; >= 0.

    Returns
    -------
    Loss
    """
    largest = checked_number(largest, "largest", lambda x: 0 <= x < math.inf, "a number >= 0")
    if largest > 2:  # a slope of 1 up to log(y - 1), then y - exp(r) up to log(y)
        falls = math.log(largest - 1) + largest * math.log1p(1 / (largest - 1)) - 1
    else:
        falls = largest * math.log(largest) - largest + 1 if largest > 0 else 0.0
    return Loss(
        "poisson",
        _poisson_residual,
        lipschitz=1.0,
        smoothness=largest + 1,
        at_zero=max(1.0, falls),  # 1: of a count of 0
        clipped=True,
        typical=1.0,
        rounding=100 * (largest + 1),  # of an exponential of up to 708
        link=LOG,
    )


def softmax(n_classes: int) -> Loss:
    """Return the multinomial log-loss log(sum_c exp(r_c)) - r_y, y in {0, ..., n_classes - 1}.

    Parameters
    ----------
    n_classes : int
        Number of classes, at least 2.

    Returns
    -------
    Loss
    """
    checked_count(n_classes, "n_classes", least=2)
    return Loss(
        "softmax",
        _softmax_residual,
        n_outputs=n_classes,
        lipschitz=math.sqrt(2),
        smoothness=0.5,
        at_zero=math.log(n_classes),
        trace=1 - 1 / n_classes,  # trace of diag(p) - pp' is 1 - |p|^2
        rank=n_classes - 1,  # residuals add up to 0
        rounding=16.0 + 2 * n_classes,
        link=SOFTMAX,
    )


@cache
def _pinball_residual(quantile):
    """Return the derivative of the smoothed pinball loss of a quantile."""

    def residual(raw_prediction, y, out):
        for i in range(out.size):
            share = (raw_prediction[i] - y[i] + PINBALL_WIDTH) * (0.5 / PINBALL_WIDTH)
            share = share if share > 0.0 else 0.0  # NaN becomes 0
            out[i] = (share if share < 1.0 else 1.0) - quantile

    return residual


def pinball(quantile: float) -> Loss:
    """Return the pinball loss of a quantile with a smoothed kink, for y in [-1, 1].

    With u = y - r: quantile u from h on, (quantile - 1) u up to -h, and in between the parabola
    that meets both with their slopes. So the slope is within -quantile and 1 - quantile, and the
    second derivative is 1 / (2 h) or 0.

    Parameters
    ----------
    quantile : float
        In (0, 1).

    Returns
    -------
    Loss
    """
    quantile = checked_number(quantile, "quantile", lambda q: 0 < q < 1, "a number in (0, 1)")
    steepest = max(quantile, 1 - quantile)
    return Loss(
        "pinball",
        _pinball_residual(quantile),
        lipschitz=steepest,
        smoothness=1 / (2 * PINBALL_WIDTH),
        # the slope is steepest up to h from the target, where it begins to fall
        at_zero=steepest * (1 - PINBALL_WIDTH) + steepest**2 * PINBALL_WIDTH,
        typical=3.0,  # steps that the kink alone would allow are three times too short elsewhere
        rounding=8.0,
        kink=PINBALL_WIDTH,
    )


@cache
def _pinballs_residual(quantiles):
    """Return the derivatives of the smoothed pinball losses of some quantiles."""

    def residual(raw_prediction, y, out):
        for k in range(len(quantiles)):
            for i in range(y.size):
                share = (raw_prediction[k, i] - y[i] + PINBALL_WIDTH) * (0.5 / PINBALL_WIDTH)
                share = share if share > 0.0 else 0.0  # NaN becomes 0
                out[k, i] = (share if share < 1.0 else 1.0) - quantiles[k]

    return residual


def norm_of_quantiles(quantiles: Sequence[float]) -> float:
    """Return the largest norm of the derivatives of pinball losses at predictions in order.

    That of the quantile q is F - q, with F in [0, 1] and no smaller for a larger prediction. The
    largest norm over all F in order is at a corner: 1 for the highest quantiles, 0 for the others.
    """
    in_order = sorted(quantiles)
    return math.sqrt(
        max(
            sum(q**2 for q in in_order[:k]) + sum((1 - q) ** 2 for q in in_order[k:])
            for k in range(len(in_order) + 1)
        )
    )


@cache
def pinballs(quantiles: tuple[float, ...]) -> Loss:
    """Return the sum of the pinball losses of several quantiles, an output each.

    All kinks are as wide. The derivatives of a row are clipped together at the largest norm that
    they have where predictions are in order, 1.034 for .1, .5 and .9 where each alone may have .9:
    rows whose predictions cross are clipped alone. This is the gradient of no convex function, so
    that nothing but composition holds.

    Parameters
    ----------
    quantiles : tuple of float
        Several numbers in (0, 1).

    Returns
    -------
    Loss
    """
    one = [pinball(quantile) for quantile in quantiles]
    if len(one) == 1:
        return one[0]
    return replace(
        one[0],
        name="pinballs",
        derivative=_pinballs_residual(tuple(map(float, quantiles))),
        n_outputs=len(one),
        rank=len(one),
        trace=len(one) * one[0].smoothness,
        at_zero=math.fsum(loss.at_zero for loss in one),
        lipschitz=norm_of_quantiles(quantiles),
        clipped=True,
        rounding=len(one) * 8.0,
        separate=True,
    )


@cache
def _below_residual(quantile):
    """Return the derivative of the pinball loss of a quantile, without a smoothed kink."""

    def residual(raw_prediction, y, out):
        for i in range(out.size):
            out[i] = (1.0 if raw_prediction[i] >= y[i] else 0.0) - quantile

    return residual


@cache
def below(quantile: float) -> Loss:
    """Return a bounded quantity whose sum counts targets at or below predictions; it is no loss.

    A row adds 1 - quantile where its target is, and -quantile elsewhere: 0 in the mean, where that
    part of the targets is below.
    """
    return Loss(
        "count below",
        _below_residual(quantile),
        lipschitz=max(quantile, 1 - quantile),
        smoothness=1.0,  # nothing takes steps by it
        apart=1.0,
    )


LOSSES = (
    *(logistic, squared, hinge, poisson(20.0), softmax(2), softmax(5), pinball(0.9), huber(0.25)),
    pinballs((0.1, 0.5, 0.9)),
)
"""One of each loss, and those of several outputs in two sizes, for the conformance tests."""
