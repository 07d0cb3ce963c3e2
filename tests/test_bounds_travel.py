"""Guarantees travel: JSON, dp_accounting events, budgets stated as a risk, reports and displays."""

import json
import math
from contextlib import suppress
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from runs import cyclic, descent, fresh, one_pass, poisson
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skdpdyn import PrivateLogisticRegression
from skdpdyn.exceptions import CalibrationError, PrivacyLeakWarning, UnsupportedMechanismError
from skdpdyn.inspection import PrivacyDynamicsDisplay, TradeoffDisplay
from skdpdyn.model_selection import total_privacy
from skdpdyn.preprocessing import PrivateScaler
from skdpdyn.privacy import (
    ACCOUNTANTS,
    ApproximateDP,
    Assumed,
    Composition,
    Gaussian,
    GaussianDP,
    LaplaceDP,
    PerturbedObjective,
    PrivacyLossDP,
    ProfileMixture,
    RenyiDP,
    Selection,
    calibrate,
    composition,
    from_json,
    last_iterate,
    least_noise,
    most_steps,
    privacy_report,
    subsampling,
    tightest,
    to_json,
)
from skdpdyn.privacy.accountants.contraction import ContractedDP
from skdpdyn.privacy.accountants.perturbation import TiltedCurve
from skdpdyn.privacy.accountants.selection import SelectionCurve
from skdpdyn.privacy.guarantees import LinearCurve
from skdpdyn.privacy.numerical import RepeatedCurve, SampledCurve
from skdpdyn.privacy.renyi import LargestCurve, SummedCurve
from skdpdyn.privacy.schedules import cooled
from skdpdyn.privacy.serialization import TYPES, from_dict, to_dict

mpl.use("Agg")

RECORDS = [
    Gaussian(3.0),
    descent(n_steps=4, noise_multiplier=[1.0, 1.2, 1.5, 2.0], diameter=1.0, sensitivity=0.1),
    cyclic(n_samples=95, order="shuffled_once"),
    fresh(adjacency="add_remove"),
    poisson(noise_multiplier=4.5, adjacency="add_remove"),
    one_pass(stopping="random"),
    Composition((Gaussian(1 / 3), poisson())),
]


@pytest.mark.smoke
@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_json_keeps_every_bit(record):
    assert from_json(to_json(record)) == record
    for accountant in ACCOUNTANTS.values():
        try:
            guarantee = accountant(record)
        except UnsupportedMechanismError:
            continue
        again = from_json(to_json(guarantee))
        assert again == guarantee
        assert type(again.adjacency) is type(guarantee.adjacency)
        assert again.delta(0.3) == guarantee.delta(0.3)


