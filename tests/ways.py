"""Ways out as a product of what the package has: what is done and asked for, by which estimator and
solver, of which records. New estimators and solvers are taken up, and new parameters named, by
`test_ways.py`.
"""

import inspect
from collections import defaultdict
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from unittest.mock import patch

import numpy as np
import pandas
from releases import WEIGHTS, Table, table
from sklearn.base import is_classifier

import skdpdyn
from skdpdyn.core import rules
from skdpdyn.data import base
from skdpdyn.evaluation import evaluate
from skdpdyn.inference import private_regression
from skdpdyn.model_selection import PrivateSearchCV
from skdpdyn.preprocessing import PrivateScaler
from skdpdyn.solvers import SOLVERS
from skdpdyn.training import conditioning

ESTIMATORS = {
    name: made
    for name in skdpdyn.__all__
    if isinstance(made := getattr(skdpdyn, name), type) and hasattr(made, "fit")
}
CALLED = {"table": private_regression, "evaluate": evaluate}
BUILT = {"search": PrivateSearchCV, "scaler": PrivateScaler}


def _with_levels(X):
    return np.column_stack([X[:, 0].astype(object), np.where(X[:, 1] > 0, "a", "b")])


def _in_halves(X):
    return np.column_stack([np.round(2 * X[:, 0]) / 2, X[:, 1]])


def _frame(X):
    return pandas.DataFrame({"x": X[:, 0], "side": np.where(X[:, 1] > 0, "a", "b")})


def _with_gaps(X):
    frame = _frame(X)
    return frame.assign(x=frame["x"].where(frame["x"] != 0))  # rows far away are at ends of ranges


PUBLIC = {"classes": [0, 1], "target_bounds": (-1, 1), "random_state": 0}
COUNTS = {"target_bounds": (0, 8)}
OF_ESTIMATOR = {
    "PrivateSoftmaxRegression": {"classes": [0, 1, 2]},
    "PrivatePoissonRegressor": COUNTS,
}
COLUMNS = Table.__dataclass_fields__
ASKED = {
    "fit": {},
    "fit, weights": {"weight_bounds": WEIGHTS, "sample_weight": "weights"},
    "fit, bounds": {"bounds": (-0.9, 0.9)},
    "fit, ranges": {"bounds": "auto"},
    "fit, some ranges": {"bounds": {0: (-0.9, 0.9)}},
    "fit, target bounds": {"target_bounds": "auto"},
    "fit, labels": {"classes": "auto"},
    "fit, exposure": {"exposure": "exposure"},
    "fit, class weights": {"class_weight": "private"},
    "fit, start": {"start": "yes"},
    "fit, levels": {"categories": "auto", "bounds": {0: (-1, 1)}, "X": _with_levels},
    "fit, shared values": {"categories": {0: "shared"}, "X": _in_halves},
    "fit, public levels": {"categories": {1: ["a"]}, "bounds": {0: (-1, 1)}, "X": _with_levels},
    "fit, a mean row": {"estimand": "rows", "max_rows_per_person": 4},
    "fit, no map": {"conditioning": None},
    "fit, a map of others": {"conditioning": "that of others"},
    "fit, no intercept": {"fit_intercept": False},
    "fit, short rows": {"data_norm": 0.3},
    "fit, a small constant": {"intercept_scaling": 0.5},
    "fit, a clip": {"clip": 0.3},
    "fit, a penalty": {"alpha": 0.05},
    "fit, Langevin's bound": {"bound": "langevin"},
    "fit, a high quantile": {"quantile": 0.9},
    "fit, several quantiles": {"quantile": [0.1, 0.5, 0.9]},
    "fit, curves of a quantile": {"loss": "quantile", "quantile": 0.8},
    "fit, counts": {"loss": "poisson", **COUNTS},
    "fit, robust centres": {"loss": "huber"},
    "fit, no pairs": {"interactions": None},
    "fit, a look": {"interactions": 1},
    "fit, a rising column": {"monotonic_cst": [1, 0]},
    "table": {},
    "table, weights": {"weight_bounds": WEIGHTS, "sample_weight": "weights"},
    "table, exposure": {"exposure": "exposure"},
    "table, robust": {"robust": True},
    "table, levels": {"categories": {"side": ["a"]}, "X": _frame},
    "table, missing": {"categories": {"side": ["a"]}, "missing": ["x"], "X": _with_gaps},
    "table, labels": {"classes": "auto", "bounds": {0: (-0.9, 0.9)}},
    "table, target bounds": {"target_bounds": "auto", "bounds": "auto"},
    "table, private levels": {
        "categories": "auto",
        "missing": ["x"],
        "bounds": "auto",
        "X": _with_gaps,
    },
    "table, interactions": {"interactions": [(0, 1)]},
    "table, splines": {"splines": {0: 3}},
    "table, dummies": {"one_hot": [[0, 1]]},
    "table, rows at risk": {"at_risk": "at_risk"},
    "evaluate": {},
    "evaluate, exposure": {"exposure": "exposure"},
    "evaluate, thresholds": {"thresholds": [0.2, 0.5, 0.8]},
    "evaluate, small errors": {"largest_error": 0.5},
    "evaluate, target bounds": {"target_bounds": (0, 0.5)},
    "evaluate, weights": {"weight_bounds": WEIGHTS, "sample_weight": "weights"},
    "evaluate, another model": {"against": True},
    "evaluate, another model by weights": {
        "against": True,
        "weight_bounds": WEIGHTS,
        "sample_weight": "weights",
    },
    "search": {},
    "search, exposure": {"exposure": "exposure"},
    "search, held out": {"holdout": np.arange(10)},
    "search, no records held out": {"test_size": None, "bound": "tightest"},
    "search, Poisson trials": {"trials": "poisson"},
    "search, labels": {"classes": "auto", "bounds": "auto"},
    "search, target bounds": {"target_bounds": "auto", "bounds": {0: (-0.9, 0.9)}},
    "search, levels": {"categories": "auto", "bounds": {0: (-1, 1)}, "X": _with_levels},
    "scaler": {},
    "scaler, many rows": {"max_rows_per_person": 8},
}
"""What is done, and what is asked for: parameters, and columns of a table by their names."""
ALONE = (
    "table, interactions",
    "table, splines",
    "evaluate, target bounds",
    "evaluate, weights",
    "evaluate, another model by weights",
    "scaler, many rows",
)
"""What is held by itself, and not in each pair."""
FACTORS = {
    "done": tuple(done for done in ASKED if done not in ALONE),
    "estimator": tuple(ESTIMATORS),
    "solver": ("auto", *SOLVERS),
    "unit": ("record", "person", "person with equal weights"),
    "relation": ("replace_one", "add_remove"),
    "size": ("few records", "many records"),
}


