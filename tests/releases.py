"""All that releases something computed from records, and a stand-in for `release` that listens.

Each way out is a function of a table that returns what is shown. A new call of `release` in the
package needs a way out here that comes to it: `test_bits.py` reads the package.
"""

import io
import math
import sys
import warnings
from contextlib import ExitStack, redirect_stdout
from copy import copy
from dataclasses import dataclass, is_dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
from randomgen import AESCounter
from reference import gradients
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin

import skdpdyn
from skdpdyn import (
    PrivateGAMClassifier,
    PrivateGAMRegressor,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
    Schema,
    audit,
    complete_schema,
)
from skdpdyn.core import rules
from skdpdyn.core.noise import generators
from skdpdyn.core.spending import Spending
from skdpdyn.data.local import rows_of
from skdpdyn.data.persons import person_codes
from skdpdyn.data.streamed import StreamedRows
from skdpdyn.evaluation import evaluate, prediction_interval
from skdpdyn.inference import private_regression, scoring
from skdpdyn.model_selection import PrivateSearchCV
from skdpdyn.preprocessing import PrivateScaler
from skdpdyn.privacy import Budget
from skdpdyn.solvers import (
    DPSGD,
    NoisyGD,
    NoisySGD,
    ObjectivePerturbation,
    OutputPerturbation,
    SufficientStatistics,
    objective_perturbation,
)
from skdpdyn.support import progress
from skdpdyn.support.stored import FieldsAlone
from skdpdyn.training import conditioning
from skdpdyn.training.ranges import bought_ranges, shares_of_ranges

PACKAGE = Path(skdpdyn.__file__).parent
WEIGHTS = 1.0, 4.0  # at both of their bounds
MIDDLE = 0.05  # target of the first record; its neighbour has another one
N = 40  # records: noise is as large as what it hides, where floating point tells most


@dataclass
class Table:
    """Records of which a neighbour changes the first: rows, classes, numbers, counts, owners."""

    X: np.ndarray
    y: np.ndarray
    target: np.ndarray
    counts: np.ndarray
    exposure: np.ndarray
    groups: np.ndarray
    weights: np.ndarray
    at_risk: np.ndarray


