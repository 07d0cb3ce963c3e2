"""What all tests share: one disk cache of compiled kernels, noise and examples without luck, and
the choice of a few cases of each test, and of those in which lines are counted.
"""

import gc
import hashlib
import os
import subprocess
import sys
import zlib
from collections import defaultdict
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import settings

# Before numba is imported. By its version, since another version's files would be overwritten;
# workers, subprocesses and later runs find what is compiled once.
os.environ.setdefault(
    "NUMBA_CACHE_DIR", str(Path(__file__).parents[1] / ".numba_cache" / version("numba"))
)


def pytest_configure(config):
    """Before workers begin, compile kernels once where there are none: each would compile all.

    Workers multiply matrices in one thread each: idle ones of OpenBLAS wait in loops.
    """
    n_workers = config.getoption("numprocesses", None) or 0
    begins_workers = n_workers > 1 and not hasattr(config, "workerinput")
    if begins_workers:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    is_compiled = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
    if begins_workers and is_compiled and not Path(os.environ["NUMBA_CACHE_DIR"]).exists():
        subprocess.run([sys.executable, "-W", "ignore", "-m", "skdpdyn", "compile"], check=False)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Look for no garbage while tests are collected, and later not in what was made meanwhile."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


class Entropy:
    """Stands for `os` where the package draws keys of noise: they follow from a test's name.

    So no test, doctest or page of a run draws fresh noise, and none fails by chance. Tests marked
    ``fresh`` do, and state the probability of their failure; so do processes that tests begin.
    """

    def __init__(self, name):
        self.name = name
        self.n_drawn = 0
        self.process = os.getpid()

    def __getattr__(self, name):
        return getattr(os, name)

    def urandom(self, size):
        """Return the next bytes; in a forked child, fresh ones."""
        if os.getpid() != self.process:
            return os.urandom(size)
        self.n_drawn += 1
        return hashlib.shake_256(f"{self.name} {self.n_drawn}".encode()).digest(size)


@contextmanager
def keys_of(name, fresh=False):
    """Have keys of noise follow from a name; ``HYPOTHESIS_PROFILE=random``: fresh ones."""
    from skdpdyn.core import noise

    fresh = fresh or os.environ.get("HYPOTHESIS_PROFILE") == "random"
    noise.os = os if fresh else Entropy(name)
    try:
        yield
    finally:
        noise.os = os


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Have keys of noise follow from a test's name."""
    with keys_of(item.nodeid, fresh=bool(item.get_closest_marker("fresh"))):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Have keys of noise of what a module fits while it is imported follow from its name."""
    with keys_of(collector.nodeid):
        return (yield)


settings.register_profile("suite", derandomize=True, deadline=None)
settings.register_profile("random", derandomize=False, deadline=None)  # new examples in each run
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


@pytest.fixture
def still_clock(monkeypatch):
    """Tell progress in lines, by a clock that stands still: no line depends on the machine."""
    monkeypatch.setattr("skdpdyn.support.progress._bar", lambda total, unit: None)
    monkeypatch.setattr("skdpdyn.support.progress.time", SimpleNamespace(perf_counter=lambda: 0.0))


@pytest.fixture
def noise_found_once():
    """Search the least noise once, for tests that fit a record again and again."""
    from spending import noise_is_found_once

    with noise_is_found_once():
        yield


def pytest_addoption(parser):
    parser.addoption(
        "--cases",
        type=int,
        metavar="N",
        default=4,
        help="run at most N cases of each parametrized test; 0: all (default: 4)",
    )


COUNTED = 2  # cases of a test in which lines are counted: all take twice as long


@pytest.hookimpl(trylast=True)  # of what markers have left
def pytest_collection_modifyitems(config, items):
    """Keep the cases whose names have the least checksums: the same in every run, of any order.

    Where coverage is measured, lines are counted in the first of them, unless they are slow.
    """
    most = config.getoption("--cases")
    counts = config.pluginmanager.hasplugin("_cov")
    cases = defaultdict(list)
    left = set()
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    for group in cases.values():
        group.sort(key=lambda item: zlib.crc32(item.nodeid.encode()))
        for place, item in enumerate(group):
            if counts and (place >= COUNTED or item.get_closest_marker("slow")):
                item.add_marker(pytest.mark.no_cover)
            if 0 < most <= place and not (most >= 4 and item.get_closest_marker("every_case")):
                left.add(item)
    config.hook.pytest_deselected(items=list(left))
    items[:] = [item for item in items if item not in left]
