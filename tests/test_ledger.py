"""A team's books: nothing lost, nothing overspent, whatever processes, disks and hands do."""

import contextlib
import errno
import json
import math
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pytest
from faults import every_fault
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpdyn import PrivateRidge
from skdpdyn.exceptions import BudgetExceededError, UnsupportedMechanismError
from skdpdyn.model_selection import total_privacy
from skdpdyn.preprocessing import PrivateScaler
from skdpdyn.privacy import (
    ApproximateDP,
    Budget,
    GaussianDP,
    Ledger,
    RenyiDP,
    journal,
    tightest,
)
from skdpdyn.privacy.books import FOLLOWS
from skdpdyn.privacy.charges import Tally
from skdpdyn.privacy.filters import Filter
from skdpdyn.privacy.guarantees import LinearCurve
from skdpdyn.privacy.journal import Journal, line_of
from skdpdyn.privacy.ledger import Reservation
from skdpdyn.privacy.mechanisms import Gaussian
from skdpdyn.privacy.serialization import to_dict

CAP = Budget(1.0, 1e-6)
MU = CAP.mu


@pytest.fixture
def path(tmp_path):
    return tmp_path / "books.ledger"


@pytest.fixture
def ledger(path):
    return Ledger(path, CAP)


def states(ledger):
    return {name: event.state for name, event in ledger.entries.items()}


def rewrite(path, change):
    """Edit a stored ledger, its rules or its events, and give it the checksums of the edit."""
    rules, *events = (json.loads(line.split(b" ", 2)[2]) for line in path.read_bytes().splitlines())
    change(rules, events)
    text = b""
    before = ""
    for content in (rules, *events):
        line, before = line_of(content, before)
        text += line + b"\n"
    path.write_bytes(text)


# --- what is charged ------------------------------------------------------------------------------


def test_a_reservation_is_charged_before_the_fit_and_settled_after_it(ledger, path):
    model = PrivateRidge(epsilon=0.5, delta=1e-6, target_bounds=(0, 1))
    with ledger.reserve("model", model.privacy_cost(50, 2)) as entry:
        assert states(Ledger(path)) == {"model": "reserved"}
        before = ledger.epsilon
        model.fit([[0.5, 0.1]] * 50, [0.5] * 50)
        entry.settle(model)
    assert states(ledger) == {"model": "settled"}
    assert ledger.epsilon == before == model.privacy_.epsilon(1e-6)
    assert ledger.total == model.privacy_
    assert [event.state for event in ledger.events] == ["reserved", "settled"]


def test_without_settle_all_that_was_reserved_is_charged(ledger):
    with ledger.reserve("scaler", GaussianDP(0.1)):
        pass
    never = ledger.reserve("never entered", GaussianDP(0.05))
    assert repr(never).startswith("Reservation('never entered', GaussianDP(mu=0.05")
    assert states(ledger) == {"scaler": "settled", "never entered": "reserved"}
    assert ledger.total.mu == math.hypot(0.1, 0.05)
    never.settle(tightest(Gaussian(40.0)))  # less may be spent than was reserved
    assert ledger.total.mu == math.hypot(0.1, 0.025)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failed_fit_stays_charged_until_it_is_cancelled(ledger, error):
    with pytest.raises(error), ledger.reserve("fit", GaussianDP(0.1)):
        raise error("row 17 holds 4.25")
    assert ledger.entries["fit"].state == "failed"
    assert ledger.entries["fit"].note == error.__name__  # nothing of its text
    assert ledger.total == GaussianDP(0.1)
    ledger.cancel("fit", "it failed before the records were read")
    assert ledger.total == GaussianDP(0.0)
    assert [event.state for event in ledger.events] == ["reserved", "failed", "cancelled"]
    assert ledger.events[0].cost == GaussianDP(0.1)
    assert "it failed before the records were read" in str(ledger)


def test_what_is_no_entry_or_no_reason_cancels_nothing(ledger):
    ledger.reserve("fit", GaussianDP(0.1))
    for name, reason, message in (("feet", "misspelt", "no entry"), ("fit", " ", "reason=' '")):
        with pytest.raises(ValueError, match=message):
            ledger.cancel(name, reason)
    assert ledger.total == GaussianDP(0.1)


@pytest.mark.parametrize(
    "spent", [GaussianDP(0.11), GaussianDP(1.5 * MU), ApproximateDP(0.9, 1e-7)]
)
def test_more_than_was_reserved_is_charged_and_an_error(ledger, spent):
    with (
        pytest.raises(ValueError, match="spent more than was reserved"),
        ledger.reserve("fit", GaussianDP(0.1)) as entry,
    ):
        entry.settle(SimpleNamespace(privacy_=spent))
    assert ledger.total == spent
    assert "spent more" in ledger.entries["fit"].note


def test_a_loose_bound_that_passes_the_cap_with_others_is_an_error(path):
    """A curve that is smaller at the cap's delta alone may compose to more."""
    ledger = Ledger(path, (1.0, 1e-6))
    ledger.reserve("first", GaussianDP(0.6 * MU))
    reserved = GaussianDP(0.799 * MU)
    looser = ApproximateDP(reserved.epsilon(1e-6) * 0.999, 0.0)
    entry = ledger.reserve("second", reserved)
    with pytest.raises(ValueError, match="spent more"):
        entry.settle(looser)
    assert ledger.epsilon > 1.0
    assert not ledger.fits(GaussianDP(1e-9))


