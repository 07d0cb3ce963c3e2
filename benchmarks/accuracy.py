"""Accuracy on real data: mean and standard deviation over random splits, for any solver and budget.

Run ``python -m benchmarks accuracy`` for the defaults of noisy gradient descent on every data set, with ``--dataset`` for some of
them. ``--compare`` runs every solver at epsilon 0.01 to 10 instead, ``--grid`` adds the best of nine settings of each, chosen by
the very scores that are shown: not private, an upper bound on what tuning could give, as generous to rivals as to ours. ``--csv``
and ``--figure`` keep the results. Where Table 4 of Yu et al. (2020) has a figure, it is printed beside ours.

Adult comes with the package; the other data sets are read from the directory ``--data``, and those that are not there are
skipped aloud. 80/20 splits by ``np.random.default_rng(seed).permutation(n)``, one noise a split from the operating system's
entropy, delta = 1/n_train^2, columns scaled by public bounds, one-hot categories, no intercept column of their own. Seconds are
those of the median fit.
"""

import argparse
import csv
import itertools
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from functools import partial, reduce
from pathlib import Path

import numpy as np
from scipy import optimize, sparse
from sklearn.base import BaseEstimator, ClassifierMixin, is_classifier
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import OneHotEncoder, normalize

from skdpdyn import PrivateLogisticRegression, PrivateRidge, PrivateSoftmaxRegression
from skdpdyn.datasets import load_adult
from skdpdyn.exceptions import CalibrationError, UnsupportedMechanismError
from skdpdyn.preprocessing import BoundsScaler
from skdpdyn.privacy import Adjacency
from skdpdyn.solvers import SOLVERS

EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
ONE_VS_REST = ("output_perturbation", "objective_perturbation")
RIDGES = [Ridge(alpha) for alpha in np.logspace(-4, 3, 15)]
ALPHAS, CLIPS = (0.1, 1.0, 10.0), (0.5, 1.0, 2.0)  # of the defaults: the grid
PUBLISHED = {  # Yu et al. (2020), Table 4: epsilon 0.1 on Adult, 1 on MNIST, where rivals are one-vs-rest
    ("Adult", 0.1): {"noisy_gd": 0.809, "dp_sgd": 0.804, "objective_perturbation": 0.793, "output_perturbation": 0.774},
    ("MNIST", 1.0): {
        "noisy_gd": 0.886,
        "dp_sgd": 0.875,
        "objective_perturbation one-vs-rest": 0.719,
        "output_perturbation one-vs-rest": 0.694,
    },
}

HOUSING_BOUNDS = {
    "longitude": (-125, -114),
    "latitude": (32, 42),
    "housingMedianAge": (0, 52),
    "totalRooms": (0, 40_000),
    "totalBedrooms": (0, 7_000),
    "population": (0, 40_000),
    "households": (0, 7_000),
    "medianIncome": (0, 15),
}


@dataclass
class Problem:
    """Rows and targets, the private model with what is public about them, and models that are not private to compare with."""

    title: str
    X: np.ndarray
    y: np.ndarray
    private: Callable
    not_private: list
    rows: Callable = lambda X: X  # of the models that are not private
    epsilons: tuple = (1.0,)
    n_splits: int = 20
    n_splits_not_private: int = 3
    one_vs_rest: range | None = None  # labels, where the rivals' papers trained a binary model for each


def adult_columns(data, bounds):
    """Rows of Adult: the columns in ``bounds`` scaled by them, and one for each category."""
    columns = make_column_transformer(
        (BoundsScaler(bounds), list(bounds)),
        (OneHotEncoder(categories=list(data.categories.values()), sparse_output=False), list(data.categories)),
    )
    return columns.fit_transform(data.data)


def adult(directory):
    """Adult by public bounds: 45,222 x 105, and whether the income is above 50,000."""
    data = load_adult()

    def private(**budget):
        return PrivateLogisticRegression(classes=[False, True], **budget)

    X, y = adult_columns(data, data.bounds), (data.target == ">50K").to_numpy()
    return Problem("Adult", X, y, private, [LogisticRegression(C=1e3, max_iter=5000)], normalize, (0.1, 1.0))


def adult_age(directory):
    """The age in Adult from all other columns but the income: 45,222 x 104."""
    data = load_adult()
    bounds = dict(data.bounds)
    target_bounds = bounds.pop("age")

    def private(**budget):
        return PrivateRidge(target_bounds=target_bounds, **budget)

    X, y = adult_columns(data, bounds), data.data["age"].to_numpy(float)
    return Problem("Adult, age, R^2", X, y, private, RIDGES, normalize, (0.1, 1.0))


