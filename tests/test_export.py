"""Models that leave Python or skdpdyn predict what they did, and release folders are checked."""

import json
import pickle
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from faults import every_fault
from numba import config
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from test_report import DEPLOYMENT, validate

import skdpdyn
from skdpdyn import (
    PrivateGAMClassifier,
    PrivateGAMRegressor,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.__main__ import main
from skdpdyn.audit import audit
from skdpdyn.evaluation import evaluate
from skdpdyn.exceptions import CalibrationError, UnsupportedMechanismError
from skdpdyn.export import io
from skdpdyn.export.io import TRUSTED
from skdpdyn.export.onnx import to_onnx
from skdpdyn.inspection import PrivacyDynamicsDisplay
from skdpdyn.model_selection import total_privacy
from skdpdyn.preprocessing import BoundsScaler, PrivateScaler, RowMapper
from skdpdyn.privacy.deployment import schema
from skdpdyn.solvers import SOLVERS

RNG = np.random.default_rng(0)
N_SAMPLES = 150 if config.DISABLE_JIT else 600
# rows that have to be shortened, most of them
X = RNG.normal(0, 1, (N_SAMPLES, 3)) * [1, 5, 0.1]
LABELS = np.where(X[:, 0] > 0, "yes", "no")
THREE = np.where(X[:, 1] > 0, LABELS, "maybe")
COUNTS = np.round(np.abs(X[:, 0]))

MODELS = {
    "logistic": (PrivateLogisticRegression(30.0, classes=["no", "yes"]), LABELS),
    "two": (PrivateSoftmaxRegression(30.0, classes=["no", "yes"]), LABELS),
    "three": (PrivateSoftmaxRegression(30.0, classes=["maybe", "no", "yes"]), THREE),
    "svc": (PrivateLinearSVC(30.0, classes=["no", "yes"]), LABELS),
    "ridge": (PrivateRidge(30.0, target_bounds=(-2, 2)), X[:, 0]),
    "poisson": (PrivatePoissonRegressor(30.0, target_bounds=(0, 4)), COUNTS),
}


def answers(model, rows):
    """All that a model predicts, labels apart."""
    names = ("predict_proba", "decision_function")
    found = [getattr(model, name)(rows) for name in names if hasattr(model, name)]
    return found or [model.predict(rows)]


@pytest.mark.system
@pytest.mark.parametrize("conditioning", ["auto", None])
@pytest.mark.parametrize("name", MODELS)
def test_pipelines_of_scikit_learn_predict_the_same(name, conditioning):
    model, y = MODELS[name]
    for rows in (X, sparse.csr_array(X)):
        model.set_params(conditioning=conditioning, bounds=None).fit(rows, y)
        plain = model.to_sklearn()
        assert type(plain[0]) is RowMapper
        assert type(plain[1]).__module__.startswith("sklearn.")
        assert (plain.predict(rows) == model.predict(rows)).all() or name in ("ridge", "poisson")
        for mine, theirs in zip(answers(model, rows), answers(plain, rows), strict=False):
            if mine.shape == theirs.shape:  # scikit-learn has one score for two classes
                np.testing.assert_allclose(theirs, mine, rtol=1e-12, atol=1e-12)


def test_pipelines_keep_the_names_of_columns_and_models_without_one_say_so():
    frame = pytest.importorskip("pandas").DataFrame(X, columns=["a", "b", "c"])
    model, y = MODELS["logistic"]
    model = clone(model).set_params(bounds=None)
    plain = make_pipeline(model.fit(frame, y).to_sklearn())
    assert plain[0].feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names should match"):
        plain.predict(frame[["b", "a", "c"]])
    assert total_privacy(plain[0][0]).free == (("", "RowMapper maps each row by itself"),)
    with pytest.raises(ValueError, match="LogisticRegression learns from the records without"):
        total_privacy(plain)

    class Alone(type(model)):
        family = replace(model.family, twin=None)

    with pytest.raises(NotImplementedError, match="Alone has no counterpart in scikit-learn"):
        Alone(**model.get_params(deep=False)).fit(frame, y).to_sklearn()


def test_a_map_of_rows_refuses_what_is_none():
    with pytest.raises(ValueError, match="norm=None shortens no row"):
        RowMapper(weights=[1.0]).fit(X[:, :1])
    with pytest.raises(ValueError, match="weights are of 2 columns: X has 3 columns"):
        RowMapper(norm=1.0, weights=[1.0, 1.0]).fit(X)


STEPS = "BoundsScaler", "RowMapper"


@pytest.mark.parametrize("name", MODELS)
def test_skops_loads_what_is_trusted(name):
    skops = pytest.importorskip("skops.io")
    model, y = MODELS[name]
    pipeline = make_pipeline(BoundsScaler((-20, 20)), PrivateScaler(), model).fit(X, y)
    steps = [f"{RowMapper.__module__}.{kind}" for kind in STEPS]
    for stored, types in ((pipeline, TRUSTED), (model.to_sklearn(), steps)):
        data = skops.dumps(stored)
        assert set(skops.get_untrusted_types(data=data)) <= set(types)
        loaded = skops.loads(data, trusted=types)
        np.testing.assert_array_equal(loaded.predict(X), stored.predict(X))
    assert skops.loads(skops.dumps(model), trusted=TRUSTED).privacy_ == model.privacy_


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_onnx_predicts_the_same(name):
    pytest.importorskip("skl2onnx")
    from onnx.reference import ReferenceEvaluator

    model, y = MODELS[name]
    forms = [("auto", X), (None, X), ("auto", sparse.csr_array(X))]
    for (conditioning, rows), double in zip(forms, (True, True, False), strict=True):
        model.set_params(conditioning=conditioning).fit(rows, y)
        graph = ReferenceEvaluator(to_onnx(model, double=double))
        first, *rest = graph.run(None, {"X": X.astype(np.float64 if double else np.float32)})
        tolerance = 1e-9 if double else 1e-4
        if name in ("ridge", "poisson"):
            np.testing.assert_allclose(first.ravel(), model.predict(rows), tolerance, tolerance)
            continue
        assert np.mean(first == model.predict(rows)) > (1 - 1e-9 if double else 0.99)
        if hasattr(model, "predict_proba"):
            np.testing.assert_allclose(rest[0], model.predict_proba(rows), tolerance, tolerance)


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.parametrize("bounds", [(-1, 2), [(-1, 0.5), (2, 9), (0, 0.1)]])
def test_onnx_of_a_pipeline_predicts_the_same(bounds):
    skl2onnx = pytest.importorskip("skl2onnx")
    from onnx.reference import ReferenceEvaluator

    model = PrivateLogisticRegression(30.0, classes=["no", "yes"])
    pipeline = make_pipeline(BoundsScaler(bounds, feature_range=(-1, 3)), model).fit(X, LABELS)
    with pytest.raises(TypeError, match="model is a BoundsScaler: pass a fitted model"):
        to_onnx(pipeline[:1])
    plain = make_pipeline(pipeline[0], pipeline[-1].to_sklearn())
    graphs = [to_onnx(pipeline, double=True)]
    graphs.append(skl2onnx.to_onnx(plain, X[:1], options={"zipmap": False}))
    for graph in graphs:
        found = ReferenceEvaluator(graph).run(None, {"X": X})[1]
        np.testing.assert_allclose(found, pipeline.predict_proba(X), atol=1e-9)


@pytest.mark.system
@pytest.mark.filterwarnings("ignore")
def test_onnx_takes_raw_tables():
    """Gaps, text and whole numbers in a runtime, as README recommends: at most 1e-6 apart."""
    pytest.importorskip("skl2onnx")
    runtime = pytest.importorskip("onnxruntime")
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)

    def run(graph, given):
        session = runtime.InferenceSession(graph.SerializeToString())
        assert [one.name for one in session.get_inputs()] == list(given)
        return session.run(None, given)

    gaps = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    for missing in ("indicator", "pass"):
        scaler = BoundsScaler((-3, 3), missing=missing)
        last = PrivateGAMClassifier(30.0, bounds=(0, 1), classes=["no", "yes"])
        if missing == "indicator":
            last = PrivateLogisticRegression(30.0, classes=["no", "yes"])
        pipeline = make_pipeline(scaler, last).fit(gaps, LABELS)
        found = run(to_onnx(pipeline, double=True), {"X": gaps})
        np.testing.assert_allclose(found[1], pipeline.predict_proba(gaps), atol=1e-6)
    level = rng.choice(["x", "y", "7", "rare", None], N_SAMPLES).astype(object)
    frame = pandas.DataFrame({"a": gaps[:, 0], "w": level, "k": rng.integers(0, 3, N_SAMPLES)})
    for categories in ({"w": ["x", "y", "7"], "k": [0, 1]}, {"w": "auto", "k": [1, 2]}):
        options = {"bounds": {"a": (-3, 3)}, "categories": categories}
        text = frame[["w"]].fillna("").to_numpy()
        given = {"a": gaps[:, :1], "w": text, "k": frame[["k"]].to_numpy(float)}
        models = [
            PrivateGAMClassifier(30.0, classes=["no", "yes"], **options).fit(frame, LABELS),
            PrivateGAMRegressor(30.0, target_bounds=(-2, 2), **options).fit(frame, X[:, 0]),
        ]
        for model in models:
            found = run(to_onnx(model, double=True), given)[-1]
            expected = getattr(model, "predict_proba", model.predict)(frame)
            np.testing.assert_allclose(found.reshape(expected.shape), expected, atol=1e-6)


