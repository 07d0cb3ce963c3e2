"""What all that releases claims to leak at most, beside what its worst-case neighbours show.

``python -m benchmarks audit`` prints two tables; ``--rst FILE`` writes them as a page.

- Exact: claim and loss as mu. Solvers of steps and output perturbation learn a loss whose gradient
  does not depend on the parameters, so that what they release is normal; the loss is the distance
  of two runs with a billionth of the noise, over the standard deviation of the coordinates that
  hold noise alone (20,000 of them: a standard error of 0.5 %). Sufficient statistics, scalers, the
  default on conditioned rows, evaluations, tables of intervals and the score of a trial are
  replayed: their releases are recorded on one data set and repeated on its neighbour, and the loss
  is the root of the sum of squares of distance over noise, the largest over some pairs of
  neighbours.
- Canaries: `skdpdyn.audit.audit` of whole fits as black boxes, at epsilon = 8: claim and loss are
  epsilon, and the loss is a lower bound.

The exact ones are at epsilon = 1, all at delta = 0.01. A true claim is exceeded by chance alone.
"""

import argparse
import math
import warnings
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from unittest.mock import patch

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression

from skdpdyn import (
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
    preprocessing,
)
from skdpdyn.audit import Listener, audit, listened
from skdpdyn.core.losses import Loss
from skdpdyn.core.noise import generators
from skdpdyn.core.spending import TRAINING
from skdpdyn.data.local import LocalRows, rows_of
from skdpdyn.evaluation import evaluate
from skdpdyn.exceptions import PrivacyLeakWarning
from skdpdyn.model_selection import PrivateSearchCV
from skdpdyn.preprocessing import PrivateScaler
from skdpdyn.privacy import Adjacency, Gaussian, composition, least_noise
from skdpdyn.solvers import SOLVERS, NoisyGD
from skdpdyn.solvers.noisy_gd import Learnt
from skdpdyn.training import reading
from skdpdyn.training.plan import plan
from skdpdyn.training.request import request_of
from skdpdyn.training.values import Seen

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
N_SAMPLES, N_COLUMNS, REPEATS = 20, 4001, 20
WHOLE = 2000  # records or persons of a whole fit
TOP = 100.0  # a curvature for which steps on conditioned rows are many, and have momentum

CANARIES = {
    "one step": {"solver": NoisyGD(n_steps=1), "conditioning": None},
    "output_perturbation": {"solver": "output_perturbation"},
    "objective_perturbation": {"solver": "objective_perturbation"},
}


def _constant_residual(raw_prediction, y, out):
    for i in range(len(y)):
        out[i] = -y[i]


CONSTANT = Loss("constant gradient", _constant_residual, lipschitz=1.0, smoothness=0.25)
"""-y r, for y in [-1, 1]: convex, and no smoother than declared."""


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    what: str
    adjacency: str
    claim: float
    loss: float
    error: float = math.nan

    @property
    def cells(self):
        """The line as strings."""
        error = "" if math.isnan(self.error) else f"{self.error:.4f}"
        numbers = (f"{self.claim:.4f}", f"{self.loss:.4f}", error, f"{self.loss / self.claim:.3f}")
        return (self.what, self.adjacency, *numbers)


HEAD = ("release", "adjacency", "claim", "loss", "+-", "loss / claim")


