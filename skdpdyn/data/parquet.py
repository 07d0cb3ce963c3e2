"""Rows of Parquet files and of pyarrow data sets of files, a portion at a time."""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np

from skdpdyn.core.columns import DATE, FLAG, NUMBER, kind_of, numbers_in
from skdpdyn.core.expansion import Levels
from skdpdyn.data.files import ArrayFile
from skdpdyn.data.streamed import CodedLabels, StreamedRows, refuse
from skdpdyn.exceptions import optional
from skdpdyn.privacy.checks import quoted

_PORTION_BYTES = 1 << 22
_MOST_ROWS = 1 << 15  # most rows of a portion
MOST_SCRATCH = 1 << 34  # most bytes of decoded rows that are kept in a file


class ParquetRows(StreamedRows):
    """Rows of Parquet files, or of a pyarrow data set of files, read in every pass.

    Pass it to ``fit`` in place of X and y. The same bits are learnt as from an array of the same
    numbers, and memory holds a few portions of rows, and of each row its target and what training
    keeps of it, some 80 bytes. Files are decoded once: later passes read rows from a temporary file
    without a name, which is gone when this object is, if it takes 16 GiB at most and the disk
    (``TMPDIR``) has room. Columns of numbers are taken as they are, booleans as 0 and 1, and other
    columns become one column of 0 and 1 for each of their categories. These are public: they are
    never looked for in the records.

    Parameters
    ----------
    source : path, list of paths or pyarrow Dataset
        A Parquet file, a folder of them (also a partitioned one), or a data set of files. The
        number of rows is read from it, and is public. With a filter, the number of remaining rows
        is public.
    target : str
        Name of the target's column.
    columns : sequence of str or None, default=None
        Names of the columns to learn from, in order. None: all but the target and the exposure.
    categories : mapping from str to sequence or None, default=None
        Values that a column may have, by its name; of others all columns are 0.
    exposure : str or None, default=None
        Name of the column of exposures, where the target is a count, for
        `skdpdyn.PrivatePoissonRegressor`.

    Attributes
    ----------
    shape : tuple of int
        Number of rows, and of columns once there is one for each category.
    dtype : dtype
        float32 where all numbers fit into it: float32 columns, with booleans, categories and
        integers of 16 bits or less beside them. Otherwise float64.
    feature_names : list of str
        Names of the columns: those of categories are like ``"colour_red"``.

    Raises
    ------
    ImportError
        If pyarrow is not installed.
    TypeError
        If ``source`` is something else.
    ValueError
        If a file cannot be opened or lacks a column, or a column is neither of numbers nor has
        categories.

    See Also
    --------
    skdpdyn.data.streamed.StreamedRows : To read rows from elsewhere.

    Notes
    -----
    A fit is refused, and nothing learnt, if a value is missing, or if the files change between the
    moment that this object is made and the end of the fit. The temporary file holds records as they
    are, readable by this process alone.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import pyarrow as pa
    >>> from pyarrow import parquet
    >>> from skdpdyn import PrivateLogisticRegression
    >>> from skdpdyn.data import ParquetRows
    >>> x = np.random.default_rng(0).uniform(-1, 1, 5000).astype(np.float32)
    >>> table = pa.table({"x": x, "colour": np.where(x > 0, "red", "blue"), "y": x > 0.1})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     parquet.write_table(table, f"{folder}/part-0.parquet")
    ...     rows = ParquetRows(folder, target="y", categories={"colour": ["blue", "red"]})
    ...     model = PrivateLogisticRegression(epsilon=1.0, classes=[False, True]).fit(rows)
    >>> model.feature_names_in_.tolist(), model.coef_.dtype.name, model.n_samples_
    (['x', 'colour_blue', 'colour_red'], 'float32', 5000)
    """

    def __init__(
        self,
        source: Any,
        target: str,
        columns: Sequence[str] | None = None,
        categories: Mapping[str, Sequence] | None = None,
        exposure: str | None = None,
    ) -> None:
        self._dataset = _quietly(_opened, source)
        self._decoded = _Decoded()
        self._state = self._files()
        schema = self._dataset.schema
        self.has_exposure = exposure is not None
        self.has_flags = target in schema.names and str(schema.field(target).type) == "bool"
        targets = [target, exposure] if exposure is not None else [target]
        others = [name for name in schema.names if name not in targets]
        names = others if columns is None else columns
        names = [names] if isinstance(names, str) else list(names)
        _check_names(schema, names, targets, categories or {})
        _check_columns(self._dataset, [*names, *targets])
        categories = categories or {}
        self._columns = [_column(schema.field(name), categories.get(name)) for name in names]
        self._targets = targets
        self._names = [*names, *targets]
        dtype = np.result_type(*(column.dtype for column in self._columns))
        feature_names = [name for column in self._columns for name in column.feature_names]
        super().__init__(
            (_quietly(self._dataset.count_rows), len(feature_names)),
            "float32" if dtype == np.float32 else "float64",
            feature_names,
        )

    def __repr__(self) -> str:
        """Return the number of rows and of columns, which are public, and the target."""
        shape = f"{self.shape[0]} x {self.shape[1]}"
        return f"ParquetRows(target={self._targets[0]!r}) of {shape} {self.dtype}"

    def read(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield all rows and their targets in order, some at a time: for predictions, for one.

        Yields
        ------
        X : ndarray of shape (n_rows, n_features)
            Some rows.
        y : ndarray of shape (n_rows,), or (n_rows, 2) with an exposure
            Their targets.
        """
        for X, y in self._source(None):
            yield X, y.values[y.codes] if isinstance(y, CodedLabels) else y

    def _source(self, edges):
        """See `StreamedRows`: labels of text or categories are told once a portion."""
        self._refuse_changes()
        if self._decoded.X is None:
            yield from self._decoded.stored(self._decode(), self.shape, self.dtype)
        else:
            yield from self._decoded.portions(edges)
        self._refuse_changes()

    def _decode(self):
        row_bytes = self.shape[1] * self.dtype.itemsize
        n_rows = max(1, min(_MOST_ROWS, _PORTION_BYTES // row_bytes))
        with closing(batches_of(self._dataset, self._names, n_rows)) as batches:
            try:
                for batch in batches:
                    yield self._portion(batch)
            except (OSError, ValueError):  # pyarrow raises both, for changed files too
                self._refuse_changes()
                raise

    def _files(self):
        """Return name, size and time of change of each file."""
        files = self._dataset.filesystem.get_file_info(self._dataset.files)
        return [(file.path, file.type, file.size, file.mtime_ns) for file in files]

    def _refuse_changes(self):
        """Refuse files that have changed since they were opened."""
        if self._files() != self._state:
            raise refuse("a file changed after it was opened: open it anew, and fit again")

    def _portion(self, batch):
        """Return some rows as numbers, and their targets."""
        X = np.empty((batch.num_rows, self.shape[1]), self.dtype)
        first = 0
        for column in self._columns:
            last = first + len(column.feature_names)
            values = _present(batch.column(column.name), column.name)
            column.write(values, X[:, first:last])
            first = last
        y = [_target(_present(batch.column(name), name)) for name in self._targets]
        return X, np.column_stack(y) if self.has_exposure else y[0]


class _Decoded:
    """Rows that were decoded, in a temporary file without a name; copies of a source share it."""

    def __init__(self):
        self.X: Any = None  # once a whole pass was written
        self._y: Any = None

    def __reduce__(self):
        return _Decoded, ()

    def stored(self, portions, shape, dtype):
        """Yield portions, and write them down where there is room."""
        targets = []
        file = _scratch(shape[0] * shape[1] * dtype.itemsize)
        with closing(portions), file or nullcontext():
            for X, y in portions:
                if file is not None and not written(file, X):
                    file = None
                targets.append(y)
                yield X, y
            if file is not None and sum(map(len, map(_places, targets))) == shape[0]:
                self._y = _joined(targets)
                self.X = ArrayFile(file.fileno(), shape, dtype)

    def portions(self, edges):
        """Yield rows between edges, with their targets."""
        n_rows = self.X.shape[0]
        edges = [*range(0, n_rows, _MOST_ROWS), n_rows] if edges is None else edges
        for first, last in pairwise(edges):
            part = slice(first, last)
            y = self._y
            y = CodedLabels(y.values, y.codes[part]) if isinstance(y, CodedLabels) else y[part]
            yield self.X.part(first, last), y


def _scratch(n_bytes):
    """Return an open file without a name, or None where there is to be none."""
    try:
        fits = n_bytes <= MOST_SCRATCH and hasattr(os, "preadv")
        return tempfile.TemporaryFile(buffering=0) if fits else None
    except OSError:
        return None


def written(file, X):
    """Return whether rows could be written: a full disk is none of a fit's business."""
    todo = memoryview(np.ascontiguousarray(X)).cast("B")
    try:
        while todo:
            todo = todo[file.write(todo) :]
    except OSError:
        return False
    return True


def _places(y):
    return y.codes if isinstance(y, CodedLabels) else y


def _joined(targets):
    """Return the targets of all portions as one."""
    if not targets or not isinstance(targets[0], CodedLabels):
        return np.concatenate(targets)
    places: dict = {}
    codes = [
        np.array([places.setdefault(value, len(places)) for value in y.values], np.intp)[y.codes]
        for y in targets
    ]
    values = np.empty(len(places), dtype=object)
    values[:] = list(places)
    return CodedLabels(values, np.concatenate(codes).astype(np.min_scalar_type(len(places))))


# --- columns --------------------------------------------------------------------------------------


class _Numbers:
    """A column of numbers or booleans."""

    def __init__(self, field, dtype):
        self.name = field.name
        self.dtype = dtype
        self._converts = np.dtype(field.type.to_pandas_dtype()).kind not in "biuf"
        self.feature_names = [field.name]

    def write(self, values, out):
        """Write the numbers of some rows into their column."""
        out[:, 0] = numbers_in(values) if self._converts else values.to_numpy(zero_copy_only=False)


class _Categories:
    """A column of categories, which becomes a column of 0 and 1 for each."""

    dtype = np.dtype(bool)

    def __init__(self, name, categories):
        self.name = name
        try:
            self._levels = Levels(tuple(categories))
        except ValueError:
            self._levels = Levels(())
        if not self._levels.levels:  # raised here, so that no other error is its context
            raise ValueError(
                f"categories of column {name!r} must be different values, at least one"
            )
        self.feature_names = [f"{name}_{value}" for value in self._levels.levels]

    def write(self, values, out):
        """Write 1 where a row has a category, and 0 elsewhere: everywhere for other values."""
        places = self._levels.codes(values)
        out[...] = 0
        known = np.flatnonzero(places < out.shape[1])
        out[known, places[known]] = 1


def _column(field, categories):
    """Return how a column of the schema becomes numbers."""
    if categories is not None:
        return _Categories(field.name, list(categories))
    dtype = _dtype_of_numbers(field)
    if dtype is None:
        raise ValueError(
            f"column {field.name!r} has type {field.type}, which is no number. Pass all values "
            f"that it may have, which must be public, as categories={{{field.name!r}: [...]}}, or "
            "leave it out by columns=[...]"
        )
    return _Numbers(field, dtype)


def _dtype_of_numbers(field):
    """Return the dtype of a column of numbers or booleans; None of another one."""
    kind = kind_of(field.type)
    if kind not in (NUMBER, FLAG, DATE):
        return None
    dtype = np.dtype(field.type.to_pandas_dtype())
    return dtype if dtype.kind in "biuf" else np.dtype(np.float64)  # of decimals and dates


def _check_names(schema, names, targets, categories):
    """Refuse names that no column has, and exposures without counts; the error names them."""
    for name in [*names, *targets]:
        if schema.names.count(name) != 1:
            many = "several columns" if name in schema.names else "no column"
            raise ValueError(f"source has {many} {name!r}")
    if not names or len({*names, *targets}) < len(names) + len(targets):
        raise ValueError(
            f"columns={quoted(names)} must be different names, at least one, without "
            + " and ".join(map(repr, targets))
        )
    for name in targets if len(targets) > 1 else ():
        if _dtype_of_numbers(schema.field(name)) is None:
            raise ValueError(f"column {name!r} holds no numbers: a count and its exposure are some")
    for name in categories:
        if name not in names:
            raise ValueError(f"categories has the name {name!r}, which is not one of columns")


def _present(values, name):
    """Return the values of a column, or refuse missing ones by its name."""
    if values.null_count or (hasattr(values, "dictionary") and values.dictionary.null_count):
        raise refuse(f"column {name!r} holds missing values. Fill them with public ones")
    return values


def _target(values):
    """Return targets as a user has them."""
    kind = str(values.type)
    if kind.startswith(("dictionary", "string", "large_string")):
        return _labels(values)
    return values.cast("float64" if kind.startswith("decimal") else kind).to_numpy(
        zero_copy_only=False
    )


def _labels(values):
    """Return the different values, and the place of each row's among them."""
    if not hasattr(values, "dictionary"):
        values = values.dictionary_encode()
    different = np.empty(len(values.dictionary), dtype=object)
    different[:] = values.dictionary.to_pylist()
    return CodedLabels(different, values.indices.to_numpy(zero_copy_only=False))


# --- sources --------------------------------------------------------------------------------------


def _opened(source):
    """Return a pyarrow data set of files."""
    dataset = optional("pyarrow.dataset", "parquet")
    if isinstance(source, (str, os.PathLike, list, tuple)):
        paths = list(map(os.fspath, source)) if isinstance(source, (list, tuple)) else source
        try:
            return dataset.dataset(paths, format="parquet", partitioning="hive")
        except FileNotFoundError:
            raise ValueError(f"source is no file or folder that exists: {quoted(source)}") from None
    if isinstance(source, dataset.FileSystemDataset):
        return source
    raise TypeError(
        f"source is a {type(source).__name__}: pass a path, paths or a pyarrow Dataset of files. "
        "Write a polars LazyFrame to files by sink_parquet. Frames in memory go into fit as X and y"
    )


def _check_columns(opened, names):
    """Refuse files that lack a column, which pyarrow would fill with nothing."""
    try:
        fragments = list(opened.get_fragments())
    except ValueError:  # a filtered data set does not tell: there, missing values are refused
        return
    for place, fragment in enumerate(fragments, 1):
        there = _quietly(_names_in, fragment)
        missing = [name for name in names if name not in there]
        if missing:
            raise ValueError(f"file {place} of {len(fragments)} has no column {missing[0]!r}")


def _names_in(fragment):
    """Return the names of a file's columns, and of those that its folder's name is about."""
    keys = import_module("pyarrow.dataset").get_partition_keys(fragment.partition_expression)
    return {*fragment.physical_schema.names, *keys}


def batches_of(opened, names, n_rows):
    """Yield some rows at a time, read without memory maps, which die with a file cut short."""
    dataset = import_module("pyarrow.dataset")
    options = {}
    if isinstance(opened.format, dataset.ParquetFileFormat):
        options["fragment_scan_options"] = dataset.ParquetFragmentScanOptions(
            use_buffered_stream=True, pre_buffer=False
        )
    scanner = opened.scanner(
        columns=names,
        batch_size=n_rows,
        batch_readahead=1,
        fragment_readahead=1,
        use_threads=False,
        **options,
    )
    yield from scanner.to_batches()


def _quietly(function, *arguments):
    """Call a function that opens files, and hide its errors, which may quote records."""
    try:
        return function(*arguments)
    except (ImportError, TypeError, ValueError) as error:
        if str(error).startswith(("pyarrow is needed", "source is")):
            refusal: Exception = error
            refusal.__cause__ = refusal.__context__ = None
        else:
            refusal = _unreadable(error)
    except Exception as error:
        refusal = _unreadable(error)
    raise refusal


def _unreadable(error):
    kind = type(error).__name__
    return ValueError(
        f"source could not be opened ({kind}; its text is left out, for it may quote records): it "
        "must be Parquet files that can be read"
    )
