"""A team's books for one data set: reserved, spent and cancelled budgets, in a file."""

import contextlib
import errno
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, cast

from skdpdyn.exceptions import BudgetExceededError
from skdpdyn.privacy import serialization
from skdpdyn.privacy.budget import Budget
from skdpdyn.privacy.checks import has_own
from skdpdyn.privacy.display import Document, Shown, whose
from skdpdyn.privacy.filters import Filter, added, most
from skdpdyn.privacy.guarantees import (
    GaussianDP,
    Guarantee,
    check_alike,
    checked_unit,
    composed,
    largest,
)
from skdpdyn.privacy.report import attackers_reach
from skdpdyn.privacy.serialization import checksum, from_dict, load_json, to_dict

try:
    import fcntl
except ImportError:  # no POSIX system
    fcntl = None  # type: ignore[assignment]

FORMAT = "skdpdyn ledger"
VERSION = 2
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
_PLANS: list[Callable[..., Guarantee]] = []


def plans_pipelines(plan: Callable[..., Guarantee]) -> Callable[..., Guarantee]:
    """Register the function that returns the cost of a fit, of estimator and shape."""
    _PLANS[:] = [plan]
    return plan


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
    disjoint: tuple[str, str] | None = None
    dates: tuple[str | None, str | None] | None = None

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


@dataclass(frozen=True)
class Rules:
    """Limits that a ledger's entries keep together, fixed when its file is created.

    Parameters
    ----------
    cap : Budget
        The budget of the data set.
    unit : str, default="record"
        Whom the cap protects.
    filter : Filter or None, default=None
        What proves the cap; None: the composition of all costs.
    """

    cap: Budget
    unit: str = "record"
    filter: Filter | None = None

    def total(self, entries: Iterable[Event]) -> Guarantee:
        """Return the cost of entries to any one unit together, none of them chosen by outcomes."""

        def one_by_one(costs: Iterable[Guarantee]) -> Guarantee:
            return composed(costs) if (costs := list(costs)) else self.nothing

        return _together(entries, lambda cost: cost, one_by_one, largest)

    @property
    def nothing(self) -> GaussianDP:
        """The cost of no entry."""
        return GaussianDP(0.0, self.cap.adjacency, unit=self.unit)

    def spent(self, entries: Iterable[Event]) -> Any:
        """Return the part of ``limit`` taken: an epsilon, or a share of the filter's."""
        if self.filter is None:
            return float(self.total(entries).epsilon(self.cap.delta))
        rule = self.filter
        return max(
            _together(entries, lambda cost: rule.shares(cost, self.cap, self.unit), added, most)
        )

    @property
    def limit(self) -> float:
        """Largest ``spent``."""
        return self.cap.epsilon if self.filter is None else 1.0

    def shown(self, spent: Any) -> str:
        """Return an amount of ``spent`` in words."""
        if self.filter is None:
            return f"{spent:.6g}"
        return f"{100 * float(spent):.4g} % of {self.filter.kind}"

    def checked(self, cost: Any) -> Guarantee:
        """Return the guarantee that a reservation sets aside."""
        cost, leaks = _released(cost)
        if leaks:
            raise ValueError(
                f"cost does not cover all that is released ({'; '.join(leaks)}): close that, or "
                "pass its guarantee alone"
            )
        check_alike(self.nothing, cost)
        if self.filter is not None:
            self.filter.check(cost)
        to_dict(cost)  # raises if it cannot be stored
        return cost


