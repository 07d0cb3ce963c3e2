"""Rows in coordinates with the scores of a likelihood, whose sums are sealed.

Whatever terms a row is given, they are cut where they are summed.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from skdpdyn.core.sealed import ANY, Sealed, SealedProducts
from skdpdyn.data.local import LocalRows
from skdpdyn.data.tally import RowTally
from skdpdyn.inference.directions import Coordinates, rounding_of, row_by_row
from skdpdyn.inference.histories import MOST_SCORE, most_curvature, rows_that_count
from skdpdyn.support.blas import one_blas_thread


class ScoredRows:
    """Rows in coordinates, whose weights bound their lengths.

    Parameters
    ----------
    rows : LocalRows
        Rows with targets and a map to the unit ball.
    coordinates : Coordinates
        The coordinates of rows.
    reach : float
        Largest squared length of a weighted row over that of a usual one.
    growth : float, default=1.0
        How far beyond those of a usual person sums over a person's rows in time may reach.
    in_time : bool, default=False
        Whether rows of a person are in the order of time and have the same weight 1/most_rows: each
        then weighs 1, and those count that keep the person's sums bounded.
    """

    def __init__(
        self,
        rows: LocalRows,
        coordinates: Coordinates,
        reach: float,
        growth: float = 1.0,
        in_time: bool = False,
    ) -> None:
        self.rows = rows
        self.square = coordinates.square
        self.in_time = in_time
        self.tally = RowTally.of(rows)
        self._blocks = []
        self._kept_weight = np.ones(rows.shape[0])
        for part, z, weight in _blocks(rows, coordinates, reach):
            self._kept_weight[part] = weight
            weight = weight * rows.weight[part] if rows.weight.size else weight
            self._blocks.append((part, z, weight))
        self.n_coordinates = self._blocks[0][1].shape[1]
        # how far a record moves sums, in units of the longest full row, and the weight of its rows
        self._most_score = 1.0
        self._most_curvature = reach
        self._row_weight = 1
        self._counting: Any = 1.0
        if in_time:
            self._counting = np.zeros(rows.shape[0])  # until `row_weights` says which rows count
            self._most_score = growth * MOST_SCORE
            self._most_curvature = growth * most_curvature(self.n_coordinates)
            self._row_weight = rows.most_rows
            _, z, weight = zip(*self._blocks, strict=True)
            self._blocks = [(slice(None), np.vstack(z), rows.most_rows * np.concatenate(weight))]

    def products(self, theta: np.ndarray) -> np.ndarray:
        """Return the raw predictions of rows, each of which follows from its own row."""
        raw = np.empty((self.rows.shape[0], len(theta)))
        for part, z, _ in self._blocks:
            plain = self.rows.persons is None
            raw[part] = np.einsum("ij,kj->ik", z, theta) if plain else row_by_row(z, theta)
        return raw

    def row_weights(
        self, terms: np.ndarray, curvature: np.ndarray, limit: float, largest: float
    ) -> np.ndarray:
        """Return weights for score and curvature alike: below 1 where a row's curvature is large.

        They depend on the row and on what was released, and of rows in time 0 and 1 on what is
        known before the target; so scores keep their mean of 0.
        """
        weights = np.minimum(largest / np.maximum(curvature, 1e-300), 1.0)
        if not self.in_time:
            return weights
        _, z, weight = self._blocks[0]
        y = self.rows.y
        most_score = self._most_score * limit * math.sqrt(self.square)
        persons: Any = self.rows.persons  # a table in time is of persons
        self._counting = rows_that_count(
            persons,
            z,
            weight * weights,
            probability=terms + y,
            y=y,
            most=(most_score, self._most_curvature * largest * self.square),
            most_rows=self.rows.most_rows,
        )
        return weights * self._counting

    def lost(self, weights: np.ndarray | float) -> Sealed:
        """Return the sum of the parts of their weight that rows lose: by lengths, and by these."""
        return self.tally.sum(1 - self._kept_weight * weights)

    def lost_of(self, numbers: np.ndarray) -> Sealed:
        """Return the sum of numbers times the parts of their weight that rows lose, at most 1."""
        return self.tally.sum((1 - self._kept_weight) * numbers)

    def gradient(self, terms: np.ndarray, limit: float, theta: np.ndarray) -> Sealed:
        """Return the sum of products of terms, cut to a norm of ``limit``, and rows."""
        total = np.zeros(theta.shape)
        terms = self._cut(terms, limit)
        with one_blas_thread():
            for part, z, weight in self._blocks:
                total += (terms[part] * weight[:, None]).T @ z
        norm = limit * math.sqrt(self.square) * self._most_score
        return Sealed(total.ravel(), norm, ANY, self._rounding(theta) / self._most_score)

    def curvature(self, of_outputs: Callable, largest: float, theta: np.ndarray) -> SealedProducts:
        """Return the sum of second derivatives, cut to a Frobenius norm of ``largest``.

        ``of_outputs`` returns those of two outputs.
        """
        n_outputs, size = theta.shape
        total = np.zeros((n_outputs, size, n_outputs, size))
        pairs = [(a, b) for a in range(n_outputs) for b in range(a + 1)]
        kept = self._kept(sum((1 + (a != b)) * of_outputs(a, b) ** 2 for a, b in pairs), largest)
        with one_blas_thread():
            for a, b in pairs:
                of_rows = np.where(kept > 0, of_outputs(a, b), 0.0) * kept
                for part, z, weight in self._blocks:
                    total[a, :, b] += (z * (weight * of_rows[part])[:, None]).T @ z
                total[b, :, a] = total[a, :, b].T
        norm = largest * self.square * self._most_curvature
        return self._products(total.reshape(theta.size, theta.size), norm, theta)

    def scores(self, terms: np.ndarray, limit: float, theta: np.ndarray) -> SealedProducts:
        """Return the sum over records of outer(s, s), s the score of all rows of one.

        A score is a row times its terms, cut to a norm of ``limit``.
        """
        persons = self.rows.persons
        width = terms.shape[1] * self.n_coordinates
        total = np.zeros((width, width))
        terms = self._cut(terms, limit)
        owner = None if persons is None else persons.owners()
        by_record = np.zeros((0 if persons is None else persons.n_persons, width))
        with one_blas_thread():
            for part, z, weight in self._blocks:
                scores = (terms[part] * weight[:, None])[:, :, None] * z[:, None, :]
                scores = scores.reshape(len(z), width)
                if owner is None:
                    total += scores.T @ scores
                else:
                    np.add.at(by_record, owner[part], scores)
            total += by_record.T @ by_record
        return self._products(total, (self._most_score * limit) ** 2 * self.square, theta)

    def _products(self, total, norm, theta):
        return SealedProducts((total + total.T) / 2, norm, 2 * self._rounding(theta))

    def _cut(self, terms, limit):
        """Return terms of norm at most ``limit``; those within it as they are."""
        kept = self._kept(np.einsum("ij,ij->i", terms, terms), limit)[:, None]
        return np.where(kept > 0, terms, 0.0) * kept

    def _kept(self, squares, limit):
        """Return the factor that brings a norm with this square to the limit; 0 for no number."""
        norms = np.sqrt(np.where(squares > limit**2, squares, limit**2))
        return np.where(np.isfinite(squares), limit / norms, 0.0) * self._counting

    def _rounding(self, theta):
        return self._row_weight * rounding_of(self.rows, theta)


def bounded(residuals: np.ndarray, limit: float) -> np.ndarray:
    """Return residuals of norm at most ``limit``, after rounding too."""
    norms = np.sqrt(np.einsum("ij,ij->i", residuals, residuals))
    factor = np.minimum(limit * (1 - 1e-12) / np.maximum(norms, 1e-300), 1.0)
    return np.where(np.isfinite(residuals), residuals, limit) * factor[:, None]


def _blocks(rows, coordinates, reach):
    """Yield which rows, their coordinates, and their weights by their lengths, at most 1.

    A weight times the length is at most the root of ``coordinates.square``, times the squared
    length at most ``reach`` times it.
    """
    with one_blas_thread():
        for part, block in rows.mapped_blocks():
            block = block.toarray() if sparse.issparse(block) else block
            centred = block - coordinates.centre
            if rows.persons is None:
                columns = [centred @ coordinates.weights.T]
            else:
                columns = [row_by_row(centred, coordinates.weights)]
            columns += [np.full(len(block), coordinates.constant)] * (coordinates.constant > 0)
            z = np.column_stack(columns)
            squares = row_by_row(z**2, np.ones((1, z.shape[1])))[:, 0]
            ratio = np.maximum(squares / coordinates.square, 1.0)
            weight = np.minimum(1 / np.sqrt(ratio), reach / ratio)
            yield part, z, weight