def label(name, options):
    """Return a solver's name and hyperparameters."""
    return " ".join([name, *(f"{key}={value}" for key, value in options.items())])


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
    planned, what = (
        plan(request_of(model, N_SAMPLES, N_COLUMNS, Seen(loss=CONSTANT))),
        label(name, options),
    )
    objective, record, claim = planned.objective, planned.mechanism, planned.guarantee.mu
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
        X, y = np.zeros((len(codes), N_COLUMNS)), np.ones(len(codes))
        X[N_SAMPLES - 1 :, 0], y[N_SAMPLES - 1 :] = row, label
        return rows_of(X, y, None if persons is None else codes, objective.most_rows)

    replaced = adjacency == Adjacency.REPLACE_ONE
    here, there = persons or (1, 1)
    rows = data(here, 1.0, 1.0)
    neighbour = data(there, 1.0, -1.0) if replaced else data(there, 0.0, 1.0)

    def solve(rows, mechanism=record, seed=0):
        generator = generators(seed)[0]  # the same order of records where it is drawn
        return solver.solve(objective, mechanism, rows, generator=generator)

    quiet = replace(record, noise_multiplier=1e-9 * np.asarray(record.noise_multiplier)[()])
    distance = np.linalg.norm(solve(rows, quiet) - solve(neighbour, quiet))
    # every step on conditioned rows adds exact noise, which takes its time
    n_repeats = REPEATS if top is None else REPEATS // 4
    noise = [solve(rows, seed=seed)[1:] for seed in range(n_repeats)]
    loss = distance / np.sqrt(np.mean(np.square(noise)))
    error = loss / math.sqrt(2 * np.size(noise))
    return Row(what, adjacency, claim, loss, error)


def replay(run, data, neighbour):
    """Return the loss of each release of ``run``, as mu, when the outcomes are the same on the
    neighbour.
    """
    first = Listener(seed=0)
    with listened(first):
        run(data)
    second = Listener(first.calls)
    with listened(second):
        run(neighbour)
    pairs = zip(first.calls, second.calls, strict=True)
    return np.array([np.linalg.norm((one.point - other.point) / one.scale) for one, other in pairs])


def replayed(title, names, adjacency, mechanism, claim, losses):
    """Return a row for each release and one for all: the largest loss over the pairs of
    neighbours.
    """
    claims = np.array([part.mu for part in mechanism])
    losses = np.array(losses)
    rows = []
    for name in dict.fromkeys(names):
        chosen = np.array(names) == name
        rows.append(
            Row(
                f"{title}: {name}",
                adjacency,
                np.linalg.norm(claims[chosen]),
                np.max(np.linalg.norm(losses[:, chosen], axis=1)),
            )
        )
    if len(rows) > 1:
        rows.append(Row(f"{title}: all", adjacency, claim, np.max(np.linalg.norm(losses, axis=1))))
    return rows


def gaussian_parts(mechanism):
    """Return the Gaussian parts of a composition as guarantees."""
    return [composition(part) for part in mechanism.mechanisms]


def statistics(adjacency):
    """Return the losses of sufficient statistics: of each statistic, and of all."""
    model = PrivateRidge(
        **BUDGET,
        adjacency=adjacency,
        fit_intercept=False,
        target_bounds=(-1, 1),
        solver="sufficient_statistics",
    )
    losses = []
    for n_columns in (1, 2):
        planned = plan(request_of(model, N_SAMPLES, n_columns))
        last = np.eye(n_columns)[-1]
        X, y = np.tile(last, (N_SAMPLES, 1)), np.ones(N_SAMPLES)
        # the same row and another label; a row across; an empty one
        if adjacency == Adjacency.REPLACE_ONE:
            changes = [(last, -1.0), (np.eye(n_columns)[0], -1.0), (np.zeros(n_columns), 0.0)]
        else:
            changes = [(np.zeros(n_columns), 0.0)]

        def run(data, planned=planned):
            rows, to_run = LocalRows(*data), (planned.objective, planned.mechanism)
            planned.request.solver.solve(*to_run, rows, generator=generators(0)[0])

        for row, target in changes:
            X_neighbour, y_neighbour = X.copy(), y.copy()
            X_neighbour[-1], y_neighbour[-1] = row, target
            losses.append(replay(run, (X, y), (X_neighbour, y_neighbour)))
    names = ("least eigenvalue", "X'X", "X'y")
    parts = gaussian_parts(planned.mechanism)
    return replayed("sufficient_statistics", names, adjacency, parts, planned.guarantee.mu, losses)