def test_a_cancelled_fit_that_goes_on_is_charged_again(ledger):
    entry = ledger.reserve("fit", GaussianDP(0.1))
    ledger.cancel("fit", "its machine is gone")
    assert ledger.total == GaussianDP(0.0)
    with pytest.raises(ValueError, match="was cancelled, and released"), entry:
        pass
    assert ledger.total == GaussianDP(0.1)
    entry = ledger.reserve("other", GaussianDP(0.1))
    ledger.cancel("other", "its machine is gone")
    with pytest.raises(KeyError), entry:
        raise KeyError
    assert states(ledger) == {"fit": "settled", "other": "failed"}


def test_the_cap_is_exact_and_holds_for_all_together(ledger):
    ledger.reserve("half", GaussianDP(MU * math.sqrt(0.5)))
    assert not ledger.fits(GaussianDP(MU * math.sqrt(0.5) * (1 + 1e-9)))
    with pytest.raises(BudgetExceededError, match=r"'rest' would take .* beyond its cap of 1"):
        ledger.reserve("rest", GaussianDP(MU * math.sqrt(0.5) * (1 + 1e-9)))
    assert states(ledger) == {"half": "reserved"}
    assert ledger.fits(GaussianDP(MU * math.sqrt(0.5) * (1 - 1e-9)))
    ledger.reserve("rest", GaussianDP(MU * math.sqrt(0.5) * (1 - 1e-9)))
    assert ledger.epsilon <= 1.0
    with pytest.raises(BudgetExceededError):
        ledger.reserve("much", GaussianDP(math.inf))


def test_other_guarantees_compose_and_are_told_of(path):
    ledger = Ledger(path, (2.0, 1e-6), adjacency="add_remove")
    for name, cost in {
        "a": ApproximateDP(0.3, 1e-8, "add_remove"),
        "b": GaussianDP(0.1, "add_remove"),
        "c": ApproximateDP(0.2, 1e-8, "add_remove"),
    }.items():
        with ledger.reserve(name, cost):
            alone = cost.epsilon(1e-6)
    assert alone < ledger.epsilon < GaussianDP(0.1).epsilon(1e-6 - 2e-8) + 0.5
    assert "chosen by an earlier outcome" in str(ledger)
    ledger = Ledger(path.with_name("renyi.json"), (2.0, 1e-6))
    ledger.reserve("a", RenyiDP(LinearCurve(0.01)))
    assert Ledger(ledger.path).total == RenyiDP(LinearCurve(0.01))


def test_leaks_are_refused_before_and_shown_after(ledger):
    leaky = SimpleNamespace(privacy_=GaussianDP(0.1), leaks_=("random_state=3 <lets> anyone in",))
    with pytest.raises(ValueError, match="does not cover all"):
        ledger.reserve("fit", leaky)
    with ledger.reserve("fit", GaussianDP(0.1)) as entry:
        entry.settle(leaky)
    assert "NOT PRIVATE: fit: random_state=3" in str(ledger)
    assert "&lt;lets&gt;" in ledger._repr_html_()
    with ledger.reserve("all", total_privacy(GaussianDP(0.03), GaussianDP(0.04))):
        pass
    assert ledger.entries["all"].cost == GaussianDP(0.05)


@pytest.mark.parametrize(
    ("name", "cost", "of", "message"),
    [
        ("taken", GaussianDP(0.01), {}, "is taken"),
        ("", GaussianDP(0.01), {}, "name=''"),
        ("two\nlines", GaussianDP(0.01), {}, "name="),
        ("new", GaussianDP(0.01, "add_remove"), {}, "adjacency"),
        ("new", 0.3, {}, "no guarantee"),
        ("new", Gaussian(3.0), {}, "no guarantee"),
        ("new", PrivateRidge(), {}, "no guarantee"),
        ("new", RenyiDP(lambda order: 0.001 * order), {}, "cannot be stored"),
        ("new", GaussianDP(0.1), {"disjoint": "month"}, "must be a pair"),
        ("new", GaussianDP(0.1), {"disjoint": ("month", 3)}, "disjoint=3"),
        ("new", GaussianDP(0.1), {"disjoint": ("month", " ")}, "disjoint=' '"),
        ("new", GaussianDP(0.1), {"dates": ("2026-03", None)}, "must be a pair"),
        ("new", GaussianDP(0.1), {"dates": ("2026-03-02", "2026-03-01")}, "no later than the last"),
        ("new", GaussianDP(0.1), {"dates": "2026-03-02"}, "must be a pair"),
        ("new", GaussianDP(0.1), {"disjoint": ("a", "b"), "dates": (None, None)}, "give one of"),
    ],
)
def test_senseless_reservations_change_nothing(ledger, path, name, cost, of, message):
    ledger.reserve("taken", GaussianDP(0.01))
    before = path.read_bytes()
    with pytest.raises(ValueError, match=message):
        ledger.reserve(name, cost, **of)
    assert path.read_bytes() == before


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("cap", "filter", "message"),
    [
        (0.5, None, "cap"),
        ((0, 1e-6), None, "epsilon"),
        ((1.0, 1.0), None, "delta"),
        ((1.0, math.nan), None, "delta"),
        ((math.inf, 1e-6), None, "epsilon"),
        ((1, 2, 3), None, "cap"),
        (GaussianDP(1.0), None, "cap"),
        (CAP, "rdp", "filter='rdp'"),
        (CAP, 3, "must be 'gdp', 'renyi'"),
        (CAP, Filter("renyi", order=1.001), "larger order"),
        ((1.0, 0.0), "gdp", "a filter needs a delta"),
    ],
)
def test_senseless_caps_and_filters_open_nothing(path, cap, filter, message):
    with pytest.raises(ValueError, match=message):
        Ledger(path, cap, filter=filter)
    assert not path.exists()


