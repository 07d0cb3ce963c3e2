"""Tables of coefficients: what they say of those that noise hides, and how they are shown."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from skdpdyn import PrivateLogisticRegression, PrivateRidge
from skdpdyn.inference import private_regression

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (5000, 3))
RAW = X @ [3.0, -2.0, 0.5] + 0.5
Y = RNG.uniform(size=5000) < expit(RAW)
TARGET = RAW + RNG.normal(size=5000)
LOGISTIC = PrivateLogisticRegression(classes=[False, True])


def test_what_the_noise_hides_is_not_answered():
    _, table = private_regression(LOGISTIC, X, Y, epsilon=0.003, bounds=(-0.5, 0.5))
    assert not table.answered.any()
    assert np.all(np.isnan(table.coef))
    assert np.all(table.sufficient_epsilon > 0.003)
    told = "no information: |not enough information; epsilon="
    assert len(re.findall(told, str(table))) == 4
    assert len(re.findall("no information|not enough information", table._repr_html_())) == 4
    assert table.privacy_.epsilon(table.delta_) == pytest.approx(0.003)  # charged


@pytest.mark.parametrize("epsilon", [2.0, 30.0])
@pytest.mark.parametrize(
    ("columns", "told"), [([0, 0, 1], "collinear"), ([0, None, 1], "constant")]
)
def test_columns_that_tell_nothing_are_named_and_not_advised_on(columns, told, epsilon):
    """An eigenvalue of 0 is taken for information if its noise is above 2.4 standard deviations."""
    rows = np.column_stack([np.full(len(X), 0.2) if j is None else X[:, j] for j in columns])
    model = PrivateRidge(target_bounds=(-8.0, 8.0))
    options = {"bounds": (-0.5, 0.5)}
    _, table = private_regression(model, rows, TARGET, epsilon=epsilon, random_state=1, **options)
    hidden = ("x0", "x1") if told == "collinear" else ("x1",)
    assert table.hidden[1] == hidden
    assert np.isinf(table.sufficient_epsilon[1])
    assert f"no information: {', '.join(hidden)} may be {told}, or hidden by noise" in str(table)
    assert np.isfinite(table.std_err[2])


def test_table():
    frame = pd.DataFrame(X, columns=["age", "<b>", "income of the last year"])
    options = {"bounds": (-0.5, 0.5), "confidence": 0.9}
    _, table = private_regression(LOGISTIC, frame, Y, epsilon=5.0, **options)
    columns = table.to_frame(odds_ratios=True)
    assert list(columns.index) == ["age", "<b>", "income of the last year", "intercept"]
    assert list(columns)[:6] == ["coef", "std err", "z", "P>|z|", "[0.05", "0.95]"]
    np.testing.assert_allclose(columns["odds ratio"], np.exp(columns["coef"]))
    widths = (columns["0.95]"] - columns["[0.05"]) / columns["std err"]
    np.testing.assert_allclose(widths, 2 * 1.6448536, rtol=1e-6)
    assert np.all((table.pvalues < 0.1) == (table.conf_int().prod(axis=1) > 0))
    assert list(table.to_frame()) == list(columns)[:6]
    text = table.as_text(odds_ratios=True)
    assert len({len(line) for line in text.splitlines()[1:6]}) == 1
    assert "log odds of y == True" in text
    shown = table._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert repr(table) == table.as_text()


def test_columns_of_a_table_are_found_by_name():
    """In another order their numbers would meet the coefficients of others."""
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    _, table = private_regression(LOGISTIC, frame, Y, epsilon=5.0, bounds=(-0.5, 0.5))
    for ask in (table.predict, table.marginal_effects, table.standardized):
        with pytest.raises(ValueError, match=r"but the table has \['a', 'b', 'c'\]"):
            ask(frame.set_axis(["a", "b", "d"], axis=1))
    np.testing.assert_array_equal(table.predict(frame[["c", "a", "b"]]), table.predict(X))
    assert table.standardized(frame[["c", "a", "b"]]) == table.standardized(X)
    _, unnamed = private_regression(LOGISTIC, X, Y, epsilon=5.0, bounds=(-0.5, 0.5))
    np.testing.assert_array_equal(unnamed.predict(frame), unnamed.predict(X))
    assert table.wald_test("a") == table.wald_test(["a"])


def test_rows_of_data_become_columns_of_the_table():
    """Levels, of which some are pooled and some are not listed, gaps, splines and products."""
    rng = np.random.default_rng(0)
    every = np.array(["a", "b", "rare", "unlisted", None], dtype=object)
    frame = pd.DataFrame(X, columns=["x", "gap", "bend"])
    frame["letter"] = rng.choice(every, len(X), p=[0.5, 0.3, 0.01, 0.01, 0.18])
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 9, len(X)), "D")
    gaps = rng.random(len(X)) < 0.2
    frame.loc[gaps, "gap"] = np.nan
    bounds = {"x": (-0.5, 0.5), "gap": (-1.0, 0.5), "bend": (-0.5, 0.5)}
    bounds["day"] = ("2024-01-01", "2024-01-10")
    model, table = private_regression(
        LOGISTIC, frame, Y, epsilon=50.0, bounds=bounds, random_state=0, missing=["gap"],
        categories={"letter": ["a", "b", "rare"]}, splines={"bend": 2},
        interactions=[("x", "letter")],
    )  # fmt: skip
    rows = table.columns(frame[["letter", "day", "gap", "bend", "x"]])
    assert list(rows) == list(model.feature_names_in_)
    np.testing.assert_array_equal(rows["gap"], np.where(gaps, -0.25, X[:, 1]))
    np.testing.assert_array_equal(rows["gap: missing"], gaps)
    np.testing.assert_array_equal(rows["letter: b"], frame["letter"] == "b")
    np.testing.assert_array_equal(rows["letter: missing"], frame["letter"].isna())
    pooled = frame["letter"].isin(["rare", "unlisted"])
    np.testing.assert_array_equal(rows["letter: all other levels"], pooled)
    np.testing.assert_array_equal(rows["x x letter: b"], X[:, 0] * (frame["letter"] == "b"))
    np.testing.assert_array_equal(rows["B1(bend)"], table.splines["bend"].columns(X[:, 2])[:, 0])
    np.testing.assert_array_equal(table.predict(frame), table.predict(rows))
    np.testing.assert_array_equal(table.columns(rows), rows)
    assert abs(np.mean(model.predict(rows) == Y) - model.score(rows, Y)) < 1e-12
    with pytest.raises(ValueError, match=r"X holds text in \['word'\]"):
        table.columns(frame.assign(word="a"))
    with pytest.raises(ValueError, match="X must be a frame"):
        table.columns(X)
