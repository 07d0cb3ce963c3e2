"""Models that leave Python: converters of steps of skdpdyn, for skl2onnx (extra "onnx")."""

import json
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from skdpdyn.core.expansion import Levels
from skdpdyn.data.lookups import Lookups
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
    if hasattr(converted[-1], "high"):  # predictions are cut
        steps[type(converted[-1])] = (_shape_of_predictions, _convert_cut)
    if hasattr(converted[0], "expansion_"):  # of an additive model
        steps[type(converted[0])] = (_shape_of_terms, _convert_terms)
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
    """Write the graph of `Explainer.transform`: cells of columns, and numbers of tables at them."""
    from skl2onnx.algebra.onnx_ops import OnnxMul
    from skl2onnx.common.data_types import DoubleTensorType

    dtype = np.float64 if _number_type(operator) is DoubleTensorType else np.float32
    graph = _TermsGraph(operator.raw_operator, operator.inputs, dtype, container.target_opset)
    graph.write_cells(scope, container)
    version = {"op_version": container.target_opset}
    terms = OnnxMul(graph.terms(), graph.factor(), output_names=operator.outputs, **version)
    terms.add_to(scope, container)


class _TermsGraph:
    """Nodes of the terms of an additive model, and of the factor that rows are shortened by."""

    def __init__(self, explainer, inputs, dtype, opset):
        self._explainer = explainer
        self._expansion = explainer.expansion_
        self._dtype = dtype
        self._opset = opset
        self._tables = Lookups(
            *(explainer.expansion_, explainer.row_map),
            *(explainer.weights, explainer.centres, explainer.counts),
        )
        self._codes = self._cells(inputs)

    def write_cells(self, scope, container):
        """Write the cells first, since skl2onnx follows every path from a result to its inputs."""
        from skl2onnx.common._topology import Variable
        from skl2onnx.common.data_types import Int32TensorType

        name = scope.get_unique_variable_name("cells")
        self._node("Identity", self._codes, output_names=[name]).add_to(scope, container)
        self._codes = Variable(name, name, scope=scope.name, type=Int32TensorType([None, None]))

    def _node(self, name, *inputs, **options):
        """Return a node of an operator; arrays of numbers have the graph's precision."""
        from skl2onnx.algebra import onnx_ops

        # shapes and axes are of 64 bits, cells of 32
        integers = np.int64 if name in ("Reshape", "ReduceSum") else np.int32
        kinds = {"f": self._dtype, "i": integers}
        given = [
            one.astype(kinds[one.dtype.kind]) if isinstance(one, np.ndarray) else one
            for one in inputs
        ]
        return getattr(onnx_ops, f"Onnx{name}")(*given, op_version=self._opset, **options)

    # --- cells: columns by rows, whose parts are copied at once -----------------------------------

    def _cells(self, inputs):
        """Return the cells of all columns, of shape (n_columns, n_rows)."""
        columns = self._expansion.columns
        turned = [self._node("Transpose", one, perm=[1, 0]) for one in inputs]

        def values_of(places):
            if len(inputs) == len(columns):
                return self._joined([turned[j] for j in places], 0)
            return self._node("Gather", turned[0], np.array(places), axis=0)

        of_levels = [j for j, column in enumerate(columns) if isinstance(column, Levels)]
        numbers = [j for j in range(len(columns)) if j not in of_levels]
        parts = []
        for j in of_levels:
            read = self._cells_of_text if _is_text(columns[j]) else self._cells_of_levels
            parts.append(read(values_of([j]), columns[j]))
        if numbers:
            parts.append(self._cells_of_numbers(values_of(numbers), [columns[j] for j in numbers]))
        order = np.argsort([*of_levels, *numbers])
        return self._node("Gather", self._joined(parts, 0), order, axis=0)

    def _joined(self, parts, axis):
        return self._node("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]

    def _cells_of_numbers(self, values, columns):
        """Return the cells of columns of numbers: eight steps of a search in 255 edges."""
        edges = np.full((len(columns), 255), np.inf)
        for of, column in zip(edges, columns, strict=True):
            of[: column.edges.size] = column.edges
        first = 255 * np.arange(len(columns))[:, None]
        missing = np.array([[column.n_cells - 1] for column in columns])
        flat = edges.ravel()
        reached = self._node("LessOrEqual", edges[:, 127:128], values)
        place = self._node("Where", reached, first + 128, first)
        for step in (64, 32, 16, 8, 4, 2, 1):
            edge = self._node("Gather", flat, self._node("Add", place, np.array([step - 1])))
            reached = self._node("LessOrEqual", edge, values)
            farther = self._node("Add", place, np.array([step]))
            place = self._node("Where", reached, farther, place)
        found = self._node("Sub", place, first)
        return self._node("Where", self._node("IsNaN", values), missing, found)

    def _cells_of_text(self, values, column):
        """Return the cells of levels of text; text of length 0 is missing."""
        from onnx import TensorProto
        from skl2onnx.algebra.onnx_ops import OnnxLabelEncoder

        keys = {str(key): place for key, place in column.places.items() if key is not None}
        places = {"": column.n_cells - 1} | keys
        cells = OnnxLabelEncoder(
            values,
            keys_strings=list(places),
            values_int64s=list(places.values()),
            default_int64=column.n_cells - 2,
            op_version=2,
        )
        return self._node("Cast", cells, to=TensorProto.INT32)

    def _cells_of_levels(self, values, column):
        """Return the cells of levels that are numbers."""
        from onnx import TensorProto

        n_levels = len(column.levels)
        kind = TensorProto.DOUBLE if self._dtype == np.float64 else TensorProto.FLOAT
        levels = np.array(column.levels, dtype=np.float64)[:, None]
        within = self._node("Cast", self._node("Equal", levels, values), to=kind)
        moved = self._node("MatMul", np.arange(n_levels)[None] - float(n_levels), within)
        place = self._node("Cast", moved, to=TensorProto.INT32)
        place = self._node("Add", place, np.array([n_levels]))
        missing = np.array([[column.n_cells - 1]])
        return self._node("Where", self._node("IsNaN", values), missing, place)

    # --- what tables say of cells -----------------------------------------------------------------

    def _alone(self, table):
        """Return the numbers of each column's cell, of shape (n_columns, n_rows, ...)."""
        starts = self._expansion.starts[:-1, None]
        return self._node("Gather", table, self._node("Add", self._codes, starts), axis=0)

    def _of_two(self, tables):
        """Return the numbers of the cells of pairs of columns, of shape (n_pairs, n_rows)."""
        i, j, first, stride = tables.pairs.T[:, :, None]
        one = self._node("Mul", self._node("Gather", self._codes, i[:, 0], axis=0), stride)
        other = self._node("Add", self._node("Gather", self._codes, j[:, 0], axis=0), first)
        return self._node("Gather", tables.of_pairs[0], self._node("Add", one, other))

    def _products(self, low, factors, sides, weights):
        """Return products of two numbers of cells, times their weights."""
        column, inside = factors.T
        width = low.shape[1]
        at = self._node("Mul", self._node("Gather", self._codes, column, axis=0), np.array([width]))
        first = self._expansion.starts[column] * width + inside
        numbers = self._node("Gather", low.ravel(), self._node("Add", at, first[:, None]))
        both = (self._node("Gather", numbers, places, axis=0) for places in sides.T.copy())
        return self._node("Mul", self._node("Mul", *both), weights[:, None])

    def terms(self):
        """Return the contribution of each term less that at the centre, by output."""
        tables = self._tables.terms
        weights = self._explainer.weights
        n_outputs = len(weights)
        if tables is not None and n_outputs == 1:
            parts = [self._alone(tables.alone[0])]
            parts += [self._of_two(tables)] * bool(len(tables.pairs))
            return self._node("Transpose", self._joined(parts, 0), perm=[1, 0])
        expansion = self._expansion
        n_pairs = len(expansion.pairs)
        alone = self._alone(weights[:, : expansion.n_cells].T)
        parts = [self._node("Transpose", alone, perm=[1, 2, 0])]
        if n_pairs:
            sizes = [*map(len, expansion.factors)]
            of_pairs = np.zeros((n_outputs, n_pairs, sum(sizes)))
            pairs = np.repeat(np.arange(n_pairs), sizes)
            of_pairs[:, pairs, np.arange(len(pairs))] = weights[:, expansion.n_cells :]
            factors, sides = self._tables.factors(np.arange(len(pairs)))
            products = self._products(expansion.low, factors, sides, np.ones(len(pairs)))
            products = self._node("MatMul", of_pairs.reshape(-1, len(pairs)), products)
            products = self._node("Transpose", products, perm=[1, 0])
            shape = np.array([-1, n_outputs, n_pairs])
            parts.append(self._node("Reshape", products, shape))
        terms = self._node("Sub", self._joined(parts, 2), self._explainer.centres[None])
        return self._node("Reshape", terms, np.array([-1, self._explainer.centres.size]))

    def factor(self):
        """Return the factor that the map shortens each row by, of shape (n_rows, 1)."""
        tables = self._tables
        if tables.features is None:
            squares = [self._total(self._alone(tables.squares.alone[0]))]
            if len(tables.squares.pairs):
                squares.append(self._total(self._of_two(tables.squares)))
        else:
            squares = [self._length(self._features(), tables.features[-1])]
        for low, factors, sides, weights, centre, triangle in tables.products:
            products = self._products(low, factors, sides, weights)
            squares.append(self._length(self._node("Sub", products, centre[:, None]), triangle))
        square = squares[0]
        for other in squares[1:]:
            square = self._node("Add", square, other)
        norm = np.array([[self._explainer.row_map.norm]])
        length = self._node("Sqrt", self._node("Max", square, norm**2))
        return self._node("Transpose", self._node("Div", norm, length), perm=[1, 0])

    def _features(self):
        """Return the features of all columns, less the centre."""
        firsts, ends, features, _ = self._tables.features
        widths = np.diff(ends, prepend=0)
        of_column = np.repeat(np.arange(len(ends)), widths)
        inside = np.arange(ends[-1]) - np.repeat(ends - widths, widths)
        at = self._node("Add", self._node("Mul", self._codes, widths[:, None]), firsts[:, None])
        at = self._node("Gather", at, of_column, axis=0)
        return self._node("Gather", features, self._node("Add", at, inside[:, None]))

    def _length(self, rows, triangle):
        """Return the squared length of rows times a triangle."""
        turned = self._node("MatMul", triangle, rows)
        return self._total(self._node("Mul", turned, turned))

    def _total(self, numbers):
        """Return the sum of each row's numbers."""
        return self._node("ReduceSum", numbers, np.array([0]), keepdims=1)
