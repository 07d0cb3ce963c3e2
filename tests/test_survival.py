"""Time to event: rows of persons and periods, public weights, and survival curves."""

import math
from functools import reduce
from operator import add
from types import SimpleNamespace

import numpy as np
import pytest

from skdpdyn import PrivateLogisticRegression, PrivateRidge
from skdpdyn.data.persons import by_person
from skdpdyn.inference import IncidenceCurve, SurvivalCurve, person_periods, private_regression
from skdpdyn.inference.directions import row_by_row
from skdpdyn.inference.histories import rows_that_count
from skdpdyn.inference.scoring import exponentials

TIMES = [10, 20, 30, 40, 50, 60, 75]


def waltons():
    """Return durations, events and whether the group is the control, of a data set of lifelines."""
    datasets = pytest.importorskip("lifelines.datasets")
    data = datasets.load_waltons()
    return data["T"].to_numpy(), data["E"].to_numpy(), (data["group"] == "control").to_numpy()


def hazards(X, y, groups, **options):
    """Return the table of a regression of hazards."""
    given = {"bounds": (0, 1), "classes": [0, 1], "groups": groups, "random_state": 0}
    model = PrivateLogisticRegression(max_rows_per_person=options.pop("most", len(TIMES)))
    return private_regression(model, X, y, equal_rows=True, **(given | options))[1]


def test_rows_of_persons_and_periods():
    """Persons censored late, early and at once, beyond the grid, and with events at once."""
    X, y, groups, at_risk = person_periods(
        [1.6, 1.4, 0.3, 9.0, 2.0, 0.1], [0, 0, 0, 1, 1, 1], [1, 2, 3], np.arange(6)[:, None]
    )
    np.testing.assert_array_equal(groups, [0, 0, 1, 2, 3, 3, 3, 4, 4, 5])
    np.testing.assert_array_equal(X[:, 2], groups)
    np.testing.assert_array_equal(at_risk, groups != 2)
    np.testing.assert_array_equal(y, [0, 0, 0, 0, 0, 0, 0, 0, 1, 1])
    np.testing.assert_array_equal(X[:, :2].sum(axis=1), [0, 1, 0, 0, 0, 1, 1, 0, 1, 0])
    _, other, *_ = person_periods([0.5, 0.5], [1, "cancer"], [1, 2])
    np.testing.assert_array_equal(other, [1, 0])
    pandas = pytest.importorskip("pandas")
    frame, *_ = person_periods([1.5], [0], [1, 2, 3], pandas.DataFrame({"age": [40]}))
    assert list(frame) == ["period to 2", "period to 3", "age"]


def test_rows_of_persons_who_enter_late():
    """In the first half of a period, in the second, and behind all; other events end periods."""
    _, y, groups, at_risk = person_periods(
        [2.5, 2.5, 1.9, 9.0, 1.2, 0.9],
        [1, 1, 0, 1, 2, 1],
        [1, 2, 3],
        entries=[1.4, 1.6, 1.6, 5.0, 0.0, 0.8],
    )
    np.testing.assert_array_equal(groups, [0, 0, 1, 2, 3, 4, 4, 5])
    np.testing.assert_array_equal(y, [0, 1, 1, 0, 0, 0, 0, 1])
    np.testing.assert_array_equal(at_risk, [1, 1, 1, 0, 0, 1, 1, 1])
    _, y, *_ = person_periods([0.5, 1.2], [1, 2], [1, 2], event=2)
    np.testing.assert_array_equal(y, [0, 0, 1])


def late_entries(n, rng):
    """Return entries, durations and causes of persons who entered before anything happened."""
    entries = rng.uniform(0, 20, 4 * n)
    times = rng.exponential([[20.0], [40.0]], (2, 4 * n))
    kept = np.flatnonzero(times.min(axis=0) > entries)[:n]
    return entries[kept], times.min(axis=0)[kept], 1 + times.argmin(axis=0)[kept]


