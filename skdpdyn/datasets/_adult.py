"""The Adult (Census Income) data set."""

from typing import Any, Literal, overload

import numpy as np
from sklearn.utils import Bunch

from skdpdyn.datasets._tables import bunch, columns_of

# Public facts about the variables, not computed from these records: documented ranges, rounded
# outwards
BOUNDS = {
    "age": (17, 90),
    "fnlwgt": (0, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 100_000),
    "capital-loss": (0, 4_500),
    "hours-per-week": (1, 99),
}

# The levels that the census form offers, without "?"
CATEGORIES = {
    name: levels.split()
    for name, levels in {
        "workclass": (
            "Federal-gov Local-gov Never-worked Private Self-emp-inc Self-emp-not-inc "
            "State-gov Without-pay"
        ),
        "education": """
            10th 11th 12th 1st-4th 5th-6th 7th-8th 9th Assoc-acdm Assoc-voc Bachelors Doctorate
            HS-grad Masters Preschool Prof-school Some-college""",
        "marital-status": """
            Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent Never-married
            Separated Widowed""",
        "occupation": """
            Adm-clerical Armed-Forces Craft-repair Exec-managerial Farming-fishing
            Handlers-cleaners Machine-op-inspct Other-service Priv-house-serv Prof-specialty
            Protective-serv Sales Tech-support Transport-moving""",
        "relationship": "Husband Not-in-family Other-relative Own-child Unmarried Wife",
        "race": "Amer-Indian-Eskimo Asian-Pac-Islander Black Other White",
        "sex": "Female Male",
        "native-country": """
            Cambodia Canada China Columbia Cuba Dominican-Republic Ecuador El-Salvador England
            France Germany Greece Guatemala Haiti Holand-Netherlands Honduras Hong Hungary India
            Iran Ireland Italy Jamaica Japan Laos Mexico Nicaragua Outlying-US(Guam-USVI-etc)
            Peru Philippines Poland Portugal Puerto-Rico Scotland South Taiwan Thailand
            Trinadad&Tobago United-States Vietnam Yugoslavia""",
    }.items()
}


@overload
def load_adult(
    *, return_X_y: Literal[False] = False, as_frame: bool = True, complete: bool = True
) -> Bunch: ...
@overload
def load_adult(
    *, return_X_y: Literal[True], as_frame: bool = True, complete: bool = True
) -> tuple[Any, Any]: ...
def load_adult(*, return_X_y: bool = False, as_frame: bool = True, complete: bool = True) -> Any:
    """Load the Adult (Census Income) data.

    Does a person earn more than 50,000 dollars a year?

    B. Becker, R. Kohavi (1996), UCI Machine Learning Repository, doi:10.24432/C5XW20, CC BY 4.0.

    ================   ==============
    Records            45,222 complete of 48,842
    Columns            14: 6 numeric, 8 categorical
    Classes            "<=50K" (75.2 %) and ">50K"
    ================   ==============

    Parameters
    ----------
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=True
        Data as a pandas DataFrame and target as a Series; False: as arrays, ``data`` of dtype
        object, without pandas.
    complete : bool, default=True
        Only the records without a missing value ("?"). They are the data set of the benchmarks:
        dropping records of private data would make their number private.

    Returns
    -------
    data : Bunch
        With ``data``, ``target``, ``frame`` (data and target; None for arrays), ``feature_names``,
        ``target_names``, ``split`` ("train" or "test", as UCI split it), ``bounds`` (public bounds
        of the numeric columns), ``categories`` (public levels of the others), ``DESCR``.
    (data, target) : tuple
        In its place with ``return_X_y``: data of shape (n_samples, 14) and target of shape
        (n_samples,).

    Examples
    --------
    >>> from skdpdyn.datasets import load_adult
    >>> X, y = load_adult(return_X_y=True, as_frame=False)
    >>> X.shape, round(float((y == ">50K").mean()), 3)
    ((45222, 14), 0.248)
    """
    columns = columns_of("adult.csv.gz", {*CATEGORIES, "income", "split"})
    if complete:
        present = np.all([columns[name] != "?" for name in CATEGORIES], axis=0)
        columns = {name: values[present] for name, values in columns.items()}
    target = columns.pop("income")
    split = columns.pop("split")
    return bunch(
        columns,
        ("income", target),
        {},
        as_frame=as_frame,
        return_X_y=return_X_y,
        split=split,
        target_names=["<=50K", ">50K"],
        bounds=dict(BOUNDS),
        categories={name: list(levels) for name, levels in CATEGORIES.items()},
        DESCR=load_adult.__doc__,
    )
