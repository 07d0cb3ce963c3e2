"""Threads: those of numpy and scipy, which this library never uses, and how many it takes."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from joblib import cpu_count, effective_n_jobs
from threadpoolctl import ThreadpoolController

_LEAST_WORK = 1_000_000  # numbers of X a thread


@cache
def _libraries():
    return ThreadpoolController()  # looks through all that the process has loaded: 6 ms


def one_blas_thread():
    """Run products on one thread: they give the same bits on any number of processors."""
    return _libraries().limit(limits=1, user_api="blas")


def threads_of(n_jobs: int | None, n_numbers: int) -> int:
    """Return how many threads a fit of so many numbers takes.

    Parameters
    ----------
    n_jobs : int or None
        As joblib takes it, or None: as many as scikit-learn's OpenMP would, each with a million
        numbers at least. That heeds ``OMP_NUM_THREADS``, the processors that this process may use,
        ``threadpoolctl.threadpool_limits`` and joblib's workers.
    n_numbers : int
        Public number of numbers in X.

    Returns
    -------
    int

    Examples
    --------
    >>> from skdpdyn.support.blas import threads_of
    >>> threads_of(3, 10), threads_of(None, 1_999_999)
    (3, 1)
    """
    if n_jobs is not None:
        return effective_n_jobs(n_jobs)
    most = n_numbers // _LEAST_WORK
    return 1 if most < 2 else min(most, _openmp_threads())


def _openmp_threads():
    """Return how many threads OpenMP would use: at most one a core, or OMP_NUM_THREADS."""
    loaded = _libraries().select(user_api="openmp").lib_controllers
    setting = os.environ.get("OMP_NUM_THREADS", "")
    limits = [library.num_threads for library in loaded]
    limits += [int(setting)] if setting.isdigit() and not loaded else []
    if not (setting and limits):
        limits.append(cpu_count(only_physical_cores=True))
    return max(1, min(limits))


def in_threads(function: Callable, items: Iterable, n_threads: int) -> Iterator[Any]:
    """Yield a function's results for each item, in order, computed by some threads."""
    if n_threads <= 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        waiting: deque = deque()
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > n_threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for task in waiting:
                task.cancel()
