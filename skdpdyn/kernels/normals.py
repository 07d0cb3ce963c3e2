"""The standard normals of a fit's steps: by numpy or by compiled code, always the same stream."""

from functools import cache

import numpy as np
from numba import types

from skdpdyn.kernels.jit import entry, generator, writable

_LEAST_NOISE = 1e-250  # standard deviation
_BY_NUMPY = 1_000_000  # of a fit, from which on numba draws them: twice as fast, after 0.4 s of compilation


def check_noise(noise_std):
    """Refuse noise that floating point would round to nothing, for no step size or bound is that small. 0 is none at all."""
    if np.any((noise_std > 0) & (noise_std < _LEAST_NOISE)):
        raise ValueError(
            f"noise of standard deviation {np.min(noise_std):.3g} would be rounded away: raise step_size or data_norm"
        )


def draw_normals(rng, out, n_all):
    """Fill ``out`` with standard normals, of ``n_all`` that the fit needs."""
    if n_all <= _BY_NUMPY:
        rng.standard_normal(out=out)
    else:
        _compiled()(rng, out)


def _draw(rng, out):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = rng.standard_normal()


@cache
def _compiled():
    return entry(types.void(generator, writable(np.float64, 2)))(_draw)
