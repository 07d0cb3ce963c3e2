"""Every benchmark has a name, a description, options and minutes; the arena reads what it says."""

import ast
import csv
import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss, r2_score, roc_auc_score

from skdpdyn import PrivateLogisticRegression, Schema
from skdpdyn.core import rules
from skdpdyn.privacy import Adjacency

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))  # also where tests run on an installed package
runner = importlib.import_module("benchmarks.__main__")
common = importlib.import_module("benchmarks._common")
arena = importlib.import_module("benchmarks.arena")
pages = importlib.import_module("benchmarks._arena_pages")
size = importlib.import_module("benchmarks.size")


def test_all_are_listed(capsys):
    assert runner.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in runner.NAMES:
        assert f"  {name:<20} {runner.description(name)}" in lines
    assert {"arena", "audit", "constants", "intervals"} <= set(runner.NAMES)
    assert {"planning", "size", "speed", "theory"} <= set(runner.NAMES)
    assert "no benchmark 'sped'" in runner.main(["sped"])


@pytest.mark.parametrize("name", runner.NAMES)
def test_each_tells_its_options_and_minutes(name, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", sys.argv)
    with pytest.raises(SystemExit, match="0"):
        runner.main([name, "--help"])
    told = capsys.readouterr().out
    assert f"usage: python -m benchmarks {name}" in told
    assert "--quick" in told
    assert "Minutes" in told


def test_documents_name_benchmarks_that_exist():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    pages += [*(ROOT / "doc").rglob("*.rst"), *(ROOT / "examples").rglob("*.py")]
    texts = [path.read_text() for path in pages if "gallery" not in path.parts]
    named = {name for text in texts for name in re.findall(r"python -m benchmarks (\w+)", text)}
    assert named <= set(runner.NAMES)
    assert "arena" in named


# --- the arena ------------------------------------------------------------------------------------


def test_scores_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 500)
    p = np.round(rng.random(500), 2) * 0.98 + 0.01  # with ties
    table = common.Table("made", pd.DataFrame(), y, {}, {})
    found = common.scores(table, p)
    assert found["auc"] == pytest.approx(roc_auc_score(y, p), abs=1e-12)
    assert found["log_loss"] == pytest.approx(log_loss(y, p), abs=1e-12)
    assert found["ratio"] == pytest.approx(p.mean() / y.mean())
    assert common.scores(table, np.full(500, y.mean()))["ece"] < 0.2
    numbers = common.Table("made", pd.DataFrame(), p, {}, {}, (0.0, 1.0))
    assert common.scores(numbers, y)["r2"] == pytest.approx(r2_score(p, y))


@pytest.mark.system
def test_a_folder_of_ones_own_runs_without_code(tmp_path, capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(0, 100, 3000), "town": rng.choice(["a", "b"], 3000)})
    frame["ill"] = np.where(frame["age"] + 20 * (frame["town"] == "b") > 70, "yes", "no")
    frame.insert(0, "number", range(3000))  # named by no schema, and not the last: left out
    frame.to_csv(tmp_path / "mine.csv", index=False)
    facts = {"bounds": {"age": (0, 100)}, "categories": {"town": ["a", "b"]}}
    schema = Schema(**facts, classes=["no", "yes"])
    schema.to_json(tmp_path / "mine.schema.json")
    file = tmp_path / "kept.csv"
    asked = ["arena", "--quick", "--rivals", "ours", "sklearn", "--csv", str(file)]
    runner.main([*asked, "--data", str(tmp_path)])
    assert "mine" in capsys.readouterr().out
    lines = arena.read_lines(file)
    assert float(lines["mine", "additive", "1.0", "add_remove"]["auc"]) > 0.95
    assert float(lines["mine", "boosting without privacy", "", "none"]["auc"]) > 0.99
    assert {key[0] for key in lines} == {"mine"}


def test_a_rival_that_cannot_be_installed_is_named(tmp_path, capsys, monkeypatch):
    def failing(*_):
        raise RuntimeError("ERROR: no such release")

    monkeypatch.setattr(arena, "environment", failing)
    arena.main(["--quick", "--rivals", "interpret", "--data", str(tmp_path), "--only", "adult"])
    assert "NOT INSTALLED interpret: ERROR: no such release" in capsys.readouterr().out
    assert all(len(arena.constants_of(name)["MODELS"]) for name in arena.MODULES)
    adapters = [ROOT / "benchmarks" / "rivals" / f"{module}.py" for module in arena.MODULES]
    assert max(len(path.read_text().splitlines()) for path in adapters) <= 60