@pytest.mark.system
@pytest.mark.filterwarnings("ignore")
def test_inputs_of_onnx_have_the_names_of_columns():
    """Whatever names they are: none is changed, two are never one, and the file has a table."""
    runtime = pytest.importorskip("onnxruntime")
    names = ["a-b", "a_b", "a b", "1st", "", "()", "x.y", "å", "label", "variable", "probabilities"]
    names += ["Me", "skdpdyn_column_3", "X", "line\nbreak"]
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.uniform(0, 1, N_SAMPLES) for name in names})
    frame["w"] = rng.choice(["x", "y"], N_SAMPLES)
    given = {"bounds": (0, 1), "categories": {"w": ["x", "y"]}}
    model = PrivateGAMClassifier(99.0, classes=["no", "yes"], **given).fit(frame, LABELS)
    session = runtime.InferenceSession(to_onnx(model, double=True).SerializeToString())
    columns = json.loads(session.get_modelmeta().custom_metadata_map["columns"])
    assert columns == [*frame]
    inputs = [one.name for one in session.get_inputs()]
    assert len(set(inputs)) == len(columns)
    changed = {column: name for column, name in zip(columns, inputs, strict=True) if column != name}
    assert all(name.strip("()") == column.strip("()") for column, name in changed.items())
    assert set(changed) <= {"", "()", "label", "variable", "probabilities", "skdpdyn_column_3"}
    rows = {
        name: frame[[column]].to_numpy(object if column == "w" else float)
        for name, column in zip(inputs, columns, strict=True)
    }
    found = session.run(None, rows)[-1]
    np.testing.assert_allclose(found, model.predict_proba(frame), atol=1e-12)


