"""Models that leave Python: converters of steps of skdpdyn, for skl2onnx (extra "onnx")."""

import json
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline

from skdpdyn.core.expansion import Levels
from skdpdyn.exceptions import optional
from skdpdyn.preprocessing import BoundsScaler, RowMapper
from skdpdyn.training.base import distinct


def to_onnx(model: Any, *, double: bool = False) -> Any:
    """Return a fitted model of skdpdyn as an ONNX graph, with its map of rows.

    It also registers the converters of the first steps of ``model.to_sklearn()`` and of
    `skdpdyn.preprocessing.BoundsScaler`, so that from then on ``skl2onnx.to_onnx`` takes pipelines
    with them. An additive model with levels of text has an input for each column, by its name;
    there text of length 0 is a missing value.

    Parameters
    ----------
    model : fitted estimator of skdpdyn
        An estimator with ``to_sklearn``, or a pipeline of numbers that ends in one.
    double : bool, default=False
        Whether the graph takes rows in double precision, and not in single.

    Returns
    -------
    onnx.ModelProto
        With one input, "X" of shape (n_rows, n_features), or an input of shape (n_rows, 1) for each
        column, in their order. An input has the name of its column, in parentheses where that is
        empty or a name inside of the graph. The metadata "columns" is a JSON list of the names of
        columns, where the model knows them. Classifiers give labels and probabilities, regressors
        predictions.

    Raises
    ------
    ImportError
        If skl2onnx is not installed.
    TypeError
        If the model is none of skdpdyn.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateRidge
    >>> from skdpdyn.export.onnx import to_onnx
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    >>> graph = to_onnx(PrivateRidge(target_bounds=(-1, 1)).fit(X, X[:, 0])).graph
    >>> len(graph.input)
    1
    """
    skl2onnx = optional("skl2onnx", "onnx")
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, StringTensorType

    last = model[-1] if isinstance(model, Pipeline) else model
    if not hasattr(last, "to_sklearn"):
        raise TypeError(
            f"model is a {type(last).__name__}: pass a fitted model of skdpdyn, or a pipeline that "
            "ends in one"
        )
    converted = last.to_sklearn()
    pipeline = converted if last is model else Pipeline([*model.steps[:-1], *converted.steps])
    steps = {
        RowMapper: (_shape_of_mapped_rows, _convert_row_map),
        BoundsScaler: (_shape_of_scaled_rows, _convert_bounds),
    }
    kind = DoubleTensorType if double else FloatTensorType
    rows = [(_input_of(0), kind([None, model.n_features_in_]))]
    names = ["X"]
    if hasattr(converted[0], "expansion_"):  # of an additive model
        steps[type(converted[0])] = (_shape_of_terms, _convert_terms)
        if hasattr(converted[-1], "high"):  # predictions are cut
            steps[type(converted[-1])] = (_shape_of_predictions, _convert_cut)
        if last is model and any(map(_is_text, model.expansion_.columns)):
            columns = enumerate(model.expansion_.columns)
            kinds = [StringTensorType if _is_text(column) else kind for _, column in columns]
            rows = [(_input_of(j), tensor([None, 1])) for j, tensor in enumerate(kinds)]
            names = model.terms_[1 : 1 + len(rows)]
    for step, converters in steps.items():
        skl2onnx.update_registered_converter(
            step, f"Skdpdyn{step.__name__}", *converters, overwrite=True
        )
    classifier = "raw_scores" if hasattr(model, "decision_function") else None
    classifier = "zipmap" if hasattr(model, "predict_proba") else classifier
    options = classifier and {id(pipeline[-1]): {classifier: classifier == "raw_scores"}}
    name = type(last).__name__  # or else it would be random, and no two files alike
    graph = skl2onnx.convert_sklearn(pipeline, name, initial_types=rows, options=options)
    # skl2onnx takes them from a set, whose order is another in each process
    imports = sorted(graph.opset_import, key=lambda opset: opset.domain)
    del graph.opset_import[:]
    graph.opset_import.extend(imports)
    _name_inputs(graph, names)
    columns_of_fit = getattr(model, "feature_names_in_", None)
    if columns_of_fit is not None:
        graph.metadata_props.add(key="columns", value=json.dumps([*map(str, columns_of_fit)]))
    return graph


def _input_of(j):
    """Return the name of an input until a graph is made: skl2onnx takes identifiers alone."""
    return f"skdpdyn_column_{j}"


