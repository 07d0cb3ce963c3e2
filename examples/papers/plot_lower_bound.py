"""
How tight?
==========

The loss that a quadratic really has, exactly and by the lower bound of Theorem 3 of Chourasia, Ye
and Shokri (2021), against their upper bounds. `last_iterate` is the exact loss: nothing smaller can
be proven.

With step size eta, curvature lambda, z the noise multiplier and f(r) = (1 - exp(-r eta K)) / (r eta
z^2), the Renyi divergence of order a after K steps is at most a f(lambda (2 - eta lambda) / 2), by
their Corollary 2, and at least a f(lambda) / 2, by Theorem 3. The last iterate is Gaussian: data
whose means are S/(n lambda) apart move it by mu = sum c^i / (z sqrt(sum c^(2 i))) standard
deviations, c = 1 - eta lambda, i < K, which is a mu^2 / 2.
"""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

from skdpdyn.privacy import NoisyGradientDescent, composition, langevin, last_iterate

m = NoisyGradientDescent(
    n_steps=200, noise_multiplier=20.0, step_size=0.05, strong_convexity=1.0, smoothness=1.0
)
steps = np.unique(np.geomspace(1, 1000, 60).astype(int))
order = 10
eta = m.step_size
curvature = m.strong_convexity
z = m.noise_multiplier


def converging(run, rate):
    """Return f(rate)."""
    return -np.expm1(-rate * eta * run.n_steps) / (rate * eta * z**2)


def exact(run):
    """Return half of mu^2."""
    powers = (1 - eta * curvature) ** np.arange(run.n_steps)
    return powers.sum() ** 2 / (powers**2).sum() / (2 * z**2)


bounds = {
    "composition": lambda run: composition(run).rdp(order),
    "Corollary 2": lambda run: order * converging(run, curvature * (2 - eta * curvature) / 2),
    "last iterate": lambda run: last_iterate(run).rdp(order),
    "exact": lambda run: order * exact(run),
    "Theorem 3, lower bound": lambda run: order * converging(run, curvature) / 2,
}
curves = {
    name: np.array([bound(replace(m, n_steps=int(k))) for k in steps])
    for name, bound in bounds.items()
}

# %%
# The paper says that its bound and its lower bound are a factor 4 / (2 - step_size) apart in the
# end.
for name, curve in curves.items():
    print(f"{name:24s} after {steps[-1]} steps: {curve[-1]:.6f}")
ratio = curves["Corollary 2"][-1] / curves["exact"][-1]
print(f"Corollary 2 / exact = {ratio:.4f} <= {4 / (2 - 0.05) ** 2:.4f}")
first = [last_iterate(replace(m, n_steps=k)).rdp(order) for k in (1, 2, 3)]
last = [langevin(replace(m, n_steps=k)).rdp(order) for k in (m.n_steps - 1, m.n_steps)]
print("the first steps add", np.diff(first, prepend=0).round(6))
print(f"and the last adds {last[1] - last[0]:.1e}")

plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
for (name, curve), style in zip(curves.items(), ("-", "-", "-", "--", ":"), strict=True):
    ax.loglog(steps, curve, style, linewidth=3 if name == "last iterate" else 1.5, label=name)
ax.set(
    title="Upper and lower bounds for a quadratic",
    xlabel="number of steps",
    ylabel=f"Renyi divergence of order {order}",
)
figure.legend(loc="outside lower center", ncols=3, frameon=False)
plt.show()