# --- the file -------------------------------------------------------------------------------------


def test_the_cap_is_that_of_the_file(ledger, path):
    assert Ledger(path).cap == Ledger(path, (1.0, 1e-6)).cap == Ledger(str(path), CAP).cap == CAP
    for cap in ((2.0, 1e-6), (1.0, 1e-5), Budget(1.0, 1e-6, "add_remove")):
        with pytest.raises(ValueError, match="is not the cap"):
            Ledger(path, cap)
    assert pickle.loads(pickle.dumps(ledger)).epsilon == 0.0
    os.replace(Ledger(path.with_name("rich.json"), (9.0, 1e-6)).path, path)
    with pytest.raises(ValueError, match="another file took its place"):
        ledger.reserve("fit", GaussianDP(0.1))


def test_books_that_are_gone_are_not_begun_anew(ledger, path):
    with pytest.raises(FileNotFoundError, match="give cap"):
        Ledger(path.with_name("typo.json"))
    path.unlink()
    for action in (
        lambda: ledger.epsilon,
        lambda: ledger.reserve("fit", GaussianDP(0.1)),
        lambda: Ledger(path, CAP),
    ):
        with pytest.raises(FileNotFoundError, match="bring it back"):
            action()
    Path(f"{path}.begun").unlink()
    assert Ledger(path, CAP).epsilon == 0.0


def test_links_modes_and_folders_are_kept(ledger, path, monkeypatch):
    path.chmod(0o640)
    before = path.stat()
    link = path.with_name("link.json")
    link.symlink_to(path)
    monkeypatch.chdir(path.parent)
    other = Ledger("link.json")
    monkeypatch.chdir("/")
    other.reserve("fit", GaussianDP(0.1))
    assert link.is_symlink()
    assert ledger.total == GaussianDP(0.1)
    after = path.stat()
    assert (after.st_ino, after.st_mode, after.st_gid) == (
        before.st_ino,
        before.st_mode,
        before.st_gid,
    )
    names = {file.name for file in path.parent.iterdir()}
    assert names == {"books.ledger", "books.ledger.begun", "link.json"}


def test_every_changed_character_is_refused(ledger, path):
    with ledger.reserve("fit", GaussianDP(0.125)) as entry:
        entry.settle(GaussianDP(0.1))
    text = path.read_bytes()
    events = ledger.events
    for position in range(len(text)):
        for new in (b"7", b""):
            path.write_bytes(text[:position] + new + text[position + 1 :])
            if path.read_bytes() == text:
                continue
            with contextlib.suppress(ValueError):
                assert Ledger(path).events == events  # the last line break is missing
                assert (position, new) == (len(text) - 1, b"")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="damaged"):
        ledger.reserve("next", GaussianDP(0.1))
    assert path.read_bytes() == b"\xff\xfe"


def test_a_torn_last_line_is_dropped_and_written_over(ledger, path):
    """A process that dies in a write leaves a part of a line, or blocks of zeros."""
    ledger.reserve("first", GaussianDP(0.125))
    before = path.read_bytes()
    ledger.reserve("second", GaussianDP(0.1))
    text = path.read_bytes()
    line = text[len(before) :]
    torn = [text[:cut] for cut in range(len(before), len(text) - 1)]
    torn += [before + bytes(len(line)), before + line[:30] + bytes(len(line) - 31) + b"\n"]
    for one in torn:
        path.write_bytes(one)
        for reader in (ledger, Ledger(path)):
            assert states(reader) == {"first": "reserved"}
            assert path.read_bytes() == one  # to read changes nothing
    for one in torn[::7]:
        path.write_bytes(one)
        ledger.reserve("third", GaussianDP(0.2))
        assert path.read_bytes().startswith(before)
        assert states(Ledger(path)) == {"first": "reserved", "third": "reserved"}
    for cut in (0, 1, 60, text.index(b"\n") - 1):  # the first line is never torn
        path.write_bytes(text[:cut])
        with pytest.raises(ValueError, match="damaged"):
            Ledger(path)


def test_a_line_that_was_taken_back_is_forgotten(ledger, path):
    """Another process read a line before its writer failed and took it back."""
    ledger.reserve("first", GaussianDP(0.125))
    before = path.read_bytes()
    other = Ledger(path)
    other.reserve("second", GaussianDP(0.1))
    assert len(ledger.events) == 2
    path.write_bytes(before)
    assert states(ledger) == {"first": "reserved"}
    Ledger(path).reserve("third", GaussianDP(0.1))
    for one in (ledger, other):
        assert states(one) == {"first": "reserved", "third": "reserved"}
        assert one.total.mu == math.hypot(0.125, 0.1)