def _name_inputs(graph, names):
    """Give the inputs of a graph names of columns; in parentheses, where a tensor has the name."""
    inside = [name for node in graph.graph.node for name in (*node.input, *node.output)]
    inside += [tensor.name for tensor in (*graph.graph.initializer, *graph.graph.output)]
    reserved = {"", *inside}
    names = dict(zip(map(_input_of, range(len(names))), distinct(names, reserved), strict=True))
    for tensor in graph.graph.input:
        tensor.name = names[tensor.name]
    for node in graph.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]


def _is_text(column):
    """Return whether a column has levels of text, so that its values are."""
    return any(isinstance(level, str) for level in getattr(column, "levels", ()))


def _shape_of_scaled_rows(operator):
    rows = operator.inputs[0].type
    times = 1 + (operator.raw_operator.missing_ == "indicator")
    operator.outputs[0].type = type(rows)([rows.shape[0], times * rows.shape[1]])


def _shape_of_mapped_rows(operator):
    rows = operator.inputs[0].type
    operator.outputs[0].type = type(rows)([rows.shape[0], rows.shape[1]])


def _convert_bounds(scope, operator, container):
    """Write the graph of `BoundsScaler.transform`."""
    from skl2onnx.algebra.onnx_ops import (
        OnnxAdd,
        OnnxCast,
        OnnxConcat,
        OnnxIsNaN,
        OnnxMax,
        OnnxMin,
        OnnxMul,
        OnnxSub,
        OnnxWhere,
    )
    from skl2onnx.common.data_types import guess_numpy_type, guess_proto_type

    scaler = operator.raw_operator
    rows = operator.inputs[0]
    low, high = scaler.bounds_.T
    start, stop = scaler.feature_range_
    parts = low, high, (stop - start) / (high - low), start
    low, high, scale, start = (
        np.atleast_2d(part).astype(guess_numpy_type(rows.type)) for part in parts
    )
    version = {"op_version": container.target_opset}
    inside = OnnxMax(OnnxMin(rows, high, **version), low, **version)
    scaled = OnnxMul(OnnxSub(inside, low, **version), scale, **version)
    named: dict[str, Any] = {"output_names": operator.outputs, **version}
    if scaler.missing_ == "error":
        OnnxAdd(scaled, start, **named).add_to(scope, container)
        return
    absent = OnnxIsNaN(rows, **version)
    scaled = OnnxAdd(scaled, start, **version)
    if scaler.missing_ == "pass":
        OnnxWhere(absent, rows, scaled, **named).add_to(scope, container)
        return
    middle = np.atleast_2d(min(max(0.0, scaler.feature_range_[0]), stop)).astype(start.dtype)
    flags = OnnxCast(absent, to=guess_proto_type(rows.type), **version)
    filled = OnnxWhere(absent, middle, scaled, **version)
    OnnxConcat(filled, flags, axis=1, **named).add_to(scope, container)


def _convert_row_map(scope, operator, container):
    """Write the graph of `RowMapper.transform`."""
    from skl2onnx.algebra.onnx_ops import OnnxDiv, OnnxMatMul, OnnxMax, OnnxMul, OnnxSqrt, OnnxSub
    from skl2onnx.common.data_types import DoubleTensorType

    mapper = operator.raw_operator
    rows = operator.inputs[0]
    dtype = np.float64 if isinstance(rows.type, DoubleTensorType) else np.float32
    version = {"op_version": container.target_opset}
    n_features = mapper.n_features_in_

    def number(value):
        return np.array([[value]], dtype=dtype)

    def norm_of(node):
        ones = np.ones((n_features, 1), dtype=dtype)
        return OnnxSqrt(OnnxMatMul(OnnxMul(node, node, **version), ones, **version), **version)

    radius = number(mapper.radius)
    in_ball = OnnxDiv(radius, OnnxMax(norm_of(rows), radius, **version), **version)
    if mapper.norm is None:
        mapped = OnnxMul(rows, in_ball, output_names=operator.outputs, **version)
        mapped.add_to(scope, container)
        return
    weighted = OnnxMul(rows, in_ball, **version)
    if mapper.centre is not None:
        centre = np.asarray(mapper.centre, dtype=dtype)[None, :]
        weighted = OnnxSub(weighted, centre, **version)
    weights = np.asarray(mapper.weights, dtype=dtype)
    weighted = (
        OnnxMul(weighted, weights[None, :], **version)
        if weights.ndim == 1
        else OnnxMatMul(weighted, np.ascontiguousarray(weights.T), **version)
    )
    least = number(np.finfo(dtype).tiny if mapper.unit else mapper.norm)
    length = OnnxMax(norm_of(weighted), least, **version)
    shorter = OnnxDiv(number(mapper.norm), length, **version)
    scale = OnnxMul(in_ball, shorter, **version)
    if mapper.centre is None:
        mapped = OnnxMul(rows, scale, output_names=operator.outputs, **version)
    else:
        lost = OnnxMul(OnnxSub(shorter, number(1.0), **version), centre, **version)
        scaled = OnnxMul(rows, scale, **version)
        mapped = OnnxSub(scaled, lost, output_names=operator.outputs, **version)
    mapped.add_to(scope, container)


