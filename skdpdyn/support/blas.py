"""Threads: those of numpy and scipy, which this library never uses, and its own."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def libraries():
    """Return what controls the threads of all libraries that are loaded."""
    return ThreadpoolController()  # looks through all that the process has loaded: 6 ms


def one_blas_thread():
    """Run products on one thread: they give the same bits on any number of processors."""
    return libraries().limit(limits=1, user_api="blas")


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
