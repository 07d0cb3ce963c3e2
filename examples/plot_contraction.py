"""
Who comes early is better protected
===================================

Figures 2 and 3 of Asoodeh, Diaz and Calmon (2020): the privacy of a record by its place in one pass
of projected noisy SGD, by the contraction of E_gamma (Theorem 4) and by amplification by iteration
(Proposition 1).
"""

import matplotlib.pyplot as plt
import numpy as np

from skdpdyn.privacy import OnePass, contraction, last_iterate
from skdpdyn.privacy.accountants.iteration import proposition1

settings = {
    "Figure 2": (
        OnePass(
            n_samples=40, noise=2.0, step_size=0.5, lipschitz=1.0, smoothness=0.5, diameter=1.0
        ),
        (1, 20, 39),
    ),
    # smoothness 0.3 below strong convexity 0.4 is the paper's; no function has it, and last_iterate
    # refuses it
    "Figure 3": (
        OnePass(
            n_samples=40,
            noise=1.0,
            step_size=0.7,
            lipschitz=1.0,
            smoothness=0.3,
            diameter=1.0,
            strong_convexity=0.4,
        ),
        (20, 30, 39),
    ),
}
figure, axes = plt.subplots(2, 3, figsize=(12, 6.5), layout="constrained")
epsilon = np.linspace(0.0, 2.0, 101)
for row, (title, (m, indices)) in zip(axes, settings.items(), strict=True):
    for ax, index in zip(row, indices, strict=True):
        theorem4, iteration = contraction(m, index=index), proposition1(m, index)
        ax.semilogy(epsilon, theorem4.delta(epsilon), label="Theorem 4")
        ax.semilogy(epsilon, iteration.delta(epsilon), label="Proposition 1")
        if m.strong_convexity <= m.smoothness:
            ax.semilogy(epsilon, last_iterate(m, index=index).delta(epsilon), label="last iterate")
        ax.set(title=f"{title}, record {index}", xlabel="epsilon", ylabel="delta", ylim=(1e-30, 2))
        ax.legend(frameon=False)
        below = np.mean(theorem4.delta(epsilon) <= iteration.delta(epsilon))
        print(
            f"{title}, record {index}: delta(0.5) = {theorem4.delta(0.5):.3e} by Theorem 4, {iteration.delta(0.5):.3e} by "
            f"Proposition 1; Theorem 4 is below at {100 * below:.0f} % of the epsilons"
        )

# %%
# Stopped at a random step, everybody has the same protection (Theorem 5).
stopped = OnePass(
    n_samples=40,
    noise=2.0,
    step_size=0.5,
    lipschitz=1.0,
    smoothness=0.5,
    diameter=1.0,
    stopping="random",
)
print(
    f"Theorem 5: {contraction(stopped).delta(0.5):.6f}; summed exactly: {contraction(stopped, tight=True).delta(0.5):.6f}"
)
plt.show()
