"""Rivals' intervals for linear regression, after their papers' abstracts and authors' code.

They are for comparison: their noise is a floating-point normal, and nothing here is charged.
"""

import numpy as np

MOST_BINS, N_RESAMPLES = 4096, 50


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

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows within -1 and 1.
    y : ndarray of shape (n_samples,)
        Targets, clipped to -largest and largest.
    largest : float
        Public bound of the target.
    mu : float
        Budget, for records that join or leave.
    rng : Generator or None, default=None
        Source of noise.

    Returns
    -------
    coef, std_err : ndarray of shape (n_features + 1,)
    """
    rng = np.random.default_rng(rng)
    mu_bins, mu_sums = mu / np.sqrt(28), 3 * mu / np.sqrt(28)
    bins = _privtree(X, mu_bins, rng)
    y, d = np.clip(y, -largest, largest), X.shape[1]
    sums, noise = [], []
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
    sums, noise = np.array(sums), np.array(noise)
    S, t, weight = sums[:, :-1], sums[:, -1], 1 / sums[:, -2]
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
    from scipy.special import ndtr

    epsilon = np.log(ndtr(mu / 2) / ndtr(-mu / 2))
    scale = 3 / epsilon  # (2 b - 1) / (b - 1) / epsilon of b = 2 children
    decay = scale * np.log(2)
    d = X.shape[1]
    waiting, bins = [(np.arange(len(X)), -np.ones(d), np.ones(d), 0)], []
    while waiting:
        chosen, low, high, depth = waiting.pop(0)
        biased = max(chosen.size - depth * decay, -decay) + rng.laplace(scale=scale)
        if not biased > 0 or len(waiting) + len(bins) >= MOST_BINS or depth > 60:
            bins.append((chosen, low, high))
            continue
        j, middle = depth % d, (low[depth % d] + high[depth % d]) / 2
        first = X[chosen, j] <= middle
        below, above = high.copy(), low.copy()
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

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows within -1 and 1.
    y : ndarray of shape (n_samples,)
        Targets, clipped to -largest and largest.
    largest : float
        Public bound of the target.
    mu : float
        Budget, for records that join or leave.
    rng : Generator or None, default=None
        Source of noise.

    Returns
    -------
    coef, std_err : ndarray of shape (n_features + 1,)
    """
    rng, n = np.random.default_rng(rng), len(X)
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
