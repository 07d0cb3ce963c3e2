"""
The run of the first paper
==========================

Noisy gradient descent as in Theorem 4 of Chourasia, Ye and Shokri (2021): one line fits it, and its
privacy bound converges as the steps go on.
"""

import matplotlib.pyplot as plt
import numpy as np

from skdpdyn import PrivateLogisticRegression
from skdpdyn.inspection import PrivacyDynamicsDisplay
from skdpdyn.solvers import NoisyGD

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (20_000, 5))
y = rng.uniform(size=20_000) < 1 / (1 + np.exp(-4 * X[:, 0]))

# %%
# ``n_steps="theorem4"`` takes the penalty, the step size and the number of steps K* from epsilon,
# delta and the size of the table, ``bound="langevin"`` the noise.
model = PrivateLogisticRegression(
    epsilon=1.0,
    delta=1e-5,
    classes=[False, True],
    bounds=(-1, 1),
    conditioning=None,
    solver=NoisyGD(n_steps="theorem4"),
    bound="langevin",
).fit(X, y)
print(f"alpha {model.alpha_:.3g}, K* = {model.n_iter_:,}, sigma = {model.mechanism_.sigma:.3g}")
print(f"epsilon {model.epsilon_:.6f} at delta {model.delta_:g}")

# %%
# The bound of the theorem stays where it is after K* steps; the price by composition grows on.
PrivacyDynamicsDisplay.from_estimator(model, max_steps=100 * model.n_iter_)
plt.show()
