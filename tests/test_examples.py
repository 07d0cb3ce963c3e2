"""Every example prints what it promises; where SKDPDYN_SITE is set, its page is read."""

import html
import os
import re
import runpy
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SITE = os.environ.get("SKDPDYN_SITE")
PROMISES = {
    "papers/plot_contraction": "delta(0.5) = 1.241e-25 by Theorem 4",
    "papers/plot_expected_curvature": "least 6.68e-03 (paper 6.68e-03), average 0.40 (paper 0.40)",
    "tasks/plot_audit": "MORE THAN CLAIMED: report this",
    "tasks/plot_curves": "log odds of a missing lactate -",
    "tasks/plot_ledger": "charged after the cancellation: epsilon 0.6375",
    "ideas/plot_low_bits": "told in 40 of 40 releases",
    "papers/plot_lower_bound": "Corollary 2 / exact = 1.0519 <= 1.0519",
    "ideas/plot_number_of_steps": "137 steps of 7.4074, noise multiplier   19.022",
    "tasks/plot_private_search": "ten trials of epsilon 0.3: 0.492 for the best, 0.996 for all",
    "papers/plot_first_paper": "alpha 0.0751, K* = 9,907, sigma = 0.00481",
    "papers/plot_privacy_dynamics": "Corollary 1 0.048000, its asymptote 0.048000, exact 0.023760",
    "ideas/plot_last_iterate": "epsilon after 30000 steps by last_iterate: 0.145",
    "tasks/plot_attacker": "epsilon 1.0: at 1 % false alarms an attacker misses at least 98.2 %",
    "tasks/plot_odds_ratios": "answered: 6 of 6 coefficients",
    "tasks/plot_survival": "within twice the band everywhere: True",
    "tasks/plot_claims": "deciles whose interval holds 1: ",
    "tasks/plot_intervals": "answered: 11 of 11 coefficients",
    "tasks/plot_private_evaluation": "off by less than 0.03: True",
    "tasks/plot_counts_exposure": "85% without a claim, 0.280 claims a year",
    "tasks/plot_persons": "for a whole desk: mu 0.237, and 0.237",
    "tasks/plot_cluster": "on the cluster and in memory, the same bits: True",
    "tasks/plot_rare_classes": "class_weight={True: 20, False: 1}: AUC 0.",
    "plot_quickstart": "no privacy linear ",
    "ideas/plot_stochastic_tradeoff": " noise 4.74 2.46 1.41 1.02",
    "tasks/plot_solvers": "the larger class           0.753",
    "papers/plot_survey_table": "last iterate, full batch",
    "papers/plot_utility_bounds": "noise 11.56, so that c2 = 0.98",
}


def test_every_example_has_a_promise():
    paths = [path.relative_to(EXAMPLES) for path in EXAMPLES.rglob("plot_*.py")]
    names = {path.with_suffix("").as_posix() for path in paths}
    assert set(PROMISES) == names


def printed_by(name, capsys, monkeypatch, tmp_path):
    """Return what an example prints, having seen that it draws."""
    if SITE:
        page = (Path(SITE) / "gallery" / f"{name}.html").read_text(encoding="utf-8")
        assert "sphx-glr-single-img" in page or "sphx-glr-multi-img" in page
        outputs = re.findall(r"sphx-glr-script-out.*?<pre>(.*?)</pre>", page, flags=re.DOTALL)
        return html.unescape(re.sub(r"<[^>]*>", "", "\n".join(outputs)))
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    try:
        with plt.style.context("default"):
            runpy.run_path(str(EXAMPLES / f"{name}.py"))
            assert plt.get_fignums()
    finally:
        plt.close("all")
    return capsys.readouterr().out


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.parametrize("name", PROMISES)
def test_example(name, capsys, monkeypatch, tmp_path):
    assert PROMISES[name] in printed_by(name, capsys, monkeypatch, tmp_path)
