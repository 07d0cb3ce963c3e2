"""A book of entries: the states that an entry may take, and the charges of all of them."""

from dataclasses import asdict, dataclass
from datetime import date, datetime
from typing import Any, cast

from skdpdyn.privacy import serialization
from skdpdyn.privacy.budget import Budget
from skdpdyn.privacy.charges import Dates, Part, Rules, Tally
from skdpdyn.privacy.filters import Filter
from skdpdyn.privacy.guarantees import Guarantee, checked_unit
from skdpdyn.privacy.serialization import from_dict, to_dict

FORMAT = "skdpdyn ledger"
VERSION = 3
FOLLOWS: dict[
    str | None, tuple[str, ...]
] = {  # the state of an entry -> the states that it may take next
    None: ("reserved",),
    "reserved": ("settled", "failed", "cancelled"),
    "failed": ("cancelled",),
    "cancelled": ("settled", "failed"),  # its process was alive after all
    "settled": (),
}


@dataclass(frozen=True)
class Event:
    """One line of the books. Lines are only ever added.

    Attributes
    ----------
    time : str
        When it was written (UTC, ISO 8601).
    entry : str
        Name of the entry.
    state : {"reserved", "settled", "failed", "cancelled"}
        State of the entry from then on.
    cost : Guarantee or None
        Charge of the entry from then on; None: nothing.
    note : str
        Why.
    leaks : tuple of str
        Leaks that the cost does not cover.
    disjoint : (str, str) pair or None
        The partition, and its part that the release is of; None: of everybody.
    dates : (str or None, str or None) pair or None
        First and last public date of those whom the release is of; None: of everybody.
    """

    time: str
    entry: str
    state: str
    cost: Guarantee | None
    note: str = ""
    leaks: tuple[str, ...] = ()
    disjoint: Part | None = None
    dates: Dates | None = None

    @property
    def of(self) -> str:
        """Whom the release is of, in words."""
        if self.disjoint is not None:
            return f", {' '.join(self.disjoint)}"
        if self.dates is None:
            return ""
        return "".join(
            f", {word} {day}" for word, day in zip(("from", "to"), self.dates, strict=True) if day
        )

    def stored(self) -> dict[str, Any]:
        """Return it as plain values."""
        return vars(self) | {"cost": None if self.cost is None else to_dict(self.cost)}


class Book:
    """All events, the latest of each entry, and the total of their charges.

    Parameters
    ----------
    rules : Rules
        The cap, and how charges add up.
    """

    def __init__(self, rules: Rules) -> None:
        self.tally = Tally(rules)
        self.events: list[Event] = []
        self.entries: dict[str, Event] = {}

    def add(self, event: Event) -> None:
        """Add an event, if its entry may take that state, and is of the same records."""
        rules = self.tally.rules
        cost = event.cost
        before = self.entries.get(event.entry)
        has_cost = (
            isinstance(cost, Guarantee)
            and cost.adjacency == rules.cap.adjacency
            and cost.unit == rules.unit
        )
        if event.state not in FOLLOWS[before.state if before else None] or has_cost == (
            event.state == "cancelled"
        ):
            raise ValueError(f"its entry {event.entry!r} cannot be {event.state} there")
        if before and (before.disjoint, before.dates) != (event.disjoint, event.dates):
            raise ValueError(f"its entry {event.entry!r} cannot be of others there")
        datetime.fromisoformat(event.time)
        self.tally.put(event.entry, event)
        self.entries[event.entry] = event
        self.events.append(event)


def stored_rules(rules: Rules) -> dict[str, Any]:
    """Return rules as the first line of a ledger."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "costs": serialization.VERSION,
        "cap": {
            "epsilon": rules.cap.epsilon,
            "delta": rules.cap.delta,
            "adjacency": str(rules.cap.adjacency),
        },
        "unit": rules.unit,
        "filter": rules.filter and asdict(rules.filter),
    }


def read_rules(stored: Any) -> Rules:
    """Return the rules in the first line of a ledger; raise an error that names the fault."""
    if not isinstance(stored, dict) or stored.get("format") != FORMAT:
        raise ValueError("it is no ledger")
    if stored["version"] != VERSION:
        raise ValueError(f"it has version {stored['version']!r}, and this release reads {VERSION}")
    serialization.check_version(stored["costs"], "version of its costs")
    cap = checked_cap(
        (stored["cap"]["epsilon"], stored["cap"]["delta"]), stored["cap"]["adjacency"]
    )
    rule = None if stored["filter"] is None else Filter(**stored["filter"]).fixed_for(cap)
    return Rules(cap, checked_unit(stored["unit"]), rule)


def read_event(stored: Any) -> Event:
    """Return the event in a line of a ledger."""
    cost = None if stored["cost"] is None else from_dict(stored["cost"])
    part = checked_part(stored.get("disjoint"))
    days = checked_dates(stored.get("dates"))
    parsed = {"cost": cost, "leaks": tuple(stored["leaks"]), "disjoint": part, "dates": days}
    return Event(**{**stored, **parsed})


def checked_cap(cap: Any, adjacency: str) -> Budget:
    """Read a budget: a pair, or an object with epsilon, delta and adjacency."""
    if isinstance(cap, (tuple, list)) and len(cap) == 2:
        return Budget(cap[0], cap[1], cast(Any, adjacency))
    if not all(hasattr(cap, name) for name in ("epsilon", "delta", "adjacency")) or isinstance(
        cap, Guarantee
    ):
        raise ValueError(f"cap={cap!r} must be a pair (epsilon, delta) or a Budget")
    return Budget(cap.epsilon, cap.delta, cap.adjacency)


def checked_text(value: Any, name: str) -> str:
    """Return a text of one line."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError(f"{name}={value!r} must be a text of one line that says something")
    return value


def checked_part(disjoint: Any) -> Part | None:
    """Return the name of a partition and of a part, checked."""
    if disjoint is None:
        return None
    if not isinstance(disjoint, tuple | list) or len(disjoint) != 2:
        raise ValueError(f"disjoint={disjoint!r} must be a pair (partition, part) of texts")
    partition, part = (checked_text(text, "disjoint") for text in disjoint)
    return partition, part


def checked_dates(dates: Any) -> Dates | None:
    """Return the first and last day of a window as ISO texts, checked."""
    if dates is None:
        return None
    try:
        first, last = (
            None if day is None else date.fromisoformat(str(day)).isoformat() for day in dates
        )
        if first is None or last is None or first <= last:
            return first, last
    except (TypeError, ValueError):
        pass
    raise ValueError(
        f"dates={dates!r} must be a pair (first, last) of dates as '2026-03-31', or None for an "
        "open end, the first no later than the last"
    )
