"""Private shares of what public bounds change, on request: rows shortened, targets clipped.

A bound that is too tight bends the model without a word, for what the records are cannot be said.
These shares say it with noise, for a hundredth of mu^2.
"""

from typing import Any

import numpy as np

from skdpdyn.conditioning import Releases
from skdpdyn.data.base import Rows, target_rounding

SHARE = 0.01  # part of mu^2 for all of them together
ROWS, TARGETS = "rows shortened", "targets clipped"
CONFIDENCE, _DEVIATIONS = 0.95, 1.96
# so much of a bound, or of a range, is rounding: that of float32 rows that were scaled to a norm
ROUNDING = 1e-6


def shares_of_diagnostics(with_targets: bool) -> dict[str, float]:
    """Return the share of mu^2 of each number, from public facts alone."""
    names = (ROWS, TARGETS) if with_targets else (ROWS,)
    return dict.fromkeys(names, SHARE / len(names))


def diagnose(rows: Rows, flags: Any, conditioner: Any, releases: Releases) -> dict[str, Any]:
    """Return the noisy shares that were paid for, with their intervals.

    One record moves the number of rows that are longer than ``data_norm``, and that of clipped
    targets, by 1 at most; a person, whose rows weigh 1 together, as well.

    Parameters
    ----------
    rows : Rows
        The rows, without a map.
    flags : Rows or None
        Rows whose target is 1 where that of a row is clipped; None where nothing is clipped.
    conditioner : Conditioner
        Public numbers: shares of mu^2, the number of records, ``data_norm``.
    releases : Releases
        Releases the counts and keeps their records.

    Returns
    -------
    dict
        By name, a dict of ``share``, ``low`` and ``high``: the share without noise is between the
        latter two with a probability of 95 %.
    """
    found, n_samples = {}, conditioner.n_samples
    if ROWS in conditioner.shares:
        longest = np.array([conditioner.data_norm * (1 + ROUNDING)])
        long = rows.n_records - float(rows.counts("norms", longest)[0])
        found[ROWS] = _estimate(long, 1.0, conditioner.shares[ROWS], n_samples, releases)
    if TARGETS in conditioner.shares:
        sensitivity = 1 + target_rounding(n_samples, flags.most_rows)
        share = conditioner.shares[TARGETS]
        found[TARGETS] = _estimate(flags.target_sum(), sensitivity, share, n_samples, releases)
    return found


def _estimate(count, sensitivity, share, n_samples, releases):
    noisy = float(releases.release(count, sensitivity, share)) / n_samples
    away = _DEVIATIONS * sensitivity * releases.noise_multiplier(share) / n_samples
    ends = {"share": noisy, "low": noisy - away, "high": noisy + away}
    return {name: min(max(end, 0.0), 1.0) for name, end in ends.items()}


def reported(diagnostics: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of a privacy report."""
    entries = {}
    for name, found in diagnostics.items():
        entries[name] = found["share"]
        interval = [found["low"], found["high"]]
        entries[f"{name}, interval of {100 * CONFIDENCE:g} % for noise alone"] = interval
    return entries
