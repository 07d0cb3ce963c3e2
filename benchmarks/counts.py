"""Claim frequencies of Swedish motor insurance (1977), with and without privacy.

``python -m benchmarks counts --data DIR``: the published table has the claims and the policy-years
of 2,182 classes of cars. A record is one policy: as many as a class has policy-years, each with
their part of the years as its exposure, and one claim for as many of them as there were claims. A
fifth is held out. D² is that of the rates of classes, weighted by the years that were held out:
how much of the differences between classes is explained.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import d2_tweedie_score
from sklearn.preprocessing import OneHotEncoder

from benchmarks.accuracy import DATA, mean_and_error
from skdpdyn import PrivatePoissonRegressor

SIZES = 5, 7, 7, 9  # of kilometres, zone, bonus and make, numbered from 1


def policies(table):
    """Return the encoded classes, and class, claims and exposure of each policy."""
    columns, claims, years = table["X"][:, :4], table["y"], table["X"][:, 4]
    encoder = OneHotEncoder(
        categories=[np.arange(1.0, size + 1) for size in SIZES], sparse_output=False
    )
    rows = encoder.fit_transform(columns) / 2  # four ones: of norm 1
    number = np.maximum(np.maximum(1, claims), np.round(years).astype(int))
    of = np.repeat(np.arange(len(rows)), number)
    place = np.arange(len(of)) - np.repeat(np.cumsum(number) - number, number)
    return rows, of, (place < claims[of]).astype(float), (years / number)[of]


def explained(rates, of, claims, exposure):
    """Return D^2 of the rates of classes, of some policies."""
    years, number = (np.bincount(of, x, len(rates)) for x in (exposure, claims))
    there = years > 0
    true = number[there] / years[there]
    return d2_tweedie_score(true, rates[there], sample_weight=years[there], power=1)


def main(arguments=None):
    """Print D^2 by epsilon."""
    formatter = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 1.0, 10.0])
    parser.add_argument("--splits", type=int, default=3)
    options = parser.parse_args(arguments)
    table = np.load(options.data / "swedish_motor_insurance.npz", allow_pickle=False)
    rows, of, claims, exposure = policies(table)
    X = rows.astype(np.float32)
    scores = {}
    for split in range(options.splits):
        held = np.random.default_rng(split).random(len(of)) < 0.2
        test = of[held], claims[held], exposure[held]
        train = of[~held], claims[~held], exposure[~held]
        years, number = (np.bincount(train[0], x, len(rows)) for x in (train[2], train[1]))
        there = years > 0
        plain = PoissonRegressor(alpha=0, max_iter=5000)
        plain.fit(rows[there], number[there] / years[there], sample_weight=years[there])
        scores.setdefault("without privacy", []).append(explained(plain.predict(rows), *test))
        for epsilon in options.epsilon:
            model = PrivatePoissonRegressor(epsilon, target_bounds=(0, 1))
            model.fit(X[train[0]], train[1], exposure=train[2])
            name = f"epsilon {epsilon:g}"
            scores.setdefault(name, []).append(explained(model.predict(rows), *test))
    print(f"{len(of):,} policies, {claims.sum():,.0f} claims, {options.splits} splits")
    print(f"{'':<16}{'D²':>8}{'error':>8}")
    for name, found in scores.items():
        mean, error = mean_and_error(np.array(found))
        print(f"{name:<16}{mean:>8.3f}{error:>8.3f}")


if __name__ == "__main__":
    main()
