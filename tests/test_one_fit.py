"""Lower limits from one fit: true claims are not exceeded, planted faults are found."""

from itertools import product
from unittest.mock import patch

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from skdpdyn import (
    PrivateGAMClassifier,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.audit import audit, one_fit
from skdpdyn.core.objective import Objective
from skdpdyn.data.persons import person_codes
from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.preprocessing import PrivateScaler
from skdpdyn.privacy import GaussianDP
from skdpdyn.solvers import OutputPerturbation, SufficientStatistics, steps
from skdpdyn.training import reading

CHANCE = 1e-6  # that a true claim fails
N_GAMES = 10_000
APART = {"conditioning": None, "fit_intercept": False}
EPSILONS = 0.3, 1.0, 4.0
OF_STEPS = "noisy_gd", "noisy_sgd", "dp_sgd"
SOLVERS = *OF_STEPS, "output_perturbation", "objective_perturbation"
UNITS = list(product(("replace_one", "add_remove"), (False, True)))
WAYS = [
    (PrivateLinearSVC(EPSILONS[number % 3], 1e-6, adjacency=adjacency, solver=solver), persons)
    for number, (solver, (adjacency, persons)) in enumerate(product(SOLVERS, UNITS))
]
for way, persons in WAYS:
    if persons and way.solver == "objective_perturbation":
        way.set_params(max_rows_per_person=3)  # its price depends on it
WAYS += [
    (PrivateLogisticRegression(4.0, 1e-6), False),
    (PrivateSoftmaxRegression(4.0, 1e-6), False),
    (PrivateRidge(4.0, 1e-6, target_bounds=(-1, 1)), False),
    (PrivatePoissonRegressor(4.0, 1e-6), False),
    (PrivateQuantileRegressor(4.0, 1e-6), False),
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way[0]}, persons={way[1]}")
def test_no_limit_exceeds_a_true_claim(way):
    model, persons = way
    found = audit(
        model.set_params(**APART),
        N_GAMES,
        kind="one_fit",
        n_fits=1,
        persons=persons,
        confidence=1 - CHANCE,
    )
    assert found.passed, found
    assert "independent" in found.measure
    if model.epsilon == 4.0:
        assert found.findings[0].ratio > 0.1, found  # the game shows what it may


def less_noise(self):
    object.__setattr__(self, "noise_std", 0.8 * np.asarray(self.noise_std))


def less_sensitive(self, adjacency, divisor=None):
    return 0.8 * sensitivity(self, adjacency, divisor)


def counted_twice(groups, n_rows):
    """Give the first row of each person a number of its own."""
    codes = person_codes(groups, n_rows)
    _, first = np.unique(codes, return_index=True)
    twice = 2 * codes
    twice[first] += 1
    return np.unique(twice, return_inverse=True)[1]


sensitivity = Objective.sensitivity
hinge = PrivateLinearSVC(4.0, 1e-6, solver="noisy_gd", **APART)
FAULTS = {  # the number of games, and whether records are persons
    "noise of steps, .8": (patch.object(steps.Steps, "__post_init__", less_noise), 30_000, False),
    "sensitivity, .8": (patch.object(Objective, "sensitivity", less_sensitive), 30_000, False),
    # the limit is a third above the claim: ten deviations
    "a person counted twice": (patch.object(reading, "person_codes", counted_twice), 6000, True),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault):
    """At mu 1.05 and a limit .08 below it: missed with a probability below 1e-6."""
    planted, n_games, persons = FAULTS[fault]
    asked = {"kind": "one_fit", "persons": persons, "confidence": 1 - CHANCE}
    with planted:
        found = audit(hinge, n_games, **asked)
    assert not found.passed, found
    assert f"1 fit of {n_games:,} games" in found.measure


def test_games_that_are_not_independent_have_a_bound_of_their_own():
    """An intercept, a map of rows, one radius of noise, noisy matrices."""
    mapped = PrivateLinearSVC(4.0, 1e-6, fit_intercept=False)
    gamma = PrivateLinearSVC(40.0, 0.0, solver=OutputPerturbation(noise="gamma"), **APART)
    matrix = PrivateRidge(4.0, 1e-6, solver=SufficientStatistics(), **APART)
    whole = PrivateLinearSVC(4.0, 1e-6, conditioning=None)
    asked = {"kind": "one_fit", "n_fits": 1, "confidence": 1 - CHANCE}
    for model, n_games in ((whole, N_GAMES), (mapped, N_GAMES), (gamma, 200), (matrix, 200)):
        found = audit(model, n_games, **asked)
        assert found.passed
        assert "need no independence" in found.measure
        if n_games == N_GAMES:
            assert found.findings[0].ratio > 0.2
    assert audit(gamma, 200, **asked).findings[0].name.startswith("epsilon")


@pytest.mark.parametrize("mu", [0.3, 2.0])
@pytest.mark.parametrize("risk", [0.05, 1e-3])
def test_one_loss_for_all_labels_is_refuted_as_often_as_stated(mu, risk):
    """Labels answered by randomised response at one loss, drawn once: each has mu, exactly.

    As if games were independent, the share of right answers would refute it far more often.
    """
    n_games = 500
    z, weight = np.polynomial.hermite_e.hermegauss(200)
    right = expit(np.abs(mu * (z + mu / 2)))
    weight = weight / weight.sum()

    def chance(least):
        return float(weight @ stats.binom.sf(least - 1, n_games, right))

    counts = np.arange(1, n_games + 1)
    of_gaussian = one_fit.of_gaussian(mu)
    refuted = [one_fit.is_refuted(of_gaussian, n, n_games, n_games, risk) for n in counts]
    assert sorted(refuted) == refuted
    assert chance(counts[np.argmax(refuted)]) < risk or not any(refuted)
    alone = stats.binom.isf(risk, n_games, stats.norm.cdf(mu / 2)) + 1
    assert chance(alone) > 4 * risk


def test_few_games_are_refuted_as_pure_privacy_allows():
    """Never below the tail of independent randomised response, and close to it where it is rare."""
    of_line = one_fit.of_line(1.0, 0.0)
    for n_right, slack in ((17, 1.2), (19, 1.03), (20, 1.001)):
        tail = stats.binom.sf(n_right - 1, 20, expit(1.0))
        assert one_fit.is_refuted(of_line, n_right, 20, 20, tail * slack)
        assert not one_fit.is_refuted(of_line, n_right, 20, 20, tail * 0.999)


def test_the_number_of_fits_follows_from_the_claim():
    assert one_fit.fits_needed(GaussianDP(0.8), 30_000, 0.999) == 1
    few = one_fit.fits_needed(GaussianDP(0.08), 30_000, 0.999)
    assert few == pytest.approx(one_fit.fits_needed(GaussianDP(0.08), 3000, 0.999) / 10, abs=1)
    assert 5 < few < 20


def test_scores_of_other_noise_have_no_normal_limit():
    rng = np.random.default_rng(0)
    assert one_fit.is_normal(rng.normal(size=5000), rng.normal(1, 1, 5000))
    assert not one_fit.is_normal(rng.laplace(size=5000), rng.normal(size=5000))
    assert not one_fit.is_normal(rng.normal(size=5000), rng.normal(0, 1.2, 5000))


def test_what_has_no_games_is_refused():
    for model in (PrivateGAMClassifier(classes=[0, 1]), PrivateScaler()):
        with pytest.raises(UnsupportedMechanismError, match="no coefficient for each column"):
            audit(model, kind="one_fit")
    removed = PrivateLinearSVC(adjacency="add_remove")
    with pytest.raises(UnsupportedMechanismError, match="set fit_intercept=False and conditioning"):
        audit(removed, kind="one_fit", n_fits=1)
    for wrong, reason in ({"n_fits": 0}, "at least 1"), ({"shape": (9, 9)}, "one number"):
        with pytest.raises(ValueError, match=reason):
            audit(hinge, kind="one_fit", **wrong)
    with pytest.raises(ValueError, match="for a replay"):
        audit(hinge, 20)
    with pytest.raises(ValueError, match="shape=20 must be at least 100 records"):
        audit(hinge, 20, kind="one_fit", n_fits=1)
