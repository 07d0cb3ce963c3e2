"""The guard of scores: the rows of the fit warn once, and are kept nowhere."""

import gc
import pickle
import warnings
from weakref import ref

import numpy as np
import pytest
from sklearn.base import clone
from test_models import CASES

from skdpdyn.exceptions import PrivacyLeakWarning
from skdpdyn.model_selection import PrivateSearchCV

MESSAGE = "its score is computed from private records"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_scores_of_the_rows_of_the_fit_warn_once(case):
    X, y = case.data(60)
    model = case.model().fit(X, y)
    with pytest.warns(PrivacyLeakWarning, match=MESSAGE):
        model.score(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        model.score(X, y)  # once is enough
    model.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        model.score(X.copy(), y)  # other rows
        for copy in (clone(model).fit(X.copy(), y), pickle.loads(pickle.dumps(model))):
            copy.score(X, y)
    with pytest.warns(PrivacyLeakWarning, match=MESSAGE):
        model.score(X, y)


def test_searches_warn_and_their_lent_rows_do_not():
    case = CASES[0]
    X, y = case.data(60)
    options = {"epsilon": 2.0, "delta": 1e-4, "expected_trials": 2}
    search = PrivateSearchCV(case.model(), {"clip": ["auto", 0.5]}, **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(X, y)
    assert not [one for one in caught if MESSAGE in str(one.message)]
    with pytest.warns(PrivacyLeakWarning, match=MESSAGE):
        search.score(X, y)


def test_rows_are_kept_nowhere():
    case = CASES[0]
    X, y = case.data(60)
    model = case.model().fit(X, y)
    alive = ref(X)
    assert not any(value is X for value in vars(model).values())
    assert X.tobytes() not in pickle.dumps(model)
    del X
    gc.collect()
    assert alive() is None
    rows = [[0.1, 0.2], [0.3, 0.1]] * 20
    model.fit(rows, np.tile([0, 1], 20))  # of which nobody can keep a weak reference
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        model.score(rows, np.tile([0, 1], 20))
