"""skdpdyn with its defaults: the linear and the additive model, with public facts given."""

import warnings

from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import skdpdyn

NEEDS = []
MODELS = {
    "linear": "both",
    "additive": "both",
    "linear undeclared": "both",
    "additive undeclared": "both",
}
PACKAGE = "skdpdyn"


def fitted(name, table, ask):
    """Fit one of our models; the undeclared ones buy ranges, levels and classes.

    Bounds of targets are given to both. A linear model takes no text: levels are one column each.
    """
    kind, _, undeclared = name.partition(" ")
    model = {"epsilon": ask["epsilon"], "delta": ask["delta"], "adjacency": ask["relation"]}
    binary = table.target_bounds is None
    if not binary:
        model["target_bounds"] = table.target_bounds
    elif not undeclared:
        model["classes"] = [0, 1]
    if kind == "additive":
        names = "bounds", "categories"
        model |= {name: "auto" if undeclared else getattr(table, name) for name in names}
        kinds = skdpdyn.PrivateGAMRegressor, skdpdyn.PrivateGAMClassifier
        model = kinds[binary](**model)
    else:
        levels = OneHotEncoder(categories=list(table.categories.values()), sparse_output=False)
        parts = ("passthrough", list(table.bounds)), (levels, list(table.categories))
        flags = [(0, 1)] * sum(map(len, table.categories.values()))
        model["bounds"] = "auto" if undeclared else [*table.bounds.values(), *flags]
        linear = (skdpdyn.PrivateRidge, skdpdyn.PrivateLogisticRegression)[binary](**model)
        model = make_pipeline(make_column_transformer(*parts, sparse_threshold=0), linear)
    warnings.simplefilter("ignore")  # of budgets that are small for so few rows
    model.fit(table.X, table.y)
    return (lambda X: model.predict_proba(X)[:, 1]) if binary else model.predict
