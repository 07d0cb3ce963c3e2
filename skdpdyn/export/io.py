"""Release folders: a model, its promise, and all that checks it, to be let out as one.

``model.export("folder")`` writes one, and ``python -m skdpdyn check folder`` is for the
desk that receives it.
"""

import hashlib
import json
import os
import pickle
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from skdpdyn.core.expansion import Expansion, Levels, NumberColumn
from skdpdyn.core.schema import ReleasedArray, ReleasedDict, ReleasedTuple, Schema
from skdpdyn.data.ranges import Ranges
from skdpdyn.data.row_map import RowMap
from skdpdyn.exceptions import optional
from skdpdyn.export.onnx import to_onnx
from skdpdyn.preprocessing import BoundsScaler, PrivateScaler, RowMapper
from skdpdyn.privacy import Budget, check_report
from skdpdyn.privacy.disk import write_folder
from skdpdyn.privacy.guarantees import Adjacency
from skdpdyn.privacy.report import PrivacyReport
from skdpdyn.privacy.serialization import ROUNDING, agree
from skdpdyn.privacy.stored import TYPES
from skdpdyn.solvers import SOLVERS
from skdpdyn.training.conditioning import FittedConditioning
from skdpdyn.training.sources import Source

__all__ = ["TRUSTED", "check_folder", "checked_folder", "export"]

_MODELS = (
    *("logistic.PrivateLogisticRegression", "softmax.PrivateSoftmaxRegression"),
    *("svc.PrivateLinearSVC", "ridge.PrivateRidge", "poisson.PrivatePoissonRegressor"),
    *("gam.PrivateGAMClassifier", "gam.PrivateGAMRegressor", "quantile.PrivateQuantileRegressor"),
    *("gam.Explainer", "quantile.CutRegressor"),  # steps of to_sklearn()
)
_OTHERS: tuple[type, ...] = (
    *(
        FittedConditioning,
        RowMap,
        Ranges,
        Expansion,
        Levels,
        NumberColumn,
        Schema,
        Budget,
        Adjacency,
        Source,
        ReleasedArray,
        ReleasedTuple,
        ReleasedDict,
    ),
    *(BoundsScaler, PrivateScaler, RowMapper, *SOLVERS.values(), *TYPES.values()),
)
TRUSTED = sorted(
    {"numpy.dtype", *(f"skdpdyn.linear_model.{name}" for name in _MODELS)}
    | {"skdpdyn.training.completion.CompleteSchema"}  # which knows more than this file may
    | {f"{kind.__module__}.{kind.__name__}" for kind in _OTHERS if "skdpdyn." in kind.__module__}
)
"""Types for ``skops.io.load(file, trusted=TRUSTED)``: they hold numbers and names, and run no code
of a file.
"""

REPORT = "report.json"
CARD = "README.md"
REGISTRY = "registry.yaml"
SUMS = "SHA256SUMS"
MODEL = "model.skops"
ONNX = "model.onnx"
PICKLE = "model.pkl"
AUDIT = "audit.json"
_FORMATS = {"skops": MODEL, "onnx": ONNX, "pickle": PICKLE}


def export(
    model: Any,
    folder: str | os.PathLike[str],
    formats: Iterable[str] = ("skops",),
    deployment: Mapping[str, Any] | None = None,
    audit: Any = None,
) -> Path:
    """Write a release folder; models have this as their method ``export``.

    The folder is there as a whole, or not at all: what fails leaves nothing behind.

    Parameters
    ----------
    model : fitted estimator of skdpdyn
        What is let out.
    folder : str or path-like
        A folder that does not exist yet, or is empty.
    formats : sequence of {"skops", "onnx", "pickle"}, default=("skops",)
        Forms of the model. "skops" is always there. "pickle" is of ``to_sklearn()``.
    deployment : dict or None, default=None
        Fields of ``privacy_report().to_registry``; with them the folder has a registry record.
    audit : skdpdyn.audit.Audit or None, default=None
        An audit of the configuration, which the folder shows as audit.json.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    ValueError
        If the model is not private, the folder holds files, a field is missing or wrong, or the
        audit found more than is claimed.
    ImportError
        If skops, or skl2onnx for "onnx", is not installed.
    OSError
        If the folder cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from skdpdyn import PrivateRidge
    >>> from skdpdyn.export.io import check_folder, export
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    >>> model = PrivateRidge(target_bounds=(-1, 1)).fit(X, X[:, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = check_folder(export(model, folder))
    >>> round(found["spent"]["epsilon"], 6)
    1.0
    """
    skops = _skops()
    report = model.privacy_report()
    chosen = {"skops", *formats}
    unknown = sorted(chosen - _FORMATS.keys())
    if unknown:
        raise ValueError(f"formats={unknown} must be among {', '.join(_FORMATS)}")
    if model.leaks_:
        raise ValueError(f"this model is not private: {'; '.join(model.leaks_)}")
    fields = {} if deployment is None else dict(deployment)
    files = {
        REPORT: report.to_json().encode(),
        CARD: report.to_model_card(**fields).encode(),
        MODEL: skops.dumps(model),
    }
    if deployment is not None:
        record = report.to_registry(**fields)
        files[REGISTRY] = json.dumps(record, indent=1, allow_nan=False).encode()  # JSON is YAML
    if "onnx" in chosen:
        files[ONNX] = to_onnx(model).SerializeToString()
    if "pickle" in chosen:
        files[PICKLE] = pickle.dumps(model.to_sklearn())
    if audit is not None:
        if not audit.passed:
            raise ValueError("audit: it found more than is claimed")
        files[AUDIT] = json.dumps(audit.as_dict(), indent=1, allow_nan=False).encode()
    files[SUMS] = _sums(files).encode()
    place = Path(folder)
    if place.is_dir() and any(place.iterdir()):
        raise ValueError(f"folder={str(folder)!r} holds files: give one that does not exist")
    write_folder(Path(os.path.abspath(place)), files)
    return place


