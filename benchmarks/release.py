"""Time per draw of the exact release, of its gamma form and of the normals of a fit's steps.

Run ``python -m benchmarks release``. Medians of several runs, after compilation. With ``--fits``:
how long default fits take over the same fits with ordinary noise, numpy's normals added in floating
point, in turns; and how long the release takes in one of them.
"""

import argparse
import time

import numpy as np
from randomgen import AESCounter

from skdpdyn import PrivateLogisticRegression, PrivateSoftmaxRegression
from skdpdyn.core import spending
from skdpdyn.kernels.normals import draw_normals
from skdpdyn.kernels.release import release
from skdpdyn.solvers import steps

RELEASING = steps, spending  # modules that a default fit releases in


def nanoseconds(function, n, repeats=7):
    """Return the median time of a call, for each of n draws."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1e9 * np.median(times) / n


def ordinary(point, scale, generator, distribution="gaussian"):
    """Add noise as others do: in floating point."""
    return point + scale * generator.standard_normal(np.shape(point))


class Timed:
    """The exact release, timed."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self, *arguments):
        """Release, and add the time."""
        start = time.perf_counter()
        released = release(*arguments)
        self.seconds += time.perf_counter() - start
        return released


def seconds_of_fit(model, X, y, how):
    for module in RELEASING:
        module.release = how
    start = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - start


def compare_fits(n_samples, n_features, n_classes, repeats):
    """Print what exact release costs a default fit."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, n_features))
    y = np.argmax(X[:, :n_classes] + rng.standard_normal((n_samples, n_classes)), axis=1)
    kind = PrivateLogisticRegression if n_classes == 2 else PrivateSoftmaxRegression
    model = kind(epsilon=1.0, data_norm=n_features**0.5, classes=range(n_classes))
    times = {release: [], ordinary: []}
    seconds_of_fit(model, X, y, release)  # compile
    for _ in range(repeats):
        for how, its_times in times.items():
            its_times.append(seconds_of_fit(model, X, y, how))
    timed = Timed()
    whole = seconds_of_fit(model, X, y, timed)
    ratio = min(times[release]) / min(times[ordinary])
    print(
        f"{n_samples:,} x {n_features}, {n_classes} classes: {ratio:.3f} of ordinary noise; "
        f"release takes {timed.seconds:.3f} of {whole:.3f} s"
    )


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fits", action="store_true", help="compare fits too")
    options = parser.parse_args(argv)
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
    if options.fits:
        compare_fits(10_000, 100, 2, 15)
        compare_fits(50_000, 100, 2, 7)
        compare_fits(60_000, 784, 10, 2)
