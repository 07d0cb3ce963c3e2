"""Cold and warm start: import and first fit of 1,000 x 20 in a new process, with an empty and with
a filled numba cache.

Run ``python -m benchmarks startup``. Medians of several processes, in turn, also over those that
import what any such library imports, numba and scikit-learn's base classes; the page cache and
Python's own cache of bytecode, which pip fills when it installs a package, are warmed by runs that
do not count.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

PROGRAM = """
import time
start = time.perf_counter()
import numpy as np
from skdpdyn import PrivateLogisticRegression
imported = time.perf_counter()
rng = np.random.default_rng(0)
X, y = rng.standard_normal((1000, 20)), rng.random(1000) < 0.5
PrivateLogisticRegression(classes=[False, True]).fit(X, y)
print(imported - start, time.perf_counter() - start)
"""

BASELINE = """
import time
start = time.perf_counter()
import numba, sklearn.base, sklearn.utils.validation
print(time.perf_counter() - start)
"""


def run(program, cache):
    """Return the seconds that the program prints, and those of the whole process."""
    start = time.perf_counter()
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONDONTWRITEBYTECODE": ""}
    out = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout
    return [*map(float, out.split()), time.perf_counter() - start]


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args(argv).repeats
    with tempfile.TemporaryDirectory() as directory:
        filled = os.path.join(directory, "filled")
        run(BASELINE, filled)
        run(PROGRAM, filled)
        baseline, cold, warm = [], [], []
        for repeat in range(repeats):
            baseline.append(run(BASELINE, filled))
            cold.append(run(PROGRAM, os.path.join(directory, str(repeat))))
            warm.append(run(PROGRAM, filled))
    imports = np.median(baseline, axis=0)[0]
    print(
        f"numba and scikit-learn's base classes: {imports:.2f} s to import (all figures are "
        f"medians of {repeats})"
    )
    print(
        f"{'':>6} {'import':>8} {'import + first fit':>20} {'over those imports':>20} "
        f"{'whole process':>15}"
    )
    for name, times in (("cold", cold), ("warm", warm)):
        imported, fitted, whole = np.median(times, axis=0)
        print(
            f"{name:>6} {imported:>6.2f} s {fitted:>18.2f} s {fitted / imports:>20.2f} "
            f"{whole:>13.2f} s"
        )
