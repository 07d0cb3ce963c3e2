"""
What tuning costs
=================

Every fit on the records spends privacy, those that are thrown away too. A grid search of
scikit-learn pays for all of its fits; a private search releases the best of a random number of
trials and nothing else, and pays for little more than two or three of them (Papernot and Steinke,
2022). Neither is free: at the same total budget the defaults are hard to beat.
"""

# %%
# The price of the best of many
# -----------------------------
# A trial costs epsilon = 0.3. If all trials are released, their cost is that of their composition.
# If only the best is, it depends on the law of their number, which stays secret, and hardly on its
# mean.

import math
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV, KFold, train_test_split
from sklearn.preprocessing import OneHotEncoder

from skdpdyn import PrivateLogisticRegression
from skdpdyn.datasets import load_adult
from skdpdyn.exceptions import PrivacyLeakWarning
from skdpdyn.model_selection import PrivateSearchCV, search_privacy, total_privacy
from skdpdyn.preprocessing import BoundsScaler
from skdpdyn.privacy import GaussianDP, Selection, selection
from skdpdyn.privacy.guarantees import gdp_mu

delta = 1e-9
mu = gdp_mu(0.3, delta)
means = np.unique(np.geomspace(1, 100, 25).round())
laws = {"logarithmic": 0.0, "geometric": 1.0, "Poisson": math.inf}
plt.style.use("tableau-colorblind10")
figure, axis = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
for (name, shape), style in zip(laws.items(), ("-", "--", "-."), strict=True):
    records = [Selection(trial=GaussianDP(mu), expected_trials=mean, shape=shape) for mean in means]
    prices = [selection(record).epsilon(delta) for record in records]
    axis.plot(means, prices, style, label=f"the best, {name} law")
everything = [GaussianDP(mu * math.sqrt(mean)).epsilon(delta) for mean in means]
axis.plot(means, everything, ":", color="0.2", label="all trials")
axis.set(
    title="What trials of epsilon 0.3 cost together",
    xscale="log",
    xlabel="expected number of trials",
    ylabel="epsilon at delta = 1e-9",
)
figure.legend(loc="outside lower center", ncols=2, frameon=False)
best = selection(Selection(trial=GaussianDP(mu), expected_trials=10)).epsilon(delta)
together = GaussianDP(mu * math.sqrt(10)).epsilon(delta)
print(f"ten trials of epsilon 0.3: {best:.3f} for the best, {together:.3f} for all")

# %%
# A private search
# ----------------
# One budget for everything: each trial has a part of it, which the search finds out. The candidates
# differ in how far rows and gradients are cut down before noise is added.

adult = load_adult()
numeric = list(adult.bounds)
categorical = list(adult.categories)
columns = make_column_transformer(
    (BoundsScaler(adult.bounds), numeric),
    (
        OneHotEncoder(
            categories=[adult.categories[name] for name in categorical], sparse_output=False
        ),
        categorical,
    ),
)
X_train, X_test, y_train, y_test = train_test_split(
    columns.fit_transform(adult.data[:12_000]), adult.target[:12_000], test_size=0.2, random_state=0
)
model = PrivateLogisticRegression(epsilon=1.0, delta=delta, classes=["<=50K", ">50K"], bounds=None)
candidates = {"data_norm": [1.0, 2.0], "clip": ["auto", 0.25]}
search = PrivateSearchCV(model, candidates, epsilon=1.0, delta=delta, expected_trials=5)
search.fit(X_train, y_train)
print(f"private search: accuracy {search.score(X_test, y_test):.3f} by {search.best_params_}")
trial = search.mechanism_.trial.epsilon(delta)
print(f"it spent epsilon {search.epsilon_:.4f}, by trials of epsilon {trial:.3f} each")
accuracy = model.fit(X_train, y_train).score(X_test, y_test)
print(f"defaults with all of the budget: accuracy {accuracy:.3f}")

# %%
# What a grid search would have spent
# -----------------------------------
# Every candidate on every fold, and the refit. The scores, and the choice made by them, are not
# private on top of that.

grid = GridSearchCV(model, {"clip": ["auto", 0.25]}, cv=KFold(3)).fit(X_train, y_train)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", PrivacyLeakWarning)  # said above
    print(search_privacy(grid).report(delta))
together = total_privacy(search, model).guarantee.epsilon(delta)
print(f"\nthe private search and the defaults together: epsilon {together:.3f}")
plt.show()
