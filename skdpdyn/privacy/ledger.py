"""A team's books for one data set: reserved, spent and cancelled budgets, in a file."""

import contextlib
import errno
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Any, cast

from skdpdyn.exceptions import BudgetExceededError
from skdpdyn.privacy.budget import Budget
from skdpdyn.privacy.display import page
from skdpdyn.privacy.guarantees import GaussianDP, Guarantee
from skdpdyn.privacy.report import attackers_reach
from skdpdyn.privacy.serialization import checksum, from_dict, load_json, to_dict

try:
    import fcntl
except ImportError:  # no POSIX system
    fcntl = None  # type: ignore[assignment]

FORMAT = "skdpdyn ledger"
VERSION = 1
FOLLOWS: dict[
    str | None, tuple[str, ...]
] = {  # the state of an entry -> the states that it may take next
    None: ("reserved",),
    "reserved": ("settled", "failed", "cancelled"),
    "failed": ("cancelled",),
    "cancelled": ("settled", "failed"),  # its process was alive after all
    "settled": (),
}
_PATIENCE = 60.0  # seconds that a process waits for others to write


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
    """

    time: str
    entry: str
    state: str
    cost: Guarantee | None
    note: str = ""
    leaks: tuple[str, ...] = ()


class Ledger:
    """Keep the books of all releases from one data set, in a JSON file with a cap.

    A cost is set aside before the fit, so that two people cannot spend the same budget, and settled
    after it. An entry whose fit fails, or whose process dies, stays charged, since noise may have
    been drawn, until someone cancels it by name. The cancellation is noted; no line is ever erased.

    Several processes may write at once: they take turns by a lock on the file ``path + ".lock"``,
    and a new version of the file replaces the old one as a whole. A checksum detects damage and
    edits by hand. (It does not detect an edit with a new checksum, or an old copy: protect the file
    as you protect accounts.)

    Parameters
    ----------
    path : str or path-like
        The file. It is created if it does not exist.
    cap : Budget, (epsilon, delta) pair or None, default=None
        The budget of the data set, all entries together. It is fixed when the file is created;
        after that it may be left out and must be the same if it is given.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation of a cap that is a pair.

    Raises
    ------
    FileNotFoundError
        If there is no file and no cap, or the file was there once and is gone.
    ValueError
        If the cap is invalid or not that of the file, or the file is damaged.

    Notes
    -----
    The total is the composition of all entries. It holds if the data and queries of later entries
    depend on earlier releases, but their costs do not. If costs depend on earlier releases too, the
    current total is not a guarantee, but the cap is, provided that all costs are Gaussian
    (`GaussianDP`, the default of the estimators): Smith and Thakurta (2022). For other guarantees
    decide the costs in advance.

    References
    ----------
    A. Smith, A. Thakurta (2022), Fully adaptive composition for Gaussian differential privacy: the
    cap. R. Rogers, A. Roth, J. Ullman, S. Vadhan (2016), Privacy odometers and filters: why costs
    that depend on outcomes are another matter.

    Examples
    --------
    >>> import tempfile
    >>> from skdpdyn.privacy import GaussianDP, Ledger
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger(f"{folder.name}/patients.json", cap=(1.0, 1e-6))
    >>> with ledger.reserve("model of May", GaussianDP(0.1)) as entry:
    ...     pass  # the fit, then entry.settle(model)
    >>> round(ledger.epsilon, 4)
    0.3969
    >>> ledger.fits(GaussianDP(0.3))
    False
    >>> folder.cleanup()
    """

    def __init__(
        self, path: str | os.PathLike[str], cap: Any = None, *, adjacency: str = "replace_one"
    ) -> None:
        self.path: str = os.path.realpath(path)  # a replaced link would leave the file behind it
        given = None if cap is None else _checked_cap(cap, adjacency)
        if not os.path.exists(self.path):
            self._create(given)
        self.cap: Budget
        self.cap, _ = self._read()
        if given not in (None, self.cap):
            raise ValueError(
                f"cap={given} is not the cap of the ledger {self.path}, {self.cap}: "
                "leave it out, or open another ledger for another budget"
            )

    @property
    def events(self) -> tuple[Event, ...]:
        """All lines, in the order in which they were written."""
        cap, events = self._read()
        if cap != self.cap:
            raise ValueError(
                f"the ledger {self.path} has the cap {cap} now, not {self.cap}: another file "
                "took its place"
            )
        return events

    @property
    def entries(self) -> dict[str, Event]:
        """The last line of each entry by its name: its state and what it is charged with."""
        return _last(self.events)

    @property
    def total(self) -> Guarantee:
        """Total cost of all entries, including reserved and failed ones."""
        return _together(_charged(self.entries.values()), self.cap)

    @property
    def epsilon(self) -> float:
        """Epsilon of the total at the cap's delta."""
        return float(self.total.epsilon(self.cap.delta))

    def fits(self, cost: Any) -> bool:
        """Return whether a cost could be reserved now.

        Parameters
        ----------
        cost : Guarantee
            The cost that `reserve` would take.

        Returns
        -------
        bool
        """
        cost = _checked_cost(cost, self.cap)
        return self._epsilon_with(self.entries.values(), cost) <= self.cap.epsilon

    def reserve(self, name: str, cost: Any) -> "Reservation":
        """Set a cost aside before the records are touched.

        Parameters
        ----------
        name : str
            Name of the entry, one that no other entry has had.
        cost : Guarantee or fitted estimator
            The planned cost, ``estimator.privacy_cost(n_samples, n_features)``. For a release
            before the ledger began: a fitted estimator.

        Returns
        -------
        Reservation
            To be used in a ``with`` statement, which settles it. The cost is charged from now on,
            with the statement or without.

        Raises
        ------
        BudgetExceededError
            If the cap would be passed. Nothing is charged then.
        ValueError
            If the name is taken, or the cost is no guarantee, of another adjacency, or does not
            cover all that is released.
        OSError
            If the file cannot be written. The old one stays as it was.
        """
        name = _checked_text(name, "name")
        cost = _checked_cost(cost, self.cap)
        with self._locked():
            events = self.events
            entries = _last(events)
            if name in entries:
                raise ValueError(
                    f"name={name!r} is taken, by an entry that is {entries[name].state}: each "
                    "entry needs a name of its own"
                )
            spent = self._epsilon_with(entries.values(), cost)
            if not spent <= self.cap.epsilon:  # NaN is refused, too
                now = _together(_charged(entries.values()), self.cap).epsilon(self.cap.delta)
                raise BudgetExceededError(
                    f"name={name!r} would take the ledger from epsilon={now:.6g} to {spent:.6g} at "
                    f"delta={self.cap.delta:g}, beyond its cap of {self.cap.epsilon:g}: reserve "
                    "less. (An entry that "
                    "never ran can be cancelled by its name)"
                )
            self._write([*events, Event(_now(), name, "reserved", cost)])
        return Reservation(self, name, cost)

    def cancel(self, name: str, reason: str) -> None:
        """Remove the charge of an entry that released nothing; its lines stay in the books.

        Cancel only a fit that never touched the records, or whose outcome no one will ever see.

        Parameters
        ----------
        name : str
            Name of an entry that is reserved or failed.
        reason : str
            Why nothing was released.

        Raises
        ------
        ValueError
            If there is no such entry, or it was settled or cancelled before.
        OSError
            If the file cannot be written. The old one stays as it was.
        """
        reason = _checked_text(reason, "reason")
        with self._locked():
            self._add(self.events, name, "cancelled", None, reason)

    def plot(self, ax: Any = None, **kwargs: Any) -> "LedgerDisplay":
        """Draw the budget over time.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: a new figure.
        **kwargs : dict
            For matplotlib's ``step``.

        Returns
        -------
        LedgerDisplay
        """
        events = self.events
        totals = [
            _together(_charged(_last(events[: count + 1]).values()), self.cap)
            for count in range(len(events))
        ]
        display = LedgerDisplay(
            times=[datetime.fromisoformat(event.time) for event in events],
            spent=[float(total.epsilon(self.cap.delta)) for total in totals],
            cap=self.cap.epsilon,
            delta=self.cap.delta,
        )
        return display.plot(ax=ax, **kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    def __str__(self) -> str:
        title, rows, notes = self._table()
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False))
            for row in rows
        ]
        return "\n".join([title, *(line.rstrip() for line in lines), *notes])

    def _repr_html_(self) -> str:
        title, rows, notes = self._table()
        entries, total = self.entries, self.total
        epsilon, cap = float(total.epsilon(self.cap.delta)), self.cap.epsilon
        figures = [
            (f"ε={epsilon:.6g}", f"charged, at δ = {self.cap.delta:.6g}"),
            (f"of {cap:.6g}", "the cap"),
            *attackers_reach(total),
        ]
        leaks = [f"{name}: {leak}" for name, event in entries.items() for leak in event.leaks]
        return page(
            title,
            figures,
            share=epsilon / cap,
            leaks=leaks,
            lines=[note for note in notes if not note.startswith("NOT PRIVATE: ")],
            table=[("entry", *rows[0][1:]), *rows[1:]],
        )

    def _table(self) -> tuple[str, list[tuple[str, str, str]], list[str]]:
        """Return title, rows and notes, for text and HTML."""
        delta, entries = self.cap.delta, self.entries
        charged = _charged(entries.values())
        rows = [("", "epsilon", "state")]
        for name, event in entries.items():
            epsilon = "0" if event.cost is None else f"{event.cost.epsilon(delta):.6g}"
            rows.append((name, epsilon, f"{event.state} {event.time[:10]}"))
        rows.append(("together", f"{_together(charged, self.cap).epsilon(delta):.6g}", ""))
        rows.append(("cap", f"{self.cap.epsilon:.6g}", ""))
        notes = [
            f"{name} {event.state}: {event.note}" for name, event in entries.items() if event.note
        ]
        notes += [
            f"NOT PRIVATE: {name}: {leak}"
            for name, event in entries.items()
            for leak in event.leaks
        ]
        if not all(isinstance(cost, GaussianDP) for cost in charged):
            notes.append(
                "Not all costs are Gaussian: this holds if no cost was chosen by an earlier outcome"
            )
        title = f"{Path(self.path).name}: epsilon at delta={delta:g} ({self.cap.adjacency})"
        return title, rows, notes

    def _settle(
        self, name: str, reserved: Guarantee, cost: Guarantee, leaks: tuple[str, ...]
    ) -> str:
        """Charge an entry with its cost, and return what is wrong with it, if anything."""
        with self._locked():
            events = self.events
            entries = _last(events)
            note = ""
            if cost != reserved:
                others = [event for other, event in entries.items() if other != name]
                fits = self._epsilon_with(others, cost) <= self.cap.epsilon
                if not (fits and cost.epsilon(self.cap.delta) <= reserved.epsilon(self.cap.delta)):
                    note = "it spent more than was reserved"
            if name in entries and entries[name].state == "cancelled":
                note = "it was cancelled, and released something all the same"
            self._add(events, name, "settled", cost, note, leaks)
        return note

    def _fail(self, name: str, reserved: Guarantee, reason: str) -> None:
        """Note that a fit failed; its reservation stays charged."""
        with self._locked():
            self._add(self.events, name, "failed", reserved, reason)

    def _add(
        self,
        events: Sequence[Event],
        name: str,
        state: str,
        cost: Guarantee | None,
        note: str = "",
        leaks: tuple[str, ...] = (),
    ) -> None:
        """Add a line for an entry that is there, if its state allows it."""
        entries = _last(events)
        if name not in entries:
            raise ValueError(
                f"name={name!r} is no entry of the ledger {self.path}: it has {sorted(entries)}"
            )
        if state not in FOLLOWS[entries[name].state]:
            raise ValueError(f"name={name!r} is {entries[name].state} and cannot be {state}")
        self._write([*events, Event(_now(), name, state, cost, note, leaks)])

    def _epsilon_with(self, others: Iterable[Event], cost: Guarantee) -> float:
        return float(_together([*_charged(others), cost], self.cap).epsilon(self.cap.delta))

    # The file

    def _create(self, cap: Budget | None) -> None:
        """Write the first version, unless another process did, or it was there once."""
        if cap is None:
            raise FileNotFoundError(
                f"there is no ledger {self.path}: give cap=(epsilon, delta) to open a new one"
            )
        with self._locked() as lock:
            if os.path.exists(self.path):
                return
            if os.fstat(lock).st_size:
                raise FileNotFoundError(
                    f"the ledger {self.path} was there once and is gone: bring it back. (If "
                    "nothing was ever released, "
                    f"remove {self.path}.lock to open a new one)"
                )
            self.cap = cap
            self._write([])
            os.write(lock, b"Locks the ledger of this name. Leave it where the ledger is.\n")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """Hold the lock: no other process writes. It ends with the process, however that ends."""
        if fcntl is None:
            raise OSError(
                f"the ledger {self.path} cannot be written on this system, which has no POSIX "
                "file locks"
            )
        lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            deadline = time.monotonic() + _PATIENCE
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise TimeoutError(
                            f"another process holds {self.path}.lock for more than "
                            f"{_PATIENCE:g} seconds: end it, or try again"
                        ) from None
                    time.sleep(0.01)
            yield lock
        finally:
            os.close(lock)

    def _read(self) -> tuple[Budget, tuple[Event, ...]]:
        """Return the cap and the lines, checked."""
        try:
            text = Path(self.path).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise FileNotFoundError(f"the ledger {self.path} is gone: bring it back") from None
        except UnicodeDecodeError:
            text = ""
        try:
            return _parsed(text)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ValueError(
                f"the ledger {self.path} is damaged or was edited: {error}. Bring back an "
                "undamaged copy, and add what was "
                "released since"
            ) from error

    def _write(self, events: Sequence[Event]) -> None:
        """Replace the file as a whole, or leave it as it was."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "cap": {
                "epsilon": self.cap.epsilon,
                "delta": self.cap.delta,
                "adjacency": str(self.cap.adjacency),
            },
            "events": [_stored(event) for event in events],
        }
        text = json.dumps({**content, "checksum": checksum(content)}, indent=1, allow_nan=False)
        draft = f"{self.path}.tmp"
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(draft)  # left behind by a process that died here
            with open(
                os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "w", encoding="utf-8"
            ) as file:
                if os.path.exists(self.path):
                    os.fchmod(file.fileno(), os.stat(self.path).st_mode & 0o777)
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, self.path)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(draft)
            raise OSError(
                error.errno,
                f"the ledger could not be written ({error.strerror}) and is as it was before",
                self.path,
            ) from error
        _sync_folder(os.path.dirname(self.path))


class Reservation:
    """A cost that was set aside. `Ledger.reserve` makes it; the ``with`` statement settles it.

    Parameters
    ----------
    ledger : Ledger
        The books.
    name : str
        Name of the entry.
    cost : Guarantee
        The reserved cost.
    """

    def __init__(self, ledger: Ledger, name: str, cost: Guarantee) -> None:
        self.ledger = ledger
        self.name = name
        self.cost = cost
        self._open = True

    def settle(self, fitted: Any = None) -> None:
        """Charge the cost of the release instead of the reserved one.

        Parameters
        ----------
        fitted : fitted estimator, Guarantee or None, default=None
            The release: anything with ``privacy_``, a total, or a guarantee. None: all that
            was reserved was spent.

        Raises
        ------
        ValueError
            If it was settled before, if no guarantee is known, or if more was spent than was
            reserved: that is charged all the same, for it has happened.
        """
        cost, leaks = (self.cost, ()) if fitted is None else _released(fitted)
        if cost.adjacency != self.cost.adjacency:
            raise ValueError(
                f"fitted has adjacency={cost.adjacency!r}, the ledger {self.cost.adjacency!r}"
            )
        note = self.ledger._settle(self.name, self.cost, cost, leaks)
        self._open = False
        if note:
            delta = self.ledger.cap.delta
            raise ValueError(
                f"name={self.name!r}: {note}. It is charged with "
                f"epsilon={cost.epsilon(delta):.6g} at delta={delta:g}: reserve "
                "what privacy_cost says, and cancel only what has stopped"
            )

    def __enter__(self) -> "Reservation":
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if not self._open:
            return
        if error is None:
            self.settle()
            return
        try:  # the name of the error alone: its text may quote a record
            self.ledger._fail(self.name, self.cost, kind.__name__)
        except (OSError, ValueError) as unwritten:
            error.add_note(
                f"The ledger's entry {self.name!r} stays charged; that it failed was not noted: "
                f"{unwritten}"
            )


class LedgerDisplay:
    """The budget over time. `Ledger.plot` makes it.

    Parameters
    ----------
    times : list of datetime
        When lines were written.
    spent : list of float
        Epsilon of the total after each.
    cap : float
        The ledger's cap.
    delta : float
        Delta at which epsilon is read.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the drawing.
    line_ : matplotlib Line2D
        The total.
    """

    figure_: Any
    ax_: Any
    line_: Any

    def __init__(
        self, *, times: list[datetime], spent: list[float], cap: float, delta: float
    ) -> None:
        self.times = times
        self.spent = spent
        self.cap = cap
        self.delta = delta

    def plot(self, ax: Any = None, **kwargs: Any) -> "LedgerDisplay":
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: a new figure.
        **kwargs : dict
            For matplotlib's ``step``.

        Returns
        -------
        self
        """
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots()
        self.figure_, self.ax_ = ax.figure, ax
        (self.line_,) = ax.step(
            self.times, self.spent, **{"where": "post", "marker": "o", "label": "charged", **kwargs}
        )
        ax.axhline(self.cap, color="0.3", linestyle="--", linewidth=1, label="cap")
        ax.set(xlabel="time (UTC)", ylabel=f"epsilon at delta = {self.delta:g}", ylim=(0, None))
        ax.tick_params(axis="x", rotation=30)
        ax.legend(frameon=False)
        return self


