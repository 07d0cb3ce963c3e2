"""Models that leave Python: converters of steps of skdpdyn, for skl2onnx (extra "onnx")."""

from typing import Any

import numpy as np

from skdpdyn.expansion import LOWEST, Levels
from skdpdyn.preprocessing import BoundsScaler, RowMapper


def to_onnx(model: Any, *, double: bool = False) -> Any:
    """Return a fitted model of skdpdyn as an ONNX graph, with its map of rows.

    It also registers the converters of the first steps of ``model.to_sklearn()`` and of
    `skdpdyn.preprocessing.BoundsScaler`, so that from then on ``skl2onnx.to_onnx`` takes pipelines
    with them. Of additive models columns are numbers, or levels that are numbers: text is none.

    Parameters
    ----------
    model : fitted estimator of skdpdyn
        An estimator with ``to_sklearn``. Of a pipeline, the last step.
    double : bool, default=False
        Whether the graph takes rows in double precision, and not in single.

    Returns
    -------
    onnx.ModelProto
        With one input, "X" of shape (n_rows, n_features). Classifiers give labels and
        probabilities, regressors predictions.

    Raises
    ------
    ImportError
        If skl2onnx is not installed.
    TypeError
        If the model is none of skdpdyn, or an additive one has levels that are no numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn import PrivateRidge
    >>> from skdpdyn.onnx import to_onnx
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    >>> graph = to_onnx(PrivateRidge(target_bounds=(-1, 1)).fit(X, X[:, 0])).graph
    >>> len(graph.input)
    1
    """
    try:
        import skl2onnx
        from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType
    except ImportError:
        raise ImportError('skl2onnx is needed: pip install "skdpdyn[onnx]"') from None
    if not hasattr(model, "to_sklearn"):
        raise TypeError(
            f"model is a {type(model).__name__}: pass a fitted model of skdpdyn. Of a pipeline "
            "pass the last step, or all of it to skl2onnx.to_onnx after this call, with "
            "pipeline[-1].to_sklearn() as its last step"
        )
    pipeline = model.to_sklearn()
    steps = {
        RowMapper: (_shape_of_mapped_rows, _convert_row_map),
        BoundsScaler: (_shape_of_mapped_rows, _convert_bounds),
    }
    if hasattr(pipeline[0], "expansion_"):  # of an additive model
        steps[type(pipeline[0])] = (_shape_of_terms, _convert_terms)
    for step, converters in steps.items():
        skl2onnx.update_registered_converter(
            step, f"Skdpdyn{step.__name__}", *converters, overwrite=True
        )
    kind = DoubleTensorType if double else FloatTensorType
    classifier = "raw_scores" if hasattr(model, "decision_function") else None
    classifier = "zipmap" if hasattr(model, "predict_proba") else classifier
    options = classifier and {id(pipeline[-1]): {classifier: classifier == "raw_scores"}}
    rows = [("X", kind([None, model.n_features_in_]))]
    name = type(model).__name__  # or else it would be random, and no two files alike
    return skl2onnx.convert_sklearn(pipeline, name, initial_types=rows, options=options)


def _shape_of_mapped_rows(operator):
    rows = operator.inputs[0].type
    operator.outputs[0].type = type(rows)([rows.shape[0], rows.shape[1]])


def _convert_bounds(scope, operator, container):
    """Write the graph of `BoundsScaler.transform`."""
    from skl2onnx.algebra.onnx_ops import OnnxAdd, OnnxMax, OnnxMin, OnnxMul, OnnxSub
    from skl2onnx.common.data_types import guess_numpy_type

    scaler, rows = operator.raw_operator, operator.inputs[0]
    if scaler.missing_ != "error":
        raise ValueError(f"missing={scaler.missing_!r} has no graph: give the scaler no gaps")
    low, high = scaler.bounds_.T
    start, stop = scaler.feature_range_
    parts = low, high, (stop - start) / (high - low), start
    low, high, scale, start = (
        np.atleast_2d(part).astype(guess_numpy_type(rows.type)) for part in parts
    )
    version = {"op_version": container.target_opset}
    inside = OnnxMax(OnnxMin(rows, high, **version), low, **version)
    scaled = OnnxMul(OnnxSub(inside, low, **version), scale, **version)
    OnnxAdd(scaled, start, output_names=operator.outputs, **version).add_to(scope, container)