class Ledger(Shown):
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
    unit : str or None, default=None
        Whom the cap protects: "record", or the unit of the fits' groups, such as "person". It is
        fixed with the cap. None: as the file says; of a new one "record".
    filter : {"gdp", "renyi"}, Filter or None, default=None
        What proves the cap where costs are chosen by earlier outcomes, see
        `skdpdyn.privacy.filters.Filter`. It is fixed with the cap. None: as the file says; of a
        new one none.

    Raises
    ------
    FileNotFoundError
        If there is no file and no cap, or the file was there once and is gone.
    ValueError
        If the cap, unit or filter is invalid or not that of the file, or the file is damaged.

    Notes
    -----
    Without a filter, the total is the composition of all entries. It holds if the data and queries
    of later entries depend on earlier releases, but their costs do not. If costs depend on earlier
    releases too, whether a fit is made at all, say, open the file with a filter: the cap is then
    the guarantee, and the total of the moment is none. ``filter="gdp"`` costs nothing where all
    costs are Gaussian, the default of the estimators.

    What a unit is charged with is the sum of the entries on everybody and, for each partition, of
    the dearest part; and of the entries at the dearest date. The cap holds that sum.

    References
    ----------
    R. Rogers, A. Roth, J. Ullman, S. Vadhan (2016), Privacy odometers and filters: why costs
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
        self,
        path: str | os.PathLike[str],
        cap: Any = None,
        *,
        adjacency: str = "replace_one",
        unit: str | None = None,
        filter: Any = None,
    ) -> None:
        self.path: str = os.path.realpath(path)  # a replaced link would leave the file behind it
        checked_cap = None if cap is None else _checked_cap(cap, adjacency)
        unit = None if unit is None else checked_unit(unit)
        rule = Filter(filter) if isinstance(filter, str) else filter
        if not isinstance(rule, Filter | None):
            raise ValueError(f"filter={filter!r} must be 'gdp', 'renyi', a Filter or None")
        if not os.path.exists(self.path):
            rules = None
            if checked_cap is not None:
                rules = Rules(checked_cap, unit or "record", rule and rule.fixed_for(checked_cap))
            self._create(rules)
        self.rules: Rules
        self.rules, _ = self._read()
        rule = rule and rule.fixed_for(self.cap)
        for name, value in (("cap", checked_cap), ("unit", unit), ("filter", rule)):
            stored = getattr(self.rules, name)
            if value not in (None, stored):
                raise ValueError(
                    f"{name}={value} is not the {name} of the ledger {self.path}, {stored}: "
                    "leave it out, or open another ledger for another budget"
                )

    @property
    def cap(self) -> Budget:
        """The budget of the data set."""
        return self.rules.cap

    @property
    def unit(self) -> str:
        """Whom the cap protects."""
        return self.rules.unit

    @property
    def events(self) -> tuple[Event, ...]:
        """All lines, in the order in which they were written."""
        rules, events = self._read()
        if rules != self.rules:
            raise ValueError(
                f"the ledger {self.path} has the cap {rules} now, not {self.rules}: another file "
                "took its place"
            )
        return events

    @property
    def entries(self) -> dict[str, Event]:
        """Latest state and charge of each entry, by its name."""
        return _last(self.events)

    @property
    def total(self) -> Guarantee:
        """Total cost of all entries, including reserved and failed ones; by a filter, the cap."""
        if self.rules.filter is not None:
            return self.rules.filter.guarantee(self.cap, self.unit)
        return self.rules.total(self.entries.values())

    @property
    def epsilon(self) -> float:
        """Epsilon of the total at the cap's delta."""
        return float(self.total.epsilon(self.cap.delta))

    def fits(
        self,
        cost: Any,
        n_samples: int | None = None,
        n_features: int | None = None,
        *,
        disjoint: tuple[str, str] | None = None,
        dates: tuple[Any, Any] | None = None,
    ) -> bool:
        """Return whether a cost could be reserved now.

        Parameters
        ----------
        cost : Guarantee, fitted estimator, estimator or pipeline
            The cost that `reserve` would take.
        n_samples, n_features : int or None, default=None
            As for `reserve`.
        disjoint, dates : tuple or None, default=None
            As for `reserve`.

        Returns
        -------
        bool
        """
        cost = self.rules.checked(self._planned(cost, n_samples, n_features))
        new = Event("", "", "reserved", cost, disjoint=_part(disjoint), dates=_days(dates))
        return bool(self.rules.spent([*self.entries.values(), new]) <= self.rules.limit)

    def reserve(
        self,
        name: str,
        cost: Any,
        n_samples: int | None = None,
        n_features: int | None = None,
        *,
        disjoint: tuple[str, str] | None = None,
        dates: tuple[Any, Any] | None = None,
    ) -> "Reservation":
        """Set a cost aside before the records are touched.

        Parameters
        ----------
        name : str
            Name of the entry, one that no other entry has had.
        cost : Guarantee, fitted estimator, estimator or pipeline
            The planned cost: that of an estimator or of all private steps of a pipeline, if
            ``n_samples`` and ``n_features`` are given. For a release before the ledger began: a
            fitted estimator.
        n_samples, n_features : int or None, default=None
            Numbers of records (or of the ledger's units) and of columns that a fit will see.
        disjoint : (str, str) pair or None, default=None
            Name of a partition, and of the part that the release is of: ``("month", "2026-03")``.
            Parts of one partition share no unit, so a unit pays for the dearest part alone. Who is
            in which part must be public: under "replace_one" a unit that is replaced stays in its
            part; where persons are protected, nobody has rows in two. None: of everybody.
        dates : pair of dates, ISO texts or None, default=None
            For data that grow: first and last public date of those whom the release is of;
            ``(None, "2026-03-31")`` are all that were there by then. A unit has one date, which
            stays when it is replaced; a person's is the first of all rows. It is charged for every
            release from its date on whose window holds it: the oldest pay for all, and windows,
            which they leave, save. None: of everybody.

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
            If the name is taken, or the cost is no guarantee, of another adjacency or unit, or
            does not cover all that is released.
        UnsupportedMechanismError
            If the filter cannot add up such a cost.
        OSError
            If the file cannot be written. The old one stays as it was.
        """
        name = _checked_text(name, "name")
        cost = self.rules.checked(self._planned(cost, n_samples, n_features))
        part = _part(disjoint)
        days = _days(dates)
        if part and days:
            raise ValueError("disjoint and dates: give one of them, a partition or public dates")
        with self._locked():
            events = self.events
            entries = _last(events)
            if name in entries:
                raise ValueError(
                    f"name={name!r} is taken, by an entry that is {entries[name].state}: each "
                    "entry needs a name of its own"
                )
            new = Event(_now(), name, "reserved", cost, disjoint=part, dates=days)
            spent = self.rules.spent([*entries.values(), new])
            if not spent <= self.rules.limit:  # NaN is refused, too
                now = self.rules.shown(self.rules.spent(entries.values()))
                raise BudgetExceededError(
                    f"name={name!r} would take the ledger from epsilon={now} to "
                    f"{self.rules.shown(spent)} at delta={self.cap.delta:g}, beyond its cap of "
                    f"{self.cap.epsilon:g}: reserve less. (An entry that never ran can be "
                    "cancelled by its name)"
                )
            self._write([*events, new])
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

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    def __str__(self) -> str:
        return self.document().text()

    def document(self) -> Document:
        """Return all entries, and the total beside the cap, for text and HTML.

        Returns
        -------
        Document
        """
        delta = self.cap.delta
        entries = self.entries
        rules = self.rules
        spent = rules.spent(entries.values())
        rows = [("entry", "state", "epsilon")]
        for name, event in entries.items():
            epsilon = "0" if event.cost is None else f"{event.cost.epsilon(delta):.6g}"
            rows.append((name, f"{event.state} {event.time[:10]}{event.of}", epsilon))
        rows.append(("together", "", rules.shown(spent)))
        rows.append(("cap", "", f"{self.cap.epsilon:.6g}"))
        notes = [
            f"{name} {event.state}: {event.note}" for name, event in entries.items() if event.note
        ]
        if rules.filter is not None:
            notes.append(
                "The cap is the guarantee, however costs are chosen; what is spent is none"
            )
        elif not all(isinstance(event.cost, GaussianDP | None) for event in entries.values()):
            notes.append(
                "Not all costs are Gaussian: this holds if no cost was chosen by an earlier outcome"
            )
        return Document(
            f"{Path(self.path).name}: epsilon at delta={delta:g} ({whose(self.total)})",
            rows,
            notes,
            [f"{name}: {leak}" for name, event in entries.items() for leak in event.leaks],
            [
                (f"ε={rules.shown(spent)}", f"charged, at δ = {delta:.6g}"),
                (f"of {self.cap.epsilon:.6g}", f"the cap ({whose(self.total)})"),
                *attackers_reach(self.total),
            ],
            float(spent) / rules.limit,
        )

    def _settle(
        self, name: str, reserved: Guarantee, cost: Guarantee, leaks: tuple[str, ...]
    ) -> str:
        """Charge an entry with its cost, and return an objection to it, or ""."""
        with self._locked():
            events = self.events
            entries = _last(events)
            note = ""
            if cost != reserved and name in entries:
                now = replace(entries[name], cost=cost)
                spent = self.rules.spent({**entries, name: now}.values())
                alone = [self.rules.spent([replace(now, cost=one)]) for one in (cost, reserved)]
                if not (spent <= self.rules.limit and alone[0] <= alone[1]):
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
        now = replace(entries[name], time=_now(), state=state, cost=cost, note=note, leaks=leaks)
        self._write([*events, now])

    def _planned(self, cost: Any, n_samples: int | None, n_features: int | None) -> Any:
        """Return the cost of a fit to one of the ledger's units, if its shape is given."""
        if n_samples is None and n_features is None:
            return cost
        if has_own(cost, "privacy_cost"):
            return cost.privacy_cost(n_samples, n_features).with_unit(self.unit)
        if not _PLANS:
            raise ValueError(
                f"a {type(cost).__name__} has no privacy_cost: for a pipeline, import "
                "skdpdyn.model_selection first"
            )
        return _PLANS[0](cost, n_samples, n_features).with_unit(self.unit)

    # The file

    def _create(self, rules: Rules | None) -> None:
        """Write the first version, unless another process did, or it was there once."""
        if rules is None:
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
            self.rules = rules
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

    def _read(self) -> tuple[Rules, tuple[Event, ...]]:
        """Return the rules and the lines, checked."""
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
            "costs": serialization.VERSION,
            "cap": {
                "epsilon": self.cap.epsilon,
                "delta": self.cap.delta,
                "adjacency": str(self.cap.adjacency),
            },
            "unit": self.unit,
            "filter": self.rules.filter and asdict(self.rules.filter),
            "events": [
                vars(event) | {"cost": None if event.cost is None else to_dict(event.cost)}
                for event in events
            ],
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
        check_alike(self.ledger.rules.nothing, cost)
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


