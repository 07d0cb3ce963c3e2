"""Source of randomness: the system's entropy through a cryptographic generator.

AES-128 in counter mode costs what PCG64 costs and cannot be predicted from its output. Normal
deviates in floating point are not exactly normal, and their low bits give away what they were added
to. So everything that leaves a fit goes through one function, `release`, which adds ideal noise in
exact arithmetic and rounds the sum to a lattice.
"""

import math
import os
import random
from collections.abc import Callable
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import numpy as np
from randomgen import AESCounter

from skdpdyn.core.sealed import Noisy, Sealed, SealedProducts, opened
from skdpdyn.exceptions import PrivacyLeakWarning, warn
from skdpdyn.kernels import release as exact
from skdpdyn.kernels.normals import NORMAL_ERROR, draw_normals
from skdpdyn.kernels.release import draw_gamma, largest_point
from skdpdyn.privacy.checks import quoted
from skdpdyn.support.blas import in_threads

__all__ = [
    "Generator",
    "check_random_state",
    "generators",
    "largest_norm",
    "largest_point",
    "mark_of_release",
    "noisy",
    "release",
    "same_draws",
    "seed_leaks",
    "source_of",
    "standard_noise",
    "symmetric",
]

SOURCE = (
    "the operating system's entropy through AES-128 in counter mode, fresh for every fit; the "
    "noise of what is released is "
    "exact, rounded to a lattice that does not depend on the data, and the rounding of all "
    "earlier steps is paid for"
)
_BLOCK = 4096  # numbers that one stream draws where there are more
Generator = np.random.Generator
"""Type of a source of randomness, which other modules only pass on."""
UNCHARGED = {
    "trials": 1e-150,  # distance of the drawn law of a search's number of trials from the exact one
    "normal": 1e-267,  # a normal of a step is beyond 35 standard deviations
    "iterate": 1e-300,  # noise takes an iterate out of its public ball
    "certificate": 1e-300,  # a random linear term is longer than a certificate of accuracy takes it
}
"""Probabilities, at most, of the events that no guarantee pays for, see doc/theory/bits.rst.

Replacing both of two runs by ones without the event costs (1 + exp(epsilon)) times as much.
"""
NOISE_ERROR = NORMAL_ERROR
"""Largest distance of a coordinate of `standard_noise` from the ideal one."""

SEEDED = (
    "random_state: whoever knows or guesses it can subtract the noise, so that nothing is private"
)


def generators(random_state, n_streams=1):
    """Return independent generators for one fit.

    Parameters
    ----------
    random_state : None or int
        None: fresh entropy from the operating system for every stream of every call. An int:
        streams that repeat themselves, for tests; it is marked as not private, because whoever
        guesses the seed can subtract the noise.
    n_streams : int, default=1
        Number of streams.

    Returns
    -------
    list of numpy.random.Generator

    Raises
    ------
    TypeError
        For a Generator, a RandomState or anything else: clones and workers would copy its state and
        repeat its noise.
    """
    if random_state is None:
        keys = [int.from_bytes(os.urandom(16)) for _ in range(n_streams)]
    else:
        seed = check_random_state(random_state)
        warn(
            f"random_state={seed}: the noise can be recomputed by anyone who knows or "
            "guesses the seed, so this fit is "
            "not private. Use random_state=None for anything but tests.",
            PrivacyLeakWarning,
        )
        children = np.random.SeedSequence(seed).spawn(n_streams)
        keys = [int.from_bytes(child.generate_state(2, np.uint64).tobytes()) for child in children]
    return [np.random.Generator(AESCounter(key=key)) for key in keys]


def release(point, scale, generator, distribution="gaussian", n_threads=1):
    """Return a point with ideal noise, as `skdpdyn.kernels.release.release` does.

    Of more than 4,096 Gaussian coordinates, each block of as many has a stream of its own, whose
    key is 128 bits of the generator's. Blocks depend on the number of coordinates alone, so that
    any number of threads draws the same bits. The bits of a block cipher under secret keys that
    the same cipher derives are taken as uniform, as those of one stream are.

    Parameters
    ----------
    point : float or array-like of float
        Point to release.
    scale : float or array-like of float
        Scale of the noise.
    generator : numpy.random.Generator
        The source.
    distribution : {"gaussian", "gamma"}, default="gaussian"
        Law of the noise.
    n_threads : int, default=1
        Number of threads.

    Returns
    -------
    ndarray of float64
    """
    point = np.asarray(point, np.float64)
    if distribution != "gaussian" or point.size <= _BLOCK:
        return exact.release(point, scale, generator, distribution)
    scales = np.broadcast_to(np.asarray(scale, np.float64), point.shape).ravel()
    numbers = point.ravel()
    places = range(0, point.size, _BLOCK)
    keys = generator.bit_generator.random_raw(2 * len(places)).reshape(-1, 2)

    def block(k):
        of_block = np.random.Generator(AESCounter(key=int.from_bytes(keys[k].tobytes())))
        part = slice(places[k], places[k] + _BLOCK)
        return exact.release(numbers[part], scales[part], of_block)

    blocks = in_threads(block, range(len(places)), n_threads)
    return np.concatenate(list(blocks)).reshape(point.shape)


