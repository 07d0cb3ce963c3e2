"""Time per draw of the exact release, of its gamma form and of the normals of a fit's steps.

Run ``python -m benchmarks release``. Medians of several runs, after compilation.
"""

import argparse
import time

import numpy as np
from randomgen import AESCounter

from skdpdyn.kernels.normals import draw_normals
from skdpdyn.kernels.release import release


def nanoseconds(function, n, repeats=7):
    """Return the median time of a call, for each of n draws."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1e9 * np.median(times) / n


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args(argv)
    generator = np.random.Generator(AESCounter())
    out = np.empty((10_000, 100))
    drawers = {
        "numpy, ziggurat": lambda: generator.standard_normal(out=out),
        "normals of steps": lambda: draw_normals(generator, out),
    }
    for name, draw in drawers.items():
        print(f"{name:30} {nanoseconds(draw, out.size):10.1f} ns")
    for n, distribution in ((1, "gaussian"), (7850, "gaussian"), (1, "gamma"), (1000, "gamma")):
        point = np.linspace(-1, 1, n)
        cost = nanoseconds(lambda: release(point, 0.1, generator, distribution), n)  # noqa: B023
        print(
            f"{f'release, {n} x {distribution}':30} {cost:10.1f} ns, {cost * n / 1e9:.5f} s in all"
        )
