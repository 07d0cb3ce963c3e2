"""How many threads a fit takes, which changes no bit of it."""

import os

from joblib import cpu_count, effective_n_jobs

from skdpdyn.support.blas import libraries

_LEAST_WORK = 1_000_000  # numbers of X a thread


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
    >>> from skdpdyn.support.threads import threads_of
    >>> threads_of(3, 10), threads_of(None, 1_999_999)
    (3, 1)
    """
    if n_jobs is not None:
        return effective_n_jobs(n_jobs)
    most = n_numbers // _LEAST_WORK
    return 1 if most < 2 else min(most, _openmp_threads())


def _openmp_threads():
    """Return how many threads OpenMP would use: at most one a core, or OMP_NUM_THREADS."""
    loaded = libraries().select(user_api="openmp").lib_controllers
    setting = os.environ.get("OMP_NUM_THREADS", "")
    limits = [library.num_threads for library in loaded]
    limits += [int(setting)] if setting.isdigit() and not loaded else []
    if not (setting and limits):
        limits.append(cpu_count(only_physical_cores=True))
    return max(1, min(limits))
