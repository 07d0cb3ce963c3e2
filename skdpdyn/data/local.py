"""Rows in memory: an array or a sparse matrix, with its targets."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class LocalRows:
    """Rows in memory.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n_samples, n_features)
        C-ordered or canonical CSR float64 or float32 rows, finite.
    y : ndarray of shape (n_samples,)
        Targets as the loss takes them, float64.
    """

    X: Any
    y: np.ndarray
