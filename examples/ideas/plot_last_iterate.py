"""
The last iterate
================

One training run, judged by three theorems. Composition charges for every step, as if all iterates
were shown. But only the last one is, and what the first steps revealed is drowned by the noise of
the later ones: by the bounds of Langevin dynamics and of shifted interpolation, the loss converges.
The second is exact for a quadratic, and never above the others.

The default trains for a few dozen long steps, for which composition is the least bound. An
estimator that is penalised enough to converge is three lines: it takes the step size and the steps
of Theorem 4 of Chourasia, Ye and Shokri (2021), and may train for ever at the same epsilon.
"""

import matplotlib.pyplot as plt
import numpy as np

from skdpdyn import PrivateLogisticRegression
from skdpdyn.inspection import PrivacyDynamicsDisplay
from skdpdyn.privacy import NoisyGradientDescent, calibrate, composition, langevin, last_iterate
from skdpdyn.solvers import NoisyGD

# %%
# The size of the Adult data, regularised enough to see the loss converge. ``calibrate`` finds the
# noise for epsilon = 0.1; then the same run goes on for longer.

strong_convexity = 2e-3
smoothness = 0.27
delta = 1e-9
run = calibrate(
    0.1,
    delta,
    n_samples=36_177,
    n_features=105,
    lipschitz=0.5,
    strong_convexity=strong_convexity,
    smoothness=smoothness,
    n_steps="worst_case",
)
steps = np.unique(np.geomspace(1, 30_000, 60).astype(int))
bounds = {
    "composition: all steps": composition,
    "Langevin dynamics": langevin,
    "last iterate, exact": last_iterate,
}
plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
for (name, bound), style in zip(bounds.items(), (":", "--", "-"), strict=True):
    losses = [
        bound(
            NoisyGradientDescent(
                n_steps=int(k),
                noise_multiplier=run.noise_multiplier,
                step_size=3.6,
                strong_convexity=strong_convexity,
                smoothness=smoothness,
            )
        ).epsilon(delta)
        for k in steps
    ]
    print(f"epsilon after {steps[-1]} steps by {bound.__name__}: {losses[-1]:.3f}")
    ax.loglog(steps, losses, style, label=name)
ax.set(
    title="One run, three theorems",
    xlabel="number of steps",
    ylabel="epsilon at delta = 1e-9",
)
figure.legend(loc="outside lower center", ncols=3, frameon=False)
plt.show()

# %%
# The same of an estimator: what it spent is the dashed line, and goes on being enough to the right
# of K*, where composition would not.

X = np.random.default_rng(0).uniform(-0.5, 0.5, (20_000, 4))
solver = NoisyGD(n_steps="theorem4")
model = PrivateLogisticRegression(classes=[0, 1], alpha=0.1, solver=solver, bound="langevin")
model.fit(X, (X[:, 0] > 0).astype(int))
PrivacyDynamicsDisplay.from_estimator(model, max_steps=100 * model.n_iter_)
print(f"K* = {model.n_iter_}, epsilon = {model.epsilon_:.3f} by {model.bound_}")
plt.show()
