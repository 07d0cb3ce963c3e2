"""Laws that every registered solver obeys, whatever it runs: noise is there, claims are public and
true, seeds repeat.

Tests run over `SOLVERS` and the estimators whose loss a solver learns, so that a new solver is
tested with its defaults as soon as it has a name; what else of it deserves the same tests is in
VARIANTS. Those marked ``@law`` hold of every pair. A package outside runs them on its own: ``from
test_solvers_conformance import *``, and fixtures ``default``, ``problem`` and ``audited`` of its
own, see test_extension.py.
"""

import json
import math
import pickle
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.base import clone, is_regressor
from test_models import (
    CASES,
    LOGISTIC,
    RIDGE,
    STRANGE,
    assert_same_state,
    assert_unchanged,
    public_state,
)

from skdpdyn import solvers
from skdpdyn.core.noise import generators
from skdpdyn.data.local import LocalRows
from skdpdyn.privacy import (
    ACCOUNTANTS,
    Adjacency,
    from_json,
    tightest,
    to_json,
)
from skdpdyn.privacy.guarantees import Guarantee
from skdpdyn.solvers import SOLVERS, NoisyGD, NoisySGD, Solver
from skdpdyn.training.plan import plan_of as planned
from skdpdyn.training.purchase import Purchase

pytestmark = pytest.mark.every_case

DP_SGD = [{"batch_size": 1, "n_steps": 20}, {"momentum": 0.5, "average": "weighted", "radius": 3.0}]
SAMPLINGS = {"cyclic": 2, "shuffled_once": 2, "without_replacement": 6}
VARIANTS = {
    "dp_sgd": DP_SGD,
    "noisy_gd": [{"n_steps": "worst_case"}, {"radius": 0.5}],
    "noisy_sgd": [
        *({"sampling": name, "batch_size": 2, "n_epochs": of} for name, of in SAMPLINGS.items()),
        *({"sampling": "one_pass", "stopping": stopping} for stopping in ("last", "random")),
    ],
    "objective_perturbation": [{"noise": "gamma", "tolerance": 1e-5}],
    "output_perturbation": [
        {"method": method, "noise": noise}
        for method in ("minimiser", "permutation_sgd", "gradient_descent")
        for noise in ("gaussian", "gamma")
        if (method, noise) != ("minimiser", "gaussian")
    ],
}
"""Hyperparameters by the name of a solver, beside its defaults."""

ONE_PARAMETER = {"noisy_sgd": [{"sampling": "one_pass", "distribution": "laplace"}]}
"""Those for problems of a single parameter."""

SHORT = {"noisy_sgd": {"sampling": "cyclic", "n_epochs": 2}}
"""Hyperparameters of a few steps, where the defaults take long on a thousand rows."""

ADJACENCIES = ["replace_one", "add_remove"]
LAYOUTS = {"dense": np.asarray, "csr": sparse.csr_array}


def loss_of(case):
    model = case.model()
    return model.family.loss_of(model.family.targets.public(model))


def learns(name, case):
    return name != "sufficient_statistics" or loss_of(case).quadratic


def label(problem):
    case, name, *options = problem
    values = [str(value) for more in options for value in more.values()]
    return "-".join([name, *values, str(case)])


def model(case, name, options=None, **changes):
    """An estimator with a registered solver: by its name, unless it has hyperparameters."""
    return case.model(solver=SOLVERS[name](**options) if options else name, **changes)


def parameters(fitted):
    """All that was learnt, as one vector."""
    return np.append(np.ravel(fitted.coef_), fitted.intercept_)


def each_of(problems):
    """Return a fixture: each of the problems, (case, name of a solver[, hyperparameters])."""

    @pytest.fixture(params=problems, ids=label)
    def given(request):
        return request.param

    return given


def defaults_of(cases):
    """Return every estimator with every solver that learns its loss."""
    return [(case, name) for name in SOLVERS for case in cases if learns(name, case)]


