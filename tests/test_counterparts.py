"""Linear models and their additive counterparts take the same calls, on the dullest tables, too."""

from inspect import signature

import numpy as np
import pytest

from skdpdyn import (
    PrivateGAMClassifier,
    PrivateGAMRegressor,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.core.spending import Spending
from skdpdyn.exceptions import PrivacyUtilityWarning
from skdpdyn.export.io import TRUSTED
from skdpdyn.inference import private_regression

N = 6000
PAIRS = (
    *((linear, PrivateGAMClassifier) for linear in (PrivateLinearSVC, PrivateLogisticRegression)),
    (PrivateSoftmaxRegression, PrivateGAMClassifier),
    *((linear, PrivateGAMRegressor) for linear in (PrivateRidge, PrivatePoissonRegressor)),
    (PrivateQuantileRegressor, PrivateGAMRegressor),
)
LINEAR_ALONE = {
    "fit_intercept": "curves are centred, so that a model has an intercept",
    "intercept_scaling": "the same",
    "data_norm": "expanded rows have a norm that the expansion knows",
    "conditioning": "curves always have a map",
}


def public(kind):
    """Return parameters by method, and those of the constructor."""
    methods = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
    found = {name: set(signature(f).parameters) for name, f in methods.items() if callable(f)}
    return found | {"__init__": set(signature(kind).parameters)}


@pytest.mark.every_case
@pytest.mark.parametrize(("linear", "additive"), PAIRS, ids=lambda kind: kind.__name__)
def test_additive_models_have_every_method_and_parameter_of_linear_ones(linear, additive):
    found = public(additive)
    lacks = {
        f"{method}({parameter})"
        for method, parameters in public(linear).items()
        for parameter in parameters - found.get(method, set()) - set(LINEAR_ALONE)
    }
    assert not lacks


def test_expected_counts_of_both_families_are_rates_times_exposures():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (N, 2))
    exposure = rng.uniform(0.1, 1, N)
    y = rng.poisson(exposure)
    options = {"bounds": (0, 1), "target_bounds": (0, 5), "random_state": 0}
    for model in (
        PrivatePoissonRegressor(**options),
        PrivateGAMRegressor(loss="poisson", **options),
    ):
        model.fit(X, y, exposure=exposure)
        np.testing.assert_array_equal(
            model.predict(X, exposure=exposure), model.predict(X) * exposure
        )
        with pytest.raises(ValueError, match="exposure"):
            model.predict(X, exposure=exposure[1:])
    squared = PrivateGAMRegressor(**options).fit(X, y)
    for call in (squared.predict, lambda X, exposure: squared.score(X, y, exposure=exposure)):
        with pytest.raises(ValueError, match="exposure goes with loss='poisson'"):
            call(X, exposure=exposure)


def dull_frames():
    """Return frames whose rows hardly differ, by name."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    rare = pd.DataFrame({"postcode": rng.integers(10000, 99999, N).astype(str)})
    return {
        "rare levels": rare,
        "two columns of rare levels": rare.assign(mail="a@" + rare.postcode),
        "one level": pd.DataFrame({"ward": ["a"] * N}),
        "one number": pd.DataFrame({"age": np.ones(N)}),
        "missing": pd.DataFrame({"age": np.full(N, np.nan)}),
        "a flag": pd.DataFrame({"smokes": np.zeros(N, dtype=bool)}),
        "one number but once": pd.DataFrame({"age": np.r_[9.0, np.ones(N - 1)]}),
    }


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_fits_to_rows_that_hardly_differ_end_in_a_model(epsilon):
    y = np.arange(N) % 3 == 0
    for name, frame in dull_frames().items():
        for seed in range(5):
            model = PrivateGAMClassifier(epsilon, random_state=seed).fit(frame, y)
            assert np.isfinite(model.predict_proba(frame[:3])).all(), name


def test_rows_of_which_noise_hides_all_end_in_a_model(monkeypatch):
    symmetric = Spending.symmetric

    def hidden(self, name, sealed, inside):
        total, noise = symmetric(self, name, sealed, inside)
        return -noise * np.eye(len(total)), noise

    monkeypatch.setattr(Spending, "symmetric", hidden)
    X = np.random.default_rng(0).uniform(0, 1, (N, 2))
    model = PrivateGAMClassifier(2.0, bounds=(0, 1), classes=[False, True]).fit(X, X[:, 0] > 0.5)
    assert np.isfinite(model.predict_proba(X)).all()


def test_skops_loads_what_additive_models_give_to_scikit_learn():
    skops = pytest.importorskip("skops.io")
    X = np.random.default_rng(0).uniform(0, 1, (N, 2))
    for model, y in (
        (PrivateGAMClassifier(bounds=(0, 1)), X[:, 0] > 0.5),
        (PrivateGAMRegressor(bounds=(0, 1), target_bounds=(0, 1)), X[:, 0]),
    ):
        plain = model.fit(X, y).to_sklearn()
        loaded = skops.loads(skops.dumps(plain), trusted=TRUSTED)
        np.testing.assert_array_equal(loaded.predict(X), plain.predict(X))


@pytest.mark.parametrize("categories", ["auto", {}])
def test_tables_of_numbers_alone_take_categories(categories):
    pd = pytest.importorskip("pandas")
    X = np.random.default_rng(0).uniform(0, 1, (N, 2))
    frame = pd.DataFrame(X, columns=["a", "b"])
    options = {"epsilon": 3.0, "bounds": (0, 1), "classes": [False, True], "random_state": 0}
    tables = [
        private_regression(PrivateLogisticRegression(), frame, X[:, 0] > 0.5, **options, **said)[1]
        for said in ({}, {"categories": categories})
    ]
    assert list(tables[0].names) == ["a", "b", "intercept"]
    np.testing.assert_array_equal(*[table.params for table in tables])


def test_tables_of_counts_say_whether_exposures_were_used():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (N, 1))
    options = {"epsilon": 3.0, "bounds": (0, 1), "target_bounds": (0, 4), "random_state": 0}
    for exposure, told in ((None, "expected count"), (np.ones(N), "rate per unit of exposure")):
        model, table = private_regression(
            PrivatePoissonRegressor(), X, rng.poisson(0.5, N), exposure=exposure, **options
        )
        assert f"Coefficients of the logarithm of the {told}, of counts up to 4" in str(table)
        assert model.has_exposure_ == (exposure is not None)


def test_both_families_say_that_records_are_few():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (200, 3))
    numbers = {"bounds": (0, 1), "target_bounds": (0, 4)}
    flags = {"bounds": (0, 1), "classes": [False, True]}
    for models, y in (
        (
            (PrivateLogisticRegression(0.1, **flags), PrivateGAMClassifier(0.1, **flags)),
            X[:, 0] > 0.5,
        ),
        ((PrivateRidge(0.1, **numbers), PrivateGAMRegressor(0.1, **numbers)), X[:, 0]),
        (
            (
                PrivatePoissonRegressor(0.1, **numbers),
                PrivateGAMRegressor(0.1, loss="poisson", **numbers),
            ),
            rng.poisson(1, 200),
        ),
    ):
        for model in models:
            with pytest.warns(PrivacyUtilityWarning, match=r"need [\d.]+ times as many records"):
                model.fit(X, y)
