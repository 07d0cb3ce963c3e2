"""Reading: X, y, groups and exposure become rows that a fit sums, and the target."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import is_regressor

from skdpdyn.data.base import Rows
from skdpdyn.data.cluster import is_collection
from skdpdyn.data.local import LocalRows, rows_of
from skdpdyn.data.persons import person_codes
from skdpdyn.data.rows import arrays_of, canonical_rows
from skdpdyn.data.streamed import StreamedRows
from skdpdyn.kernels.sums import fingerprint, finite_fingerprint
from skdpdyn.training.additive import Table, read_table, streamed_table
from skdpdyn.training.base import DTYPES, kinds_of, validated
from skdpdyn.training.parameters import most_rows_of, weights_of
from skdpdyn.training.targets import Target, as_labels, exposures
from skdpdyn.training.values import Facts, Form

_CHANGED = (
    "the data changed during the fit: X, y or what goes with them was written to, or was computed "
    "anew with other values. Nothing was learnt. Fit again, on data that nobody changes"
)


class Originals:
    """Arrays that a fit reads several times, and fingerprints of the first reading.

    Factors and limits bound the rows that they were computed from. If another thread or process
    writes to a row in the middle of a fit, they bound it no more.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.training.reading import Originals
    >>> X = np.zeros((3, 2))
    >>> originals = Originals()
    >>> originals.add(X)
    >>> originals.changed()
    False
    >>> X[2, 1] = 1e6
    >>> originals.changed()
    True
    """

    def __init__(self) -> None:
        self._as_read: list[tuple[np.ndarray, int]] = []

    def add(self, *given: Any) -> None:
        """Take up arrays; others, such as lists and arrays of objects, are read once."""
        for rows in given:
            array = _array_of(rows)
            if array is not None and not array.dtype.hasobject:
                self._as_read.append((array, fingerprint(array)))

    def add_finite(self, *arrays: np.ndarray) -> bool:
        """Take up arrays of floats or integers, if all numbers are finite; return whether so."""
        for array in arrays:
            digest = finite_fingerprint if array.dtype.kind == "f" else fingerprint
            found = digest(array)
            if found is None:
                return False
            self._as_read.append((array, found))
        return True

    def changed(self) -> bool:
        """Return whether an array is not as it was at first; a change undone is not seen."""
        return any(fingerprint(array) != found for array, found in self._as_read)


def _array_of(given):
    """Return a value as an array; None if it cannot be one: whoever reads it says why."""
    try:
        return np.asarray(given) if hasattr(given, "__array__") else None
    except Exception:  # its text may quote a record
        return None


@dataclass(frozen=True)
class Beside:
    """Arguments of a fit beside X and y.

    Attributes
    ----------
    groups, unit : array-like or None, str or None
        Id of each row's person, and what they are ids of.
    equal_rows : bool
        Whether all rows of persons weigh the same, not 1/k.
    exposure, weight : array-like or None
        Exposure and weight of each row.
    """

    groups: Any = None
    unit: str | None = None
    equal_rows: bool = False
    exposure: Any = None
    weight: Any = None


@dataclass(frozen=True)
class Reading:
    """Checked data as they were read, before their facts are complete.

    Attributes
    ----------
    X : ndarray, CSR array, Table or Rows
        Rows in memory, the columns of an additive model, or a source of rows.
    y : ndarray of shape (n_rows,) or None
        Targets; None where a source has them.
    exposure : array-like or None
        Exposure of each row in memory.
    persons : ndarray of shape (n_rows,) or None
        Number of each row's person; None: every row is a record.
    equal_rows : bool
        Whether all rows of persons weigh the same, not 1/k.
    weights : ndarray of shape (n_rows,) or None
        Weights of rows, in [0, 1]; None: they were given none.
    most_rows : int
        Public bound on the rows of a record, which sums leave room for.
    kinds : tuple of str or None
        What columns of rows in memory hold; None: numbers, or a Table says.
    """

    X: Any
    y: np.ndarray | None = None
    exposure: Any = None
    persons: np.ndarray | None = None
    equal_rows: bool = False
    weights: np.ndarray | None = None
    most_rows: int = 1
    kinds: tuple[str, ...] | None = None

    @property
    def elsewhere(self) -> bool:
        """Whether rows come from a source."""
        return isinstance(self.X, Rows)

    @property
    def shape(self) -> tuple[int, int]:
        """Public numbers of records and columns."""
        n_rows, n_features = self.X.shape
        return n_rows if self.persons is None else int(self.persons.max()) + 1, n_features

    @property
    def form(self) -> Form:
        """Return the public facts of the form of the data, beside their shape."""
        elsewhere = self.elsewhere
        return Form(
            self.X.is_sparse if elsewhere else sparse.issparse(self.X),
            self.X.has_exposure if elsewhere else self.exposure is not None,
            elsewhere and not self.X.draws,
            self.X.columns if isinstance(self.X, Table) else None,
            ("b" if self.X.has_flags else "i") if self.y is None else self.y.dtype.kind,
            self.equal_rows,
            self.kinds,
        )

    def target(self, model: Any, facts: Facts) -> Target:
        """Return the targets as the loss takes them, once their facts are complete."""
        y = None if self.elsewhere else self.y
        return model.family.targets.encoded(model, y, self.exposure, facts)

    def rows(self, encode: Callable[[Any], Any] | None = None, X: Any = None) -> Rows:
        """Return rows whose targets a function makes of y; None: no sum asks for targets.

        ``X``: other rows in memory, of the same records. Of a table rows have no columns.
        """
        if self.elsewhere:
            return self._from_source(no_targets if encode is None else encode)
        return self._in_memory(X, None if encode is None else encode(self.y))

    def learnt_rows(self, target: Target, X: Any = None) -> Rows:
        """Return rows with targets and exposures as the loss takes them; ``X`` as in `rows`."""
        if self.elsewhere:
            return self._from_source(target.encode)
        return self._in_memory(X, target.values, target.exposure)

    def _from_source(self, encode):
        rows = self.X.with_targets(encode)
        rows.most_rows = self.most_rows  # leaves as much room as an array: same bits
        return rows

    def _in_memory(self, X, y, exposure=None):
        X = self.X if X is None else X
        if isinstance(X, Table):  # a stand-in of zeros, which takes no memory
            X = np.broadcast_to(np.zeros((1, 1)), (len(X), 1))
        persons = self.persons, self.most_rows
        return rows_of(X, y, *persons, exposure, self.equal_rows, weight=self.weights)


def no_targets(y: Any) -> np.ndarray:
    """Return a target for each row that no sum asks for; none where rows have none."""
    return np.zeros(0 if y is None else len(y))


@contextmanager
def read(model: Any, X: Any, y: Any, beside: Beside) -> Iterator[Reading]:
    """Yield the data of an estimator, checked; errors quote no record.

    Sets what scikit-learn's validation sets of columns on the estimator. At the end, refuses data
    that changed in between, also weights, and frees the resources of a source of rows.
    """
    originals = Originals()
    groups = beside.groups
    exposure = beside.exposure
    elsewhere = type(X) is not np.ndarray and (is_collection(X) or isinstance(X, Rows))
    expands = model.family.expand is not None
    kinds = None
    if expands and elsewhere and not isinstance(X, StreamedRows):
        raise TypeError(
            f"{type(model).__name__} takes arrays and frames in memory, and rows that are read in "
            f"order such as ParquetRows, and X is a {type(X).__name__}"
        )
    if elsewhere and is_collection(X):
        from skdpdyn.data.cluster.dask import cluster_rows  # an extra, and slow to load

        X = cluster_rows(X, y, is_regressor(model), exposure=exposure)
        y = None
        exposure = None
    if isinstance(X, Rows):
        _refuse_beside(model, X, y, groups, exposure)
        y = None
        if expands:
            X, y, exposure = _streamed_table(model, X)
    else:
        given = X
        X, y, exposure = _arrays(model, given, y, exposure, originals)
        kinds = None if expands else kinds_of(model, given)
    with closing(X) if isinstance(X, Rows) else nullcontext():
        weights = _weights(model, beside.weight, X)
        codes = None if groups is None else person_codes(groups, X.shape[0])
        originals.add(groups, beside.weight)
        if not elsewhere:  # workers compare theirs, and a collection would be computed again
            originals.add(beside.exposure)
        reading = Reading(X, y, exposure, codes, beside.equal_rows, weights, kinds=kinds)
        yield replace(reading, most_rows=most_rows_of(model, reading.shape[0]))
        if originals.changed() or (isinstance(X, Rows) and X.changed()):
            raise ValueError(_CHANGED)


def _weights(model, sample_weight, X):
    """Return weights of rows, which a source of rows does not take."""
    weights = weights_of(model, sample_weight, X.shape[0])
    if weights is not None and isinstance(X, Rows):
        raise ValueError("sample_weight needs all rows in memory: pass arrays, or no weights")
    return weights


def _refuse_beside(model, X, y, groups, exposure):
    """Refuse a source of rows that cannot be fitted with, or arguments beside it."""
    name = type(X).__name__
    if y is not None:
        raise ValueError(f"y must be None: X is a {name}, which has targets")
    if groups is not None:
        raise ValueError(f"groups needs all rows in memory, and X is a {name}. Use groups=None")
    if exposure is not None:
        raise ValueError(
            f"exposure must be None: X is a {name}, which has exposures beside its targets"
        )
    if X.has_exposure and not model.family.targets.takes_exposure:
        raise ValueError(
            f"X has exposures, and {type(model).__name__} takes none. Use PrivatePoissonRegressor"
        )
    if isinstance(X, LocalRows):
        raise TypeError(f"X is a {name}: pass arrays that are in memory as X and y")
    _know_columns(model, X.shape[1], getattr(X, "feature_names", None))


def _arrays(model, X, y, exposure, originals):
    """Return rows in memory, their targets, and exposures beside them."""
    y = as_labels(y, getattr(model, "classes", None))
    if model.family.expand is not None:
        originals.add(y)
        return _table(model, X, y, exposure)
    if _are_plain(X, y, originals):
        _know_columns(model, X.shape[1], None)
    else:
        options = {"dtype": DTYPES, "order": "C", "y_numeric": is_regressor(model)}
        X, y = validated(model, X, y, accept_sparse="csr", **options)
        X = canonical_rows(X)
        originals.add(*arrays_of(X), y)
    return X, model.family.targets.read(y), _exposures(exposure, y)


def _are_plain(X, y, originals):
    """Return whether scikit-learn's validation, which takes 0.5 ms, leaves arrays as they are."""
    arrays = type(X) is type(y) is np.ndarray and X.shape[:1] == y.shape and X.ndim == 2
    numbers = arrays and X.size and X.dtype in DTYPES and X.flags.c_contiguous
    return bool(
        numbers and (y.dtype in DTYPES or y.dtype.kind in "biu") and originals.add_finite(X, y)
    )


