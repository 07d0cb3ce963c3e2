"""What benchmarks share: tables and what is public of them, rows, splits, scores and clocks.

A module of other environments reads tables with it too, so that it imports NumPy and pandas alone.
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
MOST_ROWS = 50_000  # of a table of the arena
_HOUSES = "longitude latitude housingMedianAge totalRooms totalBedrooms population households"
_LIMITS = [(-125, -114), (32, 42), (0, 52), (0, 40_000), (0, 7_000), (0, 40_000), (0, 7_000)]
HOUSING = dict(zip([*_HOUSES.split(), "medianIncome"], [*_LIMITS, (0, 15)], strict=True))
_SHOWERS = "fLength fWidth fSize fConc fConc1 fAsym fM3Long fM3Trans fAlpha fDist"
_LIMITS = [(0, 400), (0, 300), (1, 6), (0, 1), (0, 1), (-500, 600), (-400, 300), (-300, 300)]
MAGIC = dict(zip(_SHOWERS.split(), [*_LIMITS, (0, 90), (0, 500)], strict=True))
CHURN = {"tenure": (0, 72), "MonthlyCharges": (0, 150), "TotalCharges": (0, 10_000)}
ABALONE = dict.fromkeys(("length", "diameter", "height"), (0, 1))
ABALONE |= dict.fromkeys(("whole", "shucked", "viscera", "shell"), (0, 3))
BIKE = dict.fromkeys(("temp", "atemp", "hum", "windspeed", "yr", "holiday", "workingday"), (0, 1))
BIKE |= {"hr": (0, 23), "mnth": (1, 12), "weekday": (0, 6), "weathersit": (1, 4)}
KCHOUSE = {
    "bedrooms": (0, 20),
    "bathrooms": (0, 10),
    "sqft_living": (0, 15_000),
    "sqft_lot": (0, 2_000_000),
    "floors": (1, 4),
    "waterfront": (0, 1),
    "view": (0, 4),
    "condition": (1, 5),
    "grade": (1, 13),
    "sqft_above": (0, 10_000),
    "sqft_basement": (0, 5000),
    "yr_built": (1900, 2015),
    "yr_renovated": (0, 2015),
    "zipcode": (98_000, 98_200),
    "lat": (47, 48),
    "long": (-123, -121),
    "sqft_living15": (0, 10_000),
    "sqft_lot15": (0, 1_000_000),
}
DIAMONDS = {"carat": (0, 6), "depth": (40, 80), "table": (40, 100)}
DIAMONDS |= {"x": (0, 12), "y": (0, 60), "z": (0, 32)}
DIAMOND_LEVELS = {
    "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
    "color": list("DEFGHIJ"),
    "clarity": ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"],
}


@dataclass(frozen=True)
class Table:
    """A table as it comes, its target, and what is public of both."""

    name: str
    X: pd.DataFrame
    y: np.ndarray  # of two classes: 0 and 1
    bounds: dict
    categories: dict
    target_bounds: tuple | None = None  # of two classes: None

    def taken(self, index):
        """Return some rows."""
        return replace(self, X=self.X.iloc[index].reset_index(drop=True), y=self.y[index])

    def numbers(self, X):
        """Return columns of numbers scaled to [0, 1], and a column of ones for each level."""
        low, high = np.array(list(self.bounds.values()), float).reshape(-1, 2).T
        columns = [np.clip((X[list(self.bounds)].to_numpy(float) - low) / (high - low), 0, 1)]
        for name, levels in self.categories.items():
            columns.append(X[name].astype(str).to_numpy()[:, None] == np.array(levels, str))
        return np.hstack(columns).astype(float)

    def unit_rows(self):
        """Return such rows at norm 1."""
        rows = self.numbers(self.X)
        return rows / np.maximum(np.linalg.norm(rows, axis=1), 1e-12)[:, None]

    def write(self, folder):
        """Write the table and its schema into a folder."""
        schema = {"bounds": self.bounds, "categories": self.categories}
        if self.target_bounds is None:
            schema["classes"] = [0, 1]
        else:
            schema["target_bounds"] = self.target_bounds
        (folder / f"{self.name}.schema.json").write_text(json.dumps(schema, default=str))
        self.X.assign(**{"the target": self.y}).to_csv(folder / f"{self.name}.csv", index=False)


def schema_of(path):
    """Return the file of the schema of a table's file; None where it has none."""
    names = f"{path.name.partition('.csv')[0]}.schema.json", "schema.json"
    return next(filter(Path.exists, map(path.with_name, names)), None)


