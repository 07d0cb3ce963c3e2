"""Persons with any number of rows: what one can move, who counts; weights of classes."""

import math
import warnings
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest
from numba import config
from scipy import sparse
from sklearn.pipeline import make_pipeline
from test_sufficient_statistics import released

from skdpdyn import PrivateGAMClassifier, PrivateLogisticRegression
from skdpdyn.core.expansion import NumberColumn
from skdpdyn.core.losses import logistic, softmax, squared
from skdpdyn.core.objective import Objective
from skdpdyn.core.sealed import opened
from skdpdyn.data.base import sum_rounding, target_rounding
from skdpdyn.data.local import LocalRows, rows_of
from skdpdyn.data.persons import auto_rows, by_person, person_codes
from skdpdyn.data.row_map import RowMap
from skdpdyn.inference import regression
from skdpdyn.kernels.passes import Gradients
from skdpdyn.model_selection import PrivateSearchCV
from skdpdyn.preprocessing import BoundsScaler, PrivateScaler
from skdpdyn.privacy import calibrate, tightest
from skdpdyn.solvers import NoisySGD, OutputPerturbation
from skdpdyn.training.additive import Table, of_memory
from skdpdyn.training.facts import TableBounds
from skdpdyn.training.reading import Reading

N = 60
D = 4
MOST = 1000
LAYOUTS = {"dense": np.asarray, "csr": sparse.csr_array}


def table(target_rows, target_label, seed=0, direction=0):
    """Rows of N persons, one of whom has so many rows of norm 1 in one direction."""
    rng = np.random.default_rng(seed)
    owners = np.repeat(np.arange(1, N), rng.integers(1, 6, N - 1))
    X = rng.uniform(-0.4, 0.4, (len(owners), D))
    y = (X[:, 1] > 0).astype(float)
    places = np.linspace(0, len(owners), target_rows).astype(int)
    X = np.insert(X, places, np.eye(D)[direction], axis=0)
    return X, np.insert(y, places, target_label), np.insert(owners, places, 0)


def rows(X, y, owners, layout="dense"):
    return rows_of(LAYOUTS[layout](X), y, person_codes(owners, len(owners)), MOST)


def problem(loss=logistic, **changes):
    constants = {"clip": 0.3, "alpha": 0.5, "intercept_scaling": 0.0} | changes
    return Objective(loss, N, D, 1.0, most_rows=MOST, **constants)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sums_for_conditioning_and_statistics_weigh_rows_by_person(layout):
    """Norm sqrt 2 where a direction is exchanged for an orthogonal one."""
    one, other = (rows(*table(*what), layout) for what in ((1000, 1.0, 0, 0), (3, 0.0, 0, 2)))
    plain = RowMap(None, np.ones(D), norm=1.0, radius=1.0)
    room = sum_rounding(N, D, 4 * plain.error, MOST)
    sums = [opened(data.column_sums(math.inf)) for data in (one, other)]
    assert np.linalg.norm(sums[0] - sums[1]) == pytest.approx(math.sqrt(2), abs=1e-9)
    for name in ("column_squares", "second_moment"):
        first, second = (opened(getattr(data.with_map(plain), name)()) for data in (one, other))
        # what is mapped has norm 1 less a few eps
        assert np.linalg.norm(first - second) == pytest.approx(math.sqrt(2), abs=1e-9)
        assert np.linalg.norm(first - second) <= math.sqrt(2) + room
    within = [opened(data.counts("norms", np.array([0.99, np.inf]))) for data in (one, other)]
    counts = [float(np.diff(of)[0]) for of in within]
    assert counts == pytest.approx([1, 1], abs=1e-11)
    assert max(counts) <= 1
    objective = problem(squared, intercept_scaling=0.5, alpha=0.0)
    (first, std), (second, _) = (released(objective, data) for data in (one, other))
    assert 0.8 * std < np.linalg.norm(first - second) <= std
    assert first[-2, -2] == pytest.approx(0.25 * N)


# --- weights and numbers --------------------------------------------------------------------------


def test_weights_of_a_person_add_up_to_at_most_one_and_to_nearly_that():
    for size in [*range(2, 1001), 10**6]:
        weight = by_person(np.append(np.zeros(size, int), 1), 10**6)[2][0]
        assert 1 - 1e-13 < size * Fraction(weight) < 1


