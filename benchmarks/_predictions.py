"""Times of predictions, of a row and of tables, beside scikit-learn's."""

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, Ridge

import skdpdyn
from benchmarks._common import least_times
from skdpdyn.datasets import load_adult

TIMES = 100  # a row is predicted, in one measurement


def predictions(models, X, sizes, rounds):
    """Return milliseconds of predictions by model and number of rows."""
    found = {}
    for size in sizes:
        part = X[:size]
        times = TIMES if size == 1 else 1

        def run(model, part=part, times=times):
            for _ in range(times):
                model.predict(part)

        runs = {name: lambda model=model: run(model) for name, model in models.items()}
        for name, seconds in least_times(runs, rounds).items():
            found[name, size] = 1e3 * seconds / times
    return found


def additive(**options):
    """Return our additive model."""
    return skdpdyn.PrivateGAMClassifier(random_state=0, **options)


def in_onnx(model):
    """Return a fitted model in onnxruntime, on one thread; None without it."""
    try:
        import onnxruntime

        from skdpdyn.export.onnx import to_onnx

        graph = to_onnx(model)
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(graph.SerializeToString(), options)

    class Session:
        """Rows in single precision."""

        def predict(self, X):
            return session.run(None, {"X": X.astype(np.float32)})[0]

    return Session()


def with_interpret(models, X, y):
    """Add the additive model of InterpretML, where it is installed."""
    try:
        from interpret.privacy import DPExplainableBoostingClassifier
    except ImportError:
        print("SKIPPED DP-EBM: interpret-core is not installed")
        return
    models["DP-EBM"] = DPExplainableBoostingClassifier(n_jobs=1).fit(X, y)


def predict(asked):
    """Print milliseconds of predictions, and their ratios to the first peer's."""
    rng = np.random.default_rng(0)
    rounds = 2 if asked.quick else 5
    n_rows = 100_000
    X = rng.uniform(-1, 1, (n_rows, 10))
    y = X @ rng.standard_normal(10) * 3 + rng.logistic(size=n_rows) > 0
    known = {"classes": [False, True], "bounds": (-1, 1)}
    few = slice(0, 20_000)
    models = {
        "boosting": HistGradientBoostingClassifier().fit(X[few], y[few]),
        "additive, 55 terms": additive(**known).fit(X[few], y[few]),
        "additive, 10 terms": additive(interactions=None, **known).fit(X[few], y[few]),
    }
    with_interpret(models, X[few], y[few])
    for name in ("additive, 55 terms", "additive, 10 terms"):
        models |= {} if (of := in_onnx(models[name])) is None else {f"{name}, ONNX": of}
    table(models, X, (1, 10_000, n_rows), rounds, "boosting")
    wide = rng.uniform(-1, 1, (2000, 200))
    models = {"additive, 200 columns": additive(**known).fit(wide, wide[:, 0] > 0)}
    table(models, wide, (1, 2000), rounds, None)
    adult = load_adult()
    models = {"additive, Adult": additive().fit(adult.data, adult.target == ">50K")}
    table(models, adult.data, (1, len(adult.data)), rounds, None)
    X = rng.uniform(-1, 1, (100_000 if asked.quick else 1_000_000, 20))
    y = X @ rng.standard_normal(20) + rng.logistic(size=len(X)) > 0
    three = np.digitize(X[:, 0], [-0.5, 0.5])
    sizes = 1, 100_000, len(X)
    known = {"classes": [False, True]}
    pairs = {
        "logistic": (skdpdyn.PrivateLogisticRegression(**known), LogisticRegression(), y),
        "ridge": (skdpdyn.PrivateRidge(target_bounds=(-1, 1)), Ridge(), X[:, 0]),
        "softmax": (
            skdpdyn.PrivateSoftmaxRegression(classes=[0, 1, 2]),
            LogisticRegression(),
            three,
        ),
    }
    for name, (ours, theirs, targets) in pairs.items():
        models = {f"{name}, scikit-learn": theirs.fit(X[few], targets[few])}
        models[name] = ours.fit(X[few], targets[few])
        table(models, X, tuple(dict.fromkeys(sizes)), rounds, f"{name}, scikit-learn")


def table(models, X, sizes, rounds, peer):
    """Print milliseconds for each number of rows, and ratios to a peer."""
    print(f"{'ms':<26}" + "".join(f"{f'{size:,} rows':>22}" for size in sizes))
    found = predictions(models, X, sizes, rounds)
    for name in models:
        line = f"{name:<26}"
        for size in sizes:
            ratio = f" ({found[name, size] / found[peer, size]:.2f})" if peer else ""
            line += f"{f'{found[name, size]:.3f}{ratio}':>22}"
        print(line, flush=True)
