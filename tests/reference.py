"""What the library computes, in plain numpy. A new loss adds a line to RESIDUALS."""

import numpy as np
from scipy.special import expit, softmax

RESIDUALS = {
    "logistic": lambda raw, y: expit(raw) - y[:, None],
    "squared": lambda raw, y: raw - y[:, None],
    "huber": lambda raw, y: np.clip(raw - y[:, None], -0.25, 0.25),
    "pinball": lambda raw, y: np.clip((raw - y[:, None] + 0.05) / 0.1, 0.0, 1.0) - 0.9,
    "pinballs": lambda raw, y: shortened(
        np.clip((raw - y[:, None] + 0.05) / 0.1, 0.0, 1.0) - [0.1, 0.5, 0.9], 1.07**0.5
    ),
    "hinge": lambda raw, y: (
        np.where(y, -1, 1)[:, None] * np.clip(1.5 - np.where(y, 1, -1)[:, None] * raw, 0, 1)
    ),
    "poisson": lambda raw, y: np.clip(np.exp(np.minimum(raw, 700)) - y[:, None], -1, 1),
    "softmax": lambda raw, y: softmax(raw, axis=1) - (np.arange(raw.shape[1]) == y[:, None]),
}


def shortened(rows, limit):
    """Rows longer than ``limit`` scaled down to it."""
    norms = np.linalg.norm(rows, axis=1)[:, None]
    return np.where(norms > limit, rows * limit / np.maximum(norms, 1e-300), rows)


def gradients(objective, X, y, theta):
    """Every record's clipped gradient, one a row: all coefficients, then the intercepts."""
    X = shortened(X, objective.data_norm)
    coef, intercept = objective.split(theta)
    residual = RESIDUALS[objective.loss.name](X @ coef.T + intercept, y)
    whole = np.einsum("ic,ij->icj", residual, X).reshape(len(X), coef.size)
    if objective.intercept_scaling:
        whole = np.column_stack([whole, objective.intercept_scaling * residual])
    return shortened(whole, objective.clip)