DEFAULTS = defaults_of(CASES)
VARIED = [(name, options) for name in VARIANTS for options in VARIANTS[name]]
VARIANT_PROBLEMS = [  # one estimator and another
    (next(case for case in CASES[turn % len(CASES) :] + CASES if learns(name, case)), name, options)
    for turn, (name, options) in enumerate(VARIED)
]
SINGLE = [(name, options) for name in ONE_PARAMETER for options in ONE_PARAMETER[name]]
SINGLE_PROBLEMS = [(case, *single) for single in SINGLE for case in (LOGISTIC, RIDGE)]
PROBLEMS = [(*default, {}) for default in DEFAULTS] + VARIANT_PROBLEMS
AUDITED = PROBLEMS + SINGLE_PROBLEMS

__all__ = ["audited", "default", "problem"]
default = each_of(DEFAULTS)
problem = each_of(PROBLEMS)
audited = each_of(AUDITED)
each_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES)


def law(test):
    """Export a test that holds of every estimator and solver."""
    __all__.append(test.__name__)
    return test


# --- the registry ---------------------------------------------------------------------------------


def test_all_solvers_are_registered():
    public = (getattr(solvers, name) for name in solvers.__all__)
    kinds = {kind for kind in public if isinstance(kind, type) and issubclass(kind, Solver)}
    assert kinds - {Solver} == set(SOLVERS.values())
    assert set(VARIANTS) | set(ONE_PARAMETER) | set(SHORT) <= set(SOLVERS)


@pytest.mark.parametrize(
    ("case", "name"), [(case, name) for case in CASES for name in SOLVERS if not learns(name, case)]
)
def test_other_losses_are_refused_by_name(case, name):
    with pytest.raises(ValueError, match=f"not the {loss_of(case).name} loss"):
        model(case, name).fit(*case.data())


@pytest.mark.parametrize("value", STRANGE.values(), ids=STRANGE)
@pytest.mark.parametrize("name", SOLVERS)
def test_strange_values_of_any_hyperparameter_are_refused_by_its_name(name, value):
    case = next(case for case in CASES if learns(name, case))
    for parameter in SOLVERS[name]().get_params():
        with pytest.raises((ValueError, TypeError), match=parameter):
            model(case, name, {parameter: value}).fit(*case.data())


# --- noise is there -------------------------------------------------------------------------------

# of either data set: those that are guessed, those that the attack is chosen on
RUNS = 50
FIRST_RUNS = 15
FAILURE = 1e-8  # of one audit, of a solver that keeps its promise