def _shape_of_predictions(operator):
    rows = operator.inputs[0].type
    operator.outputs[0].type = type(rows)([rows.shape[0], 1])


def _convert_cut(scope, operator, container):
    """Write the graph of `CutRegressor.predict`."""
    from skl2onnx.algebra.onnx_ops import OnnxAdd, OnnxMatMul, OnnxMax, OnnxMin
    from skl2onnx.common.data_types import guess_numpy_type

    model = operator.raw_operator
    rows = operator.inputs[0]
    version = {"op_version": container.target_opset}
    dtype = guess_numpy_type(rows.type)
    numbers = (np.reshape(values, (-1, 1)) for values in (model.coef_, model.intercept_))
    coef, intercept = (values.astype(dtype) for values in numbers)
    low, high = (np.array([[end]], dtype) for end in (model.low, model.high))
    raw = OnnxAdd(OnnxMatMul(rows, coef, **version), intercept, **version)
    cut = OnnxMax(OnnxMin(raw, high, **version), low, output_names=operator.outputs, **version)
    cut.add_to(scope, container)


def _shape_of_terms(operator):
    kind = _number_type(operator)
    explainer = operator.raw_operator
    operator.outputs[0].type = kind([operator.inputs[0].type.shape[0], explainer.centres.size])


def _number_type(operator):
    """Return the type of numbers that a graph takes; of text alone, single precision."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    double = any(isinstance(tensor.type, DoubleTensorType) for tensor in operator.inputs)
    return DoubleTensorType if double else FloatTensorType


def _convert_terms(scope, operator, container):
    """Write the graph of `Explainer.transform`: tables of cells, products of cosines, lengths."""
    from skl2onnx.algebra.onnx_ops import (
        OnnxAdd,
        OnnxConcat,
        OnnxDiv,
        OnnxGather,
        OnnxMatMul,
        OnnxMax,
        OnnxMul,
        OnnxSqrt,
    )
    from skl2onnx.common.data_types import DoubleTensorType

    explainer = operator.raw_operator
    inputs = operator.inputs
    expansion = explainer.expansion_
    row_map = explainer.row_map
    dtype = np.float64 if _number_type(operator) is DoubleTensorType else np.float32
    version = {"op_version": container.target_opset}
    tables, starts, first_factors, second_factors = _tables_of_columns(explainer)
    columns = enumerate(zip(expansion.columns, tables, strict=True))
    read = []
    for j, (column, table) in columns:
        # the columns of one array of numbers, or an input for each
        tensor, place = (inputs[0], j) if len(inputs) < len(tables) else (inputs[j], 0)
        values = OnnxGather(tensor, np.array([place]), axis=1, **version)
        read.append(_read_cells(values, column, table, dtype, version))
    read = OnnxConcat(*read, axis=1, **version)
    parts = [read]
    if first_factors:
        factors = first_factors, second_factors
        places = (OnnxGather(read, np.array(cells), axis=1, **version) for cells in factors)
        parts.append(OnnxMul(*places, **version))
    of_terms, of_lengths = _matrices_of_parts(explainer, starts)

    def added(matrices, constant):
        total = constant[None].astype(dtype)
        for part, matrix in zip(parts, matrices, strict=False):
            total = OnnxAdd(OnnxMatMul(part, matrix.astype(dtype), **version), total, **version)
        return total

    mapped = added(*of_lengths)
    ones = np.ones((expansion.n_features, 1), dtype)
    norm = np.array([[row_map.norm]], dtype)
    square = OnnxMatMul(OnnxMul(mapped, mapped, **version), ones, **version)
    factor = OnnxDiv(norm, OnnxMax(OnnxSqrt(square, **version), norm, **version), **version)
    terms = OnnxMul(added(*of_terms), factor, output_names=operator.outputs, **version)
    terms.add_to(scope, container)


def _tables_of_columns(explainer):
    """Return the numbers of each cell, by column: weights, low cosines, features less the centre.

    Then where each column's part starts in all that is read, and the places of both factors of each
    product of a pair.
    """
    expansion = explainer.expansion_
    n_outputs = len(explainer.weights)
    numbers = np.hstack([explainer.weights[:, : expansion.n_cells].T, expansion.low])
    cells = np.split(numbers, expansion.starts[1:-1])
    features = (table.toarray() if sparse.issparse(table) else table for table in expansion.tables)
    tables = [np.hstack(parts) for parts in zip(cells, features, strict=True)]
    starts = np.append(0, np.cumsum([table.shape[1] for table in tables]))
    of_column = np.searchsorted(expansion.low_starts, expansion.places, side="right") - 1
    low = starts[of_column] + n_outputs + expansion.places - expansion.low_starts[of_column]
    return tables, starts, *low.tolist()


def _matrices_of_parts(explainer, starts):
    """Return matrices of cells and of products, and a constant: for terms, for lengths."""
    expansion = explainer.expansion_
    row_map = explainer.row_map
    weights = explainer.weights
    n_outputs = len(weights)
    n_columns = len(expansion.columns)
    n_terms = explainer.centres.shape[1]
    of_rows = np.zeros((starts[-1], n_outputs, n_terms))
    matrix = np.diag(row_map.weights) if row_map.is_diagonal else row_map.weights
    moved = np.zeros((starts[-1], expansion.n_features))
    centre = row_map.centre.copy()
    for j, first in enumerate(starts[:-1]):
        of_rows[first + np.arange(n_outputs), np.arange(n_outputs), j] = 1.0
        part = expansion.slices[j]
        if j in explainer.fixed:
            centre[part] = 0.0
        else:
            moved[first + n_outputs + expansion.low.shape[1] : starts[j + 1]] = matrix[:, part].T
    products = weights[:, expansion.n_cells :].T
    of_pairs = np.zeros((len(products), n_outputs, n_terms))
    pairs = np.repeat(np.arange(len(expansion.pairs)), [*map(len, expansion.factors)])
    of_pairs[np.arange(len(products)), :, n_columns + pairs] = products
    flat = of_rows.reshape(len(of_rows), -1), of_pairs.reshape(-1, n_outputs * n_terms)
    of_products = expansion.pair_weights[:, None] * matrix[:, sum(expansion.widths) :].T
    return (flat, -explainer.centres.ravel()), ((moved, of_products), -(matrix @ centre))


def _read_text(values, column, table, dtype, version):
    """Return the node of levels of text; text of length 0 is missing."""
    from skl2onnx.algebra.onnx_ops import OnnxGather, OnnxLabelEncoder, OnnxReshape

    missing = len(table) - 1
    other = len(table) - 2
    keys = {str(key): place for key, place in column.places.items() if key is not None}
    places = {"": missing} | keys
    cells = OnnxLabelEncoder(
        values,
        keys_strings=list(places),
        values_int64s=list(places.values()),
        default_int64=other,
        op_version=2,
    )
    flat = OnnxReshape(cells, np.array([-1], np.int64), **version)
    return OnnxGather(table.astype(dtype), flat, axis=0, **version)


def _read_cells(values, column, table, dtype, version):
    """Return the node of the cells that a column's values are in."""
    from onnx import TensorProto
    from skl2onnx.algebra.onnx_ops import (
        OnnxAdd,
        OnnxCast,
        OnnxEqual,
        OnnxGreaterOrEqual,
        OnnxIsNaN,
        OnnxMatMul,
        OnnxWhere,
    )

    if _is_text(column):
        return _read_text(values, column, table, dtype, version)
    kind = TensorProto.DOUBLE if dtype == np.float64 else TensorProto.FLOAT
    if isinstance(column, Levels):
        within = OnnxEqual(values, np.array([column.levels], dtype), **version)
        base = table[-2]
        moves = table[:-2] - table[-2]
    else:
        within = OnnxGreaterOrEqual(values, column.edges[None].astype(dtype), **version)
        base = table[0]
        moves = np.diff(table[:-1], axis=0)
    moved = OnnxMatMul(OnnxCast(within, to=kind, **version), moves.astype(dtype), **version)
    shifted = OnnxAdd(moved, base[None].astype(dtype), **version)
    missing = table[-1:].astype(dtype)
    return OnnxWhere(OnnxIsNaN(values, **version), missing, shifted, **version)