def test_each_line_is_read_and_checked_once(ledger, path, monkeypatch):
    read = []
    real = os.read

    def counted(*arguments):
        read.append(real(*arguments))
        return read[-1]

    monkeypatch.setattr(os, "read", counted)
    for number in range(40):
        ledger.reserve(str(number), GaussianDP(0.001)).settle()
    assert sum(map(len, read)) < 4 * path.stat().st_size
    del read[:]
    str(ledger)
    assert sum(map(len, read)) < 4 * len(path.read_bytes().splitlines()[-1])


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rules, _: rules.update(version=4), "version 4"),
        (lambda rules, _: rules.update(version=2), "version 2"),
        (lambda rules, _: rules.update(costs=2), "version of its costs=2 must be 3"),
        (lambda rules, _: rules.update(format="diary"), "no ledger"),
        (lambda rules, _: rules["cap"].update(epsilon=-1), "epsilon=-1"),
        (lambda rules, _: rules.pop("cap"), "cap"),
        (lambda _, events: events.pop(0), "cannot be settled there"),
        (lambda _, events: events.append(events[0]), "cannot be reserved there"),
        (lambda _, events: events[1].update(cost=None), "cannot be settled there"),
        (
            lambda _, events: events[1]["cost"].update(adjacency="add_remove"),
            "cannot be settled there",
        ),
        (lambda _, events: events[1]["cost"].update(mu=-0.1), "mu=-0.1"),
        (lambda _, events: events[1].update(state="erased"), "cannot be erased"),
        (lambda _, events: events[1].update(colour="red"), "colour"),
        (lambda _, events: events[1].pop("time"), "time"),
        (lambda _, events: events.append([3]), "list"),
    ],
)
def test_books_that_make_no_sense_are_refused_with_a_good_checksum(ledger, path, change, message):
    with ledger.reserve("fit", GaussianDP(0.1)):
        pass
    rewrite(path, change)
    with pytest.raises(ValueError, match=message):
        Ledger(path)


ACTS = {
    "begin": lambda ledger, _: Ledger(f"{ledger.path}.new", CAP),
    "reserve": lambda ledger, _: ledger.reserve("third", GaussianDP(0.1)),
    "settle": lambda _, entry: entry.settle(GaussianDP(0.05)),
    "fail": lambda _, entry: entry.__exit__(KeyError, KeyError(), None),
    "cancel": lambda ledger, _: ledger.cancel("second", "a reason"),
}


@pytest.mark.every_case
@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_whatever_call_fails_the_books_are_whole(tmp_path, monkeypatch, act):
    """The old lines, or the new ones; if it returned, the new ones. Others go on."""

    def prepare():
        folder = tempfile.mkdtemp(dir=tmp_path)
        ledger = Ledger(f"{folder}/books.ledger", CAP)
        ledger.reserve("first", GaussianDP(0.1))
        return ledger, ledger.reserve("second", GaussianDP(0.1))

    def events(path):
        return [(event.entry, event.state, event.cost) for event in Ledger(path, CAP).events]

    done = prepare()
    act(*done)
    new = events(done[0].path)
    old = new if act is ACTS["begin"] else new[:2]
    for (ledger, entry), error, where in every_fault(monkeypatch, prepare, lambda it: act(*it)):
        found = events(ledger.path)
        assert found in (old, new), where
        assert error or found == new or act is ACTS["fail"], where  # a note says that it failed
        assert states(ledger) == states(Ledger(ledger.path)), where
        assert events(f"{ledger.path}.new") == [], where
        if found == old:  # and it can be tried again
            act(ledger, entry)
            assert events(ledger.path) == new, where
        ledger.reserve("next", GaussianDP(0.01))
        assert [*events(ledger.path)][-1] == ("next", "reserved", GaussianDP(0.01)), where


def test_what_failed_says_so_and_which_state_the_file_is_in(ledger, path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    entry = ledger.reserve("first", GaussianDP(0.1))
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match=r"No space left .* as it was before") as caught:
            entry.settle()
        assert caught.value.errno == errno.ENOSPC
        with pytest.raises(KeyError) as caught, entry:
            raise KeyError("of the body")
        assert "stays charged" in caught.value.__notes__[0]
        assert path.read_bytes() == before
    real = os.ftruncate

    def cut(file, size):
        return full() if size < os.fstat(file).st_size else real(file, size)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        patch.setattr(os, "ftruncate", cut)
        with pytest.raises(OSError, match="may have the new line all the same"):
            entry.settle()
    assert states(ledger) == {"first": "settled"}


