"""What one Python writes, another one reads: ``.ci/run`` has the oldest and the newest run this.

``python tests/agreement.py write FOLDER`` fits models with a seed and stores them there, and a
release folder; ``python tests/agreement.py read FOLDER`` fits the same models, and compares.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from skdpdyn import (
    PrivateGAMClassifier,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidge,
    PrivateSoftmaxRegression,
)
from skdpdyn.export.io import check_folder, checked_folder
from skdpdyn.privacy import to_json
from skdpdyn.privacy.serialization import agree

SAME = 1e-9  # part by which other versions of numpy and scipy may round

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (3000, 3))
SCORE = X @ [2.0, -1.0, 0.5]
FRAME = pd.DataFrame(X, columns=[*"abc"]).assign(side=np.where(SCORE > 0, "up", "down"))
FITS = {
    "logistic": (PrivateLogisticRegression, X, (SCORE > 0).astype(int)),
    "softmax": (PrivateSoftmaxRegression, X, np.digitize(SCORE, [-1, 1])),
    "ridge": (PrivateRidge, X, SCORE),
    "counts": (PrivatePoissonRegressor, X, np.round(np.exp(SCORE))),
    "additive": (PrivateGAMClassifier, FRAME, SCORE > 0),
    "batches": (
        lambda **options: PrivateLogisticRegression(
            classes=[0, 1], bounds=(-1, 1), solver="dp_sgd", **options
        ),
        X,
        (SCORE > 0).astype(int),
    ),
}


def fitted():
    """Yield models that are fitted with a seed, by their names."""
    for name, (made, rows, y) in FITS.items():
        yield name, made(epsilon=3.0, random_state=0).fit(rows, y)


def write(folder):
    """Store what seeded fits have found, and the release folder of a private one."""
    found = {
        name: [np.ravel(model.coef_).tolist(), to_json(model.mechanism_), to_json(model.privacy_)]
        for name, model in fitted()
    }
    (folder / "fits.json").write_text(json.dumps(found))
    model = PrivateGAMClassifier(epsilon=3.0).fit(FRAME, SCORE > 0)
    model.export(folder / "released")
    np.save(folder / "predicted.npy", model.predict_proba(FRAME))


def read(folder):
    """Fit again, and compare; check the folder, and what its model predicts."""
    stored = json.loads((folder / "fits.json").read_text())
    most = 0.0
    for name, model in fitted():
        coef, record, cost = stored[name]
        apart = np.abs(np.ravel(model.coef_) - coef).max() / np.abs(coef).max()
        assert apart <= SAME, f"{name}: coefficients are {apart:.3g} apart"
        for text, own in ((record, model.mechanism_), (cost, model.privacy_)):
            assert agree(json.loads(text), json.loads(to_json(own)), SAME), f"{name}: {text}"
        most = max(most, apart)
    check_folder(folder / "released")
    (_, model) = checked_folder(folder / "released")
    predicted = np.load(folder / "predicted.npy")
    np.testing.assert_allclose(model.predict_proba(FRAME), predicted, rtol=SAME, atol=SAME)
    print(f"{len(stored)} seeded fits agree, to {most:.2g}, and a release folder")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    {"write": write, "read": read}[sys.argv[1]](Path(sys.argv[2]))
