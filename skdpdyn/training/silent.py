"""Columns that tell a model nothing, as released numbers show it, free of charge.

A slip of a type, of units or of spelling leaves a column whose records all fall into one cell. The
shares of "other" and missing values, and the means of features, show it.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from skdpdyn.core.expansion import Expansion, Levels
from skdpdyn.exceptions import PrivacyUtilityWarning, warn
from skdpdyn.privacy.checks import is_auto

NO_LEVEL = "none of its levels stands out"
OTHER = "nearly all of its values are none of its levels"
MISSING = "nearly all of its values are missing"
HIGH = "nearly all of its values are at the upper end of its bounds"
_NEARLY = 0.85  # part of the records
_MOST_NOISE = 0.1  # standard deviation of a mean that is looked at
_LAST = 4  # cells at the upper end of bounds
_LINEAR = 0.98  # mean of a column in [-1, 1] at its upper end


def silent_columns(model: Any) -> dict[Any, str]:
    """Return the columns of a fitted model that tell nothing, with the reason.

    Parameters
    ----------
    model : estimator
        Has ``conditioning_``, and of an additive model ``expansion_``.
    """
    expansion = getattr(model, "expansion_", None)
    names = list(getattr(model, "feature_names_in_", range(model.n_features_in_)))
    found = {} if expansion is None else columns_without_levels(expansion.columns, names)
    conditioning = model.conditioning_
    std = None if conditioning is None else conditioning.mean_std
    if std is None or not std < _MOST_NOISE:
        return found
    mean = conditioning.mean
    if expansion is not None:
        shown = [
            _of_cells(expansion, j, mean, _is_given(model, name)) for j, name in enumerate(names)
        ]
    else:
        shown = [
            HIGH if part > _LINEAR and _is_given(model, name) else None
            for name, part in zip(names, mean.tolist(), strict=True)
        ]
    return {name: why for name, why in zip(names, shown, strict=True) if why} | found


def columns_without_levels(columns: Any, names: Any) -> dict[Any, str]:
    """Return the columns of levels of which none was bought."""
    pairs = zip(names, columns, strict=False)
    return {name: NO_LEVEL for name, column in pairs if column == Levels(())}


def warn_of_silent(columns: Mapping[Any, str]) -> None:
    """Warn of columns that tell nothing, by name, with a remedy."""
    if columns:
        named = "; ".join(f"{name!r}: {why}" for name, why in columns.items())
        warn(
            f"columns that tell nothing, as what was bought shows: {named}. If it holds numbers or "
            "dates, say so, schema=Schema(types={column: 'number'}) or 'date', or read it as such "
            "(parse_dates= of pandas.read_csv). Compare units, and the spelling of levels. Leave "
            "ids out",
            PrivacyUtilityWarning,
        )


def _is_given(model, name):
    """Return whether the bounds of a column were given."""
    bounds = getattr(model, "bounds", None)
    return (
        bounds is not None
        and not is_auto(bounds)
        and (not isinstance(bounds, Mapping) or name in bounds)
    )


def _of_cells(expansion: Expansion, j: int, mean: np.ndarray, is_given: bool) -> str | None:
    """Return the reason that the mean of a column's features shows; None: there is none."""
    mean = mean[expansion.slices[j]]
    if isinstance(expansion.columns[j], Levels):
        total = mean.sum()
        parts = mean[-2:] / total if total > 0.5 * expansion.flag(j) else np.zeros(2)
        return next(
            (why for why, part in zip((OTHER, MISSING), parts, strict=True) if part > _NEARLY), None
        )
    below = None if expansion.distributions is None else expansion.distributions[j]
    if is_given and below is not None and below[-1 - _LAST] < 1 - _NEARLY:
        return HIGH
    table = expansion.tables[j]
    squares = ((table - mean) ** 2).sum(axis=1)
    spread = ((table - table.mean(axis=0)) ** 2).sum(axis=1).mean()
    nearest = int(squares.argmin())
    if not squares[nearest] < (1 - _NEARLY) ** 2 * spread:
        return None
    if nearest == len(table) - 1:
        return MISSING
    return HIGH if is_given and nearest >= len(table) - 1 - _LAST else None