def read_table(path):
    """Return the table of a CSV file whose schema lies beside it.

    The schema is ``NAME.schema.json``, or ``schema.json`` for all tables of a folder. The target is
    the last column that it does not name; other columns that it does not name are left out.
    """
    name = path.name.partition(".csv")[0]
    found = schema_of(path)
    schema = json.loads(found.read_text())
    facts = (schema.get(name) or {} for name in ("bounds", "categories"))
    # as Schema.to_json writes them, or as one writes them by hand
    facts = (dict(one["pairs"]) if list(one) == ["pairs"] else one for one in facts)
    bounds = next(facts)
    categories = next(facts)
    as_text = dict.fromkeys(categories, str)
    frame = pd.read_csv(path, dtype=as_text, keep_default_na=False, na_values=dict.fromkeys(bounds))
    others = [column for column in frame if column not in bounds and column not in categories]
    if not others:
        raise ValueError(f"{found} names every column of {path}: it leaves none for the target")
    y = frame[others[-1]]
    given = schema.get("target_bounds")
    if given is None:
        first, second = schema["classes"]
        if not y.astype(str).isin([str(first), str(second)]).all():
            raise ValueError(f"column {others[-1]!r} of {path} has values outside of its classes")
        y = (y.astype(str) == str(second)).astype(int)
    target_bounds = None if given is None else tuple(map(float, given))
    y = y.to_numpy(int if given is None else float)
    return _table(name, frame, y, bounds, categories, target_bounds)


def _table(name, frame, y, bounds, categories, target_bounds=None):
    """Return a table of at most 50,000 rows."""
    table = Table(name, frame, np.asarray(y), dict(bounds), dict(categories), target_bounds)
    table = replace(table, X=frame[[*table.bounds, *table.categories]])
    chosen = np.random.default_rng(12345).permutation(len(y))[:MOST_ROWS]
    return table if len(y) <= MOST_ROWS else table.taken(np.sort(chosen))


def adult(directory=None):
    """Return Adult, complete records, and whether income is above 50,000 dollars."""
    from skdpdyn.datasets import load_adult

    data = load_adult()
    y = (data.target == ">50K").to_numpy(int)
    return _table("adult", data.data, y, data.bounds, data.categories)


def flights(directory=None):
    """Return the sample of flights that the package has, and whether one is 15 minutes late."""
    from skdpdyn.datasets import load_flights

    data = load_flights()
    return _table("flights", data.data, data.target.to_numpy(int), data.bounds, data.categories)


def all_flights(directory):
    """Return all flights of the year, where their file is, and the sample elsewhere."""
    known = flights()
    path = directory / "flights.csv.gz"
    if not path.exists():
        return known
    frame = pd.read_csv(path, keep_default_na=False)
    for name in ("sched_dep_time", "sched_arr_time"):
        frame[name] = frame[name] // 100 * 60 + frame[name] % 100
    y = (frame["arr_delay"] > 15).to_numpy(int)
    return replace(known, X=frame[list(known.X)], y=y)


def magic(directory):
    """Return MAGIC, gamma or hadron."""
    with np.load(directory / "magic_telescope.npz") as data:
        frame = pd.DataFrame(data["X"].astype(float), columns=list(MAGIC))
        y = data["y"].astype(int)
    return _table("magic", frame, y, MAGIC, {})


def housing(directory):
    """Return houses in California, and their value."""
    with np.load(directory / "california_housing.npz") as data:
        X = data["X"]
        y = data["y"]
        names = data["feature_names"].tolist()
    frame = pd.DataFrame(X.astype(float), columns=names)
    return _table("housing", frame, y.astype(float), HOUSING, {}, (0.0, 500_001.0))


def california(directory):
    """Return houses in California, and whether their value is above 180,000 dollars."""
    table = housing(directory)
    y = (table.y > 180_000).astype(int)
    return replace(table, name="california", y=y, target_bounds=None)


