"""Accuracy on real data, all defaults: mean and standard error over random splits, beside the
goals.

``python -m benchmarks accuracy --data DIR`` trains the defaults of the estimators on every data
set, under both adjacencies, at epsilon 0.1 and 1. A quick look: ``--only magic adult --splits 3
--epsilon 1``. Goals are those of the table GOALS below.

80/20 splits by ``np.random.default_rng(split).permutation(n)``, 20 of them (5 of the large data
sets), a noise of its own for each, whose seed is the number of the split; delta = 1/n_train^2.
Columns are scaled to [0, 1] by public bounds, categories are one-hot with all known codes, rows are
made unit rows (but those of the ridge on California), and the estimators fit their intercept. Of
two classes the table has, beside score and log loss, the area under the curve (AUC), the expected
calibration error by ten equal bins (ECE), mean probability over prevalence (ratio) and Brier's
score. Adult comes with the package; the other data sets are read from the directory ``--data``, and
those that are not there are skipped aloud. Seconds are those of the median fit, on one thread.

``--ablation`` trains without conditioning too, and shows the paired differences. ``--rows`` trains
on the first rows of each training part only. ``--csv FILE`` keeps the scores of every split, and
``--against FILE``, kept by another commit, shows the paired differences. ``--compare`` runs every
solver at epsilon 0.01 to 10, and ``--grid`` adds the best of nine settings of each, chosen by the
very scores that are shown: not private, an upper bound on what tuning could give, as generous to
rivals as to ours. Where Table 4 of Yu et al. (2020) has a figure, it is printed beside ours.
"""

import argparse
import csv
import itertools
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from functools import partial, reduce
from pathlib import Path

import numpy as np
from scipy import optimize, sparse
from sklearn.base import BaseEstimator, ClassifierMixin, is_classifier
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import OneHotEncoder, normalize

from skdpdyn import PrivateLogisticRegression, PrivateRidge, PrivateSoftmaxRegression
from skdpdyn.datasets import load_adult, load_flights
from skdpdyn.exceptions import (
    CalibrationError,
    PrivacyLeakWarning,
    UnsupportedMechanismError,
)
from skdpdyn.preprocessing import BoundsScaler
from skdpdyn.privacy import Adjacency
from skdpdyn.solvers import SOLVERS

# name: {epsilon: (replace_one, add_remove)}: at least that score, of flights at most that log loss
GOALS = {
    "flights": {0.1: (0.540, 0.535), 1.0: (0.510, 0.509)},
    "magic": {0.1: (0.775, 0.784), 1.0: (0.814, 0.817)},
    "adult": {0.1: (0.817, 0.826), 1.0: (0.841, 0.843)},
    "california": {0.1: (0.793, 0.803), 1.0: (0.820, 0.820)},
    "newsgroups": {0.1: (0.690, 0.765), 1.0: (0.868, 0.902)},
    "mnist": {1.0: (0.890, 0.901)},
    "housing": {0.1: (0.58, 0.60)},
}
BY_LOG_LOSS = ("flights",)
OF_NOT_PRIVATE = {("housing", 1.0): 0.01}  # the goal is what is not private, less this
# Yu et al. (2020), Table 4: epsilon 0.1 on Adult, 1 on MNIST, where rivals are one-vs-rest
PUBLISHED = {
    ("adult", 0.1): {
        "noisy_gd": 0.809,
        "dp_sgd": 0.804,
        "objective_perturbation": 0.793,
        "output_perturbation": 0.774,
    },
    ("mnist", 1.0): {
        "noisy_gd": 0.886,
        "dp_sgd": 0.875,
        "objective_perturbation one-vs-rest": 0.719,
        "output_perturbation one-vs-rest": 0.694,
    },
}

EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # of --compare
ONE_VS_REST = ("output_perturbation", "objective_perturbation")
RIDGES = [Ridge(alpha) for alpha in np.logspace(-4, 3, 15)]
LOGISTIC = [LogisticRegression(C=1e3, max_iter=5000)]
# where few columns are far apart in scale
NEWTON = [LogisticRegression(C=1e5, solver="newton-cholesky")]
ALPHAS, CLIPS = (0.1, 1.0, 10.0), (0.5, 1.0, 2.0)  # of the defaults: the grid
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

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
MAGIC_BOUNDS = [  # fLength, fWidth, fSize, fConc, fConc1, fAsym, fM3Long, fM3Trans, fAlpha, fDist
    *[(0, 400), (0, 300), (1, 6), (0, 1), (0, 1)],
    *[(-500, 600), (-400, 300), (-300, 300), (0, 90), (0, 500)],
]