def test_json_refuses_what_it_does_not_know():
    assert from_json(to_json(GaussianDP(math.inf))).mu == math.inf
    stored = to_json(GaussianDP(2.0))
    nan = '{"type": "float", "value": "nan"}'
    for text, message in (
        ('{"version": 3, "type": "os.system", "command": "ls"}', "is unknown"),
        ('{"version": 3, "type": "GaussianDP", "sigma": 1}', "not a stored GaussianDP"),
        (stored.replace("2.0", "-1"), "mu=-1"),
        (stored.replace("2.0", nan), "mu=nan"),
        (stored.replace("2.0", "NaN"), "NaN is no number"),
        (stored.replace("2.0", '2.0, "mu": 0.1'), "comes twice"),
        ('{"version": 3, "type": "float", "value": null}', "is unknown"),
        ('{"version": 3, "type": "LinearCurve", "rate": 1.0}', "holds no record"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ("[1, 2]", "holds no record"),
        ("3", "holds no record"),
    ):
        with pytest.raises(ValueError, match=message):
            from_json(text)
    with pytest.raises(ValueError, match="cannot be stored"):
        to_json(RenyiDP(math.sqrt))
    assert all(kind.__dataclass_params__.frozen for kind in TYPES.values())


def documents():
    """What is stored of every record, and of every guarantee of it."""
    others = (
        Selection(trial=GaussianDP(0.1), expected_trials=10.0, shape=1.0),
        Selection(trial=GaussianDP(0.1), expected_trials=10.0, shape=math.inf),
        PerturbedObjective(noise_multiplier=2.0, curvature=0.1, rank=3),
    )
    for record in (*RECORDS, *others):
        yield to_dict(record)
        for accountant in ACCOUNTANTS.values():
            with suppress(UnsupportedMechanismError):
                yield to_dict(accountant(record))


def objects(stored):
    """A document and all objects in it."""
    if isinstance(stored, dict):
        yield stored
    for value in (
        stored.values() if isinstance(stored, dict) else stored if isinstance(stored, list) else ()
    ):
        yield from objects(value)


def senseless(part, value):
    """What may not stand for a value: a text that says false is true in Python."""
    if isinstance(value, bool):
        return ["false", 1, None]
    if part["type"] == "float" or not isinstance(value, (int, float)):
        return []
    nan = {"type": "float", "value": "nan"}
    if isinstance(value, int):
        return [nan]
    # an infinite mu claims nothing
    return [nan, True, "1", [[1.0]]] + [10**400] * (value is not part.get("mu"))


def test_a_document_that_was_damaged_is_refused():
    """No default fills a field, no number is none: it could be the cheaper mechanism."""
    n_changes = 0
    for stored in documents():
        for part in objects(stored):
            for name, value in list(part.items()):
                wrong = senseless(part, value)
                del part[name]
                with pytest.raises(ValueError, match=r"is unknown|not a stored"):
                    from_dict(stored)
                for other in wrong:
                    part[name] = other
                    with pytest.raises(ValueError, match=rf"{name}|nan"):
                        from_dict(stored)
                    n_changes += 1
                part[name] = value
        assert from_dict(stored) is not None
    assert n_changes > 170


def test_parts_that_contradict_the_whole_are_refused():
    sampled = SampledCurve(0.9, 1.0, "add_remove")
    for curve in (
        sampled,
        RepeatedCurve(sampled, 3),
        SummedCurve((LinearCurve(0.1), sampled)),
        LargestCurve((sampled,)),
    ):
        assert RenyiDP(curve, "add_remove").epsilon(1e-5) > 0
        with pytest.raises(ValueError, match=r"adjacency='replace_one': .* holds for 'add_remove'"):
            RenyiDP(curve, "replace_one")
    apart = TiltedCurve(0.2, 0.1, apart=True)
    with pytest.raises(ValueError, match="holds for 'add_remove'"):
        RenyiDP(apart, "replace_one")
    with pytest.raises(ValueError, match="holds for 'add_remove'"):
        RenyiDP(
            SelectionCurve(LinearCurve(0.125), 5.0, math.inf, GaussianDP(0.5, "add_remove")),
            "replace_one",
        )
    with pytest.raises(ValueError, match="must be the guarantee that has the curve"):
        SelectionCurve(LinearCurve(0.125), 5.0, math.inf, GaussianDP(0.001))
    text = to_json(ProfileMixture([0.1, 3.0], [0.5, 0.5]))
    with pytest.raises(ValueError, match="must not be null"):
        from_json(json.dumps({**json.loads(text), "weights": None}))
    with pytest.raises(ValueError, match="distribution='cauchy' must be"):
        ContractedDP(0.1, 0.1, 3, distribution="cauchy")


class Doubled(GaussianDP):
    """Another guarantee, of a name that is stored."""

    def epsilon(self, delta):
        return 2 * super().epsilon(delta)


Doubled.__name__ = "GaussianDP"


def test_a_type_is_not_known_by_its_name():
    with pytest.raises(ValueError, match="cannot be stored"):
        to_json(Doubled(1.0))


# --- events ---------------------------------------------------------------------------------------


def pld_epsilon(guarantee, delta=1e-6):
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(guarantee.neighboring_relation)
    return accountant.compose(guarantee.dp_event).get_epsilon(delta)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_events_say_the_same_under_their_relation(adjacency):
    gaussian = GaussianDP(0.8, adjacency)
    run = {"noise_multiplier": 1.0, "n_steps": 30, "adjacency": adjacency}
    sampled = subsampling(poisson(sampling_probability=0.05, **run))
    for guarantee in (gaussian, sampled, sampled.compose(gaussian), LaplaceDP(0.5, adjacency)):
        assert pld_epsilon(guarantee) == pytest.approx(guarantee.epsilon(1e-6), rel=1e-3)


def test_relations():
    import dp_accounting

    relations = dp_accounting.NeighboringRelation
    assert GaussianDP(1.0).neighboring_relation is relations.ADD_OR_REMOVE_ONE
    assert subsampling(poisson()).neighboring_relation is relations.REPLACE_ONE
    zcdp = RenyiDP(LinearCurve(0.3))
    accountant = dp_accounting.rdp.RdpAccountant(neighboring_relation=zcdp.neighboring_relation)
    accountant.compose(zcdp.dp_event)
    assert accountant.get_epsilon(1e-6) >= zcdp.epsilon(1e-6)
    assert accountant.get_epsilon(1e-6) == pytest.approx(zcdp.epsilon(1e-6), rel=1e-2)
    for guarantee in (ApproximateDP(1.0), subsampling(fresh())):
        with pytest.raises(UnsupportedMechanismError, match="no dp_accounting event"):
            _ = guarantee.dp_event


# --- budgets as risk ------------------------------------------------------------------------------

SIZE = {"n_samples": 10_000, "n_features": 50}
PROBLEM = {**SIZE, "lipschitz": 1.0, "strong_convexity": 0.01, "smoothness": 0.26}


@pytest.mark.parametrize("n_steps", ["curvature", "worst_case", 100])
def test_calibrate_to_risk(n_steps):
    for target in (1e-3, 0.1, 2.0):
        mu = tightest(calibrate(mu=target, n_steps=n_steps, **PROBLEM)).guarantee.mu
        assert target * (1 - 1e-12) <= mu <= target
    for target in (1e-3, 0.1, 0.9):
        run = calibrate(advantage=target, n_steps=n_steps, **PROBLEM)
        advantage = tightest(run).guarantee.advantage
        assert target * (1 - 1e-9) <= advantage <= target


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({}, "give epsilon and delta, or mu, or advantage"),
        ({"epsilon": 1.0}, "give epsilon and delta"),
        ({"epsilon": 1.0, "delta": 1e-6, "mu": 1.0}, "give epsilon and delta"),
        ({"mu": 1.0, "advantage": 0.1}, "give epsilon and delta"),
        ({"mu": math.nan}, "mu=nan"),
        ({"mu": 0.0}, "mu=0.0"),
        ({"advantage": 1.0}, "advantage=1.0"),
        ({"mu": 1.0, "n_steps": "theorem4"}, "theorem4"),
    ],
)
def test_senseless_targets_are_refused(target, message):
    with pytest.raises(ValueError, match=message):
        calibrate(**target, **PROBLEM)


