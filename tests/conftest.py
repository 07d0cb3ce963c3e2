"""What all tests share: one disk cache of compiled kernels, and hypothesis without deadlines or
luck.
"""

import os
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

settings.register_profile("suite", derandomize=True, deadline=None)
settings.register_profile("random", derandomize=False, deadline=None)  # new examples in each run
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


@pytest.fixture
def still_clock(monkeypatch):
    """Tell progress in lines, by a clock that stands still: no line depends on the machine."""
    monkeypatch.setattr("skdpdyn.progress._bar", lambda total, unit: None)
    monkeypatch.setattr("skdpdyn.progress.time", SimpleNamespace(perf_counter=lambda: 0.0))
