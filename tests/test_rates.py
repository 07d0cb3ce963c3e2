"""Scores of models of counts with exposures: what is released for them, and their numbers."""

import math
import pickle
from copy import copy
from itertools import product

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import mean_poisson_deviance
from sklearn.pipeline import Pipeline
from spending import Recorder

from skdpdyn import PrivateGAMRegressor, PrivatePoissonRegressor, PrivateRidge
from skdpdyn.core import noise
from skdpdyn.evaluation import evaluate, prediction_interval
from skdpdyn.export.io import checked_folder
from skdpdyn.model_selection import PrivateSearchCV

N = 500
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (N, 2))
YEARS = RNG.uniform(0.1, 2.0, N)
COUNTS = RNG.poisson(YEARS * np.exp(X @ [1.0, -0.5])).astype(float)
PLAIN = PoissonRegressor(alpha=0).fit(X, COUNTS / YEARS, sample_weight=YEARS)  # a row at a time
MODEL = PrivatePoissonRegressor(epsilon=1e6, target_bounds=(0, 6), random_state=0)
MODEL.fit(X, COUNTS, exposure=YEARS)
OPTIONS = {"epsilon": 1.0, "delta": 1e-6, "target_bounds": (0, 6)}


def scored(rows=X, counts=COUNTS, years=YEARS, **options):
    return evaluate(MODEL, rows, counts, exposure=years, **OPTIONS | options)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("grouped", [False, True])
