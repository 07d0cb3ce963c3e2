"""Curves of the rules that "auto" stands for, over the strength s = n mu / f.

``python -m benchmarks rules --figure doc/rules.png`` draws what `skdpdyn.core.rules` says, without
any data.
"""

import argparse
from pathlib import Path

import numpy as np

from skdpdyn.core import rules

COLUMNS = (10, 100)
PANELS = {
    "clip of a residual, over the largest": {
        "logistic": lambda d, s: rules.logistic_clip(d, s),
        "softmax, 3 classes": lambda d, s: rules.softmax_clip(3 * d, s) / 2**0.5,
        "ridge, over the target's scale / 4": lambda d, s: min(
            4 * rules.mapped_ridge_clip(d, s), 4
        ),
    },
    "part of the rows that keep their length": {
        "bounded losses": lambda d, s: rules.kept_length(s, d, True),
        "ridge": lambda d, s: rules.kept_length(s, d, False),
        "counts": lambda d, s: rules.kept_length_of_rates(s, d),
    },
    "training time": {
        "one output": lambda d, s: rules.training_time(s, d, 1, True),
        "three classes": lambda d, s: rules.training_time(s, 3 * d, 3, True),
        "ridge": lambda d, s: rules.training_time(s, d, 1, False),
    },
    "part of mu^2": {
        "class shares": lambda d, s: rules.class_share(s, 1),
        "rate of counts": lambda d, s: rules.rate_share(s),
        "mean target": lambda d, s: rules.mean_target_share(s),
        "mean residual": lambda d, s: rules.calibration_share(s),
        "mean residual of counts": lambda d, s: rules.rate_calibration_share(s),
        "length of rows": lambda d, s: rules.radius_share(s),
    },
}


def draw(file):
    """Draw every panel: full lines for 10 columns, dashed ones for 100."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    strengths = np.geomspace(20, 1e6, 200)
    figure, axes = plt.subplots(2, 2, figsize=(9, 6.5), layout="constrained")
    for axis, (title, curves) in zip(axes.flat, PANELS.items(), strict=True):
        for place, (name, rule) in enumerate(curves.items()):
            for d, style in zip(COLUMNS, ("-", "--"), strict=True):
                label = name if d == COLUMNS[0] else None
                values = [rule(d, s) for s in strengths]
                axis.plot(strengths, values, style, color=f"C{place}", label=label)
        axis.set(title=title, xscale="log", xlabel="s = n mu / f")
        axis.legend(fontsize="small")
    figure.savefig(file, dpi=100)


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--figure", type=Path, default=Path("rules.png"))
    draw(parser.parse_args(argv).figure)
