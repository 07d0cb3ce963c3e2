"""
Private scores
==============

A test score is computed from records, so it leaks as a model does. One noisy histogram of
probabilities by label pays for all metrics and curves at once, and each has an interval, because
the noise is public. On the records that were held out it costs nothing beside the fit.
"""

# %%
# A model of late flights
# -----------------------
# It is trained on two thirds of the flights in the package, and told nothing about the columns.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from skdpdyn import PrivateGAMClassifier
from skdpdyn.datasets import load_flights
from skdpdyn.evaluation import PrivateCalibrationDisplay, PrivateRocCurveDisplay, evaluate
from skdpdyn.model_selection import total_privacy

flights = load_flights()
trained = 2 * len(flights.data) // 3
model = PrivateGAMClassifier().fit(flights.data[:trained], flights.target[:trained])
X = flights.data[trained:]
late = flights.target[trained:]

# %%
# One release, all metrics
# ------------------------
# Few flights have a probability of more than a half, so that recall there is low. Other thresholds
# cost nothing more: they are read off the same histogram.

evaluation = evaluate(model, X, late, epsilon=0.5)
print(evaluation)
edge = evaluation.thresholds[np.argmin(np.abs(evaluation.thresholds - 0.25))]
print(f"\nabove a probability of {edge:.2f}: recall {evaluation.recall(edge)!r}, ", end="")
print(f"precision {evaluation.precision(edge)!r}")

# %%
# The flights are no secret, so here we may look: the interval is for the area without noise.

truth = roc_auc_score(late, model.predict_proba(X)[:, 1])
print(f"AUC {evaluation.roc_auc!r}, without noise {truth:.4f}")
print(f"off by less than 0.03: {abs(evaluation.roc_auc.value - truth) < 0.03}\n")

# %%
# What both cost
# --------------
# No flight is in both parts. So a flight costs what the dearer of the two releases costs.

print(total_privacy(model, evaluation, disjoint=True).report(delta=1e-7))

# %%
# Curves
# ------
# Points on the diagonal say that probabilities are right, group by group. Nobody would know without
# a score that is paid for.

plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(1, 2, figsize=(9, 5.2), layout="constrained")
PrivateRocCurveDisplay.from_evaluation(evaluation, ax=axes[0])
PrivateCalibrationDisplay.from_evaluation(evaluation, n_groups=8, linestyle="none", ax=axes[1])
axes[0].set_title("Late flights: ROC curve")
axes[1].set_title("Late flights: calibration")
for ax in axes:
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), frameon=False)
plt.show()