def scaler(adjacency, with_mean):
    """Return the scaler's losses: of the mean, of the counts, and of all."""
    losses = []
    # of the other rows: those on a line, and empty ones
    for scale, seed in product((1.0, 0.0), range(5)):
        model = PrivateScaler(**BUDGET, with_mean=with_mean, adjacency=adjacency, random_state=seed)
        X = np.zeros((N_SAMPLES, 2))
        X[:, 0] = scale * (-1.0) ** np.arange(N_SAMPLES)
        X[-1] = [1.0, 0.0]
        opposite, empty = X.copy(), X.copy()
        opposite[-1], empty[-1] = [-1.0, 0.0], [0.0, 0.0]
        for neighbour in (opposite, empty) if adjacency == Adjacency.REPLACE_ONE else (empty,):
            losses.append(replay(model.fit, X, neighbour))
    names = ["mean"] * with_mean + ["counts"] * (len(losses[0]) - with_mean)
    title = "PrivateScaler" if with_mean else "PrivateScaler with_mean=False"
    return replayed(
        title, names, adjacency, gaussian_parts(model.mechanism_), model.privacy_.mu, losses
    )


def maps(adjacency):
    """Return the losses of the scaler's other releases: of private ranges, and of equalizing."""
    X = np.tile([0.8, 0.6], (N_SAMPLES, 1))
    weight = np.ones(N_SAMPLES)
    long, empty = X[-1], np.zeros(2)
    changes = [(long, -long, 1.0), (long, empty, 1.0)]
    if adjacency == Adjacency.ADD_REMOVE:
        changes = [(long, long, 0.0), (empty, empty, 0.0)]  # a record that is not there
    for name, options, n_parts in (
        ("bounds='private': ranges", {"bounds": "private", "crude_bounds": (-1, 1)}, 2 * 6),
        ("equalize=True: map", {"equalize": True}, None),
    ):
        losses = []
        for seed, (row, another, of_last) in product(range(5), changes):
            model = PrivateScaler(**BUDGET, **options, adjacency=adjacency, random_state=seed)

            def run(data, model=model):
                rows_of = lambda X, *_: LocalRows(X, weight=data[1])  # noqa: E731
                with patch.object(preprocessing, "rows_of", rows_of):
                    model.fit(data[0])

            data = np.vstack([X[:-1], row]), weight
            neighbour = np.vstack([X[:-1], another]), np.append(weight[:-1], of_last)
            loss = replay(run, data, neighbour)
            losses.append(loss[:n_parts])
        parts = gaussian_parts(model.mechanism_)[:n_parts]
        names = [name.split(": ")[-1]] * len(parts)
        title = f"PrivateScaler {name.split(':')[0]}"
        yield from replayed(title, names, adjacency, parts, model.privacy_.mu, losses)


def evaluations(adjacency):
    """Return the losses of evaluations of public models on a record that is scored at its best or
    its worst, and of one that is not there.
    """
    X = np.linspace(-1, 1, N_SAMPLES)[:, None]
    binary = LogisticRegression(C=1e4).fit(X, X[:, 0] > 0)
    three = LogisticRegression(C=1e4).fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
    line = LinearRegression().fit(X, X[:, 0])
    cases = {
        "two classes": (binary, {}, (-1.0, False), (1.0, True), ("cells", "histogram")),
        "three classes": (three, {}, (-1.0, 0), (1.0, 0), ("counts", "log loss")),
        "regression": (line, {"target_bounds": (-1, 1)}, (-1.0, -1.0), (-1.0, 1.0), ("sums",)),
    }
    for title, (model, options, right, wrong, names) in cases.items():
        rows, targets = (np.repeat(column, N_SAMPLES) for column in wrong)

        results = []

        def run(data, model=model, options=options, results=results):
            results.append(evaluate(model, *data, **BUDGET, **options, adjacency=adjacency))

        changed = rows[:-1, None], targets[:-1]
        if adjacency == Adjacency.REPLACE_ONE:
            changed = (np.append(rows[:-1], right[0])[:, None], np.append(targets[:-1], right[1]))
        losses = [replay(run, (rows[:, None], targets), changed)]
        record = results[0].mechanism_
        parts = [composition(part) for part in getattr(record, "mechanisms", (record,))]
        total = results[0].privacy_.mu
        yield from replayed(f"evaluate {title}", names, adjacency, parts, total, losses)


