"""Coverage and width of private confidence intervals on simulated data, compared with two methods.

Run ``python -m benchmarks intervals``. Each method spends (epsilon, 1/n^2). A line shows, for
nominal 95 % intervals: the share of coefficients that were estimated ("answered"), the coverage of
their intervals, the 99.9 % confidence interval of this coverage ("low", "high"), the coverage of
the worst coefficient, and the median ratio of the standard error to that of the same regression
without privacy ("width"). "fails" marks a 99.9 % interval that does not overlap the range from
0.935 to 0.975. 400 repetitions of a cell of 20,000 records and 5 columns take about 7 s of a
processor.

Methods: `private_regression`, and for linear regression BinAgg (Lin, Slavkovic and Bhoomireddy
2025, arXiv 2510.16974) and the private bootstrap (Wang, Cheng and Awan 2022, arXiv 2210.06140),
after their papers' abstracts and authors' code: their noise is a floating-point normal.
Designs: neighbouring columns have a correlation of 0.5 or of 0.95, or columns have a long tail. All
methods know that columns are within -1 and 1. The data of "robust" have another link than the
model, and the target is the best approximation to it.

Minutes: 600 of a processor for the whole grid; 0.5 with ``--quick``, one cell of each method.
"""

import time
import warnings
from functools import cache
from itertools import product

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit, ndtr

from benchmarks._common import parser
from skdpdyn import PrivateLogisticRegression, PrivateRidge
from skdpdyn.inference import private_regression
from skdpdyn.privacy import Budget

FORMS = ("likelihood", "robust", "linear")
DESIGNS = {"correlated": 0.5, "collinear": 0.95, "skewed": None}
LARGE = 20_000  # records, above which repetitions are fewer
NOISE = 0.5  # of the linear target, whose bounds are -4 and 4
_QUANTILE = 1.959963984540054
_FAILS = 3.2905  # normal quantile of 99.9 %
MOST_BINS = 4096
N_RESAMPLES = 50  # of rivals


def coefficients(n_features):
    """Return the true coefficients, the intercept last."""
    signs = np.where(np.arange(n_features) % 2, -1.0, 1.0)
    return np.append(signs * np.linspace(3.0, 0.75, n_features), -0.5)


def rows(rng, n_samples, n_features, design):
    """Return rows in the unit ball whose columns are as the design says."""
    if design == "skewed":
        X = rng.exponential(1.0, (n_samples, n_features)) * (0.4 / np.sqrt(n_features))
    else:
        places = np.arange(n_features)
        distance = np.abs(np.subtract.outer(places, places))
        root = np.linalg.cholesky(DESIGNS[design] ** distance)
        X = rng.standard_normal((n_samples, n_features)) @ root.T * (0.6 / np.sqrt(n_features))
    return X / np.maximum(1, np.linalg.norm(X, axis=1))[:, None]


def expected(X, form):
    """Return the expectation of the target."""
    raw = X @ coefficients(X.shape[1])[:-1] + coefficients(X.shape[1])[-1]
    if form == "linear":
        return raw
    return expit(raw) if form == "likelihood" else expit(raw + 2 * np.abs(raw) - 1)


@cache
def truth(n_features, design, form):
    """Return what is to be covered: for a wrong model the best approximation, on a million rows."""
    theta = coefficients(n_features)
    if form != "robust":
        return theta
    X = rows(np.random.default_rng(1), 1_000_000, n_features, design)
    probability = expected(X, form)
    Z = np.column_stack([X, np.ones(len(X))])
    theta = np.zeros(n_features + 1)
    for _ in range(12):
        p = expit(Z @ theta)
        theta = theta + np.linalg.solve((Z.T * (p * (1 - p))) @ Z, Z.T @ (probability - p))
    return theta


