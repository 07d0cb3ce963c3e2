"""A file that records the reserved, spent and cancelled budgets of one data set."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from skdpdyn.exceptions import BudgetExceededError
from skdpdyn.privacy.arguments import has_own
from skdpdyn.privacy.books import (
    FOLLOWS,
    Book,
    Event,
    checked_cap,
    checked_dates,
    checked_part,
    checked_text,
    read_event,
    read_rules,
    stored_rules,
)
from skdpdyn.privacy.budget import Budget
from skdpdyn.privacy.charges import Rules, Tally
from skdpdyn.privacy.checks import quoted
from skdpdyn.privacy.display import Document, Shown, whose
from skdpdyn.privacy.filters import Filter
from skdpdyn.privacy.guarantees import GaussianDP, Guarantee, check_alike, checked_unit
from skdpdyn.privacy.journal import Journal, Turn
from skdpdyn.privacy.report import attackers_reach

_PLANS: list[Callable[..., Guarantee]] = []


def plans_pipelines(plan: Callable[..., Guarantee]) -> Callable[..., Guarantee]:
    """Register the function that returns the cost of a fit, of estimator and shape."""
    _PLANS[:] = [plan]
    return plan


class Ledger(Shown):
    """Record the privacy cost of all releases from one data set in a file, up to a cap.

    A cost is reserved before the fit, so that two people cannot spend the same budget, and settled
    after it. If the fit fails or the process dies, the entry stays charged, because noise may have
    been drawn. It can be cancelled by name. The cancellation is recorded. Lines are never deleted.

    Several processes may write at the same time. They take turns by locks on the folder and on the
    file. Each process appends a line, with its length and a checksum of all lines up to it. If a
    process dies while it writes a line, the incomplete line is dropped. Checksums detect damage and
    manual edits. (They do not detect an edit with new checksums, or an old copy: protect the file
    as you protect accounts.) The file ``path + ".begun"`` records that the ledger was created. If
    the ledger itself is missing, no new one is started then.

    Parameters
    ----------
    path : str or path-like
        The file. It is created if it does not exist.
    cap : Budget, (epsilon, delta) pair or None, default=None
        The budget of the data set, for all entries together. It is fixed when the file is created.
        Later it may be omitted, and a different cap is refused.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation of a cap that is a pair.
    unit : str or None, default=None
        The unit that the cap protects: "record", or the unit of the fits' groups, such as "person".
        It is fixed with the cap. None: the unit of the file; "record" for a new file.
    filter : {"gdp", "renyi"}, Filter or None, default=None
        The privacy filter, which proves the cap even if costs are chosen by earlier outcomes, see
        `skdpdyn.privacy.filters.Filter`. It is fixed with the cap. None: the filter of the file; a
        new file has none.

    Raises
    ------
    FileNotFoundError
        If there is no file and no cap, or if the file was created before and is missing.
    ValueError
        If the cap, unit or filter is invalid or differs from that of the file, or if the file is
        damaged.

    Notes
    -----
    Without a filter, the total is the composition of all entries. It holds even if the data and
    queries of later entries depend on earlier releases, but not if their costs do. An example of
    such a cost is a fit that is made only after a certain result. In this case, create the file
    with a filter. The cap is then the guarantee, and the total so far is not. ``filter="gdp"``
    costs nothing if all costs are Gaussian, as they are by default.

    The ledger charges for the unit with the highest cost: all entries without a partition or dates,
    the most expensive part of each partition, and the entries at the most expensive date. The cap
    limits their total.

    References
    ----------
    R. Rogers, A. Roth, J. Ullman, S. Vadhan (2016), Privacy odometers and filters: on
    costs that depend on outcomes.

    Examples
    --------
    >>> import tempfile
    >>> from skdpdyn.privacy import GaussianDP, Ledger
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger(f"{folder.name}/patients.ledger", cap=(1.0, 1e-6))
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
        budget = None if cap is None else checked_cap(cap, adjacency)
        unit = None if unit is None else checked_unit(unit)
        rule = Filter(filter) if isinstance(filter, str) else filter
        if not isinstance(rule, Filter | None):
            raise ValueError(f"filter={quoted(filter)} must be 'gdp', 'renyi', a Filter or None")
        self._state = _State(self.path)
        if not os.path.exists(self.path):
            if budget is None:
                raise FileNotFoundError(
                    f"there is no ledger {self.path}: give cap=(epsilon, delta) to open a new one"
                )
            rules = Rules(budget, unit or "record", rule and rule.fixed_for(budget))
            self._state.journal.begin(stored_rules(rules))
        self.rules: Rules = self._updated(self._state, self._state.journal.read).tally.rules
        rule = rule and rule.fixed_for(self.cap)
        for name, value in (("cap", budget), ("unit", unit), ("filter", rule)):
            stored = getattr(self.rules, name)
            if value not in (None, stored):
                raise ValueError(
                    f"{name}={value} is not the {name} of the ledger {self.path}, {stored}: "
                    "leave it out, or open another ledger for another budget"
                )

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "rules": self.rules}

    def __setstate__(self, stored: dict[str, Any]) -> None:
        vars(self).update(stored, _state=_State(stored["path"]))

    @property
    def cap(self) -> Budget:
        """The budget of the data set."""
        return self.rules.cap

    @property
    def unit(self) -> str:
        """The unit that the cap protects."""
        return self.rules.unit

    @property
    def events(self) -> tuple[Event, ...]:
        """All lines, in the order in which they were written."""
        with self._reading() as book:
            return tuple(book.events)

    @property
    def entries(self) -> dict[str, Event]:
        """Latest state and charge of each entry, by its name."""
        with self._reading() as book:
            return dict(book.entries)

    @property
    def total(self) -> Guarantee:
        """Total cost of all entries, including reserved and failed ones; with a filter, the cap."""
        with self._reading() as book:
            return book.tally.total

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
            The cost, as for `reserve`.
        n_samples, n_features : int or None, default=None
            As for `reserve`.
        disjoint, dates : tuple or None, default=None
            As for `reserve`.

        Returns
        -------
        bool
        """
        cost = self._checked(self._planned(cost, n_samples, n_features))
        part = checked_part(disjoint)
        new = Event("", "", "reserved", cost, disjoint=part, dates=checked_dates(dates))
        with self._reading() as book:
            return bool(book.tally.spent_with("", new) <= self.rules.limit)

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
        """Reserve a cost before the records are used.

        Parameters
        ----------
        name : str
            A new name for the entry.
        cost : Guarantee, fitted estimator, estimator or pipeline
            The planned cost. With ``n_samples`` and ``n_features``, it is the cost of fitting an
            estimator, or all private steps of a pipeline. A fitted estimator records a release that
            was made before the ledger began.
        n_samples, n_features : int or None, default=None
            Numbers of records (or of the ledger's units) and of columns in the fit.
        disjoint : (str, str) pair or None, default=None
            Name of a partition of the units, and of the part in the release, such as ``("month",
            "2026-03")``. Parts share no unit, so only the most expensive part is charged. The part
            of each unit must be public. Under "replace_one", a unit that is replaced stays in its
            part. If persons are protected, all rows of a person are in the same part. None: the
            release may contain all units.
        dates : pair of dates, ISO texts or None, default=None
            For data that grow: the first and last public date of the units in the release.
            ``(None, "2026-03-31")`` are all units up to this date. A unit has one date, which stays
            the same if the unit is replaced. The date of a person is that of their first row. A
            unit is charged for every release whose window contains its date, so the total stays
            bounded if the windows leave out the oldest units. None: the release may contain all
            units.

        Returns
        -------
        Reservation
            Use it in a ``with`` statement, which settles it. The cost is charged from now on, even
            without the statement.

        Raises
        ------
        BudgetExceededError
            If the cap would be exceeded. Nothing is charged then.
        ValueError
            If the name is taken, or if the cost is not a guarantee, has another adjacency or unit,
            or does not cover everything that is released.
        UnsupportedMechanismError
            If the filter cannot add such a cost.
        OSError
            If the file cannot be written. The old file is not changed then.
        """
        name = checked_text(name, "name")
        cost = self._checked(self._planned(cost, n_samples, n_features))
        part = checked_part(disjoint)
        days = checked_dates(dates)
        if part and days:
            raise ValueError("disjoint and dates: give one of them, a partition or public dates")
        with self._writing() as (book, turn):
            if name in book.entries:
                raise ValueError(
                    f"name={quoted(name)} is taken, by an entry that is "
                    f"{book.entries[name].state}: each entry needs a name of its own"
                )
            new = Event(_now(), name, "reserved", cost, disjoint=part, dates=days)
            spent = book.tally.spent_with(name, new)
            if not spent <= self.rules.limit:  # NaN is refused, too
                now = self.rules.shown(book.tally.spent)
                raise BudgetExceededError(
                    f"name={quoted(name)} would take the ledger from epsilon={now} to "
                    f"{self.rules.shown(spent)} at delta={self.cap.delta:g}, beyond its cap of "
                    f"{self.cap.epsilon:g}: reserve less. (An entry that never ran can be "
                    "cancelled by its name)"
                )
            turn.append(new.stored())
        return Reservation(self, name, cost)

    def cancel(self, name: str, reason: str) -> None:
        """Remove the charge of an entry that released nothing; its lines stay in the file.

        Cancel a fit only if it never used the records, or if nobody will ever see its outcome.

        Parameters
        ----------
        name : str
            Name of a reserved or failed entry.
        reason : str
            Why nothing was released.

        Raises
        ------
        ValueError
            If there is no such entry, or if it is settled or cancelled.
        OSError
            If the file cannot be written. The old file is not changed then.
        """
        reason = checked_text(reason, "reason")
        with self._writing() as (book, turn):
            turn.append(self._next(book, name, "cancelled", None, reason).stored())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    def __str__(self) -> str:
        return self.document().text()

    def document(self) -> Document:
        """Return all entries, with their total and the cap, for text and HTML.

        Returns
        -------
        Document
        """
        delta = self.cap.delta
        rules = self.rules
        with self._reading() as book:
            entries = dict(book.entries)
            spent = book.tally.spent
            total = book.tally.total
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
            f"{Path(self.path).name}: epsilon at delta={delta:g} ({whose(total)})",
            rows,
            notes,
            [f"{name}: {leak}" for name, event in entries.items() for leak in event.leaks],
            [
                (f"ε={rules.shown(spent)}", f"charged, at δ = {delta:.6g}"),
                (f"of {self.cap.epsilon:.6g}", f"the cap ({whose(total)})"),
                *attackers_reach(total),
            ],
            float(spent) / rules.limit,
        )

    def _settle(
        self, name: str, reserved: Guarantee, cost: Guarantee, leaks: tuple[str, ...]
    ) -> str:
        """Charge an entry with its cost, and return an objection to it, or ""."""
        with self._writing() as (book, turn):
            entry = book.entries.get(name)
            note = ""
            if cost != reserved and entry is not None:
                now = replace(entry, cost=cost)
                spent = book.tally.spent_with(name, now)
                alone = Tally(self.rules).spent_with(name, now)
                before = Tally(self.rules).spent_with(name, replace(now, cost=reserved))
                if not (spent <= self.rules.limit and alone <= before):
                    note = "it spent more than was reserved"
            if entry is not None and entry.state == "cancelled":
                note = "it was cancelled, and released something all the same"
            turn.append(self._next(book, name, "settled", cost, note, leaks).stored())
        return note

    def _fail(self, name: str, reserved: Guarantee, reason: str) -> None:
        """Note that a fit failed; its reservation stays charged."""
        with self._writing() as (book, turn):
            turn.append(self._next(book, name, "failed", reserved, reason).stored())

    def _next(
        self,
        book: Book,
        name: str,
        state: str,
        cost: Guarantee | None,
        note: str,
        leaks: tuple[str, ...] = (),
    ) -> Event:
        """Return the next event of an entry that is there, if its state allows it."""
        entry = book.entries.get(name)
        if entry is None:
            raise ValueError(
                f"name={quoted(name)} is no entry of the ledger {self.path}: it has "
                f"{sorted(book.entries)}"
            )
        if state not in FOLLOWS[entry.state]:
            raise ValueError(f"name={quoted(name)} is {entry.state} and cannot be {state}")
        return replace(entry, time=_now(), state=state, cost=cost, note=note, leaks=leaks)

    def _checked(self, cost: Any) -> Guarantee:
        """Return the guarantee that a reservation sets aside."""
        cost, leaks = _released(cost)
        if leaks:
            raise ValueError(
                f"cost does not cover all that is released ({'; '.join(leaks)}): close that, or "
                "pass its guarantee alone"
            )
        self.rules.check(cost)
        return cost

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

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Book]:
        """Give the book as the file is now."""
        state = self._own_state()
        with state.guard:
            yield self._updated(state, state.journal.read)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[tuple[Book, Turn]]:
        """Give the book while no one else writes, and the turn to write a line."""
        state = self._own_state()
        with state.journal.writing() as turn, state.guard:
            yield self._updated(state, turn.read), turn

    def _own_state(self) -> "_State":
        """Return the state of this process: a fork may have come in the middle of the parent's."""
        if self._state.process != os.getpid():
            self._state = _State(self.path)
        return self._state

    def _updated(self, state: "_State", read: Callable[[], tuple[bool, list[Any]]]) -> Book:
        """Return the book, with the lines that are new, checked."""
        book = state.book
        state.book = None  # where this ends early, all of the file is read again
        if book is None:
            state.journal.forget()
        try:
            anew, contents = read()
            if anew or book is None:
                book = Book(read_rules(contents.pop(0)))
            for content in contents:
                book.add(read_event(content))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ValueError(
                f"the ledger {self.path} is damaged or was edited: {error}. Bring back an "
                "undamaged copy, and add what was released since"
            ) from error
        if book.tally.rules != getattr(self, "rules", book.tally.rules):
            raise ValueError(
                f"the ledger {self.path} has the cap {book.tally.rules} now, not {self.rules}: "
                "another file took its place"
            )
        state.book = book
        return book


class _State:
    """The book of a process, up to the line that was read last."""

    def __init__(self, path: str) -> None:
        self.process = os.getpid()
        self.guard = threading.Lock()  # a thread at a time
        self.journal = Journal(path)
        self.book: Book | None = None


class Reservation:
    """A reserved cost. `Ledger.reserve` returns it, and the ``with`` statement settles it.

    Parameters
    ----------
    ledger : Ledger
        The ledger.
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

    def __repr__(self) -> str:
        return f"Reservation({self.name!r}, {self.cost!r})"

    def settle(self, fitted: Any = None) -> None:
        """Charge the cost of the release instead of the reserved one.

        Parameters
        ----------
        fitted : fitted estimator, Guarantee or None, default=None
            The release: an object with ``privacy_``, a total, or a guarantee. None: the whole
            reserved cost was spent.

        Raises
        ------
        ValueError
            If it was settled before, if no guarantee is known, or if more was spent than was
            reserved. In the last case, the cost is charged before the error is raised.
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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