@dataclass
class Problem:
    """Unit rows and targets, the private model with what is public of them, and models to
    compare with.
    """

    title: str
    X: np.ndarray
    y: np.ndarray
    private: Callable
    not_private: list
    epsilons: tuple = (0.1, 1.0)
    n_splits: int = 20
    n_splits_not_private: int = 3
    # labels, where the rivals' papers trained a binary model for each
    one_vs_rest: range | None = None


def encoded(data, bounds, categories, dtype=np.float64):
    """Return unit rows: the columns in ``bounds`` scaled by them, and one for each category."""
    columns = make_column_transformer(
        (BoundsScaler(bounds), list(bounds)),
        (
            OneHotEncoder(categories=list(categories.values()), sparse_output=False),
            list(categories),
        ),
    )
    return normalize(columns.fit_transform(data).astype(dtype), copy=False)


def flights(directory, late=15):
    """Return flights, and whether one is more than so many minutes late: 327,346 x 129."""
    import pandas as pd

    known = load_flights()  # public bounds and codes
    data = pd.read_csv(directory / "flights.csv.gz", keep_default_na=False)
    for name in ("sched_dep_time", "sched_arr_time"):
        data[name] = data[name] // 100 * 60 + data[name] % 100
    X = encoded(data, known.bounds, known.categories, np.float32)
    y = (data["arr_delay"] > late).to_numpy()
    private = partial(PrivateLogisticRegression, classes=[False, True])
    title = f"Flights more than {late} minutes late"
    return Problem(title, X, y, private, LOGISTIC, n_splits=5, n_splits_not_private=1)


def flights60(directory):
    """Return the same flights, and whether one is more than an hour late: 8.3 % are."""
    return flights(directory, late=60)


def flights120(directory):
    """Return the same flights, and whether one is more than two hours late: 3.1 % are."""
    return flights(directory, late=120)


def magic(directory):
    """Return MAGIC, gamma or hadron: 19,020 x 10."""
    with np.load(directory / "magic_telescope.npz") as data:
        X, y = data["X"].astype(float), data["y"].astype(int)
    X = normalize(BoundsScaler(MAGIC_BOUNDS).fit_transform(X))
    return Problem("MAGIC", X, y, partial(PrivateLogisticRegression, classes=[0, 1]), NEWTON)


def pendigits(directory):
    """Return the pen digits, ten classes: 10,992 x 16."""
    with np.load(directory / "pendigits.npz") as data:
        X, y = normalize(data["X"] / 100.0), data["y"].astype(int)
    private = partial(PrivateSoftmaxRegression, classes=range(10))
    return Problem("Pen digits", X, y, private, LOGISTIC)


def adult(directory):
    """Return Adult by public bounds, 45,222 x 105, and whether income is above 50,000."""
    data = load_adult()
    X, y = encoded(data.data, data.bounds, data.categories), (data.target == ">50K").to_numpy()
    return Problem(
        "Adult", X, y, partial(PrivateLogisticRegression, classes=[False, True]), LOGISTIC
    )


def adult_age(directory):
    """Return the age in Adult from all other columns but the income: 45,222 x 104."""
    data = load_adult()
    bounds = dict(data.bounds)
    private = partial(PrivateRidge, target_bounds=bounds.pop("age"))
    X, y = encoded(data.data, bounds, data.categories), data.data["age"].to_numpy(float)
    return Problem("Adult, age, R^2", X, y, private, RIDGES)


def housing(directory):
    """Return houses in California: 20,640 x 8. Rows are not unit rows (best R^2 0.605, not
    0.630).
    """
    with np.load(directory / "california_housing.npz") as data:
        X, y, names = data["X"], data["y"], data["feature_names"].tolist()
    X = BoundsScaler([HOUSING_BOUNDS[name] for name in names]).fit_transform(X)
    private = partial(PrivateRidge, target_bounds=(0, 500_001))
    return Problem("California housing, R^2", X, y, private, RIDGES, n_splits_not_private=20)