def errors_without_privacy(X, y, form, theta):
    """Return standard errors of the same regression without privacy, at the true coefficients."""
    Z = np.column_stack([X, np.ones(len(X))])
    if form == "linear":
        return NOISE * np.sqrt(np.diag(np.linalg.inv(Z.T @ Z)))
    p = expit(Z @ theta)
    inverse = np.linalg.inv((Z.T * (p * (1 - p))) @ Z)
    scores = Z * (p - y)[:, None]
    middle = inverse if form == "likelihood" else inverse @ (scores.T @ scores) @ inverse
    return np.sqrt(np.diag(middle))


def by_regression(X, y, form, epsilon, adjacency):
    """Return estimates and standard errors of a table in one call."""
    model = PrivateRidge() if form == "linear" else PrivateLogisticRegression()
    of_target = {"target_bounds": (-4.0, 4.0)} if form == "linear" else {"classes": [False, True]}
    options = {"epsilon": epsilon, "adjacency": adjacency, "robust": form == "robust"}
    _, table = private_regression(model, X, y, bounds=(-1, 1), **of_target, **options)
    return table.params, table.bse


def binagg(X, y, largest, mu, rng=None):
    """Return estimates and standard errors of BinAgg, the intercept last.

    Lin, Slavkovic and Bhoomireddy (2025), Algorithms 1 and 2 and Theorem 4.2. PrivTree (Zhang, Xiao
    and Xie 2016) halves the box of the columns, dimension after dimension, where noisy counts are
    large. Of each bin the count and the sums of columns and target are released; the four parts
    have mu as 1 : 3 : 3 : 3, as in the authors' package (binagg). Weighted least squares are
    corrected for the noise on the sums, and the sandwich of the corrected scores is their
    covariance.

    Three things are not as in that package: noise on the sums of d columns is sqrt(d) times as
    large, since a record moves all of them (the package's noise is for one column); the correction
    of information is not divided by the number of bins; and counts are not rescaled to n.

    Rows are within -1 and 1, targets are clipped at ``largest``, and mu is for records that join or
    leave.
    """
    rng = np.random.default_rng(rng)
    mu_bins = mu / np.sqrt(28)
    mu_sums = 3 * mu / np.sqrt(28)
    bins = _privtree(X, mu_bins, rng)
    y = np.clip(y, -largest, largest)
    d = X.shape[1]
    sums = []
    noise = []
    for chosen, low, high in bins:
        reach = np.maximum(np.abs(low), np.abs(high)) * np.sqrt(d) / mu_sums
        count = chosen.size + rng.standard_normal() / mu_sums
        columns = X[chosen].sum(axis=0) + reach * rng.standard_normal(d)
        target = y[chosen].sum() + largest / mu_sums * rng.standard_normal()
        if count >= 2:
            sums.append(np.concatenate([columns, [count, target]]))
            noise.append(np.append(reach, 1 / mu_sums) ** 2)
    if len(sums) <= d + 1:
        return np.full((2, d + 1), np.nan)
    sums = np.array(sums)
    noise = np.array(noise)
    S = sums[:, :-1]
    t = sums[:, -1]
    weight = 1 / sums[:, -2]
    information = (S.T * weight) @ S - np.diag(weight @ noise)
    if not np.linalg.eigvalsh(information)[0] > 0:
        return np.full((2, d + 1), np.nan)
    inverse = np.linalg.inv(information)
    beta = inverse @ (S.T @ (weight * t))
    scores = S * (weight * (t - S @ beta))[:, None] + weight[:, None] * noise * beta
    covariance = inverse @ (scores.T @ scores) @ inverse * len(S) / (len(S) - d - 1)
    return beta, np.sqrt(np.diag(covariance))