def test_incidence_of_competing_events_with_late_entries():
    """Both curves are within 5 standard errors of what constant hazards make, and not much less.

    Without entries, those who are seen have survived: incidence is too low.
    """
    entries, durations, causes = late_entries(20_000, np.random.default_rng(0))
    times = [5, 10, 15, 20]
    tables = {}
    for event in (1, 2):
        X, y, groups, at_risk = person_periods(
            durations, causes, times, np.ones((20_000, 1)), entries=entries, event=event
        )
        tables[event] = hazards(X[:, :-1], y, groups, epsilon=20.0, at_risk=at_risk, most=4)
    curve = IncidenceCurve.of(tables, times)
    all_events = 1 - np.exp(-curve.times * (1 / 20 + 1 / 40))
    for event, part in ((1, 2 / 3), (2, 1 / 3)):
        widths = (curve.high[event] - curve.low[event]) / 2
        off = np.abs(curve.incidence[event] - part * all_events)
        assert np.all(off <= 2.6 * widths + 0.004)  # hazards change within periods
        assert np.all(widths < 0.05)


def test_curves_of_a_person_by_name():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    control = rng.random(5000) < 0.5
    frame = pandas.DataFrame({"control": control * 1.0})
    durations = rng.exponential(np.where(control, 60, 30))
    X, y, groups, at_risk = person_periods(durations, np.ones(5000), TIMES, frame)
    table = hazards(X, y, groups, epsilon=50.0, at_risk=at_risk)
    by_place = SurvivalCurve.of(table, TIMES, [1.0])
    for named in ({"control": 1.0}, frame[control].iloc[:1]):
        same = SurvivalCurve.of(table, TIMES, named)
        np.testing.assert_array_equal(same.survival, by_place.survival)
    with pytest.raises(ValueError, match=r"X has the columns \['age', .*but the table has"):
        SurvivalCurve.of(table, TIMES, {"age": 1.0})


