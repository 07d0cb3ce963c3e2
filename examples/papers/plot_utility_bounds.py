"""
Utility bounds beside measured risk
===================================

What papers prove about the excess risk of private training, as formulas with their constants, and
what the same runs lose: lecture notes of Wang (CS292A, 2021), sections 12.2.1 to 12.2.5; Chourasia,
Ye and Shokri (2021), Lemma 6, Theorems 4 and 5 and Table 1; Yu et al. (2020), Algorithm 2; Theorems
II.2, IV.2 and A.1 of Boninsegna's survey. No formula is a guarantee of privacy here: the library
computes those.
"""

import math

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from skdpdyn.privacy import (
    Budget,
    PoissonSubsampled,
    WithoutReplacement,
    least_noise,
    subsampling,
)

rng = np.random.default_rng(0)
n = 2000
d = 10
delta = 1e-6
penalty = 0.05
X = rng.normal(size=(n, d))
X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1)
y = rng.random(n) < expit(4 * X[:, 0])
smoothness = 0.25 + penalty
lipschitz = 2.0  # gradients of norm 1, and of the penalty up to 1 / alpha
signed = np.where(y, X.T, -X.T).T


def risk(theta):
    """Return the mean loss, which is ``penalty``-strongly convex."""
    return np.logaddexp(0, -signed @ theta).mean() + penalty / 2 * theta @ theta


def gradient(theta, rows=slice(None)):
    """Return the mean gradient of some rows."""
    some = signed[rows]
    return penalty * theta - expit(-some @ theta) @ some / len(some)


best = minimize(risk, np.zeros(d), jac=gradient, tol=1e-12)
radius = np.linalg.norm(best.x)
gap = risk(np.zeros(d)) - best.fun


# %%
# The lecture notes' bounds are for sums of n losses, noise of variance sigma^2 on the sum, and T
# steps; rho-zCDP gives sigma^2 / T = L^2 / (2 rho). All are divided by n here. The last, of the
# average that weights step t by t, needs the step size 2 / (lambda (t + 1)); with the printed
# 1 / (lambda (t + 1)) its proof does not work.
def squared_gradient(steps, sigma):
    """Return 12.2.1, smooth: a bound on the least squared norm of the mean gradient."""
    rough = n * smoothness * gap * n
    return (2 * rough / steps + 2 * math.sqrt(2 * rough * d * sigma**2 / steps)) / n**2


def smooth(steps, sigma):
    """Return 12.2.2, convex and smooth."""
    return smoothness * radius**2 / steps + 2 * radius * math.sqrt(d / steps) * sigma / n


def lipschitz_only(steps, sigma):
    """Return 12.2.3, convex and Lipschitz."""
    return radius * (lipschitz + math.sqrt(d) * sigma / n) / math.sqrt(steps)


def strongly_convex(steps, sigma):
    """Return 12.2.4, strongly convex and Lipschitz, for the average weighted by t."""
    return 2 * (lipschitz**2 + d * (sigma / n) ** 2) / (penalty * (steps + 1))


def lemma_6(steps, step_size, sigma):
    """Return Lemma 6 of Chourasia, Ye and Shokri: noise sqrt(2 step_size) sigma a step."""
    start = 2 * smoothness * lipschitz**2 / penalty**2
    noise = 2 * smoothness * d * sigma**2 / penalty
    return start * math.exp(-penalty * step_size * steps) + noise


# %%
# Rates, constants and logarithms of 1/delta left out: 12.2.5 of the notes, Table 1, and the lower
# bound of Theorem 5, which no (epsilon, delta)-private method beats on all data.
def rates(epsilon):
    """Return the rates of papers by name."""
    fine = d / (penalty * n**2 * epsilon**2)
    return {
        "notes, convex": math.sqrt(d) * radius / (n * epsilon),
        "notes, strongly convex": fine,
        "Bassily et al., noisy SGD": fine * math.log(n) ** 2,
        "Wang et al., DP-SVRG": fine * math.log(n),
        "Zhang et al., output": fine * smoothness / penalty,
        "Kifer et al., objective": fine,
        "Chourasia et al., noisy GD": fine * smoothness / penalty,
        "lower bound": min(1.0, d / (epsilon * n) ** 2),
    }


for name, rate in rates(1.0).items():
    print(f"{name:28s} {rate:.1e}")


# %%
# Runs: the bounds hold for the mean over the noise, which ten runs estimate.
def theorem_4(epsilon):
    """Return the bound and the mean excess risk of noisy GD as Theorem 4 has it."""
    step_size = penalty / (2 * smoothness**2)
    log = math.log(1 / delta)
    sigma = lipschitz / (epsilon * n) * math.sqrt(8 * (epsilon + 2 * log) / penalty)
    room = max(n**2 * epsilon**2 / (4 * log * d), math.e)
    steps = math.ceil(2 * smoothness**2 / penalty**2 * math.log(room))
    lost = []
    for _ in range(10):
        theta = np.zeros(d)
        for _ in range(steps):
            noise = math.sqrt(2 * step_size) * sigma * rng.normal(size=d)
            theta = theta - step_size * gradient(theta) + noise
        lost.append(risk(theta) - best.fun)
    return lemma_6(steps, step_size, sigma), np.mean(lost)