def table(n_features, n_records=N, seed=0):
    """Return a table and a neighbour, in which all of the first record, or person, is another."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n_records, n_features)) / np.sqrt(n_features)
    X[0] /= np.linalg.norm(X[0])
    y = rng.integers(0, 2, n_records)
    target = rng.uniform(-1, 1, n_records)
    target[0] = MIDDLE
    counts = rng.poisson(1.0, n_records)
    exposure = rng.uniform(0.5, 2.0, n_records)
    weights = rng.uniform(*WEIGHTS, n_records)
    weights[0] = WEIGHTS[1]  # the first record alone is at an end
    groups = np.maximum(np.arange(n_records) // 2, 1)  # the first person has four rows
    at_risk = target > -0.9
    one = Table(X, y, target, counts.astype(float), exposure, groups, weights, at_risk)
    other = {name: value.copy() for name, value in vars(one).items()}
    other["X"][0] *= -0.03
    other["y"][0] = 1 - y[0]
    other["target"][0] = 1.0
    other["counts"][0] = counts[0] + 3
    other["exposure"][0] = 2.5 - exposure[0]
    other["weights"][0] = WEIGHTS[0]
    return one, Table(**other)


class Listener(audit.Listener):
    """Stands for `release`, as in an audit; noise comes from a secure generator."""

    def __call__(self, point, scale, generator, *more, **options):
        """Release a point, or repeat the outcome of the same release of the neighbour."""
        assert isinstance(generator.bit_generator, AESCounter)
        return super().__call__(point, scale, generator, *more, **options)


def overheard(listener, run, *arguments):
    """Run with a stand-in for `release` wherever the package calls it; return the result, and all
    that is shown.
    """
    with audit.listened(listener):
        return with_all_shown(run, *arguments)


def with_all_shown(run, *arguments):
    """Run; return the result, and all that is shown."""
    with ExitStack() as patches:
        # neither a bar nor the time left
        patches.enter_context(patch.object(progress, "_bar", lambda total, unit: None))
        patches.enter_context(patch.object(progress, "_time_left", lambda seconds: ""))
        printed = patches.enter_context(redirect_stdout(io.StringIO()))
        caught = patches.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always", UserWarning)
        result = run(*arguments)
    texts = [str(warning.message) for warning in caught]
    return result, (shown(result), texts, printed.getvalue())


def shown(value):
    """Return all of a fitted object, to be compared bit by bit."""
    kind = type(value)
    if kind is float or kind is str or kind is int or value is None:  # nearly all: fast
        return repr(value)
    if kind is tuple or kind is list:
        return [shown(one) for one in value]
    if isinstance(value, str | int | float):
        return repr(value)
    if sparse.issparse(value):
        value = value.toarray()
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return {str(key): shown(one) for key, one in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [shown(one) for one in value]
    if is_dataclass(value) or hasattr(value, "get_params"):
        # cached values follow from fields, and which are there from what ran before
        stored = isinstance(value, FieldsAlone)
        return type(value).__name__, shown(value.__getstate__() if stored else vars(value))
    return repr(value)


BUDGET = {"epsilon": 0.3, "delta": 1e-3}
sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "extension"))
private_means = partial(import_module("private_means").private_means, bounds=(-1, 1))
SEEDED = BUDGET | {"random_state": 0}
OPTIONS = SEEDED | {"verbose": 1}
logistic = partial(PrivateLogisticRegression, classes=[0, 1], **OPTIONS)
softmax = partial(PrivateSoftmaxRegression, classes=[0, 1], **OPTIONS)
ridge = partial(PrivateRidge, target_bounds=(-1, 1), **OPTIONS)
counting = partial(PrivatePoissonRegressor, **OPTIONS)
plain = partial(logistic, conditioning=None)
COLUMNS = {"bounds": (-1, 1), "interactions": [(0, 1)]}
gam = partial(PrivateGAMClassifier, classes=[0, 1], **COLUMNS, **OPTIONS)
curves = partial(PrivateGAMRegressor, target_bounds=(-1, 1), **COLUMNS, **OPTIONS)


def fit(model, target="y", of_one_column=False, **of_records):
    """Return a way out: a model, fitted to a table."""

    def run(data):
        given = {name: getattr(data, field) for name, field in of_records.items()}
        X = data.X[:, :1] if of_one_column else data.X
        return model().fit(X, getattr(data, target), **given)

    return lambda n_features: run


def weighing(model):
    """Return a model with public bounds of weights."""
    return partial(model, weight_bounds=WEIGHTS)


def started(model, target="y"):
    """Return a way out: a model that starts from public coefficients."""

    def run(data):
        start = np.full((1, data.X.shape[1]), 0.7), [0.3]
        return model().set_params(start=start).fit(data.X, getattr(data, target))

    return lambda n_features: run


def solved(way):
    """Return a way out of a ridge whose coefficients sums of products give: of many records."""

    def for_width(n_features):
        run = way(n_features)

        def patched(data):
            with patch.object(rules, "products_strength", lambda _: 0.0):
                return run(data)

        return patched

    return for_width


class InOrder(StreamedRows):
    """The rows of a table, read in order."""

    def __init__(self, data):
        super().__init__(data.X.shape, data.X.dtype)
        self._data = data

    def read(self):
        """Give out seven rows at a time."""
        for first in range(0, len(self._data.X), 7):
            part = slice(first, first + 7)
            yield self._data.X[part], self._data.y[part]


def mapped(way):
    """Return a way out of a model that buys a map of rows, however few the records."""

    def for_width(n_features):
        run = way(n_features)

        def patched(data):
            with patch.object(rules, "LEAST_STRENGTH", 0.0):
                return run(data)

        return patched

    return for_width


def streamed(model):
    """Return a way out: a model, fitted to rows that are read in order."""
    return lambda n_features: lambda data: model().fit(InOrder(data))


def of_sparse(model):
    """Return a way out: a model, fitted to sparse rows."""

    def run(data):
        X = np.where(np.abs(data.X) > 0.3 / np.sqrt(data.X.shape[1]), data.X, 0.0)
        return model().fit(sparse.csr_array(X), data.y)

    return lambda n_features: run


def with_matrix(model):
    """Return a way out: a model that learns a full second moment, which many records pay for."""

    def run(data):
        with patch.object(conditioning, "pays_for_matrix", lambda *_: True):
            return model().fit(data.X, data.y)

    return lambda n_features: run


def calibrated(way):
    """Return a way out of a model that buys its mean residual and slope, as many records do."""

    def for_width(n_features):
        run = way(n_features)

        def patched(data):
            bought = "calibration_share", "rate_calibration_share", "slope_share"
            with patch.multiple(rules, **dict.fromkeys(bought, lambda *_: 0.1)):
                return run(data)

        return patched

    return for_width


def lined(way):
    """Return a way out of a model of means that buys its slope and level, as many records do."""

    def for_width(n_features):
        run = way(n_features)

        def patched(data):
            with patch.multiple(rules, LEAST_STRENGTH_OF_LINE=0.0, DROWNED_LEVEL=math.inf):
                return run(data)

        return patched

    return for_width


def training(way):
    """Return a way out that trains slopes, however few the records."""

    def for_width(n_features):
        run = way(n_features)

        def patched(data):
            with patch.object(rules, "LEAST_FLAT_STRENGTH", 0.0):
                return run(data)

        return patched

    return for_width


def labelled(model, beside_others=(), **of_records):
    """Return a way out: a model that buys labels, as many records do; a target of -1 has none.

    ``beside_others``: two labels that stand beside a third one, of half of the records.
    """

    def run(data):
        y = np.where(data.target == -1.0, 7, data.y)
        if beside_others:
            y = np.where(data.X[:, 0] > 0, 300, np.take(beside_others, np.minimum(data.y, 1)))
        with patch.object(rules, "FACTS_STRENGTH", 0.0):
            return fit(partial(model, classes="auto"), **of_records)(0)(with_other(data, y=y))

    return lambda n_features: run


def ranged(model, target="y", **of_records):
    """Return a way out: a model that buys ranges of columns, however few the records."""
    run = fit(partial(model, bounds="auto"), target, **of_records)

    def for_width(n_features):
        def patched(data):
            least = dict.fromkeys(("LEAST_STRENGTH", "LEAST_RANGES_STRENGTH"), 0.0)
            with patch.multiple(rules, **least):
                return run(n_features)(data)

        return patched

    return for_width


def bounded(model, target="target", far=1.0, **of_records):
    """Return a way out: a model that buys bounds of targets, as many records do."""

    def run(data):
        y = getattr(data, target) * far + (far > 1) * 2000.0  # years, whose range is split
        with patch.object(rules, "FACTS_STRENGTH", 0.0):
            return fit(model, **of_records)(0)(with_other(data, y=y))

    return lambda n_features: run


def with_other(data, **columns):
    """Return a table with other columns, whatever kind of table it is."""
    data = copy(data)
    vars(data).update(columns)
    return data


def rich(model, target="y", buys=lambda *_: True, **of_records):
    """Return a way out: an additive model that learns all that many records pay for."""

    def run(data):
        with ExitStack() as patches:
            patches.enter_context(patch.object(rules, "expands", lambda *_: True))
            patches.enter_context(patch.object(rules, "buys_distributions", buys))
            patches.enter_context(patch.object(rules, "orders_of_products", lambda *_: (4,)))
            patches.enter_context(patch.object(rules, "LEAST_STRENGTH", 0.0))
            patches.enter_context(patch.object(rules, "cosines_of_scales", lambda _: 2))
            return fit(model, target, **of_records)(data.X.shape[1])(data)

    return lambda n_features: run


def of_rare_class(model, **of_records):
    """Return a way out: an additive model that buys less once it knows the shares of classes."""
    run = rich(partial(model, interactions=None), buys=_is_positive, **of_records)

    def for_width(n_features):
        def patched(data):
            with patch.object(rules, "strength_of_curves", lambda *_: 0.0):
                return run(n_features)(data)

        return patched

    return for_width


def _is_positive(strength, n_columns):
    return strength > 0


def looking(model, target="y", **of_records):
    """Return a way out: an additive model whose pairs a look chooses, however few the records."""
    run = rich(partial(model, interactions=1), target, **of_records)

    def for_width(n_features):
        def patched(data):
            with patch.object(rules, "LEAST_LOOKED_AT", 0.0):
                return run(n_features)(data)

        return patched

    return for_width


def with_private_levels(**of_records):
    """Return a way out: an additive model that buys the levels of two columns, one of them text."""

    def run(data):
        side = data.X[:, 0] > 0
        X = np.column_stack([data.X[:, -1].astype(object), np.where(side, "a", "b"), side])
        known = {"bounds": {0: (-1, 1)}, "categories": "auto", "interactions": None}
        return fit(partial(gam, **known), **of_records)(3)(with_other(data, X=X))

    return lambda n_features: run


def ranges_alone(data, codes=None, epsilon=0.3):
    """Return the ranges of columns, bought alone."""
    budget = Budget(epsilon, 1e-3, adjacency="replace_one")
    spending = Spending(budget, shares_of_ranges(1.0, data.X.shape[1]), generators(0)[0])
    rows = rows_of(data.X, None, codes if codes is None else person_codes(codes, len(codes)), 4)
    found = bought_ranges(rows.octave_counts(), rows.part_counts, spending, rows.n_records)
    return SimpleNamespace(ranges_=found, mechanism_=spending.record(), leaks_=())


def ranges_split(n_split, is_wide=False):
    """Return a way out: the ranges of columns of which some are split: of years, or so wide that
    a cell has many octaves.
    """

    def run(data):
        x = np.clip(data.X, -1, 1)
        finer = np.sign(x) * 2.0 ** (66 + 28 * np.abs(x)) if is_wide else 2000 + 60 * x
        split = np.arange(x.shape[1]) < n_split
        return ranges_alone(with_other(data, X=np.where(split, finer, x)), epsilon=30.0)

    return lambda n_features: run


class _SameMinimiser:
    """Gives the neighbour the linear term that has the same minimiser.

    The linear term is noise, and not released: an attacker who is given it has no noise left that
    would be as large as one record. What is left to tell is how far the computed minimiser is from
    the exact one, which depends on the records.
    """

    minimise = staticmethod(objective_perturbation.minimise)

    def __init__(self):
        self._first = None

    def __call__(self, objective, rows, *, linear, **options):
        if self._first is None:
            theta = self.minimise(objective, rows, linear=linear, **options)
            self._first = theta, self._mean(objective, rows, theta)
            return theta
        theta, mean = self._first
        linear = linear + mean - self._mean(objective, rows, theta)
        return self.minimise(objective, rows, linear=linear, **options)

    @staticmethod
    def _mean(objective, rows, theta):
        return gradients(objective, rows.X, rows.y, theta).mean(axis=0)


def perturbed(model):
    """Return a way out: objective perturbation, whose neighbour has the same exact minimiser."""

    def prepare(n_features):
        minimise = _SameMinimiser()

        def run(data):
            with patch.object(objective_perturbation, "minimise", minimise):
                return model().fit(data.X, data.y)

        return run

    return prepare


def evaluated(
    model, target="y", of_records=(), knows_bounds=True, other=None, levels=(), **options
):
    """Return a way out: the evaluation of a model that was fitted to other records.

    ``levels``: what the models predict, of which another one is nearer to the neighbour's target.
    """

    def prepare(n_features):
        rows, _ = table(n_features, seed=1)
        fitted = model().set_params(verbose=0).fit(rows.X, getattr(rows, target))
        if not knows_bounds:  # they are bought, and predictions are far apart
            del fitted.target_bounds_
            fitted.coef_ = 3 * np.eye(1, n_features)[0]
        settings = BUDGET | {"random_state": 0} | options
        if other is not None:
            settings["against"] = other().set_params(verbose=0).fit(rows.X, getattr(rows, target))
        for one, intercept in zip((fitted, settings.get("against")), levels, strict=False):
            one.coef_ = np.zeros(n_features)
            one.intercept_ = intercept

        def run(data):
            given = {name: getattr(data, field) for name, field in dict(of_records).items()}
            with patch.object(rules, "FACTS_STRENGTH", 0.0):
                return evaluate(fitted, data.X, getattr(data, target), **given, **settings)

        return run

    return prepare


def foretold(model, **options):
    """Return a way out: prediction intervals of a model that was fitted to other records."""

    def prepare(n_features):
        other, _ = table(n_features, seed=1)
        fitted = model().set_params(verbose=0).fit(other.X, other.target)
        settings = BUDGET | {"random_state": 0, "coverage": 0.1, "epsilon": 1.0} | options

        def run(data):
            raw = fitted.predict(data.X).reshape(len(data.X), -1)
            middle = (raw.min(axis=1) + raw.max(axis=1)) / 2
            # within all thresholds, or beyond them, so that each count moves
            y = middle + 1000 * (data.target - MIDDLE)
            return prediction_interval(fitted, data.X, y, **settings)

        return run

    return prepare


def tabled(model, target="y", of_records=(), **options):
    """Return a way out: a model and its table, by one call."""

    def run(data):
        given = {name: getattr(data, field) for name, field in dict(of_records).items()}
        settings = BUDGET | {"random_state": 0, "bounds": (-1, 1)} | given | options
        return private_regression(model(), data.X, getattr(data, target), **settings)

    return lambda n_features: run


def hazards(data):
    """Return a model and its table of persons with rows in time, of whom some are not at risk."""
    options = {"groups": data.groups, "at_risk": data.at_risk, "equal_rows": True}
    settings = SEEDED | {"epsilon": 12.0, "bounds": (-1, 1), "classes": [0, 1]} | options
    one_hot = [range(data.X.shape[1] - 1)]
    return private_regression(
        PrivateLogisticRegression(max_rows_per_person=4),
        data.X,
        data.y,
        robust=True,
        one_hot=one_hot,
        **settings,
    )


def in_time(lengths, is_across=False):
    """Return a way out: a table of hazards, whose persons have some rows of one direction each.

    The sign of a record's first cell is that of its rows, or ``is_across`` that of every other
    cell. Without an intercept all hazards are 1/2, so ``lengths`` say what sums of a person are.
    """

    def run(data):
        side = data.X[:, :1]
        (n_records, n_features) = data.X.shape
        turned = np.sign(side) ** (np.arange(n_features) % 2) if is_across else np.sign(side)
        most = len(lengths)
        records = np.repeat(np.arange(n_records), len(lengths))
        rows = (np.abs(side) * turned)[records] * np.tile(lengths, n_records)[:, None]
        model = PrivateLogisticRegression(fit_intercept=False, max_rows_per_person=most)
        given = {"groups": records, "equal_rows": True, "robust": True, "classes": [0, 1]}
        return private_regression(model, rows, data.y[records], bounds=(-1, 1), **given, **SEEDED)

    return lambda n_features: run


def of_corners(data):
    """Return a model and its table of rows at corners of all bounds, by the first cell's sign."""
    signs = np.sign(data.X[:, :1]) ** (np.arange(data.X.shape[1]) % 2)
    return tabled(PrivateLogisticRegression, classes=[0, 1])(0)(
        with_other(data, X=np.abs(data.X[:, :1]) * signs)
    )


