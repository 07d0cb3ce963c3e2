"""Private scores: what one record moves, what intervals hold, and what a score costs."""

import math
from fractions import Fraction

import matplotlib as mpl
import numpy as np
import pytest
from scipy import special
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, QuantileRegressor
from sklearn.metrics import (
    accuracy_score,
    brier_score_loss,
    confusion_matrix,
    log_loss,
    mean_absolute_error,
    mean_pinball_loss,
    mean_squared_error,
    precision_score,
    r2_score,
    recall_score,
    roc_auc_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from skdpdyn import (
    PrivateGAMRegressor,
    PrivateLogisticRegression,
    PrivateQuantileRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.core import noise
from skdpdyn.evaluation import PrivateRocCurveDisplay, counts, evaluate
from skdpdyn.evaluation.bins import Bins
from skdpdyn.evaluation.estimates import Covariance, Estimate, NoisyNumbers
from skdpdyn.model_selection import total_privacy
from skdpdyn.preprocessing import BoundsScaler
from skdpdyn.privacy import GaussianDP, Ledger, check_report, composition

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (600, 2))
RAW = 2 * X[:, 0] + X[:, 1] + RNG.logistic(size=600)
TWO = RAW > 0
THREE = np.digitize(RAW, [-1.0, 1.0])
OF_OTHERS = {"epsilon": 20.0, "delta": 1e-3, "conditioning": None, "data_norm": 10.0}


def ours(model, X, y):
    """Return a model of this package, which answers row by row, with the coefficients of another.

    It is of at most three classes, or a regression.
    """
    kind = PrivateRidge
    public = {"target_bounds": (-1.0, 1.0)}
    if hasattr(model, "classes_"):
        kind = (PrivateLogisticRegression, PrivateSoftmaxRegression)[len(model.classes_) > 2]
        public = {"classes": model.classes_}
    same = kind(**public, **OF_OTHERS).fit(X, y)
    same.coef_ = model.fit(X, y).coef_
    same.intercept_ = model.intercept_
    return same


def classifier(X, y):
    """Return a model of two or three classes."""
    return ours(LogisticRegression().fit(X, y), X, y)


def line(X, y):
    """Return a regression without limits of its own."""
    regression = ours(LinearRegression(), X, y)
    del regression.target_bounds_
    return regression


def line_of_quantile(quantile=0.9, shift=0.0):
    """Return a model of a quantile with the coefficients of scikit-learn's, and a shift."""
    same = PrivateQuantileRegressor(quantile=quantile, target_bounds=(-4.0, 4.0), **OF_OTHERS)
    same.fit(X, RAW)
    known = QuantileRegressor(quantile=quantile, alpha=0).fit(X, RAW)
    same.coef_ = known.coef_
    same.intercept_ = known.intercept_ + shift
    return same


MODELS = {
    "two": (classifier(X, TWO), TWO),
    "three": (classifier(X, THREE), THREE),
    "regression": (line(X, RAW), RAW),
    "quantile": (line_of_quantile(), RAW),
}
BOUNDS = {"two": {"thresholds": np.arange(1, 32) / 32}, "three": {}}
BOUNDS["regression"] = BOUNDS["quantile"] = {"target_bounds": (-4.0, 4.0)}
KINDS = [*((name, 30) for name in MODELS), ("three", 2)]  # and most classes whose pairs count


def record(monkeypatch):
    """Release without noise, and remember points and scales."""
    calls = []

    def release(point, scale, generator, **options):
        calls.append((np.array(point, dtype=float), scale))
        return calls[-1][0]

    monkeypatch.setattr(noise, "release", release)
    return calls


def replayed(monkeypatch):
    """Remember points and scales; answer as the first time, since later releases follow answers."""
    calls = []
    answers = []

    def release(point, scale, generator, **options):
        calls.append((np.array(point, dtype=float), scale))
        answers.extend([calls[-1][0]] * (len(calls) > len(answers)))
        return answers[len(calls) - 1]

    monkeypatch.setattr(noise, "release", release)
    return calls


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize(("name", "most_confused"), KINDS)
def test_a_person_moves_a_score_as_one_row_does(name, most_confused, adjacency, monkeypatch):
    """A person with 1 to 99 rows, all alike or not; rows that everyone repeats change nothing."""
    model, y = MODELS[name]
    monkeypatch.setattr(counts, "MOST_CONFUSED", most_confused)
    calls = replayed(monkeypatch)
    options = {"epsilon": 1.0, "delta": 1e-6, **BOUNDS[name]}
    owners = np.append(np.arange(300), np.arange(300))
    rng = np.random.default_rng(1)

    def points(*of):
        calls.clear()
        rows = [(X[owners > 0], y[owners > 0], owners[owners > 0]), *of]
        A, b, ids = (np.concatenate(parts) for parts in zip(*rows, strict=True))
        found = evaluate(model, A, b, groups=ids, adjacency=adjacency, **options)
        assert (found.n_samples, found.privacy_unit_) == (300, "person")
        return [(point.copy(), scale) for point, scale in calls], found

    moved = []
    for _ in range(20):
        persons = []
        for n_rows in rng.integers(1, 100, 2):
            n_rows = max(1, n_rows * int(rng.integers(2)))
            rows = np.sign(rng.uniform(-1, 1, (n_rows, 2))) * 50
            persons.append((rows, rng.choice(y, n_rows), np.zeros(n_rows, dtype=int)))
        (one, found), (other, _) = map(points, persons)
        pairs = zip(one, other, strict=True)
        moved.append([math.dist(a.ravel(), b.ravel()) / scale for (a, scale), (b, _) in pairs])
    factor = 1 if adjacency == "replace_one" else 2  # a person leaves, and another one comes
    most = np.max(moved, axis=0)
    allowed = np.array([1 / ran.noise_multiplier for ran in found.mechanism_.mechanisms])
    # all of a record's squares are largest where an error is, and both persons are far off
    bars = np.array([0.3 if part == "squares" else 0.5 for part in found.mechanism_.names])
    assert np.all((bars * allowed <= most) & (most <= factor * allowed * (1 + 1e-9)))


def test_two_classes_without_noise(monkeypatch):
    """Metrics at thresholds are scikit-learn's; all bins between them are joined for the others."""
    record(monkeypatch)
    model, y = MODELS["two"]
    edges = np.arange(1, 16) / 16
    found = evaluate(model, X, y, epsilon=1.0, thresholds=edges)
    probability = model.predict_proba(X)[:, 1]
    rounded = np.searchsorted(found.edges, probability)
    assert set(edges) < set(found.edges)
    assert found.thresholds is edges
    assert found.accuracy.value == pytest.approx(accuracy_score(y, model.predict(X)))
    assert found.roc_auc.value == pytest.approx(roc_auc_score(y, rounded))
    assert found.log_loss.value == pytest.approx(log_loss(y, probability), abs=1e-3)
    assert found.brier_score.value == pytest.approx(brier_score_loss(y, probability), abs=1e-3)
    assert found.prevalence.value == pytest.approx(y.mean())
    for threshold in (0.25, 0.5, 0.75):
        predicted = probability > threshold
        assert found.recall(threshold).value == pytest.approx(recall_score(y, predicted))
        assert found.precision(threshold).value == pytest.approx(precision_score(y, predicted))
        assert found.accuracy_at(threshold).value == pytest.approx(accuracy_score(y, predicted))
        fpr = found.false_positive_rate(threshold).value
        assert fpr == pytest.approx(np.mean(predicted[~y]))
    fpr, tpr, thresholds = found.roc_curve()
    assert np.trapezoid(tpr, fpr) == pytest.approx(found.roc_auc.value)
    assert (tpr[0], tpr[-1], thresholds[0], thresholds[-1]) == (0, 1, 1, 0)
    predicted, observed = found.calibration_curve(4)
    first = probability <= 0.25
    assert predicted[0] == pytest.approx(probability[first].mean(), abs=2e-3)
    assert observed[0].value == pytest.approx(y[first].mean())


def test_more_classes_and_regressions_without_noise(monkeypatch):
    record(monkeypatch)
    model, y = MODELS["three"]
    found = evaluate(model, X, y, epsilon=1.0)
    predicted = model.predict(X)
    np.testing.assert_array_equal(found.confusion_matrix.round(6), confusion_matrix(y, predicted))
    assert found.accuracy.value == pytest.approx(accuracy_score(y, predicted))
    assert found.recall(1).value == pytest.approx(recall_score(y == 1, predicted == 1))
    assert found.precision(2).value == pytest.approx(precision_score(y == 2, predicted == 2))
    probability = np.maximum(model.predict_proba(X), math.exp(-3 * math.log(3)))
    assert found.log_loss.value == pytest.approx(-np.log(probability[np.arange(600), y]).mean())
    probability = model.predict_proba(X)
    squares = np.sum((probability - np.eye(3)[y]) ** 2, axis=1)
    assert found.brier_score.value == pytest.approx(squares.mean())
    assert list(found.metrics())[1:4] == ["log loss", "Brier score", "recall of 0"]
    with pytest.raises(ValueError, match="label=5 must be one of"):
        found.recall(5)
    assert evaluate(LinearSVC().fit(X, y), X, y, epsilon=1.0).log_loss is None

    model, y = MODELS["regression"]
    clipped = np.clip(y, -4, 4)
    predicted = np.clip(model.predict(X), -4, 4)
    found = evaluate(model, X, y, epsilon=1.0, target_bounds=(-4, 4))
    assert found.r2.value == pytest.approx(r2_score(clipped, predicted))
    assert found.mean_squared_error.value == pytest.approx(mean_squared_error(clipped, predicted))
    assert found.mean_absolute_error.value == pytest.approx(mean_absolute_error(clipped, predicted))
    cut = evaluate(model, X, y, epsilon=1.0, target_bounds=(-4, 4), largest_error=0.5)
    errors = np.minimum(np.abs(clipped - predicted), 0.5)
    assert cut.mean_absolute_error.value == pytest.approx(errors.mean())
    ridge = PrivateRidge(target_bounds=(-4, 4), conditioning=None).fit(X, y)
    assert evaluate(ridge, X, y, epsilon=1.0).target_bounds == (-4.0, 4.0)


@pytest.mark.parametrize("grouped", [False, True], ids=["records", "persons"])
def test_bounds_that_nobody_knows_are_bought(grouped):
    """Nearly all targets are within them, and the metrics are those within the bounds shown."""
    model, y = MODELS["regression"]
    rows = np.tile(X, (20, 1))
    targets = np.tile(y, 20)
    given = {"groups": np.arange(12_000) // 2} if grouped else {}
    options = {"epsilon": 30.0, "random_state": 0, **given}
    found = evaluate(model, rows, targets, **options)
    assert "range of targets" in found.mechanism_.names
    assert found.privacy_ == composition(found.mechanism_).with_unit(found.privacy_unit_)
    assert 30 * (1 - 1e-6) < found.epsilon_ <= 30
    low, high = found.target_bounds
    assert np.mean((targets >= low) & (targets <= high)) > 0.98
    known = evaluate(model, rows, targets, target_bounds=(low, high), **options)
    assert max(found.largest_error, known.largest_error) < high - low
    for one, other in zip(found.metrics().values(), known.metrics().values(), strict=True):
        assert abs(one.value - other.value) < one.high - one.low + other.high - other.low
    cut = evaluate(model, rows, targets, largest_error=0.5, **options)
    assert (cut.target_bounds, cut.largest_error) == (found.target_bounds, 0.5)
    far = evaluate(model, rows, targets, largest_error=1e9, **options)
    assert far.largest_error == high - low


@pytest.mark.parametrize(("name", "most_confused"), KINDS)
def test_intervals_hold_what_they_are_of(name, most_confused, monkeypatch):
    """Of 80 intervals of 95 % less than 60 hold the metric with probability 2e-9 at the most."""
    model, y = MODELS[name]
    monkeypatch.setattr(counts, "MOST_CONFUSED", most_confused)
    A = np.tile(X, (5, 1))
    b = np.tile(y, 5)
    with monkeypatch.context() as patch:
        record(patch)
        exact = evaluate(model, A, b, epsilon=1.0, **BOUNDS[name]).metrics()
    held = dict.fromkeys(exact, 0)
    for _ in range(80):
        for metric, one in evaluate(model, A, b, epsilon=1.0, **BOUNDS[name]).metrics().items():
            held[metric] += one.low <= exact[metric].value <= one.high
    assert min(held.values()) >= 60


def test_many_classes_have_the_metrics_of_few_with_less_noise(monkeypatch):
    """Counts of right and wrong records alone: the same values, and no interval is wider."""
    model, y = MODELS["three"]
    record(monkeypatch)
    y = np.where(np.arange(600) < 5, 9, y)
    pairs = evaluate(model, X, y, epsilon=1.0)
    monkeypatch.setattr(counts, "MOST_CONFUSED", 2)
    sums = evaluate(model, X, y, epsilon=1.0)
    assert sums.confusion_matrix is None
    assert "no pairs of labels" in repr(sums)
    of_both = zip(
        [*pairs.metrics().values(), *pairs.population.metrics().values()],
        [*sums.metrics().values(), *sums.population.metrics().values()],
        strict=True,
    )
    for one, other in of_both:
        assert other.value == pytest.approx(one.value, abs=1e-12)
        assert other.high - other.low <= (one.high - one.low) * (1 + 1e-9)


@pytest.mark.parametrize("prevalence", [0.01, 0.3])
def test_bins_of_equal_numbers_and_intervals_for_the_population(prevalence):
    """Of 40 intervals of 95 % less than 27 hold the area with probability 1e-7 at the most."""
    rng = np.random.default_rng(0)
    held = np.zeros(2)
    off = []
    model = classifier(rng.normal(size=(600, 1)), TWO)
    model.coef_[:] = 1.2
    model.intercept_[:] = {0.01: -5.2, 0.3: -1.1}[prevalence]
    drawn = rng.normal(size=(500_000, 1))
    population = roc_auc_score(rng.uniform(size=500_000) < model.predict_proba(drawn)[:, 1], drawn)
    for _ in range(40):
        rows = rng.normal(size=(20_000, 1))
        y = rng.uniform(size=20_000) < model.predict_proba(rows)[:, 1]
        found = evaluate(model, rows, y, epsilon=2.0)
        sizes = np.bincount(np.searchsorted(found.thresholds, model.predict_proba(rows)[:, 1]))
        assert sizes.max() < 2.5 * 20_000 / found.thresholds.size
        truth = roc_auc_score(y, rows)
        off.append(found.roc_auc.value - truth)
        areas = (found.roc_auc, truth), (found.population.roc_auc, population)
        for k, (one, of) in enumerate(areas):
            held[k] += one.low <= of <= one.high
    assert min(held) >= 27
    assert abs(np.mean(off)) < 5 * max(np.std(off) / 40**0.5, 0.0002)
    assert found.population.population is None
    assert "population" in repr(found)


def test_intervals_of_numbers_for_the_population():
    """Of 40 intervals of 95 % less than 27 hold the number with probability 1e-7.

    Those for noise alone are too narrow for the population.
    """
    model = line(np.array([[-1.0], [1.0]]), np.array([-1.0, 1.0]))
    truth = {"R^2": 0.5, "mean absolute error": math.sqrt(2 / math.pi), "mean squared error": 1.0}
    held = {name: np.zeros(2) for name in truth}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(2000, 1))
        y = rows[:, 0] + rng.normal(size=2000)
        found = evaluate(model, rows, y, epsilon=100.0, target_bounds=(-99, 99), random_state=seed)
        for name, value in truth.items():
            for k, of in enumerate((found, found.population)):
                one = of.metrics()[name]
                held[name][k] += one.low <= value <= one.high
    assert all(of_sample >= 27 > of_noise for of_noise, of_sample in held.values())
    assert found.population.population is None


@pytest.mark.parametrize("skewed", [False, True])
def test_limits_follow_the_errors(skewed):
    """Of 40 intervals of 95 % less than 27 hold the number with probability 1e-7.

    Bounds of targets a hundred times too wide made R^2 nothing but noise.
    """
    model = line(np.array([[-1.0], [1.0]]), np.array([-1.0, 1.0]))
    widths = []
    held = np.zeros(2)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(5000, 1))
        y = rows[:, 0] + (rng.exponential(1, 5000) - 1 if skewed else rng.normal(size=5000))
        found = evaluate(model, rows, y, epsilon=2.0, target_bounds=(-100, 300), random_state=seed)
        errors = np.minimum(np.abs(y - model.predict(rows)), found.largest_error)
        known = errors.mean(), 1 - np.mean(errors**2) / y.var()
        for k, (one, of) in enumerate(
            zip((found.mean_absolute_error, found.r2), known, strict=True)
        ):
            held[k] += one.low <= of <= one.high
        widths.append(found.r2.high - found.r2.low)
    assert min(held) >= 27
    assert np.median(widths) < 0.3