@dataclass(frozen=True)
class Way:
    """A way out: a function of a table that returns what is shown."""

    done: str = "fit"
    estimator: str = "PrivateLogisticRegression"
    solver: str = "auto"
    unit: str = "record"
    relation: str = "replace_one"
    size: str = "few records"

    def __str__(self):
        return "; ".join(vars(self).values())

    def __call__(self, data):
        asked = dict(ASKED[self.done])
        X = asked.pop("X", np.asarray)(data.X)
        columns = {name: of for name, of in asked.items() if isinstance(of, str) and of in COLUMNS}
        given = {name: getattr(data, of) for name, of in columns.items()}
        asked = {name: value for name, value in asked.items() if name not in given}
        if self.unit != "record":
            given["groups"] = data.groups
        if self.unit == "person with equal weights":
            given["equal_rows"] = True
            asked["max_rows_per_person"] = 4
        with ExitStack() as patches:
            if self.size == "many records":
                pay_for_all(patches)
            return self.shown(X, data, asked, given)

    def shown(self, X, data, asked, given):
        kind = self.kind
        epsilon = 0.3 if self.size == "few records" else 30.0
        budget = {"epsilon": epsilon, "delta": 1e-3, "adjacency": self.relation}
        options = self.public() | budget | asked
        y = self.target(data, options)
        if "start" in options:
            options["start"] = _start(self)
        if "against" in options:
            options["against"] = _steep(self, -1)
        if options.get("conditioning"):
            options["conditioning"] = of_others(self.estimator).conditioning_
        model = self.model(options | {"solver": self.solver})
        if kind == "fit":
            return model.fit(X, y, **given)
        if kind == "table":
            return private_regression(model, X, y, **_of(private_regression, options), **given)
        if kind == "evaluate":
            return evaluate(
                _steep(self),
                X,
                y,
                **_of(evaluate, options | {"target_bounds": asked.get("target_bounds")}),
                **given,
            )
        if kind == "search":
            model.set_params(random_state=None)
            search = PrivateSearchCV(model, {"clip": [0.1, 0.3]}, **_of(PrivateSearchCV, options))
            return search.fit(X, y, **given)
        return PrivateScaler(**_of(PrivateScaler, options)).fit(X, **given)

    @property
    def kind(self):
        """What is done, without what is asked for."""
        return self.done.partition(",")[0]

    def public(self):
        of_columns = (
            {"bounds": (-1, 1)} if self.kind == "table" or self.estimator in ADDITIVE else {}
        )
        of_columns = {} if self.kind == "scaler" else of_columns
        return PUBLIC | of_columns | OF_ESTIMATOR.get(self.estimator, {})

    def target(self, data, options):
        if is_classifier(ESTIMATORS[self.estimator]()):
            return data.y
        counts = self.estimator == COUNTING or options["target_bounds"] == COUNTS["target_bounds"]
        return data.counts if counts else data.target

    def model(self, options):
        made = ESTIMATORS[self.estimator]
        if self.kind != "fit":
            of_model = FACTS if self.kind == "search" else {"weight_bounds"}
            only = ASKED[self.done].keys() - of_model
            options = {name: value for name, value in options.items() if name not in only}
        return made(**_of(made, options))

    @property
    def refusals(self):
        """Texts of which one is said of it, if it cannot be had; none: it can be."""
        return [text for text, refuses in REFUSED.items() if refuses(self)]

    @property
    def expands(self):
        """Whether steps of fresh batches are no contraction: nothing bounds the last iterate."""
        together = self.done == "fit, several quantiles"
        of_several = together or self.estimator == "PrivateSoftmaxRegression"
        return of_several and self.solver == "noisy_sgd"

    @property
    def takes(self):
        """Whether all of it are parameters, and have an effect."""
        names, of_call = known_to(self.kind, self.estimator)
        other = self.kind != "fit" and self.solver != "auto"
        equal = self.unit == "person with equal weights" and "equal_rows" not in of_call
        again = self.kind == "scaler" and self.estimator != Way().estimator
        return ASKED[self.done].keys() <= names and not (other or equal or again)


