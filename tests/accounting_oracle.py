"""Deltas and epsilons of compositions by quadrature, with no grid of losses: an oracle.

With P, Q the densities of one release, L = log P/Q and m(z) = E_P exp(z L), the total loss of n
releases has delta(epsilon) = 1/(2 pi) int exp(n log m(z) - z epsilon) / (z (z + 1)) ds over z = t +
i s, for any t > 0: the Fourier transform of (1 - exp(-x)) exp(-t x), x > 0, is 1/(z (z + 1)). Both
integrals, that of m over x and this one over s, are trapezoidal sums of functions that are analytic
around the real line, so that they converge exponentially. At the saddle point, where the tilted
mean is epsilon, least cancels; the sum ends where its rest is small against itself. What has a
probability of 1e-9 delta is left out, smoothly, lest it decide m: answers are that much too low.
Where a large loss is rare, the answer is a small part of the sum: numbers are long doubles, and n
log m(z) is made of m(z) - 1. (Zhu, Dong and Wang 2022 invert the same function.)
"""

import math

import numpy as np
from scipy import optimize, special


def mixture(q, exponent):
    """Return log(1 - q + q e^exponent)."""
    if q == 1:
        return exponent
    near = np.log1p(q * np.expm1(np.minimum(exponent, 30.0)))
    far = exponent + np.log(q + (1 - q) * np.exp(-np.maximum(exponent, 30.0)))
    return np.where(exponent < 30.0, near, far)


def sampled_gaussian(q, noise, direction, left_out):
    """Return log P + x^2/2 and L of one Poisson-sampled Gaussian step as a function of x."""
    m = 1 / noise
    end = m - float(special.ndtri_exp(math.log(left_out)))

    def at(x):
        up = mixture(q, m * x - m * m / 2)
        fade = special.log_ndtr(-6 * (x - end - 1.0).astype(float))
        if direction == "remove":
            return up + fade, up
        if direction == "add":
            return np.zeros_like(x), -up
        return up + fade, up - mixture(q, -m * x - m * m / 2)

    return at


class NotConverged(ValueError):
    """The sums did not settle, so that nothing is said."""


class NoLargeLoss(NotConverged):
    """No loss is large, so that there are no two events."""