def _checked_cap(cap: Any, adjacency: str) -> Budget:
    """Read a budget: a pair, or what has epsilon, delta and adjacency."""
    if isinstance(cap, (tuple, list)) and len(cap) == 2:
        return Budget(cap[0], cap[1], cast(Any, adjacency))
    if not all(hasattr(cap, name) for name in ("epsilon", "delta", "adjacency")) or isinstance(
        cap, Guarantee
    ):
        raise ValueError(f"cap={cap!r} must be a pair (epsilon, delta) or a Budget")
    return Budget(cap.epsilon, cap.delta, cap.adjacency)


def _checked_text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError(f"{name}={value!r} must be a text of one line that says something")
    return value


def _released(item: Any) -> tuple[Guarantee, tuple[str, ...]]:
    """Return the guarantee of a fitted object, and the leaks it does not cover."""
    cost = getattr(item, "privacy_", item)
    cost = getattr(cost, "guarantee", cost)  # a total, or an answer of `tightest`
    if not isinstance(cost, Guarantee):
        raise ValueError(
            f"a {type(item).__name__} is no guarantee and has no privacy_: pass "
            "privacy_cost(n_samples, n_features) before "
            "a fit, the fitted estimator after it, of a pipeline total_privacy(pipeline)"
        )
    leaks = (*getattr(item, "leaks_", ()), *getattr(item, "leaks", ()))
    return cost, tuple(map(str, leaks))


