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
# It is trained on a quarter of the flights in the package. The calendar, the clock and the codes of
# the timetable are public.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdpdyn import PrivateLogisticRegression
from skdpdyn.datasets import load_flights
from skdpdyn.evaluation import PrivateCalibrationDisplay, PrivateRocCurveDisplay, evaluate
from skdpdyn.model_selection import total_privacy
from skdpdyn.preprocessing import BoundsScaler

flights = load_flights()
columns = make_column_transformer(
    (BoundsScaler(flights.bounds), list(flights.bounds)),
    (OneHotEncoder(categories=list(flights.categories.values())), list(flights.categories)),
    sparse_threshold=0,
)
model = make_pipeline(columns, PrivateLogisticRegression(classes=[False, True], bounds=None))
model.fit(flights.data[:5000], flights.target[:5000])
X, late = flights.data[5000:], flights.target[5000:]

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
# The calibration curve is flatter than the diagonal: with 5,000 flights and some fifty columns the
# noise in the coefficients spreads the probabilities, while their mean is right. More flights, a
# larger budget or fewer columns bring the points to the line. Nobody would know without a score
# that is paid for.

plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(1, 2, figsize=(9, 5.2), layout="constrained")
PrivateRocCurveDisplay.from_evaluation(evaluation, ax=axes[0])
PrivateCalibrationDisplay.from_evaluation(evaluation, n_groups=8, linestyle="none", ax=axes[1])
axes[0].set_title("Late flights: ROC curve")
axes[1].set_title("Late flights: calibration")
for ax in axes:
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), frameon=False)
plt.show()