FUNCTIONS = {
    "table": (private_regression,),
    "evaluate": (evaluate,),
    "search": (PrivateSearchCV, PrivateSearchCV.fit),
    "scaler": (PrivateScaler, PrivateScaler.fit),
}
"""What is called, by what is done; a fit is its estimator's."""
TABLED = (
    "PrivateLogisticRegression",
    "PrivateSoftmaxRegression",
    "PrivatePoissonRegressor",
    "PrivateRidge",
)
ADDITIVE = "PrivateGAMClassifier", "PrivateGAMRegressor"
FACTS = {"classes", "target_bounds", "bounds", "categories"}
MAPS = "auto", "noisy_gd", "noisy_sgd"
STARTS = "auto", "noisy_gd"
COUNTING = "PrivatePoissonRegressor"
CLASSIFIERS = [name for name, made in ESTIMATORS.items() if is_classifier(made())]
OF_NUMBERS = "evaluate, exposure", "evaluate, small errors", "evaluate, target bounds"
NOT_GAUSSIAN = "dp_sgd", "noisy_sgd", "objective_perturbation"


def _is_open(way):
    """Return whether a fit buys facts of its table."""
    of_target = way.done in ("fit, labels", "fit, target bounds") and way.size == "many records"
    of_columns = way.done.endswith("ranges") and way.estimator in ADDITIVE
    of_values = "fit, some ranges", "fit, levels", "fit, shared values"
    return of_target or of_columns or way.done in of_values


def _may_move(way):
    """Return whether rows of persons may move the rate of a fit."""
    of_two = "PrivateLogisticRegression", "PrivateGAMClassifier"
    slopes = way.size == "many records" or way.estimator in ADDITIVE
    return way.estimator in of_two and way.unit == "person" and way.solver in STARTS and slopes