def mnist(directory):
    """All 70,000 digits; their pixels are far outside the unit ball, so that data_norm=1 makes unit rows of them."""
    with np.load(directory / "mnist.npz") as data:
        X = np.concatenate([data["X_train"], data["X_test"]]).reshape(-1, 784).astype(np.float32)
        y = np.concatenate([data["y_train"], data["y_test"]]).astype(int)

    def private(**budget):
        return PrivateSoftmaxRegression(classes=range(10), **budget)

    baseline = LogisticRegression(C=3, tol=1e-5, max_iter=1000)
    return Problem("MNIST", X, y, private, [baseline], normalize, n_splits=5, n_splits_not_private=1, one_vs_rest=range(10))


def housing(directory):
    """California housing by public bounds."""
    with np.load(directory / "california_housing.npz") as data:
        X, y, names = data["X"], data["y"], data["feature_names"].tolist()

    def private(**budget):
        return PrivateRidge(target_bounds=(0, 500_001), **budget)

    X = BoundsScaler([HOUSING_BOUNDS[name] for name in names]).fit_transform(X)
    return Problem("California housing, R^2", X, y, private, RIDGES, n_splits_not_private=20)


def newsgroups(directory, target, private):
    """Log counts of words, CSR; the vocabulary counts as public."""
    path = directory / "newsgroups20_counts.npz"
    X, y = sparse.csr_array(sparse.load_npz(path)).astype(np.float64).log1p(), np.load(path)[target]
    baseline = LogisticRegression(C=100, tol=1e-3, max_iter=1000)
    return Problem("20 Newsgroups", X, y, private, [baseline], normalize, (1.0, 3.0), 5, 1)


def newsgroups_binary(directory):
    problem = newsgroups(directory, "y", lambda **budget: PrivateLogisticRegression(classes=[-1, 1], **budget))
    problem.title += " in two classes"
    return problem


def newsgroups_groups(directory):
    problem = newsgroups(directory, "y_group", lambda **budget: PrivateSoftmaxRegression(classes=range(20), **budget))
    problem.title += " in 20 classes"
    return problem


DATASETS = {
    "adult": adult,
    "mnist": mnist,
    "housing": housing,
    "adult_age": adult_age,
    "newsgroups": newsgroups_binary,
    "newsgroups20": newsgroups_groups,
}


def splits(n_samples, n_splits):
    """Training and test rows of each split."""
    for seed in range(n_splits):
        order = np.random.default_rng(seed).permutation(n_samples)
        n_train = int(0.8 * n_samples)
        yield order[:n_train], order[n_train:]


def log_loss(model, X, y):
    """Mean log loss of a classifier, nan of a regressor."""
    if not is_classifier(model):
        return np.nan
    return -np.mean(model.predict_log_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)])


class OneVsRest(ClassifierMixin, BaseEstimator):
    """Ten binary models in place of a joint one, which together cost (epsilon, delta): what the rivals' papers do."""

    def __init__(self, classes, epsilon, adjacency, solver):
        self.classes = classes
        self.epsilon = epsilon
        self.adjacency = adjacency
        self.solver = solver

    def fit(self, X, y):
        """Train the binary models, each at an equal share of the budget."""
        self.classes_ = np.asarray(self.classes)
        delta, shape = 1 / len(y) ** 2, X.shape

        def binary(log_epsilon):
            options = {"solver": self.solver, "adjacency": self.adjacency, "classes": [False, True]}
            return PrivateLogisticRegression(math.exp(log_epsilon), delta, **options)

        def excess(log_epsilon):
            costs = [binary(log_epsilon).privacy_cost(*shape)] * self.classes_.size
            return math.log(reduce(lambda one, other: one.compose(other), costs).epsilon(delta) / self.epsilon)

        equal = math.log(self.epsilon / self.classes_.size)
        share = optimize.brentq(excess, equal - 0.1, equal + math.log(self.classes_.size), xtol=1e-4) - 1e-4
        self.models_ = [binary(share).fit(X, y == label) for label in self.classes_]
        return self

    def predict_log_proba(self, X):
        """Logarithms of the class probabilities, normalised."""
        log_odds = np.column_stack([model.predict_log_proba(X)[:, 1] for model in self.models_])
        return log_odds - np.logaddexp.reduce(log_odds, axis=1, keepdims=True)

    def predict(self, X):
        """The class whose model is the surest."""
        return self.classes_[np.argmax(self.predict_log_proba(X), axis=1)]


