"""DP-XGBoost of Sarus: boosted trees by pure epsilon, at the sizes of its own examples.

20 trees on a fifth of the records each, by squared error; the least weight of a leaf is that of
the examples, per record.
"""

import math

import dp_xgboost
import numpy as np

NEEDS = ["dp-xgboost==0.2.10", "numpy<2", "scipy<1.14", "pandas<3"]
MODELS = {"DP-XGBoost": "add_remove"}
PACKAGE = "dp-xgboost"
TREES = 20
PART = 0.2


def fitted(name, table, ask):
    """Fit boosted trees to columns in [0, 1] and a column for each level."""
    binary = table.target_bounds is None
    low, high = (0, 1) if binary else table.target_bounds
    X = table.numbers(table.X)
    y = (table.y - low) / (high - low)
    bounds = {"feature_min": [0.0] * X.shape[1], "feature_max": [1.0] * X.shape[1]}
    # TREES log(1 + PART (exp(epsilon of a tree) - 1)) is the whole epsilon
    of_tree = math.log1p(math.expm1(ask["epsilon"] / TREES) / PART)
    options = {
        "objective": "reg:squarederror",
        "tree_method": "approxDP",
        "dp_epsilon_per_tree": of_tree,
        "subsample": PART,
        "max_depth": 6,
        "learning_rate": 0.2,
        "lambda": 0.1,
        "base_score": 0.5,
        "min_child_weight": max(10, len(y) / 160),
        "nthread": 1,
        "verbosity": 0,
        "seed": ask["seed"],
    }
    data = dp_xgboost.DMatrix(X, label=y, **bounds)
    model = dp_xgboost.train(options, data, num_boost_round=TREES)

    def predict(X):
        found = model.predict(dp_xgboost.DMatrix(table.numbers(X), **bounds)).astype(float)
        return np.clip(found, 0, 1) if binary else low + (high - low) * found

    return predict