def test_the_number_of_rows_shapes_nothing_but_the_number_of_chunks():
    """Chunks are of as many rows as with one a person: at most MOST times as many chunks."""
    n_persons = 2000
    few = np.arange(n_persons)
    many = np.repeat(few, 7)
    sizes = []
    for codes in (few, many):
        data = rows_of(np.ones((len(codes), 3)), np.zeros(len(codes)), codes, MOST)
        n_chunks = data.count_chunks(8)
        edges = data.chunk_edges(n_chunks)
        sizes.append((n_chunks, edges[1] - edges[0]))
        assert edges[-1] == len(codes)
        assert len(edges) - 1 <= MOST * n_chunks
        assert data.sum_rounding() == sum_rounding(n_persons, 3, None, MOST)
    assert sizes[0] == sizes[1]


def test_a_pass_leaves_room_for_rows_that_move():
    """Where single precision is not allowed for, every block and chunk rounds anew."""
    objective = problem()
    one = LocalRows(*table(1, 1.0)[:2])
    exact = replace(objective, exact=True)
    persons = rows(*table(7, 1.0))
    for data, single in ((persons, True), (one, False)):
        what = Gradients.of(exact, data, of_batches=not single)
        assert not what.aligned
        bounded = partial(data.bounded, objective, what.n_chunks, np.float64)
        moved = bounded(False)
        kept = bounded(True)
        np.testing.assert_array_equal(data.bounded_for(what).limit, moved.limit)
        assert np.all(moved.limit < kept.limit)
    exact = replace(problem(softmax(3)), exact=True)
    assert Gradients.of(exact, one).aligned
    assert not Gradients.of(exact, persons).aligned


@pytest.mark.slow
def test_sums_of_targets_and_of_rows_leave_room_for_the_chunks_of_persons():
    """Chunks are of public sizes too; rounding is exact arithmetic's."""
    n_persons = 20_000
    d = 8
    rng = np.random.default_rng(0)
    sizes = []
    rounded = []
    for most in (1, 7):
        codes = np.repeat(np.arange(n_persons), most)
        X = rng.uniform(-0.3, 0.3, (len(codes), d))
        y = rng.uniform(-1, 1, len(codes))
        data = rows_of(X, y, codes, MOST)
        edges = data.moment_edges()
        sizes.append(edges[1])
        assert edges[-1] == len(codes)
        assert 1 < len(edges) - 1 <= n_persons * most / 1024 + 1
        weight = data.weight if data.weight.size else np.ones(len(codes))
        exact = sum(Fraction(w) * Fraction(t) for w, t in zip(weight, data.y, strict=True))
        rounded.append(abs(Fraction(float(opened(data.target_sum()))) - exact))
        columns = [math.fsum(weight * column) for column in data.X.T]
        error = np.linalg.norm(opened(data.column_sums(math.inf)) - columns)
        assert error <= data.sum_rounding() / 2
    assert sizes[0] == sizes[1]
    assert sum(rounded) <= target_rounding(n_persons, MOST)


def test_the_sum_of_targets_rounds_once_however_many_chunks_it_has():
    """Nearly half an ulp would be lost with each of 32 chunks: with more than four in all."""
    n_samples = 64 * 4096  # 64 chunks
    y = np.ones(n_samples)
    y[4095::4096] = 2.0**-36 - 2.0**-41
    data = LocalRows(np.zeros((n_samples, 1)), y)
    lost = abs(Fraction(math.fsum(y)) - Fraction(float(opened(data.target_sum()))))
    assert lost <= n_samples * np.finfo(float).eps / 2 < target_rounding(n_samples) / 2


def test_rows_beyond_the_public_number_are_left_out_evenly():
    codes = np.array([0] * 10 + [1] * 2 + [2])
    used, persons, weight = by_person(codes, 3)
    assert used.tolist() == [3, 6, 9, 10, 11, 12]
    assert np.diff(persons.first).tolist() == [3, 2, 1]
    assert weight == pytest.approx([1 / 3] * 3 + [0.5] * 2 + [1])
    assert by_person(np.arange(3), 1)[0] is None
    assert (auto_rows(1000), auto_rows(10**9), auto_rows(10**11)) == (100, 10, 1)
    with pytest.raises(ValueError, match="most_rows"):
        rows(*table(1000, 1.0)).check(Objective(logistic, N, D, 1.0, most_rows=999))


MISSING = [[1, 2, None], [1.0, 2.0, math.nan], ["a", "b", math.nan], np.array([1, 2, math.inf])]
NO_IDS = {
    "missing": [*MISSING, pd.Series([9, 2, None], dtype="Int64")],
    "one kind|one id": [["a", 1, 2], [[], {}, []], np.array([1, 2, 3], "M8[D]")],
    "one id for each": [[[1], [2], [3]], [1, 2], 7],
    "one person": [["same"] * 3],
}