@dataclass
class Result:
    """One row: a way to train, and what it reached."""

    data: str
    solver: str
    adjacency: str
    epsilon: float
    setting: str
    score: float
    score_std: float
    log_loss: float = math.nan
    splits: int = 0
    seconds: float = math.nan
    bound: str = ""
    steps: int | str = ""
    alpha: float = math.nan
    clip: float = math.nan

    HEAD = (
        f"{'solver':>34} {'adjacency':>12} {'epsilon':>8} {'setting':>13} {'score':>8} {'+-':>7} {'log loss':>9} {'steps':>6} "
        f"{'seconds':>8}  bound"
    )

    def __str__(self):
        return (
            f"{self.solver:>34} {self.adjacency:>12} {self.epsilon:>8g} {self.setting:>13} {self.score:>8.4f} "
            f"{self.score_std:>7.4f} {self.log_loss:>9.4f} {self.steps!s:>6} {self.seconds:>8.2f}  {self.bound}"
        )


def measure(problem, make, pairs, **labels):
    """Fit on every split: the Result, or the error that says why this way to train does not exist."""
    scores, losses, seconds = [], [], []
    for train, test in pairs:
        model, rows = make(), problem.X[train]
        start = time.perf_counter()
        try:
            model.fit(rows, problem.y[train])
        except (ValueError, UnsupportedMechanismError, CalibrationError, RuntimeError) as error:
            return error
        seconds.append(time.perf_counter() - start)
        scores.append(model.score(problem.X[test], problem.y[test]))
        losses.append(log_loss(model, problem.X[test], problem.y[test]))
    chosen = {"bound": "bound_", "steps": "n_iter_", "alpha": "alpha_", "clip": "clip_"}
    chosen = {name: getattr(model, attribute) for name, attribute in chosen.items() if hasattr(model, attribute)}
    summary = {"score": np.mean(scores), "score_std": np.std(scores), "log_loss": np.mean(losses), "seconds": np.median(seconds)}
    return Result(data=problem.title, splits=len(pairs), **labels, **summary, **chosen)


def grid(default):
    """The settings around the default of a solver."""
    for alpha, clip in itertools.product(ALPHAS, CLIPS):
        if (alpha, clip) != (1, 1):
            yield {"alpha": default.alpha * alpha, "clip": default.clip * clip}


def run(problem, solvers, epsilons, adjacencies, n_splits, with_grid):
    """Every solver at every budget, and the models that are not private."""
    print(f"\n{problem.title}: {problem.X.shape[0]} x {problem.X.shape[1]}, {n_splits} splits\n{Result.HEAD}", flush=True)
    pairs = list(splits(len(problem.y), n_splits))
    ways = [(solver, None) for solver in solvers]
    ways += [(solver, problem.one_vs_rest) for solver in ONE_VS_REST if problem.one_vs_rest is not None and solver in solvers]
    for adjacency, epsilon, (solver, labels) in itertools.product(adjacencies, epsilons, ways):
        budget = {"epsilon": epsilon, "adjacency": adjacency, "solver": solver}
        row = budget | {"solver": solver if labels is None else f"{solver} one-vs-rest"}
        private = problem.private if labels is None else partial(OneVsRest, labels)
        default = measure(problem, partial(private, **budget), pairs, **row, setting="default")
        if isinstance(default, Exception):
            print(f"{solver:>34} {adjacency:>12} {epsilon:>8g}  skipped: {str(default).splitlines()[0]}", flush=True)
            continue
        print(default, flush=True)
        yield default
        if with_grid and labels is None:
            settings = [partial(private, **budget, **setting) for setting in grid(default)]
            tried = [measure(problem, make, pairs, **row, setting="best of grid") for make in settings]
            tried = [result for result in tried if isinstance(result, Result)]
            best = max([default, *tried], key=lambda result: result.score)
            print(best := replace(best, setting="best of grid"), flush=True)
            yield best
    pairs, rows = pairs[: problem.n_splits_not_private], problem.rows(problem.X)
    fits = [
        [m.fit(rows[train], problem.y[train]).score(rows[test], problem.y[test]) for train, test in pairs]
        for m in problem.not_private
    ]
    best = max(fits, key=np.mean)
    print(
        best := Result(problem.title, "not private", "", math.inf, "", np.mean(best), np.std(best), splits=len(pairs)), flush=True
    )
    yield best


def print_tables(results):
    """A table for each data set, adjacency and setting: solvers by epsilons."""
    epsilons = sorted({r.epsilon for r in results if r.setting})
    for key in dict.fromkeys((r.data, r.adjacency, r.setting) for r in results if r.setting):
        rows = [r for r in results if (r.data, r.adjacency, r.setting) == key]
        scores = {(r.solver, r.epsilon): f"{r.score:.4f}" for r in rows}
        print(f"\n{', '.join(key):36}" + "".join(f"{epsilon:>8g}" for epsilon in epsilons))
        for solver in dict.fromkeys(r.solver for r in rows):
            print(f"{solver:36}" + "".join(f"{scores.get((solver, epsilon), ''):>8}" for epsilon in epsilons))