def california(directory):
    """Return unit rows, and whether the value of a house is above 180,000 dollars."""
    problem = housing(directory)
    X, y = normalize(problem.X), problem.y > 180_000
    private = partial(PrivateLogisticRegression, classes=[False, True])
    return Problem("California above 180,000", X, y, private, NEWTON)


def mnist(directory):
    """Return all 70,000 digits of 28 x 28 pixels."""
    with np.load(directory / "mnist.npz") as data:
        X = np.concatenate([data["X_train"], data["X_test"]]).reshape(-1, 784).astype(np.float32)
        y = np.concatenate([data["y_train"], data["y_test"]]).astype(int)
    private = partial(PrivateSoftmaxRegression, classes=range(10))
    options = {"n_splits": 5, "n_splits_not_private": 1, "one_vs_rest": range(10)}
    baseline = LogisticRegression(C=3, tol=1e-5, max_iter=1000)
    return Problem("MNIST", normalize(X, copy=False), y, private, [baseline], **options)


def newsgroups(directory, target="y"):
    """Log counts of words, 18,846 x 29,312, CSR, in two classes; the vocabulary counts as
    public.
    """
    path = directory / "newsgroups20_counts.npz"
    X = normalize(sparse.csr_array(sparse.load_npz(path)).astype(np.float64).log1p())
    y = np.load(path)[target]
    if target == "y":
        title, private = (
            "20 Newsgroups in two classes",
            partial(PrivateLogisticRegression, classes=[-1, 1]),
        )
    else:
        title, private = (
            "20 Newsgroups in 20 classes",
            partial(PrivateSoftmaxRegression, classes=range(20)),
        )
    baseline = LogisticRegression(C=100, tol=1e-3, max_iter=1000)
    return Problem(title, X, y, private, [baseline], n_splits_not_private=1)


def newsgroups20(directory):
    """Return the same rows in 20 classes."""
    problem = newsgroups(directory, "y_group")
    problem.epsilons, problem.n_splits = (1.0, 3.0), 5
    return problem


DATASETS = {
    loader.__name__: loader
    for loader in (
        *[
            flights,
            flights60,
            flights120,
            magic,
            pendigits,
            adult,
            california,
            housing,
            newsgroups,
            mnist,
            adult_age,
            newsgroups20,
        ],
    )
}


def splits(n_samples, n_splits):
    """Return training and test rows of each split, one after the other."""
    for seed in range(n_splits):
        order = np.random.default_rng(seed).permutation(n_samples)
        n_train = int(0.8 * n_samples)
        yield order[:n_train], order[n_train:]


def log_loss(model, X, y):
    """Return the mean log loss of a classifier, nan of a regressor."""
    if not is_classifier(model):
        return np.nan
    return -np.mean(
        model.predict_log_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    )


def estimates(model, X, y):
    """Return what the probabilities of a classifier of two classes are worth.

    Area under the curve, expected calibration error by ten equal bins, mean probability over
    prevalence, and Brier score.
    """
    if not is_classifier(model) or len(model.classes_) > 2:
        return {}
    p, y = np.exp(model.predict_log_proba(X)[:, 1]), np.asarray(y) == model.classes_[1]
    bins = np.minimum((10 * p).astype(int), 9)
    off = np.bincount(bins, weights=p - y, minlength=10)
    return {
        "auc": roc_auc_score(y, p),
        "ece": np.abs(off).sum() / len(y),
        "ratio": p.mean() / y.mean(),
        "brier": np.mean((p - y) ** 2),
    }


class OneVsRest(ClassifierMixin, BaseEstimator):
    """Ten binary models in place of a joint one, which together cost (epsilon, delta): what the
    rivals' papers do.
    """

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
            return math.log(
                reduce(lambda one, other: one.compose(other), costs).epsilon(delta) / self.epsilon
            )

        equal = math.log(self.epsilon / self.classes_.size)
        share = (
            optimize.brentq(excess, equal - 0.1, equal + math.log(self.classes_.size), xtol=1e-4)
            - 1e-4
        )
        self.models_ = [binary(share).fit(X, y == label) for label in self.classes_]
        return self

    def predict_log_proba(self, X):
        """Return the logarithms of the class probabilities, normalised."""
        log_odds = np.column_stack([model.predict_log_proba(X)[:, 1] for model in self.models_])
        return log_odds - np.logaddexp.reduce(log_odds, axis=1, keepdims=True)

    def predict(self, X):
        """Return the class whose model is the surest."""
        return self.classes_[np.argmax(self.predict_log_proba(X), axis=1)]


