"""InterpretML 0.7.8: targets within [1000, 1001] move a regression by more than its noise covers.

One record, alone in its bin, is there or not. An attacker reads the difference of two predictions.
Under (epsilon, delta) the rates of true and false alarms differ by at most about
(e^epsilon - 1)/(e^epsilon + 1).
"""

import warnings

import numpy as np
from interpret.privacy import DPExplainableBoostingRegressor

warnings.filterwarnings("ignore")
EPSILON = 1.0


def difference(is_there):
    """Return the prediction where the record is, less that beside it."""
    X = np.full((3, 1), 0.01)
    y = np.full(3, 1000.0)
    if is_there:
        X = np.vstack([X, [[0.95]]])
        y = np.append(y, 1000.0)
    model = DPExplainableBoostingRegressor(
        epsilon=EPSILON, delta=1e-6, feature_types=["continuous"], privacy_bounds={0: (0, 1)},
        privacy_target_min=1000, privacy_target_max=1001, n_jobs=1,
    ).fit(X, y)  # fmt: skip
    there, beside = model.predict(np.array([[0.95], [0.6]]))
    return there - beside


without, with_it = (np.array([difference(there) for _ in range(100)]) for there in (False, True))
cuts = np.concatenate([without[:50], with_it[:50]])
cut = max(cuts, key=lambda c: np.mean(with_it[:50] > c) - np.mean(without[:50] > c))
alarms = np.mean(with_it[50:] > cut), np.mean(without[50:] > cut)
allowed = np.tanh(EPSILON / 2)
print(
    f"true alarms {alarms[0]:.2f}, false alarms {alarms[1]:.2f}; allowed difference {allowed:.2f}"
)