def _table(model, X, y, exposure):
    """Return the columns of an additive model, and the targets."""
    table = read_table(model, X)
    columns = model.n_features_in_, getattr(model, "feature_names_in_", None)
    y = _targets(model, table.shape[0], y)
    _know_columns(model, *columns)
    return table, model.family.targets.read(y), _exposures(exposure, y)


def _streamed_table(model, source):
    """Return the columns of a source of rows, its targets, and its exposures."""
    table, y = streamed_table(model, source)
    y, exposure = (y[:, 0], y[:, 1]) if source.has_exposure else (y, None)
    y = _targets(model, len(table), as_labels(y, getattr(model, "classes", None)))
    _know_columns(model, source.shape[1], source.feature_names)
    return table, model.family.targets.read(y), _exposures(exposure, y)


def _exposures(exposure, y):
    """Return checked exposures, one a row; None where none were given."""
    return None if exposure is None else exposures(exposure, y)


def _targets(model, n_rows, y):
    """Return checked targets, one a row."""
    # what stands in for X takes no memory
    placeholder = np.broadcast_to(np.zeros(1), (n_rows, 1))
    _, y = validated(model, placeholder, y, dtype=DTYPES, y_numeric=is_regressor(model))
    return y


def _know_columns(model, n_features, names):
    """Set the attributes that scikit-learn's validation sets for rows in memory."""
    model.n_features_in_ = n_features
    vars(model).pop("feature_names_in_", None)
    if names is not None:
        model.feature_names_in_ = np.asarray(names, dtype=object)
