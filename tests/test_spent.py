"""A law over every way out: no release moves, in units of its noise, by more than its part of the
record says. So a sensitivity that is too small fails here, wherever it stands.

`skdpdyn.audit.replayed` notes the point and the scale of each release on a data set, and on
neighbours with the same outcomes before. What is not released (noise of earlier steps, batches) is
the same on both by the seed, so that each release is bounded by itself: a last iterate by what its
steps add and what later steps shrink. Every way out also comes near to what its record says on some
neighbour, so that half of a sensitivity is missed nowhere. No chance is in it.
"""

import math
import os
import pickle
from collections import defaultdict
from dataclasses import replace
from functools import partial
from unittest.mock import patch

import numpy as np
import pytest
from reference import gradients
from releases import (
    BUDGET,
    WAYS_OUT,
    by,
    calibrated,
    counting,
    fit,
    logistic,
    ridge,
    scaled,
    table,
    training,
    with_matrix,
)
from spending import noise_is_found_once

from skdpdyn import (
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.audit import allowed, replayed
from skdpdyn.privacy import Selection
from skdpdyn.solvers import (
    DPSGD,
    NoisyGD,
    OutputPerturbation as OutputPerturbationSolver,
    SufficientStatistics,
    objective_perturbation,
)

pytestmark = pytest.mark.every_case

ROUNDING = 1e-6  # part of a distance that the rounding of sums may add


# --- neighbours -----------------------------------------------------------------------------------


def neighbours(n_features, n_changed=1, removed=False):
    """Return records, and neighbours in which one record, or person, is as far away as can be.

    ``removed``: the neighbour's record moves nothing, as where it is not there.
    """
    one, other = table(n_features)
    changed = slice(n_changed)
    x = np.zeros(n_features)
    x[0] = 1.0
    one.X[changed], one.y[changed], one.target[changed] = x, 1, 1.0
    one.counts[changed], one.exposure[changed] = 8.0, 0.5

    def but(**values):
        new = replace(one, **{name: value.copy() for name, value in vars(one).items()})
        for name, value in values.items():
            getattr(new, name)[changed] = value
        return new

    if removed:
        return [one, but(X=0.0)]
    flipped = {"y": 0, "target": -1.0, "counts": 0.0, "exposure": 2.0}
    return [
        one,
        but(X=other.X[0], **flipped),
        but(**flipped),
        but(target=0.0, counts=1.0),
        but(X=-x),
        but(X=0.0),
        but(X=0.0, **flipped),
        but(weights=other.weights[0]),
    ]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Return what asks for the ratios of a way once, for all processes of a run."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder

    def asked(way, n_features):
        path = folder / f"{way}, {n_features}.pickle"
        if not path.exists():
            part = path.with_suffix(f".{os.getpid()}")
            part.write_bytes(pickle.dumps(ratios(way, n_features)))
            part.replace(path)
        return pickle.loads(path.read_bytes())

    return asked


def ratios(way, n_features):
    """Return, for each line that asks for a release, its largest distance over the allowed one."""
    run, removed = (WAYS_OUT | MORE)[way](n_features), "removed" in way
    with noise_is_found_once():
        tables = neighbours(n_features, 2 if "persons" in way else 1, removed)
        record, moved = replayed(run, tables, seed=0)
    limits, found = allowed(record, len(moved)), defaultdict(float)
    assert len(limits) == len(moved)
    for limit, (call, far) in zip(limits, moved, strict=True):
        # scores of trials are told one by one
        norms = np.abs(far) if isinstance(record, Selection) else np.linalg.norm(far, axis=1)
        if limit < math.inf:
            place = call.asked_by[:2]
            found[place] = max(found[place], float(np.max(norms)) / limit)
    return dict(found)


# --- the law --------------------------------------------------------------------------------------

without = {"fit_intercept": False, "conditioning": None}
removable = partial(logistic, adjacency="add_remove", **without)
short = partial(logistic, data_norm=0.3, **without)
MORE = {
    "dp_sgd, one step": fit(by(DPSGD(n_steps=1, batch_size=30))),
    "sufficient_statistics of one column": fit(
        by(SufficientStatistics(), partial(ridge, **without)), "target", of_one_column=True
    ),
    "noisy_gd, removed": fit(by(NoisyGD(n_steps=1), removable)),
    "dp_sgd, removed": fit(by(DPSGD(n_steps=1, batch_size=30), removable)),
    "output_perturbation, removed": fit(by(OutputPerturbationSolver(), removable)),
    "sufficient_statistics, removed": fit(
        by(SufficientStatistics(), partial(ridge, adjacency="add_remove", **without)), "target"
    ),
    "conditioned, removed": fit(partial(removable, conditioning=0.3)),
    "calibrated, removed": calibrated(
        fit(partial(logistic, adjacency="add_remove", conditioning=0.3))
    ),
    "counts calibrated, removed": calibrated(
        fit(
            partial(counting, target_bounds=(0, 8), adjacency="add_remove", conditioning=0.3),
            "counts",
        )
    ),
    "with a matrix, removed": with_matrix(partial(removable, conditioning=0.3)),
    "PrivateScaler, removed": scaled(adjacency="add_remove"),
    "PrivateScaler ranges, removed": scaled(
        bounds="private", crude_bounds=(-2, 2), adjacency="add_remove"
    ),
    "conditioned, small rows": fit(partial(logistic, conditioning=0.3, data_norm=0.3)),
    "PrivateScaler, small rows": scaled(data_norm=0.3),
    "noisy_gd, small rows": fit(
        by(NoisyGD(n_steps=1), partial(logistic, data_norm=0.3, **without))
    ),
    "sufficient_statistics, small rows": fit(
        by(SufficientStatistics(), partial(ridge, data_norm=0.3, **without)), "target"
    ),
    "output_perturbation, small rows": fit(by(OutputPerturbationSolver(), short)),
}
MORE = {way: training(run) for way, run in MORE.items()}
"""More ways out: single steps, a single column, rows that are all brought to another norm than 1,
and a record that is not there (a row of zeros without an intercept, whose gradient is 0).
"""
WIDTHS = 2, 9
APART = {way for way in WAYS_OUT if way.startswith("objective_perturbation")}
"""Ways out whose neighbours have a linear term of their own, see below."""


@pytest.mark.parametrize("way", [way for way in WAYS_OUT | MORE if way not in APART])
def test_no_release_moves_by_more_than_its_record_says(way, told):
    for n_features in WIDTHS:
        for line, ratio in told(way, n_features).items():
            assert ratio <= 1 + ROUNDING, (line, n_features)


SLOW = (
    "bassily",
    "dp_svrg",
    "dp_sgd persons",
    "noisy_sgd without",
    "noisy_sgd random",
    "PrivateSearch",
)


def test_the_law_would_miss_half_of_no_sensitivity(told):
    """Every line that asks for a release moves it by more than half of what is allowed, for some
    way out: so the neighbours are far enough apart.
    """
    nearest = defaultdict(float)
    for way in WAYS_OUT | MORE:
        if way in APART or way.startswith(SLOW):
            continue
        for n_features in WIDTHS:
            for place, ratio in told(way, n_features).items():
                nearest[place] = max(nearest[place], ratio)
    assert len(nearest) > 15
    assert not {place: ratio for place, ratio in nearest.items() if not ratio > 0.5}


@pytest.mark.parametrize("noise", ["gaussian", "gamma"])
@pytest.mark.parametrize("name", ["logistic", "softmax", "svc", "ridge"])
def test_no_linear_term_moves_by_more_than_its_record_says(name, noise):
    """The noise b is that whose minimiser is theta: on a neighbour it is another b, by the
    difference of the gradients at theta, in units of the scale that the solver gives to its noise.
    """
    model, target = MODELS[name]
    solver = objective_perturbation.ObjectivePerturbation(noise=noise)
    for n_features in WIDTHS:
        one, *others = neighbours(n_features)
        heard = []

        def minimise(objective, rows, *, linear, heard=heard, **options):
            heard.append((objective, linear))
            return minimiser(objective, rows, linear=linear, **options)

        with (
            patch.object(objective_perturbation, "minimise", minimise),
            patch.object(objective_perturbation, "standard_noise", unit),
        ):
            fitted = by(solver, model)().fit(one.X, getattr(one, target))
        ((objective, linear),) = heard
        linear_part, output = fitted.mechanism_.mechanisms
        rng, nearest = np.random.default_rng(0), 0.0
        for scale in (0.0, 1.0, 3.0, 100.0):
            theta = scale * rng.standard_normal(objective.n_parameters)
            for other in others:
                means = [mean_gradient(objective, data, target, theta) for data in (one, other)]
                moved = np.linalg.norm(means[0] - means[1]) / np.linalg.norm(linear)
                nearest = max(nearest, moved * linear_part.noise_multiplier)
        assert 0.5 < nearest <= 1 + ROUNDING
        assert output.statistic == "minimiser"


minimiser = objective_perturbation.minimise
unconditioned = {"conditioning": None, **BUDGET, "random_state": 0}
MODELS = {
    "logistic": (partial(PrivateLogisticRegression, classes=[0, 1], **unconditioned), "y"),
    "softmax": (partial(PrivateSoftmaxRegression, classes=[0, 1], **unconditioned), "y"),
    "svc": (partial(PrivateLinearSVC, classes=[0, 1], **unconditioned), "y"),
    "ridge": (partial(PrivateRidge, target_bounds=(-1, 1), **unconditioned), "target"),
}


def unit(distribution, size, generator):
    """Stand for the noise of scale 1, so that its scale can be seen."""
    return np.eye(1, size)[0]


def mean_gradient(objective, data, target, theta):
    """Return the mean of the clipped gradients of records, encoded as the model does."""
    y = getattr(data, target)
    return gradients(objective, data.X, y if target == "target" else y.astype(float), theta).mean(0)