def of_levels(data, **options):
    """Return a model and its table of a frame with two columns of levels, one of them missing."""
    import pandas

    side = data.X[:, 0] > 0
    other = np.where(data.target > -0.9, np.where(side, "a", "b"), None)
    frame = pandas.DataFrame({"x": data.X[:, -1], "side": side, "other": other})
    levels = {"side": [False, True], "other": ["a", "b"]}
    settings = SEEDED | {"bounds": (-1, 1), "classes": [0, 1], "categories": levels} | options
    return private_regression(PrivateLogisticRegression(), frame, data.y, **settings)


def of_bought_levels(data):
    """Return a model and its table of such a frame, whose levels are bought."""
    levels = {"side": "auto", "other": "auto"}
    return of_levels(data, categories=levels, epsilon=50.0, groups=data.groups)


def of_products(data):
    """Return a model and its table of products of columns: of a spline with gaps, and levels."""
    import pandas

    x = np.where(data.target > -0.9, data.X[:, -1], np.nan)
    frame = pandas.DataFrame({"x": x, "y": data.X[:, 0], "side": data.X[:, 0] > 0})
    pairs = [("x", "y"), ("x", "side")]
    given = {"categories": {"side": [False, True]}, "missing": ["x"], "interactions": pairs}
    given |= {"splines": {"x": [-0.5, 0.0, 0.5]}}
    settings = SEEDED | {"bounds": (-1, 1), "classes": [0, 1]} | given
    return private_regression(PrivateLogisticRegression(), frame, data.y, **settings)


