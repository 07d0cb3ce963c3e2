"""Rows on a GPU: arrays of the array API stay where they are, and that library's products sum them.

A fit asks for sums alone, so nothing else of a record comes to the host. Some rows at a time become
float64, and are summed in the chunks of a fit in memory, whose sums are added up on the host.
`skdpdyn.rounding` states what that needs of a library: that a product rounds as a sum of float64
products does, in whatever order, and that a row's product has nothing of another row in it. One
that emulates float64, or mixes rows, would break it: so each fit looks at those of public numbers.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn import get_config

from skdpdyn.data.base import TargetsElsewhere, moment_chunk
from skdpdyn.data.local import allowance, mapping_terms
from skdpdyn.data.rows import ball_of
from skdpdyn.data.streamed import quietly, refuse
from skdpdyn.kernels.statistics import COUNTS, OUTER, SQUARES, Ball, Statistic
from skdpdyn.kernels.sums import Total

LEAST_NUMBERS = 1 << 22  # of rows that are float64 at a time
PARTS = 256  # of X, of which one is float64 at a time
_GRAIN = 2.0**30  # of numbers in [-1, 1], whose sums of 4,096 are exact then
_EPS = 2.3e-16
_FAILED = "the rows could not be summed on their device"


def on_device(X: Any) -> bool:
    """Return whether scikit-learn is to leave an array where it is, in a library but numpy's."""
    if not get_config()["array_api_dispatch"] or isinstance(X, np.ndarray | np.generic):
        return False
    return hasattr(X, "__array_namespace__") or _library(X) in ("torch", "cupyx")


def _library(array):
    return type(array).__module__.partition(".")[0]


def namespace(array: Any) -> Any:
    """Return the array API's functions for an array: numpy for its own."""
    if isinstance(array, np.ndarray | np.generic):
        return np
    try:
        from array_api_compat import array_namespace  # an extra
    except ImportError:
        raise ImportError(
            'arrays of other libraries need array-api-compat: pip install "skdpdyn[gpu]"'
        ) from None
    return array_namespace(array)


def to_host(array: Any) -> np.ndarray:
    """Return an array of any library and device as numpy's."""
    names = [name for name in ("get", "cpu", "asnumpy") if hasattr(array, name)]
    return np.asarray(getattr(array, names[0])() if names else array)


def on_host(array: Any) -> Any:
    """Return what `on_device` says to be elsewhere as an array of numpy, and all else as it is."""
    return to_host(array) if on_device(array) else array


def like(answer: np.ndarray, X: Any) -> Any:
    """Return numbers of numpy in the library and on the device of X; text stays where it is."""
    if answer.dtype.kind not in "biuf":
        return answer
    return namespace(X).asarray(answer, device=X.device)


