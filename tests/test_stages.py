"""A fit in two stages: its facts are completed, then it is that of who gave all of them."""

from copy import deepcopy
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.metrics import log_loss

import skdpdyn
from skdpdyn import PrivateLogisticRegression, PrivateRidge
from skdpdyn.inference import private_regression
from skdpdyn.training import fit
from skdpdyn.training.purchase import Purchase, parameters_of

pytestmark = pytest.mark.filterwarnings("ignore:random_state", "ignore:noisy counts")

RNG = np.random.default_rng(0)
N = 6000
X = RNG.uniform(-1, 1, (N, 3)) * [1.0, 30.0, 1e-3] + [0, 2000, 0]
SCORE = (X - [0, 2000, 0]) / [1.0, 30.0, 1e-3] @ [1.0, -2.0, 0.3]
COUNTS = RNG.poisson(np.exp(SCORE))
FRAME = pd.DataFrame(X, columns=[*"abc"]).assign(side=np.where(SCORE > 0, "up", "down"))
ESTIMATORS = [
    made
    for name in skdpdyn.__all__
    if isinstance(made := getattr(skdpdyn, name), type) and hasattr(made, "fit")
]


def table(made):
    """Return rows and targets for an estimator; of three classes where there may be."""
    rows = FRAME if made.__name__.startswith("PrivateGAM") else X
    if made.__name__ == "PrivatePoissonRegressor":
        return rows, COUNTS
    several = made.__name__ in ("PrivateSoftmaxRegression", "PrivateGAMClassifier")
    labels = np.digitize(SCORE, [-1, 1] if several else [0])
    return rows, labels if is_classifier(made()) else SCORE


@pytest.mark.parametrize("persons", [False, True], ids=["records", "persons"])
@pytest.mark.parametrize("made", ESTIMATORS, ids=lambda made: made.__name__)
def test_who_gave_a_fact_changes_no_bit(made, persons):
    """The second fit is given what the first has bought, by its parameters, and goes on with the
    same noise."""
    model = made(epsilon=5.0, random_state=0)
    rows, y = table(made)
    groups = {"groups": np.arange(N) // 2} if persons else {}
    seen = {}
    buy = Purchase.buy

    def noting(purchase, reading, spending):
        facts = buy(purchase, reading, spending)
        seen.update(facts=facts, spending=deepcopy(vars(spending)))
        return facts

    with patch.object(Purchase, "buy", noting):
        bought = clone(model).fit(rows, y, **groups)
    facts = seen["facts"]
    assert facts.bought

    def owning(purchase, reading, spending):
        assert not purchase.open
        vars(spending).update(seen["spending"])
        return facts

    of = Purchase.of

    def declared(*given):
        purchase = of(*given)
        assert not purchase.request.facts.bought
        request = fit.request_of(*given[:4], facts)
        return Purchase(request, purchase.open)

    given = clone(model).set_params(**parameters_of(bought, facts))
    with patch.object(Purchase, "of", declared), patch.object(Purchase, "buy", owning):
        given.fit(rows, y, **groups)
    assert vars(given).keys() == vars(bought).keys()
    for name in ("coef_", "intercept_", "ranges_", "classes_", "units_", "target_bounds_"):
        np.testing.assert_array_equal(getattr(given, name, 0), getattr(bought, name, 0), name)
    assert given.mechanism_ == bought.mechanism_
    cost = model.privacy_cost(given.n_samples_, rows.shape[1])
    assert given.privacy_ == bought.privacy_ == cost.with_unit("person" if persons else "record")
    assert given.bought_ == bought.bought_ == facts.parts_of_mu


@pytest.mark.parametrize("gaps", [False, True], ids=["levels", "gaps"])
def test_a_table_of_a_person_with_more_rows_than_the_limit(gaps):
    """Of them as many are used as the limit says, whatever columns hold, and no text tells."""
    frame = pd.DataFrame({"a": RNG.uniform(0, 8, N), "side": RNG.choice(["up", "down"], N)})
    y = frame["a"] + (frame["side"] == "up") + RNG.normal(size=N)
    if gaps:
        frame.loc[::9, "a"] = np.nan
    options = {"categories": {"side": ["up", "down"]}, "gaps": ["a"] * gaps}
    (_, one), (_, other) = (
        private_regression(
            PrivateRidge(max_rows_per_person=5),
            frame,
            y,
            groups=np.minimum(np.arange(N), last),
            epsilon=30.0,
            random_state=0,
            **options,
        )
        for last in (2999, N - 4)
    )
    for table_of in (one, other):
        truth = table_of.params[list(table_of.names).index("a")]
        assert abs(truth - 1) < 0.15
    assert one.names == other.names


@pytest.mark.parametrize("most", [4, 64])
def test_equal_rows_are_divided_by_their_number_not_by_that_of_persons(most):
    """Most places of persons are empty, and the sum of weights is far from the persons' number."""
    n = 60_000
    rows = RNG.normal(5.0, 1.0, (n, 4))
    probability = 1 / (1 + np.exp(-(rows @ [0.8, -0.5, 0.3, 0.0] - 5.2)))
    y = (RNG.random(n) < probability).astype(int)
    model = PrivateLogisticRegression(
        most / 2, 1e-6, max_rows_per_person=most, random_state=0, classes=[0, 1]
    )
    model.fit(rows, y, groups=np.arange(n) // 2, equal_rows=True)
    assert "sum of weights" in model.mechanism_.names
    best = log_loss(y, probability)
    assert log_loss(y, model.predict_proba(rows)[:, 1]) < best + 0.006


@pytest.mark.parametrize("solver", ["dp_sgd", "noisy_sgd", "objective_perturbation"])
def test_releases_that_are_not_gaussian_buy_no_facts(solver):
    """The facts are named, all of them, before anything is released; given ones need no noise."""
    model = PrivateLogisticRegression(3.0, solver=solver, bounds={0: (-1, 1)})
    message = r"^classes, bounds: solver=.* Pass classes=\[\.\.\.\], bounds=\["
    with patch("skdpdyn.core.spending.release") as released:
        with pytest.raises(ValueError, match=message):
            model.fit(X, (SCORE > 0).astype(int))
        with pytest.raises(ValueError, match=message):
            model.privacy_cost(N, 3)
    released.assert_not_called()