@pytest.mark.parametrize("message", NO_IDS)
def test_ids_that_say_nothing_are_refused_without_being_quoted(message):
    for groups in NO_IDS[message]:
        with pytest.raises(ValueError, match=message) as error:
            person_codes(groups, 3)
        assert "same" not in str(error.value)


def test_ids_of_any_kind_number_persons_as_they_appear():
    texts = ["b", "a", "b"]
    numbers = [9, 2, 9]
    kinds = pd.Series(texts), pd.Categorical(texts), pd.Series(numbers, dtype="Int64")
    for ids in (texts, numbers, [9.0, 2.0, 9.0], *kinds):
        assert person_codes(ids, 3).tolist() == [0, 1, 0]


def test_no_id_of_a_list_brings_others_together():
    """numpy makes floats of integers beside one, or of large ones beside one below 0."""
    large = [2**63, 2**63 + 1]
    for other in (7, -1, 0.5, 2**70):
        assert person_codes([*large, other], 3).tolist() == [0, 1, 2]
        assert person_codes((*large, other), 3).tolist() == [0, 1, 2]


def test_the_number_of_rows_moves_no_count_of_others_with_weights():
    """Weights are rounded by the number of persons, as one more row of a person says nothing."""
    n_persons = 1000

    def counts(n_rows):
        owners = np.append(np.zeros(n_rows, int), np.arange(1, n_persons))
        numbers = np.where(owners > 0, 3.0, -3.0)
        table = Table(
            (NumberColumn(-8.0, 8.0),),
            len(owners),
            partial(of_memory, len(owners), lambda part, j: numbers[part]),
        )
        weights = np.full(len(owners), 2 / 3)
        reading = Reading(table, persons=owners, weights=weights, most_rows=100)
        found = TableBounds([0])._counts(reading, lambda _, rows: rows.octave_counts())
        return opened(found)

    one, other = counts(1), counts(90)  # beyond 2^10 rows
    assert np.count_nonzero(one) == 2
    np.testing.assert_array_equal(one[:2048], other[:2048])


def test_a_table_is_refused_as_too_wide_by_the_number_of_persons(monkeypatch):
    monkeypatch.setattr(regression, "_FREE_NUMBERS", 0)
    texts = set()
    for n_rows in (1, 100):
        owners = np.append(np.zeros(n_rows, int), np.arange(1, 10))
        rows = np.zeros((len(owners), 3))
        given = {"epsilon": 1.0, "bounds": (0, 1), "classes": [0, 1], "groups": owners}
        with pytest.raises(ValueError, match="10 records tell little") as error:
            regression.private_regression(PrivateLogisticRegression(), rows, rows[:, 0], **given)
        texts.add(str(error.value))
    assert len(texts) == 1


# --- estimators -----------------------------------------------------------------------------------

RNG = np.random.default_rng(3)
N_ROWS = 300 if config.DISABLE_JIT else 1500
X = RNG.uniform(-0.5, 0.5, (N_ROWS, 3))
Y = (X[:, 0] > 0).astype(int)
OWNERS = RNG.integers(0, N_ROWS // 4, N_ROWS)
UNIQUE = RNG.permutation(N_ROWS)


def quietly(estimator, *data, **fit_params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the seed
        return estimator.fit(*data, **fit_params)


SOLVERS = ["auto", "noisy_sgd", "dp_sgd", "output_perturbation", "objective_perturbation"]
SOLVERS += [OutputPerturbation("permutation_sgd")]
SOLVERS += [OutputPerturbation("gradient_descent", n_epochs=5)]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_row_a_person_gives_the_bits_of_a_fit_without_groups(solver, layout):
    model = PrivateLogisticRegression(classes=[0, 1], solver=solver, random_state=1)
    if solver == "objective_perturbation":
        model.set_params(max_rows_per_person=1)
    data = LAYOUTS[layout](X), Y
    alone = quietly(model, *data)
    coef = alone.coef_
    guarantee = alone.privacy_
    by = quietly(model, *data, groups=UNIQUE)
    assert np.array_equal(by.coef_, coef)
    assert (by.privacy_, by.privacy_unit_) == (guarantee.with_unit("person"), "person")
    by = quietly(model, *data, groups=OWNERS)
    assert by.n_samples_ == len(set(OWNERS))
    assert by.privacy_ == model.privacy_cost(by.n_samples_, 3).with_unit("person")
    told = [value for value in vars(by).values() if isinstance(value, int | float)]
    assert N_ROWS not in told


@pytest.mark.slow
def test_rows_of_a_person_are_used_up_to_the_public_number():
    """All rows of a person but the used one say the opposite: they are not seen."""
    X3 = np.repeat(X, 3, axis=0)
    wrong = np.repeat(1 - Y, 3)
    wrong[2::3] = Y  # the last of three is used
    model = PrivateLogisticRegression(classes=[0, 1], max_rows_per_person=1, random_state=1)
    by = quietly(model, X3, wrong, groups=np.repeat(np.arange(N_ROWS), 3)).coef_
    assert np.array_equal(by, quietly(model, X, Y).coef_)


NO_PROOF = [NoisySGD(sampling=sampling) for sampling in ("cyclic", "one_pass")]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        *[({"solver": of}, "no proof for persons") for of in NO_PROOF],
        ({"solver": "objective_perturbation"}, "max_rows_per_person"),
        ({"max_rows_per_person": 0}, "max_rows_per_person"),
        ({"max_rows_per_person": 1.5}, "max_rows_per_person"),
    ],
)
def test_what_cannot_take_persons_says_so(parameters, message):
    with pytest.raises(ValueError, match=message):
        quietly(PrivateLogisticRegression(classes=[0, 1], **parameters), X, Y, groups=OWNERS)
    with pytest.raises(ValueError, match="max_rows_per_person"):
        PrivateScaler(max_rows_per_person="all").fit(X, groups=OWNERS)