def test_tables_of_the_pages_are_those_of_the_results():
    lines = pages.read(ROOT / "doc" / "arena.csv")
    assert pages.readme_table(lines) in (ROOT / "README.md").read_text()
    made = {"scores": pages.scores, "estimates": pages.estimates, "losses": pages.losses}
    for name, write in made.items():
        assert (ROOT / "doc" / f"arena_{name}.txt").read_text() == write(lines)
    with (ROOT / "doc" / "arena.csv").open() as file:
        every = list(csv.DictReader(file))
    assert all(line["version"] and line["commit"] for line in every if line["splits"])
    assert {"linear", "additive", "DP-EBM", "boosting without privacy"} <= set(lines["model"])
    published = [line["note"] for line in every if line["model"].startswith("S-BDT")]
    assert len(published) == 4
    assert all("published" in note for note in published)


# --- constants ------------------------------------------------------------------------------------


@pytest.mark.system
def test_every_constant_is_changed_where_it_is_read():
    """And is what it was afterwards; fits that a constant does not touch are the same fit."""
    constants = importlib.import_module("benchmarks.constants")
    before = {name: getattr(rules, name) for names in constants.PLACES.values() for name in names}
    rng = np.random.default_rng(0)
    X = rng.normal([0.5, 0.0, 0.2], [0.1, 0.01, 0.05], (5000, 3))
    y = X[:, 1] + 0.01 * rng.normal(size=5000) > 0

    def private(**budget):
        return PrivateLogisticRegression(classes=[False, True], bounds=None, **budget)

    problem = common.Problem(X, y, private)
    gains = constants.gains(problem, 1.0, 0, np.arange(4000), np.arange(4000, 5000))
    touched = {name for (name, _), gain in gains.items() if gain}
    # 4,000 records are enough for a matrix of three columns and for no clip, and too few for the
    # most steps and for momentum, at half and at double
    untouched = {"matrix_strength", "clip", "most_steps", "momentum_steps"}
    assert touched == set(constants.PLACES) - untouched
    assert all(np.isfinite(gain) for gain in gains.values())
    assert {name: getattr(rules, name) for name in before} == before


# --- audits ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def audit():
    return importlib.import_module("benchmarks.audit")


@pytest.mark.system
@pytest.mark.usefixtures("noise_found_once")
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_last_iterates_keep_to_their_claims_and_some_attain_them(audit, adjacency):
    """Six standard errors: failure probability 1e-9 each."""
    rows = list(audit.last_iterates(adjacency))
    for row in rows:
        assert row.loss <= row.claim + 6 * row.error, row
    attained = [row.what for row in rows if row.loss > 0.98 * row.claim]
    assert any("persons of 5 and 100 rows" in what for what in attained)
    assert sum(what.startswith("output_perturbation") for what in attained) >= 2
    assert any(re.search(r"n_steps=\d+ momentum=0\.[1-9]", row.what) for row in rows)


@pytest.mark.usefixtures("noise_found_once")
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_whole_fits_show_no_more_than_they_claim(audit, adjacency):
    """What is learnt of rows, classes and targets, and training, replayed on neighbours."""
    for name in ("logistic", "ridge"):
        rows = {row.what: row for row in audit.replays(adjacency, names=[name])}
        assert {f"{name}: {part}" for part in ("column means", "training")} <= set(rows)
        for row in rows.values():
            assert row.loss <= row.claim * (1 + 1e-6), row
        assert rows[f"{name}: column means"].loss > 0.99 * rows[f"{name}: column means"].claim


@pytest.mark.usefixtures("noise_found_once")
def test_one_fits_show_a_part_of_their_claims(audit):
    """The claim is five deviations above the limit: failure probability 1e-6."""
    (row, *_) = audit.one_fits(Adjacency.REPLACE_ONE, 5000, 1, ["ridge"])
    assert 0 <= row.loss < row.claim
    assert row.what == "ridge: mu, by signs (1 runs of 5000 records)"
    assert row.cells[-1] == f"{row.seconds:.1f}"


# --- the size of the package ----------------------------------------------------------------------


def test_statements_count_packed_assignments_at_their_length():
    counted = {
        "a = 1": 1,
        "a, b = x, y": 2,
        "(a, b), c = x, y": 2,
        "a, b = b, a": 1,
        "a[i], a[j] = a[j], a[i]": 1,
        "a, b = pair": 1,
        "def f():\n    'doc'\n    return 1, 2": 2,
    }
    for text, expected in counted.items():
        assert size.statements(ast.parse(text)) == expected, text


def test_the_package_has_no_packed_assignments_and_no_class_name_twice():
    """One assignment a line, swaps apart; and a class name means one thing."""
    files = size.trees()
    packed = [f"{place}:{node.lineno}" for place in files for node in size.packed(files[place])]
    assert packed == []
    assert size.repeated_classes(files) == {}
