"""
When to stop
============

The number of steps by Theorem 4 of Chourasia, Ye and Shokri (2021), by the exact bound in the worst
case, and where noise starts to drown the signal; and what the paper's Lemma 6 and the exact bound
promise for the excess risk.
"""

import math

import matplotlib.pyplot as plt
import numpy as np

from skdpdyn.privacy import calibrate, tightest

n, d, lipschitz, strong_convexity, smoothness, delta = 10_000, 50, 1.0, 0.01, 0.26, 1e-5
problem = {
    "n_samples": n, "n_features": d, "lipschitz": lipschitz, "strong_convexity": strong_convexity, "smoothness": smoothness
}  # fmt: skip


def worst_case_risk(m):
    """smoothness/2 E|theta - theta*|^2 with the least curvature everywhere, from lipschitz / strong_convexity away."""
    x = (1 - m.step_size * strong_convexity) ** m.n_steps
    noise = m.noise_multiplier * m.step_size * 2 * lipschitz / n
    spread = d * noise**2 * (1 - x**2) / (1 - (1 - m.step_size * strong_convexity) ** 2)
    return smoothness / 2 * ((x * lipschitz / strong_convexity) ** 2 + spread)


def lemma6(m):
    """Lemma 6: (2 beta L^2 / alpha^2) e^(-alpha eta K) + 2 beta d sigma^2 / alpha, for step sizes up to alpha / (2 beta^2)."""
    sigma2 = m.step_size / 2 * (m.noise_multiplier * 2 * lipschitz / n) ** 2
    start = (
        2
        * smoothness
        * (lipschitz / strong_convexity) ** 2
        * math.exp(-strong_convexity * m.step_size * m.n_steps)
    )
    return start + 2 * smoothness * d * sigma2 / strong_convexity


epsilons = np.geomspace(0.1, 5, 12)
risks = {}
for rule in ("theorem4", "worst_case", "curvature"):
    runs = [calibrate(epsilon, delta, n_steps=rule, **problem) for epsilon in epsilons]
    risks[rule] = [worst_case_risk(m) for m in runs]
    m = calibrate(1.0, delta, n_steps=rule, **problem)
    print(
        f"{rule:10s} at epsilon 1: {m.n_steps:6d} steps of {m.step_size:.4f}, noise multiplier {m.noise_multiplier:8.3f}, "
        f"epsilon {tightest(m).epsilon(delta):.4f}, worst-case risk {worst_case_risk(m):.4g}"
    )
print(
    f"Lemma 6 for the run of Theorem 4: {lemma6(calibrate(1.0, delta, n_steps='theorem4', **problem)):.4g}"
)

# %%
# In the worst case the curvature-aware rule stops too early; real losses are far more curved along
# the path.
figure, ax = plt.subplots(layout="constrained")
for rule, risk in risks.items():
    ax.loglog(epsilons, risk, label=rule)
ax.loglog(
    epsilons,
    [lemma6(calibrate(e, delta, n_steps="theorem4", **problem)) for e in epsilons],
    "--",
    label="Lemma 6",
)
ax.set(xlabel="epsilon", ylabel="bound on the excess risk")
ax.legend(frameon=False)
plt.show()
