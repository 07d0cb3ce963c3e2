"""scikit-learn without privacy: a constant, the linear model, and histogram boosting."""

import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

NEEDS = []
MODELS = {"constant": "none", "linear without privacy": "none", "boosting without privacy": "none"}
PACKAGE = "scikit-learn"


def fitted(name, table, ask):
    """Fit a model of scikit-learn."""
    binary = table.target_bounds is None
    scaled = StandardScaler()
    model = {
        "constant": (DummyRegressor(), DummyClassifier()),
        "linear without privacy": (
            make_pipeline(scaled, Ridge(1e-3)),
            make_pipeline(scaled, LogisticRegression(C=100, max_iter=3000)),
        ),
        "boosting without privacy": (
            HistGradientBoostingRegressor(random_state=ask["seed"]),
            HistGradientBoostingClassifier(random_state=ask["seed"]),
        ),
    }[name][binary]
    # boosting splits on the number of a level as well as on a column for each
    rows = coded if name.startswith("boosting") else lambda table, X: table.numbers(X)
    model.fit(rows(table, table.X), table.y)
    if not binary:
        return lambda X: model.predict(rows(table, X))
    return lambda X: model.predict_proba(rows(table, X))[:, 1]


def coded(table, X):
    """Return columns of numbers as they are, and the number of each level."""
    codes = [
        np.searchsorted(sorted(levels), X[name].astype(str).to_numpy())
        for name, levels in table.categories.items()
    ]
    return np.column_stack([X[list(table.bounds)].to_numpy(float), *codes])
