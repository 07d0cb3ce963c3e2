"""
Rare classes
============

Where one class is rare, a model that never predicts it is right nearly always. Weights by class say
how much more a rare record shall count. Public numbers cost nothing: a record still counts at most
as much as it would by itself. Counts of the labels are private, so ``"balanced"`` is refused, and
``"private"`` buys noisy counts with a hundredth of mu². Ranking needs no weights at all: AUC is the
figure to look at first, and a threshold chosen for it afterwards gives the recall that you want.
"""

# %%
# Who earns more than 50,000 dollars before the age of 40
# -------------------------------------------------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import RocCurveDisplay, recall_score, roc_auc_score
from sklearn.model_selection import train_test_split

from skdpdyn import PrivateLogisticRegression
from skdpdyn.datasets import load_adult
from skdpdyn.preprocessing import BoundsScaler

adult = load_adult()
numbers = list(adult.bounds)
X = BoundsScaler(adult.bounds).fit_transform(adult.data[numbers])
y = np.asarray(adult.target == adult.target_names[1]) & (X[:, numbers.index("age")] < 0.25)
X, X_test, y, y_test = train_test_split(X, y, random_state=0)

plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(figsize=(6, 5.4), layout="constrained")
for weight in (None, {True: 20, False: 1}, "private"):
    model = PrivateLogisticRegression(
        epsilon=1.0, classes=[False, True], class_weight=weight, data_norm=2.0
    ).fit(X, y)
    raw = model.decision_function(X_test)
    auc = roc_auc_score(y_test, raw)
    recall = recall_score(y_test, model.predict(X_test))
    print(
        f"class_weight={weight}: AUC {auc:.3f}, recall {recall:.2f} at epsilon {model.epsilon_:.2f}"
    )
    RocCurveDisplay.from_predictions(y_test, raw, name=f"class_weight={weight}", ax=axes)

# %%
# What was bought of the counts is on the model: it is a release that was paid for.

print(model.class_weight_)
axes.plot([0, 1], [0, 1], ":", color="0.5", label="guessing")
axes.set(
    title="Above 50,000 dollars before 40: ranking needs no weights",
    xlabel="false alarms: share of the others who are flagged",
    ylabel="recall: share of the rare class that is found",
)
axes.legend().remove()
figure.legend(loc="outside lower center", ncols=1, frameon=False)
plt.show()