REFUSED = {
    "learns quadratic losses only": lambda way: (
        way.solver == "sufficient_statistics"
        and way.estimator not in ADDITIVE
        and (way.estimator != "PrivateRidge" or way.done == "fit, robust centres")
    ),
    "must be 'squared' or 'huber'": lambda way: (
        way.done == "fit, counts" and way.estimator == "PrivateRidge"
    ),
    "does not choose pairs": lambda way: way.done == "fit, a look" and way.solver == "noisy_sgd",
    "cannot train an additive model": lambda way: (
        way.estimator in ADDITIVE and way.solver not in MAPS
    ),
    "costs more the more rows": lambda way: (
        way.unit == "person" and way.solver == "objective_perturbation"
    ),
    "cannot train on mapped rows": lambda way: (
        way.done == "fit, a map of others" and way.solver not in MAPS
    ),
    "has no theorem": lambda way: (
        way.done == "fit, Langevin's bound" and way.solver not in ("auto", "noisy_gd")
    ),
    "no table is known": lambda way: way.kind == "table" and way.estimator not in TABLED,
    "takes none": lambda way: (
        way.kind in ("table", "search")
        and way.done.endswith("exposure")
        and way.estimator != COUNTING
    ),
    "cannot train from it": lambda way: way.done == "fit, start" and way.solver not in STARTS,
    "whole persons must be held out": lambda way: (
        way.done == "search, held out" and way.unit == "person"
    ),
    "estimand='rows'": lambda way: way.done == "fit, a mean row" and not _may_move(way),
    "of no convex loss": lambda way: (
        (
            way.done == "fit, several quantiles"
            or (way.done == "fit, a clip" and way.estimator == "PrivateSoftmaxRegression")
        )
        and way.solver in ("objective_perturbation", "output_perturbation")
    ),
    "Jacobian alone": lambda way: (
        way.done == "fit, a penalty"
        and way.solver == "objective_perturbation"
        and way.size == "few records"
    ),
    "needs a known smoothness": lambda way: (
        way.done == "fit, Langevin's bound" and way.estimator == "PrivateSoftmaxRegression"
    ),
    "is no Gaussian release": lambda way: (
        (way.solver in NOT_GAUSSIAN and _is_open(way))
        or (way.done == "fit, Langevin's bound" and way.size == "many records")
    ),
    "has no predict_proba": lambda way: (
        way.kind == "evaluate"
        and way.estimator == "PrivateLinearSVC"
        and way.done != "evaluate, another model"
    ),
    "is for a regression": lambda way: way.done in OF_NUMBERS and way.estimator in CLASSIFIERS,
    "must not begin below 0": lambda way: (
        way.done == "evaluate, exposure"
        and way.estimator not in (*CLASSIFIERS, COUNTING, "PrivateQuantileRegressor")
    ),
    "is for rates": lambda way: (
        way.done == "evaluate, exposure" and way.estimator == "PrivateQuantileRegressor"
    ),
    "is for a classifier of two classes": lambda way: (
        way.done == "evaluate, thresholds"
        and way.estimator not in {*CLASSIFIERS} - {"PrivateSoftmaxRegression"}
    ),
    "goes with loss='quantile'": lambda way: (
        way.done in ("fit, a high quantile", "fit, several quantiles")
        and way.estimator == "PrivateGAMRegressor"
    ),
    "goes with loss='poisson'": lambda way: (
        way.done == "fit, exposure" and way.estimator == "PrivateGAMRegressor"
    ),
}
"""Combinations that are refused, by a part of what is said of them."""


@cache
def of_others(estimator):
    """Return a model of other records: it is public here, and no release of a way."""
    way = Way(estimator=estimator)
    (other, _) = table(2, seed=1)
    options = {"bounds": None} | way.public() | {"epsilon": 30.0, "delta": 1e-3}
    made = ESTIMATORS[estimator]
    return made(**_of(made, options)).fit(other.X, way.target(other, options))


def _steep(way, sign=1):
    """Return a model whose predictions are as far apart as can be; of the other sign for -1."""
    model = copy(of_others(way.estimator))
    if hasattr(model, "coef_"):
        slope = 3.0 if way.estimator in ("PrivateRidge", "PrivateQuantileRegressor") else 90.0
        coef = np.zeros_like(model.coef_)
        coef.flat[0] = sign * slope
        model.intercept_ = 0 * model.intercept_
        model.coef_ = coef
    return model


def _start(way):
    """Return a model of curves, or coefficients."""
    if way.estimator in ADDITIVE:
        return of_others(way.estimator)
    n_outputs = 3 if way.estimator == "PrivateSoftmaxRegression" else 1
    return np.full((n_outputs, 2), 0.7), np.full(n_outputs, 0.3)


def _of(function, options):
    known = inspect.signature(function).parameters
    return {name: value for name, value in options.items() if name in known}


