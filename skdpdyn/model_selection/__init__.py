"""Choosing hyperparameters: a private search, and the true price of searches that are not.

`PrivateSearchCV` releases the best of a random number of private trials, under one budget for all
of them. `search_privacy` says what a search of scikit-learn spent on its fits, `total_privacy` what
several releases cost together.
"""

from skdpdyn.model_selection.private_search import PrivateSearchCV
from skdpdyn.model_selection.totals import PrivacyTotal, search_privacy, total_privacy

__all__ = ["PrivacyTotal", "PrivateSearchCV", "search_privacy", "total_privacy"]