def test_without_an_optional_library_the_error_has_the_line_to_paste(monkeypatch, tmp_path):
    model = clone(MODELS["logistic"][0]).fit(X, LABELS)
    uses = [
        ("skl2onnx", "onnx", lambda: to_onnx(model)),
        ("skops", "release", lambda: io.export(model, tmp_path / "folder")),
        ("matplotlib", "plot", lambda: PrivacyDynamicsDisplay.from_estimator(model)),
        ("pandas", "plot", evaluated(model).to_frame),
        ("dp_accounting", "events", lambda: model.privacy_.dp_event),
        ("dp_accounting", "events", lambda: model.privacy_.neighboring_relation),
    ]
    for library, extra, use in uses:
        for name in (library, "matplotlib.pyplot", "skops.io"):
            monkeypatch.setitem(sys.modules, name, None)
        line = f'{library} is needed: pip install "skdpdyn[{extra}]"'
        with pytest.raises(ImportError, match=re.escape(line)):
            use()


def evaluated(model):
    return evaluate(model, X, LABELS, epsilon=1.0)


# --- release folders


def test_every_public_estimator_is_trusted():
    for name in skdpdyn.__all__:
        kind = getattr(skdpdyn, name)
        assert not isinstance(kind, type) or f"{kind.__module__}.{name}" in TRUSTED


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A model, and its release folder."""
    pytest.importorskip("skops.io")
    model = clone(MODELS["logistic"][0]).fit(X, LABELS)
    folder = tmp_path_factory.mktemp("release") / "folder"
    return model, model.export(folder, formats=["pickle"], **DEPLOYMENT)


def copied(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


def resealed(folder):
    """Write the checksums that the files have now."""
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != io.SUMS}
    (folder / io.SUMS).write_text(io._sums(files))
    return folder


def test_a_release_folder_says_what_was_promised(released, capsys):
    model, folder = released
    report = model.privacy_report()
    assert io.check_folder(folder) == report.as_dict()
    assert main(["check", str(folder)]) == 0
    said = capsys.readouterr().out
    for part in (f"epsilon={model.epsilon_}", "one record", "not protected against", "not opened"):
        assert part in said
    record = json.loads((folder / io.REGISTRY).read_text())
    validate(record, schema())
    assert record == report.to_registry(**DEPLOYMENT)
    plain = pickle.loads((folder / io.PICKLE).read_bytes())
    assert (plain.predict(X) == model.predict(X)).all()


def test_an_audit_is_made_of_a_folder_and_kept_in_one(released, tmp_path, capsys):
    """Failure probability 1e-3 of a true claim, which is at half of it here."""
    model, folder = released
    assert main(["check", str(folder), "--audit"]) == 0
    said = capsys.readouterr().out
    assert "one fit of PrivateLogisticRegression on 30000 x 30000" in said
    assert "mu, by the farthest" in said
    assert main(["check", str(folder / io.REPORT), "--audit"]) == 1
    assert "no configuration" in capsys.readouterr().err
    found = audit(model, (20, 2), n_trials=1)
    kept = model.export(tmp_path / "kept", audit=found)
    assert (
        json.loads((kept / io.AUDIT).read_text())["findings"][0]["name"] == found.findings[0].name
    )
    assert main(["check", str(kept)]) == 0
    above = replace(found, findings=(replace(found.findings[0], claimed=1e-9),))
    with pytest.raises(ValueError, match="more than is claimed"):
        model.export(tmp_path / "above", audit=above)
    (kept / io.AUDIT).write_text(json.dumps(above.as_dict()))
    with pytest.raises(ValueError, match="more than is claimed"):
        io.check_folder(resealed(kept))


def test_a_configuration_without_games_is_not_audited(tmp_path, capsys):
    pytest.importorskip("skops.io")
    model = clone(MODELS["logistic"][0]).set_params(adjacency="add_remove").fit(X, LABELS)
    assert main(["check", str(model.export(tmp_path / "one")), "--audit"]) == 1
    assert "not audited: adjacency='add_remove'" in capsys.readouterr().err


def test_a_folder_without_a_deployment_is_one_too(released, tmp_path):
    model, _ = released
    folder = model.export(tmp_path / "plain")
    assert not (folder / io.REGISTRY).exists()
    assert io.check_folder(folder)["spent"]["epsilon"] == model.epsilon_
    with pytest.raises(ValueError, match="holds files"):
        model.export(folder)
    with pytest.raises(ValueError, match="must be among skops, onnx, pickle"):
        model.export(tmp_path / "other", formats=["zip"])
    seeded = clone(model).set_params(random_state=0).fit(X, LABELS)
    for formats in ((), ["onnx"], ["pickle"]):
        with pytest.raises(ValueError, match="this model is not private: random_state=0"):
            seeded.export(tmp_path / "seeded", formats=formats)


@pytest.mark.every_case
@pytest.mark.parametrize("there", ["no folder", "no folder above", "an empty folder"])
def test_whatever_call_fails_a_folder_is_whole_or_not_there(released, tmp_path, monkeypatch, there):
    """What was there before, nothing else, or the whole folder; if it returned, the folder."""
    model, folder = released
    skops = pytest.importorskip("skops.io")
    stored = skops.dumps(model)
    monkeypatch.setattr(skops, "dumps", lambda _: stored)  # in memory: the same for each fault
    names = sorted({path.name for path in folder.iterdir()} - {io.PICKLE, io.REGISTRY})
    above = tmp_path / "above"

    def prepare():
        shutil.rmtree(above, ignore_errors=True)
        if there != "no folder above":
            above.mkdir()
        if there == "an empty folder":
            (above / "release").mkdir()
        return sorted(tmp_path.rglob("*"))

    deaths = 0
    for before, error, where in every_fault(
        monkeypatch, prepare, lambda _: model.export(above / "release")
    ):
        found = sorted(tmp_path.rglob("*"))
        if (above / "release" / io.SUMS).exists():
            io.check_folder(above / "release")
            assert sorted(path.name for path in (above / "release").iterdir()) == names, where
        elif "death" not in where:
            assert error, where
            assert found == before, where
        else:  # nothing that looks like a release
            deaths += 1
            left = sorted((above / "release").glob("[!.]*"))
            assert not left or there == "an empty folder", where
            assert io.SUMS not in map(str, left), where
    assert deaths > 5


def test_changed_files_are_refused(released, tmp_path):
    folder = copied(released[1], tmp_path)
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        path.write_bytes(content + b" ")
        with pytest.raises(ValueError, match=io.SUMS):
            io.check_folder(folder)
        path.write_bytes(content)
    (folder / "more.txt").write_text("x")
    with pytest.raises(ValueError, match=io.SUMS):
        io.check_folder(folder)
    (folder / io.MODEL).unlink()
    with pytest.raises(ValueError, match=f"{io.MODEL}: missing"):
        io.check_folder(folder)
    assert main(["check", str(folder)]) == 1


def test_numbers_that_do_not_agree_are_refused_with_good_checksums(released, tmp_path):
    """In the report, the card and the registry record; and the model of another run."""
    model, original = released
    folder = copied(original, tmp_path)
    other = clone(model).set_params(epsilon=3.0).fit(X, LABELS)
    better = clone(model).set_params(epsilon=3.0).fit(X, LABELS).privacy_report()
    shown = f"{model.epsilon_:.6g}"
    for name, change, message in (
        (io.REPORT, lambda text: text.replace(str(model.epsilon_), "0.5"), "spent, epsilon"),
        (io.REPORT, lambda text: better.to_json(), "registry.yaml|the report says"),
        (io.CARD, lambda text: text.replace(f"({shown}, ", "(0.5, "), "not the card"),
        (io.REGISTRY, lambda text: text.replace(str(model.epsilon_), "0.5"), "the report says"),
        (io.REGISTRY, lambda text: text.replace("Central", "Local"), "not the card"),
        (io.REGISTRY, lambda text: text.replace('"tier": 3', '"tier": 1'), "not a record"),
    ):
        text = (original / name).read_text()
        assert change(text) != text
        (folder / name).write_text(change(text))
        with pytest.raises(ValueError, match=message):
            io.check_folder(resealed(folder))
        (folder / name).write_text(text)
    (folder / io.MODEL).write_bytes(pytest.importorskip("skops.io").dumps(other))
    with pytest.raises(ValueError, match=r"model\.skops: its own report has another"):
        io.check_folder(resealed(folder))
    (folder / io.MODEL).write_bytes(pytest.importorskip("skops.io").dumps(Foreign()))
    with pytest.raises(ValueError, match="Foreign, which is not of skdpdyn"):
        io.check_folder(resealed(folder))


@pytest.mark.filterwarnings("ignore:this Private")
def test_files_cut_or_changed_anywhere_are_refused_in_a_sentence(released, tmp_path, capsys):
    """With good checksums, whatever is in them: no traceback, and no other model."""
    rng = np.random.default_rng(1)
    folder = copied(released[1], tmp_path)
    for name in (io.REPORT, io.CARD, io.REGISTRY, io.MODEL):
        whole = (folder / name).read_bytes()
        for change in ("", "[]", "{}", '{"deployment": 1}', *rng.integers(len(whole), size=6)):
            if isinstance(change, str):
                content = change.encode()
            else:
                content = whole[:change] + bytes([whole[change] ^ 255]) + whole[change + 1 :]
            (folder / name).write_bytes(content)
            assert main(["check", str(resealed(folder))]) == 1, (name, change)
            assert len(capsys.readouterr().err.splitlines()) >= 1
        (folder / name).write_bytes(whole)
    (folder / "inner").mkdir()
    assert main(["check", str(folder)]) == 1


class Foreign:
    """What no release folder may hold."""


def ways():
    """Yield names and fits of all estimators, with each of their solvers and options."""
    frame = pytest.importorskip("pandas").DataFrame({"a": X[:, 0], "w": LABELS})
    additive = {"bounds": {"a": (-3, 3)}, "categories": "auto"}
    who = np.repeat(np.arange(N_SAMPLES // 2), 2)
    models = [
        *((model, X, y) for model, y in MODELS.values()),
        (PrivateQuantileRegressor(30.0, target_bounds=(-2, 2)), X, X[:, 0]),
        (PrivateGAMClassifier(30.0, classes=["no", "yes"], **additive), frame, LABELS),
        (PrivateGAMRegressor(30.0, target_bounds=(-2, 2), **additive), frame, X[:, 0]),
    ]
    start = clone(MODELS["logistic"][0]).fit(X, LABELS)
    options = [
        *({"solver": name} for name in ("auto", *SOLVERS)),
        *({"adjacency": "add_remove"}, {"class_weight": "private"}),
        *({"conditioning": None}, {"fit_intercept": False}, {"start": start}),
        {"schema": skdpdyn.Schema(classes=["no", "yes"], target_bounds=(-2, 2))},
        *({"categories": {"w": ["no", "yes"]}}, {"bound": "last_iterate", "conditioning": None}),
    ]
    for model, rows, y in models:
        named = f"{type(model).__name__}-{len(np.unique(y))}"
        for option in options:
            if option.keys() <= model.get_params().keys():
                records = {"X": rows, "y": y}
                yield f"{named} {option}"[:90], clone(model).set_params(**option), records
        yield f"{named} of households", clone(model), {**records, "groups": who, "unit": "house"}


@pytest.mark.system
@pytest.mark.filterwarnings("ignore")
def test_whatever_fits_is_exported_checked_and_predicts_the_same_bits_elsewhere(tmp_path):
    pytest.importorskip("skops.io")
    expected = {}
    refused = set()
    for number, (name, model, records) in enumerate(ways()):
        try:
            model.fit(**records)
        except (ValueError, UnsupportedMechanismError, CalibrationError):
            refused.add(name)
            continue
        model.export(tmp_path / str(number))
        expected[str(number)] = name, model.predict(records["X"])
    assert len(expected) > 2 * len(refused) > 0
    code = (
        "import pickle, sys, pathlib, skops.io\n"
        "from skdpdyn.export.io import MODEL, TRUSTED, check_folder\n"
        "rows, found = pickle.load(sys.stdin.buffer), {}\n"
        "for folder in pathlib.Path(sys.argv[1]).iterdir():\n"
        "    check_folder(folder)\n"
        "    model = skops.io.load(folder / MODEL, trusted=TRUSTED)\n"
        "    found[folder.name] = model.predict(rows[model.n_features_in_])\n"
        "sys.stdout.buffer.write(pickle.dumps(found))"
    )
    rows = {3: X, 2: records["X"]}  # the last are of additive models
    command = [sys.executable, "-c", code, str(tmp_path)]
    run = subprocess.run(command, input=pickle.dumps(rows), stdout=subprocess.PIPE)
    assert run.returncode == 0
    found = pickle.loads(run.stdout)
    for number, (name, answer) in expected.items():
        assert (found[number] == answer).all(), name


@pytest.mark.system
@pytest.mark.filterwarnings("ignore")
def test_the_graph_of_a_release_folder_is_that_of_the_model(released, tmp_path):
    pytest.importorskip("skl2onnx")
    model, _ = released
    folder = model.export(tmp_path / "graph", formats=["onnx"])
    io.check_folder(folder)
    content = (folder / io.ONNX).read_bytes()
    parsed = to_onnx(model)
    domains = [one.domain for one in parsed.opset_import]
    assert domains == sorted(domains)  # of a set, whose order is another in each process
    first = type(parsed)(graph=parsed.graph).SerializeToString()
    parsed.ClearField("graph")
    (folder / io.ONNX).write_bytes(first + parsed.SerializeToString())
    assert (folder / io.ONNX).read_bytes() != content
    io.check_folder(resealed(folder))  # the same graph
    other = clone(model).fit(X, LABELS).export(tmp_path / "other", formats=["onnx"])
    shutil.copy(other / io.ONNX, folder / io.ONNX)
    with pytest.raises(ValueError, match=r"model\.onnx: not the model"):
        io.check_folder(resealed(folder))