class Oracle:
    """Composition of ``[(pair, count), ...]`` in one direction, for epsilons near ``epsilon``."""

    largest = 2e7  # products in all

    def __init__(self, parts, epsilon, fineness=1.0):
        self.parts = parts
        self.fineness = fineness
        self.target = epsilon
        spread = math.sqrt(self._moments(0.0)[2])

        def excess(log_t):
            return self._moments(math.exp(log_t))[1] - epsilon

        low = high = math.log(0.1 / spread)
        while excess(high) < 0 and high < low + 30:
            high += 1
        if excess(high) < 0:  # no loss is as large: any tilt is right
            high = low + 3
        elif high > low:
            high = optimize.brentq(excess, low, high, xtol=1e-3)
        self.t = math.exp(high)
        self._sum()

    def _nodes(self, t, s=0.0):
        """Return for each part nodes' log weights of P e^(t L), and L; steps resolve e^(i s L)."""
        for pair, count in self.parts:
            wide = np.linspace(-60.0, 60.0, 2401)
            while True:
                log_p, loss = pair(wide)
                height = log_p - wide**2 / 2 + t * loss
                keep = np.flatnonzero(height > height.max() - 50)
                if keep[-1] < wide.size - 1:
                    break
                wide = np.linspace(-60.0, 2 * wide[-1], 2 * wide.size)
            low = wide[max(keep[0] - 1, 0)]
            high = wide[keep[-1] + 1]
            slope = np.max(np.abs(np.gradient(loss, wide))[keep])
            bend = np.abs(np.gradient(np.gradient(loss, wide), wide))
            curvature = np.sqrt(1 + np.max(bend[keep]) * t)
            step = min(0.15 / curvature, 0.1, 1.5 / max(s * slope, 1e-9)) / self.fineness
            n = int((high - low) / step) + 2
            if n > 400_000:
                raise NotConverged("too many nodes")
            x = np.linspace(low, high, n, dtype=np.longdouble)
            log_p, loss = pair(x)
            spacing = (high - low) / (n - 1)
            log_weight = log_p - x**2 / 2 + math.log(spacing / math.sqrt(2 * math.pi))
            yield log_weight + t * loss, loss, count

    def _moments(self, t):
        """Return K(t), K'(t) and K''(t)."""
        moments = np.zeros(3)
        for height, loss, count in self._nodes(t):
            weight = np.exp(height - height.max())
            mass = weight.sum()
            mean = (weight * loss).sum() / mass
            variance = (weight * (loss - mean) ** 2).sum() / mass
            moments += count * np.array([math.log(mass) + height.max(), mean, variance])
        return moments

    def _sum(self):
        """Tabulate exp(n log m(z)) / (z (z + 1)) over s, in units of its value at s = 0."""
        t = self.t
        tilted = [(np.exp(h - h.max()), loss, n, h.max()) for h, loss, n in self._nodes(t)]
        self.K = sum(n * (math.log(w.sum()) + top) for w, _, n, top in tilted)
        means = [(w * loss).sum() / w.sum() for w, loss, _, _ in tilted]
        self.mean = variance = far = 0.0
        for (w, loss, n, _), mean in zip(tilted, means, strict=True):
            self.mean += n * mean
            variance += n * (w * (loss - mean) ** 2).sum() / w.sum()
            far = max(far, np.max(np.abs(loss - mean)))
        spread = math.sqrt(variance)
        # the sum over s is periodic in the loss: its copies must be where nothing is
        period = 24 * spread + 2.5 * far + 40 / t
        ds = 2 * math.pi / period / self.fineness
        values = []
        s0 = 0.0
        block = 256
        total = 0.0
        work = 0
        while True:
            s = s0 + ds * np.arange(block, dtype=np.longdouble)
            log_value = np.zeros(block, dtype=np.clongdouble)
            for (h, loss, n), mean in zip(self._nodes(t, s[-1]), means, strict=True):
                work += block * loss.size
                if work > self.largest:
                    raise NotConverged("the sum over s is too long")
                centred = loss - mean
                w = np.exp(h - h.max())
                w /= w.sum()
                for i in range(0, block, 16):
                    half = np.outer(s[i : i + 16], centred) / 2
                    sine = np.sin(half)
                    real = -2 * sine**2 @ w
                    imag = 2 * (sine * np.cos(half)) @ w
                    size = np.log1p(2 * real + real**2 + imag**2) / 2
                    log_value[i : i + 16] += n * (size + 1j * np.arctan2(imag, 1 + real))
            z = t + 1j * s
            values.append(np.exp(log_value) / (z * (z + 1)))
            turned = (np.exp(1j * s * (self.mean - self.target)) * values[-1]).real
            total += turned.sum() - (turned[0] / 2 if len(values) == 1 else 0.0)
            s0 += ds * block
            rest = np.abs(values[-1][-32:]).max() * s0 / ds
            if rest < 1e-8 * abs(total):
                break
        self.values = np.concatenate(values)
        self.s = ds * np.arange(self.values.size, dtype=np.longdouble)
        self.ds = ds

    def delta(self, epsilon):
        """Return delta at ``epsilon``."""
        turned = np.exp(1j * self.s * (self.mean - epsilon)) * self.values
        total = (turned[0] / 2 + turned[1:].sum()).real * self.ds / math.pi
        return float(total) * math.exp(min(self.K - self.t * epsilon, 700.0))

    def solve(self, delta):
        """Return epsilon at ``delta``, 0 where delta(0) is below it."""

        def excess(epsilon):
            return math.log(max(self.delta(epsilon), 1e-320)) - math.log(delta)

        high = self.target
        while excess(high) > 0:
            high += 1 / self.t
        low = high
        while low > 0 and excess(low) < 0:
            low = max(low - 1 / self.t, 0.0)
        if low == 0 and excess(low) < 0:
            return 0.0
        return optimize.brentq(excess, low, high, xtol=1e-300, rtol=1e-13)


def composed_epsilon(parts, delta, guess, fineness=1.0):
    """Return epsilon at ``delta`` of parts in one direction, from an epsilon that is near it."""
    for _ in range(8):
        found = Oracle(parts, guess, fineness).solve(delta)
        if found == 0 or abs(found / guess - 1) < 1e-3:
            return found
        guess = found
    raise NotConverged("epsilon did not settle")


def sampled_epsilon(q, noise, n_steps, adjacency, delta, guess, fineness=1.0):
    """Return epsilon of Poisson-sampled Gaussian steps, from one that is near it."""
    left_out = 1e-9 * delta / n_steps
    directions = ["replace"] if adjacency == "replace_one" else ["remove", "add"]
    pairs = (sampled_gaussian(q, noise, one, left_out) for one in directions)
    return max(composed_epsilon([(pair, n_steps)], delta, guess, fineness) for pair in pairs)


