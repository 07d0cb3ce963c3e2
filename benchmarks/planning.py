"""What `skdpdyn.planning.plan` says before fits, beside what fits on real data find.

``python -m benchmarks planning --data DIR`` plans and fits the default logistic regression on
Adult, MAGIC, California, flights and pen digits (odd or even): thirty cells of 2,000 rows and of
all training rows at epsilon 0.1, 1 and 4, and thirty more of 1,000 and 10,000 rows. A plan is told
the numbers of rows and columns, the AUC of a model without privacy and the prevalence. Its error is
the planned AUC less the mean of ``--fits`` fits; ``within`` is the part of the fits that are in the
planned interval. A fifth of the rows is kept for scores.

``--coefficients`` holds `skdpdyn.inference.plan_table` against tables of coefficients of the public
data sets of the arena at epsilon 0.3, 1 and 3. A plan is told 500 of their rows, which stand for
public ones, the prevalence and the AUC of a linear model. ``advised`` is the part of the
coefficients without an answer that have one at their ``sufficient_epsilon``.

Minutes: 2; 0.5 with ``--quick``, Adult's cells of 1,000 and 2,000 rows.
"""

import time
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from benchmarks._common import TABLES, loaded, parser, problem, splits
from skdpdyn import PrivateLogisticRegression, PrivateRidge
from skdpdyn.exceptions import PrivacyUtilityWarning
from skdpdyn.inference import plan_table, private_regression
from skdpdyn.planning import plan

SETS = ("adult", "magic", "california", "all_flights", "pendigits")
SIZES = {"thirty": (2_000, None), "thirty more": (1_000, 10_000)}  # None: all rows
EPSILONS = [0.1, 1.0, 4.0]
MOST = 60_000  # rows that the model without privacy is trained on


def cells(name, data, sizes, fits):
    """Yield one line's numbers for each cell: planned scores, fitted ones, seconds of the plan."""
    X = data.X
    y = data.y % 2 == 1 if name == "pendigits" else data.y
    ((train, test),) = splits(len(y), 1)
    without = LogisticRegression(C=1e3, max_iter=5000).fit(X[train[:MOST]], y[train[:MOST]])
    auc = roc_auc_score(y[test], without.decision_function(X[test]))
    guesses = {"auc": auc, "prevalence": float(np.mean(y)), "n_features": X.shape[1]}
    for size in sizes:
        n_samples = min(size or len(train), len(train))
        model = PrivateLogisticRegression(classes=[False, True])
        start = time.process_time()
        planned = plan(model, n_samples=n_samples, epsilon=EPSILONS, **guesses).points
        seconds = (time.process_time() - start) / len(EPSILONS)
        for point in planned:
            model.set_params(epsilon=point.epsilon)
            scores = []
            for fit in range(fits if n_samples <= 10_000 else max(2, fits // 5)):
                rows = np.random.default_rng(fit).permutation(train)[:n_samples]
                model.fit(X[rows], y[rows])
                scores.append(roc_auc_score(y[test], model.decision_function(X[test])))
            yield auc, point, np.array(scores), seconds


def coefficients(table, seeds=2):
    """Yield the epsilon, the part of coefficients that was planned and came, and that of advice."""
    options = {"bounds": table.bounds, "categories": table.categories or None}
    model = PrivateLogisticRegression(classes=[0, 1])
    guesses = {}
    if table.target_bounds:
        model = PrivateRidge(target_bounds=table.target_bounds)
    else:
        rows = table.numbers(table.X)
        linear = LogisticRegression(max_iter=2000).fit(rows, table.y).decision_function(rows)
        guesses = {"prevalence": table.y.mean(), "auc": roc_auc_score(table.y, linear)}
    public = np.random.default_rng(7).permutation(len(table.y))[:500]
    shape = {"n_samples": len(table.y), "like": table.X.iloc[public], "epsilon": [0.3, 1.0, 3.0]}
    planned = plan_table(model, **shape, **options, **guesses).points
    for point in planned:
        came = []
        advised = []
        for seed in range(seeds):

            def of(epsilon, seed=seed):
                options["random_state"] = seed
                return private_regression(model, table.X, table.y, epsilon=epsilon, **options)[1]

            found = of(point.epsilon)
            came.append(found.answered.mean())
            advice = found.sufficient_epsilon
            for epsilon in np.unique(advice[np.isfinite(advice)]):
                later = of(min(epsilon, 100.0))
                names = np.array(found.names)[advice == epsilon]
                advised += [later.answered[later.names.index(name)] for name in names
                            if name in later.names]  # fmt: skip
        yield point, float(np.mean(came)), float(np.mean(advised)) if advised else np.nan


def main_of_coefficients(directory):
    """Print a line for each table and epsilon, and errors of all."""
    errors = []
    print("table      rows    epsilon planned   came  width advised")
    for name, table in loaded(TABLES, lambda name: TABLES[name](directory)):
        for point, came, advised in coefficients(table):
            errors.append(point.answered - came)
            print(
                f"{name:<10} {point.n_samples:>6,} {point.epsilon:>7g} {point.answered:>7.2f} "
                f"{came:>6.2f} {point.width:>6.2f} {advised:>7.2f}",
                flush=True,
            )
    size = np.abs(errors)
    print(
        f"error: mean {size.mean():.3f}, worst {size.max():.2f}; {np.mean(size <= 0.2):.0%} in .2"
    )


def main(arguments=None):
    """Print a line for each cell, and errors of all."""
    made = parser(__doc__)
    made.add_argument("--only", nargs="+", choices=SETS, default=SETS, help="these data sets")
    made.add_argument("--fits", type=int, default=20, help="fits a cell; a fifth of large ones")
    made.add_argument("--coefficients", action="store_true", help="hold plans of tables instead")
    asked = made.parse_args(arguments)
    warnings.simplefilter("ignore", PrivacyUtilityWarning)
    if asked.coefficients:
        warnings.simplefilter("ignore")
        main_of_coefficients(asked.data)
        return
    names = asked.only
    groups = SIZES
    if asked.quick:
        names = names[:1]
        groups = {"six": (1_000, 2_000)}
        asked.fits = 3
    problems = dict(loaded(names, lambda name: problem(name, asked.data)))
    for group, sizes in groups.items():
        errors = []
        within = []
        print(f"{group + ' cells':<17} {'rows':>7} {'epsilon':>7} {'not private':>11} ", end="")
        print("planned   from     to  fitted  error within seconds")
        for name, data in problems.items():
            for auc, point, scores, seconds in cells(name, data, sizes, asked.fits):
                errors.append(point.score - scores.mean())
                within.append(np.mean((point.low <= scores) & (scores <= point.high)))
                print(
                    f"{name:<17} {point.n_samples:>7} {point.epsilon:>7} {auc:>11.3f} "
                    f"{point.score:>7.3f} {point.low:>6.3f} {point.high:>6.3f} "
                    f"{scores.mean():>7.3f} {errors[-1]:>+6.3f} {within[-1]:>6.2f} {seconds:>7.1f}",
                    flush=True,
                )
        size = np.abs(errors)
        print(
            f"error: median {np.median(size):.3f}, worst {size.max():.3f}; "
            f"within the interval: {np.mean(within):.0%} of fits, "
            f"and most fits in {np.mean(np.array(within) > 0.5):.0%} of cells\n"
        )