def swedish(directory):
    """Return classes of cars in Sweden in 1977, and the logarithm of their claims."""
    with np.load(directory / "swedish_motor_insurance.npz") as data:
        X = data["X"].astype(float)
        y = data["y"].astype(float)
        names = data["feature_names"]
    frame = pd.DataFrame(X, columns=names.astype(str))
    insured = next(name for name in frame if name.lower().startswith("insured"))
    numbers = np.log1p(frame.pop(insured))
    frame = frame.astype(int).astype(str)
    levels = {name: sorted(frame[name].unique(), key=int) for name in frame}
    frame = frame.assign(loginsured=numbers)
    return _table("swedish", frame, np.log1p(y), {"loginsured": (0, 12)}, levels, (0.0, 9.0))


def telco(directory):
    """Return customers of a telephone company, and whether they leave."""
    frame = pd.read_csv(directory / "telco_churn.csv.gz", keep_default_na=False)
    y = (frame.pop("Churn") == "Yes").to_numpy(int)
    frame["TotalCharges"] = pd.to_numeric(frame["TotalCharges"], errors="coerce").fillna(0)
    frame = frame.drop(columns="customerID", errors="ignore").astype(dict.fromkeys(CHURN, float))
    levels = {  # the form's options
        name: sorted(map(str, frame[name].unique())) for name in frame if name not in CHURN
    }
    return _table("telco", frame.astype(dict.fromkeys(levels, str)), y, CHURN, levels)


def phoneme(directory):
    """Return spoken vowels, nasal or oral."""
    frame = pd.read_csv(directory / "phoneme.csv.gz")
    y = frame.pop("y").to_numpy(int)
    return _table("phoneme", frame, y, dict.fromkeys(frame, (-2, 5)), {})


def abalone(directory):
    """Return sea snails, and the number of their rings."""
    frame = pd.read_csv(directory / "abalone.csv.gz")
    y = frame.pop("rings").to_numpy(float)
    return _table("abalone", frame, y, ABALONE, {"sex": ["F", "I", "M"]}, (1.0, 30.0))


def letter(directory):
    """Return printed letters as 16 numbers, and whether they are of the first half."""
    with np.load(directory / "letter.npz") as data:
        X = data["X"].astype(float)
        y = np.unique(data["y"], return_inverse=True)[1] < 13
    frame = pd.DataFrame(X, columns=[f"x{column}" for column in range(X.shape[1])])
    return _table("letter", frame, y.astype(int), dict.fromkeys(frame, (0, 15)), {})


def bike(directory):
    """Return hours, and how many bicycles were rented."""
    frame = pd.read_csv(directory / "bike_sharing_hour.csv.gz")
    return _table("bike", frame, frame["cnt"].to_numpy(float), BIKE, {}, (0.0, 1000.0))


def kchouse(directory):
    """Return houses in King County, and their prices."""
    frame = pd.read_csv(directory / "kc_house.csv.gz").dropna()
    return _table("kchouse", frame, frame["price"].to_numpy(float), KCHOUSE, {}, (0.0, 3e6))


def diamonds(directory):
    """Return diamonds, and their prices."""
    frame = pd.read_csv(directory / "diamonds.csv.gz")
    y = frame["price"].to_numpy(float)
    return _table("diamonds", frame, y, DIAMONDS, DIAMOND_LEVELS, (0.0, 20_000.0))


TABLES = {
    one.__name__: one
    for one in (
        adult,
        flights,
        magic,
        california,
        housing,
        swedish,
        telco,
        phoneme,
        abalone,
        letter,
        bike,
        kchouse,
        diamonds,
    )
}
"""Tables of the arena: the first two are in the package."""


@dataclass(frozen=True)
class Problem:
    """Unit rows, labels or targets, and our model of them."""

    X: np.ndarray
    y: np.ndarray
    private: object  # a function of parameters