def two_events(q, noise, n_steps, direction, epsilon, delta, step=0.01, longest=100):
    """Return delta, near ``delta``, of Poisson-sampled steps where a rare huge loss may decide.

    With m_s and m_r the small and the rare losses' parts of m, no step has a
    rare loss, n log m_s, or some have: their integrands are m_s^n and m_s^n ((1 + m_r/m_s)^n - 1),
    each on its own line, where less cancels than on one line for both. The answer does not depend
    on where rare losses begin.
    """
    left_out = 1e-9 * delta / n_steps
    end = 1 / noise - float(special.ndtri_exp(math.log(left_out)))
    x = np.arange(-42.0, end + 5.0, step, dtype=np.longdouble)
    log_p, loss = sampled_gaussian(q, noise, direction, left_out)(x)
    weight = np.exp(log_p - x * x / 2) * step / np.sqrt(2 * np.longdouble(np.pi))
    large = np.flatnonzero(loss > epsilon / 3)
    if not large.size:
        raise NoLargeLoss("no loss is large")
    begin = x[large[0]]
    rare = special.ndtr((8 * (x - begin)).astype(float))

    def logs(z):
        """Return n log m_s, and n log(1 + m_r/m_s); complex log1p and expm1 lose small numbers."""
        power = np.exp(np.multiply.outer(z, loss))
        small = (power - 1) @ (weight * (1 - rare)) - weight @ rare
        ratio = power @ (weight * rare) / (1 + small)
        sizes = (np.log1p(2 * y.real + abs(y) ** 2) / 2 for y in (small, ratio))
        angles = (np.arctan2(y.imag, 1 + y.real) for y in (small, ratio))
        return [n_steps * (one + 1j * other) for one, other in zip(sizes, angles, strict=True)]

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def height(log_t, some):
        t = np.array([np.exp(np.longdouble(log_t))], dtype=np.clongdouble)
        log_small, log_some = (log.real for log in logs(t))
        log_some = log_some + np.log(-np.expm1(-log_some)) if some else 0.0
        value = float((log_small + log_some - t.real * epsilon)[0])
        return value if math.isfinite(value) else 1e290 * log_t  # too large a tilt

    total = 0.0
    log_largest = max(7.0, math.log(-4 * math.log(delta) / epsilon))
    for some in (False, True):
        span = (1.0, log_largest)
        log_t = optimize.minimize_scalar(height, bounds=span, args=(some,), method="bounded").x
        t = math.exp(log_t)
        top = height(log_t, some)
        s0 = 0.0
        found = 0.0
        ds = 2 * math.pi / (4 * float(loss.max()))
        while True:
            z = t + 1j * (s0 + ds * np.arange(128, dtype=np.longdouble))
            log_small, log_some = logs(z)
            values = np.exp(log_small - z * epsilon - top) / (z * (z + 1))
            if some:
                a = log_some.real
                b = log_some.imag
                turned = np.expm1(a) * np.cos(b) - 2 * np.sin(b / 2) ** 2
                values *= turned + 1j * np.exp(a) * np.sin(b)
            found += values.real.sum() - (values[0].real / 2 if s0 == 0 else 0.0)
            s0 += 128 * ds
            if s0 > 128 * ds * longest:
                raise NotConverged("the sum over s is too long")
            if np.abs(values[-16:]).max() * s0 / ds < 1e-9 * abs(found):
                break
        total += float(found) * ds / math.pi * math.exp(top)
    return total


def exact_epsilon(q, noise, n_steps, adjacency, delta, guess):
    """Return epsilon of Poisson-sampled steps, from one that is very near it, in any tail."""
    setting = q, noise, n_steps
    if q > 1e-4 or delta > 1e-9:
        return sampled_epsilon(*setting, adjacency, delta, guess)
    at = np.array([guess * (1 - 1e-4), guess])
    direction = "replace" if adjacency == "replace_one" else "remove"
    try:
        log_deltas = [math.log(two_events(*setting, direction, x, delta)) for x in at]
    except NoLargeLoss:
        return sampled_epsilon(*setting, adjacency, delta, guess)
    return guess + (math.log(delta) - log_deltas[1]) * np.diff(at)[0] / np.diff(log_deltas)[0]