@dataclass
class Score:
    """One fit: what was asked for, and what came of it. A row of the file of ``--csv``."""

    data: str
    rows: int  # trained on
    solver: str  # asked for
    adjacency: str
    epsilon: float
    setting: str
    split: int
    score: float
    log_loss: float
    seconds: float
    ran: str = ""  # the solver
    steps: int | str = ""
    alpha: float = math.nan
    clip: float = math.nan
    auc: float = math.nan
    ece: float = math.nan
    ratio: float = math.nan
    brier: float = math.nan

    @property
    def key(self):
        """What was asked for, as a file has it."""
        asked = (
            self.data,
            self.rows,
            self.solver,
            self.adjacency,
            self.epsilon,
            self.setting,
            self.split,
        )
        return tuple(map(str, asked))


def mean_and_error(values):
    """Return a mean and its standard error, nan of a single value."""
    values = np.asarray(values)
    return np.mean(values), np.std(values, ddof=1) / math.sqrt(
        values.size
    ) if values.size > 1 else math.nan


@dataclass
class Result:
    """One way to train, over all splits. What it was asked and told is that of the first."""

    fits: list[Score]
    goal: float | None = None
    earlier: dict = field(default_factory=dict)  # by key, of --against
    what: str = "earlier fits"  # those are

    HEAD = (
        f"{'model':<20} {'adjacency':>11} {'epsilon':>7} {'score':>7} {'+-':>6} {'log loss':>8} "
        f"{'+-':>6} {'AUC':>6} {'ECE':>6} {'ratio':>6} {'Brier':>6} {'goal':>13} {'seconds':>7} "
        f"{'steps':>5}"
    )

    def __getattr__(self, name):
        return getattr(self.fits[0], name)

    @property
    def score(self):
        """The mean over the splits."""
        return mean_and_error([fit.score for fit in self.fits])[0]

    @property
    def model(self):
        """What ran: the class that is not private, or the solver and a setting that is no
        default.
        """
        name = {"not private": self.ran, "default": f"default: {self.ran}"}
        name = name.get(self.solver, self.solver)
        return name + (f", {self.setting}" if self.setting not in ("", "default") else "")

    def __str__(self):
        score, score_error = mean_and_error([fit.score for fit in self.fits])
        loss, loss_error = mean_and_error([fit.log_loss for fit in self.fits])
        short = (
            0.0
            if self.goal is None
            else loss - self.goal
            if self.data in BY_LOG_LOSS
            else self.goal - score
        )
        goal = (
            ""
            if self.goal is None
            else f"{self.goal:.3f} " + ("met" if short <= 0 else f"-{short:.4f}")
        )
        worth = " ".join(
            f"{np.mean([getattr(fit, name) for fit in self.fits]):>6.4f}"
            for name in ("auc", "ece", "ratio", "brier")
        ).replace("nan", "   ")
        line = (
            f"{self.model:<20} {self.adjacency or 'not private':>11} {self.epsilon:>7g} "
            f"{score:>7.4f} {score_error:>6.4f} {loss:>8.4f} {loss_error:>6.4f} {worth} {goal:>13} "
            f"{np.median([fit.seconds for fit in self.fits]):>7.2f} {self.steps!s:>5}"
        )
        for name in ("score", "log_loss") if math.isfinite(loss) else ("score",):
            pairs = [(fit, self.earlier[fit.key]) for fit in self.fits if fit.key in self.earlier]
            if pairs:
                gain, error = mean_and_error(
                    [getattr(fit, name) - float(old[name]) for fit, old in pairs]
                )
                label = f"{name} less that of {len(pairs)} {self.what}"
                line += f"\n{label:>60} {gain:>+8.4f} +- {error:.4f}"
        return line


