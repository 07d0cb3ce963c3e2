"""
An audit of a model
===================

A guarantee is a proof about what should run. An audit looks at what does run: it makes up
neighbouring data sets, far apart, and compares what they show with what is claimed.
"""

import warnings
from unittest.mock import patch

import matplotlib.pyplot as plt

from skdpdyn import PrivateLinearSVC, PrivateLogisticRegression, audit
from skdpdyn.core.sealed import Sealed

plt.style.use("tableau-colorblind10")
warnings.simplefilter("ignore")
model = PrivateLogisticRegression(epsilon=3.0, delta=1e-2, classes=[0, 1])

# %%
# A replay
# --------
# Every release is recorded on one data set and repeated on its neighbours. How far it moves, in
# units of its noise, is held against its part of the record. A replay is exact, and says where a
# fault is.

found = audit.audit(model, (100, 4))
print(found)
found.plot()
plt.show()

# %%
# A fault
# -------
# Somebody halves a sensitivity. The audit names the parts that leak more than they claim.

of_record = Sealed.sensitivity


def careless(self, adjacency):
    """Return half of what one record can change."""
    return of_record(self, adjacency) / 2


with patch.object(Sealed, "sensitivity", careless):
    broken = audit.audit(model, (100, 4))
print(broken)

# %%
# One fit
# -------
# A black box needs no records of what ran. Each of 10,000 made-up records has a column of its own,
# and its label, a coin, is guessed by the sign of its coefficient. What it shows is a lower limit,
# so it can find a fault, and cannot prove that there is none.

plain = PrivateLinearSVC(epsilon=4.0, delta=1e-6, conditioning=None, fit_intercept=False)
seen = audit.audit(plain, 10_000, kind="one_fit")
print(seen)
seen.plot()
plt.show()
