"""Types as an editor sees them: a user's script has no error and no unknown name."""

import json
import re
import subprocess
import sys
from doctest import DocTestParser
from pathlib import Path

import pytest

SCRIPT = """
import numpy as np
from sklearn.pipeline import make_pipeline

from skdpdyn import (
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.datasets import load_adult
from skdpdyn.model_selection import PrivateSearchCV, search_privacy, total_privacy
from skdpdyn.preprocessing import BoundsScaler, PrivateScaler
from skdpdyn.privacy import GaussianDP, Ledger, calibrate, last_iterate, tightest
from skdpdyn.solvers import DPSGD, NoisyGD, ObjectivePerturbation

X = np.random.default_rng(0).normal(size=(100, 3))
y = X[:, 0] > 0
model = PrivateLogisticRegression(epsilon=1.0, classes=[False, True]).fit(X, y)
print(model.epsilon_ + 1, model.coef_ @ X.T, round(model.privacy_.epsilon(1e-5), 3))
print(model.classes_, model.n_features_in_, model.feature_names_in_, PrivateLinearSVC().classes_)
print(PrivateRidge().target_bounds_[0] + 1.0, PrivateLinearSVC().coef_.shape)
print(model.predict_proba(X)[:, 1], model.score(X, y), model.privacy_report())
PrivateSoftmaxRegression(classes=range(3), solver="noisy_sgd", delta=1e-6).fit(X, y.astype(int))
PrivateRidge(target_bounds=(0, 1), solver=NoisyGD(n_steps=10)).fit(X, X[:, 0])
PrivateLinearSVC(classes=[False, True], solver=DPSGD(batch_size=10)).fit(X, y)
PrivatePoissonRegressor(target_bounds=(0, 9)).fit(X, y.astype(int))
pipeline = make_pipeline(BoundsScaler(bounds=(-3, 3)), PrivateScaler(epsilon=0.1), model)
total_privacy(pipeline.fit(X, y)).epsilon(1e-5)
search = PrivateSearchCV(model, {"clip": [0.1, 1.0]}, epsilon=2.0, delta=1e-6).fit(X, y)
adult = load_adult()
reveal_type((model, model.fit(X, y), model.privacy_, model.privacy_cost(100, 3), model.predict(X)))
reveal_type((tightest, calibrate, last_iterate, total_privacy, search_privacy, search))
reveal_type((GaussianDP(1.0).tradeoff(0.01), Ledger, ObjectivePerturbation, adult))
"""


ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *(ROOT / "doc").glob("*/*.rst")]

# Errors in names without annotations of other packages: pyright takes a parameter for its default's
# type, so `OneHotEncoder` could not take lists of categories, and a pipeline has no step of ours.
# Stubs of pandas take no list of names, and some packages are not installed here
FOREIGN = re.compile(
    r'parameter "(categories|chunks|knots)" of type'  # scikit-learn's, dask's
    r'|parameter "(columns" of type "Axes|dtype" of type "DtypeArg)|overloads for "read_csv"'
    r'|for class "Pipeline\*?"|"None" is not subscriptable|Import "(statsmodels|interpret)'
)


def diagnostics(*paths):
    """Return what pyright says of some files."""
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    run = subprocess.run([*command, *paths], capture_output=True, text=True, timeout=600)
    return json.loads(run.stdout)["generalDiagnostics"]


@pytest.mark.system
@pytest.mark.slow
def test_an_editor_knows_every_name_of_a_script(tmp_path):
    pytest.importorskip("pyright")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    found = diagnostics(script)
    assert [one["message"] for one in found if one["severity"] == "error"] == []
    told = [one["message"] for one in found if one["severity"] == "information"]
    assert len(told) == SCRIPT.count("reveal_type(")
    assert [text for text in told if "Unknown" in text] == []


@pytest.mark.system
@pytest.mark.slow
def test_an_editor_finds_no_error_in_examples_and_pages(tmp_path):
    """Names of skdpdyn that are unknown are errors too: see "Unknown" in a message."""
    pytest.importorskip("pyright")
    examples = {page: DocTestParser().get_examples(page.read_text()) for page in PAGES}
    for number, (page, found) in enumerate(examples.items()):
        source = "".join(example.source for example in found if not example.exc_msg)
        (tmp_path / f"{page.stem}_{number}.py").write_text(source)
    said = diagnostics(tmp_path, *(ROOT / "examples").rglob("*.py"))
    errors = [
        (Path(one["file"]).name, one["message"]) for one in said if one["severity"] == "error"
    ]
    errors = [(name, message) for name, message in errors if not FOREIGN.search(message)]
    assert sum(map(len, examples.values())) > 200
    assert not errors