def noisy(
    sealed: Sealed,
    multiplier: float,
    adjacency: str,
    generator: Generator,
    scale: Any = 1.0,
    distribution: str = "gaussian",
    n_threads: int = 1,
) -> Noisy:
    """Open a sealed statistic, and return it with noise.

    Parameters
    ----------
    sealed : Sealed
        The statistic, which knows what a record changes.
    multiplier : float
        Scale of the noise over its sensitivity.
    adjacency : str
        Which data sets are neighbours.
    generator : numpy.random.Generator
        The source.
    scale : float or ndarray, default=1.0
        Public unit that each coordinate is measured in: the sensitivity is that of the statistic
        over it.
    distribution : {"gaussian", "gamma"}, default="gaussian"
        Law of the noise.
    n_threads : int, default=1
        Number of threads.

    Returns
    -------
    Noisy
    """
    std = sealed.sensitivity(adjacency) * multiplier
    options = {"distribution": distribution, "n_threads": n_threads}
    value = release(opened(sealed), std * np.asarray(scale), generator, **options)
    return Noisy(value if np.ndim(value) else float(value), std)


def symmetric(
    products: SealedProducts,
    release: Callable[[Sealed, np.ndarray], Noisy],
    inside: np.ndarray | bool = True,
) -> Noisy:
    """Return a symmetric matrix whose entries were released, each of a pair once.

    Parameters
    ----------
    products : SealedProducts
        The matrix.
    release : callable
        Returns entries with noise, given them and the unit of each: that of entries on the diagonal
        is 1, and that of others 1/sqrt(2), for each of them stands for two. So the sensitivity is
        that of the whole matrix in the Frobenius norm.
    inside : ndarray of bool of shape (n_columns, n_columns) or True, default=True
        A public symmetric mask: entries outside of it are 0 and not released.

    Returns
    -------
    Noisy
        The matrix, and the standard deviation of the noise on its diagonal.
    """
    upper = np.tri(products.n_columns, dtype=bool).T & inside
    scale = np.full(upper.shape, math.sqrt(0.5))
    scale *= 1 + 4 * np.finfo(np.float64).eps
    np.fill_diagonal(scale, 1.0)
    matrix = np.zeros(upper.shape)
    entries, std = release(products[upper], scale[upper])
    matrix[upper] = matrix.T[upper] = entries
    return Noisy(matrix, std)


def standard_noise(distribution, size, generator):
    """Return a vector of noise of scale 1, each coordinate within NOISE_ERROR of an ideal one.

    Use it for noise that is computed with, such as a random linear term. The noise on released
    numbers comes from `release`.

    Parameters
    ----------
    distribution : {"gaussian", "gamma"}
        "gamma": a uniform direction and a norm of the law Gamma(size), the density proportional to
        exp(-norm(b)).
    size : int
        Number of coordinates.
    generator : numpy.random.Generator
        The source.

    Returns
    -------
    ndarray of shape (size,)
    """
    if distribution == "gamma":
        return draw_gamma(size, generator)
    noise = np.empty((1, size))
    draw_normals(generator, noise)
    return noise[0]


def largest_norm(distribution, size):
    """Return a norm that `standard_noise` exceeds with a probability of 1e-300 at most.

    A Gaussian norm exceeds sqrt(d) + sqrt(2 t), and a Gamma number d + sqrt(2 d t) + t, with a
    probability of at most exp(-t); Laurent and Massart (2000).
    """
    t = -math.log(min(UNCHARGED["iterate"], UNCHARGED["certificate"]))
    if distribution == "gaussian":
        return math.sqrt(size) + math.sqrt(2 * t)
    return size + math.sqrt(2 * size * t) + t


def mark_of_release(random_state):
    """Return a text that no other release has; "" of one with a seed, which repeats itself."""
    return os.urandom(8).hex() if random_state is None else ""


def seed_leaks(random_state):
    """Return the leak of a seed, in the words of ``leaks_``."""
    return (
        ()
        if random_state is None
        else (f"random_state={random_state} lets anyone recompute the noise",)
    )


def source_of(leaks):
    """Return the source of a fit's noise, by ``leaks_``: parameters may have changed since."""
    return SEEDED if any(leak.startswith("random_state") for leak in leaks) else SOURCE


def check_random_state(random_state):
    """Return ``random_state`` if it is None or an int; raise and explain why otherwise."""
    if random_state is None:
        return None
    if isinstance(
        random_state,
        (
            np.random.Generator,
            np.random.RandomState,
            np.random.BitGenerator,
            np.random.SeedSequence,
        ),
    ):
        raise TypeError(
            f"random_state={quoted(random_state)} is refused: clones, folds and workers would "
            "copy its state and add the same noise, which then cancels. Use None (private), or "
            "an int for repeatable tests"
        )
    if (
        not isinstance(random_state, Integral)
        or isinstance(random_state, (bool, np.bool_))
        or random_state < 0
    ):
        raise TypeError(
            f"random_state={quoted(random_state)} must be None (private) or an int >= 0 "
            "(repeatable, for tests)"
        )
    return int(random_state)


@contextmanager
def same_draws():
    """Run code of others, and then give public random generators back the state they had.

    So what it draws for one row does not follow from how many rows came before.
    """
    of_python = random.getstate()
    of_numpy = np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)  # noqa: NPY002
