"""What releases claim to leak at most, beside what their worst-case neighbours show.

``python -m benchmarks audit`` prints three kinds of lines; ``--csv FILE`` keeps them.

- last iterate: claim and loss as mu. Solvers of steps and output perturbation learn a loss whose
  gradient does not depend on the parameters, so that what they release is normal; the loss is the
  distance of two runs with a billionth of the noise, over the standard deviation of the coordinates
  that hold noise alone (20,000 of them: a standard error of 0.5 %). At epsilon 1.
- replay: `skdpdyn.audit.audit` of whole default fits, part by part: how far the farthest neighbour
  moves a release over its noise, exactly; and how much smaller than it says the noise may be.
- one fit: the same function's black box: mu, and the mean of its lower limits over several fits,
  each at a confidence of 95 %, half of the risk for a limit. At delta = 1e-6.

Others at delta = 0.01. Sensitivities of every other release are held by ``tests/test_spent.py``.

Minutes: 20; 0.5 with ``--quick``, one relation and two fits of 10,000 records each.
"""

import csv
import math
import time
import warnings
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks._common import parser
from skdpdyn import (
    PrivateGAMClassifier,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.audit import audit
from skdpdyn.core.losses import Loss
from skdpdyn.core.noise import generators
from skdpdyn.data.local import rows_of
from skdpdyn.exceptions import PrivacyLeakWarning
from skdpdyn.privacy import Adjacency, composition, least_noise
from skdpdyn.solvers import SOLVERS, NoisyGD
from skdpdyn.solvers.noisy_gd import Learnt
from skdpdyn.solvers.runs import COURSES, paid
from skdpdyn.training.plan import plan_of
from skdpdyn.training.purchase import Purchase

BUDGET = {"epsilon": 1.0, "delta": 1e-2}

# solvers and hyperparameters whose release is normal where gradients do not depend on parameters
NORMAL = [
    ("noisy_gd", {"n_steps": 200, "step_size": 1.0, "cooling": False}),
    ("noisy_gd", {"cooling": True}),
    ("noisy_sgd", {"sampling": "cyclic", "batch_size": 5, "n_epochs": 20}),
    ("output_perturbation", {"method": "minimiser"}),
    ("output_perturbation", {"method": "gradient_descent", "n_epochs": 20}),
    ("output_perturbation", {"method": "permutation_sgd", "n_epochs": 2, "batch_size": 5}),
]
N_SAMPLES = 20
N_COLUMNS = 4001
REPEATS = 20
WHOLE = 2000, 3  # records and columns of a whole fit
TOP = 100.0  # a curvature for which steps on conditioned rows are many, and have momentum
FITS = {
    "logistic": PrivateLogisticRegression(classes=[0, 1]),
    "hinge": PrivateLinearSVC(classes=[0, 1]),
    "softmax": PrivateSoftmaxRegression(classes=[0, 1, 2]),
    "ridge": PrivateRidge(target_bounds=(-1, 1)),
    "statistics": PrivateRidge(target_bounds=(-1, 1), solver="sufficient_statistics"),
    "counts": PrivatePoissonRegressor(target_bounds=(0, 4)),
    "class weights": PrivateLogisticRegression(classes=[0, 1], class_weight="private"),
    "curves": PrivateGAMClassifier(classes=[0, 1], bounds=(-1, 1)),
}
APART = {"delta": 1e-6, "conditioning": None, "fit_intercept": False}
SOLVERS_OF_ONE_FIT = (
    "noisy_gd",
    "noisy_sgd",
    "dp_sgd",
    "output_perturbation",
    "objective_perturbation",
)
ONE_FIT = {
    **{f"hinge {name}": PrivateLinearSVC(solver=name, **APART) for name in SOLVERS_OF_ONE_FIT},
    "hinge epsilon=0.3": PrivateLinearSVC(0.3, **APART),
    "hinge epsilon=4": PrivateLinearSVC(4.0, **APART),
    "hinge persons": PrivateLinearSVC(**APART),
    "logistic": PrivateLogisticRegression(**APART),
    "ridge": PrivateRidge(target_bounds=(-1, 1), **APART),
}
HEAD = "kind", "release", "relation", "claim", "loss", "error", "loss / claim", "seconds"


def _constant_residual(raw_prediction, y, out):
    for i in range(len(y)):
        out[i] = -y[i]


CONSTANT = Loss("constant gradient", _constant_residual, lipschitz=1.0, smoothness=0.25)
"""-y r, for y in [-1, 1]: convex, and no smoother than declared."""


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    kind: str
    what: str
    adjacency: str
    claim: float
    loss: float
    error: float = math.nan
    seconds: float = math.nan

    @property
    def cells(self):
        """The line as strings."""
        *names, claim, loss, error, seconds = astuple(self)
        error = "" if math.isnan(error) else f"{error:.4f}"
        seconds = "" if math.isnan(seconds) else f"{seconds:.1f}"
        share = f"{loss / claim:.3f}"
        return (*map(str, names), f"{claim:.4f}", f"{loss:.4f}", error, share, seconds)


def normal_release(name, options, adjacency, top=None, persons=None):
    """Return the loss of a solver whose release is normal: the distance without noise, over the
    noise.

    With ``top``, a curvature that was learnt, steps are those of conditioned rows. ``persons`` says
    how many rows the changed person has, and how many in the neighbour.
    """
    solver = SOLVERS[name](**options)
    model = PrivateLogisticRegression(
        **BUDGET,
        alpha=0.01,
        adjacency=adjacency,
        fit_intercept=False,
        classes=[0, 1],
        solver=solver,
    )
    planned = plan_of(replace(Purchase.of(model, N_SAMPLES, N_COLUMNS).request, loss=CONSTANT))
    what = " ".join([name, *(f"{key}={value}" for key, value in options.items())])
    objective = planned.objective
    record = planned.mechanism
    claim = planned.guarantee.mu
    if top is not None:
        with_noise = NoisyGD().adapted(objective, claim, adjacency, Learnt(top))
        record = least_noise(with_noise, planned.budget, bound="composition")
        claim = composition(record).mu
        what += f" n_steps={record.n_steps} momentum={record.momentum:.2f}"
    if persons is not None:
        what += " persons of {} and {} rows".format(*persons)

    def data(n_rows, row, label):
        """Return empty rows and the last record, or person, whom no later step of a pass hides."""
        codes = np.append(np.arange(N_SAMPLES - 1), np.full(n_rows, N_SAMPLES - 1))
        X = np.zeros((len(codes), N_COLUMNS))
        y = np.ones(len(codes))
        X[N_SAMPLES - 1 :, 0] = row
        y[N_SAMPLES - 1 :] = label
        return rows_of(X, y, None if persons is None else codes, objective.most_rows)

    replaced = adjacency == Adjacency.REPLACE_ONE
    here, there = persons or (1, 1)
    rows = data(here, 1.0, 1.0)
    neighbour = data(there, 1.0, -1.0) if replaced else data(there, 0.0, 1.0)

    def solve(rows, mechanism=record, seed=0):
        generator = generators(seed)[0]  # the same order of records where it is drawn
        return solver.solve(objective, mechanism, rows, generator=generator)

    quiet = replace(record, noise_multiplier=1e-9 * np.asarray(record.noise_multiplier)[()])
    if type(quiet) in COURSES:  # beside less noise the rounding of steps costs more
        quiet = paid(quiet, objective)
    distance = np.linalg.norm(solve(rows, quiet) - solve(neighbour, quiet))
    # every step on conditioned rows adds exact noise, which takes its time
    n_repeats = REPEATS if top is None else REPEATS // 4
    noise = [solve(rows, seed=seed)[1:] for seed in range(n_repeats)]
    loss = distance / np.sqrt(np.mean(np.square(noise)))
    error = loss / math.sqrt(2 * np.size(noise))
    return Row("last iterate", what, adjacency, claim, loss, error)


def last_iterates(adjacency):
    """Return the lines of releases that are normal."""
    for name, options in NORMAL:
        yield normal_release(name, options, adjacency)
    yield normal_release("noisy_gd", {}, adjacency, top=TOP)
    yield normal_release(*NORMAL[0], adjacency, persons=(5, 100))


def replays(adjacency, shape=WHOLE, names=tuple(FITS)):
    """Return the lines of whole fits, a line for each part."""
    for name in names:
        model = FITS[name].set_params(**BUDGET, adjacency=adjacency)
        for found in audit(model, shape, n_trials=1).findings:
            yield Row("replay", f"{name}: {found.name}", adjacency, found.claimed, found.measured)


def one_fits(adjacency, n_games, n_runs, names=tuple(ONE_FIT)):
    """Return the lines of black boxes: means of lower limits, and the processor time of a run."""
    for name in names:
        model = ONE_FIT[name].set_params(adjacency=adjacency)
        asked = {"kind": "one_fit", "n_fits": 1, "confidence": 0.95}
        start = time.process_time()
        runs = [audit(model, n_games, persons="persons" in name, **asked) for _ in range(n_runs)]
        seconds = (time.process_time() - start) / n_runs
        found = {}
        for one in (one for run in runs for one in run.findings):
            found.setdefault(one.name, []).append(one)
        for limit, ones in found.items():
            measured = [one.measured for one in ones]
            error = np.std(measured) / math.sqrt(len(ones))
            what = f"{name}: {limit} ({len(ones)} runs of {n_games} records)"
            claim = ones[0].claimed
            yield Row("one fit", what, adjacency, claim, np.mean(measured), error, seconds)


def main(arguments=None):
    """Print the lines."""
    made = parser(__doc__)
    made.add_argument("--runs", type=int, default=20, help="fits of each one-fit audit")
    made.add_argument("--games", type=int, default=100_000, help="records of each of them")
    made.add_argument("--csv", type=Path, help="file for the lines")
    asked = made.parse_args(arguments)
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)  # of seeds
        for adjacency in list(Adjacency)[: 1 if asked.quick else None]:
            rows += last_iterates(adjacency)
            rows += replays(adjacency, names=("logistic",) if asked.quick else tuple(FITS))
            sizes = (10_000, 2) if asked.quick else (asked.games, asked.runs)
            rows += one_fits(adjacency, *sizes)
    lines = [HEAD, *(row.cells for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    for line in lines:
        print("  ".join(map(str.ljust, line, widths)).rstrip())
    if asked.csv:
        with asked.csv.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(lines)