def test_objective_perturbation_pays_for_the_rank_of_a_person():
    """J = m log(1 + b2 / (m Lambda)), m the rows or parameters, whichever are fewer."""
    ranks = {}
    for most in (1, 2, 50):
        model = PrivateLogisticRegression(classes=[0, 1], solver="objective_perturbation")
        model.set_params(max_rows_per_person=most)
        record = quietly(model, X, Y, groups=OWNERS).mechanism_.mechanisms[0]
        ranks[most] = record.rank
        assert record.tilt == record.rank * math.log1p(record.curvature / record.rank)
        assert model.epsilon_ <= 1
    assert ranks == {1: 1, 2: 2, 50: 4}


@pytest.mark.parametrize("test_size", [0.2, None])
def test_a_private_search_holds_out_whole_persons(test_size, monkeypatch):
    model = make_pipeline(BoundsScaler((-0.5, 0.5)), PrivateLogisticRegression(classes=[0, 1]))
    grid = {"privatelogisticregression__alpha": [0.001, 0.01]}
    search = PrivateSearchCV(model, grid, epsilon=3.0, test_size=test_size, expected_trials=2)
    seen = []

    def watched(estimator, *arguments, run=PrivateLogisticRegression.fit, **options):
        seen.append(options["groups"])
        return run(estimator, *arguments, **options)

    monkeypatch.setattr(PrivateLogisticRegression, "fit", watched)
    quietly(search, X, Y, groups=OWNERS)
    n_persons = len(set(OWNERS))
    trained = n_persons if test_size is None else n_persons - math.ceil(test_size * n_persons)
    assert {len(set(groups)) for groups in seen} == {trained}
    counts = sorted(np.bincount(OWNERS)[np.unique(OWNERS)].tolist())
    if test_size is None:
        assert sorted(np.unique(seen[0], return_counts=True)[1].tolist()) == counts
    assert (search.n_samples_, search.privacy_unit_) == (n_persons, "person")
    assert search.privacy_ == search.privacy_cost(n_persons, 3).with_unit("person")
    assert "one person" in search.privacy_report().to_text()
    with pytest.raises(ValueError, match="Use test_size"):
        quietly(PrivateSearchCV(model, grid, holdout=[1, 2]), X, Y, groups=OWNERS)


def test_noise_for_a_group_with_a_cap():
    problem = {"n_samples": 1000, "n_features": 5}
    problem |= {"lipschitz": 1.0, "strong_convexity": 0.01, "smoothness": 0.3}
    record = calibrate(1.0, 1e-6, group_size=5, **problem)
    assert tightest(record).guarantee.group(5).epsilon(1e-6) <= 1.0
    assert tightest(record).guarantee.group(5).epsilon(1e-6) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="theorem4"):
        calibrate(1.0, 1e-6, group_size=2, n_steps="theorem4", **problem)


# --- weights of classes ---------------------------------------------------------------------------