# --- report and displays --------------------------------------------------------------------------


def test_a_report_takes_what_tightest_returns_and_escapes_what_is_assumed():
    m = descent(n_steps=500, noise_multiplier=250.0)
    best = tightest(m)
    given = {"bound": best.bound, "alternatives": best.alternatives}
    assumed = Assumed(public=["n <b>"], leaks=["seed"])
    for spent in (best, best.guarantee):
        report = privacy_report(m, spent, delta=1e-6, assumed=assumed, **given)
        stored = json.loads(json.dumps(report.as_dict()))
        assert stored["spent"]["epsilon"] == best.guarantee.epsilon(1e-6)
        assert from_dict(stored["stored"]["mechanism"]) == m
    text = report.to_text()
    page = report._repr_html_()
    for part in ("replace_one", "last_iterate", "advantage", "seed", "not protected against"):
        assert part in text
        assert part in page
    assert "n <b>" in text
    assert "n &lt;b&gt;" in page


def test_dynamics_of_steps_that_differ_are_those_of_the_run_stopped_earlier():
    m = descent(noise_multiplier=25.0, step_size=cooled(40), strong_convexity=0.01)
    display = PrivacyDynamicsDisplay.from_mechanism(m, delta=1e-5, n_points=200, plot=False)
    np.testing.assert_array_equal(display.steps, np.arange(1, 41))
    for count in (1, 30, 40):
        stopped = replace(m, n_steps=count, step_size=cooled(40)[:count])
        assert display.curves["last_iterate"][count - 1] == last_iterate(stopped).epsilon(1e-5)
    batches = cyclic(n_samples=60, n_epochs=3, noise_multiplier=np.linspace(4, 5, 18))
    epochs = PrivacyDynamicsDisplay.from_mechanism(batches, n_points=10, plot=False)
    first = replace(batches, n_epochs=1, noise_multiplier=np.linspace(4, 5, 18)[:6])
    assert epochs.curves["composition"][0] == composition(first).epsilon(1e-6)
    for one, said in ((display, "40 steps"), (epochs, "3 epochs")):  # no K*: nothing was solved for
        assert one.plot().ax_.get_legend_handles_labels()[1][-1] == said
    with pytest.raises(UnsupportedMechanismError, match=r"max_steps=41: .* of steps after 40"):
        PrivacyDynamicsDisplay.from_mechanism(m, max_steps=41)
    model = PrivateLogisticRegression(epsilon=20.0, delta=1e-6, classes=[0, 1], conditioning=None)
    model.fit(np.eye(2)[[0, 1] * 75], [0, 1] * 75)
    assert np.ndim(model.mechanism_.step_size) == 1
    assert PrivacyDynamicsDisplay.from_estimator(model, plot=False).steps[-1] == model.n_iter_


