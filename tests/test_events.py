"""Events of dp_accounting, in and out; exact profiles of noise on integers and of answers."""

import itertools
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import dp_event as events
from scipy import integrate, stats

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy import (
    ApproximateDP,
    Composition,
    DiscreteDP,
    DiscreteGaussian,
    DiscreteLaplace,
    GaussianDP,
    Laplace,
    LaplaceDP,
    PoissonSubsampled,
    RandomizedResponse,
    RenyiDP,
    Selection,
    TruncatedPoisson,
    from_dp_event,
    from_json,
    perturbation,
    selection,
    subsampling,
    tightest,
    to_json,
)
from skdpdyn.privacy.guarantees import LinearCurve

RELATIONS = dp_accounting.NeighboringRelation
ADD, REPLACE, SPECIAL = (
    RELATIONS.ADD_OR_REMOVE_ONE,
    RELATIONS.REPLACE_ONE,
    RELATIONS.REPLACE_SPECIAL,
)


def hockey_stick(p, q, epsilon):
    return np.sum(np.maximum(p - np.exp(epsilon) * q, 0.0))


def discrete_laplace(a, reach):
    x = np.arange(-reach, reach + 1)
    return np.tanh(a / 2) * np.exp(-a * np.abs(x))


# --- exact profiles -------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.4])
def test_profiles_are_those_of_the_definition(epsilon):
    reach, shift = 400, 3
    x = np.arange(-reach, reach + 1)
    for record, law in (
        (DiscreteLaplace(noise_parameter=0.4, sensitivity=shift), discrete_laplace(0.4, reach)),
        (DiscreteGaussian(scale=2.5, sensitivity=shift), np.exp(-(x**2) / 12.5)),
    ):
        law = law / law.sum()
        exact = hockey_stick(law[shift:], law[:-shift], epsilon)
        assert perturbation(record).delta(epsilon) == pytest.approx(exact, rel=1e-10, abs=1e-15)
    p, k = 0.3, 5
    one, other = np.full(k, p / k), np.full(k, p / k)
    one[0] += 1 - p
    other[1] += 1 - p
    answers = RandomizedResponse(noise_parameter=p, n_answers=k)
    assert perturbation(answers).delta(epsilon) == pytest.approx(
        hockey_stick(one, other, epsilon), rel=1e-12
    )
    special = RandomizedResponse(noise_parameter=p, n_answers=k, adjacency="add_remove")
    uniform = np.full(k, 1 / k)
    both = max(hockey_stick(one, uniform, epsilon), hockey_stick(uniform, one, epsilon))
    assert perturbation(special).delta(epsilon) == pytest.approx(both, rel=1e-12)
    exact, _ = integrate.quad(
        lambda x: max(math.exp(-abs(x - 2)) - math.exp(epsilon - abs(x)), 0) / 2, -9, 60, limit=400
    )
    assert LaplaceDP(2.0).delta(epsilon) == pytest.approx(exact, abs=1e-4)


EXACT = {
    "laplace": LaplaceDP(1.3),
    "discrete laplace": DiscreteDP(DiscreteLaplace(noise_parameter=0.3, sensitivity=4)),
    "discrete gaussian": DiscreteDP(DiscreteGaussian(scale=3.0, sensitivity=2)),
    "answers": DiscreteDP(RandomizedResponse(noise_parameter=0.2, n_answers=7)),
    "answers, add_remove": DiscreteDP(
        RandomizedResponse(noise_parameter=0.2, n_answers=7, adjacency="add_remove")
    ),
    "no answer": DiscreteDP(RandomizedResponse(noise_parameter=1.0, n_answers=7)),
}


@pytest.mark.parametrize("name", EXACT)
def test_epsilon_delta_and_renyi_agree(name):
    guarantee = EXACT[name]
    for delta in (0.2, 1e-3, 1e-9, 1e-200):
        epsilon = guarantee.epsilon(delta)
        assert guarantee.delta(epsilon) <= delta
        assert epsilon == 0 or guarantee.delta(epsilon * (1 - 1e-6)) > delta * (1 - 1e-6)
    order = np.array([1 + 1e-9, 1.5, 4.0, 1e6])
    divergence = guarantee.rdp(order)
    assert np.all(np.diff(divergence) >= 0)
    grid = np.linspace(0.0, 3.0, 40)
    renyi = RenyiDP(guarantee.rdp, guarantee.adjacency)
    assert np.all(renyi.delta(grid) >= guarantee.delta(grid) * (1 - 1e-12))
    # order 2, from the profile: E P/Q = 1 + the integral of 2 (e^x delta + e^-2x delta)
    x = np.linspace(0.0, guarantee.at_epsilon if guarantee.at_delta == 0 else 12.0, 200_001)
    squared = 1 + integrate.trapezoid(guarantee.delta(x) * 2 * (np.exp(x) + np.exp(-2 * x)), x)
    slack = 1.05 if "add_remove" in name else 1 + 1e-6  # both directions in one
    assert math.exp(guarantee.rdp(2.0)) <= squared * (1 + 1e-6)
    assert squared <= math.exp(guarantee.rdp(2.0)) * slack or "gaussian" in name
    assert from_json(to_json(guarantee)) == guarantee
    trials = Selection(trial=guarantee, expected_trials=5.0, shape=1.0)
    assert guarantee.epsilon(1e-6) <= selection(trials).epsilon(1e-6) < math.inf