def test_curves_of_a_person_by_level():
    """Of levels that are pooled, too, and of values that are not listed."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    arms = rng.choice(["a", "b", "c"], 8000, p=[0.6, 0.37, 0.03])
    durations = rng.exponential(np.where(arms == "b", 60, 30))
    frame = pandas.DataFrame({"age": rng.uniform(0, 1, 8000), "arm": arms})
    X, y, groups, at_risk = person_periods(durations, np.ones(8000), TIMES, frame)
    _, table = private_regression(
        PrivateLogisticRegression(max_rows_per_person=len(TIMES)), X, y, epsilon=20.0,
        bounds=(0, 1), classes=[0, 1], groups=groups, equal_rows=True, at_risk=at_risk,
        categories={"arm": ["a", "b", "c"]}, random_state=0,
    )  # fmt: skip
    assert table.names[-3:-1] == ("arm: b", "arm: all other levels")
    for arm, dummies in (
        ("a", (0, 0)),
        ("b", (1, 0)),
        ("c", (0, 1)),
        ("z", (0, 1)),
        (None, (0, 1)),
    ):
        by_place = SurvivalCurve.of(table, TIMES, [0.5, *dummies])
        same = SurvivalCurve.of(table, TIMES, {"age": 0.5, "arm": arm})
        np.testing.assert_array_equal(same.survival, by_place.survival)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0], [1], [2, 1]), "times=.* must be two or more increasing"),
        (([0.0], [1], [1, 2]), "durations must hold finite numbers > 0 only"),
        (([1.0], np.array(["1"]), [1, 2]), "labels that are not in"),
        (([1.0], [1, 0], [1, 2]), "one number for each person"),
        (([1.0], [1], [1, 2], [[1], [2]]), "X has 2 rows, and durations 1"),
    ],
)
def test_what_is_no_time_to_an_event_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        person_periods(*arguments)


def test_a_list_of_numbers_is_one_of_doubles_whatever_single_cells_are():
    for cell in (2, True, 2**64, np.float32(0.5)):
        X, *_ = person_periods([0.5, 2.0], [1, 0], [1, 2], [[1.0, 3.0], [cell, 4.0]])
        assert X.dtype == np.float64
        assert X[:, 1].tolist() == [1.0, float(cell), float(cell)]
    with pytest.raises(ValueError, match="cells of several types"):
        person_periods([0.5, 2.0], [1, 0], [1, 2], [[1.0, 3.0], ["2", 4.0]])


def test_public_weights_add_up_to_one_at_most():
    for most in (1, 3, 7, 49):
        codes = np.repeat([0, 1], [most, 1])
        used, persons, weight = by_person(codes, most, equal=True)
        assert used is None
        assert persons.n_persons == 2
        assert np.all(weight == weight[0])
        assert reduce(add, weight[:most].tolist()) <= 1
        assert weight[0] == pytest.approx(1 / most)
    used, persons, weight = by_person(np.zeros(4, dtype=int), 3, equal=True)
    assert (used.size, persons.largest, weight.size) == (3, 3, 3)


def test_spells_of_a_person_share_its_weight():
    """Two spells are 2 len(times) rows of one person; of more than the limit some are not used."""
    durations = np.repeat([80.0, 5.0, 33.0], 20)
    X, y, groups, _ = person_periods(durations, durations < 40, TIMES, np.ones((60, 1)))
    ids = np.append(np.repeat(np.arange(10), 2), np.arange(10, 50))[groups]
    for most in (len(TIMES), 2 * len(TIMES)):
        table = hazards(X, y, ids, epsilon=1.0, most=most, at_risk=np.ones(len(y), bool))
        assert (table.privacy_.unit, table.n_samples) == ("person", 50)


def test_rows_that_count_keep_a_person_s_sums_bounded():
    """Whatever the rows: exact sums are within the bounds, and near to both for some person."""
    rng = np.random.default_rng(0)
    n = 400
    k = 6
    rows = rng.normal(size=(n * k, 3))
    owners = np.repeat(np.arange(n), k)
    rows[: n * k // 2] = np.repeat(rows[: n * k // 2 : k], k, axis=0)  # all rows point the same way
    rows /= np.maximum(np.linalg.norm(rows, axis=1), 1)[:, None]
    _, persons, _ = by_person(owners, k, equal=True)
    p = rng.uniform(size=n * k)
    weight = rng.choice([1.0, 0.5], n * k)
    y = (rng.uniform(size=n * k) < p).astype(float)
    counts = rows_that_count(persons, rows, weight, p, y, (1.15, 0.3), k)
    terms = (counts * weight * (p - y))[:, None] * rows
    bends = (counts * weight * p * (1 - p))[:, None, None] * rows[:, :, None] * rows[:, None]
    for of_rows, most in ((terms, 1.15), (bends, 0.3)):
        sums = of_rows.reshape(n, k, -1).sum(axis=1)
        assert 0.95 * most < np.linalg.norm(sums, axis=1).max() <= most
    # no row counts by its own target
    other = rows_that_count(persons, rows, weight, p, 1 - y, (1.15, 0.3), k)
    np.testing.assert_array_equal(other[::k], counts[::k])


def test_which_rows_count_does_not_depend_on_other_persons():
    """To the last bit, though another person has fewer rows, which moves all that follow."""
    rng = np.random.default_rng(0)
    n = 500
    k = 6
    rows = rng.normal(size=(n * k, 5)) / 3
    p = rng.uniform(size=n * k)
    y = (p < 0.3).astype(float)
    weight = np.ones(n * k)
    owners = np.repeat(np.arange(n), k)
    found = []
    for kept in (np.arange(n * k), np.r_[0:2, k : n * k]):
        _, persons, _ = by_person(owners[kept], k, equal=True)
        given = rows[kept], weight[kept], p[kept], y[kept]
        found.append(rows_that_count(persons, *given, (1.15, 0.3), k)[-(n - 1) * k :])
    np.testing.assert_array_equal(*found)
    assert 0.2 < found[0].mean() < 0.9


def test_censoring_does_not_bend_curves():
    """Of 24 bands of 95 % and five ends each less than 93 of 120 hold the truth with probability
    1e-6, as if the five of a curve were one and the same in all but their part.
    """
    times = [1, 2, 3, 4, 6]
    held = 0
    for seed in range(24):
        rng = np.random.default_rng(seed)
        lasts = rng.exponential(5.0, 10_000)
        left = rng.uniform(0, 12, 10_000)
        X, y, groups, at_risk = person_periods(np.minimum(lasts, left), lasts <= left, times)
        _, table = private_regression(
            PrivateLogisticRegression(max_rows_per_person=5), X, y, epsilon=3.0, bounds=(0, 1),
            classes=[0, 1], groups=groups, at_risk=at_risk, equal_rows=True, one_hot=[range(4)],
        )  # fmt: skip
        curve = SurvivalCurve.of(table, times)
        truth = np.exp(-curve.times / 5)
        held += np.count_nonzero((curve.low <= truth) & (truth <= curve.high)) - 1
        assert table.answered.all()
        assert np.max(curve.high - curve.low) < 0.06
    assert held >= 93


def test_hazards_are_those_of_statsmodels_and_curves_those_of_lifelines():
    """With a large budget, on data that lifelines has: within the private intervals."""
    import statsmodels.api as api  # slow to load

    lifelines = pytest.importorskip("lifelines")
    durations, events, control = waltons()
    X, y, groups, at_risk = person_periods(durations, events, TIMES, control[:, None].astype(float))
    table = hazards(X, y, groups, epsilon=1e6, delta=1e-9, at_risk=at_risk)
    public = api.Logit(y[at_risk], api.add_constant(X[at_risk])).fit(disp=0)
    known = np.append(public.params[1:], public.params[0])
    errors = np.append(public.bse[1:], public.bse[0])
    answered = table.answered
    assert answered[-2:].all()
    assert np.all(np.abs(table.params - known)[answered] < 0.5 * errors[answered])
    np.testing.assert_allclose(table.bse[answered], errors[answered], rtol=0.15)
    curve = SurvivalCurve.of(table, TIMES, [1.0])
    whole = np.minimum(np.searchsorted(TIMES, durations), len(TIMES) - 1)
    ends = np.array(TIMES)[whole]
    beyond = durations > TIMES[-1]
    chosen = control.astype(bool)
    meier = lifelines.KaplanMeierFitter().fit(ends[chosen], (events & ~beyond)[chosen])
    expected = meier.survival_function_at_times(curve.times).to_numpy()
    finite = np.isfinite(curve.low)
    assert finite.sum() >= 5
    assert np.all((curve.low <= expected + 0.05) & (expected - 0.05 <= curve.high) | ~finite)
    assert np.all(np.diff(curve.survival[finite]) <= 0)
    with pytest.raises(ValueError, match="but the table has 8 coefficients"):
        SurvivalCurve.of(table, TIMES)


def test_equal_weights_do_not_bend_hazards():
    """Rows that weigh 1/k make early events count more: hazards of 0.3 become larger."""
    rng = np.random.default_rng(0)
    durations = rng.geometric(0.3, 20_000).astype(float)
    X, y, groups, _ = person_periods(durations, np.ones(20_000), [1, 2, 3, 4, 5, 6])
    found = []
    model = PrivateLogisticRegression(1e3, 1e-9, classes=[0, 1], alpha=1e-6, max_rows_per_person=6)
    for equal_rows in (True, False):
        model.fit(X, y, groups=groups, equal_rows=equal_rows)
        found.append(model.predict_proba(X[:6])[0, 1])
    assert found[0] == pytest.approx(0.3, abs=0.03)
    assert found[1] > 0.4


@pytest.mark.parametrize(("most", "groups"), [(3, None), ("auto", [0, 1])])
def test_public_weights_need_persons_and_a_number(most, groups):
    model = PrivateRidge(target_bounds=(0, 1), max_rows_per_person=most)
    with pytest.raises(ValueError, match="equal_rows=True is of persons' rows"):
        model.fit([[0.1], [0.2]], [0, 1], groups=groups, equal_rows=True)


def test_numbers_of_a_persons_rows_are_the_same_wherever_they_stand():
    """What is compared with limits: products and exponentials, to the last bit, as Python's."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(70, 5))
    matrix = rng.normal(size=(3, 5))
    raw = rng.normal(0, 9, 70)
    owned = SimpleNamespace(persons=True)
    several = np.stack([z[k : k + 4] for k in range(60)])  # of persons at all offsets
    products = np.einsum("pid,pjd->pij", several, several)
    alone = [np.einsum("pid,pjd->pij", one[None], one[None])[0] for one in several]
    np.testing.assert_array_equal(products, alone)
    # `sum` keeps what is rounded away, from Python 3.12 on
    known = [[reduce(add, (a * b).tolist()) for b in matrix] for a in z]
    for first in range(17):
        np.testing.assert_array_equal(row_by_row(z[first:], matrix), known[first:])
        each = [math.exp(one) for one in raw[first:].tolist()]
        np.testing.assert_array_equal(exponentials(raw[first:], owned), each)