def measure(problem, make, pairs, **labels):
    """Fit on every split: the scores, or the error that says why this way to train does not
    exist.
    """
    scores = []
    for split, (train, test) in enumerate(pairs):
        model, rows = make(), problem.X[train]
        if "random_state" in model.get_params():
            model.set_params(random_state=split)
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                # of the seed: the data are public
                warnings.simplefilter("ignore", PrivacyLeakWarning)
                model.fit(rows, problem.y[train])
        except (ValueError, UnsupportedMechanismError, CalibrationError, RuntimeError) as error:
            return error
        seconds = time.perf_counter() - start
        told = {"steps": "n_iter_", "alpha": "alpha_", "clip": "clip_"}
        told = {
            name: getattr(model, attribute)
            for name, attribute in told.items()
            if hasattr(model, attribute)
        }
        ran = getattr(model, "solver_", model.solver)
        told["ran"] = ran if isinstance(ran, str) else type(ran).__name__
        loss = log_loss(model, problem.X[test], problem.y[test])
        reached = model.score(problem.X[test], problem.y[test])
        told |= {"score": reached, "log_loss": loss, "seconds": seconds}
        told |= estimates(model, problem.X[test], problem.y[test])
        scores.append(Score(rows=len(train), split=split, **labels, **told))
    return scores


def without_conditioning(make):
    """Return a maker of the same model without conditioning; None where the estimator knows
    none.
    """
    if "conditioning" not in make().get_params():
        return None
    return lambda: make().set_params(conditioning=None)


def grid(default):
    """Return the settings around the default of a solver, one after the other."""
    for alpha, clip in itertools.product(ALPHAS, CLIPS):
        if (alpha, clip) != (1, 1):
            yield {"alpha": default.alpha * alpha, "clip": default.clip * clip}


def not_private(name, problem, pairs):
    """Return the best of the models that are not private."""
    fits = []
    for model in problem.not_private:
        fits.append([])
        for split, (train, test) in enumerate(pairs):
            start = time.perf_counter()
            model.fit(problem.X[train], problem.y[train])
            seconds = time.perf_counter() - start
            score, loss = (
                model.score(problem.X[test], problem.y[test]),
                log_loss(model, problem.X[test], problem.y[test]),
            )
            asked = (name, len(train), "not private", "", math.inf, "", split)
            worth = estimates(model, problem.X[test], problem.y[test])
            fits[-1].append(Score(*asked, score, loss, seconds, type(model).__name__, **worth))
    return Result(max(fits, key=lambda scores: np.mean([fit.score for fit in scores])))


def run(name, problem, arguments, earlier):
    """Yield the results of every solver at every budget, and of the best model without privacy."""
    n_splits = arguments.splits or problem.n_splits
    shape = "{} x {}".format(*problem.X.shape)
    print(f"\n{name}: {problem.title}, {shape}, {n_splits} splits\n{Result.HEAD}", flush=True)
    pairs, best = list(splits(len(problem.y), n_splits)), None
    if not arguments.private_only:
        best = not_private(name, problem, pairs[: problem.n_splits_not_private])
        print(best, flush=True)
        yield best
    solvers = arguments.solver or [None]
    if arguments.compare and not arguments.solver:
        solvers = list(SOLVERS) if problem.private().solver in SOLVERS else [None, *SOLVERS]
    ways = [(solver, None) for solver in solvers]
    ways += [
        (s, problem.one_vs_rest)
        for s in ONE_VS_REST
        if problem.one_vs_rest is not None and s in solvers
    ]
    epsilons = arguments.epsilon or (EPSILONS if arguments.compare else problem.epsilons)
    sizes = arguments.rows or [None]
    for n_rows, epsilon, adjacency, (solver, labels) in itertools.product(
        sizes, epsilons, arguments.adjacency, ways
    ):
        budget = {"epsilon": epsilon, "adjacency": adjacency} | (
            {} if solver is None else {"solver": solver}
        )
        row = {
            "data": name,
            "epsilon": epsilon,
            "adjacency": adjacency,
            "solver": solver or "default",
        }
        row["solver"] += "" if labels is None else " one-vs-rest"
        private = partial(
            problem.private if labels is None else partial(OneVsRest, labels), **budget
        )
        some = [(train[:n_rows], test) for train, test in pairs]
        goal = GOALS.get(name, {}).get(epsilon, (None, None))[list(Adjacency).index(adjacency)]
        if best and (name, epsilon) in OF_NOT_PRIVATE:
            goal = best.score - OF_NOT_PRIVATE[name, epsilon]
        default = measure(problem, private, some, **row, setting="default")
        if isinstance(default, Exception):
            why = str(default).splitlines()[0]
            line = f"{row['solver']:<20} {adjacency:>11} {epsilon:>7g}  skipped: {why}"
            print(line, flush=True)
            continue
        result = Result(default, goal if n_rows is None else None, earlier)
        print(result, flush=True)
        yield result
        make = without_conditioning(private) if arguments.ablation and labels is None else None
        if make is not None:
            scores = measure(problem, make, some, **row, setting="conditioning=None")
            if not isinstance(scores, Exception):
                pairs_of = zip(scores, default, strict=True)
                beside = {fit.key: asdict(other) for fit, other in pairs_of}
                print(result := Result(scores, earlier=beside, what="defaults"), flush=True)
                yield result
        if arguments.grid and labels is None:
            settings = [partial(private, **setting) for setting in grid(default[0])]
            tried = [
                measure(problem, make, some, **row, setting="best of grid") for make in settings
            ]
            tried = [Result(scores) for scores in [default, *tried] if isinstance(scores, list)]
            best_of_grid = max(tried, key=lambda result: result.score)
            best_of_grid = Result(
                [Score(**asdict(fit) | {"setting": "best of grid"}) for fit in best_of_grid.fits]
            )
            print(best_of_grid, flush=True)
            yield best_of_grid