def _checked_cost(cost: Any, cap: Budget) -> Guarantee:
    """Return the guarantee that a reservation sets aside."""
    cost, leaks = _released(cost)
    if leaks:
        raise ValueError(
            f"cost does not cover all that is released ({'; '.join(leaks)}): close that, or "
            "pass its guarantee alone"
        )
    if cost.adjacency != cap.adjacency:
        raise ValueError(
            f"cost has adjacency={str(cost.adjacency)!r}, the ledger {cap.adjacency!r}: account "
            "both under one"
        )
    to_dict(cost)  # raises if it cannot be stored
    return cost


def _last(events: Iterable[Event]) -> dict[str, Event]:
    return {event.entry: event for event in events}


def _charged(entries: Iterable[Event]) -> list[Guarantee]:
    return [event.cost for event in entries if event.cost is not None]


def _together(costs: list[Guarantee], cap: Budget) -> Guarantee:
    """Compose costs, the Gaussian ones first: they compose in closed form."""
    nothing = GaussianDP(0.0, cap.adjacency)
    ordered = sorted(costs, key=lambda cost: not isinstance(cost, GaussianDP))
    return reduce(lambda one, other: one.compose(other), ordered) if ordered else nothing


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _stored(event: Event) -> dict[str, Any]:
    cost = None if event.cost is None else to_dict(event.cost)
    return {**vars(event), "cost": cost, "leaks": list(event.leaks)}