@pytest.mark.parametrize("mu", [0.3, 3.0, 6.0])
def test_no_attack_is_drawn_as_worse_than_it_may_be(mu):
    """Between its points a curve is drawn as chords, which lie above it, though not by much."""
    display = TradeoffDisplay.from_guarantee(GaussianDP(mu), plot=False)
    fpr = np.concatenate([np.geomspace(1e-10, 0.5, 1000), 1 - np.geomspace(1e-10, 0.5, 1000)])
    assert np.all(np.interp(fpr, display.fpr, display.fnr) <= GaussianDP(mu).tradeoff(fpr) + 2e-3)


def test_displays_show_no_part_of_what_was_spent_as_the_whole():
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (60, 2))
    model = PrivateLogisticRegression(classes=[False, True], delta=1e-4, conditioning=None)
    pipeline = make_pipeline(PrivateScaler(delta=1e-4), model).fit(X, X[:, 0] > 0)
    for display in (PrivacyDynamicsDisplay, TradeoffDisplay):
        with pytest.raises(ValueError, match=r"several private steps: .*total_privacy\(pipeline\)"):
            display.from_estimator(pipeline)
        with pytest.raises(ValueError, match="has no privacy_"):
            display.from_estimator(LogisticRegression().fit(X, X[:, 0] > 0))
    together = TradeoffDisplay.from_guarantee(total_privacy(pipeline), plot=False)
    assert together.advantage > TradeoffDisplay.from_estimator(pipeline[-1], plot=False).advantage
    shown = PrivacyDynamicsDisplay.from_estimator(model, delta=1e-9, max_steps=model.n_iter_)
    assert shown.target == model.privacy_.epsilon(1e-9) == shown.curves[model.bound_][-1]
    assert shown.title is None
    with pytest.warns(PrivacyLeakWarning):
        seeded = clone(model).set_params(random_state=0).fit(X, X[:, 0] > 0)
    assert TradeoffDisplay.from_estimator(seeded, plot=False).name.endswith("NOT PRIVATE")
    assert PrivacyDynamicsDisplay.from_estimator(seeded, plot=False).title == "NOT PRIVATE"
    assert "random_state" in seeded.privacy_report().to_text()
    X = np.random.default_rng(0).normal(size=(200, 3))
    model = PrivateLogisticRegression(classes=[False, True], delta=1e-4).fit(X, X[:, 0] > 0)
    training = PrivacyDynamicsDisplay.from_estimator(model)
    assert training.target is None
    assert training.title == "the training alone"
    assert TradeoffDisplay.from_estimator(model).advantage == model.privacy_.advantage
    report = model.privacy_report()
    assert report.as_dict()["spent"]["epsilon"] == model.epsilon_
    assert "n_samples=200" in report.to_text()


def test_what_has_no_mu_says_so():
    with pytest.raises(AttributeError, match=r"ApproximateDP .* no mu: ask its epsilon\(delta\)"):
        ApproximateDP(1.0).mu  # noqa: B018
    assert not hasattr(ApproximateDP(1.0), "nu")


def test_senseless_numbers_are_refused_by_records_and_guarantees():
    for make in (
        lambda: GaussianDP([1.0]),
        lambda: GaussianDP(1.0).compose(Gaussian(1.0)),
        lambda: GaussianDP(1.0).compose(None),
        lambda: Composition((1, 2)),
        lambda: Composition((GaussianDP(1.0),)),
        lambda: tightest(Gaussian(1.0), delta=2),
        lambda: PrivacyDynamicsDisplay.from_mechanism(descent(), delta=np.array([1e-5, 1e-6])),
        lambda: PrivacyDynamicsDisplay.from_mechanism(descent(), order=1.0),
        lambda: least_noise(Gaussian, -1.0, 1e-5),
        lambda: most_steps(lambda k: descent(n_steps=k), 1.0, 1e-5, largest=0),
        lambda: PrivacyLossDP(((Gaussian(1.0), 1),)),
        lambda: from_json('{"version": 3, "type": ["a"]}'),
        lambda: from_json('{"version": 3, "type": "RenyiDP", "curve": 3}'),
        lambda: from_json('{"version": 3, "type": "LinearCurve", "rate": -1}'),
        lambda: from_json(
            '{"version": 3, "type": "RenyiDP", "curve": {"type": "SummedCurve", "curves": []}}'
        ),
    ):
        with pytest.raises(ValueError, match=r"must be|must hold|no record|not a stored|unknown"):
            make()


def test_noise_for_a_pure_budget():
    """Where no noise gives one, it is refused; a Laplace step has it."""
    noisy = lambda z: poisson(noise_multiplier=z), lambda z: descent(noise_multiplier=z)
    for record in (Gaussian, *noisy):
        with pytest.raises(CalibrationError, match=r"delta=0: .* no pure-epsilon guarantee"):
            least_noise(record, 1.0, 0)
