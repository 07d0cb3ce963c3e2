"""Words of reports: sentences for records, guarantees and the assumptions behind them."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from skdpdyn.privacy.display import printable
from skdpdyn.privacy.guarantees import GaussianDP, Guarantee
from skdpdyn.privacy.regret import mu_and_regret

NEIGHBOURS = {
    "replace_one": "one record changed at will; the number of records is public",
    "add_remove": "one record's contribution there or not; the public normaliser stays",
}
TRUST = (
    "whoever runs the fit sees the records and is trusted; whoever is shown the release is not, "
    "whatever else they know, all other records included"
)
LEAKS = "not private in this run"
BOUGHT = "bought, or released before"
_RARE = 1e-10  # probability in which no mu has to cover a guarantee that is not Gaussian
_MORE = 1.01  # times its own failure, which roundings make a little more likely
NONE_SEEN = (
    "No leak found in this fit. Steps before it are not checked: see total_privacy(pipeline)."
)


def neighbours_of(relation: str, unit: str) -> str:
    """Say which data sets are neighbours."""
    return NEIGHBOURS[relation].replace("record", unit)


def shown(value: Any) -> str:
    """Return a value of a report as text."""
    if isinstance(value, list):
        return "; ".join(map(shown, value)) or "nothing"
    return f"{value:.6g}" if isinstance(value, float) else printable(str(value))


def mu_in_words(guarantee: Guarantee, after: str = "") -> str:
    """Return the mu of Gaussian differential privacy, and the probability that it fails.

    ``after`` is written behind mu. "" where none is known. Of a guarantee that is not Gaussian it
    is the least that covers it.
    """
    failure = float(getattr(guarantee, "failure", 0.0))
    if not isinstance(guarantee, GaussianDP):
        failure = max(_RARE, _MORE * failure)
    if failure >= 0.5:
        return ""
    mu, regret = mu_and_regret(guarantee, failure)
    if mu == math.inf:
        return ""
    fails = f", except with probability {shown(failure)}" if failure else ""
    return f"{shown(mu)}{after}{fails}" + (f" (regret {shown(regret)})" if regret else "")


def summary(value: Any) -> Any:
    """Return a field of a record as a plain value; of arrays, their ends."""
    if isinstance(value, np.ndarray):
        return f"{value.size} values from {value.min():.6g} to {value.max():.6g}"
    if isinstance(value, tuple) and all(map(is_dataclass, value)):
        return "; ".join(map(in_words, value))
    return value if value is None or isinstance(value, (int, float)) else str(value)


def in_words(record: Any) -> str:
    """Return a record as its type and its fields."""
    entries = {field.name: summary(getattr(record, field.name)) for field in fields(record)}
    words = ", ".join(f"{name}={shown(value)}" for name, value in entries.items())
    return f"{type(record).__name__}({words})"


def parts_of(
    record: Any, describe: Callable[[Any], str] = lambda part: ""
) -> list[tuple[str, str]]:
    """Return name and words of each part of a composition, equal parts once with their number.

    What is ``said`` of a part follows its words.
    """
    parts = getattr(record, "mechanisms", None)
    if parts is None:
        return []
    names = record.names or [type(part).__name__ for part in parts]
    return [
        (name, f"{count} times " * (count > 1) + in_words(part) + describe(part))
        for (name, part), count in Counter(zip(names, parts, strict=True)).items()
    ]
