"""Reading: X, y, groups and exposure become rows that a fit sums, and the target."""

from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import is_regressor

from skdpdyn.data.base import Rows
from skdpdyn.data.cluster import is_collection
from skdpdyn.data.coded import Coded
from skdpdyn.data.local import LocalRows, rows_of
from skdpdyn.data.persons import person_codes
from skdpdyn.data.rows import arrays_of, canonical_rows
from skdpdyn.data.streamed import StreamedRows
from skdpdyn.training.additive import read_cells, streamed_cells
from skdpdyn.training.base import DTYPES, validated
from skdpdyn.training.originals import Originals
from skdpdyn.training.targets import Target, as_labels
from skdpdyn.training.values import DataFacts

_CHANGED = (
    "the data changed during the fit: X, y or what goes with them was written to, or was computed "
    "anew with other values. Nothing was learnt. Fit again, on data that nobody changes"
)


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
    """Checked rows with their targets, before a fit asks for sums over them.

    Attributes
    ----------
    X : ndarray, CSR array or Rows
        Rows in memory, or a source of rows.
    target : Target
        The targets.
    persons : ndarray of shape (n_rows,) or None
        Number of each row's person; None: every row is a record.
    equal_rows : bool
        Whether all rows of persons weigh the same, not 1/k.
    weights : ndarray of shape (n_rows,) or None
        Weights of rows, in [0, 1]; None: they were given none.
    """

    X: Any
    target: Target
    persons: np.ndarray | None
    equal_rows: bool = False
    weights: np.ndarray | None = None

    @property
    def elsewhere(self) -> bool:
        """Whether rows come from a source."""
        return isinstance(self.X, Rows)

    @property
    def columns(self) -> Any:
        """Public facts of the columns of an additive model; None for others."""
        return self.X.expansion.columns if isinstance(self.X, Coded) else None

    @property
    def shape(self) -> tuple[int, int]:
        """Public numbers of records and columns."""
        n_rows, n_features = self.X.shape
        n_features = n_features if self.columns is None else len(self.columns)
        return n_rows if self.persons is None else int(self.persons.max()) + 1, n_features

    @property
    def facts(self) -> DataFacts:
        """Return the public facts of the data beside their shape."""
        elsewhere = self.elsewhere
        return DataFacts(
            self.target.loss,
            self.X.is_sparse if elsewhere else sparse.issparse(self.X),
            (self.X if elsewhere else self.target).has_exposure,
            elsewhere and not self.X.draws,
            self.columns,
            self.target.bought,
        )

    def rows(self, most_rows: int) -> Rows:
        """Return the rows with the targets as the loss takes them."""
        target = self.target
        if not self.elsewhere:
            return rows_of(
                self.X,
                target.values,
                self.persons,
                most_rows,
                exposure=target.exposure,
                equal=self.equal_rows,
                weight=self.weights,
            )
        rows = self.X.with_targets(target.encode)
        rows.most_rows = most_rows  # leaves as much room as an array: same bits
        return rows


@contextmanager
def read(
    model: Any, X: Any, y: Any, groups: Any, exposure: Any, weight: Any = None
) -> Iterator[Reading]:
    """Yield the data of an estimator, checked; errors quote no record.

    Sets what scikit-learn's validation sets of columns on the estimator. At the end, refuses data
    that changed in between, also weights, and frees the resources of a source of rows.
    """
    originals = Originals()
    elsewhere = type(X) is not np.ndarray and (is_collection(X) or isinstance(X, Rows))
    expands = model.family.expand is not None
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
        target = _source(model, X, y, groups, exposure)
        if expands:
            X, target = _streamed_cells(model, X)
    else:
        X, target = _arrays(model, X, y, exposure, originals)
    with closing(X) if isinstance(X, Rows) else nullcontext():
        codes = None if groups is None else person_codes(groups, X.shape[0])
        originals.add(groups, exposure, weight)
        yield Reading(X, target, codes)
        if originals.changed() or (isinstance(X, Rows) and X.changed()):
            raise ValueError(_CHANGED)


def _source(model, X, y, groups, exposure):
    """Return the target of a source of rows; refuse arguments that it cannot be fitted with."""
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
    target = model.family.targets.read(model, None)
    _know_columns(model, X.shape[1], getattr(X, "feature_names", None))
    return target


def _arrays(model, X, y, exposure, originals):
    """Return rows in memory and the target."""
    y = as_labels(y, getattr(model, "classes", None))
    if model.family.expand is not None:
        originals.add(y)
        return _cells(model, X, y, exposure)
    if _are_plain(X, y, originals):
        _know_columns(model, X.shape[1], None)
    else:
        options = {"dtype": DTYPES, "order": "C", "y_numeric": is_regressor(model)}
        X, y = validated(model, X, y, accept_sparse="csr", **options)
        X = canonical_rows(X)
        originals.add(*arrays_of(X), y)
    target = model.family.targets.read(model, y, exposure)
    if target.values is None:
        return X, target
    return X, replace(target, values=target.values.astype(X.dtype, copy=False))


def _are_plain(X, y, originals):
    """Return whether scikit-learn's validation, which takes 0.5 ms, leaves arrays as they are."""
    arrays = type(X) is type(y) is np.ndarray and X.shape[:1] == y.shape and X.ndim == 2
    numbers = arrays and X.size and X.dtype in DTYPES and X.flags.c_contiguous
    return bool(
        numbers and (y.dtype in DTYPES or y.dtype.kind in "biu") and originals.add_finite(X, y)
    )


def _cells(model, X, y, exposure):
    """Return rows as cells of public tables, and the target."""
    cells = read_cells(model, X, reset=True)
    columns = model.n_features_in_, getattr(model, "feature_names_in_", None)
    y = _targets(model, cells.shape[0], y)
    _know_columns(model, *columns)
    return cells, model.family.targets.read(model, y, exposure)


def _streamed_cells(model, source):
    """Return the rows of a source as cells, which stay in memory, and the target."""
    cells, y = streamed_cells(model, source)
    y, exposure = (y[:, 0], y[:, 1]) if source.has_exposure else (y, None)
    y = _targets(model, len(cells), as_labels(y, getattr(model, "classes", None)))
    _know_columns(model, source.shape[1], source.feature_names)
    return cells, model.family.targets.read(model, y, exposure)


def _targets(model, n_rows, y):
    """Return checked targets, one a row."""
    # what stands in for X takes no memory
    stand_in = np.broadcast_to(np.zeros(1), (n_rows, 1))
    _, y = validated(model, stand_in, y, dtype=DTYPES, y_numeric=is_regressor(model))
    return y


def _know_columns(model, n_features, names):
    """Set the attributes that scikit-learn's validation sets for rows in memory."""
    model.n_features_in_ = n_features
    vars(model).pop("feature_names_in_", None)
    if names is not None:
        model.feature_names_in_ = np.asarray(names, dtype=object)
