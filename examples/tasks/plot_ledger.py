"""
A shared privacy budget
=======================

Several people train on the same records, and each fit spends privacy. The ledger keeps the books in
a file: a cost is set aside before a fit and settled after it, and nobody can pass the cap that was
agreed on for the data set.
"""

# %%
# Open the books
# --------------
# The cap is a decision of the team, made once. (A temporary folder here; a shared one in practice.)

import tempfile
from pathlib import Path

import numpy as np

from skdpdyn import PrivateLogisticRegression, PrivateRidge
from skdpdyn.exceptions import BudgetExceededError
from skdpdyn.preprocessing import PrivateScaler
from skdpdyn.privacy import GaussianDP, Ledger

folder = tempfile.TemporaryDirectory()
ledger = Ledger(Path(folder.name) / "patients.ledger", cap=(1.0, 1e-8))

rng = np.random.default_rng(0)
X = rng.uniform(-0.5, 0.5, (5000, 4))
y = X[:, 0] + 0.1 * rng.standard_normal(5000) > 0

# %%
# Reserve, fit, settle
# --------------------
# ``privacy_cost`` says what a fit will spend, from public numbers alone. Another process that
# reserves at the same time waits its turn.

scaler = PrivateScaler(0.2, 1e-8)
with ledger.reserve("scaler", scaler.privacy_cost(*X.shape)) as entry:
    rows = scaler.fit_transform(X)
    entry.settle(scaler)

model = PrivateLogisticRegression(epsilon=0.6, delta=1e-8, classes=[False, True], bounds=(-1, 1))
with ledger.reserve("readmission, May", model.privacy_cost(*rows.shape)) as entry:
    model.fit(rows, y)
    entry.settle(model)

# %%
# When something fails
# --------------------
# Noise may have been drawn, and somebody may have seen a part of the outcome: the entry stays
# charged. If nothing was released, someone says so by name. That is noted; the first line stays in
# the books.

ridge = PrivateRidge(epsilon=0.5, delta=1e-8, target_bounds=(0, 100))
try:
    with ledger.reserve("length of stay", ridge.privacy_cost(*X.shape)):
        raise MemoryError  # before the records were read
except MemoryError:
    print(f"charged after the failure: epsilon {ledger.epsilon:.4f}")
ledger.cancel("length of stay", "the machine was too small, the records were never read")
print(f"charged after the cancellation: epsilon {ledger.epsilon:.4f}\n")

# %%
# What would pass the cap is refused
# ----------------------------------

try:
    ledger.reserve("everything again", model.set_params(epsilon=0.9).privacy_cost(*X.shape))
except BudgetExceededError as error:
    print(error)
print(f"would a release of mu = 0.1 fit? {ledger.fits(GaussianDP(0.1))}\n")

# %%
# Read the books
# --------------
# As text, and as a table in notebooks. Any other process sees the same file.

print(Ledger(ledger.path))
folder.cleanup()
