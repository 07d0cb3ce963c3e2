"""
How tight?
==========

The loss that a quadratic really has, exactly and by the lower bound of Theorem 3 of Chourasia, Ye
and Shokri (2021), against their upper bounds. `last_iterate` is the exact loss: nothing smaller can
be proven.
"""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

from skdpdyn.privacy import NoisyGradientDescent, composition, last_iterate
from skdpdyn.privacy.literature.langevin import (
    contributions,
    langevin_quadratic,
    lower_bound,
    quadratic,
)

m = NoisyGradientDescent(
    n_steps=200, noise_multiplier=20.0, step_size=0.05, strong_convexity=1.0, smoothness=1.0
)
steps, order = np.unique(np.geomspace(1, 1000, 60).astype(int)), 10
bounds = {
    "composition": lambda run: composition(run).rdp(order),
    "Corollary 2": lambda run: langevin_quadratic(run).rdp(order),
    "last iterate": lambda run: last_iterate(run).rdp(order),
    "exact": lambda run: quadratic(run).rdp(order),
    "Theorem 3, lower bound": lambda run: lower_bound(run)(order),
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
print(
    "the first steps add",
    contributions(m, order, last_iterate)[:3].round(6),
    "and the last",
    f"{contributions(m, order)[-1]:.1e}",
)

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