def _privtree(X, mu, rng):
    """Return bins as (numbers of rows, low, high), by mu-GDP through pure epsilon."""
    epsilon = np.log(ndtr(mu / 2) / ndtr(-mu / 2))
    scale = 3 / epsilon  # (2 b - 1) / (b - 1) / epsilon of b = 2 children
    decay = scale * np.log(2)
    d = X.shape[1]
    waiting = [(np.arange(len(X)), -np.ones(d), np.ones(d), 0)]
    bins = []
    while waiting:
        chosen, low, high, depth = waiting.pop(0)
        biased = max(chosen.size - depth * decay, -decay) + rng.laplace(scale=scale)
        if not biased > 0 or len(waiting) + len(bins) >= MOST_BINS or depth > 60:
            bins.append((chosen, low, high))
            continue
        j = depth % d
        middle = (low[depth % d] + high[depth % d]) / 2
        first = X[chosen, j] <= middle
        below = high.copy()
        above = low.copy()
        below[j] = above[j] = middle
        waiting.append((chosen[first], low, below, depth + 1))
        waiting.append((chosen[~first], above, high, depth + 1))
    return bins


def bootstrap(X, y, largest, mu, rng=None):
    """Return estimates and standard errors of the private bootstrap, the intercept last.

    Wang, Cheng and Awan (2022): B resamples, each released by a Gaussian mechanism with
    mu / sqrt((2 - 2/e) B), cost mu asymptotically. The paper's examples are means, logistic and
    quantile regression; here, for linear regression, the moments of rows and target are released,
    with the noise of one matrix. The distribution of the estimates less that of the known
    noise (deconvolution, of normal distributions) is that of the sample.

    Rows are within -1 and 1, targets are clipped at ``largest``, and mu is for records that join or
    leave.
    """
    rng = np.random.default_rng(rng)
    n = len(X)
    Z = np.column_stack([X, np.ones(n), np.clip(y, -largest, largest) / largest])
    size = Z.shape[1]
    std = size * np.sqrt((2 - 2 / np.e) * N_RESAMPLES) / mu  # of the largest row's square
    moments = []
    for _ in range(N_RESAMPLES):
        times = np.bincount(rng.integers(0, n, n), minlength=n)
        noise = rng.standard_normal((size, size)) * std / np.sqrt(2)
        noise = np.triu(noise, 1)
        noise += noise.T + np.diag(rng.standard_normal(size) * std)
        moments.append((Z.T * times) @ Z + noise)
    moments = np.array(moments)
    mean = moments.mean(axis=0)
    if not np.linalg.eigvalsh(mean[:-1, :-1])[0] > 3 * std * np.sqrt(2 * size / N_RESAMPLES):
        return np.full((2, size - 1), np.nan)
    inverse = np.linalg.inv(mean[:-1, :-1])
    beta = inverse @ mean[:-1, -1]
    estimates = beta + (moments[:, :-1, -1] - moments[:, :-1, :-1] @ beta) @ inverse
    spread = estimates.var(axis=0, ddof=1)
    of_noise = std**2 / 2 * (1 + beta @ beta) * inverse @ inverse
    of_noise += std**2 / 2 * np.outer(inverse @ beta, inverse @ beta)
    of_noise = np.diag(of_noise)
    variance = np.maximum(spread - of_noise, 0) + of_noise / N_RESAMPLES
    return beta * largest, np.sqrt(variance) * largest


def of_rival(method):
    """Return a rival, for linear regression: it knows the bounds and mu."""

    def found(X, y, form, epsilon, adjacency):
        mu = Budget.for_samples(epsilon, "auto", n_samples=len(X), adjacency=adjacency).mu
        # both count a record that joins or leaves; replacing is leaving and joining
        return method(X, y, 4.0, mu / (2 if adjacency == "replace_one" else 1))

    return found


METHODS = {
    "regression": by_regression,
    "BinAgg": of_rival(binagg),
    "bootstrap": of_rival(bootstrap),
}
RIVALS = "BinAgg", "bootstrap"


def simulate(cell, repetitions, seed=0):
    """Return errors over standard errors, and widths over those without privacy; NaN: not
    answered.
    """
    form, adjacency, design, n_samples, n_features, epsilon, method = cell
    rng = np.random.default_rng(seed)
    theta = truth(n_features, design, form)
    errors = []
    widths = []
    for _ in range(repetitions):
        X = rows(rng, n_samples, n_features, design)
        mean = expected(X, form)
        noise = rng.standard_normal(n_samples) if form == "linear" else rng.uniform(size=n_samples)
        y = mean + NOISE * noise if form == "linear" else noise < mean
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            coef, std_err = METHODS[method](X, y, form, epsilon, adjacency)
        errors.append((coef - theta) / std_err)
        widths.append(std_err / errors_without_privacy(X, y, form, theta))
    return np.array(errors), np.array(widths)