def of_notes(epsilon, steps=400):
    """Return the bounds and the mean excess risks of the notes' two averages."""
    sigma = lipschitz * math.sqrt(steps) / Budget(epsilon, delta, "add_remove").mu
    step_size = min(1 / smoothness, radius * n / (math.sqrt(d * steps) * sigma))
    lost = []
    for _ in range(10):
        one = np.zeros(d)
        other = np.zeros(d)
        sums = np.zeros((2, d))
        for t in range(1, steps + 1):
            sums += one, t * other
            noise = sigma / n * rng.normal(size=(2, d))
            one = one - step_size * (gradient(one) + noise[0])
            other = other - 2 / (penalty * (t + 1)) * (gradient(other) + noise[1])
        averages = sums[0] / steps, 2 / (steps * (steps + 1)) * sums[1]
        lost.append([risk(average) - best.fun for average in averages])
    print(
        f"epsilon {epsilon:g}: least squared gradient below {squared_gradient(steps, sigma):.1e}, "
        f"without smoothness {lipschitz_only(steps, sigma):.1e}"
    )
    return (smooth(steps, sigma), strongly_convex(steps, sigma)), np.mean(lost, axis=0)


epsilons = np.array([0.5, 1.0, 2.0, 4.0, 8.0])
dynamics = np.array([theorem_4(epsilon) for epsilon in epsilons])
notes = np.array([of_notes(epsilon) for epsilon in epsilons])
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(layout="constrained")
pairs = {
    "Chourasia et al., Theorem 4": dynamics,
    "notes, smooth": notes[:, :, 0],
    "notes, strongly convex": notes[:, :, 1],
}
for number, (name, both) in enumerate(pairs.items()):
    assert np.all(both[:, 1] <= both[:, 0])
    axes.loglog(epsilons, both[:, 0], f"C{number}--", label=f"{name}: bound")
    axes.loglog(epsilons, both[:, 1], f"C{number}-", label=f"{name}: measured")
axes.set(xlabel="epsilon", ylabel="excess risk", title="Proven and measured excess risk")
axes.legend(fontsize="small")
plt.show()


# %%
# Algorithm 2 of Yu et al.: one record a step, drawn with replacement. With step size 1 / (nu t) the
# squared distance from the minimiser is at most 2 L^2 (1 + d sigma^2) / (nu^2 t) (their equation
# 13), for the expected curvature nu: here its least value, the penalty.
def algorithm_2_bound(steps, sigma, curvature):
    """Return equation 13."""
    return 2 * lipschitz**2 * (1 + d * sigma**2) / (curvature**2 * steps)


def algorithm_2(noise):
    """Return the record of as many steps as there are records."""
    return WithoutReplacement(
        n_samples=n,
        batch_size=1,
        n_epochs=1,
        noise_multiplier=noise,
        step_size=0.1,  # counts for bounds on the last iterate only
        strong_convexity=penalty,
        smoothness=smoothness,
    )


run = least_noise(algorithm_2, 1.0, delta, bound="subsampling")
sigma = 2 * run.noise_multiplier  # over L: a replaced record moves a step by 2 L
distances = []
for _ in range(10):
    theta = np.zeros(d)
    for t, row in enumerate(rng.integers(n, size=n), start=1):
        noise = lipschitz * sigma * rng.normal(size=d)
        theta = theta - (gradient(theta, slice(row, row + 1)) + noise) / (penalty * t)
    distances.append(np.sum((theta - best.x) ** 2))
bound = algorithm_2_bound(n, sigma, penalty)
assert np.mean(distances) <= bound
print(f"Algorithm 2: squared distance {np.mean(distances):.0f}, bound {bound:.0f}")

# %%
# Noise by formula, over the sensitivity: Theorem II.2 for one release, and IV.2 for T Poisson
# batches, whose constant c2 the papers leave open. Here it is what the library needs.
for epsilon in (0.1, 0.5, 0.99):
    textbook = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    print(f"epsilon {epsilon}: II.2 {textbook:.2f}, exact {1 / Budget(epsilon, delta).mu:.2f}")
for rate, steps in ((0.01, 1000), (0.001, 10_000)):
    needed = least_noise(
        lambda noise, rate=rate, steps=steps: PoissonSubsampled(
            sampling_probability=rate,
            noise_multiplier=noise,
            n_steps=steps,
            adjacency="add_remove",
        ),
        0.1,
        delta,
    ).noise_multiplier
    constant = needed * 0.1 / (rate * math.sqrt(steps * math.log(1 / delta)))
    print(f"q = {rate}, T = {steps}: noise {needed:.2f}, so that c2 = {constant:.2f}")

# %%
# Theorem A.1 of the survey (Mironov, Talwar and Zhang 2019, Theorem 11): for q <= 1/5 and noise
# z >= 4 a step's Renyi divergence of a small order a is at most 2 q^2 a / z^2: here four times the
# exact one.


def small_order(rate, noise, order):
    """Return the closed bound of a step, infinite where the theorem says nothing."""
    length = math.log1p(1 / (rate * (order - 1)))
    first = noise**2 * length / 2 - 2 * math.log(noise)
    room = noise**2 * length**2 / 2 - math.log(5) - 2 * math.log(noise)
    ceiling = length + math.log(rate * order) + 1 / (2 * noise**2)
    holds = rate <= 0.2 and noise >= 4 and order <= first and 0 < order * ceiling <= room
    return 2 * rate**2 * order / noise**2 if holds else math.inf


step = PoissonSubsampled(
    sampling_probability=0.01, noise_multiplier=4.0, n_steps=1, adjacency="add_remove"
)
for order in (2.0, 8.0, 30.0):
    exact = subsampling(step).rdp(order)
    closed = small_order(0.01, 4.0, order)
    assert exact <= closed
    print(f"order {order:g}: A.1 {closed:.2e}, exact {exact:.2e}")
