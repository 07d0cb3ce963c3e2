"""Every example runs and prints the numbers that it promises.

The suite runs those that take long on less data; ``pytest -m full`` runs all of them as they stand.
"""

import runpy
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

ROOT = Path(__file__).parents[1]
PROMISES = {
    "plot_contraction": "delta(0.5) = 1.241e-25 by Theorem 4",
    "plot_counts_exposure": "85% without a claim, 0.280 claims a year",
    "plot_expected_curvature": "least 6.68e-03 (paper 6.68e-03), average 0.40 (paper 0.40)",
    "plot_intervals": "answered: 11 of 11 coefficients",
    "plot_ledger": "charged after the cancellation: epsilon 0.6375",
    "plot_low_bits": "told in 40 of 40 releases",
    "plot_lower_bound": "Corollary 2 / exact = 1.0519 <= 1.0519",
    "plot_number_of_steps": "137 steps of 7.4074, noise multiplier   19.022",
    "plot_private_evaluation": "off by less than 0.03: True",
    "plot_private_search": "ten trials of epsilon 0.3: 0.492 for the best, 0.996 for all",
    "plot_privacy_dynamics": "Corollary 1 0.048000, its asymptote 0.048000, exact 0.023760",
    "plot_quickstart": "epsilon after 30000 steps by last_iterate: 0.145",
    "plot_stochastic_tradeoff": " noise 4.74 2.46 1.41 1.02",
    "plot_solvers": "the larger class           0.753",
    "plot_survey_table": "last iterate, full batch",
}

SMALLER = {
    "plot_quickstart": {
        "test_size=0.2,": "train_size=3000, test_size=1000,",
        "budgets = [0.03, 0.1, 0.3, 1.0, 3.0]": "budgets = [0.3, 1.0]",
        "last_iterate: 0.145": "last_iterate: ",
    },
    "plot_solvers": {
        "train_size=10_000,": "train_size=1000, test_size=1000,",
        "epsilons = [0.1, 0.3, 1.0, 3.0]": "epsilons = [0.3, 1.0]",
        "range(3)": "range(1)",
        "the larger class           0.753": "the larger class ",
    },
    "plot_stochastic_tradeoff": {
        "test_size=0.2,": "train_size=3000, test_size=1000,",
        "passes = [1, 4, 16, 64]": "passes = [1, 4]",
        " noise 4.74 2.46 1.41 1.02": " noise ",
    },
}
"""What the suite runs in place of texts of an example, each of which must stand once in it or in its promise."""


def test_every_example_has_a_promise():
    assert set(PROMISES) == {path.stem for path in (ROOT / "examples").glob("plot_*.py")}


def run_example(source, promise, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    try:
        runpy.run_path(str(source))
        assert plt.get_fignums()
    finally:
        plt.close("all")
    assert promise in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize("name", SMALLER)
def test_example_as_it_stands(name, capsys, monkeypatch, tmp_path):
    run_example(ROOT / "examples" / f"{name}.py", PROMISES[name], capsys, monkeypatch, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROMISES)
def test_example(name, capsys, monkeypatch, tmp_path):
    source, promise = ROOT / "examples" / f"{name}.py", PROMISES[name]
    if name in SMALLER:
        text = source.read_text(encoding="utf-8")
        for old, new in SMALLER[name].items():
            assert text.count(old) + promise.count(old) == 1, old
            text, promise = text.replace(old, new), promise.replace(old, new)
        source = tmp_path / source.name
        source.write_text(text, encoding="utf-8")
    run_example(source, promise, capsys, monkeypatch, tmp_path)
