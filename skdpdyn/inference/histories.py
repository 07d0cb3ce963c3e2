"""Rows of a person in the order of time, of which those count that keep the person's sums bounded.

A sum of scores over a person's rows is a martingale: given the past, each score has mean 0. It
stays one if a row counts or not by what was known before its target, so that nothing is bent. A
person's rows then weigh 1 each, and not 1 over their largest number.
"""

import numpy as np

from skdpdyn.data.persons import Persons

MOST_SCORE = 1.15
"""Largest norm of the sum of a person's scores of few records, in units of the largest of a row."""
MOST_ROWS = 200
"""Rows of a person up to which they are counted so: their products are computed in pairs."""
_PAIRS = 1 << 21  # of rows that are in memory at once


def most_curvature(n_coordinates: int) -> float:
    """Return the same of the Frobenius norm of second derivatives, large where rows are alike."""
    return min(2.0, 0.5 + 6.0 / n_coordinates)


def rows_that_count(
    persons: Persons,
    z: np.ndarray,
    weight: np.ndarray,
    probability: np.ndarray,
    y: np.ndarray,
    most: tuple[float, float],
    most_rows: int,
) -> np.ndarray:
    """Return which rows count, given those of the same person before it.

    A row counts if, whatever its target, sums over the person's rows that count stay within
    bounds, with room for the rounding of what is compared: of a norm's square, which is a sum of at
    most k^2 products of two rows for a person with k rows, each with an error of d + k^2 roundings.
    What is compared is the same to the last bit whatever other persons' rows are: a person's rows
    are sums of the same products in the same order, without BLAS, in arrays of public shapes.

    Parameters
    ----------
    persons : Persons
        Rows of each person, in the order of time.
    z, weight : ndarray of shape (n_rows, d), (n_rows,)
        Rows and their weights.
    probability, y : ndarray of shape (n_rows,)
        Released probabilities of a target of 1, and targets of 0 or 1.
    most : tuple of float
        Bounds on the norm of the sum of ``weight (probability - y) z``, and on the Frobenius norm
        of that of ``weight probability (1 - probability) z z'``.
    most_rows : int
        Public bound on the rows of a person.

    Returns
    -------
    ndarray of bool of shape (n_rows,)
    """
    counts = np.zeros(len(z), bool)
    room = 8 * most_rows**2 * (z.shape[1] + most_rows**2 + 8) * np.finfo(np.float64).eps
    score_limit, curvature_limit = (bound**2 * (1 - room) for bound in most)
    terms = np.column_stack([weight * (probability - y), weight * probability * (1 - probability)])
    size = max(_PAIRS // most_rows**2, 1)
    for first in range(0, persons.n_persons, size):
        starts = persons.first[first : first + size + 1]
        places = starts[:-1, None] + np.arange(most_rows)
        exists = places < starts[1:, None]
        rows = persons.rows[np.where(exists, places, starts[:-1, None])]
        products = np.einsum("pid,pjd->pij", z[rows], z[rows])
        score, curvature = np.zeros((2, len(rows)))
        past = np.zeros((2, *rows.shape))
        for j in range(rows.shape[1]):
            row = rows[:, j]
            products_of_row = products[:, :, j]
            p = probability[row]
            w = weight[row]
            along_itself = products_of_row[:, j]
            # in order, each sum rounded
            along = np.cumsum(past[0] * products_of_row, axis=1)[:, -1]
            steps = w * p, w * (p - 1)
            scores = [score + 2 * step * along + step**2 * along_itself for step in steps]
            bent = terms[row, 1]
            squares = np.cumsum(past[1] * products_of_row**2, axis=1)[:, -1]
            curved = curvature + 2 * bent * squares + (bent * along_itself) ** 2
            within = exists[:, j] & (np.maximum(*scores) <= score_limit)
            within &= curved <= curvature_limit
            score = np.where(within, np.where(y[row] > 0, scores[1], scores[0]), score)
            curvature = np.where(within, curved, curvature)
            past[:, :, j] = np.where(within, terms[row].T, 0.0)
            counts[row[within]] = True
    return counts