@dataclass(frozen=True)
class Release:
    """What a solver would release, on four records of one column, of which three are empty rows."""

    solver: Solver
    objective: object
    mechanism: object
    advantage: float  # that it promises
    targets: tuple  # the most different ones

    @classmethod
    def of(cls, estimator):
        plan = planned(Purchase.of(estimator, 4, 1).request)
        low = -1.0 if is_regressor(estimator) else 0.0
        high = plan.objective.n_outputs - 1.0
        counts = plan.objective.loss.clipped
        targets = (0.0, 3.0) if counts else (low, max(high, 1.0))
        solver = plan.request.solver
        advantage = plan.guarantee.advantage
        return cls(solver, plan.objective, plan.mechanism, advantage, targets)

    def sample(self, layout, x, target, n_runs):
        """The parameters of so many runs where one record has this row and this target.

        It is the last one, whom no later step hides, or the first one where a run may stop before
        the last.
        """
        place = 0 if getattr(self.solver, "stopping", "last") == "random" else 3
        X = np.zeros((4, 1))
        y = np.array([0.0, 1.0, 0.0, 1.0])
        X[place] = x
        y[place] = target
        X = layout(X)
        run = partial(self.solver.solve, self.objective, self.mechanism)
        noise = (generators(None)[0] for _ in range(n_runs))
        return np.array([run(LocalRows(X, y), generator=generator) for generator in noise])

    def audit(self, layout=np.asarray):
        """Guesses that were right, of 2 RUNS, and the number that the promised advantage is
        exceeded from.

        The neighbours differ as much as they can: a record of full norm and another label, or,
        under add_remove, an empty row, whose contribution is none. The attack is a threshold on the
        projection onto the difference of means, both chosen on other runs. Whatever the attack, TPR
        - FPR is at most the advantage a, so that the mean of right guesses is at most (1 + a) / 2,
        and the binomial tail at the largest mean bounds that of any sum of independent guesses
        (Hoeffding 1956).
        """
        low, high = self.targets
        removed = self.mechanism.adjacency is Adjacency.ADD_REMOVE
        samples = [
            self.sample(layout, *record, FIRST_RUNS + RUNS)
            for record in ((1.0, high), (0.0 if removed else 1.0, low))
        ]
        assert all(np.all(np.isfinite(sample)) for sample in samples)
        one, other = (sample[:FIRST_RUNS] for sample in samples)
        direction = one.mean(axis=0) - other.mean(axis=0)
        candidates = np.unique(np.concatenate([one, other]) @ direction)
        candidates = np.append(candidates[0] - 1, (candidates[1:] + candidates[:-1]) / 2)
        rates = [
            np.mean(one @ direction > value) - np.mean(other @ direction > value)
            for value in candidates
        ]
        threshold = candidates[np.argmax(rates)]
        one, other = (sample[FIRST_RUNS:] @ direction for sample in samples)
        right = np.sum(one > threshold) + np.sum(other <= threshold)
        return right, stats.binom.isf(FAILURE, 2 * RUNS, (1 + self.advantage) / 2)


def release_of(case, name, options, adjacency, **changes):
    budget = {"epsilon": 1.0, "delta": 1e-2, "adjacency": adjacency}
    return Release.of(model(case, name, options, fit_intercept=False, **budget, **changes))


@pytest.mark.usefixtures("noise_found_once")
@law
@pytest.mark.slow
@each_adjacency
def test_neighbours_are_not_told_apart(audited, adjacency):
    """Failure probability 1e-8 each."""
    case, _, options = audited
    others = case in CASES and case not in (LOGISTIC, RIDGE)
    if adjacency == "add_remove" and (others or options):
        return  # their losses, and variants, are looked at under the other relation
    layout = LAYOUTS["csr" if adjacency == "add_remove" else "dense"]
    right, limit = release_of(*audited, adjacency).audit(layout)
    assert right <= limit


# --- seeds and containers -------------------------------------------------------------------------


@pytest.mark.usefixtures("noise_found_once")
@pytest.mark.smoke
@law
def test_fresh_fits_differ_and_seeds_repeat_their_bits(problem):
    """One number in 10,000 is equal by chance, three of a model with probability below 1e-9."""
    case, name, options = problem
    X, y = case.data(20)
    fresh, again = (parameters(model(case, name, options).fit(X, y)) for _ in range(2))
    assert np.sum(fresh == again) < 3
    first, same, other = (
        parameters(model(case, name, options, random_state=seed).fit(X, y)) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, same)
    assert not np.any(first == other)


@pytest.mark.usefixtures("noise_found_once")
@law
def test_dense_and_sparse_rows_of_either_precision_agree(problem):
    case, name, options = problem
    X, y = case.data(20)
    X = X.astype(np.float32).astype(np.float64)
    estimator = model(case, name, options, random_state=0)
    dense = parameters(estimator.fit(X, y))
    size = np.max(np.abs(dense))
    of_sparse = parameters(estimator.fit(sparse.csr_array(X), y))
    np.testing.assert_allclose(of_sparse, dense, rtol=1e-9, atol=1e-9 * size)
    if estimator.bound_ in ("composition", "subsampling") and name in ("noisy_gd", "noisy_sgd"):
        # Each step is rounded to a lattice: a point on the other side of an edge takes other random
        # bits for the next one
        one_step = {
            "noisy_gd": NoisyGD(n_steps=1),
            "noisy_sgd": NoisySGD("without_replacement", batch_size=20, n_epochs=1),
        }
        dense = parameters(estimator.set_params(solver=one_step[name]).fit(X, y))
        size = np.max(np.abs(dense))
    for layout in LAYOUTS.values():
        single = parameters(estimator.fit(layout(X.astype(np.float32)), y))
        np.testing.assert_allclose(single, dense, rtol=1e-3, atol=1e-3 * size)
        assert estimator.coef_.dtype == np.float32