def check_folder(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Check all that can be checked in a release folder, without the data.

    No file is missing, added or changed since its checksum; every number of the report follows from
    its record; card and registry record are those of the report; and the model has that record and
    that report. A pickle is never opened, for that would run code in it.

    Whoever writes a whole folder anew writes the release of another run: what is checked is that
    its parts are one, and not who trained it.

    Parameters
    ----------
    folder : str or path-like
        The folder.

    Returns
    -------
    dict
        The report.

    Raises
    ------
    ValueError
        If something does not agree, by its name.
    ImportError
        If what reads a model is not installed.
    """
    return checked_folder(folder)[0]


def checked_folder(folder: str | os.PathLike[str]) -> tuple[dict[str, Any], Any]:
    """Return the report and the model of a release folder that `check_folder` takes.

    Parameters
    ----------
    folder : str or path-like
        The folder.

    Returns
    -------
    dict
        The report.
    estimator
        The model.
    """
    files = {path.name: _content(path) for path in Path(folder).iterdir()}
    try:
        return _checked(files)
    except Exception as error:
        if isinstance(error, ImportError) or type(error) is ValueError:
            raise
        malformed = type(error).__name__
    raise ValueError(f"a file of {folder} is malformed ({malformed}). {_OTHER}")


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise ValueError(f"{path.name}: no file, and a release folder holds files alone")
    return path.read_bytes()


def _checked(files: dict[str, bytes]) -> tuple[dict[str, Any], Any]:
    """Return the report and the model of a release folder whose files agree."""
    sums = files.pop(SUMS, b"").decode("utf-8", "replace")
    lacks = sorted({REPORT, CARD, MODEL} - files.keys())
    if lacks:
        raise ValueError(f"{', '.join(lacks)}: missing, so this is no release folder")
    if sums != _sums(files):
        raise ValueError(f"{SUMS}: a file was added, removed or changed since it was written")
    document = check_report(files[REPORT].decode())
    leaks = document["assumed"]["not private in this run"]
    if leaks:
        raise ValueError(f"this model is not private: {'; '.join(leaks)}")
    sections = {name: part for name, part in document.items() if name not in ("stored", "checksum")}
    report = PrivacyReport(sections, document["stored"])
    fields = {}
    if REGISTRY in files:
        fields = _checked_record(files[REGISTRY], report)
    if files[CARD].decode() != report.to_model_card(**fields):
        raise ValueError(f"{CARD}: not the card of the report. {_OTHER}")
    model = _checked_model(files[MODEL], document)
    if ONNX in files and _graph(files[ONNX]) != _graph(to_onnx(model).SerializeToString()):
        raise ValueError(f"{ONNX}: not the model, or another skl2onnx wrote it. {_OTHER}")
    if AUDIT in files:
        _check_audit(files[AUDIT])
    return document, model


def _check_audit(content: bytes) -> None:
    """Raise if an audit found more than is claimed. Its finding cannot be proved again."""
    findings = json.loads(content)["findings"]
    if not findings or not all(
        finding["measured"] <= finding["claimed"] * (1 + ROUNDING) for finding in findings
    ):
        raise ValueError(f"{AUDIT}: it found more than is claimed")


def _graph(content: bytes) -> bytes:
    """Return an ONNX graph in its canonical form: bytes of one graph may differ."""
    graph = optional("onnx", "onnx").load_model_from_string(content)
    return graph.SerializeToString(deterministic=True)


_OTHER = "If another version of skdpdyn wrote it, check it with that one"


def _checked_record(content: bytes, report: PrivacyReport) -> dict[str, Any]:
    """Return the fields of a registry record, or raise if they are not those of a report."""
    record = json.loads(content)
    fields: dict[str, Any] = {}
    for section in record["deployment"].values():
        fields |= section
    again = report.to_registry(**fields, url_slug=record["url_slug"])
    if again != record:
        raise ValueError(f"{REGISTRY}: not a record of the report. {_OTHER}")
    return fields


def _checked_model(content: bytes, document: dict[str, Any]) -> Any:
    """Return a model, or raise if its report is another."""
    skops = _skops()
    unknown = sorted(set(skops.get_untrusted_types(data=content)) - set(TRUSTED))
    if unknown:
        raise ValueError(f"{MODEL}: holds {', '.join(unknown)}, which is not of skdpdyn")
    model = skops.loads(content, trusted=TRUSTED)
    report = model.privacy_report().as_dict() | {"checksum": document["checksum"]}
    tolerance = max(ROUNDING, model.privacy_.accuracy)
    wrong = [
        name
        for name in report.keys() | document.keys()
        if not agree(report.get(name), document.get(name), tolerance)
    ]
    if wrong:
        raise ValueError(
            f"{MODEL}: its own report has another {', '.join(sorted(wrong))}. {_OTHER}"
        )
    return model


def _sums(files: Mapping[str, bytes]) -> str:
    """Return checksums as ``sha256sum -c`` reads them."""
    return "".join(
        f"{hashlib.sha256(content).hexdigest()}  {name}\n"
        for name, content in sorted(files.items())
    )


def _skops() -> Any:
    return optional("skops.io", "release")