def _checked_cap(cap: Any, adjacency: str) -> Budget:
    """Read a budget: a pair, or an object with epsilon, delta and adjacency."""
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
    cost = item.privacy_ if has_own(item, "privacy_") else item
    cost = cost.guarantee if has_own(cost, "guarantee") else cost  # a total, or of `tightest`
    if not isinstance(cost, Guarantee):
        raise ValueError(
            f"a {type(item).__name__} is no guarantee and has no privacy_: pass "
            "privacy_cost(n_samples, n_features) before "
            "a fit, the fitted estimator after it, of a pipeline total_privacy(pipeline)"
        )
    leaks = (*getattr(item, "leaks_", ()), *getattr(item, "leaks", ()))
    return cost, tuple(map(str, leaks))


def _part(disjoint: Any) -> tuple[str, str] | None:
    """Return the name of a partition and of a part, checked."""
    if disjoint is None:
        return None
    if not isinstance(disjoint, tuple | list) or len(disjoint) != 2:
        raise ValueError(f"disjoint={disjoint!r} must be a pair (partition, part) of texts")
    partition, part = (_checked_text(text, "disjoint") for text in disjoint)
    return partition, part


def _days(dates: Any) -> tuple[str | None, str | None] | None:
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


def _last(events: Iterable[Event]) -> dict[str, Event]:
    return {event.entry: event for event in events}


