"""Train on collections of Dask, and predict where their rows are."""

from typing import Any

import dask.array
import distributed
import numpy as np
from scipy import sparse

from skdpdyn.data.cluster import is_collection
from skdpdyn.data.cluster.driver import ClusterRows, no_rows
from skdpdyn.data.cluster.worker import TableForm, names_of, types_of


def cluster_rows(
    X: Any, y: Any, numeric: bool, has_target: bool = True, exposure: Any = None
) -> ClusterRows:
    """Return the rows of a Dask array or frame; nothing is computed but unknown lengths.

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame
        Rows.
    y : dask.array.Array, dask.dataframe.Series or None
        Targets, in the same partitions.
    numeric : bool
        Whether targets are numbers.
    has_target : bool, default=True
        Whether there are targets.
    exposure : dask.array.Array, dask.dataframe.Series or None, default=None
        Exposures of counts, in the same partitions.

    Returns
    -------
    ClusterRows

    Raises
    ------
    ValueError, TypeError
        If X or y cannot be trained on where they are; the error says what to do.
    """
    return ClusterRows(Partitions(X, y, numeric, has_target, exposure))


def mapped(function: Any, X: Any) -> Any:
    """Return a Dask array of a function's results on rows, partition by partition.

    Parameters
    ----------
    function : callable
        Takes rows, and returns an array with an answer for each.
    X : dask.array.Array or dask.dataframe.DataFrame
        Rows.

    Returns
    -------
    dask.array.Array
    """
    sample = function(example(X))
    lengths = (np.nan,) * X.npartitions if _is_frame(X) else X.chunks[0]

    def answers(rows):
        return function(rows) if rows.shape[0] else sample[:0]

    blocks = [
        dask.array.from_delayed(
            dask.delayed(answers, pure=False)(block), (n_rows, *sample.shape[1:]), meta=sample[:0]
        )
        for block, n_rows in zip(_blocks(X), lengths, strict=True)
    ]
    return dask.array.concatenate(blocks, allow_unknown_chunksizes=True)


def _blocks(collection):
    """Return the partitions of a collection.

    Steps are not fused, which would give them other names in each collection: what X and y both
    rest on would run once for each of them, and a shuffle may be another one then.
    """
    if _is_frame(collection):
        collection = collection.optimize(fuse=False)
    return list(np.ravel(np.array(collection.to_delayed(optimize_graph=False), dtype=object)))


def _is_frame(X):
    return hasattr(X, "dtypes")


def example(X: Any) -> Any:
    """Return a few rows that have the form of those of X."""
    _check_form(X)
    if _is_frame(X):
        return X._meta_nonempty.iloc[:1]  # the second row of nullable columns is missing
    rows = np.zeros((1, X.shape[1]), X.dtype)
    return sparse.csr_array(rows) if sparse.issparse(X._meta) else rows


def _check_form(X):
    """Refuse collections without rows in partitions."""
    if getattr(X, "ndim", None) != 2 or not hasattr(X, "npartitions"):
        raise ValueError(f"X is a Dask {type(X).__name__}: pass an array or a frame of two axes")
    if not _is_frame(X) and X.numblocks[1] != 1:
        raise ValueError(
            f"X has {X.numblocks[1]} blocks of columns. Bring its columns together, by "
            "X.rechunk({1: -1})"
        )


def _dtype(X):
    """Return the precision that a local fit would take; refuse columns that are not numbers."""
    dtypes = dict(X.dtypes) if _is_frame(X) else {None: X.dtype}
    kinds = {name: getattr(dtype, "kind", "O") for name, dtype in dtypes.items()}
    if "c" in kinds.values():
        raise ValueError("Complex data not supported. Real numbers are needed")
    if others := [name for name, kind in kinds.items() if kind not in "biuf"]:
        of_array = others == [None]
        named = [f"{'' if of_array else repr(name)} ({dtypes[name]})" for name in others]
        raise ValueError(
            f"X holds columns that are not numbers: {', '.join(named)}. Encode them, by "
            "X.map_partitions(encoder.transform) for one"
        )
    common = np.result_type(*[getattr(dtype, "numpy_dtype", dtype) for dtype in dtypes.values()])
    return "float32" if common == np.float32 else "float64"


def _lengths(X):
    """Return the number of rows of each partition, which is public; computed if Dask knows none."""
    if not _is_frame(X) and not np.isnan(X.shape[0]):
        return list(X.chunks[0])
    try:
        return list(dask.compute(*(dask.delayed(_n_rows)(block) for block in _blocks(X))))
    except Exception as error:
        failure = no_rows(error)
    raise failure


def _n_rows(block):
    return int(block.shape[0])


class Partitions:
    """The partitions of a collection that have rows, and the facts a worker needs of them.

    Attributes
    ----------
    client : distributed.Client
        Of the cluster that has them.
    X : collection
        The rows.
    form : TableForm
        Properties that all rows must have.
    feature_names : list or None
        Names of columns, where they have some.
    lengths : list of int
        Rows of each partition.
    blocks : list of tuple
        What a worker loads for each partition, rows and targets.
    """

    def __init__(self, X, y, numeric, has_target, exposure):
        self.client = _client()
        _check_form(X)
        dtype = _dtype(X)
        n_features = X.shape[1]
        if n_features == 0:
            raise ValueError("Found array with 0 feature(s): at least one column is needed")
        self.X = X
        self.feature_names = list(X.columns) if _is_frame(X) else None
        lengths = _lengths(X)
        targets = {"y": y} if has_target else {}
        if exposure is not None:
            targets["exposure"] = exposure
        columns = [_in_partitions(name, part, lengths) for name, part in targets.items()]
        self.form = TableForm(
            n_features=n_features,
            dtype=dtype,
            names=names_of(X),
            dtypes=tuple(map(types_of, (X, *columns))),
            is_sparse=sparse.issparse(X._meta),
            numeric=numeric,
            n_targets=len(columns),
        )
        parts = zip(*map(_blocks, [X, *columns]), strict=True)
        self.blocks = [part for part, n_rows in zip(parts, lengths, strict=True) if n_rows]
        self.lengths = [n_rows for n_rows in lengths if n_rows]


def _in_partitions(name, y, lengths):
    """Return targets, or other values of each row, in the partitions of X."""
    if y is None:
        raise ValueError(f"{name}=None: X is a Dask collection. Pass its targets as another one")
    if not is_collection(y):
        raise TypeError(
            f"X is a Dask collection, and {name} is not. Pass {name} in the partitions of X, by "
            f"dask.array.from_array({name}, chunks=(X.chunks[0],)) for one"
        )
    if getattr(y, "ndim", None) != 1:
        raise ValueError(f"{name} should be a 1d array or a series of Dask: take one column of it")
    if _is_frame(y) or not hasattr(y, "chunks") or np.isnan(y.shape[0]):
        same = y.npartitions == len(lengths)
    else:
        same = y.shape[0] == sum(lengths)
        y = y.rechunk((tuple(lengths),)) if same and y.chunks[0] != tuple(lengths) else y
    if not same:
        raise ValueError(
            f"{name} is not in the {len(lengths)} partitions of X. Make both from one collection"
        )
    return y


def _client():
    """Return the active client of a cluster."""
    try:
        client = distributed.default_client()
    except ValueError:
        client = None
    if client is None:
        raise ValueError(
            "X is a Dask collection, and no cluster is connected. Connect to yours, or begin one "
            "here, by client = distributed.Client()"
        )
    if client.asynchronous:
        raise ValueError("the active Dask client is asynchronous: fit takes one that is not")
    return client
