"""InterpretML 0.7.8: a level of a nominal column that one record alone has is published by name."""

import warnings

import numpy as np
from interpret.privacy import DPExplainableBoostingClassifier

warnings.filterwarnings("ignore")
rng = np.random.default_rng(0)
X = rng.choice(list("abcd"), (1000, 1)).astype(object)
y = rng.integers(0, 2, 1000)
for is_there in (False, True):
    rows = X.copy()
    if is_there:
        rows[0, 0] = "a rare name"
    seen = 0
    for _ in range(40):
        model = DPExplainableBoostingClassifier(
            epsilon=0.1, delta=1e-6, feature_types=["nominal"], max_rounds=2, n_jobs=1
        )
        seen += "a rare name" in model.fit(rows, y).bins_[0][0]
    print(f"record there: {is_there}, its level published in {seen} of 40 fits")
