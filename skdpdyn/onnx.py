"""Models that leave Python: a converter of the public map of rows, for skl2onnx (extra "onnx")."""

from typing import Any

import numpy as np

from skdpdyn.preprocessing import RowMapper


def to_onnx(model: Any, *, double: bool = False) -> Any:
    """Return a fitted model of skdpdyn as an ONNX graph, with its map of rows.

    It also registers the converter of `skdpdyn.preprocessing.RowMapper`, so that from then on
    ``skl2onnx.to_onnx`` takes pipelines with ``model.to_sklearn()`` in them.

    Parameters
    ----------
    model : fitted estimator of skdpdyn
        An estimator with ``to_sklearn``.
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
    skl2onnx.update_registered_converter(
        RowMapper, "SkdpdynRowMapper", _shape_of_mapped_rows, _convert_row_map, overwrite=True
    )
    pipeline = model.to_sklearn()
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
