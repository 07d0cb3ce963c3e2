"""Synthesis by AIM and MST (dpmm), and histogram boosting trained on what they make.

Numbers go into 16 cells of equal width between their public bounds.
"""

import numpy as np
import pandas as pd
from dpmm import pipelines
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

NEEDS = ["dpmm==0.1.9"]
MODELS = {"AIM and boosting": "add_remove", "MST and boosting": "add_remove"}
PACKAGE = "dpmm"
CELLS = 16
TARGET = "the target"


def fitted(name, table, ask):
    """Make a table of as many rows, and fit boosting to it."""
    binary = table.target_bounds is None
    low, high = (0, 1) if binary else table.target_bounds
    n_targets = 2 if binary else CELLS

    def coded(X):
        codes = {
            column: np.clip((X[column] - first) / (last - first) * CELLS, 0, CELLS - 1).astype(int)
            for column, (first, last) in table.bounds.items()
        }
        for column, levels in table.categories.items():
            codes[column] = pd.Categorical(X[column].astype(str), categories=levels).codes
        return pd.DataFrame(codes).astype(int)

    data = coded(table.X)
    sizes = dict.fromkeys(table.bounds, CELLS)
    sizes |= {column: len(levels) for column, levels in table.categories.items()}
    cell = (table.y - low) / (high - low) * (n_targets if not binary else 1)
    data[TARGET] = np.clip(cell, 0, n_targets - 1).astype(int)
    kind = getattr(pipelines, f"{name[:3]}Pipeline")
    maker = kind(ask["epsilon"], ask["delta"], n_jobs=1, disable_processing=True)
    maker.fit(data, {**sizes, TARGET: n_targets}, random_state=ask["seed"])
    made = maker.generate(len(data), random_state=ask["seed"])
    y = made.pop(TARGET).to_numpy()
    if binary:
        if len(np.unique(y)) < 2:
            return lambda X: np.full(len(X), float(y.mean()))
        model = HistGradientBoostingClassifier().fit(made, y)
        return lambda X: model.predict_proba(coded(X)[list(made)])[:, 1]
    model = HistGradientBoostingRegressor().fit(made, low + (y + 0.5) * (high - low) / CELLS)
    return lambda X: model.predict(coded(X)[list(made)])