@pytest.mark.parametrize("name", MODELS)
def test_differences_of_two_models(name):
    """Of 60 intervals of 95 % less than 43 hold the difference with probability 1e-9.

    It is narrower than that of either model alone: both err on the same records.
    """
    model, y = MODELS[name]
    if name == "quantile":
        other = line_of_quantile(shift=0.3)
    elif name == "regression":
        other = ours(LinearRegression(), X, y)
    else:
        other = ours(LogisticRegression(C=0.05).fit(X, y), X, y)
    bounds = BOUNDS[name] if len(np.unique(y)) > 3 else {}
    with pytest.MonkeyPatch.context() as patch:
        record(patch)
        truth = evaluate(model, X, y, epsilon=1.0, against=other, **bounds).metrics()
        turned = evaluate(other, X, y, epsilon=1.0, against=model, **bounds).metrics()
    for loss, of in truth.items():
        assert turned[loss].value == pytest.approx(-of.value, abs=1e-9)
    held = dict.fromkeys(truth, 0)
    for seed in range(60):
        drawn = np.random.default_rng(seed).integers(0, 600, 3000)
        options = {"epsilon": 3.0, "random_state": seed, **bounds}
        found = evaluate(model, X[drawn], y[drawn], against=other, **options)
        for loss, of in truth.items():
            one = found.population.metrics()[loss]
            held[loss] += one.low <= of.value <= one.high
    assert min(held.values()) >= 43
    assert list(truth) == list(found.metrics())
    assert "less those of the other" in repr(found)
    assert found.privacy_ == composition(found.mechanism_)
    if name == "two":
        one = found.population.metrics()["log loss"]
        alone = evaluate(model, X[drawn], y[drawn], **options).population.log_loss
        assert one.high - one.low < alone.high - alone.low