def test_a_file_that_is_replaced_in_a_write_acknowledges_nothing(ledger, path, monkeypatch):
    ledger.reserve("first", GaussianDP(0.1))
    real = os.fsync

    def replaced(file):
        real(file)
        copy = path.with_name("copy")
        copy.write_bytes(path.read_bytes())
        copy.replace(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", replaced)
        with pytest.raises(FileNotFoundError, match="removed or replaced while"):
            ledger.reserve("second", GaussianDP(0.1))


# --- several processes ----------------------------------------------------------------------------

PRELUDE = """
import os, sys
from skdpdyn.privacy import GaussianDP, Ledger
from skdpdyn.exceptions import BudgetExceededError
ledger = Ledger(sys.argv[1], (1.0, 1e-6))
"""


def start(code, path):
    run = [sys.executable, "-c", PRELUDE + code, str(path)]
    pipe = subprocess.PIPE
    return subprocess.Popen(run, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def finish(process):
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


OF = {
    "all": lambda number: {},
    "windows": lambda number: {"dates": (str(date.fromordinal(730000 + number)), None)},
    "parts": lambda number: {"disjoint": ("month", str(number))},
    "partitions": lambda number: {"disjoint": (str(number), "first")},
}


@pytest.mark.system
@pytest.mark.every_case
@pytest.mark.parametrize(
    ("of", "filter", "n_entries"),
    [("all", None, 2500), ("all", "gdp", 250), *((of, None, 250) for of in OF if of != "all")],
)
def test_an_entry_costs_the_same_among_few_and_among_many(tmp_path, of, filter, n_entries):
    """Reserved and settled one by one, four times as many take at most 4^1.25 times as long."""

    def taken(n_entries):
        ledger = Ledger(tmp_path / f"{n_entries}.ledger", (600.0, 1e-6), filter=filter)
        start = time.process_time()
        for number in range(n_entries):
            entry = ledger.reserve(str(number), GaussianDP(1e-3 + 1e-7 * number), **OF[of](number))
            entry.settle(GaussianDP(5e-4))
        return time.process_time() - start

    few = taken(n_entries)
    assert taken(4 * n_entries) < 4**1.25 * few


@pytest.mark.system
def test_a_process_that_dies_in_its_fit_stays_charged(ledger, path):
    code = "with ledger.reserve('fit', GaussianDP(0.1)):\n    os.kill(os.getpid(), 9)"
    assert finish(start(code, path))[0] == -9
    assert states(ledger) == {"fit": "reserved"}
    assert ledger.total == GaussianDP(0.1)


@pytest.mark.system
def test_writers_that_reserve_at_once_never_overspend(path):
    """All that three processes are granted is in the books, and within the cap."""
    code = """
granted = 0
sys.stdin.readline()
try:
    while True:
        ledger.reserve(f"{os.getpid()} {granted}", GaussianDP(0.05))
        granted += 1
except BudgetExceededError:
    print(granted)
"""
    processes = [start(code, path) for _ in range(3)]
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    granted = []
    for process in processes:
        code, out, err = finish(process)
        assert code == 0, err
        granted.append(int(out))
    ledger = Ledger(path)
    assert len(ledger.entries) == sum(granted) == math.floor((MU / 0.05) ** 2)
    assert ledger.epsilon <= 1.0


@pytest.mark.system
def test_nothing_acknowledged_is_lost_though_all_other_files_are_removed(path):
    """20 processes write while a cleaner takes away ten times a second what lies beside."""
    cost = MU / math.sqrt(650)
    code = f"""
sys.stdin.readline()
try:
    for number in range(50):
        entry = ledger.reserve(f"{{os.getpid()}} {{number}}", GaussianDP({cost!r}))
        print(entry.name, flush=True)
        if number % 3 == 0:
            entry.settle()
except BudgetExceededError:
    pass
"""
    Ledger(path, CAP)
    processes = [start(code, path) for _ in range(20)]
    ended = threading.Event()

    def clean():
        while not ended.wait(0.1):
            for file in path.parent.iterdir():
                if file != path:
                    file.unlink(missing_ok=True)

    cleaner = threading.Thread(target=clean)
    cleaner.start()
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    found = [finish(process) for process in processes]
    ended.set()
    cleaner.join()
    assert [(code, err) for code, _, err in found] == [(0, "")] * 20
    acknowledged = [name for _, out, _ in found for name in out.splitlines()]
    ledger = Ledger(path)
    assert sorted(acknowledged) == sorted(ledger.entries)
    assert len(acknowledged) in (649, 650)
    assert ledger.epsilon <= 1.0


@pytest.mark.system
def test_a_fork_keeps_no_lock_and_has_books_of_its_own(path):
    code = """
import threading
from skdpdyn.privacy import journal
journal._PATIENCE = 5.0
stop = threading.Event()
def write():
    number = 0
    while not stop.is_set():
        ledger.reserve(f"of a thread {number}", GaussianDP(1e-4))
        number += 1
thread = threading.Thread(target=write)
thread.start()
children = []
for number in range(40):
    stop.wait(0.005)
    child = os.fork()
    if child == 0:
        ledger.reserve(f"of a child {number}", GaussianDP(1e-4))
        os.read(0, 1)  # it lives on
        os._exit(0)
    children.append(child)
stop.set()
thread.join()
ledger.reserve("after", GaussianDP(1e-4))
print(sum("child" in name for name in ledger.entries), "after" in ledger.entries)
"""
    process = start(code, path)
    code, out, err = finish(process)
    assert code == 0, err
    assert "True" in out


@pytest.mark.system
def test_a_child_of_a_fork_under_the_lock_does_not_keep_it(path):
    code = """
import time
from skdpdyn.privacy import journal
journal._PATIENCE = 1.0
with journal.Journal(sys.argv[1]).writing():
    child = os.fork()
    if child == 0:
        time.sleep(3)  # it lives on
        os._exit(0)
ledger.reserve("after", GaussianDP(1e-4))
print("after" in ledger.entries)
"""
    code, out, err = finish(start(code, path))
    assert code == 0, err
    assert "True" in out


def test_threads_take_turns_and_do_not_wait_for_ever(ledger, path, monkeypatch):
    costs = [(str(number), GaussianDP(0.01)) for number in range(8)]
    workers = [threading.Thread(target=ledger.reserve, args=cost) for cost in costs]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(ledger.entries) == 8
    monkeypatch.setattr(journal, "_PATIENCE", 0.05)
    with Journal(str(path)).writing(), pytest.raises(TimeoutError, match="another process holds"):
        Ledger(path).reserve("late", GaussianDP(0.01))
    monkeypatch.setattr(journal, "fcntl", None)
    with pytest.raises(OSError, match="no POSIX file locks"):
        ledger.reserve("elsewhere", GaussianDP(0.01))


# --- all of it in any order -----------------------------------------------------------------------

MUS = st.sampled_from([0.02, 0.05, 0.1, 0.2, MU])


class Books(RuleBasedStateMachine):
    """The ledger against a dict: what each entry is charged with, as a square of mu."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = f"{self.folder.name}/books.ledger"
        self.ledger = Ledger(self.path, CAP)
        self.charged = {}
        self.open = {}
        self.closed = {}
        self.lines = 0

    def teardown(self):
        self.folder.cleanup()

    def spent(self, **changed):
        return math.sqrt(math.fsum(mu**2 for mu in {**self.charged, **changed}.values()))

    @rule(mu=MUS)
    def reserve(self, mu):
        name = f"entry {len(self.charged)}"
        fits = self.spent(new=mu) <= MU * (1 + 1e-12)
        assert self.ledger.fits(GaussianDP(mu)) == fits
        if not fits:
            with pytest.raises(BudgetExceededError):
                self.ledger.reserve(name, GaussianDP(mu))
            return
        self.open[name] = self.ledger.reserve(name, GaussianDP(mu))
        self.charged[name] = mu
        self.lines += 1

    @precondition(lambda self: self.open)
    @rule(data=st.data(), share=st.sampled_from([None, 0.5, 1.0]))
    def settle(self, data, share):
        name = data.draw(st.sampled_from(sorted(self.open)))
        entry = self.open.pop(name)
        with entry:
            if share is not None:
                self.charged[name] *= share
                entry.settle(SimpleNamespace(privacy_=GaussianDP(self.charged[name])))
        self.closed[name] = "settled"
        self.lines += 1

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def fail(self, data):
        name = data.draw(st.sampled_from(sorted(self.open)))
        with pytest.raises(ZeroDivisionError), self.open.pop(name):
            raise ZeroDivisionError
        self.closed[name] = "failed"
        self.lines += 1

    @precondition(lambda self: self.charged)
    @rule(data=st.data())
    def cancel(self, data):
        name = data.draw(st.sampled_from(sorted(self.charged)))
        if self.closed.get(name) in ("settled", "cancelled"):
            with pytest.raises(ValueError, match="cannot be cancelled"):
                self.ledger.cancel(name, "never ran")
            return
        self.ledger.cancel(name, "never ran")
        self.open.pop(name, None)
        self.charged[name] = 0.0
        self.closed[name] = "cancelled"
        self.lines += 1

    @rule()
    def reload(self):
        """Another process: reservations that are open stay charged, but can only be cancelled."""
        self.ledger = Ledger(self.path, CAP)
        self.open = {}

    @rule()
    def die_in_a_write(self):
        whole = Path(self.path).read_bytes().rpartition(b"\n")[0]
        Path(self.path).write_bytes(whole + b'\n260 3fa0 {"time":')

    @invariant()
    def nothing_is_lost_or_overspent(self):
        ledger = Ledger(self.path)
        assert ledger.total.mu == pytest.approx(self.spent(), rel=1e-12)
        assert ledger.epsilon <= 1.0
        assert len(ledger.events) == self.lines
        assert states(ledger) == {name: self.closed.get(name, "reserved") for name in self.charged}


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)


# --- parts, dates, units, filters -----------------------------------------------------------------


@pytest.mark.every_case
@pytest.mark.parametrize("state", FOLLOWS)
@pytest.mark.parametrize("then", [*filter(None, FOLLOWS)])
def test_every_pair_of_states(ledger, path, state, then):
    """The whole table, by the methods and by the file: what is not named is refused."""
    allowed = {
        (None, "reserved"),
        *(("reserved", then) for then in ("settled", "failed", "cancelled")),
        ("failed", "cancelled"),
        *(("cancelled", then) for then in ("settled", "failed")),
    }
    entry = None if state is None else ledger.reserve("fit", GaussianDP(0.1))
    if state == "settled":
        entry.settle()
    elif state == "failed":
        with pytest.raises(KeyError), entry:
            raise KeyError
    elif state == "cancelled":
        ledger.cancel("fit", "never ran")
    before = path.read_bytes()

    def by_the_file(_, events):
        time = "2026-03-01T00:00:00+00:00"
        cost = None
        if then != "cancelled":
            cost = to_dict(GaussianDP(0.1))
        line = {"time": time, "entry": "fit", "state": then, "note": "", "leaks": []}
        events.append({**line, "cost": cost})

    rewrite(path, by_the_file)
    if (state, then) in allowed:
        assert states(Ledger(path)) == {"fit": then}
    else:
        with pytest.raises(ValueError, match=f"cannot be {then} there"):
            Ledger(path)
    path.write_bytes(before)
    if state is None:
        return
    again = Reservation(ledger, "fit", GaussianDP(0.1))
    by = {
        "reserved": lambda: ledger.reserve("fit", GaussianDP(0.1)),
        "settled": again.settle,
        "failed": lambda: again.__exit__(KeyError, KeyError(), None),
        "cancelled": lambda: ledger.cancel("fit", "never ran"),
    }
    with contextlib.suppress(ValueError):
        by[then]()
    assert states(ledger) == {"fit": then if (state, then) in allowed else state}
    if (state, then) not in allowed:
        assert path.read_bytes() == before


def test_what_is_not_a_number_is_beyond_every_cap(ledger, monkeypatch):
    entry = ledger.reserve("before", GaussianDP(0.1))
    monkeypatch.setattr(GaussianDP, "epsilon", lambda guarantee, delta: math.nan)
    assert not ledger.fits(GaussianDP(0.1))
    with pytest.raises(BudgetExceededError):
        ledger.reserve("fit", GaussianDP(0.1))
    with pytest.raises(ValueError, match="spent more"):
        entry.settle(GaussianDP(0.05))


DAYS = [None, *(f"2026-0{month}-01" for month in range(1, 7))]
PARTS = st.tuples(st.sampled_from("pq"), st.sampled_from("abc"))
ENTRIES = st.lists(
    st.tuples(
        st.floats(0.01, 0.3),
        st.one_of(
            st.just({}),
            PARTS.map(lambda part: {"disjoint": part}),
            st.tuples(st.sampled_from(DAYS), st.sampled_from(DAYS))
            .filter(lambda days: None in days or days[0] <= days[1])
            .map(lambda days: {"dates": days}),
        ),
    ),
    max_size=8,
)


def pays(of, unit):
    """Whether a unit, with its part of each partition and its date, pays for an entry."""
    if "disjoint" in of:
        partition, part = of["disjoint"]
        return unit[partition] == part
    first, last = of.get("dates", (None, None))
    return (first or "0") <= unit["date"] <= (last or "9")


def worst_of(entries):
    """The largest sum of squares of mu over every unit that there may be, one by one."""
    days = ("2025-01-01", *filter(None, DAYS), "2027-01-01")
    units = [{"p": p, "q": q, "date": day} for p in "abc" for q in "abc" for day in days]
    return max(math.fsum(mu**2 for mu, of in entries if pays(of, unit)) for unit in units)


@settings(max_examples=60, deadline=None)
@given(entries=ENTRIES, kind=st.sampled_from([None, "gdp", "renyi"]), gone=st.integers(0, 8))
def test_the_dearest_unit_is_charged(entries, kind, gone):
    """The ledger's sum is that of the unit that pays most; what was cancelled is as if never."""
    worst = worst_of(entries[gone:])
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(f"{folder}/books.ledger", (9.0, 1e-6), filter=kind)
        for number, (mu, of) in enumerate(entries):
            ledger.reserve(f"entry {number}", GaussianDP(mu), **of)
        for number in range(min(gone, len(entries))):
            ledger.cancel(f"entry {number}", "never ran")
        for again in (ledger, Ledger(ledger.path)):
            tally = Tally(again.rules)
            for name, event in again.entries.items():
                tally.put(name, event)
            if kind is None:
                bound = GaussianDP(math.sqrt(worst)).epsilon(1e-6)
                assert tally.spent == again.epsilon == pytest.approx(bound, abs=1e-9)
                assert again.total.mu == pytest.approx(math.sqrt(worst))
            else:
                share, _ = again.rules.filter.shares(GaussianDP(1.0), again.cap)
                assert float(tally.spent) == pytest.approx(worst * float(share))


@settings(max_examples=40, deadline=None)
@given(entries=ENTRIES, data=st.data())
def test_the_dearest_unit_is_charged_for_unlike_costs(entries, data):
    """Costs without a mu are not kept as a sum: the curve of all is that of the dearest unit."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(f"{folder}/books.ledger", (99.0, 1e-6))
        for number, (mu, of) in enumerate(entries):
            gaussian = data.draw(st.booleans())
            cost = GaussianDP(mu) if gaussian else RenyiDP(LinearCurve(mu**2 / 2))
            ledger.reserve(f"entry {number}", cost, **of)
        assert float(ledger.total.rdp(2.0)) == pytest.approx(worst_of(entries))


def test_an_entry_stays_in_its_part(ledger, path):
    """Settled, failed or cancelled: part and dates of all lines are those of the first."""
    ledger.reserve("march", GaussianDP(0.9 * MU), disjoint=("month", "2026-03"))
    with ledger.reserve("april", GaussianDP(0.9 * MU), disjoint=("month", "2026-04")):
        pass
    assert ledger.total == GaussianDP(0.9 * MU)
    assert not ledger.fits(GaussianDP(0.9 * MU))
    assert not ledger.fits(GaussianDP(0.9 * MU), disjoint=("month", "2026-04"))
    assert not ledger.fits(GaussianDP(0.9 * MU), disjoint=("week", "14"))
    assert ledger.fits(GaussianDP(0.9 * MU), disjoint=("month", "2026-05"))
    assert "month 2026-04" in str(ledger)
    rewrite(path, lambda _, events: events[2].update(disjoint=["month", "2026-05"]))
    with pytest.raises(ValueError, match="of others"):
        Ledger(path)


def test_a_ledger_is_of_one_unit(path):
    persons = Ledger(path, CAP, unit="person")
    assert Ledger(path).unit == "person"
    with pytest.raises(ValueError, match="unit=record is not the unit"):
        Ledger(path, unit="record")
    with pytest.raises(ValueError, match="protect one person and one record have"):
        persons.reserve("rows", GaussianDP(0.1))
    model = PrivateRidge(epsilon=0.5, delta=1e-6, target_bounds=(0, 1))
    rows = [[0.5, 0.1]] * 50
    targets = [0.5] * 50
    with persons.reserve("persons", model, 25, 2) as entry:
        entry.settle(model.fit(rows, targets, groups=list(range(25)) * 2))
    assert persons.total == model.privacy_
    assert persons.total.unit == "person"
    with (
        pytest.raises(ValueError, match="protect one person and one record"),
        persons.reserve("others", model, 50, 2) as entry,
    ):
        entry.settle(model.fit(rows, targets))
    assert states(persons) == {"persons": "settled", "others": "failed"}
    assert "for one person" in str(persons)
    records = Ledger(path.with_name("records.json"), CAP)
    model.fit(rows, targets, groups=list(range(25)) * 2)
    with pytest.raises(ValueError, match=r"total_privacy\(..., unit='record'\)"):
        records.reserve("persons", model)
    records.reserve("persons", total_privacy(model, unit="record"))
    assert "for a record" in str(records)


def test_a_pipeline_is_planned_with_all_its_private_steps(path):
    ledger = Ledger(path, (2.0, 1e-6))
    model = PrivateRidge(epsilon=0.5, delta=1e-6, target_bounds=(0, 1))
    scaler = PrivateScaler(epsilon=0.5, delta=1e-6)
    pipeline = make_pipeline(scaler, model)
    with ledger.reserve("both", pipeline, 50, 2) as entry:
        parts = [step.privacy_cost(50, 2) for step in (scaler, model)]
        assert entry.cost == parts[0].compose(parts[1])
        entry.settle(total_privacy(pipeline.fit([[0.5, 0.1]] * 50, [0.5] * 50)))
    with pytest.raises(ValueError, match="StandardScaler"):
        ledger.reserve("leaks", make_pipeline(StandardScaler(), model), 50, 2)


def test_a_filter_is_that_of_the_file(path):
    Ledger(path, CAP, filter=Filter("renyi", order=40.0))
    assert Ledger(path).rules.filter == Filter("renyi", order=40.0)
    with pytest.raises(ValueError, match=r"filter=.* is not the filter"):
        Ledger(path, filter="gdp")
    for senseless in ({"order": 2.0}, {"failures": 1.0}, {"failures": math.nan}):
        with pytest.raises(ValueError, match=next(iter(senseless))):
            Filter("gdp", **senseless)


def test_the_gaussian_filter_is_exact_and_takes_nothing_else(path):
    """Its sums do not round: costs that fill the cap to the last bit fit, one bit more does not."""
    ledger = Ledger(path, CAP, filter="gdp")
    assert ledger.fits(GaussianDP(MU))
    assert not ledger.fits(GaussianDP(math.nextafter(MU, math.inf)))
    with pytest.raises(UnsupportedMechanismError, match="not a ApproximateDP"):
        ledger.reserve("pure", ApproximateDP(0.1))
    assert not ledger.fits(GaussianDP(0.1, failure=1e-30))  # it has no part of delta
    with (
        pytest.raises(ValueError, match="spent more"),
        ledger.reserve("other", GaussianDP(0.1)) as entry,
    ):
        entry.settle(ApproximateDP(0.01))
    assert not ledger.fits(GaussianDP(1e-9))  # what cannot be added up is beyond the cap
    assert ledger.total == ApproximateDP(CAP.epsilon, CAP.delta)
    assert "The cap is the guarantee" in str(ledger)


@pytest.mark.parametrize("kind", ["gdp", "renyi"])
@pytest.mark.parametrize("failures", [0.0, 0.25])
def test_what_passes_a_filter_stays_within_the_cap(kind, failures):
    """All of both limits together cost at most the cap: by the exact profile, and from outside."""
    cap = Budget(0.7, 1e-7)
    rule = Filter(kind, failures=failures).fixed_for(cap)
    limit = failures * cap.delta / (1 + math.exp(cap.epsilon))
    low = 0.0
    high = 2.0
    for _ in range(60):  # the largest mu that passes, from shares alone
        mu = (low + high) / 2
        low, high = (mu, high) if max(rule.shares(GaussianDP(mu), cap)) <= 1 else (low, mu)
    assert low > 0.8 * cap.mu
    assert GaussianDP(low, failure=limit * (1 - 1e-9)).delta(cap.epsilon) <= cap.delta
    if kind == "gdp" and not failures:
        assert low == pytest.approx(cap.mu, rel=1e-12)
    if kind == "renyi":  # and one order of any curve that the limit allows
        curve = rule.order / 2 / float(rule.shares(GaussianDP(1.0), cap)[0])
        one = (rule.order - 1) * (curve - cap.epsilon + math.log1p(-1 / rule.order))
        delta = math.exp(one) / rule.order + limit * (1 + math.exp(cap.epsilon))
        assert delta <= cap.delta
    share = rule.shares(GaussianDP(0.0, failure=limit / 2), cap)[1] if failures else 0.5
    assert float(share) == pytest.approx(0.5)
    assert rule.shares(GaussianDP(0.1, failure=0.5), cap)[1] > 1
    assert rule.shares(GaussianDP(math.inf), cap)[0] == math.inf


# --- shown ----------------------------------------------------------------------------------------


def test_text_and_html(ledger):
    with ledger.reserve("scaler <1>", GaussianDP(0.05)):
        pass
    ledger.reserve("model", GaussianDP(0.1))
    text = str(ledger)
    page = ledger._repr_html_()
    assert (
        text.splitlines()[0] == "books.ledger: epsilon at delta=1e-06 (replace_one, for a record)"
    )
    for part in ("settled", "reserved", "together", f"{ledger.epsilon:.6g}"):
        assert part in text
        assert part in page
    assert "scaler <1>" in text
    assert "scaler &lt;1&gt;" in page
    assert repr(ledger) == f"Ledger({ledger.path!r})"