@pytest.mark.parametrize(("first", "second"), [(1, 1), (2, 1), (3, 2), (5, 1)])
@pytest.mark.parametrize("a", [0.05, 0.4, 2.0])
def test_shared_sensitivity_costs_no_more_than_one_integer(first, second, a):
    reach = 60 if a > 0.1 else 400
    law = discrete_laplace(a, reach)
    pairs = [(law[shift:], law[: law.size - shift]) for shift in (first, second)]
    p, q = (np.multiply.outer(one, two) for one, two in zip(*pairs, strict=True))
    whole = perturbation(DiscreteLaplace(noise_parameter=a, sensitivity=first + second))
    for epsilon in np.linspace(0.0, a * (first + second), 23):
        assert hockey_stick(p, q, epsilon) <= whole.delta(epsilon) + 1e-7


@pytest.mark.parametrize(("s", "t"), [(1.0, 1.0), (2.0, 0.5), (0.3, 0.2)])
def test_shared_sensitivity_of_laplace_noise_is_as_the_docstring_says(s, t):
    """By the losses of the first: atoms at its ends, density e^((l - s) / 2) / 4 between."""

    def second(x):
        return -math.expm1(min(x, -t / 1)) if x < -t else max(-math.expm1((x - t) / 2), 0.0)

    for epsilon in np.linspace(0.0, s + t, 9):
        exact = (second(epsilon - s) + math.exp(-s) * second(epsilon + s)) / 2
        exact += integrate.quad(
            lambda loss, epsilon=epsilon: math.exp((loss - s) / 2) / 4 * second(epsilon - loss),
            -s, s, points=sorted({min(max(epsilon + sign * t, -s), s) for sign in (-1, 1)}),
        )[0]  # fmt: skip
        less = t / 2 if epsilon <= s - t else (s + t - epsilon) / 4
        claimed = LaplaceDP(s + t).delta(epsilon) - less * math.exp((epsilon - s - t) / 2)
        assert exact == pytest.approx(claimed, abs=1e-9)


def test_repeated_answers_are_those_of_a_binomial_law():
    coin = perturbation(RandomizedResponse(noise_parameter=0.5, n_answers=2))
    ten = Composition((RandomizedResponse(noise_parameter=0.5, n_answers=2),) * 10)
    total = tightest(ten).guarantee
    count, one = np.arange(11), coin.at_epsilon
    weights = np.array([math.comb(10, k) for k in count]) * 0.75**count * 0.25 ** (10 - count)
    gain = np.maximum(-np.expm1(2.0 - one * (2 * count - 10)), 0.0)
    assert total.delta(2.0) == pytest.approx(np.sum(weights * gain), rel=1e-3)
    assert total.delta(2.0) >= np.sum(weights * gain)
    assert total.epsilon(0.0) == pytest.approx(10 * one, rel=1e-12)


@pytest.mark.parametrize("delta", [1e-16, 1e-40])
def test_composed_pure_parts_have_an_answer_far_below_their_bound(delta):
    """Before, a ZeroDivisionError: far below the likely losses delta came out as 0."""
    total = tightest(Composition((Laplace(noise_multiplier=1.0),) * 2)).guarantee
    assert 1.9 < total.epsilon(delta) <= 2.0 * (1 + 1e-14)


def truncated(adjacency="add_remove", **changes):
    run = {"n_samples": 200, "sampling_probability": 0.05, "batch_size": 12, "n_steps": 20}
    return TruncatedPoisson(adjacency=adjacency, **run | {"noise_multiplier": 2.0} | changes)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_truncated_batches(adjacency):
    epsilon = subsampling(truncated(adjacency)).epsilon(1e-5)
    guarantee = subsampling(truncated(adjacency))
    theirs = dp_accounting.pld.PLDAccountant(guarantee.neighboring_relation)
    theirs.compose(guarantee.dp_event)
    assert epsilon == pytest.approx(theirs.get_epsilon(1e-5), rel=2e-4)
    plain = PoissonSubsampled(
        sampling_probability=0.05, noise_multiplier=2.0, n_steps=20, adjacency=adjacency
    )
    never = subsampling(truncated(adjacency, batch_size=200))
    assert never.epsilon(1e-5) == pytest.approx(subsampling(plain).epsilon(1e-5), rel=1e-5)
    assert epsilon > never.epsilon(1e-5)