def test_a_class_weight_multiplies_the_gradients_of_its_records():
    """Records of weight 0 are not there, but for the public divisor."""
    options = {"conditioning": None, "random_state": 1, "fit_intercept": False}
    model = PrivateLogisticRegression(classes=[0, 1], class_weight={0: 0, 1: 5}, **options)
    zeroed = X * (Y == 1)[:, None]
    assert np.allclose(quietly(model, X, Y).coef_, quietly(model, zeroed, Y).coef_, atol=1e-9)
    assert model.class_weight_ == {0: 0.0, 1: 1.0}


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters",
    [{}, {"conditioning": None}, {"solver": "objective_perturbation"}],
)
def test_private_class_weights_are_paid_for(parameters):
    y = (X[:, 0] > 0.4).astype(int)  # a tenth
    options = {"classes": [0, 1], "class_weight": "private", **parameters}
    model = quietly(PrivateLogisticRegression(5.0, **options), X, y)
    assert model.class_weight_[1] == 1
    # noise of 5 records on counts of 150 and 1,350: six standard deviations
    assert model.class_weight_[0] == pytest.approx(1 / 9, abs=0.04)
    assert model.epsilon_ <= 5
    assert model.privacy_ == model.privacy_cost(N_ROWS, 3)
    assert tightest(model.mechanism_, delta=model.delta_).guarantee.epsilon(model.delta_) <= 5
    assert np.mean(model.predict(X)[y == 1]) > 0.8


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("balanced", "of each class, and these are private"),
        ("fair", "None, a dict"),
        ({7: 1.0}, "not one of classes"),
        ({0: -1.0}, "number >= 0"),
        ({0: math.nan}, "number >= 0"),
        ({0: 0.0, 1: 0.0}, "above 0"),
    ],
)
def test_weights_that_would_tell_or_mean_nothing_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        PrivateLogisticRegression(classes=[0, 1], class_weight=weights).fit(X, Y)


def test_counts_need_gaussian_noise():
    model = PrivateLogisticRegression(classes=[0, 1], class_weight="private", delta=0)
    model.set_params(solver=OutputPerturbation(noise="gamma"))
    with pytest.raises(ValueError, match="class_weight='private'"):
        model.privacy_cost(1000, 3)


def visits_of(n_persons, seed=0):
    """Return visits of persons, some of whom come often and are ill more, which no column tells."""
    rng = np.random.default_rng(seed)
    frail = rng.random(n_persons) < 0.15
    visits = np.where(frail, rng.integers(4, 12, n_persons), rng.integers(1, 3, n_persons))
    who = np.repeat(np.arange(n_persons), visits)
    X = rng.uniform(-1, 1, (len(who), 2))
    return X, rng.random(len(who)) < 1 / (1 + np.exp(3.2 - X[:, 0] - 1.5 * frail[who])), who


@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateGAMClassifier])
def test_risks_of_a_mean_row_add_up(kind):
    """Noise has a deviation of 1.5 % of the sum at epsilon 3: within ten of them."""
    X, y, who = visits_of(60_000)
    options = {"classes": [False, True], "max_rows_per_person": 12}
    options |= {"bounds": (-1, 1)} if kind is PrivateGAMClassifier else {}
    found = {}
    for estimand in ("persons", "rows"):
        model = kind(3.0, estimand=estimand, **options).fit(X, y, groups=who)
        found[estimand] = model.predict_proba(X)[:, 1].sum() / y.sum()
        assert model.privacy_.with_unit("record") == model.privacy_cost(60_000, 2)
        said = {"persons": "a mean person's", "rows": "of a mean row, of at most 12 a person"}
        assert said[estimand] in model.privacy_report().to_text()
    assert found["persons"] < 0.8
    assert 0.85 < found["rows"] < 1.15
    if kind is PrivateLogisticRegression:
        alike = kind(3.0, **options).fit(X, y, groups=who, equal_rows=True)
        said = "each row weighs 1/12, and predictions are a mean row's"
        assert said in alike.privacy_report().to_text()


@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        ({}, {}, "needs max_rows_per_person"),
        ({"max_rows_per_person": 3}, {"groups": None}, "is of persons"),
        ({"max_rows_per_person": 3}, {"equal_rows": True}, "is of persons"),
        ({"max_rows_per_person": 3, "classes": "auto"}, {}, "two classes that are given"),
        ({"max_rows_per_person": 3, "conditioning": None}, {}, "use solver='auto'"),
        ({"max_rows_per_person": 3, "estimand": "visits"}, {}, "estimand='visits'"),
    ],
)
def test_where_there_is_no_mean_row_is_said(options, given, message):
    X, y, who = visits_of(300)
    model = PrivateLogisticRegression(classes=[False, True], estimand="rows").set_params(**options)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, **({"groups": who} | given))