def print_published(results):
    """Table 4 of Yu et al. (2020) beside ours."""
    print("\nYu et al. (2020), Table 4, tuned, beside ours:")
    for result in results:
        published = PUBLISHED.get((result.data, result.epsilon), {}).get(result.solver)
        if published is not None:
            print(
                f"{result.data:>8} {result.solver:>34} {result.adjacency:>12} {result.setting:>13} {published:>8.3f} "
                f"{result.score:>8.4f} {result.score - published:>+8.4f}"
            )


def print_margins(results):
    """Where noisy gradient descent wins and loses against the best rival, default against default, best against best."""
    print("\nnoisy_gd less the best of the other solvers:")
    for key, group in itertools.groupby(
        sorted((r for r in results if r.setting), key=lambda r: (r.data, r.adjacency, r.setting, r.epsilon)),
        key=lambda r: (r.data, r.adjacency, r.setting, r.epsilon),
    ):
        group = {result.solver: result for result in group}
        ours = group.pop("noisy_gd", None)
        if ours and group:
            rival = max(group.values(), key=lambda result: result.score)
            print(f"{key[0]:>34} {key[1]:>12} {key[2]:>13} {key[3]:>8g} {ours.score - rival.score:>+8.4f}  {rival.solver}")


def draw(results, path):
    """Score against epsilon, a panel a data set and adjacency, as in Figure 2 of Yu et al. (2020)."""
    import matplotlib.pyplot as plt

    plt.switch_backend("Agg")
    panels = sorted({(r.data, r.adjacency) for r in results if r.adjacency})
    figure, axes = plt.subplots(1, len(panels), figsize=(1 + 3.6 * len(panels), 3.8), layout="constrained", squeeze=False)
    names = list(dict.fromkeys(r.solver for r in results if r.adjacency))
    for axis, (data, adjacency) in zip(axes.ravel(), panels, strict=True):
        for color, name in enumerate(names):
            for setting, style in (("default", "o-"), ("best of grid", ":")):
                rows = [r for r in results if (r.data, r.adjacency, r.solver, r.setting) == (data, adjacency, name, setting)]
                label = name if setting == "default" else None
                axis.plot([r.epsilon for r in rows], [r.score for r in rows], style, color=f"C{color}", markersize=4, label=label)
        for r in results:
            if r.data == data and not r.adjacency:
                axis.axhline(r.score, color="0.5", linestyle="--", label="not private")
        axis.set(title=f"{data}, {adjacency}", xlabel="epsilon", xscale="log")
        low = [r.score for r in results if r.data == data]
        axis.set_ylim(max(min(low), np.median(low) - 0.3), max(low) + 0.02)
    axes[0, 0].set_ylabel("score on held-out data")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False)
    figure.savefig(path, dpi=120)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", nargs="+", default=list(DATASETS), choices=DATASETS)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--solver", nargs="+", choices=SOLVERS, help="default: noisy_gd; all with --compare")
    parser.add_argument("--epsilon", type=float, nargs="+", help="default: what is customary for the data set")
    parser.add_argument("--adjacency", nargs="+", choices=list(Adjacency), help="default: replace_one; both with --compare")
    parser.add_argument("--splits", type=int, help="default: 20, or 5 of the larger data sets")
    parser.add_argument("--compare", action="store_true", help="every solver, both adjacencies, epsilon 0.01 to 10")
    parser.add_argument("--grid", action="store_true", help="the best of nine settings too: not private")
    parser.add_argument("--csv", type=Path, help="file for the results")
    parser.add_argument("--figure", type=Path, help="file for the figure")
    arguments = parser.parse_args(argv)
    compare = arguments.compare
    solvers = arguments.solver or (list(SOLVERS) if compare else ["noisy_gd"])
    adjacencies = arguments.adjacency or (list(Adjacency) if compare else [Adjacency.REPLACE_ONE])
    results = []
    for name in arguments.dataset:
        try:
            problem = DATASETS[name](arguments.data)
        except FileNotFoundError as error:
            print(f"\nSKIPPED {name}: no file {error.filename}; say where it is by --data")
            continue
        epsilons = arguments.epsilon or (EPSILONS if compare else problem.epsilons)
        n_splits = arguments.splits or problem.n_splits
        results += run(problem, solvers, epsilons, adjacencies, n_splits, arguments.grid)
        if arguments.csv:
            with arguments.csv.open("w", newline="") as file:
                writer = csv.DictWriter(file, [f.name for f in fields(Result)])
                writer.writeheader()
                writer.writerows(asdict(result) for result in results)
    print_tables(results)
    print_published(results)
    print_margins(results)
    if arguments.figure:
        draw(results, arguments.figure)
