"""Additive models against the linear default, with and without privacy, and against peers.

Raw tables of the data sets of ``--data``, at most 50,000 rows, 80 % for training. "linear" is the
default on columns scaled by public bounds and one-hot levels, "not private" scikit-learn's logistic
regression (C=100) or ridge (1e-3) on standardised columns. Accuracy, or R^2 of the value of a
house, as a mean over splits. ``--peers``
adds, where they are installed, InterpretML's DP-EBM at rates 0.01 and 0.2, diffprivlib's models and
a network trained by Opacus's DP-SGD.
"""

import argparse
import warnings
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks.accuracy import DATA, HOUSING_BOUNDS, MAGIC_BOUNDS
from skdpdyn import (
    PrivateGAMClassifier,
    PrivateGAMRegressor,
    PrivateLogisticRegression,
    PrivateRidge,
)
from skdpdyn.datasets import load_adult, load_flights
from skdpdyn.preprocessing import BoundsScaler

MOST_ROWS = 50_000


@dataclass
class Table:
    """A raw table, what is public of it, and its target."""

    X: pd.DataFrame
    y: np.ndarray
    bounds: dict
    categories: dict
    target_bounds: tuple | None = None

    def taken(self, index):
        """Return some rows."""
        return replace(self, X=self.X.iloc[index], y=self.y[index])

    @property
    def levels(self):
        """A step that encodes public levels."""
        return OneHotEncoder(categories=list(self.categories.values()), sparse_output=False)

    def columns(self, step):
        """Return a step that sends numbers through another, and encodes levels."""
        return make_column_transformer(
            (step, list(self.bounds)), (self.levels, list(self.categories)), sparse_threshold=0
        )


def adult(directory):
    """Return Adult, complete rows."""
    data = load_adult()
    y = (data.target == ">50K").to_numpy()
    return Table(data.data, y, dict(data.bounds), dict(data.categories))


def magic(directory):
    """Return MAGIC."""
    with np.load(directory / "magic_telescope.npz") as data:
        X, y = data["X"].astype(float), data["y"].astype(int) > 0
    names = [f"x{j}" for j in range(X.shape[1])]
    bounds = np.broadcast_to(MAGIC_BOUNDS, (len(names), 2)).tolist()
    frame = pd.DataFrame(X, columns=names)
    return Table(frame, y, dict(zip(names, map(tuple, bounds), strict=True)), {})


def flights(directory):
    """Return flights, and whether one is more than 15 minutes late."""
    known = load_flights()
    data = pd.read_csv(directory / "flights.csv.gz", keep_default_na=False)
    for name in ("sched_dep_time", "sched_arr_time"):
        data[name] = data[name] // 100 * 60 + data[name] % 100
    y = (data["arr_delay"] > 15).to_numpy()
    return Table(data[[*known.bounds, *known.categories]], y, dict(known.bounds), known.categories)


def housing(directory):
    """Return houses in California, and their value."""
    with np.load(directory / "california_housing.npz") as data:
        X, y, names = data["X"], data["y"], data["feature_names"].tolist()
    frame, bounds = pd.DataFrame(X.astype(float), columns=names), dict(HOUSING_BOUNDS)
    return Table(frame, y.astype(float), bounds, {}, (0.0, 500_001.0))


def california(directory):
    """Return houses, and whether their value is above 180,000 dollars."""
    table = housing(directory)
    return replace(table, y=table.y > 180_000, target_bounds=None)


TABLES = {f.__name__: f for f in (magic, california, housing, adult, flights)}


def _private(table, kind, epsilon, adjacency, **options):
    budget = {"epsilon": epsilon, "adjacency": adjacency}
    classifier, regressor = kind
    if table.target_bounds is None:
        return classifier(classes=[False, True], **budget, **options)
    return regressor(target_bounds=table.target_bounds, **budget, **options)


def ours(table, epsilon, adjacency):
    """Return our models by name."""
    linear = PrivateLogisticRegression, PrivateRidge
    gam, facts = (PrivateGAMClassifier, PrivateGAMRegressor), (epsilon, adjacency)
    public = {"bounds": table.bounds, "categories": table.categories}
    return {
        "linear": make_pipeline(
            table.columns(BoundsScaler(table.bounds)), _private(table, linear, *facts)
        ),
        "GAM": _private(table, gam, *facts, **public),
    }


def not_private(table):
    """Return scikit-learn's linear model on standardised columns."""
    linear = LogisticRegression(C=100, max_iter=3000)
    if table.target_bounds is not None:
        linear = Ridge(1e-3)
    columns = table.columns(BoundsScaler(table.bounds))
    return make_pipeline(columns, StandardScaler(), linear)


