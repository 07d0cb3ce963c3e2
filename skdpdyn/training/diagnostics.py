"""Private shares of rows shortened and targets clipped by public bounds, on request.

A bound that is too tight bends the model without a word, for what the records are cannot be said.
These shares say it with noise, for a hundredth of mu^2.
"""

from typing import Any

import numpy as np

from skdpdyn.core.rules import DIAGNOSTICS_SHARE
from skdpdyn.core.spending import Share, Spending
from skdpdyn.data.base import Rows, target_rounding

ROWS = "rows shortened"
TARGETS = "targets clipped"
CONFIDENCE = 0.95
_DEVIATIONS = 1.96
# so much of a bound, or of a range, is rounding: that of float32 rows that were scaled to a norm
ROUNDING = 1e-6


def shares_of_diagnostics(with_rows: bool, with_targets: bool) -> dict[str, Share]:
    """Return the share of each number that can be other than 0, from public facts alone."""
    names = [name for name, of in ((ROWS, with_rows), (TARGETS, with_targets)) if of]
    return {name: Share(DIAGNOSTICS_SHARE / len(names)) for name in names}


def diagnose(
    rows: Rows, flags: Rows | None, data_norm: float, spending: Spending
) -> dict[str, dict[str, float]]:
    """Return the noisy shares that were paid for, with their intervals.

    One record moves the number of rows that are longer than ``data_norm``, and that of clipped
    targets, by 1 at most; a person, whose rows weigh 1 together, as well.

    Parameters
    ----------
    rows : Rows
        The rows, without a map.
    flags : Rows or None
        Rows whose target is 1 where that of a row is clipped; None where nothing is clipped.
    data_norm : float
        Public bound on the norm of a row.
    spending : Spending
        Buys the counts and keeps their records.

    Returns
    -------
    dict
        By name, a dict of ``share``, ``low`` and ``high``: the share without noise is between the
        latter two with a probability of 95 %.
    """
    shares = {}
    if ROWS in spending.shares:
        longest = np.array([data_norm * (1 + ROUNDING)])
        long = rows.n_records - float(rows.counts("norms", longest)[0])
        shares[ROWS] = _estimate(ROWS, long, 1.0, rows.n_records, spending)
    if TARGETS in spending.shares and flags is not None:
        sensitivity = 1 + target_rounding(flags.n_records, flags.most_rows)
        shares[TARGETS] = _estimate(
            TARGETS, flags.target_sum(), sensitivity, flags.n_records, spending
        )
    return shares


def _estimate(name, count, sensitivity, n_samples, spending):
    noisy = float(spending.release(name, count, sensitivity)) / n_samples
    away = _DEVIATIONS * sensitivity * spending.noise_multiplier(name) / n_samples
    ends = {"share": noisy, "low": float(noisy - away), "high": float(noisy + away)}
    return {name: min(max(end, 0.0), 1.0) for name, end in ends.items()}


def reported(diagnostics: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of a privacy report."""
    entries = {}
    for name, estimate in diagnostics.items():
        entries[name] = estimate["share"]
        interval = [estimate["low"], estimate["high"]]
        entries[f"{name}, interval of {100 * CONFIDENCE:g} % for noise alone"] = interval
    return entries