def rarely(way):
    """Return a way out of a table in which the curvature of rows is cut: outcomes are rare."""

    def for_width(n_features):
        run = way(n_features)

        def patched(data):
            with patch.object(scoring, "RARE", 0.25):
                return run(data)

        return patched

    return for_width


def alike(X):
    """Return columns that are all the sum of those of X, so that a record moves them all."""
    return np.outer(X.sum(axis=1), np.ones(X.shape[1]))


def scaled(persons=False):
    """Return a way out: a scaler, and public rows that it transformed."""

    def run(data):
        scaler = PrivateScaler(**BUDGET, random_state=0)
        scaler.fit(data.X, groups=data.groups if persons else None)
        return scaler, scaler.transform(np.eye(3, data.X.shape[1]))

    return lambda n_features: run


def profiled(persons=False):
    """Return a way out: a private profile of a table of numbers and text, and its labels."""

    def run(data):
        side = np.where(data.X[:, 0] > 0, "a", "b")
        X = np.column_stack([data.X.astype(object), side])
        text = data.X.shape[1]
        numbers = dict.fromkeys(range(text), "number")
        known = Schema(bounds={0: (-1, 1)}, categories={text: "auto"}, types=numbers)
        groups = data.groups if persons else None
        return complete_schema(X, data.y, schema=known, groups=groups, random_state=0, **BUDGET)

    return lambda n_features: run