def _parsed(text: str) -> tuple[Budget, tuple[Event, ...]]:
    """Return the cap and the lines of a stored ledger; raise an error that says what is wrong."""
    content = load_json(text)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError("it is no ledger")
    if content["version"] != VERSION:
        raise ValueError(
            f"it has version {content['version']!r}, and this release reads version {VERSION}"
        )
    if content.pop("checksum", None) != checksum(content):
        raise ValueError("its checksum is not that of its content")
    cap = _checked_cap(
        (content["cap"]["epsilon"], content["cap"]["delta"]), content["cap"]["adjacency"]
    )
    events: list[Event] = []
    states: dict[str, str] = {}
    for stored in content["events"]:
        cost = None if stored["cost"] is None else from_dict(stored["cost"])
        event = Event(**{**stored, "cost": cost, "leaks": tuple(stored["leaks"])})
        known = isinstance(cost, Guarantee) and cost.adjacency == cap.adjacency
        if event.state not in FOLLOWS[states.get(event.entry)] or known == (
            event.state == "cancelled"
        ):
            raise ValueError(f"its entry {event.entry!r} cannot be {event.state} there")
        datetime.fromisoformat(event.time)
        states[event.entry] = event.state
        events.append(event)
    return cap, tuple(events)


def _sync_folder(folder: str) -> None:
    """Make a replacement last through a loss of power, where the file system can."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)
