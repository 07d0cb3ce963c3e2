"""skdpdyn with its defaults: the linear and the additive model, with public facts given."""

import warnings

from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import skdpdyn
from skdpdyn.preprocessing import BoundsScaler

NEEDS = []
MODELS = {"linear": "both", "additive": "both"}
PACKAGE = "skdpdyn"


def fitted(name, table, ask):
    """Fit one of our models."""
    budget = {"epsilon": ask["epsilon"], "delta": ask["delta"], "adjacency": ask["relation"]}
    if table.target_bounds is None:
        kinds = skdpdyn.PrivateLogisticRegression, skdpdyn.PrivateGAMClassifier
        budget["classes"] = [0, 1]
    else:
        kinds = skdpdyn.PrivateRidge, skdpdyn.PrivateGAMRegressor
        budget["target_bounds"] = table.target_bounds
    if name == "additive":
        model = kinds[1](bounds=table.bounds, categories=table.categories, **budget)
    else:
        levels = OneHotEncoder(categories=list(table.categories.values()), sparse_output=False)
        columns = make_column_transformer(
            (BoundsScaler(table.bounds), list(table.bounds)),
            (levels, list(table.categories)),
            sparse_threshold=0,
        )
        model = make_pipeline(columns, kinds[0](**budget))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of budgets that are small for so few rows
        model.fit(table.X, table.y)
    if table.target_bounds is not None:
        return model.predict
    return lambda X: model.predict_proba(X)[:, 1]
