"""Products by numpy and scipy, whose threads this library never uses."""

from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _libraries():
    return ThreadpoolController()  # looks through all that the process has loaded: 6 ms


def one_blas_thread():
    """Run products on one thread: they give the same bits on any number of processors."""
    return _libraries().limit(limits=1, user_api="blas")
