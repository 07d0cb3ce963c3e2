"""diffprivlib with its defaults: linear models and the forest of random splits; pure epsilon."""

import warnings

import numpy as np
from diffprivlib import models

NEEDS = ["diffprivlib==0.6.6", "scikit-learn==1.5.2", "scipy==1.17.1", "pandas"]
MODELS = {"diffprivlib linear": "replace_one", "diffprivlib forest": "add_remove"}
PACKAGE = "diffprivlib"


def fitted(name, table, ask):
    """Fit a model of diffprivlib to columns in [0, 1] and a column for each level."""
    X = table.numbers(table.X)
    epsilon = ask["epsilon"]
    n_columns = X.shape[1]
    binary = table.target_bounds is None
    if name == "diffprivlib forest":
        if not binary:
            raise NotImplementedError("it has no forest for targets that are numbers")
        model = models.RandomForestClassifier(epsilon=epsilon, bounds=(0, 1), classes=[0, 1])
    elif binary:
        norm = np.sqrt(len(table.bounds) + len(table.categories))
        model = models.LogisticRegression(epsilon=epsilon, data_norm=norm, max_iter=1000)
    else:
        bounds = np.zeros(n_columns), np.ones(n_columns)
        target = table.target_bounds
        model = models.LinearRegression(epsilon=epsilon, bounds_X=bounds, bounds_y=target)
    warnings.simplefilter("ignore")
    model.fit(X, table.y)
    if not binary:
        return lambda X: model.predict(table.numbers(X))
    return lambda X: model.predict_proba(table.numbers(X))[:, 1]