def searched(model, **options):
    """Return a way out: a search for a clip."""

    def run(data):
        search = PrivateSearchCV(
            model().set_params(random_state=None, verbose=0), {"clip": [0.1, 0.3]},
            epsilon=3.0, delta=1e-3, random_state=0, **options,
        )  # fmt: skip
        return search.fit(data.X, data.y)

    return lambda n_features: run


def by(solver, model=plain):
    """Return a model that learns by this solver."""
    return partial(model, solver=solver)


class Hostile(TransformerMixin, BaseEstimator):
    """A step that says of itself that it looks at each row alone; subclasses break a hypothesis."""

    def fit(self, X, y=None):
        """Learn nothing."""
        return self

    def transform(self, X):
        """Return the rows."""
        return X

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.sparse = True
        return tags


class WritesInPlace(Hostile):
    """Turns rows into others, in place."""

    def transform(self, X):
        """Return the rows themselves, each as another."""
        cells = X.data if sparse.issparse(X) else X.iloc if hasattr(X, "iloc") else X
        cells[:] = -0.9 * cells[:]
        return X


class WritesByForce(WritesInPlace):
    """Does so where it may not."""

    def transform(self, X):
        """Return the rows themselves, each as another."""
        cells = X.data if sparse.issparse(X) else X
        while isinstance(cells, np.ndarray) and cells.base is not None:
            cells = cells.base
        if isinstance(cells, np.ndarray):
            cells.flags.writeable = True
            cells *= -0.9
            return X
        return super().transform(X)


class Counts(Hostile):
    """Counts its calls, clones included, and shows the number."""

    calls_so_far = 0

    def __sklearn_clone__(self):
        return self

    def transform(self, X):
        """Return the rows, shortened by the number of calls."""
        self.calls_so_far += 1
        return X / self.calls_so_far


class Keeps(Hostile):
    """Keeps the rows that it is given, clones included."""

    def __sklearn_clone__(self):
        return self

    def fit(self, X, y=None):
        """Keep the rows."""
        self.rows_ = X
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        """Keep the rows."""
        self.seen_ = X
        return X


class Warns(Hostile):
    """Warns of a cell."""

    def transform(self, X):
        """Warn of a cell, and return the rows."""
        warnings.warn(f"a cell is {_cell(X)}", stacklevel=1)
        return X


class Raises(Hostile):
    """Fails with a cell in the text."""

    def transform(self, X):
        """Fail."""
        raise KeyError(_cell(X))


class Reshapes(Hostile):
    """Returns one row of all when it is called again."""

    def transform(self, X):
        """Return the rows, or the first."""
        self.again_ = hasattr(self, "again_")
        return X[:1] if self.again_ and not hasattr(X, "iloc") else X


class Widens(Hostile):
    """Returns more columns when it is called again, clones included."""

    calls_so_far = 0

    def __sklearn_clone__(self):
        return self

    def transform(self, X):
        """Return the rows, and a column for each earlier call."""
        rows = np.asarray(X.todense() if sparse.issparse(X) else X)
        self.calls_so_far += 1
        return np.hstack([rows, np.zeros((len(rows), self.calls_so_far - 1))])


def _cell(X):
    return float(np.max(np.asarray(X.todense() if sparse.issparse(X) else X)))


HOSTILE = (WritesInPlace, WritesByForce, Counts, Keeps, Warns, Raises, Reshapes, Widens)
"""A step for each hypothesis on others' code that it may break."""

