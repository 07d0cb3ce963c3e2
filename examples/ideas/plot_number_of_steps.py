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

n = 10_000
d = 50
lipschitz = 1.0
strong_convexity = 0.01
smoothness = 0.26
delta = 1e-5
problem = {
    "n_samples": n,
    "n_features": d,
    "lipschitz": lipschitz,
    "strong_convexity": strong_convexity,
    "smoothness": smoothness,
}


def worst_case_risk(m):
    """Return smoothness/2 E|theta - theta*|^2 with the least curvature everywhere.

    The start is lipschitz / strong_convexity away.
    """
    x = (1 - m.step_size * strong_convexity) ** m.n_steps
    noise = m.noise_multiplier * m.step_size * 2 * lipschitz / n
    spread = d * noise**2 * (1 - x**2) / (1 - (1 - m.step_size * strong_convexity) ** 2)
    return smoothness / 2 * ((x * lipschitz / strong_convexity) ** 2 + spread)


def lemma6(m):
    """Return (2 beta L^2 / alpha^2) e^(-alpha eta K) + 2 beta d sigma^2 / alpha, by Lemma 6.

    It holds for step sizes up to alpha / (2 beta^2).
    """
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
        f"{rule:10s} at epsilon 1: {m.n_steps:6d} steps of {m.step_size:.4f}, "
        f"noise multiplier {m.noise_multiplier:8.3f}, "
        f"epsilon {tightest(m).guarantee.epsilon(delta):.4f}, "
        f"worst-case risk {worst_case_risk(m):.4g}"
    )
by_theorem4 = calibrate(1.0, delta, n_steps="theorem4", **problem)
print(f"Lemma 6 for the run of Theorem 4: {lemma6(by_theorem4):.4g}")

# %%
# In the worst case the curvature-aware rule stops too early; real losses are far more curved along
# the path.
plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
names = {
    "theorem4": "steps by Theorem 4",
    "worst_case": "steps by the exact bound, worst case",
    "curvature": "steps by the expected curvature",
}
for (rule, risk), style in zip(risks.items(), ("o-", "s-", "D-"), strict=True):
    ax.loglog(epsilons, risk, style, markersize=4, label=names[rule])
ax.loglog(
    epsilons,
    [lemma6(calibrate(e, delta, n_steps="theorem4", **problem)) for e in epsilons],
    "--",
    color="0.4",
    label="Lemma 6, for Theorem 4",
)
ax.set(
    title="When to stop: what each rule promises",
    xlabel="privacy budget epsilon, delta = 1e-5",
    ylabel="bound on the excess risk",
)
figure.legend(loc="outside lower center", ncols=2, frameon=False)
plt.show()