def _convert_row_map(scope, operator, container):
    """Write the graph of `RowMapper.transform`."""
    from skl2onnx.algebra.onnx_ops import OnnxDiv, OnnxMatMul, OnnxMax, OnnxMul, OnnxSqrt, OnnxSub
    from skl2onnx.common.data_types import DoubleTensorType

    mapper, rows = operator.raw_operator, operator.inputs[0]
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


def _shape_of_terms(operator):
    rows, explainer = operator.inputs[0].type, operator.raw_operator
    n_terms = len(explainer.expansion_.columns) + len(explainer.expansion_.pairs)
    operator.outputs[0].type = type(rows)([rows.shape[0], len(explainer.weights) * n_terms])


def _convert_terms(scope, operator, container):
    """Write the graph of `Explainer.transform`: what is said of cells, and products of cosines."""
    from skl2onnx.algebra.onnx_ops import OnnxAdd, OnnxConcat, OnnxGather, OnnxMatMul, OnnxMul
    from skl2onnx.common.data_types import DoubleTensorType

    explainer, rows = operator.raw_operator, operator.inputs[0]
    expansion, weights = explainer.expansion_, np.asarray(explainer.weights)
    dtype = np.float64 if isinstance(rows.type, DoubleTensorType) else np.float32
    version = {"op_version": container.target_opset}
    n_columns, n_pairs, n_outputs = len(expansion.columns), len(expansion.pairs), len(weights)
    said = np.hstack([weights[:, : expansion.n_cells].T, expansion.low])
    width, n_terms = said.shape[1], n_columns + n_pairs
    read = [
        _read_cells(rows, j, column, said[first : first + column.n_cells], dtype, version)
        for j, (column, first) in enumerate(zip(expansion.columns, expansion.starts, strict=False))
    ]
    read = OnnxConcat(*read, axis=1, **version)
    places = np.add.outer(np.arange(n_outputs), np.arange(n_columns) * width)
    chosen = np.zeros((n_columns * width, n_outputs, n_terms), dtype)
    for k in range(n_outputs):
        chosen[places[k], k, np.arange(n_columns)] = 1.0
    name = {"output_names": operator.outputs}
    of_columns = chosen.reshape(len(chosen), -1)
    if not n_pairs:
        OnnxMatMul(read, of_columns, **name, **version).add_to(scope, container)
        return
    low = [
        (i * width + n_outputs + a - 1, j * width + n_outputs + b - 1)
        for i, j in expansion.pairs
        for a, b in LOWEST
    ]
    one, other = (OnnxGather(read, np.array(of), axis=1, **version) for of in np.transpose(low))
    of_pairs = np.zeros((n_pairs, len(LOWEST), n_outputs, n_terms), dtype)
    for pair, products in enumerate(
        weights[:, expansion.n_cells :].T.reshape(n_pairs, -1, n_outputs)
    ):
        of_pairs[pair, :, :, n_columns + pair] = products
    products = OnnxMatMul(OnnxMul(one, other, **version), of_pairs.reshape(len(low), -1), **version)
    columns = OnnxMatMul(read, of_columns, **version)
    OnnxAdd(columns, products, **name, **version).add_to(scope, container)


def _read_cells(rows, j, column, said, dtype, version):
    """Return the node of what is said of the cells that a column's values are in."""
    from onnx import TensorProto
    from skl2onnx.algebra.onnx_ops import (
        OnnxAdd,
        OnnxCast,
        OnnxEqual,
        OnnxGather,
        OnnxGreaterOrEqual,
        OnnxIsNaN,
        OnnxMatMul,
        OnnxWhere,
    )

    values = OnnxGather(rows, np.array([j]), axis=1, **version)
    kind = TensorProto.DOUBLE if dtype == np.float64 else TensorProto.FLOAT
    if isinstance(column, Levels):
        if not all(isinstance(level, (bool, int, float)) for level in column.levels):
            raise TypeError(
                f"column {j} of X has levels that are no numbers, and the graph takes numbers: "
                "model.to_sklearn() predicts without skdpdyn's fits"
            )
        within = OnnxEqual(values, np.array([column.levels], dtype), **version)
        base, moves = said[-2], said[:-2] - said[-2]
    else:
        within = OnnxGreaterOrEqual(values, column.edges[None].astype(dtype), **version)
        base, moves = said[0], np.diff(said[:-1], axis=0)
    moved = OnnxMatMul(OnnxCast(within, to=kind, **version), moves.astype(dtype), **version)
    found = OnnxAdd(moved, base[None].astype(dtype), **version)
    missing = said[-1:].astype(dtype)
    return OnnxWhere(OnnxIsNaN(values, **version), missing, found, **version)