def statistics(errors, widths):
    """Return what a line tells: share answered, coverage, its standard error, the worst, and
    width.
    """
    answered = np.isfinite(errors)
    if not answered.any():
        return 0.0, *[float("nan")] * 4
    covered = (np.abs(errors) <= _QUANTILE).sum(axis=1)
    counted = answered.sum(axis=1)
    coverage = covered.sum() / counted.sum()
    # of a ratio: the intervals of one repetition are not independent
    spread = np.sum((covered - coverage * counted) ** 2) ** 0.5 / counted.sum()
    by_coefficient = (np.abs(errors) <= _QUANTILE).sum(axis=0) / np.maximum(answered.sum(axis=0), 1)
    worst = by_coefficient[answered.any(axis=0)].min()
    return answered.mean(), coverage, spread, worst, np.median(widths[answered])


def line(cell, repetitions):
    """Return a line of the table."""
    form, adjacency, design, n_samples, n_features, epsilon, method = cell
    share, coverage, spread, *rest = statistics(*simulate(cell, repetitions))
    # where all cover, the spread of a nominal coverage
    counted = max(share * repetitions * (n_features + 1), 1)
    reach = _FAILS * max(spread, np.sqrt(0.05 * 0.95 / counted))
    low = coverage - reach
    high = min(coverage + reach, 1.0)
    told = (share, coverage, low, high, *rest)
    far = high < 0.935 or low > 0.975
    what = f"{form:<10} {adjacency:<11} {design:<10} {n_samples:>7} {n_features:>3} {epsilon:>4g}"
    what += f" {method:<10} {repetitions:>5}"
    return (
        what
        + " {:>9.3f} {:>9.3f} {:>6.3f} {:>6.3f} {:>6.3f} {:>6.2f}".format(*told)
        + "  fails" * bool(far)
    )


def main(arguments=None):
    """Print a line for each cell."""
    made = parser(__doc__)
    made.add_argument("--repetitions", type=int, default=2000, help="a tenth of large cells")
    both = ["add_remove", "replace_one"]
    grid = {
        "form": (FORMS, str),
        "adjacency": (both, str),
        "design": (list(DESIGNS), str),
        "n-samples": ([1000, 20_000, 1_000_000], int),
        "n-features": ([2, 5, 20], int),
        "epsilon": ([0.3, 1.0, 4.0], float),
        "method": (list(METHODS), str),
    }
    for name, (values, kind) in grid.items():
        made.add_argument(f"--{name}", nargs="+", type=kind, default=values, help=f"of {values}")
    made.add_argument("--jobs", type=int, default=1)
    asked = made.parse_args(arguments)
    start = time.perf_counter()
    print(
        f"{'form':<10} {'adjacency':<11} {'design':<10} {'n':>7} {'d':>3} {'eps':>4} "
        f"{'method':<10} {'times':>5} {'answered':>9} {'coverage':>9} "
        f"{'low':>6} {'high':>6} {'worst':>6} {'width':>6}"
    )
    cells = product(*(getattr(asked, name.replace("-", "_")) for name in grid))
    if asked.quick:
        asked.repetitions = 20
        cells = product(FORMS, both[:1], ["correlated"], [20_000], [2], [1.0], METHODS)
    cells = [cell for cell in cells if cell[-1] not in RIVALS or cell[0] == "linear"]
    lines = Parallel(n_jobs=asked.jobs, return_as="generator")(
        delayed(line)(cell, asked.repetitions if cell[3] <= LARGE else asked.repetitions // 10)
        for cell in cells
    )
    for told in lines:
        print(told, flush=True)
    print(f"\n{time.perf_counter() - start:.0f} s")
