"""The budget that solvers are asked with in tests, and least noise that is searched once."""

import sys
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import numpy as np

from skdpdyn.privacy import Budget, least_noise

FOUND = {}
"""Least noise by record and budget, of this process."""


@contextmanager
def noise_is_found_once():
    """Search the least noise for a record once, wherever the package asks for it.

    A fit still decides by itself which record it runs, and judges its noise.
    """

    def remembered(record, budget, *arguments, **options):
        key = record(1.0), record(2.0), budget, arguments, *sorted(options.items())
        if key not in FOUND:
            FOUND[key] = least_noise(record, budget, *arguments, **options)
        return FOUND[key]

    with ExitStack() as patches:
        for name, module in list(sys.modules.items()):
            if name.startswith("skdpdyn") and vars(module).get("least_noise") is least_noise:
                patches.enter_context(patch.object(module, "least_noise", remembered))
        yield


def once(function):
    """Return a function that finds each answer once, by what its arguments look like."""
    found = {}

    def asked(*arguments, **options):
        key = repr((arguments, options))
        if key not in found:
            found[key] = function(*arguments, **options)
        return found[key]

    return asked


def spent(epsilon, delta, adjacency="replace_one", bound="tightest"):
    """Return what `Solver.mechanism` and `Solver.auto_alpha` take after the objective: a budget
    and the name of a bound.
    """
    return Budget(epsilon, delta, adjacency), bound


class Recorder:
    """Release without noise, or what another recorder did; remember points and scales."""

    def __init__(self, before=None):
        self.calls = []
        self.before = before

    def __call__(self, point, scale, generator, **options):
        point = np.array(point, dtype=float)
        self.calls.append((point, np.broadcast_to(scale, point.shape)))
        return point if self.before is None else self.before.calls[len(self.calls) - 1][0]