@pytest.mark.usefixtures("noise_found_once")
@law
@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_any_number_of_threads_gives_the_same_bits_by_any_solver(default, layout):
    case, name = default
    if case in CASES and case is not LOGISTIC and layout is sparse.csr_array:
        return  # a solver does not know which loss it is
    (X, y) = case.data(1100, 4)
    short = SHORT.get(name)
    models = (model(case, name, short, random_state=0, n_jobs=n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(*(parameters(each.fit(layout(X), y)) for each in models))


@law
def test_clones_and_pickles_keep_the_hyperparameters(problem):
    case, name, options = problem
    kind = SOLVERS[name]
    given = {f"solver__{key}": options[key] for key in options}
    solver = kind(**options)
    copies = [clone(solver), pickle.loads(pickle.dumps(solver)), clone(case.model(solver=solver))]
    copies += [case.model(solver=kind()).set_params(**given)]
    copies += [eval(repr(solver), {kind.__name__: kind})]
    for copy in copies:
        copy = getattr(copy, "solver", copy)
        assert copy is not solver
        assert type(copy) is kind
        assert copy.get_params() == solver.get_params() == kind().get_params() | options


# --- claims ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("noise_found_once")
@law
@each_adjacency
def test_the_claim_is_known_beforehand_and_follows_from_the_record(problem, adjacency):
    case, name, options = problem
    if adjacency == "add_remove" and case in CASES and case is not LOGISTIC and not options:
        return  # what they claim is looked at under the other relation
    estimator = model(case, name, options, epsilon=0.8, adjacency=adjacency)
    cost = clone(estimator).privacy_cost(20, 3)
    fitted = estimator.fit(*case.data(20))
    record = fitted.mechanism_
    guarantee = fitted.privacy_
    assert cost == guarantee
    assert record.adjacency == guarantee.adjacency == adjacency
    assert 0.8 * (1 - 1e-3) < fitted.epsilon_ <= 0.8
    assert fitted.delta_ == 1e-4
    assert fitted.leaks_ == ()
    for copy in (from_json(to_json(record)), pickle.loads(pickle.dumps(record))):
        assert type(copy) is type(record)
        assert copy == record
    assert ACCOUNTANTS[fitted.bound_](from_json(to_json(record))).epsilon(1e-4) == fitted.epsilon_
    best = tightest(record, delta=1e-4)
    assert best.bound == fitted.bound_
    assert best.guarantee == guarantee
    others = (other for other in best.alternatives.values() if isinstance(other, Guarantee))
    assert all(other.epsilon(1e-4) >= fitted.epsilon_ for other in others)
    for copy in (from_json(to_json(guarantee)), pickle.loads(pickle.dumps(guarantee))):
        assert copy == guarantee
        assert copy.epsilon(1e-4) == fitted.epsilon_
    report = fitted.privacy_report()
    assert fitted.bound_ in report.to_text()
    json.dumps(report.as_dict())
    for key, value in SOLVERS[name](**options).fitted_attributes(record).items():
        assert key.endswith("_")
        assert np.all(getattr(fitted, key) == value)


@pytest.mark.usefixtures("noise_found_once")
@law
def test_nothing_but_the_parameters_of_any_solver_depends_on_the_records(
    problem, capsys, still_clock
):
    """Longer records, other targets, empty rows: all else is equal."""
    case, name, options = problem
    (X, y) = case.data(20)
    (X2, y2) = case.data(20, seed=5)
    states = []
    printed = []
    empty = (sparse.csr_array(0 * X), np.full(20, y[0]))
    for rows, targets in ((X, y), (7 * X2[::-1], y2[::-1]), empty):
        fitted = model(case, name, options, verbose=1).fit(rows, targets)
        states.append(public_state(fitted) | {"solver": None})
        printed.append(capsys.readouterr())
    for state, text in zip(states[1:], printed[1:], strict=True):
        assert_same_state(state, states[0])
        assert text == printed[0]


# --- refusals -------------------------------------------------------------------------------------


@law
def test_bad_budgets_are_refused(default):
    case, name = default
    bad = [("epsilon", value) for value in (0, 0.0, -1.0, math.nan, math.inf, "1", None)]
    bad += [("delta", value) for value in (-1e-3, 1, 1.0, 2.0, math.nan, "small", None)]
    for key, value in bad if SOLVERS[name]().pure else [*bad, ("delta", 0), ("delta", 0.0)]:
        estimator = model(case, name, **{key: value})
        with pytest.raises(ValueError, match=f"{key}=.* must be"):
            estimator.privacy_cost(20, 3)
        with pytest.raises(ValueError, match=f"{key}=.* must be"):
            estimator.fit(*case.data(20))


PURE = [(case, name, options) for case, name, options in AUDITED if SOLVERS[name](**options).pure]


@each_adjacency
@pytest.mark.parametrize("problem", PURE, ids=label)
def test_pure_budgets_are_met(problem, adjacency):
    estimator = model(*problem, delta=0, fit_intercept=False, adjacency=adjacency)
    fitted = estimator.fit(*problem[0].data(20, 1))
    assert 2.0 * (1 - 1e-3) < fitted.epsilon_ <= 2.0
    assert fitted.delta_ == 0
    assert fitted.privacy_.delta(fitted.epsilon_) == 0


@pytest.mark.usefixtures("noise_found_once")
@law
def test_a_failed_fit_leaves_the_model_as_it_was(default, monkeypatch):
    case, name = default
    X, y = case.data(20)
    fresh = model(case, name)
    fitted = model(case, name).fit(X, y)
    before = dict(vars(fitted))
    solve = SOLVERS[name].solve

    def refused(error, message, *data):
        for estimator in (fresh, fitted):
            with pytest.raises(error, match=message):
                estimator.fit(*data)
        assert not [key for key in vars(fresh) if key.endswith("_")]
        assert_unchanged(fitted, before)

    for layout in LAYOUTS.values():
        spoilt = np.where(np.arange(60).reshape(20, 3) == 7, np.nan, X)
        refused(ValueError, "Input X contains NaN", layout(spoilt), y)

    def fail(*arguments, **options):
        solve(*arguments, **options)
        raise FloatingPointError("at the end of the run")

    monkeypatch.setattr(SOLVERS[name], "solve", fail)
    refused(FloatingPointError, "at the end of the run", X[:, :2], y)
    lost = lambda *arguments, **options: np.nan * solve(*arguments, **options)  # noqa: E731
    monkeypatch.setattr(SOLVERS[name], "solve", lost)
    refused(FloatingPointError, "the parameters overflowed", X, y)


@pytest.mark.usefixtures("noise_found_once")
@law
def test_no_arithmetic_of_a_fit_is_heard(problem):
    """No warning tells whether a row is zero, tiny or huge."""
    case, name, options = problem
    X, y = case.data()
    X = X[:200] * 1e9
    X[0] = 0.0
    X[1] = 1e-290
    X[2] = 1e150
    # that of X as it was
    options = {**(options or SHORT.get(name, {}))}
    options.pop("tolerance", None)
    with np.errstate(all="raise"):
        # must not raise
        model(case, name, options, data_norm=1e10, fit_intercept=False).fit(X, y[:200])