def test_points_drawn_at_random():
    """Of two points, one of which is 0, a step of Poisson batches; of three, by quadrature."""
    read = {"relation": ADD, "adjacency": "add_remove"}
    event = events.MixtureOfGaussiansDpEvent(2.0, [0, 1], [0.99, 0.01])
    found = from_dp_event(events.SelfComposedDpEvent(event, 500), **read)
    batches = PoissonSubsampled(
        sampling_probability=0.01, noise_multiplier=2.0, n_steps=500, adjacency="add_remove"
    )
    assert found.epsilon(1e-6) == pytest.approx(subsampling(batches).epsilon(1e-6), rel=1e-6)
    alone = from_dp_event(events.MixtureOfGaussiansDpEvent(2.0, [3.0], [1.0]), **read)
    assert alone.delta(0.5) == pytest.approx(GaussianDP(1.5).delta(0.5), rel=1e-9)
    x = np.linspace(-15, 20, 350_001)
    none = stats.norm.pdf(x)
    some = 0.2 * none + 0.5 * stats.norm.pdf(x - 0.7) + 0.3 * stats.norm.pdf(x - 2)
    three = from_dp_event(
        events.MixtureOfGaussiansDpEvent(1.0, [0, 0.7, 2.0], [0.2, 0.5, 0.3]), **read
    )
    for epsilon in (0.0, 0.4, 1.2, 3.0):
        true = [
            np.sum(np.maximum(one - math.exp(epsilon) * other, 0)) * 1e-4
            for one, other in ((some, none), (none, some))
        ]
        assert max(true) * (1 - 1e-6) < three.delta(epsilon) < max(true) * (1 + 1e-5) + 1e-12
    assert from_json(to_json(three)) == three


def test_truncated_batches_are_above_a_law_that_is_written_out():
    """One step, three records, of which one at most is taken; the others' values are -1."""
    q, noise = 0.6, 1.5
    y = np.linspace(-16, 16, 40_001)

    def law(value):  # of the record, which vanishes for None
        total = np.zeros_like(y)
        values = [-1, -1] if value is None else [-1, -1, value]
        for taken in itertools.product((0, 1), repeat=len(values)):
            weight = np.prod([q if one else 1 - q for one in taken])
            drawn = list(itertools.compress(values, taken)) or [0]
            for sum_ in drawn:
                total += weight / len(drawn) * np.exp(-((y - sum_) ** 2) / 2 / noise**2)
        return total / np.sqrt(2 * np.pi) / noise

    one_of_three = {"n_samples": 3, "sampling_probability": q, "batch_size": 1, "n_steps": 1}
    for adjacency, other in (("add_remove", None), ("replace_one", -1.0)):
        bound = subsampling(truncated(adjacency, **one_of_three, noise_multiplier=noise))
        for epsilon, pair in itertools.product((0.0, 0.5, 1.0), ((1.0, other), (other, 1.0))):
            one, two = map(law, pair)
            exact = integrate.trapezoid(np.maximum(one - math.exp(epsilon) * two, 0), y)
            assert exact <= bound.delta(epsilon) <= 1


# --- events ---------------------------------------------------------------------------------------

GUARANTEES = {
    "gaussian": GaussianDP(0.5),
    "nothing": GaussianDP(0.0, "add_remove"),
    "laplace": LaplaceDP(0.5),
    "discrete laplace": EXACT["discrete laplace"],
    "answers": EXACT["answers"],
    "answers, add_remove": EXACT["answers, add_remove"],
    "zcdp": RenyiDP(LinearCurve(0.25, 0.5)),
    "selection": selection(Selection(trial=GaussianDP(0.5), expected_trials=4.0, shape=1.0)),
    "poisson": subsampling(
        PoissonSubsampled(sampling_probability=0.1, noise_multiplier=2.0, n_steps=7)
    ),
    "truncated": subsampling(truncated()),
    "two kinds": subsampling(
        PoissonSubsampled(sampling_probability=0.1, noise_multiplier=2.0, n_steps=7)
    ).compose(GaussianDP(0.5)),
    "laplace and batches": subsampling(truncated()).compose(LaplaceDP(0.5, "add_remove")),
}


@pytest.mark.parametrize("name", GUARANTEES)
def test_round_trip(name):
    guarantee = GUARANTEES[name]
    again = from_dp_event(
        guarantee.dp_event,
        relation=guarantee.neighboring_relation,
        adjacency=str(guarantee.adjacency),
    )
    assert again == guarantee