PERSONS = {"groups": "groups"}
WEIGHED = {"sample_weight": "weights"}
EXPOSED = {"exposure": "exposure"}
unconditioned = {"conditioning": None}
WAYS_OUT = {
    "noisy_gd": fit(by(NoisyGD(n_steps=3))),
    "noisy_gd, one step": fit(by(NoisyGD(n_steps=1))),
    "noisy_gd, radius": fit(by(NoisyGD(n_steps=3, radius=0.5, cooling=False))),
    "noisy_gd, started": started(by(NoisyGD(n_steps=3))),
    "noisy_gd, started within a radius": started(by(NoisyGD(n_steps=3, radius=0.5, cooling=False))),
    "PrivateLogisticRegression started": mapped(started(logistic)),
    "PrivateRidge started": mapped(started(ridge, "target")),
    "noisy_gd, sparse": of_sparse(by(NoisyGD(n_steps=3))),
    "noisy_gd, streamed": streamed(by(NoisyGD(n_steps=3))),
    "noisy_gd, persons": fit(by(NoisyGD(n_steps=3)), **PERSONS),
    "noisy_sgd shuffled_once": fit(by(NoisySGD("shuffled_once", batch_size=16, n_epochs=2))),
    "noisy_sgd cyclic": fit(by(NoisySGD("cyclic", batch_size=16, n_epochs=2))),
    "noisy_sgd without_replacement": fit(
        by(NoisySGD("without_replacement", batch_size=16, n_epochs=2))
    ),
    "noisy_sgd one_pass": fit(by(NoisySGD("one_pass"))),
    "noisy_sgd random stop": fit(by(NoisySGD("one_pass", stopping="random"))),
    "noisy_sgd laplace": fit(
        by(NoisySGD("one_pass", distribution="laplace"), partial(plain, fit_intercept=False)),
        of_one_column=True,
    ),
    "dp_sgd": fit(by(DPSGD(n_steps=4, batch_size=30))),
    "dp_sgd momentum": fit(by(DPSGD(n_steps=4, batch_size=30, momentum=0.5))),
    "dp_sgd uniform": fit(by(DPSGD(n_steps=4, batch_size=30, average="uniform", radius=3.0))),
    "dp_sgd weighted": fit(by(DPSGD(n_steps=4, batch_size=30, momentum=0.5, average="weighted"))),
    "dp_sgd persons": fit(by(DPSGD(n_steps=4, batch_size=15)), **PERSONS),
    "output_perturbation": fit(by(OutputPerturbation())),
    "output_perturbation permutation": fit(
        by(OutputPerturbation("permutation_sgd", n_epochs=2, batch_size=16))
    ),
    "output_perturbation descent": fit(by(OutputPerturbation("gradient_descent", n_epochs=3))),
    "output_perturbation gamma": fit(by(OutputPerturbation(noise="gamma"))),
    "objective_perturbation": perturbed(by(ObjectivePerturbation(tolerance=0.01))),
    "objective_perturbation gamma": perturbed(
        by(ObjectivePerturbation(noise="gamma", tolerance=0.001))
    ),
    "sufficient_statistics": fit(
        by(SufficientStatistics(), partial(ridge, **unconditioned)), "target"
    ),
    "PrivateLogisticRegression conditioned": mapped(fit(partial(logistic, class_weight="private"))),
    "PrivateLogisticRegression conditioned, sparse": mapped(of_sparse(logistic)),
    "noisy_gd, conditioned, by Langevin dynamics": mapped(fit(partial(logistic, bound="langevin"))),
    "PrivateLogisticRegression with a matrix": mapped(with_matrix(logistic)),
    "PrivateSoftmaxRegression": fit(by(NoisyGD(n_steps=3), partial(softmax, **unconditioned))),
    "PrivateSoftmaxRegression clipped": fit(
        by(NoisyGD(n_steps=3), partial(softmax, clip=0.3, **unconditioned))
    ),
    "PrivateLinearSVC": fit(
        partial(PrivateLinearSVC, classes=[0, 1], solver=NoisyGD(n_steps=3), **OPTIONS)
    ),
    "PrivateRidge": fit(by(NoisyGD(n_steps=3), partial(ridge, **unconditioned)), "target"),
    "PrivateQuantileRegressor": fit(
        partial(PrivateQuantileRegressor, target_bounds=(-1, 1), **OPTIONS), "target"
    ),
    "PrivateQuantileRegressor conditioned": mapped(
        fit(
            partial(PrivateQuantileRegressor, target_bounds=(-1, 1), **OPTIONS),
            "target",
        )
    ),
    "PrivateRidge conditioned": mapped(fit(ridge, "target")),
    "PrivatePoissonRegressor": mapped(
        fit(partial(counting, target_bounds=(0, 8)), "counts", exposure="exposure")
    ),
    "PrivateLogisticRegression calibrated": mapped(calibrated(fit(logistic))),
    "PrivateLogisticRegression calibrated, persons": mapped(calibrated(fit(logistic, **PERSONS))),
    "PrivateSoftmaxRegression calibrated": mapped(
        calibrated(fit(partial(softmax, classes=[0, 1, 2])))
    ),
    "PrivateLogisticRegression of bought labels": mapped(labelled(logistic)),
    "PrivateLogisticRegression of bought labels, persons": mapped(labelled(logistic, **PERSONS)),
    "PrivateSoftmaxRegression of bought labels": mapped(labelled(softmax)),
    "PrivateGAMClassifier of bought labels": labelled(gam),
    "PrivateRidge of bought bounds": mapped(
        bounded(  # years 1952 to 2048, far above noise
            partial(ridge, target_bounds="auto", epsilon=12.0), far=47.9
        )
    ),
    "PrivateRidge of bought bounds, persons": mapped(
        bounded(partial(ridge, target_bounds="auto"), **PERSONS)
    ),
    "PrivatePoissonRegressor of bought bounds": mapped(
        bounded(partial(counting, target_bounds="auto"), "counts", exposure="exposure")
    ),
    "PrivateRidge by products": mapped(solved(fit(ridge, "target"))),
    "PrivateRidge by products of persons": mapped(solved(fit(ridge, "target", groups="groups"))),
    "PrivateRidge calibrated": mapped(calibrated(fit(ridge, "target"))),
    "PrivateRidge with slope and level": mapped(lined(fit(ridge, "target"))),
    "PrivateRidge with slope and level, weighted persons": mapped(
        lined(fit(weighing(ridge), "target", **WEIGHED, **PERSONS))
    ),
    "PrivateGAMRegressor with slope and level": lined(rich(curves, "target")),
    "PrivatePoissonRegressor calibrated": mapped(
        calibrated(fit(partial(counting, target_bounds=(0, 8)), "counts"))
    ),
    "noisy_gd weighted": fit(by(NoisyGD(n_steps=3), weighing(plain)), **WEIGHED),
    "dp_sgd weighted rows": fit(by(DPSGD(n_steps=4, batch_size=30), weighing(plain)), **WEIGHED),
    "sufficient_statistics weighted": fit(
        by(SufficientStatistics(), weighing(partial(ridge, **unconditioned))), "target", **WEIGHED
    ),
    "PrivateLogisticRegression weighted": mapped(
        calibrated(fit(weighing(partial(logistic, class_weight="private")), **WEIGHED))
    ),
    "PrivateLogisticRegression weighted, persons": mapped(
        calibrated(fit(weighing(logistic), **WEIGHED, **PERSONS))
    ),
    "PrivateLogisticRegression of a mean row": mapped(
        fit(partial(logistic, estimand="rows", max_rows_per_person=4), **PERSONS)
    ),
    "PrivateRidge weighted": mapped(fit(weighing(ridge), "target", **WEIGHED, **PERSONS)),
    "PrivateRidge by products, weighted": mapped(solved(fit(weighing(ridge), "target", **WEIGHED))),
    "PrivatePoissonRegressor weighted": mapped(
        fit(
            weighing(partial(counting, target_bounds=(0, 8))),
            "counts",
            exposure="exposure",
            **WEIGHED,
        )
    ),
    "PrivateLogisticRegression in ranges": ranged(logistic),
    "PrivateSoftmaxRegression in ranges, persons": ranged(softmax, **PERSONS),
    "PrivateRidge in ranges, weighted": ranged(weighing(ridge), "target", **WEIGHED),
    "PrivateGAMClassifier in ranges": rich(partial(gam, bounds="auto")),
    "PrivateGAMClassifier in ranges, persons": rich(
        weighing(partial(gam, bounds="auto")), **PERSONS, **WEIGHED
    ),
    "PrivateGAMClassifier weighted": rich(weighing(gam), **WEIGHED),
    "PrivateGAMClassifier": rich(gam),
    "PrivateGAMClassifier of few records": fit(gam),
    "PrivateGAMClassifier persons": rich(gam, **PERSONS),
    "PrivateGAMClassifier of a rare class": of_rare_class(gam),
    "PrivateGAMClassifier of a rare class, persons": of_rare_class(
        weighing(gam), **PERSONS, **WEIGHED
    ),
    "PrivateGAMClassifier that looks": looking(gam),
    "PrivateGAMClassifier that looks, persons": looking(weighing(gam), **PERSONS, **WEIGHED),
    "PrivateGAMClassifier of three classes that looks": looking(partial(gam, classes=[0, 1, 2])),
    "PrivateGAMRegressor that looks": looking(curves, "target"),
    "PrivateGAMClassifier private levels": with_private_levels(),
    "PrivateGAMClassifier private levels, persons": with_private_levels(**PERSONS),
    "PrivateGAMClassifier three classes": rich(partial(gam, classes=[0, 1, 2])),
    "PrivateGAMClassifier batches": rich(
        by(NoisySGD("shuffled_once", batch_size=16, n_epochs=2), gam)
    ),
    "PrivateGAMRegressor": rich(curves, "target"),
    "PrivateGAMRegressor of counts": rich(
        partial(curves, loss="poisson", target_bounds=(0, 8)), "counts", exposure="exposure"
    ),
    "private_means, an extension": lambda _: lambda data: private_means(alike(data.X), **SEEDED),
    "ranges": lambda _: ranges_alone,
    "ranges of persons": lambda _: lambda data: ranges_alone(data, data.groups),
    "ranges, none split": ranges_split(0),
    "ranges, one of years": ranges_split(1),
    "ranges, two of years": ranges_split(2),
    "ranges, two so wide": ranges_split(2, is_wide=True),
    "PrivateScaler": scaled(),
    "PrivateScaler persons": scaled(persons=True),
    "complete_schema": profiled(),
    "complete_schema persons": profiled(persons=True),
    "PrivateSearchCV": searched(by(NoisyGD(n_steps=3)), holdout=np.arange(N // 2, N)),
    "PrivateSearchCV held out": searched(by(NoisyGD(n_steps=3)), holdout=np.arange(N // 2)),
    "evaluate": evaluated(plain),
    "evaluate thresholds": evaluated(plain, thresholds=[0.3, 0.6]),
    "evaluate a difference": evaluated(plain, other=partial(plain, alpha=0.1)),
    "evaluate a difference of numbers": evaluated(
        partial(ridge, **unconditioned),
        "target",
        other=partial(ridge, random_state=7, **unconditioned),
        levels=(-0.5, 0.9),
    ),
    "evaluate three classes": evaluated(partial(softmax, classes=[0, 1, 2], **unconditioned)),
    "evaluate regression": evaluated(partial(ridge, **unconditioned), "target"),
    "numbers of unknown bounds, evaluate": evaluated(
        partial(ridge, **unconditioned), "target", WEIGHED | PERSONS, False, weight_bounds=WEIGHTS
    ),
    "counts of unknown bounds, evaluate": evaluated(
        partial(counting, target_bounds=(0, 8), **unconditioned), "counts", EXPOSED, False
    ),
    "a high quantile, evaluate": evaluated(
        partial(
            PrivateQuantileRegressor,
            quantile=0.9,
            target_bounds=(-1, 1),
            **unconditioned,
            **OPTIONS,
        ),
        "target",
        WEIGHED | PERSONS,
        levels=(0.4,),
        weight_bounds=WEIGHTS,
    ),
    "a difference of quantiles, evaluate": evaluated(
        partial(
            PrivateQuantileRegressor,
            quantile=0.9,
            target_bounds=(-1, 1),
            **unconditioned,
            **OPTIONS,
        ),
        "target",
        other=partial(ridge, random_state=7, **unconditioned),
        levels=(0.1, 1.0),
    ),
    "evaluate counts": evaluated(
        partial(counting, target_bounds=(0, 8), **unconditioned), "counts", EXPOSED
    ),
    "prediction_interval": foretold(partial(ridge, **unconditioned)),
    "prediction_interval of quantiles": foretold(
        partial(
            PrivateQuantileRegressor,
            quantile=[0.1, 0.9],
            target_bounds=(-1, 1),
            **unconditioned,
            **OPTIONS,
        )
    ),
    "evaluate weighted": evaluated(plain, "y", WEIGHED, weight_bounds=WEIGHTS),
    "evaluate weighted, three classes": evaluated(
        partial(softmax, classes=[0, 1, 2], **unconditioned),
        "y",
        WEIGHED | PERSONS,
        weight_bounds=WEIGHTS,
    ),
    "evaluate weighted, regression": evaluated(
        partial(ridge, **unconditioned), "target", WEIGHED, weight_bounds=WEIGHTS
    ),
    "evaluate weighted, counts": evaluated(
        partial(counting, target_bounds=(0, 8), **unconditioned),
        "counts",
        EXPOSED | WEIGHED,
        weight_bounds=WEIGHTS,
    ),
    "private_regression": tabled(PrivateLogisticRegression, classes=[0, 1]),
    "private_regression three classes": tabled(PrivateSoftmaxRegression, classes=[0, 1, 2]),
    "private_regression of persons": tabled(
        PrivateRidge, "target", PERSONS, target_bounds=(-1, 1), robust=True, epsilon=12.0
    ),
    "private_regression weighted": tabled(
        weighing(PrivateLogisticRegression), "y", WEIGHED, classes=[0, 1], epsilon=12.0
    ),
    "private_regression weighted, of numbers": tabled(
        weighing(PrivateRidge), "target", WEIGHED, target_bounds=(-1, 1), epsilon=12.0
    ),
    "private_regression of levels": lambda _: of_levels,
    "private_regression of products and missing": lambda _: of_products,
    "private_regression of bought levels of persons": lambda _: of_bought_levels,
    "private_regression of a rare class": rarely(tabled(PrivateLogisticRegression, classes=[0, 1])),
    "private_regression of hazards of persons": lambda _: hazards,
    "private_regression in time": in_time((0.459,) * 5),
    "private_regression in time, across": in_time((1.0, 0.4), is_across=True),
    "private_regression of a rare class, at corners": rarely(lambda _: of_corners),
    "private_regression of counts": tabled(
        PrivatePoissonRegressor, "counts", EXPOSED, target_bounds=(0, 8)
    ),
}
WAYS_OUT = {way: training(run) for way, run in WAYS_OUT.items()} | {
    "PrivateLogisticRegression of few records": mapped(fit(logistic)),
    "PrivatePoissonRegressor of few records": mapped(
        fit(partial(counting, target_bounds=(0, 8)), "counts")
    ),
}
"""What is computed from records and leaves, by the public name of who lets it out, and its kind."""
WIDE = (
    "noisy_gd",
    "noisy_sgd without_replacement",
    "dp_sgd momentum",
    "dp_sgd persons",
    "output_perturbation gamma",
    "sufficient_statistics weighted",
    "PrivateLogisticRegression conditioned, sparse",
    "PrivateLogisticRegression with a matrix",
    "PrivateLogisticRegression weighted",
    "PrivateLogisticRegression weighted, persons",
    "PrivateSoftmaxRegression calibrated",
    "PrivateRidge by products, weighted",
    "PrivatePoissonRegressor weighted",
    "PrivateRidge in ranges, weighted",
    "PrivateGAMClassifier persons",
    "PrivateGAMRegressor that looks",
    "ranges of persons",
    "PrivateScaler persons",
    "private_regression three classes",
    "private_regression of persons",
    "private_regression of hazards of persons",
    "private_regression of counts",
)
"""Ways of each kind that are asked of many columns, too."""
