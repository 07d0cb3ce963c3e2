"""What the rules of defaults would be if a data set were left out of their choice, and what that
is worth there.

``python -m benchmarks constants --data DIR``: each rule of `skdpdyn.core.rules` at half, as it is,
and doubled, the others as they are, on Adult, MAGIC, California, a sample of 20,000 flights and pen
digits, at epsilon 0.1 and 1, replace_one. Where a rule depends on n mu / f, that is halved and
doubled, so that the rule is reached later or earlier; otherwise its value is. Seeds are the numbers
of splits, so that fits which a rule does not touch are the same fit. Gains are hundredths of log
loss, with the sign changed, over the same splits with today's rule. Errors are standard errors over
splits.

For each set left out: the value with the largest mean gain on the others, and its gain on the set.
"shares" are those of dense rows and of the curvature, all together. least_strength decides nothing
on so many rows: its half and its double are tried on the first rows of each training part, as many
as are between the two values.

``--out FILE`` is written anew after every split, so that a run may be stopped.

Minutes: 0.2 a split, of which there are 20; 0.1 with ``--quick``, Adult and flights alone.
"""

import math
import warnings
from contextlib import ExitStack
from inspect import signature
from pathlib import Path
from unittest.mock import patch

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._common import loaded, log_loss, mean_and_error, parser, problem, splits
from skdpdyn.core import rules
from skdpdyn.exceptions import PrivacyLeakWarning
from skdpdyn.privacy import Adjacency
from skdpdyn.privacy.budget import Budget

EPSILONS = (0.1, 1.0)
FACTORS = (0.5, 2.0)
# the rules that are multiplied together
PLACES = {
    "least_strength": ["LEAST_STRENGTH"],
    "matrix_strength": ["matrix_strength"],
    "kept_length": ["kept_length"],
    "radius_quantile": ["radius_quantile"],
    "clip": ["logistic_clip", "softmax_clip"],
    "training_time": ["training_time"],
    "most_steps": ["most_steps", "ENOUGH_STEPS"],
    "class_share": ["class_share"],
    "momentum_steps": ["momentum_steps"],
    "shares": ["length_share", "MEAN_SHARE", "variances_share", "MOMENTS_SHARE", "curvature_share"],
}


SETS = "adult", "magic", "california", "flights", "pendigits"


def times(rule, factor):
    """Return a rule at a strength that is multiplied, or whose value is where it takes none."""
    if not callable(rule):
        return factor * rule
    names = list(signature(rule).parameters)
    if "strength" not in names:
        return lambda *arguments, **options: factor * rule(*arguments, **options)
    place = names.index("strength")

    def changed(*arguments, **options):
        arguments = list(arguments)
        arguments[place] *= factor
        return rule(*arguments, **options)

    return changed


def few_rows(epsilon, strength):
    """Return the least number of rows that are as strong as this under replace_one."""
    return next(
        n
        for n in range(50, 20_000, 10)
        if rules.strength_of(n, Budget(epsilon, 1 / n**2).mu, Adjacency.REPLACE_ONE) >= strength
    )


def score(problem, epsilon, split, train, test):
    """Return the log loss of one fit, in hundredths, with its sign changed."""
    model = problem.private(epsilon=epsilon).set_params(random_state=split)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)  # of the seed: the data are public
        model.fit(problem.X[train], problem.y[train])
    return -100 * log_loss(model, problem.X[test], problem.y[test])


def gains(problem, epsilon, split, train, test):
    """Return the gain of each constant at each factor, over today's value on the same rows."""
    found = {}
    today = {}
    for constant, places in PLACES.items():
        for factor in FACTORS:
            n_rows = len(train)
            if constant == "least_strength":
                n_rows = few_rows(epsilon, rules.LEAST_STRENGTH * math.sqrt(factor))
            some = (problem, epsilon, split, train[:n_rows], test)
            if n_rows not in today:
                today[n_rows] = score(*some)
            with ExitStack() as patches:
                for name_of_rule in places:
                    changed = times(getattr(rules, name_of_rule), factor)
                    patches.enter_context(patch.object(rules, name_of_rule, changed))
                found[constant, factor] = score(*some) - today[n_rows]
    return found


def of_sets(found, names, constant, factor):
    """Return the mean gain over sets, both budgets alike, and its standard error."""
    each = [np.mean(found[name, constant, factor], axis=1) for name in names]
    mean, errors = np.transpose([mean_and_error(values) for values in each])
    return np.mean(mean), math.sqrt(np.sum(np.square(errors))) / len(names)


def table(found, names, n_splits):
    """Return the tables as text."""
    lines = [
        f"Gain over today's rule, in hundredths of log loss, {n_splits} splits, replace_one",
        f"{'constant':>16} {'times':>5} {'epsilon':>7}" + "".join(f"{name:>15}" for name in names),
    ]
    for constant in PLACES:
        for factor in FACTORS:
            for place, epsilon in enumerate(EPSILONS):
                cells = ""
                for name in names:
                    values = np.array(found[name, constant, factor])[:, place]
                    gain, error = mean_and_error(values)
                    cells += f"{gain:>+7.2f} +-{error:5.2f}" if np.any(values) else f"{'same':>15}"
                lines.append(f"{constant:>16} {factor:>5g} {epsilon:>7g}{cells}")
    lines += [
        "",
        "Chosen with a set left out: the largest mean gain on the others, both budgets alike",
        f"{'constant':>16} {'left out':>11} {'chosen':>7} {'on others':>14} {'on it':>14}",
    ]
    for constant in PLACES:
        for name in names:
            others = [other for other in names if other != name]
            tried = {factor: of_sets(found, others, constant, factor) for factor in FACTORS}
            best = max(tried, key=lambda factor: tried[factor][0])
            if tried[best][0] <= 0:
                lines.append(f"{constant:>16} {name:>11}   as is")
                continue
            gain, error = of_sets(found, [name], constant, best)
            lines.append(
                f"{constant:>16} {name:>11} {f'x {best:g}':>7} "
                f"{tried[best][0]:>+6.2f} +-{tried[best][1]:5.2f} {gain:>+6.2f} +-{error:5.2f}"
            )
    return "\n".join(lines) + "\n"


def main(arguments=None):
    """Print the tables."""
    made = parser(__doc__)
    made.add_argument("--splits", type=int, default=20)
    made.add_argument("--out", type=Path, help="file for the tables")
    asked = made.parse_args(arguments)
    if asked.quick:
        asked.splits = 1
    names = ("adult", "flights") if asked.quick else SETS
    problems = dict(loaded(names, lambda name: problem(name, asked.data)))
    found = {}
    for split in range(asked.splits):
        for name, data in problems.items():
            train, test = splits(len(data.y), split + 1)[split]
            with threadpool_limits(1):
                each = [gains(data, epsilon, split, train, test) for epsilon in EPSILONS]
            for constant, factor in each[0]:
                values = [gain[constant, factor] for gain in each]
                found.setdefault((name, constant, factor), []).append(values)
        text = table(found, list(problems), split + 1)
        if asked.out:
            asked.out.write_text(text)
    print(text)