def test_losses_of_bins_at_the_ends_of_what_a_probability_can_be():
    points = np.array([np.linspace(-745, -700, 9), np.linspace(-1, 1, 9), np.linspace(36, 37, 9)])
    counts = np.array([1e4, 5e3, 0, 0, 5e3, 1e4, 0])
    noisy = NoisyNumbers(counts, Covariance.apart(np.ones(7)), 1.96)
    logs, squares = Bins(np.array([0.1, 0.9]), points).losses(noisy)
    np.testing.assert_allclose(logs[[0, 1], [2, 0]], [36.5, 720], rtol=0.05)
    np.testing.assert_allclose(logs[[0, 1], [0, 2]], 0, atol=1e-12)
    np.testing.assert_allclose(squares, [[0, 0.2, 1], [1, 0.2, 0]], atol=0.1)


RARE_STEPS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2)


@pytest.mark.parametrize(
    ("prevalence", "sure", "thresholds"),
    [(0.02, 3, None), (0.3, 3, None), (0.3, 1, [0.5]), (0.05, 1, RARE_STEPS)],
)
def test_scores_are_those_of_probabilities_as_they_are(prevalence, sure, thresholds):
    """Also where they are too sure, or few thresholds are asked for.

    A mean of 20 differences is beyond 5 errors with probability 3e-6 if all are as likely as their
    intervals say.
    """
    model = classifier(np.random.default_rng(0).normal(size=(600, 1)), TWO)
    offset = {0.02: -4.5, 0.05: -3.5, 0.3: -1.1}[prevalence]
    model.coef_[:] = 1.2 * sure
    model.intercept_[:] = offset * sure
    off = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(20_000, 1))
        y = rng.uniform(size=20_000) < special.expit(offset + 1.2 * rows[:, 0])
        found = evaluate(model, rows, y, epsilon=2.0, thresholds=thresholds, random_state=seed)
        p = model.predict_proba(rows)[:, 1]
        threshold = found.thresholds[found.thresholds.size * 3 // 4]
        raw = offset * sure + 1.2 * sure * rows[:, 0]
        truth = {
            found.roc_auc: roc_auc_score(y, p),
            found.log_loss: np.logaddexp(0, np.where(y, -raw, raw)).mean(),
            found.brier_score: brier_score_loss(y, p),
            found.recall(threshold): np.mean(p[y] > threshold),
        }
        off.append([3.92 * (one.value - of) / (one.high - one.low) for one, of in truth.items()])
    assert np.all(np.abs(np.mean(off, axis=0)) < 5 / math.sqrt(20))
    _, observed = found.calibration_curve()
    assert len(observed) == min(8, found.thresholds.size + 1)


def test_a_score_on_held_out_records_and_the_fit_cost_the_dearer_of_the_two(tmp_path):
    for epsilon in (0.3, 2.0):
        model = PrivateLogisticRegression(1.0, 1e-6, classes=[False, True]).fit(X[:300], TWO[:300])
        score = evaluate(model, X[300:], TWO[300:], epsilon=epsilon, delta=1e-6)
        both = total_privacy(model, score, disjoint=True)
        assert both.guarantee.epsilon(1e-6) == pytest.approx(max(1.0, epsilon))
        assert total_privacy(model, score).guarantee.epsilon(1e-6) > both.guarantee.epsilon(1e-6)
    ledger = Ledger(tmp_path / "books.json", cap=(3.0, 1e-6))
    with ledger.reserve("score", GaussianDP(score.privacy_.mu)) as entry:
        entry.settle(score)
    assert ledger.epsilon == pytest.approx(2.0)
    check_report(score.privacy_report().as_dict())


def test_what_noise_leaves_nothing_of(monkeypatch):
    record(monkeypatch)  # noise itself may be large enough to hide that it is noise
    model, y = MODELS["two"]
    found = evaluate(model, X[:20], y[:20], epsilon=0.01)
    values = [found.roc_auc, found.recall(), found.precision()]
    assert all(math.isnan(one.value) and (one.low, one.high) == (0, 1) for one in values)
    assert math.isnan(found.calibration_curve()[1][0].value)
    assert 0 <= found.accuracy.low <= found.accuracy.high <= 1
    assert repr(Estimate(math.nan, 0.0, 1.0)) == "nan [0, 1]"


def test_ratios_are_fieller_s():
    """A ratio is in the interval exactly where the test of it does not reject."""
    covariance = Covariance.shared(np.array([[9.0, 4.0], [4.0, 16.0]]))
    numbers = NoisyNumbers(np.array([30.0, 100.0]), covariance, 1.96)
    one = numbers.ratio(np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    for end in (one.low, one.high):
        spread = math.sqrt(9 - 2 * end * 4 + end**2 * 16)
        assert abs(30 - end * 100) / spread == pytest.approx(1.96)
    assert one.value == pytest.approx(0.3)


def test_parameters_and_records_are_checked():
    model, y = MODELS["two"]
    linear, target = MODELS["regression"]
    on_classes = (model, X, y)
    on_numbers = (linear, X, target)
    numbers = {"target_bounds": (0, 1)}
    for given, options, message in (
        (on_classes, {"thresholds": []}, "thresholds="),
        (on_classes, {"thresholds": [0.3, 0.2, 0.1]}, "thresholds="),
        (on_classes, {"thresholds": "all"}, "thresholds='all' must be"),
        (on_classes, numbers, "is for a regression, and not for a PrivateLogisticRegression"),
        (on_classes, {"confidence": 0}, "confidence=0 must be"),
        (on_classes, {"adjacency": "none"}, "adjacency='none'"),
        (on_classes, {"delta": 0}, "delta=0 must be"),
        (
            on_numbers,
            {"epsilon": 0.1},
            "the model has none, and there are too few",
        ),
        (on_numbers, {"target_bounds": (1, 0)}, "must be a pair"),
        (on_numbers, {**numbers, "largest_error": 2}, "largest_error=2 .* above 0 and at most 1"),
        (on_numbers, {"thresholds": [0.5]}, "is for a classifier of two classes"),
        ((model, X, y[1:]), {}, "X has 600 rows and y has 599 targets"),
        ((model, X, y[:, None]), {}, "pass one target for each row"),
        ((LinearSVC().fit(X, y), X, y), {}, "LinearSVC has no predict_proba"),
        ((BoundsScaler((0, 1)).fit(X), X, y), {}, "is neither a classifier nor a regressor"),
    ):
        with pytest.raises(ValueError, match=message):
            evaluate(*given, **{"epsilon": 1.0, **options})
    with pytest.raises(ValueError, match="y holds labels that are not in classes"):
        evaluate(model, X, y.astype(str), epsilon=1.0)  # by their type
    found = evaluate(model, X, y, epsilon=1.0)
    with pytest.raises(ValueError, match=r"threshold=0.4 is not a threshold"):
        found.recall(0.4)
    with pytest.raises(ValueError, match="n_groups=33 must be a whole number from 1 to 32"):
        found.calibration_curve(33)


@pytest.mark.parametrize("name", MODELS)
def test_it_is_shown(name):
    pytest.importorskip("pandas")
    model, y = MODELS[name]
    found = evaluate(model, X, y, epsilon=3.0, random_state=0, **BOUNDS[name])
    again = evaluate(model, X, y, epsilon=3.0, random_state=0, **BOUNDS[name])
    assert repr(found) == repr(again)
    assert "NOT PRIVATE: random_state=0" in repr(found)
    frame = found.to_frame()
    assert list(frame.index) == list(found.metrics())
    assert np.all(frame["low"] <= frame["high"])
    assert found._repr_html_().count("<tr>") == 1 + len(frame)


def test_displays():
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    model, y = MODELS["two"]
    found = evaluate(model, X, y, epsilon=5.0)
    roc = found.plot_roc(name="model", color="C3")
    again = roc.plot(ax=roc.ax_)
    assert again.ax_ is roc.ax_
    assert "model, AUC 0." in roc.ax_.get_legend_handles_labels()[0][0].get_label()
    calibration = found.plot_calibration(n_groups=4)
    shown = [one for one in calibration.observed if not math.isnan(one.value)]
    assert len(calibration.line_.get_xdata()) == len(shown)
    plt.close("all")
    three = evaluate(*MODELS["three"][:1], X, THREE, epsilon=1.0)
    with pytest.raises(ValueError, match="a ClassEvaluation has no roc_curve"):
        PrivateRocCurveDisplay.from_evaluation(three)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_the_exact_mu_is_no_larger_than_what_is_claimed(adjacency, monkeypatch):
    """In whole fractions, by the squares of the sensitivities, which are rational."""
    scales = []

    def heard(point, std, *others, **options):
        scales.append(std)
        return point

    monkeypatch.setattr(noise, "release", heard)
    rng = np.random.default_rng(0)
    twice = 2 if adjacency == "replace_one" else 1
    x = np.linspace(-1, 1, 30)[:, None]
    binary = classifier(x, x[:, 0] > 0)
    three = classifier(x, np.digitize(x[:, 0], [-0.5, 0.5]))
    numbers = line(x, x[:, 0])
    quantile = PrivateQuantileRegressor(target_bounds=(-1, 1), **OF_OTHERS).fit(x, x[:, 0])
    for epsilon in rng.uniform(0.01, 20, 50):
        budget = {"epsilon": epsilon, "delta": 1e-6, "adjacency": adjacency}
        square = Fraction(526, 160) if twice == 2 else Fraction(13, 4)
        for model, squares, options in (
            (binary, [7 * twice, 5 * twice], {}),
            (binary, [7 * twice, 12 * twice], {"thresholds": [0.3, 0.6]}),
            (three, [twice, 2], {}),
            (numbers, [square, 3], {"target_bounds": (-1, 1)}),
            (quantile, [2, 2], {"target_bounds": (-1, 1)}),
        ):
            scales.clear()
            found = evaluate(model, x, model.predict(x), **budget, **options)
            pairs = zip(squares, scales, strict=True)
            exact = sum(Fraction(square) / Fraction(std) ** 2 for square, std in pairs)
            assert exact <= Fraction(found.privacy_.mu) ** 2


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("persons", [False, True], ids=["rows", "persons"])
def test_weighted_metrics_are_those_of_scikit_learn(kind, persons):
    """With next to no noise; bins of probability leave a difference."""
    model, target = MODELS[kind]
    weights = np.where(RAW > 0.5, 2.0, 0.5)
    groups = np.arange(600) // 3 if persons else None
    options = {"epsilon": 1e6, "groups": groups, **BOUNDS[kind]}
    given = {"sample_weight": weights, "weight_bounds": (0.5, 2.0), "random_state": 0}
    found = evaluate(model, X, target, **given, **options)
    given = {"sample_weight": weights}
    predicted = model.predict(X)
    if kind == "regression":
        clipped = np.clip(target, -4, 4), np.clip(predicted, -4, 4)
        known = {
            "R^2": r2_score(*clipped, **given),
            "mean absolute error": mean_absolute_error(*clipped, **given),
            "mean squared error": mean_squared_error(*clipped, **given),
        }
    elif kind == "quantile":
        clipped = np.clip(target, -4, 4)
        known = {
            "mean pinball loss": mean_pinball_loss(clipped, predicted, alpha=0.9, **given),
            "coverage": np.average(clipped <= predicted, weights=weights),
        }
    else:
        known = {"accuracy": accuracy_score(target, predicted, **given)}
        known["log loss"] = log_loss(target, model.predict_proba(X), **given)
    if kind == "two":
        of_bins = np.searchsorted(np.arange(1, 32) / 32, model.predict_proba(X)[:, 1])
        known["ROC AUC"] = roc_auc_score(target, of_bins, **given)
        known["prevalence"] = np.average(target, weights=weights)
    for name, value in known.items():
        assert found.metrics()[name].value == pytest.approx(value, abs=2e-3)
    unit = "person" if persons else "record"
    assert f"each weight follows from its own {unit}" in str(found.privacy_report())
    assert round(found.epsilon_ / 1e6, 6) == 1
    with pytest.raises(ValueError, match="a number within these public bounds"):
        evaluate(model, X, target, sample_weight=weights, **options)


def test_a_model_of_a_quantile_is_judged_as_one(monkeypatch):
    """By its pinball loss and the part of targets that it covers, which scikit-learn has, too."""
    recorder = record(monkeypatch)
    predicted = MODELS["quantile"][0].predict(X)
    clipped = np.clip(RAW, -4, 4)
    piped = make_pipeline("passthrough", MODELS["quantile"][0])
    foreign = QuantileRegressor(quantile=0.9, alpha=0).fit(X, RAW)
    for model in (MODELS["quantile"][0], piped, foreign):
        found = evaluate(model, X, RAW, epsilon=1.0, **BOUNDS["quantile"])
        assert list(found.metrics()) == ["mean pinball loss", "coverage"]
        expected = mean_pinball_loss(clipped, predicted, alpha=0.9)
        assert found.mean_pinball_loss.value == pytest.approx(expected)
        assert found.coverage.value == pytest.approx(np.mean(clipped <= predicted))
        assert found.quantile == 0.9
    assert "targets at or below the prediction, to be 0.9" in repr(found)
    cut = evaluate(piped, X, RAW, epsilon=1.0, largest_error=0.2)
    losses = np.maximum(0.9 * (clipped - predicted), 0.1 * (predicted - clipped))
    assert cut.mean_pinball_loss.value == pytest.approx(np.minimum(losses, 0.2).mean())
    assert cut.coverage.value == found.coverage.value
    with pytest.raises(ValueError, match=r"largest_error=7.3 .* above 0 and at most 7.2"):
        evaluate(piped, X, RAW, epsilon=1.0, largest_error=7.3)
    recorder.clear()
    other = line_of_quantile(0.8)
    with pytest.raises(ValueError, match="against must be a model of the same quantile"):
        evaluate(piped, X, RAW, epsilon=1.0, against=other)
    assert not recorder
    constant = DummyRegressor(strategy="quantile", quantile=0.9).fit(X, RAW)
    mean = MODELS["regression"][0]
    for against in (constant, mean):
        apart = evaluate(piped, X, RAW, epsilon=1.0, against=against, **BOUNDS["quantile"])
        worse = mean_pinball_loss(clipped, np.clip(against.predict(X), -4, 4), alpha=0.9)
        (found,) = apart.metrics().items()
        assert found[0] == "pinball loss"
        assert found[1].value == pytest.approx(expected - worse)
    squared = PrivateGAMRegressor(target_bounds=(-4, 4), bounds=(-1, 1)).fit(X, RAW)
    assert "R^2" in evaluate(squared, X, RAW, epsilon=1.0).metrics()


@pytest.mark.parametrize("quantile", [0.1, 0.9])
def test_intervals_of_a_quantile_hold(quantile):
    """Of 40 intervals of 95 % less than 27 hold the number with probability 1e-7.

    Limits of losses are bought: few are beyond, though bounds of targets are far too wide. Those
    for noise alone are too narrow for the population.
    """
    model = line_of_quantile(0.9)
    model.set_params(quantile=quantile)
    model.target_bounds_ = (-100.0, 300.0)
    model.coef_ = np.array([1.0, 0.0])
    z = special.ndtri(quantile)
    model.intercept_ = z
    density = math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    held = np.zeros((2, 3))
    for seed in range(40):
        rng = np.random.default_rng(seed)
        rows = rng.uniform(-1, 1, (5000, 2))
        y = rows[:, 0] + rng.normal(size=5000)
        budget = {"epsilon": 50.0, "random_state": seed}
        found = evaluate(model, rows, y, **budget)
        predicted = model.predict(rows)
        losses = np.maximum(quantile * (y - predicted), (1 - quantile) * (predicted - y))
        beyond = np.mean(losses > found.largest_error)
        assert beyond < 0.01
        assert found.largest_error < 10
        assert found.privacy_ == composition(found.mechanism_)
        of_records = np.minimum(losses, found.largest_error).mean(), np.mean(y <= predicted)
        of_all = density, quantile
        for k, name in enumerate(("mean_pinball_loss", "coverage")):
            for j, (one, of) in enumerate(
                (
                    (getattr(found, name), of_records[k]),
                    (getattr(found.population, name), of_all[k]),
                    (getattr(found, name), of_all[k]),
                )
            ):
                held[k, j] += one.low <= of <= one.high
    assert held[:, :2].min() >= 27 > held[:, 2].max()