def problem(name, directory):
    """Return unit rows of a table, or of pen digits, MNIST or newsgroups."""
    from scipy import sparse

    import skdpdyn

    softmax = partial(skdpdyn.PrivateSoftmaxRegression, classes=range(10))
    binary = partial(skdpdyn.PrivateLogisticRegression, classes=[False, True])
    if name == "pendigits":
        with np.load(directory / "pendigits.npz") as data:
            X = data["X"] / 100.0
            y = data["y"].astype(int)
        return Problem(X / np.linalg.norm(X, axis=1, keepdims=True), y, softmax)
    if name == "mnist":
        with np.load(directory / "mnist.npz") as data:
            X = np.concatenate([data["X_train"], data["X_test"]]).reshape(-1, 784)
            y = np.concatenate([data["y_train"], data["y_test"]]).astype(int)
        X = X.astype(np.float32)
        return Problem(X / np.linalg.norm(X, axis=1, keepdims=True), y, softmax)
    if name == "newsgroups":
        path = directory / "newsgroups20_counts.npz"
        X = sparse.csr_array(sparse.load_npz(path)).astype(np.float64).log1p()
        norms = np.sqrt(X.multiply(X).sum(axis=1))
        X = sparse.csr_array(X.multiply(1 / np.maximum(norms, 1e-12)[:, None]))
        return Problem(X, np.load(path)["y"] > 0, binary)
    table = all_flights(directory) if name == "all_flights" else TABLES[name](directory)
    return Problem(table.unit_rows(), table.y == 1, binary)


def loaded(names, load):
    """Yield (name, what ``load`` returns of it), and say aloud what has no file."""
    for name in names:
        try:
            found = load(name)
        except FileNotFoundError as error:
            print(f"SKIPPED {name}: no file {error.filename}; say where it is by --data")
            continue
        yield name, found


def splits(n_samples, n_splits):
    """Return pairs of the rows to train and to test on: four fifths, and the rest."""
    orders = (np.random.default_rng(seed).permutation(n_samples) for seed in range(n_splits))
    n_train = int(0.8 * n_samples)
    return [(order[:n_train], order[n_train:]) for order in orders]


def mean_and_error(values):
    """Return a mean and its standard error, nan of a single value."""
    values = np.asarray(values, float)
    error = np.std(values, ddof=1) / np.sqrt(values.size) if values.size > 1 else np.nan
    return np.mean(values), error


def log_loss(model, X, y):
    """Return the mean log loss of a classifier."""
    logs = model.predict_log_proba(X)
    return -np.mean(logs[np.arange(len(y)), np.searchsorted(model.classes_, y)])


def scores(table, predicted):
    """Return the scores of probabilities of the second class, or of predicted targets, by name.

    ECE has ten bins of as many predictions each; R2 is of predictions within the target's bounds.
    """
    y = table.y
    if table.target_bounds is not None:
        error = y - np.clip(predicted, *table.target_bounds)
        return {"r2": float(1 - np.mean(error**2) / np.var(y))}
    p = np.clip(np.asarray(predicted, float), 1e-6, 1 - 1e-6)
    ranks = pd.Series(p).rank().to_numpy()
    n_second = y.sum()
    below = ranks[y == 1].sum() - n_second * (n_second + 1) / 2
    bins = np.array_split(np.argsort(p, kind="stable"), 10)
    return {
        "accuracy": float(np.mean((p > 0.5) == y)),
        "auc": float(below / (n_second * (len(y) - n_second))),
        "log_loss": float(-np.mean(np.where(y == 1, np.log(p), np.log1p(-p)))),
        "ece": float(sum(abs(np.sum(p[one] - y[one])) for one in bins) / len(y)),
        "ratio": float(p.mean() / y.mean()),
    }


def least_times(runs, rounds, clock=time.process_time):
    """Return the least time of each run by name: they take turns, after one that compiles."""
    times = {name: [] for name in runs}
    for turn in range(rounds + 1):
        for name, run in runs.items():
            start = clock()
            run()
            if turn:
                times[name].append(clock() - start)
    return {name: min(own) for name, own in times.items()}


def parser(text, parts=()):
    """Return a parser of the options that every command has, and of its parts."""
    formatter = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser(description=text, formatter_class=formatter)
    made.add_argument("--data", type=Path, default=DATA, help="folder of other tables")
    made.add_argument("--quick", action="store_true", help="a small part, in under three minutes")
    if parts:
        made.add_argument("parts", nargs="*", metavar="PART", help=f"default: {', '.join(parts)}")
    return made


def run_parts(parts, asked):
    """Run the parts that are asked for, or all."""
    for name in asked.parts or parts:
        if name not in parts:
            sys.exit(f"there is no part {name!r}; parts are {', '.join(parts)}")
        print(f"\n== {name}", flush=True)
        parts[name](asked)