def test_sensitivity(grouped, adjacency, monkeypatch):
    """Each release moves by what its noise is for at most, and sums by 0.45 of it somewhere."""
    records = list(product((-30.0, 0.0, 30.0), (0.0, 6.0, 99.0), (1e-20, 1.0, 1e20)))
    owners = {"groups": np.append(np.arange(N) // 2 + 1, 0)} if grouped else {}
    most = {}
    for one, other in zip(records, records[::-1] + records[5:], strict=False):
        found = None
        calls = [Recorder()]
        calls.append(Recorder(before=calls[0]))
        for recorder, (place, count, years) in zip(calls, (one, other), strict=True):
            rows = np.vstack([X, [place, 0.0]]), np.append(COUNTS, count), np.append(YEARS, years)
            monkeypatch.setattr(noise, "release", recorder)
            found = scored(*rows, adjacency=adjacency, epsilon=4.0, **owners)
        factor = 1 if adjacency == "replace_one" else 2  # one record leaves, and another one comes
        parts = zip(found.mechanism_.names, found.mechanism_.mechanisms, strict=True)
        for (name, part), (a, scale), (b, same) in zip(
            parts, calls[0].calls, calls[1].calls, strict=True
        ):
            assert np.array_equal(scale, same)
            moved = np.linalg.norm((a - b) / scale) * part.noise_multiplier / factor
            most[name] = max(most.get(name, 0.0), moved)
    bought = ["deciles of rates", "mean exposure", "target scale", "base rate"]
    assert list(most) == [*bought, "limits", "sums", "squares"]
    assert max(most.values()) <= 1
    assert most["sums"] > 0.45
    assert found.privacy_.epsilon(1e-6) == pytest.approx(4.0)


def test_numbers_without_noise(monkeypatch):
    """Deviances are scikit-learn's, and D^2 is that from the rate of all records."""
    monkeypatch.setattr(noise, "release", Recorder())
    found = scored(epsilon=1e4)
    rates = MODEL.predict(X)
    counts = np.minimum(COUNTS, 6)
    deviance = mean_poisson_deviance(counts / YEARS, rates, sample_weight=YEARS) * YEARS.mean()
    assert found.mean_deviance.value == pytest.approx(deviance, rel=1e-6)
    one = counts.sum() / YEARS.sum()
    assert found.rate == pytest.approx(one, rel=0.1)
    nothing = mean_poisson_deviance(counts / YEARS, np.full(N, one), sample_weight=YEARS)
    assert found.d2.value == pytest.approx(1 - deviance / nothing / YEARS.mean(), abs=0.01)
    assert found.calibration.value == pytest.approx(counts.sum() / (YEARS * rates).sum(), rel=0.01)
    expected, ratios = found.calibration_curve()
    groups = np.searchsorted(found.thresholds, rates)
    assert np.all(np.abs(np.bincount(groups, minlength=10) - N / 10) < 0.7 * N / 10)
    for k in range(10):
        assert expected[k] == pytest.approx(np.minimum(YEARS * rates, 6)[groups == k].sum())
        assert ratios[k].value == pytest.approx(counts[groups == k].sum() / expected[k])


def test_intervals_hold_what_they_are_of():
    """Of 60 intervals of 95 % less than 43 hold the deviance with probability 1e-9."""
    rates = MODEL.predict(X)
    deviance = mean_poisson_deviance(COUNTS / YEARS, rates, sample_weight=YEARS) * YEARS.mean()
    found = [evaluate(MODEL, X, COUNTS, exposure=YEARS, **OPTIONS) for _ in range(60)]
    held = sum(one.mean_deviance.low <= deviance <= one.mean_deviance.high for one in found)
    assert held >= 43


def test_intervals_for_the_population():
    """Of 40 intervals of 95 % less than 27 hold the number with probability 4e-9.

    The population has infinitely many of the records that there are. Those for noise alone are too
    narrow for it.
    """
    options = OPTIONS | {"target_bounds": (0, 20), "epsilon": 100.0}
    rates = MODEL.predict(X)
    deviance = mean_poisson_deviance(COUNTS / YEARS, rates, sample_weight=YEARS) * YEARS.mean()
    truth = {"mean deviance": deviance, "observed / expected": COUNTS.sum() / (YEARS @ rates)}
    held = {name: np.zeros(2) for name in truth}
    for seed in range(40):
        drawn = np.random.default_rng(seed).integers(0, N, 2000)
        given = {"exposure": YEARS[drawn], "random_state": seed}
        found = evaluate(MODEL, X[drawn], COUNTS[drawn], **options, **given)
        for name, value in truth.items():
            for k, of in enumerate((found, found.population)):
                one = of.metrics()[name]
                held[name][k] += one.low <= value <= one.high
    assert all(of_sample >= 27 > of_noise for of_noise, of_sample in held.values())


def test_models_of_counts_need_no_exposure():
    model = PrivatePoissonRegressor(target_bounds=(0, 6)).fit(X, COUNTS)
    found = evaluate(model, X, COUNTS, epsilon=50.0)
    assert list(found.metrics()) == ["D^2", "mean deviance", "observed / expected"]
    assert "D^2" in repr(found)
    mpl.use("Agg")
    drawn = found.plot_calibration()
    _, ratios = found.calibration_curve()
    answered = [ratio for ratio in ratios if not math.isnan(ratio.value)]
    of_group = drawn.line_.get_ydata() / drawn.line_.get_xdata()
    np.testing.assert_allclose(of_group, [ratio.value for ratio in answered])


def test_the_largest_count_is_bought_where_nobody_knows_it():
    found = evaluate(PLAIN, X, COUNTS, exposure=YEARS, epsilon=100.0, random_state=0)
    assert np.quantile(COUNTS, 0.99) <= found.largest_count <= 2 * COUNTS.max()
    assert found.mechanism_.names[:2] == ("range of targets", "finer range of targets")
    known = scored(epsilon=100.0, target_bounds=(0, found.largest_count))
    assert found.mean_deviance.value == pytest.approx(known.mean_deviance.value, abs=0.05)


def test_what_cannot_be_scored_is_refused():
    ridge = PrivateRidge(target_bounds=(-1, 6)).fit(X, COUNTS)
    for model, message, options in (
        (ridge, "must not begin below 0", {"exposure": YEARS}),
        (PLAIN, "the model has none, and there are too few", {"exposure": YEARS, "epsilon": 0.1}),
        (PLAIN, "exposure must hold one finite", {"exposure": -YEARS, "target_bounds": (0, 6)}),
        (PLAIN, "at most 20", {**OPTIONS, "exposure": YEARS, "largest_error": 21}),
    ):
        with pytest.raises(ValueError, match=message):
            evaluate(model, X, COUNTS, **{"epsilon": 1.0, **options})


def test_predictions_take_exposures():
    model = PrivatePoissonRegressor(target_bounds=(0, 6)).fit(X, COUNTS, exposure=YEARS)
    np.testing.assert_array_equal(model.predict(X, exposure=YEARS), model.predict(X) * YEARS)
    with pytest.raises(ValueError, match="exposure must hold one finite number"):
        model.predict(X, exposure=YEARS[1:])


@pytest.fixture
def without_noise(monkeypatch):
    """Release numbers as they are."""
    monkeypatch.setattr(noise, "release", lambda point, scale, generator, **more: point + 0.0)


@pytest.mark.usefixtures("without_noise")
def test_differences_change_sign_with_the_order_of_models():
    """Each model is better on some records, so that losses differ both ways."""
    other = PoissonRegressor(alpha=0).fit(X, COUNTS)
    other.coef_ = other.coef_[::-1]
    one, back = (
        evaluate(first, X, COUNTS, against=second, **OPTIONS | {"epsilon": 20.0}).metrics()
        for first, second in ((PLAIN, other), (other, PLAIN))
    )
    for loss, of in one.items():
        assert of.value == pytest.approx(-back[loss].value, abs=1e-12)


@pytest.mark.usefixtures("without_noise")
def test_intervals_for_the_population_hold_a_sample_too():
    found = scored(epsilon=20.0)
    of_population = found.population.metrics()
    for name, of_records in found.metrics().items():
        one = of_population[name]
        assert one.high - one.low > 1.2 * (of_records.high - of_records.low), name


def gam_of_counts():
    return PrivateGAMRegressor(loss="poisson", bounds=(-1, 1), target_bounds=(0, 6))


@pytest.mark.parametrize("make", [lambda: clone(MODEL), gam_of_counts], ids=["linear", "curves"])
def test_a_model_that_was_fitted_with_exposures_is_not_scored_without(make, monkeypatch, tmp_path):
    """Whoever asks: nothing is released, and ones say that counts are rates."""
    model = make()
    assert model.has_exposure_ is False
    assert model.fit(X, COUNTS).has_exposure_ is False
    blind = copy(model)
    model.fit(X, COUNTS, exposure=YEARS)
    again = pickle.loads(pickle.dumps(model))
    assert again.has_exposure_ is model.has_exposure_ is True
    assert clone(model).has_exposure_ is False
    pytest.importorskip("skops")
    folder = model.set_params(random_state=None).fit(X, COUNTS, exposure=YEARS).export(tmp_path)
    assert checked_folder(folder)[1].has_exposure_ is True
    recorder = Recorder()
    monkeypatch.setattr(noise, "release", recorder)
    piped = Pipeline([("model", model)])
    asked = {
        "score": lambda: model.score(X[1:], COUNTS[1:]),
        "evaluate": lambda: evaluate(model, X, COUNTS, **OPTIONS),
        "a pipeline": lambda: evaluate(piped, X, COUNTS, **OPTIONS),
        "another": lambda: evaluate(PLAIN, X, COUNTS, against=model, **OPTIONS),
    }
    for ask in asked.values():
        with pytest.raises(ValueError, match=r"fitted with exposures.*exposure=.*numpy.ones"):
            ask()
    with pytest.raises(ValueError, match="fitted with exposures, and predicts rates: prediction"):
        prediction_interval(model, X, COUNTS, epsilon=10.0)
    assert not recorder.calls
    monkeypatch.undo()
    ones = np.ones(N - 1)
    rates = (COUNTS / YEARS)[1:]
    assert model.score(X[1:], rates, YEARS[1:], exposure=ones) == pytest.approx(
        model.score(X[1:], COUNTS[1:], exposure=YEARS[1:])
    )
    assert blind.score(X[1:], COUNTS[1:]) == blind.score(X[1:], COUNTS[1:], exposure=ones)
    of_rates = evaluate(piped, X, COUNTS, exposure=YEARS, **OPTIONS)
    assert list(of_rates.metrics()) == ["D^2", "mean deviance", "observed / expected"]


def test_a_search_with_exposures_is_not_scored_without():
    """Also where it had no trial, and its winner is a constant rate."""
    model = PrivatePoissonRegressor(target_bounds=(0, 6))
    options = {"trials": "poisson", "expected_trials": 1}
    constant = set()
    for seed in range(6):
        search = PrivateSearchCV(model, {"clip": [0.5]}, random_state=seed, **options)
        search.fit(X, COUNTS, exposure=YEARS)
        constant.add(hasattr(search.best_estimator_, "constant"))
        assert search.has_exposure_
        with pytest.raises(ValueError, match="PrivateSearchCV was fitted with exposures"):
            search.score(X[1:], COUNTS[1:])
        assert np.isfinite(search.score(X[1:], COUNTS[1:], exposure=YEARS[1:]))
    assert constant == {False, True}
    assert not search.fit(X, COUNTS).has_exposure_
