"""
Survival curves
===============

How long do customers, patients or machines last? In discrete time a curve is a logistic regression
of hazards, with a row for each person and period; the guarantee is for a person with all rows.
"""

# %%
# Times to an event, some of them censored
# ----------------------------------------

import matplotlib.pyplot as plt
import numpy as np

from skdpdyn import PrivateLogisticRegression
from skdpdyn.inference import SurvivalCurve, person_periods, private_regression

rng = np.random.default_rng(0)
n = 60_000
times = [1, 2, 3, 4, 5]
treated = rng.integers(0, 2, n)
lasted = rng.exponential(4.0 * np.exp(0.6 * treated))
left = rng.uniform(0, 12, n)
durations = np.minimum(lasted, left)
events = lasted <= left
rows, happens, persons, at_risk = person_periods(durations, events, times, treated[:, None])

# %%
# Hazards
# -------
# The four dummies of periods are a group of which a row has one at most. Rows of a person count
# while the person's sums stay within bounds, so a person counts once.

_, table = private_regression(
    PrivateLogisticRegression(max_rows_per_person=len(times)),
    rows,
    happens,
    epsilon=4.0,
    bounds=(0, 1),
    one_hot=[range(len(times) - 1)],
    classes=[0, 1],
    groups=persons,
    equal_rows=True,
    at_risk=at_risk,
)
print(table)

# %%
# Curves with bands
# -----------------

plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(layout="constrained")
for x, label in ((0, "untreated"), (1, "treated")):
    curve = SurvivalCurve.of(table, times, [x])
    (line,) = ax.step(curve.times, curve.survival, where="post", label=label)
    band = {"step": "post", "alpha": 0.25, "color": line.get_color()}
    ax.fill_between(curve.times, curve.low, curve.high, **band)
    truth = np.exp(-curve.times / (4.0 * np.exp(0.6 * x)))
    far = np.max(np.abs(curve.survival - truth)[1:] / (curve.high - curve.low)[1:])
    print(f"{label}: {curve.survival[-1]:.3f} last {curve.times[-1]:g} years, ", end="")
    print(f"truth {truth[-1]:.3f}; within twice the band everywhere: {far < 1}")
ax.set(title="Survival, with 95 % bands", xlabel="years", ylabel="probability of no event")
ax.set_ylim(0, 1)
ax.legend()
plt.show()
