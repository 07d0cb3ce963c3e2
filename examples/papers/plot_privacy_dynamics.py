"""
Privacy dynamics
================

Figure 1 of Chourasia, Ye and Shokri (2021): their converging bound against composition, for three
strong convexities; and the exact price of the last iterate, which they do not have.
"""

import matplotlib.pyplot as plt
import numpy as np

from skdpdyn.inspection import PrivacyDynamicsDisplay
from skdpdyn.privacy import NoisyGradientDescent, langevin, last_iterate

# %%
# The paper's setting: total gradient sensitivity 4, n = 5000, step size 0.02, sigma 0.02,
# smoothness 4, order 30.
sensitivity = 4.0
n = 5000
step_size = 0.02
sigma = 0.02
order = 30
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(1, 3, figsize=(11, 4.6), layout="constrained", sharey=True)
for ax, strong_convexity in zip(axes, (1.0, 2.0, 4.0), strict=True):
    m = NoisyGradientDescent(
        n_steps=2000,
        noise_multiplier=n * sigma * np.sqrt(2 / step_size) / sensitivity,
        step_size=step_size,
        strong_convexity=strong_convexity,
        smoothness=4.0,
    )
    PrivacyDynamicsDisplay.from_mechanism(m, order=order, ax=ax)
    ax.set(title=f"strong convexity {strong_convexity:g}", xlabel="number of steps")
    ax.legend().remove()
    asymptote = order * sensitivity**2 / (strong_convexity * sigma**2 * n**2)
    ours = langevin(m).rdp(order)
    exact = last_iterate(m).rdp(order)
    print(
        f"strong convexity {strong_convexity:g}: Corollary 1 {ours:.6f}, its asymptote "
        f"{asymptote:.6f}, exact {exact:.6f}, exact / Corollary 1 = {exact / ours:.3f}"
    )
for ax in axes[1:]:
    ax.set_ylabel("")
figure.legend(
    *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False
)
plt.show()