@pytest.mark.parametrize("z", [0.3, 1.0, 7.0])
def test_noise_is_read_as_its_relation_says(z):
    for adjacency in ("add_remove", "replace_one"):
        for relation, moved in ((ADD, 1), (SPECIAL, 1), (REPLACE, 2)):
            read = {"relation": relation, "adjacency": adjacency}
            gaussian = from_dp_event(events.GaussianDpEvent(z), **read)
            assert gaussian.mu == pytest.approx(moved / z, rel=1e-15)
            assert gaussian.adjacency == adjacency
            laplace = from_dp_event(events.LaplaceDpEvent(z), **read)
            assert laplace.epsilon(0.0) == pytest.approx(moved / z, rel=1e-15)
            integers = from_dp_event(events.DiscreteLaplaceDpEvent(0.25, 2), **read)
            assert integers.epsilon(0.0) == pytest.approx(0.5 * moved)


GAUSSIAN = events.GaussianDpEvent(2.0)
REFUSED = {
    "UnsupportedDpEvent": (events.UnsupportedDpEvent(), ADD, "add_remove"),
    "MixtureOfGaussiansDpEvent": (
        events.MixtureOfGaussiansDpEvent(1.0, [0, 1], [0.5, 0.5]), REPLACE, "replace_one"),
    "SampledWithReplacementDpEvent": (
        events.SampledWithReplacementDpEvent(9, 3, GAUSSIAN), REPLACE, "replace_one"),
    "PoissonSampledDpEvent": (
        events.PoissonSampledDpEvent(0.1, GAUSSIAN), ADD, "replace_one"),
    "PoissonSampledDpEvent is for": (
        events.PoissonSampledDpEvent(0.1, events.LaplaceDpEvent(1.0)), REPLACE, "replace_one"),
    "TruncatedSubsampledGaussianDpEvent": (
        events.TruncatedSubsampledGaussianDpEvent(9, 0.1, 3, 1.0), REPLACE, "add_remove"),
    "RandomizedResponseDpEvent is for": (
        events.RandomizedResponseDpEvent(0.1, 3), ADD, "add_remove"),
    "RandomizedResponseDpEvent": (
        events.RandomizedResponseDpEvent(0.1, 3), SPECIAL, "replace_one"),
    "SampledWithoutReplacementDpEvent": (
        events.SampledWithoutReplacementDpEvent(9, 3, GAUSSIAN), ADD, "add_remove"),
    "SingleEpochTreeAggregationDpEvent": (
        events.SingleEpochTreeAggregationDpEvent(1.0, 4), ADD, "add_remove"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_others_are_refused_by_name(name):
    event, relation, adjacency = REFUSED[name]
    for nested in (event, events.ComposedDpEvent([GAUSSIAN, event]),
                   events.SelfComposedDpEvent(event, 3)):  # fmt: skip
        with pytest.raises(UnsupportedMechanismError, match=name):
            from_dp_event(nested, relation=relation, adjacency=adjacency)


def test_what_is_no_event_or_relation_is_refused():
    class GaussianDpEvent(events.DpEvent):
        noise_multiplier = 100.0

    with pytest.raises(UnsupportedMechanismError, match="GaussianDpEvent has no record"):
        from_dp_event(GaussianDpEvent(), relation=ADD, adjacency="add_remove")
    with pytest.raises(ValueError, match=r"event=1\.0 must be"):
        from_dp_event(1.0, relation=ADD, adjacency="add_remove")
    with pytest.raises(ValueError, match="relation='add' must be"):
        from_dp_event(GAUSSIAN, relation="add", adjacency="add_remove")
    with pytest.raises(ValueError, match="noise_multiplier=-1"):
        from_dp_event(events.GaussianDpEvent(-1), relation=ADD, adjacency="add_remove")
    with pytest.raises(TypeError, match="relation"):
        from_dp_event(GAUSSIAN, adjacency="add_remove")


def test_open_events_promise_nothing():
    for event in (
        events.NonPrivateDpEvent(),
        events.GaussianDpEvent(0.0),
        events.PoissonSampledDpEvent(0.1, events.GaussianDpEvent(0.0)),
        events.ComposedDpEvent([GAUSSIAN, events.NonPrivateDpEvent()]),
    ):
        guarantee = from_dp_event(event, relation=ADD, adjacency="add_remove")
        assert guarantee.epsilon(0.99) == math.inf
        assert guarantee.delta(50.0) == 1
    assert ApproximateDP(0.0, 1.0).delta(1.0) == 1


# --- dp_accounting's own suites -------------------------------------------------------------------


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.parametrize(("suite", "least"), [("pld", 64), ("rdp", 126)])
def test_their_own_cases(suite, least):
    """Of 68 and 142 of dp_accounting 0.6; `benchmarks accounting --peers` names the others."""
    from accounting_peers import cases

    found = cases(suite)
    assert sum(failure is None for _, failure in found) >= least, [
        name for name, failure in found if failure
    ]