def _together(
    entries: Iterable[Event],
    counted: Callable[[Guarantee], Any],
    add: Callable[[Iterable[Any]], Any],
    dearest: Callable[[list[Any]], Any],
) -> Any:
    """Return the most that entries cost any one unit.

    A unit is in one part of each partition at most, and has one date. It pays for what is of
    everybody, for the part of each partition that it is in, and for the windows that hold its date.
    Of all dates, the one that pays most may be taken to be the first day of a window, or to come
    before all others: moving a date back to the last first day before it leaves no window.
    """
    everybody: list[Any] = []
    partitions: dict[str, dict[str, list[Any]]] = {}
    windows: list[tuple[tuple[str, str], Any]] = []
    for event in entries:
        if event.cost is None:
            continue
        cost = counted(event.cost)
        if event.disjoint is not None:
            partition, part = event.disjoint
            partitions.setdefault(partition, {}).setdefault(part, []).append(cost)
        elif event.dates is not None:
            first, last = event.dates
            windows.append(((first or "", last or "~"), cost))  # before and after all days
        else:
            everybody.append(cost)
    for parts in partitions.values():
        everybody.append(dearest([add(costs) for costs in parts.values()]))
    if windows:
        days = {first for (first, _), _ in windows}
        on_days = [
            [cost for (first, last), cost in windows if first <= day <= last] for day in days
        ]
        everybody.append(dearest([add(costs) for costs in on_days]))
    return add(everybody)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _parsed(text: str) -> tuple[Rules, tuple[Event, ...]]:
    """Return the rules and the lines of a stored ledger; raise an error that names the fault."""
    content = _checked_content(text)
    cap = _checked_cap(
        (content["cap"]["epsilon"], content["cap"]["delta"]), content["cap"]["adjacency"]
    )
    rule = None if content["filter"] is None else Filter(**content["filter"]).fixed_for(cap)
    rules = Rules(cap, checked_unit(content["unit"]), rule)
    events: list[Event] = []
    last: dict[str, Event] = {}
    for stored in content["events"]:
        cost = None if stored["cost"] is None else from_dict(stored["cost"])
        part = _part(stored.get("disjoint"))
        days = _days(stored.get("dates"))
        parsed = {"cost": cost, "leaks": tuple(stored["leaks"]), "disjoint": part, "dates": days}
        event = Event(**{**stored, **parsed})
        before = last.get(event.entry)
        has_cost = (
            isinstance(cost, Guarantee)
            and cost.adjacency == cap.adjacency
            and cost.unit == rules.unit
        )
        if event.state not in FOLLOWS[before.state if before else None] or has_cost == (
            event.state == "cancelled"
        ):
            raise ValueError(f"its entry {event.entry!r} cannot be {event.state} there")
        if before and (before.disjoint, before.dates) != (part, days):
            raise ValueError(f"its entry {event.entry!r} cannot be of others there")
        datetime.fromisoformat(event.time)
        last[event.entry] = event
        events.append(event)
    return rules, tuple(events)


def _checked_content(text: str) -> dict[str, Any]:
    """Return the content of a ledger's file, of this version and with its own checksum."""
    content = load_json(text)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError("it is no ledger")
    if content["version"] != VERSION:
        raise ValueError(f"it has version {content['version']!r}, and this release reads {VERSION}")
    if content.pop("checksum", None) != checksum(content):
        raise ValueError("its checksum is not that of its content")
    serialization.check_version(content["costs"], "version of its costs")
    return content


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