def pay_for_all(patches):
    """Have all bought that many records pay for."""
    shares = "calibration_share", "rate_calibration_share", "slope_share"
    always = "expands", "buys_distributions"
    patches.enter_context(patch.multiple(
        rules,
        **dict.fromkeys(shares, lambda *_: 0.1),
        **dict.fromkeys(always, lambda *_: True),
        orders_of_products=lambda *_: (4,),
        cosines_of_scales=lambda _: 2,
        looks=lambda *_: False,
        LEAST_LOOKED_AT=0.0,
        LEAST_STRENGTH=0.0,
        LEAST_FLAT_STRENGTH=0.0,
        LEAST_NARROWING=0.0,
        FACTS_STRENGTH=0.0,
        sampled_lengths=lambda *_: 8.0,
    ))  # fmt: skip
    patches.enter_context(patch.object(conditioning, "pays_for_matrix", lambda *_: True))
    patches.enter_context(patch.object(base, "_MULTIPLE", 8))


@cache
def known_to(kind, estimator):
    """Return the parameters of what is called, and those of the last call."""
    made = ESTIMATORS[estimator]
    functions = {"fit": (made, made.fit)}.get(kind, FUNCTIONS.get(kind))
    of_call = set(inspect.signature(functions[-1]).parameters)
    names = of_call.union(*(inspect.signature(one).parameters for one in functions))
    if kind == "search":
        names |= FACTS & inspect.signature(made).parameters.keys()
    names |= {"X", "bounds"} | ({"sample_weight"} if "weight_bounds" in names else set())
    return names | ({"weight_bounds"} if "sample_weight" in names else set()), of_call


@cache
def every_way():
    """Return the ways that can be had, and those that are refused."""
    ways = [way for values in product(*FACTORS.values()) if (way := Way(*values)).takes]
    refusals = [way for way in ways if way.refusals]
    return [way for way in ways if not way.refusals], refusals


def cover(seed=0):
    """Return ways that run, and together have each pair of values that can be combined."""
    ways = every_way()[0]
    rng = np.random.default_rng(seed)
    codes = [
        np.unique([vars(way)[name] for way in ways], return_inverse=True)[1] for name in FACTORS
    ]
    size = max(map(len, FACTORS.values()))
    pairs = np.column_stack(
        [(k * size + one) * size + two for k, (one, two) in enumerate(combinations(codes, 2))]
    )
    found, numbers = np.unique(pairs, return_counts=True)
    left = np.isin(np.arange(pairs.max() + 1), found)
    chosen = []
    for pair in found[np.argsort(numbers, kind="stable")]:
        if left[pair]:
            some = rng.permutation(np.flatnonzero(np.any(pairs == pair, axis=1)))[:40]
            best = some[np.argmax(left[pairs[some]].sum(axis=1))]
            chosen.append(ways[best])
            left[pairs[best]] = False
    return chosen


def refused():
    """Return ways that are refused, a few for each reason."""
    found = defaultdict(list)
    for way in every_way()[1]:
        found[way.refusals[0]].append(way)
    return [way for ways in found.values() for way in ways[:: max(len(ways) // 3, 1)]]


def parameters():
    """Return the parameters of all that is called, by what is done."""
    called = {"fit": [one for made in ESTIMATORS.values() for one in (made, made.fit)]} | FUNCTIONS
    return {
        kind: {name for one in some for name in inspect.signature(one).parameters}
        - {"self", "not_taken"}
        for kind, some in called.items()
    }


def asked_for(kind):
    """Return the parameters that ways of one kind ask for with other values, or always give."""
    asked = {name for done, of in ASKED.items() if done.partition(",")[0] == kind for name in of}
    given = {"X", "y", "model", "estimator", "groups", "adjacency", "random_state", "classes"}
    given |= {"target_bounds"} if kind == "fit" else set()
    given |= {"solver", "max_rows_per_person", "equal_rows"} if kind in ("fit", "table") else set()
    return asked | given


UNMOVED = {
    "epsilon": "noise follows from it, and distances are in units of noise",
    "delta": "as epsilon",
    "unit": "a word",
    "schema": "public facts that other parameters hold too",
    "n_jobs": "sums are the same, in any number of threads",
    "verbose": "lines say what was planned",
    "confidence": "what is said of noise that was drawn",
    "param_grid": "each candidate is a fit",
    "scoring": "every score is a mean of numbers within public bounds",
    "expected_trials": "the number of trials is drawn without records",
    "shape": "as expected_trials",
}
"""Parameters that no way needs to ask for, and why."""
