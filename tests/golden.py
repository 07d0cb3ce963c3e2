"""Compare the bits of every way out of `releases.py` before and after a change of structure.

The bits of compiled sums depend on the processor, so digests are no test: write them to a file
before a change, on the machine that compares after it.

    python tests/golden.py write FILE
    python tests/golden.py compare FILE
"""

import argparse
import hashlib
import json
import re
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path

import numpy as np
from releases import WAYS_OUT, fit, of_sparse, shown, table

from skdpdyn import (
    PrivateGAMClassifier,
    PrivateGAMRegressor,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.preprocessing import Conditioning

OPTIONS = {"epsilon": 1.0, "random_state": 0, "n_jobs": 2}
MODELS = {
    "logistic": (partial(PrivateLogisticRegression, classes=[0, 1], **OPTIONS), "y"),
    "softmax": (partial(PrivateSoftmaxRegression, classes=[0, 1], **OPTIONS), "y"),
    "svc": (partial(PrivateLinearSVC, classes=[0, 1], **OPTIONS), "y"),
    "ridge": (partial(PrivateRidge, target_bounds=(-1, 1), **OPTIONS), "target"),
    "counts": (partial(PrivatePoissonRegressor, target_bounds=(0, 9), **OPTIONS), "counts"),
    "quantile": (partial(PrivateQuantileRegressor, target_bounds=(-1, 1), **OPTIONS), "target"),
}
ADDITIVE = {
    "curves of classes": (partial(PrivateGAMClassifier, classes=[0, 1], **OPTIONS), "y"),
    "curves": (partial(PrivateGAMRegressor, target_bounds=(-1, 1), **OPTIONS), "target"),
}
SOLVERS = "auto", "noisy_sgd", "dp_sgd"
DEFAULTS = {
    f"{name} by {solver}": fit(partial(model, solver=solver), target)
    for name, (model, target) in MODELS.items()
    for solver in SOLVERS
}
DEFAULTS |= {f"{name} sparse": of_sparse(model) for name, (model, _) in list(MODELS.items())[:3]}
DEFAULTS |= {
    f"{name} persons": fit(model, target, groups="groups")
    for name, (model, target) in MODELS.items()
}
"""Defaults on records in several chunks, by two threads."""
ROADS = {
    f"{name} with {options}": fit(partial(model, verbose=1, **options), target)
    for name, (model, target) in MODELS.items()
    for options in (
        {},
        {"conditioning": None, "fit_intercept": False},
        {"conditioning": 0.2, "solver": "noisy_sgd", "adjacency": "add_remove"},
        {"conditioning": 0.2, "bound": "langevin", "diagnostics": True},
        {"conditioning": Conditioning(second_moment=[0.1] * 3, norm=2.0), "alpha": 0.01},
        {"fit_intercept": False, "clip": 0.5, "data_norm": 1.0},
        {"epsilon": 30.0},
    )
} | {
    f"{name} with {options}": fit(partial(model, bounds=(-1, 1), verbose=1, **options), target)
    for name, (model, target) in ADDITIVE.items()
    for options in ({}, {"interactions": None, "alpha": 0.01})
}
"""Each way in which a fit may learn, on records that pay for it and on some that do not."""


def digests(way, n_features, n_records=40, dtype=np.float64):
    """Return a digest of each attribute that a way out shows, by its name."""
    one, _ = table(n_features, n_records)
    one.X = one.X.astype(dtype)
    printed = StringIO()
    with (
        warnings.catch_warnings(record=True) as caught,
        redirect_stdout(printed),
        redirect_stderr(StringIO()),
    ):
        warnings.simplefilter("always")
        try:
            result = way(n_features)(one)
        except ValueError as refusal:  # of pairs of one column
            result = str(refusal)
    parts = result if isinstance(result, tuple) else (result,)
    told = [str(warning.message) for warning in caught]
    parts = *parts, told, re.sub(", about .* left", "", printed.getvalue())
    return {
        f"{place} {name}": hashlib.sha256(repr(shown(value)).encode()).hexdigest()[:16]
        for place, part in enumerate(parts)
        for name, value in (vars(part) if hasattr(part, "__dict__") else {"value": part}).items()
    }


def main():
    """Write digests, or print what differs from those that were written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=["write", "compare"])
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    sys.modules["tqdm.auto"] = None  # progress prints lines, not bars
    now = {f"{name} {d}": digests(way, d) for name, way in WAYS_OUT.items() for d in (1, 2, 20)}
    for name, way in DEFAULTS.items():
        for d, dtype in ((3, np.float64), (30, np.float32)):
            now[f"default {name} {d}"] = digests(way, d, 6000, dtype)
    for name, way in ROADS.items():
        for n_records in (60, 400, 30_000):
            now[f"road {name} {n_records}"] = digests(way, 3, n_records)
    if options.task == "write":
        options.file.write_text(json.dumps(now, indent=1))
        return
    before, n_other = json.loads(options.file.read_text()), 0
    for way, names in before.items():
        found = now.get(way, {})
        other = [name for name in names | found if names.get(name) != found.get(name)]
        n_other += bool(other)
        if other:
            print(f"{way}: {', '.join(other)}")
    print(f"{len(before) - n_other} of {len(before)} ways out show the same bits")


if __name__ == "__main__":
    main()
