"""
An attacker's reach
===================

A budget is a promise about an attacker who knows every record but one, and wants to learn whether
that one is in the data. They may accuse many, and catch more members at the price of more false
alarms. The promise bounds how well they can do that, whatever they know and however they compute.
"""

import matplotlib.pyplot as plt
import numpy as np

from skdpdyn import PrivateLogisticRegression

# %%
# Ask before you fit
# ------------------
# ``privacy_cost`` returns the guarantee that a fit will have. It needs public numbers only.

costs = {
    epsilon: PrivateLogisticRegression(epsilon=epsilon, delta=1e-6, classes=[0, 1]).privacy_cost(
        n_samples=20_000, n_features=50
    )
    for epsilon in (0.1, 1.0, 3.0)
}
for epsilon, cost in costs.items():
    print(
        f"epsilon {epsilon}: at 1 % false alarms an attacker misses at least "
        f"{100 * cost.tradeoff(0.01):.1f} % of the members"
    )

# %%
# The whole curve
# ---------------
# An attacker who guesses is on the diagonal. Nobody can be above the line of a budget.

plt.style.use("tableau-colorblind10")
alarms = np.linspace(0, 1, 201)
figure, ax = plt.subplots(figsize=(5.5, 5.2), layout="constrained")
for (epsilon, cost), style in zip(costs.items(), ("-", "--", "-."), strict=True):
    found = [1 - cost.tradeoff(rate) for rate in alarms]
    ax.plot(alarms, found, style, label=f"epsilon {epsilon}")
ax.plot([0, 1], [0, 1], ":", color="0.5", label="guessing")
ax.set(
    title="The best attack that is possible",
    xlabel="false alarms: share of non-members who are accused",
    ylabel="share of members who are found, at most",
    aspect="equal",
    xlim=(0, 1),
    ylim=(0, 1),
)
figure.legend(loc="outside lower center", ncols=4, frameon=False)
plt.show()
