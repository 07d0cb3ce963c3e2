"""Progress: of public numbers alone, and nothing unless it is asked for."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from numba import config
from test_models import CASES, LOGISTIC
from test_solvers_conformance import AUDITED, label, model

from skdpdyn.model_selection import PrivateSearchCV
from skdpdyn.solvers import NoisyGD
from skdpdyn.support import progress

LINE = re.compile(r"(step|pass|round|conditioning) (\d+) of (\d+)")
TIME_LEFT = re.compile(r", about .* left$")
NOT_COUNTED = "minimising: how many steps this takes depends on the records, and is not told"


class Clock:
    """A clock that runs fast, and never alike."""

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)
        self._now = 0.0

    def perf_counter(self):
        self._now += self._rng.uniform(10, 10_000)
        return self._now


def told(estimator, X, y, capsys, monkeypatch, seed):
    """What a fit prints, times apart."""
    monkeypatch.setattr(progress, "time", Clock(seed))
    estimator.fit(X, y)
    out, err = capsys.readouterr()
    assert err == ""
    return [TIME_LEFT.sub("", line) for line in out.splitlines()]


@pytest.fixture
def lines(monkeypatch):
    """Lines even where tqdm is installed."""
    monkeypatch.setattr(progress, "_bar", lambda total, unit: None)


@pytest.mark.usefixtures("noise_found_once")
@pytest.mark.parametrize("problem", AUDITED, ids=label)
def test_every_solver_tells_the_same_of_neighbours_and_nothing_unasked(
    problem, lines, capsys, monkeypatch
):
    case, name, options = problem
    X, y = case.data(20)
    single = "distribution" in options
    X, changes = (X[:, :1], {"fit_intercept": False}) if single else (X, {})
    X2 = X.copy()
    y2 = y.copy()
    X2[7] = 100 * X[3] + 1
    y2[7] = y[-1]  # a neighbour: one record is another
    said = [
        told(model(case, name, options, verbose=1, **changes), *data, capsys, monkeypatch, seed)
        for seed, data in enumerate([(X, y), (X2, y2)])
    ]
    assert said[0] == said[1]
    assert said[0][0].startswith(f"[{case.estimator.__name__}] epsilon=")
    if options.get("stopping") == "random":
        assert len(said[0]) == 1
    elif said[0][1:] != [NOT_COUNTED]:
        counted = [LINE.fullmatch(line).groups() for line in said[0][1:]]
        assert counted
        assert all(one[2] == counted[0][2] for one in counted)
        assert counted[-1][1] == counted[-1][2]
    assert told(model(case, name, options, **changes), X, y, capsys, monkeypatch, 0) == []


@pytest.mark.parametrize("case", CASES, ids=str)
def test_all_that_is_learnt_before_training_is_counted(case, lines, capsys, monkeypatch):
    """As many releases as the plan says, whatever the model; steps come after them."""
    X, y = case.data(200 if config.DISABLE_JIT else 2000)
    fitted = case.model(epsilon=8.0, conditioning="auto", verbose=1)
    said = told(fitted, X, y, capsys, monkeypatch, 0)
    of = [LINE.fullmatch(line).groups() for line in said[1:]]
    ends = [(what, int(done)) for what, done, total in of if done == total]
    solved = fitted.solver_ == "sufficient_statistics"  # sums, in place of steps
    assert [what for what, _ in ends] == ["conditioning", "pass" if solved else "step"]
    assert ends[0][1] == fitted.mechanism_.names.index("training")
    assert ends[1][1] == (1 if solved else fitted.n_iter_)


def test_a_search_tells_its_plan_and_nothing_of_its_trials(capsys):
    X, y = LOGISTIC.data(60)
    said = set()
    for seed in range(8):
        options = {"conditioning": None, "solver": NoisyGD(n_steps=2)}
        estimator = LOGISTIC.estimator(classes=[0, 1], verbose=1, **options)
        search = PrivateSearchCV(estimator, {"clip": [0.3, 0.6]}, random_state=seed, verbose=1)
        search.set_params(expected_trials=4).fit(X, y)
        said.add(capsys.readouterr())
    assert len(said) == 1
    (out, err) = said.pop()
    assert err == ""
    assert re.fullmatch(r"\[PrivateSearchCV\] epsilon=1 at delta=\S+ by selection for 4 .*\n", out)
    with pytest.raises(ValueError, match="verbose='much' must be"):
        search.set_params(verbose="much").fit(X, y)


def test_lines_say_what_is_left(lines, capsys, monkeypatch):
    now = iter([0.0, 3.0, 600.0, 3600.0, 7200.0])
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: next(now)))
    with progress.Progress(1000, verbose=1) as tell:
        for done in (1, 2, 100, 500, 1000):
            tell(done)
    assert capsys.readouterr().out.splitlines() == [
        "step 1 of 1000, about 49 min 57 s left",
        "step 100 of 1000, about 1 h 30 min left",
        "step 500 of 1000, about 1 h 00 min left",
        "step 1000 of 1000",
    ]


def test_a_bar_counts_the_same_steps(monkeypatch):
    seen = []

    class Bar:
        n = 0

        def update(self, more):
            self.n += more
            seen.append(self.n)

        def close(self):
            seen.append("closed")

    monkeypatch.setattr(progress, "_bar", lambda total, unit: Bar())
    with progress.Progress(1000, verbose=1) as tell:
        for done in range(1, 1001):
            tell(done)
    assert seen == [1, *range(10, 1001, 10), "closed"]


def test_tqdm_draws_the_bar_where_it_is_installed(capsys):
    pytest.importorskip("tqdm")
    with progress.Progress(3, "pass", verbose=1) as tell:
        for done in (1, 2, 3):
            tell(done)
    out, err = capsys.readouterr()
    assert out == ""
    assert "3/3" in err