def print_tables(results):
    """Print a table of solvers by epsilons for each data set, adjacency and setting."""
    epsilons = sorted({r.epsilon for r in results if r.setting})
    for key in dict.fromkeys(
        (r.data, r.rows, r.adjacency, r.setting) for r in results if r.setting
    ):
        rows = [r for r in results if (r.data, r.rows, r.adjacency, r.setting) == key]
        scores = {(r.solver, r.epsilon): f"{r.score:.4f}" for r in rows}
        title = ", ".join(map(str, key))
        print(f"\n{title:50}" + "".join(f"{epsilon:>8g}" for epsilon in epsilons))
        for solver in dict.fromkeys(r.solver for r in rows):
            print(
                f"{solver:50}"
                + "".join(f"{scores.get((solver, epsilon), ''):>8}" for epsilon in epsilons)
            )


def print_means(results):
    """Print means over data sets of two classes, and the sets with the worst estimates."""
    names = ("score", "log_loss", "ece", "ratio")
    rows = [r for r in results if not math.isnan(r.ece)]
    for adjacency, epsilon in dict.fromkeys((r.adjacency, r.epsilon) for r in rows):
        some = [r for r in rows if (r.adjacency, r.epsilon) == (adjacency, epsilon)]
        of_sets = [np.mean([[getattr(f, n) for n in names] for f in r.fits], axis=0) for r in some]
        score, loss, ece, ratio = np.transpose(of_sets)
        worst, far = np.argmax(ece), np.argmax(np.abs(np.log(ratio)))
        print(
            f"{len(some)} sets {adjacency or 'not private':>11} {epsilon:>4g}: "
            f"score {score.mean():.4f}, log loss {loss.mean():.4f}, ECE {ece.mean():.4f} "
            f"(worst {ece[worst]:.4f}, {some[worst].data}), "
            f"ratio farthest from 1 {ratio[far]:.3f} ({some[far].data})"
        )


def print_published(results):
    """Print Table 4 of Yu et al. (2020) beside ours."""
    print("\nYu et al. (2020), Table 4, tuned, beside ours:")
    for result in results:
        published = PUBLISHED.get((result.data, result.epsilon), {}).get(result.solver)
        if published is not None:
            print(
                f"{result.data:>8} {result.solver:>34} {result.adjacency:>12} "
                f"{result.setting:>13} {published:>8.3f} "
                f"{result.score:>8.4f} {result.score - published:>+8.4f}"
            )


