"""What is added up of a row follows from that row, and from what is public.

Two neighbours have the same outcomes of releases. What sums are handed on both is the same, bit by
bit: numbers of all rows but those of the first record, and all that is of no row. So no limit and
no centre follows from other records, which `test_spent.py` sees where sums move by far alone.
"""

from contextlib import ExitStack
from unittest.mock import patch

import numpy as np
import pytest
from releases import WAYS_OUT, N, overheard, table
from scipy import sparse
from spending import noise_is_found_once

from skdpdyn.audit import Listener
from skdpdyn.data.local import LocalRows
from skdpdyn.data.tally import RowTally
from skdpdyn.inference.scored import ScoredRows

pytestmark = pytest.mark.every_case

TALLIED = "sum", "by_place", "columns", "moments", "counts", "within", "by_strategy"
SUMS = {
    RowTally: (*TALLIED, "at_several", "signed"),
    ScoredRows: ("lost", "lost_of", "gradient", "scores"),
    LocalRows: ("summed", "residual_sum"),
}
"""What adds up numbers of rows, by who has them; not gradients at points that nobody is told."""
FIRST = 5  # a record is one of the first rows of so many, where each has several
OF_STEPS = "noisy", "dp_sgd", "output", "objective", "sufficient", "PrivateSearchCV"
PLAIN = (
    "PrivateSoftmaxRegression",
    "PrivateSoftmaxRegression clipped",
    "PrivateLinearSVC",
    "PrivateRidge",
    "PrivateGAMClassifier batches",
)
WAYS = [way for way in WAYS_OUT if not (way.startswith(OF_STEPS) or way in PLAIN)]
"""Ways that add up more than gradients."""


def noted(run, listener, data):
    """Return what sums are handed where a way runs."""
    notes = []

    def noting(method):
        def noted_first(self, *arguments, **options):
            of_self = {name: value for name, value in vars(self).items() if name[0] != "_"}
            notes.append((method.__name__, of_self, arguments, options))
            return method(self, *arguments, **options)

        return noted_first

    with ExitStack() as patches:
        for kind, names in SUMS.items():
            for name in names:
                patches.enter_context(patch.object(kind, name, noting(getattr(kind, name))))
        overheard(listener, run, data)
    return notes


def check_alike(one, other):
    """Hold that what sums are handed is the same, but for the first rows."""
    if sparse.issparse(one):
        one, other = one.toarray(), other.toarray()
    if isinstance(one, np.ndarray) and one.ndim:
        rest = slice(FIRST * len(one) // N if len(one) % N == 0 else 0, None)
        np.testing.assert_array_equal(one[rest], other[rest])
    elif isinstance(one, dict):
        for name in one.keys() & other.keys():  # properties may be cached in one of them
            check_alike(one[name], other[name])
    elif isinstance(one, tuple | list):
        for pair in zip(one, other, strict=True):
            check_alike(*pair)
    elif hasattr(one, "__dict__") and not callable(one):
        check_alike(vars(one), vars(other))
    elif not callable(one):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("way", WAYS)
def test_sums_are_handed_what_follows_from_each_row(way):
    one, other = table(2)
    run = WAYS_OUT[way](2)
    first = Listener()
    with noise_is_found_once():
        notes = noted(run, first, one)
        check_alike(notes, noted(run, Listener(first.calls), other))
    assert notes