class DeviceRows(TargetsElsewhere):
    """Rows in an array of the array API, with targets and exposures in others beside it.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        float64 or float32 rows, on a device that has float64.
    y : array of shape (n_samples,)
        Targets, in the same library and on the same device.
    exposure : array of shape (n_samples,) or None, default=None
        Exposures of counts, beside them.

    Raises
    ------
    ValueError
        If an array is of another kind, or elsewhere, or if products of the library do not round as
        sums of float64 products do.
    """

    is_sparse = False
    has_parts = False  # no sum stops within a chunk

    def __init__(self, X, y, exposure=None):
        _require(
            _library(X) not in ("cupyx", "sparse")
            and "sparse" not in str(getattr(X, "layout", "")),
            "X is a sparse tensor: pass X.to_dense(), or on the host a CSR array of scipy",
        )
        xp, device = namespace(X), X.device
        _require(
            "float64" in xp.__array_namespace_info__().dtypes(device=device),
            f"device {device} has no float64, in which rows are summed: pass them on the host",
        )
        _require(
            X.dtype in (xp.float32, xp.float64),
            f"X holds {X.dtype} on device {device}: pass xp.astype(X, xp.float32), in torch "
            "X.to(torch.float32), or float64",
        )
        _require(
            X.ndim == 2 and 0 not in X.shape,
            f"Expected 2D array, got an array of shape {tuple(X.shape)}: reshape X",
        )
        self._xp, self._device, self._X = xp, device, X
        self.shape = int(X.shape[0]), int(X.shape[1])
        self.dtype = np.dtype("float32" if X.dtype == xp.float32 else "float64")
        self.has_exposure = exposure is not None
        self._given = [_beside(X, y, "y")]
        if self.has_exposure:
            self._given.append(_beside(X, exposure, "exposure"))
        self._fine = [xp.all(self._here([1.0]) > 0)] * 2  # rows, targets: looked at when all are
        size = moment_chunk(*self.shape, False)
        quietly(self._check_products, size, next(self._parts(size)).stop, failed=_FAILED)

    def _check_products(self, size, n_rows):
        """Refuse products of another kind than sums of float64 products.

        Those of public numbers tell. The first row is 2^60 times the others, and counts 2^60 times
        less; all sums fit into a float64. TF32 and float32 lose the last digits; an emulation with
        one scale for several numbers loses what is small beside the largest; a product that mixes
        rows, as Strassen's, leaves digits of the first in others. And the bits must be the same
        twice.
        """
        xp, n_features, one = self._xp, self.shape[1], 1 + 1 / _GRAIN
        size, others = min(size, n_rows), self._here(np.arange(n_rows) > 0)
        weights = others + (1 - others) * 2.0**-60
        X, ones = one / weights[:, None] * self._here([[1.0] * n_features]), self._here([[1.0]])

        def products(X):
            chunks = xp.reshape(
                xp.concat([X, weights[:, None]], axis=1), (-1, size, n_features + 1)
            )
            outer = xp.matmul(xp.matrix_transpose(chunks), chunks)[:, :-1, -1]
            raw = xp.matmul(xp.zeros_like(X[:1, :]) + ones, X.T)
            return raw * weights, products_of_chunks(xp, weights[None, :], X, size), outer

        exact = n_features * one, size * one, size * one
        fine = [xp.all(of == sums) for of, sums in zip(products(X), exact, strict=True)]
        rough = xp.sin(X * self._here(np.arange(n_features) + 1.0))
        fine += [xp.all(a == b) for a, b in zip(products(rough), products(rough), strict=True)]
        _require(
            all(map(bool, fine)),
            f"products of {xp.__name__} on device {self._device} are no sums of float64 products, "
            "or not the same twice: switch its emulation of float64 off, or fit on the host",
        )

    def seen_targets(self, numeric: bool) -> np.ndarray:
        """Return the labels that occur, or the extremes of numbers: a leak, which fits warn of."""
        return quietly(self._seen_targets, numeric, failed=_FAILED)

    def _seen_targets(self, numeric):
        xp, y = self._xp, self._given[0]
        return to_host(xp.stack([xp.min(y), xp.max(y)]) if numeric else xp.unique_values(y))

    def allows_single(self, objective):
        """See `Rows.allows_single`: nothing is summed in single precision here."""
        return self.dtype == np.float64 and super().allows_single(objective)

    def open_sums(self, what) -> "_Sums":
        """See `Rows.open_sums`."""
        loss = what.objective.loss
        _require(
            loss.of_arrays is not None,
            f"the {loss.name} loss has no derivative for arrays on a device: give of_arrays to "
            "Loss, or pass rows on the host",
        )
        return quietly(_Sums, self, what, failed=_FAILED)

    def summed(self, statistic: Statistic) -> np.ndarray:
        """See `Rows.summed`."""
        size = moment_chunk(*self.shape, False)
        terms = (self._terms(statistic, part, size) for part in self._parts(size))
        sums = quietly(self._added, terms, failed=_FAILED)
        if statistic.what == OUTER:
            return np.triu(sums) + np.triu(sums, 1).T
        of_numbers = statistic.of == "targets" and statistic.what != COUNTS
        return sums.sum(keepdims=True) if of_numbers else sums

    def _added(self, stacks):
        """Return the sum of stacks of sums of chunks, added up in order, once all rows are fine."""
        total = None
        for stack in map(to_host, stacks):
            total = total or Total(stack.shape[1:])
            total.add_rows(np.ascontiguousarray(stack.reshape(len(stack), -1)))
        self._refuse_faults()
        return total.value()

    def _refuse_faults(self):
        """Refuse rows or targets of which one was found to be none."""
        if not bool(self._fine[0]):
            xp, columns = self._xp, np.ones(self.shape[1], bool)
            for part in self._parts(1):
                columns &= to_host(xp.all(xp.isfinite(self._X[part, ...]), axis=0))
            places = np.flatnonzero(~columns).tolist()
            _require(
                not places,
                f"columns {places} hold missing or infinite values. Fill them with public ones",
            )
            raise refuse(
                f"X holds rows whose norm exceeds {math.sqrt(ball_of(self).most):.2g}, the "
                f"largest that {self.dtype} can train on: rescale X"
            )
        if not bool(self._fine[1]):
            text = "y and exposure must hold finite numbers, exposure those > 0"
            try:
                self._encode(np.array([math.nan]))
            except ValueError as error:  # that of a target that no fit takes
                text = text if self.has_exposure else str(error)
            raise refuse(text)

    # --- some rows at a time ----------------------------------------------------------------------

    def _parts(self, size: int) -> Iterator[slice]:
        """Yield slices of whole chunks of some rows, and the last, shorter one by itself."""
        n_rows, n_features = self.shape
        numbers = max(LEAST_NUMBERS, n_rows * n_features // PARTS)
        step, whole = max(1, numbers // (size * n_features)) * size, n_rows - n_rows % size
        edges = sorted({*range(0, whole, step), whole, n_rows})
        yield from map(slice, edges[:-1], edges[1:])

    def _double(self, array):
        return self._xp.astype(array, self._xp.float64, copy=False)

    def _in_precision(self, numbers):
        return self._xp.astype(numbers, self._X.dtype, copy=False)

    def _here(self, numbers):
        """Return public numbers on the device."""
        return self._xp.asarray(np.array(numbers, np.float64), device=self._device)

    def with_rate(self, rate, unit):
        """See `Rows.with_rate`: of exposures of their own, see `_targets`."""
        return self._changed("with_rate", rate, unit)

    def _targets(self, part):
        """Return targets, exposures and weights of some rows, as `LocalRows` has them."""
        xp, given = self._xp, [one[part] for one in self._given]
        y = self._encode(xp.stack([*map(self._double, given)], axis=1) if given[1:] else given[0])
        self._fine[1] = self._fine[1] & xp.all(xp.isfinite(y))
        y = xp.where(xp.isfinite(y), y, xp.ones_like(y))  # refused, once all are looked at
        y, exposure = (y[:, 0], y[:, 1]) if y.ndim == 2 else (y, 1.0)
        y, weight = self._in_precision(y), 1.0
        for name, numbers in self._changes:
            if name == "weighted_by_class":
                weight = xp.take(self._here(numbers[0]), xp.astype(y, xp.int64))
                continue
            a, b = map(float, numbers)
            if name == "with_target":
                y = self._in_precision((self._double(y) - a) / b)
            else:
                y, exposure = self._in_precision(self._double(y) / a), exposure * a / b
        return self._double(y), exposure, weight

    def _mapped(self, X, row_map, radius):
        """Return the numbers of a map, each row's factor, W (factor x - centre), and its norm."""
        xp, squares = self._xp, self._xp.sum(X * X, axis=1)
        ball = Ball(*map(float, ball_of(self, radius) if row_map is None else row_map.ball(self)))
        self._fine[0] = self._fine[0] & xp.all(squares <= ball.most)
        factor = xp.ones_like(squares)
        if math.isfinite(ball.radius):
            factor = ball.radius / xp.clip(xp.sqrt(squares), ball.radius, None)
        rows = X * factor[:, None]
        if row_map is not None:
            rows = rows if row_map.centre is None else rows - self._here(row_map.centre)
            weights = self._here(row_map.weights)
            rows = rows * weights if row_map.is_diagonal else xp.matmul(rows, weights.T)
        return ball, factor, rows, xp.sqrt(xp.sum(rows * rows, axis=1))

    def factors(self, X, data_norm):
        """Return scale, offset (0 without a centre) and norm of rows, see `RowMap.factors`."""
        row_map, xp = self.map, self._xp
        ball, factor, _, length = self._mapped(X, row_map, data_norm)
        if row_map is None:
            return factor, 0.0, length
        divisor, error = xp.clip(length, ball.norm, None) / ball.shrink, float(row_map.error)
        told = length / divisor
        told = told * (1 + error) if row_map.is_exact else told + error
        return factor / divisor, 0.0 if row_map.centre is None else 1 / divisor, told

    def _terms(self, statistic, part, size):
        """Return the sums of each chunk of some rows."""
        xp, (y, exposure, weight) = self._xp, self._targets(part)
        size, weight = min(size, y.shape[0]), weight * xp.ones_like(y)
        if statistic.of == "targets":
            numbers = (y - float(statistic.centre)) * exposure
            length, numbers = xp.abs(numbers), xp.clip(numbers, -1.0, 1.0) * weight
            exact = xp.round(numbers * _GRAIN) / _GRAIN
            rows = xp.stack([exact, numbers - exact], axis=1)
            weight = weight if statistic.what == COUNTS else xp.ones_like(y)
        else:
            row_map = self.map if statistic.of == "mapped" else None
            X = self._double(self._X[part, ...])
            ball, _, rows, length = self._mapped(X, row_map, statistic.radius)
            if row_map is not None:
                rows = rows * (ball.shrink / xp.clip(length, ball.norm, None))[:, None]
        if statistic.what == COUNTS:  # of weights whose sums are exact, see `Rows.counts`
            rows = self._double(length[:, None] <= self._here(statistic.thresholds))
            weight = xp.floor(weight * statistic.grain) / statistic.grain
        if statistic.what != OUTER:
            rows = rows * rows if statistic.what == SQUARES else rows
            return products_of_chunks(xp, weight[None, :], rows, size)[:, 0, :]
        columns = [statistic.targets * xp.clip(y, -1.0, 1.0)[:, None]] if statistic.targets else []
        if statistic.constant:
            columns = [xp.ones_like(y)[:, None] * float(statistic.constant), *columns]
        rows = xp.concat([rows, *columns], axis=1)
        chunks = (xp.reshape(of, (-1, size, of.shape[1])) for of in (rows, rows * weight[:, None]))
        return xp.matmul(xp.matrix_transpose(next(chunks)), next(chunks))


class _Sums:
    """Sums of gradients over all rows, at one point after the other.

    A row counts as in `skdpdyn.data.local.BoundedRows`, whose numbers are on the device here.
    """

    def __init__(self, rows, what):
        self._rows, self._what, objective, room = rows, what, what.objective, 0.0
        self._slot, _ = what.family.layout(objective.n_outputs, rows.shape[1])
        self._size = int(rows.chunk_edges(what.n_chunks)[1])
        if objective.exact:
            growth, terms = rows.growth(objective), mapping_terms(rows)
            room = allowance(objective, np.float64, what.n_chunks, what.aligned, growth, terms)
        elif objective.contracts:
            objective = objective.unclamped()
        self._held = [self._bounded(part, objective, room) for part in rows._parts(self._size)]
        rows._refuse_faults()

    def close(self):
        """Let go of the numbers of rows."""
        self._held = []

    def _bounded(self, part, objective, room):
        """Return scales, offsets, limits, targets and weights of some rows."""
        rows, xp, largest = self._rows, self._rows._xp, float(np.finfo(self._rows.dtype).max)
        scale, offset, norms = rows.factors(rows._double(rows._X[part, ...]), objective.data_norm)
        y, exposure, weight = rows._targets(part)
        norms = xp.ones_like(norms) if rows.is_beside_long_column(objective) else norms
        norms = xp.sqrt(
            xp.clip(norms, None, objective.data_norm) ** 2 + objective.intercept_scaling**2
        )
        limit = float(objective.clip) / xp.clip(norms, 1e-300, None)
        limit = xp.clip(limit, None, float(objective.loss.lipschitz)) / exposure * (1 - room)
        # in the precision of X, rounded down
        rounded = rows._in_precision(xp.clip(limit, None, largest))
        lower = rows._in_precision(rows._double(rounded) * (1 - 2.0**-24))
        lower = xp.where(rows._double(lower) <= limit, lower, xp.zeros_like(lower))
        limit = xp.where(rows._double(rounded) <= limit, rounded, lower)
        return part, scale, offset, limit, rows._in_precision(y), weight * exposure

    def __call__(self, weights, intercept, shift):
        """Return the sum of all chunks, as kernels have it."""
        rows, n_outputs, what = self._rows, intercept.size, self._what
        places = self._slot[: n_outputs * rows.shape[1]]
        point = weights[places].reshape(n_outputs, -1), intercept[:, None], shift[:, None]
        point = [rows._here(numbers) for numbers in point]
        terms = (self._of_part(held, *point) for held in self._held)
        # all at once: the device goes on while the host asks for more
        found = quietly(lambda: rows._added([rows._xp.concat(list(terms))]), failed=_FAILED)
        sums = np.zeros(what.n_sums)
        sums[places] = found[:, :-2].ravel()
        scaled = found[:, -2] * what.objective.intercept_scaling
        sums[what.n_weights :] = np.concatenate([scaled, found[:, -1]])
        return sums

    def _of_part(self, held, coef, intercept, shift):
        """Return the sums of each chunk: of coefficients, of residuals, of these times offset."""
        part, scale, offset, limit, y, weight = held
        rows, xp, size = self._rows, self._rows._xp, min(self._size, scale.shape[0])
        X = rows._double(rows._X[part, ...])
        raw = xp.matmul(coef, X.T) * scale + intercept + shift * offset
        residual = self._clipped(raw, rows._double(y), rows._double(limit)) * weight
        columns = xp.stack([xp.ones_like(scale), offset + xp.zeros_like(scale)], axis=1)
        of_rows = products_of_chunks(xp, residual * scale, X, size)
        return xp.concat([of_rows, products_of_chunks(xp, residual, columns, size)], axis=2)

    def _clipped(self, raw, y, limit):
        """Return the residuals of some rows, clamped as kernels clamp them."""
        xp, derivative = self._rows._xp, self._what.objective.loss.of_arrays
        if raw.shape[0] == 1:
            residual = derivative(xp, raw[0, :], y)
            residual = xp.where(residual <= limit, residual, limit)  # NaN counts as the limit
            return xp.where(residual >= -limit, residual, -limit)[None, :]
        limit, residual = limit * (1 - (raw.shape[0] + 8) * _EPS), derivative(xp, raw, y)
        square = xp.sum(residual * residual, axis=0)
        factor = xp.where(square <= limit * limit, xp.ones_like(limit), limit / xp.sqrt(square))
        return xp.where(square < math.inf, residual * factor, xp.zeros_like(residual))


def products_of_chunks(xp, numbers, X, size):
    """Return each chunk's products of numbers with rows: (n_chunks, n_numbers, n_features)."""
    chunks = xp.reshape(numbers, (numbers.shape[0], -1, size))
    return xp.matmul(xp.permute_dims(chunks, (1, 0, 2)), xp.reshape(X, (-1, size, X.shape[1])))


def _require(condition, text):
    if not condition:
        raise refuse(text)


def _beside(X, array, name):
    """Return an array that is where X is, or refuse it by name."""
    xp, where = namespace(X), f"device {array.device}" if on_device(array) else "the host"
    _require(
        where == f"device {X.device}" and namespace(array) is xp,
        f"{name} is a {type(array).__name__} on {where}, and X a {type(X).__name__} on device "
        f"{X.device}: pass {name} = xp.asarray({name}, device=X.device), xp the library of X",
    )
    _require(
        tuple(array.shape) == tuple(X.shape[:1]),
        f"{name} has shape {tuple(array.shape)}: pass one number for each of {X.shape[0]} rows",
    )
    return array