def scores_of_search():
    """Return the loss of the score of a trial, where a record that is held out is scored right or
    wrong.
    """
    X, y = np.tile([1.0], (N_SAMPLES, 1)), np.ones(N_SAMPLES, dtype=int)
    held = np.arange(N_SAMPLES // 2, N_SAMPLES)
    search = PrivateSearchCV(
        PrivateLogisticRegression(classes=[0, 1], solver="output_perturbation"),
        {"clip": [0.5]},
        epsilon=3.0,
        delta=BUDGET["delta"],
        expected_trials=1,
        holdout=held,
        random_state=0,
    )
    neighbour = y.copy()
    neighbour[-1] = 0
    loss = replay(lambda labels: search.fit(X, labels), y, neighbour)[-1]  # trials come before
    adjacency = Adjacency.REPLACE_ONE
    yield Row("PrivateSearchCV: a score", adjacency, search._plan(len(X), X, {}).score_mu, loss)


def default(adjacency):
    """Return the losses of a whole fit of the default: of what it learns of rows, of all its
    steps, and of all.
    """
    model = PrivateLogisticRegression(**BUDGET, adjacency=adjacency, classes=[0, 1], random_state=0)
    pairs = []
    # the changed record: with or against the label of others like it, long or short
    for length, label in product((1.0, 0.01), (0, 1)):
        neighbours = [([length, 0.0], label, 0.0)]  # a record that is not there
        if adjacency == Adjacency.REPLACE_ONE:
            changes = [([0.0, 1.0], 1 - label), ([-length, 0.0], label), ([length, 0.0], 1 - label)]
            neighbours = [(*change, 1.0) for change in changes]
        data = table_of(1, [length, 0.0], label)
        pairs += [
            (data, table_of(1, row, other, weight=weight)) for row, other, weight in neighbours
        ]
    yield from replayed_fit("default", model, pairs)


def with_targets(adjacency):
    """Return the losses of whole fits that learn about targets too, diagnostics included.

    Rows as in `default`. Targets are beyond their bounds where the changed record has a large one.
    """
    given = BUDGET | {"adjacency": adjacency, "diagnostics": True, "random_state": 0}
    models = {
        "PrivateRidge": (PrivateRidge(**given, target_bounds=(-1, 1)), -2.0),
        "PrivatePoissonRegressor": (PrivatePoissonRegressor(**given, target_bounds=(0, 4)), 0.0),
    }
    for title, (model, least) in models.items():
        pairs = []
        for length, target in product((2.0, 1.0, 0.01), (least, 5.0)):
            neighbours = [([length, 0.0], target, 0.0)]  # a record that is not there
            if adjacency == Adjacency.REPLACE_ONE:
                changes = [([0.0, 1.0], 3.0 + least - target), ([-length, 0.0], target)]
                changes += [([length, 0.0], 5.0 + least - target), ([0.001, 0.0], 1.0)]
                neighbours = [(*change, 1.0) for change in changes]
            data = table_of(1, [length, 0.0], target)
            pairs += [
                (data, table_of(1, row, other, weight=weight)) for row, other, weight in neighbours
            ]
        yield from replayed_fit(title, model, pairs)


def whole_fits(adjacency):
    """Return the losses of fits of persons, sparse rows, classes, class weights and exposures.

    One person of 2,000 has 5 rows, and 100 rows across in the neighbour; of other fits a record
    changes in all that it has. Under add_remove the weights of their rows are 0.
    """
    given = BUDGET | {"adjacency": adjacency, "random_state": 0}
    binary = PrivateLogisticRegression(**given, classes=[0, 1])
    cases = {
        "persons": (binary, 5, 100),
        "sparse rows": (binary, 1, 1),
        "PrivateSoftmaxRegression": (PrivateSoftmaxRegression(**given, classes=[0, 1, 2]), 1, 1),
        "class_weight='private'": (clone(binary).set_params(class_weight="private"), 1, 1),
        "exposures": (PrivatePoissonRegressor(**given, target_bounds=(0, 4)), 1, 1),
    }
    for title, (model, here, there) in cases.items():
        pairs = []
        for length, label in product((2.0, 0.01), (0, 1)):
            data = table_of(here, [length, 0.0], label, 0.5)
            if adjacency == Adjacency.REPLACE_ONE:
                rows = [0.0, 2.0], [-length, 0.0]
                neighbours = [table_of(there, row, 1 - label, 2.0) for row in rows]
            else:
                neighbours = [table_of(here, [length, 0.0], label, 0.5, weight=0.0)]
            pairs += [(data, other) for other in neighbours]
        yield from replayed_fit(title, model, pairs, learnt="learnt")


def replayed_fit(title, model, pairs, learnt=None):
    """Return the losses of whole fits: of each part that is learnt, or of all of them by the name
    ``learnt``; of all steps; and of all.
    """

    def run(data):
        X, y, exposure, weight = data
        codes = np.minimum(np.arange(len(y)), WHOLE - 1)
        fit = {"groups": codes} if title == "persons" else {}
        fit |= {"exposure": exposure} if title == "exposures" else {}
        all_of = lambda *given, **more: rows_of(*given, **more).weighted_by(weight)  # noqa: E731
        X = sparse.csr_array(X) if title == "sparse rows" else X
        with patch.object(reading, "rows_of", all_of):
            model.fit(X, y, **fit)

    losses = [replay(run, *pair) for pair in pairs]
    training, parts, names = model.mechanism_[TRAINING], [], []
    for name, part in zip(model.mechanism_.names, model.mechanism_.mechanisms, strict=True):
        if name == TRAINING:
            step = Gaussian(noise_multiplier=part.noise_multiplier, adjacency=model.adjacency)
            n_steps = getattr(part, "n_steps", 1)  # one release of sums, where there are none
            parts += [composition(step)] * n_steps
            names += ["steps"] * n_steps
        else:
            parts.append(composition(part))
            names.append(learnt or name)
    losses = [one for one in losses if len(one) == len(parts)]  # steps follow from what was learnt
    if title == "default":
        title = f"default, momentum={training.momentum:.2f}"
    return replayed(title, names, model.adjacency, parts, model.privacy_.mu, losses)


def table_of(n_rows, row, label, exposure=1.0, weight=1.0):
    """Return rows, labels, exposures and weights, of which the last ``n_rows`` are as said."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.choice([-0.5, 0.5], WHOLE), rng.uniform(-0.1, 0.1, WHOLE)])[:-1]
    y, last = (X[:, 0] > 0).astype(int), np.arange(WHOLE - 1 + n_rows) >= WHOLE - 1
    X, y = np.vstack([X, np.tile(row, (n_rows, 1))]), np.append(y, np.full(n_rows, label))
    return X, y, np.where(last, exposure, 1.0), np.where(last, weight, 1.0)


def exact():
    """Return the rows of the first table, one after the other."""
    for adjacency in Adjacency:
        for name, options in NORMAL:
            yield normal_release(name, options, adjacency)
        yield normal_release("noisy_gd", {}, adjacency, top=TOP)
        yield normal_release(*NORMAL[0], adjacency, persons=(5, 100))
        yield from whole_fits(adjacency)
        yield from default(adjacency)
        yield from with_targets(adjacency)
        yield from statistics(adjacency)
        yield from scaler(adjacency, True)
        yield from scaler(adjacency, False)
        yield from maps(adjacency)
        yield from evaluations(adjacency)
    yield from scores_of_search()


def canary(name, options, adjacency, n_runs):
    """Return the lower bound on epsilon that a canary shows of a whole fit."""
    model = PrivateLogisticRegression(
        8.0, BUDGET["delta"], classes=[0, 1], adjacency=adjacency, **options
    )
    found = audit(model, (20, 2), kind="canary", n_trials=n_runs).findings[-1]
    return Row(name, adjacency, found.claimed, found.measured)


def as_text(rows):
    """Return a table in columns."""
    lines = [HEAD, *(row.cells for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def as_rst(rows):
    """Return a table of a page."""
    lines = (
        ", ".join(f'"{cell}"' if "," in cell else cell or '""' for cell in line)
        for line in (HEAD, *(row.cells for row in rows))
    )
    return ".. csv-table::\n   :header-rows: 1\n   :widths: auto\n\n" + "\n".join(
        f"   {line}" for line in lines
    )


PAGE = """Audits
======

``skdpdyn.audit.audit`` compares what a model, or a configuration, claims to leak at most with what
its worst neighbours show. It makes up its own data, and is given none.

.. code-block:: pycon

   >>> from skdpdyn import PrivateLogisticRegression
   >>> from skdpdyn.audit import audit
   >>> model = PrivateLogisticRegression(3.0, 1e-2, classes=[0, 1], conditioning=0.3)
   >>> found = audit(model, (100, 4))
   >>> found.passed
   True

``print(found)`` is a table of the parts, and ``found.plot()`` draws it;
``examples/tasks/plot_audit.py``, in the gallery, plants a fault and finds it.

**A replay** (``kind="replay"``) records what is handed to the one function that releases, repeats
the outcomes on neighbours, and compares how far each release moves, in units of its noise, with
what its part of the record allows. It also draws from each noise, and compares its size with what
it says. It is exact, and names the part. Of steps that are not shown it sees the distance, and not
the noise; and it sees nothing of a linear term that is not released, as in objective perturbation,
which it refuses.

**A canary** (``kind="canary"``) is a black box: many fits with a record and with its neighbour,
an attack by a line that is chosen on some of them, and rates on others, with bounds of Clopper and
Pearson (1934). Of a Gaussian claim, epsilon is that of the Gaussian curve through these rates. It
sees all that a fit publishes, whatever went wrong; but it is a lower bound, which takes about
``40 / mu**2`` fits to see that a mu is twice what it claims.

A test holds every way out of the package against the law of replays, and planted faults (noise
halved, a projection left out) are found by both kinds. To audit a release of your own, give
``skdpdyn.audit.replayed`` a function of a data set.

Exact losses
------------

``python -m benchmarks audit --rst doc/audit.rst`` writes this page. Claim and loss as mu of
Gaussian differential privacy, at epsilon = 1 and delta = 0.01. Solvers of steps and output
perturbation learn a loss whose gradient does not depend on the parameters, so that what they
release is normal; the loss is the distance of two runs with a billionth of the noise, over the
standard deviation of the coordinates that hold noise alone (a standard error of 0.5 %).
``noisy_gd`` with equal steps attains its claim: the bound is that of the last iterate, and no
smaller one is true. With momentum it pays for every step, and the last iterate alone, which is what
a fit releases, shows less. All else is replayed: what is learnt of rows and targets, diagnostics,
every step; fits of persons, sparse rows, several classes, private class weights and exposures.
Under add_remove all the statistics of the first two attain their claims together; under replace_one
no pair moves all of them as far as it can move one. Evaluations attain their claims under both. Of
a table of intervals the scores move less: the residuals of such records are far from their bound.

{exact}

Canaries
--------

Claim and loss as epsilon at delta = 0.01, of whole fits to 20 records of two columns, {n_runs:,}
with the canary and {n_runs:,} with its neighbour, at a confidence of 0.999: a lower bound on what
leaks.

{canaries}
"""


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200, help="with and without each canary")
    parser.add_argument("--rst", type=Path, help="file for the page")
    arguments = parser.parse_args(argv)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)  # of seeds
        first = list(exact())
        print("mu\n" + as_text(first), flush=True)
        second = [
            canary(name, options, adjacency, arguments.runs)
            for adjacency, (name, options) in product(Adjacency, CANARIES.items())
        ]
    print("\nepsilon\n" + as_text(second))
    if arguments.rst:
        arguments.rst.write_text(
            PAGE.format(exact=as_rst(first), canaries=as_rst(second), n_runs=arguments.runs)
        )
