"""
Several rows a person
=====================

Patients come more than once, and a guarantee for one row is not one for a person. With ``groups``
it is: each row of someone with k rows has weight 1/k, so that a person counts as much as a row
would. The other way is to protect rows, and to pay for k of them: k times the mu. Here the flights
from New York stand in for visits, and the duty desk of an airline at an airport on one day for the
person: it has 1 to 25 rows, all alike in weather and crews.
"""

# %%
# The data, and whose each row is
# -------------------------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupShuffleSplit
from sklearn.preprocessing import OneHotEncoder

from skdpdyn import PrivateLogisticRegression
from skdpdyn.datasets import load_flights
from skdpdyn.preprocessing import BoundsScaler
from skdpdyn.privacy import Budget, GaussianDP

flights = load_flights()
columns = make_column_transformer(
    (BoundsScaler(flights.bounds), list(flights.bounds)),
    (
        OneHotEncoder(categories=list(flights.categories.values()), sparse_output=False),
        list(flights.categories),
    ),
)
X = columns.fit_transform(flights.data)
y = np.asarray(flights.target)
keys = flights.data[["month", "day", "carrier", "origin"]].astype(str)
desk = keys.agg("/".join, axis=1).to_numpy()
train, test = next(GroupShuffleSplit(1, random_state=0).split(X, y, desk))
_, rows_of_each = np.unique(desk, return_counts=True)
print(f"{len(rows_of_each)} desks")

# %%
# By person, or by row and paid for k times
# -----------------------------------------
# All fits promise the same to a desk: epsilon 1 at delta 1e-6. The second leaves the number of
# rows of a desk open, the third must know that there are 25 at most. Five fits of each show how
# much the noise does; on private records each would be a release.

budget = Budget(1.0, 1e-6)
most = 25
by_row = GaussianDP(budget.mu / most).epsilon(1e-6)
models = {
    "no privacy": LogisticRegression(max_iter=1000),
    "by person (groups)": PrivateLogisticRegression(
        1.0, 1e-6, classes=[False, True], data_norm=2.0
    ),
    f"by row, {most} rows a person": PrivateLogisticRegression(
        by_row, 1e-6, classes=[False, True], data_norm=2.0
    ),
}
auc = {}
for name, model in models.items():
    options = {"groups": desk[train]} if "groups" in name else {}
    auc[name] = [
        roc_auc_score(y[test], model.fit(X[train], y[train], **options).decision_function(X[test]))
        for _ in range(1 if name == "no privacy" else 5)
    ]
    print(f"{name}: AUC {np.mean(auc[name]):.3f} +- {np.std(auc[name]):.3f}")
person, row = list(models.values())[1:]
assert person.privacy_unit_ == "person"
print(f"for a whole desk: mu {person.privacy_.mu:.3f}, and {row.privacy_.group(most).mu:.3f}")

# %%
# The report says whom the promise is for.

print(person.privacy_report())

plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
mean, spread = np.transpose([(np.mean(fits), np.std(fits)) for fits in auc.values()])
axes.errorbar(mean, list(auc), xerr=spread, fmt="o", capsize=3)
axes.axvline(0.5, color="0.5", linestyle=":")
axes.text(0.5, 0.5, " guessing", transform=axes.get_xaxis_transform())
axes.margins(y=0.3)
axes.invert_yaxis()
axes.set(
    title="Late flights: epsilon 1 for a whole desk",
    xlabel="area under the ROC curve, desks not trained on",
)
plt.show()