def print_margins(results):
    """Print where the default (or noisy gradient descent) wins or loses against the best solver."""
    print("\nnoisy_gd (the default, where it is another) less the best of the other solvers:")
    results = [r for r in results if r.setting]
    for key in dict.fromkeys((r.data, r.rows, r.adjacency, r.setting, r.epsilon) for r in results):
        group = {
            r.solver: r
            for r in results
            if (r.data, r.rows, r.adjacency, r.setting, r.epsilon) == key
        }
        ours = group.pop("default", None) or group.pop("noisy_gd", None)
        if ours and group:
            rival = max(group.values(), key=lambda result: result.score)
            print(
                f"{key[0]:>14} {key[2]:>12} {key[3]:>13} {key[4]:>8g} "
                f"{ours.score - rival.score:>+8.4f}  {rival.solver}"
            )


def draw(results, path):
    """Score against epsilon, a panel a data set and adjacency, as in Figure 2 of Yu et al.
    (2020).
    """
    import matplotlib.pyplot as plt

    plt.switch_backend("Agg")
    panels = sorted({(r.data, r.adjacency) for r in results if r.adjacency})
    figure, axes = plt.subplots(
        1, len(panels), figsize=(1 + 3.6 * len(panels), 3.8), layout="constrained", squeeze=False
    )
    names = list(dict.fromkeys(r.solver for r in results if r.adjacency))
    for axis, (data, adjacency) in zip(axes.ravel(), panels, strict=True):
        for color, name in enumerate(names):
            for setting, style in (("default", "o-"), ("best of grid", ":")):
                rows = [
                    r
                    for r in results
                    if (r.data, r.adjacency, r.solver, r.setting)
                    == (data, adjacency, name, setting)
                ]
                label = name if setting == "default" else None
                axis.plot(
                    [r.epsilon for r in rows],
                    [r.score for r in rows],
                    style,
                    color=f"C{color}",
                    markersize=4,
                    label=label,
                )
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


def read_scores(path):
    """Return the rows of a file of ``--csv``, by what was asked for."""
    with path.open(newline="") as file:
        names = ("data", "rows", "solver", "adjacency", "epsilon", "setting", "split")
        return {tuple(row[name] for name in names): row for row in csv.DictReader(file)}


def write_scores(path, results):
    """Keep every fit."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(Score)])
        writer.writeheader()
        writer.writerows(asdict(fit) for result in results for fit in result.fits)


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=list(DATASETS),
        choices=DATASETS,
        metavar="NAME",
        help=", ".join(DATASETS),
    )
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument(
        "--solver", nargs="+", choices=SOLVERS, help="default: the estimator's; all with --compare"
    )
    parser.add_argument(
        "--epsilon", type=float, nargs="+", help="default: 0.1 and 1, of the 20 newsgroups 1 and 3"
    )
    parser.add_argument(
        "--adjacency",
        nargs="+",
        choices=list(Adjacency),
        default=list(Adjacency),
        help="default: both",
    )
    parser.add_argument("--splits", type=int, help="default: 20, or 5 of the larger data sets")
    parser.add_argument("--rows", type=int, nargs="+", help="train on so many only")
    parser.add_argument("--ablation", action="store_true", help="without conditioning too")
    parser.add_argument("--private-only", action="store_true", help="leave out what is not private")
    parser.add_argument("--compare", action="store_true", help="every solver, epsilon 0.01 to 10")
    parser.add_argument(
        "--grid", action="store_true", help="the best of nine settings too: not private"
    )
    parser.add_argument("--means", action="store_true", help="over the data sets, at the end")
    parser.add_argument("--csv", type=Path, help="file for the scores of every split")
    parser.add_argument("--against", type=Path, help="such a file, of another commit")
    parser.add_argument("--figure", type=Path, help="file for the figure")
    arguments = parser.parse_args(argv)
    earlier = read_scores(arguments.against) if arguments.against else {}
    results = []
    for name in arguments.only:
        try:
            problem = DATASETS[name](arguments.data)
        except FileNotFoundError as error:
            print(f"\nSKIPPED {name}: no file {error.filename}; say where it is by --data")
            continue
        for result in run(name, problem, arguments, earlier):
            results.append(result)
            if arguments.csv:
                write_scores(arguments.csv, results)
    if arguments.means:
        print_means(results)
    if arguments.compare or arguments.grid or arguments.solver:
        print_tables(results)
        print_published(results)
        print_margins(results)
    if arguments.figure:
        draw(results, arguments.figure)
