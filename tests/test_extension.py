"""A package outside: a loss and its estimator in 60 lines keep every law."""

import doctest
import importlib
import sys
from pathlib import Path

import pytest
import test_losses
import test_models
import test_solvers_conformance
from sklearn.utils.estimator_checks import parametrize_with_checks
from test_losses import *  # noqa: F403
from test_models import *  # noqa: F403
from test_solvers_conformance import *  # noqa: F403

SOURCE = Path(__file__).parents[1] / "examples" / "extension" / "smoothed_quantile.py"
sys.path.insert(0, str(SOURCE.parent))  # where worker processes find it too
outside = importlib.import_module(SOURCE.stem)

MADE = outside.PrivateQuantileRegressor, {"target_bounds": (-1.0, 3.0)}
QUANTILE = test_models.Case(*MADE, test_models.RIDGE.targets, outside.QUANTILE)
DEFAULTS = test_solvers_conformance.defaults_of([QUANTILE])
PROBLEMS = [(*default, {}) for default in DEFAULTS]

# What the suites run through, in place of their own lists
case = pytest.fixture(params=[QUANTILE], ids=str)(lambda request: request.param)
loss = pytest.fixture(lambda: outside.smoothed_quantile)
default, problem, audited = map(test_solvers_conformance.each_of, (DEFAULTS, PROBLEMS, PROBLEMS))


def test_it_is_short():
    assert len(SOURCE.read_text().splitlines()) <= 60


@pytest.mark.slow
def test_its_example():
    result = doctest.testmod(outside)
    assert result.attempted
    assert not result.failed


@parametrize_with_checks([outside.PrivateQuantileRegressor()])
def test_estimator(estimator, check):
    check(estimator)


def test_no_law_hides_another():
    suites = test_losses, test_models, test_solvers_conformance
    laws = [law for suite in suites for law in suite.__all__]
    assert len(laws) == len(set(laws))
    assert len(laws) > 30
