"""What a private centring is worth at equal cost: Adult, and the digits of scikit-learn, with and
without `PrivateScaler`.

Run ``python -m benchmarks centring``. The splits, and of Adult the rows and the estimator, are
those of ``accuracy.py``; every row of the table has the same total budget (epsilon, 1/n_train^2),
divided by ``split_budget``: shares of mu^2. Fresh noise in every fit; the standard error is that of
the mean difference to the model without centring on the same splits.
"""

import argparse

import numpy as np
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline

from benchmarks.accuracy import Problem, adult, log_loss, splits
from skdpdyn import PrivateSoftmaxRegression
from skdpdyn.preprocessing import PrivateScaler
from skdpdyn.privacy import split_budget


def digits():
    """Return 1,797 digits of 8 x 8 pixels, 0 to 16 by design; data_norm=1 makes unit rows."""
    X, y = load_digits(return_X_y=True)

    def private(**budget):
        return PrivateSoftmaxRegression(classes=range(10), **budget)

    return Problem("Digits", X / 16, y, private, [])


def model_of(problem, epsilon, delta, share, adjacency):
    if share == 0:
        return make_pipeline(problem.private(epsilon=epsilon, delta=delta, adjacency=adjacency))
    centring, (epsilon, _) = split_budget(epsilon, delta, (share, 1 - share))
    return make_pipeline(
        PrivateScaler(*centring, adjacency=adjacency),
        problem.private(epsilon=epsilon, delta=delta, adjacency=adjacency),
    )


def spent(pipeline, delta):
    guarantees = [step.privacy_ for _, step in pipeline.steps]
    whole = guarantees[0]
    for guarantee in guarantees[1:]:
        whole = whole.compose(guarantee)
    return whole.epsilon(delta)


def run(problem, epsilon, shares, adjacency, n_splits):
    X, y = problem.X, problem.y
    print(f"\n{problem.title}, epsilon={epsilon:g}, {adjacency}, {n_splits} splits")
    print(
        f"{'share':>6} {'spent':>9} {'score':>8} {'gain':>8} {'+-':>7} {'log loss':>9} {'scale':>6}"
    )
    baseline = None
    for share in (0.0, *shares):
        scores, losses, scales, costs = [], [], [], []
        for train, test in splits(len(y), n_splits):
            delta = 1 / len(train) ** 2
            model = model_of(problem, epsilon, delta, share, adjacency).fit(X[train], y[train])
            scores.append(model.score(X[test], y[test]))
            losses.append(log_loss(model, X[test], y[test]))
            scales.append(getattr(model[0], "scale_", np.nan))
            costs.append(spent(model, delta))
        baseline = scores if baseline is None else baseline
        gains = np.subtract(scores, baseline)
        print(
            f"{share:>6g} {max(costs):>9.6f} {np.mean(scores):>8.4f} {np.mean(gains):>8.4f} "
            f"{np.std(gains) / np.sqrt(n_splits):>7.4f} {np.mean(losses):>9.4f} "
            f"{np.mean(scales):>6.3f}",
            flush=True,
        )


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 1.0])
    parser.add_argument(
        "--share",
        type=float,
        nargs="+",
        default=[0.1, 0.2],
        help="parts of mu^2 that are spent on centring",
    )
    parser.add_argument(
        "--adjacency", nargs="+", default=["replace_one"], choices=["replace_one", "add_remove"]
    )
    parser.add_argument("--splits", type=int, default=20)
    arguments = parser.parse_args(argv)
    for problem in (adult(None), digits()):
        for adjacency in arguments.adjacency:
            for epsilon in arguments.epsilon:
                run(problem, epsilon, arguments.share, adjacency, arguments.splits)