def _diffprivlib(table, epsilon, binary):
    """Return diffprivlib's model; None where it is not installed, or not beside scikit-learn."""
    try:
        from diffprivlib.models import LinearRegression, LogisticRegression as TheirLogistic
    except ImportError:
        return None
    n_columns = len(table.bounds) + sum(map(len, table.categories.values()))
    model = TheirLogistic(epsilon=epsilon, data_norm=np.sqrt(n_columns), max_iter=1000)
    if not binary:
        bounds = np.zeros(n_columns), np.ones(n_columns)
        model = LinearRegression(epsilon=epsilon, bounds_X=bounds, bounds_y=table.target_bounds)
    return make_pipeline(table.columns(BoundsScaler(table.bounds)), model)


def peers(table, epsilon):
    """Return the models of other packages that are installed, by name; add_remove."""
    found, delta = {}, 1 / len(table.y) ** 2
    binary = table.target_bounds is None
    if find_spec("interpret"):
        from interpret import privacy

        kind = "Classifier" if binary else "Regressor"
        options = {
            "epsilon": epsilon,
            "delta": delta,
            "feature_types": [
                "continuous" if name in table.bounds else "nominal" for name in table.X
            ],
            "privacy_bounds": {list(table.X).index(k): v for k, v in table.bounds.items()},
            "n_jobs": 1,
        }
        if not binary:
            low, high = table.target_bounds
            options |= {"privacy_target_min": low, "privacy_target_max": high}
        for rate in (0.01, 0.2):
            ebm = getattr(privacy, f"DPExplainableBoosting{kind}")
            found[f"DP-EBM {rate}"] = ebm(learning_rate=rate, **options)
    if (model := _diffprivlib(table, epsilon, binary)) is not None:
        found["diffprivlib"] = model
    if find_spec("opacus") and binary:
        network = _Network(epsilon, delta)
        found["Opacus"] = make_pipeline(table.columns(BoundsScaler(table.bounds)), network)
    return found


class _Network:
    """A network of one hidden layer, trained by DP-SGD."""

    def __init__(self, epsilon, delta, width=64, n_epochs=20, batch=512):
        self.epsilon, self.delta = epsilon, delta
        self.width, self.n_epochs, self.batch = width, n_epochs, batch

    def fit(self, X, y):
        """Train."""
        import torch
        from opacus import PrivacyEngine

        rows = torch.utils.data.TensorDataset(
            torch.tensor(X, dtype=torch.float32), torch.tensor(np.asarray(y), dtype=torch.long)
        )
        layers = torch.nn.Linear(X.shape[1], self.width), torch.nn.ReLU()
        model = torch.nn.Sequential(*layers, torch.nn.Linear(self.width, 2))
        model, optimizer, loader = PrivacyEngine().make_private_with_epsilon(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
            data_loader=torch.utils.data.DataLoader(rows, batch_size=self.batch),
            epochs=self.n_epochs,
            target_epsilon=self.epsilon,
            target_delta=self.delta,
            max_grad_norm=1.0,
        )
        for _ in range(self.n_epochs):
            for part, target in loader:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(part), target).backward()
                optimizer.step()
        self.model_ = model
        return self

    def predict(self, X):
        """Return labels."""
        import torch

        with torch.no_grad():
            return self.model_(torch.tensor(X, dtype=torch.float32)).argmax(1).numpy() > 0


def score(table, predicted):
    """Return the accuracy, or R^2."""
    if table.target_bounds is None:
        return float(np.mean(predicted == table.y))
    error = table.y - np.clip(predicted, *table.target_bounds)
    return float(1 - np.mean(error**2) / np.var(table.y))


def main(arguments=None):
    """Print the table: one line a data set, epsilon, relation and model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.1, 1.0])
    parser.add_argument("--adjacency", nargs="+", default=["add_remove", "replace_one"])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--models", nargs="+", default=None, help="names; default: all")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    for name in options.tables:
        table = TABLES[name](options.data)
        kept = np.sort(np.random.default_rng(12345).permutation(len(table.y))[:MOST_ROWS])
        print(f"{name}: {len(kept)} rows", flush=True)
        _print(table.taken(kept), options)


def _print(table, options):
    asked = [("", None, "not private", lambda part: not_private(part))]
    for epsilon in options.epsilon:
        for adjacency in options.adjacency:
            for model in ("linear", "GAM"):
                make = lambda part, e=epsilon, a=adjacency, m=model: ours(part, e, a)[m]  # noqa: E731
                asked.append((epsilon, adjacency, model, make))
        if options.peers:
            for model in peers(table, epsilon):
                make = lambda part, e=epsilon, m=model: peers(part, e)[m]  # noqa: E731
                asked.append((epsilon, "add_remove", model, make))
    for epsilon, adjacency, model, make in asked:
        if options.models is not None and model not in options.models:
            continue
        found = []
        for seed in range(options.splits):
            order = np.random.default_rng(seed).permutation(len(table.y))
            n_train = int(0.8 * len(order))
            train, test = table.taken(order[:n_train]), table.taken(order[n_train:])
            found.append(score(test, make(train).fit(train.X, train.y).predict(test.X)))
        error = np.std(found) / max(1, len(found) - 1) ** 0.5
        print(f"  {epsilon!s:>4} {adjacency or '':<12} {model:<14} {np.mean(found):.4f} "
              f"+- {error:.4f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
