"""Every benchmark has a name, a description and options."""

import importlib
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from skdpdyn import PrivateLogisticRegression
from skdpdyn.core import rules
from skdpdyn.exceptions import PrivacyLeakWarning
from skdpdyn.privacy import Adjacency

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))  # also where tests run on an installed package
runner = importlib.import_module("benchmarks.__main__")


def test_all_are_listed(capsys):
    assert runner.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in runner.NAMES:
        assert f"  {name:<20} {runner.description(name)}" in lines
    assert {"accuracy", "compare", "speed", "startup"} <= set(runner.NAMES)
    assert "no benchmark 'sped'" in runner.main(["sped"])


@pytest.mark.parametrize("name", runner.NAMES)
def test_each_tells_its_options(name, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", sys.argv)
    with pytest.raises(SystemExit, match="0"):
        runner.main([name, "--help"])
    assert f"usage: python -m benchmarks {name}" in capsys.readouterr().out


def test_documents_name_benchmarks_that_exist():
    texts = [path.read_text() for path in (ROOT / "README.md", *(ROOT / "doc").rglob("*.rst"))]
    named = {name for text in texts for name in re.findall(r"python -m benchmarks (\w+)", text)}
    assert named <= set(runner.NAMES)
    assert "accuracy" in named


@pytest.mark.system
def test_every_constant_is_changed_where_it_is_read():
    """And is what it was afterwards; fits that a constant does not touch are the same fit."""
    constants = importlib.import_module("benchmarks.constants")
    before = {name: getattr(rules, name) for names in constants.PLACES.values() for name in names}
    rng = np.random.default_rng(0)
    X = rng.normal([0.5, 0.0, 0.2], [0.1, 0.01, 0.05], (5000, 3))
    y = X[:, 1] + 0.01 * rng.normal(size=5000) > 0

    def private(**budget):
        return PrivateLogisticRegression(classes=[False, True], **budget)

    problem = constants.Problem("three columns", X, y, private, [])
    gains = constants.gains(problem, 1.0, 0, np.arange(4000), np.arange(4000, 5000))
    touched = {name for (name, _), gain in gains.items() if gain}
    # 4,000 records are strong enough for a matrix of three columns and for no clip, too weak for a
    # tenth of the rows to be kept as they are, and for the most steps, at half and at double
    untouched = {"matrix_strength", "clip", "radius_quantile", "most_steps"}
    assert touched == set(constants.PLACES) - untouched
    assert all(np.isfinite(gain) for gain in gains.values())
    assert {name: getattr(rules, name) for name in before} == before
    found = {
        (name, *key): [[gain, gain]] * 2 for name in constants.SETS for key, gain in gains.items()
    }
    text = constants.table(found, 2)
    assert "as is" in text
    assert "matrix_strength" in text


@pytest.fixture(scope="module")
def audit():
    return importlib.import_module("benchmarks.audit")


def exact_rows(audit):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        return list(audit.exact())


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.usefixtures("noise_found_once")
def test_exact_losses_keep_to_their_claims_and_some_attain_them(audit):
    """Six standard errors: failure probability 1e-9 each."""
    for row in (rows := exact_rows(audit)):
        room = 1e-6 if row.error != row.error else 6 * row.error
        assert row.loss <= row.claim + room, row
    attained = {row.what for row in rows if row.loss > 0.99 * row.claim}
    assert (
        len({what for what in attained if what.startswith(("noisy_gd", "output_perturbation"))})
        == 4
    )
    assert {
        "sufficient_statistics: all",
        "PrivateScaler: mean",
        "PrivateSearchCV: a score",
    } <= attained
    assert {"evaluate three classes: all", "evaluate regression: sums"} <= attained
    last = [row for row in rows if re.match(r"noisy_gd n_steps=\d+ momentum=0\.[1-9]", row.what)]
    assert [row.adjacency for row in last] == ["replace_one", "add_remove"]


@pytest.mark.usefixtures("noise_found_once")
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_a_whole_fit_with_momentum_shows_no_more_than_it_claims(audit, adjacency):
    """What is learnt of rows and every step, replayed on neighbours: each part alone, and all."""
    rows = {row.what.split(": ")[1]: row for row in audit.default(Adjacency(adjacency))}
    assert {
        "class counts",
        "column means",
        "second moments",
        "mapped lengths",
        "steps",
        "all",
    } <= set(rows)
    for row in rows.values():
        assert re.match(r"default, momentum=0\.[1-9]", row.what)
        assert row.loss <= row.claim * (1 + 1e-6), row
    if adjacency == "add_remove":  # residuals from the base rate on are below their bound, not far
        assert rows["steps"].loss > 0.5 * rows["steps"].claim
        assert rows["all"].loss > 0.5 * rows["all"].claim


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.usefixtures("noise_found_once")
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_what_is_learnt_of_targets_shows_no_more_than_it_claims(audit, adjacency):
    """Whole fits of ridge and of counts with diagnostics: most parts attain their claims."""
    rows = {row.what: row for row in audit.with_targets(Adjacency(adjacency))}
    for row in rows.values():
        assert row.loss <= row.claim * (1 + 1e-6), row
    attained = {what for what, row in rows.items() if row.loss > 0.99 * row.claim}
    for kind in ("PrivateRidge", "PrivatePoissonRegressor"):
        assert {f"{kind}: rows shortened", f"{kind}: targets clipped"} <= attained
    assert "PrivateRidge: target mean" in attained


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.usefixtures("noise_found_once")
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_persons_sparse_rows_classes_and_exposures_show_no_more_than_they_claim(audit, adjacency):
    """Whole fits; and the last iterate with persons of 5 and of 100 rows attains its claim."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        rows = {row.what: row for row in audit.whole_fits(Adjacency(adjacency))}
    for row in rows.values():
        assert row.loss <= row.claim * (1 + 1e-6), row
    assert len(rows) == 15
    # a slope's sums, a part of it, come near to their bound where scores are 3 from the base rate
    assert rows["sparse rows: learnt"].loss > 0.9 * rows["sparse rows: learnt"].claim
    if adjacency == "add_remove":
        assert rows["sparse rows: all"].loss > 0.95 * rows["sparse rows: all"].claim
        # residuals are not clipped there, and where training starts none is near its bound of 1
        for title in ("persons", "PrivateSoftmaxRegression", "class_weight='private'"):
            assert rows[f"{title}: all"].loss > 0.6 * rows[f"{title}: all"].claim
    last = audit.normal_release(*audit.NORMAL[0], Adjacency(adjacency), persons=(5, 100))
    assert 0.98 * last.claim < last.loss < last.claim + 6 * last.error


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.usefixtures("noise_found_once")
def test_planted_bug_noise_of_half_the_size(audit, monkeypatch):
    """Wherever it is, the exact losses are above the claims."""

    class HalfTheScale(audit.Listener):
        def __call__(self, point, scale, *more, **options):
            return super().__call__(point, np.asarray(scale) / 2, *more, **options)

    solver = importlib.import_module("skdpdyn.solvers.output_perturbation")
    full = solver.release
    monkeypatch.setattr(
        solver,
        "release",
        lambda point, scale, *rest, **options: full(point, scale / 2, *rest, **options),
    )
    monkeypatch.setattr(audit, "Listener", HalfTheScale)
    exceeded = {
        re.match(r"\w+", row.what)[0] for row in exact_rows(audit) if row.loss > 1.5 * row.claim
    }
    assert exceeded == {
        "PrivateRidge",
        "PrivatePoissonRegressor",
        "output_perturbation",
        "sufficient_statistics",
        "PrivateScaler",
        "PrivateSearchCV",
        "default",
        "evaluate",
        "persons",
        "sparse",
        "PrivateSoftmaxRegression",
        "class_weight",
        "exposures",
    }
