"""Rows of persons: the protected record is a person with any number of rows.

Every row of a person with k rows has weight 1/k. So a person adds the mean of their rows to a sum,
which is no larger than one of them: sensitivity and curvature are those of one row. The weight only
depends on the person's own rows. Divisors are the number of persons, which is public. The number of
rows is not public, and nothing that is shown may depend on it.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from skdpdyn.privacy.checks import checked_count, is_auto, quoted
from skdpdyn.privacy.guarantees import checked_unit

AUTO_ROWS = 100
"""Default limit on the rows of a person, enough to know their mean well."""
MOST_ROWS = 10**9
"""Most rows of a person that may be asked for."""
_AUTO_TOTAL = 10**10  # rows in all: beyond, room for the rounding of their sums would be felt
_ROOM = 1 - 8 * np.finfo(np.float64).eps  # so that rounded weights of a person add up to at most 1


def auto_rows(n_samples: int) -> int:
    """Return how many rows of a person are used by default.

    At most 100, and fewer if there are more than a hundred million persons.
    """
    return max(1, min(AUTO_ROWS, _AUTO_TOTAL // n_samples))


@dataclass(frozen=True, eq=False)
class Persons:
    """Rows of each person.

    Parameters
    ----------
    rows : ndarray of shape (n_rows,)
        Numbers of the rows, person by person.
    first : ndarray of shape (n_persons + 1,)
        Position in ``rows`` of each person's first row, and the number of rows.
    """

    rows: np.ndarray
    first: np.ndarray

    @property
    def n_persons(self) -> int:
        """Number of persons, which is public."""
        return len(self.first) - 1

    @cached_property
    def largest(self) -> int:
        """Largest number of rows of a person."""
        return int(np.max(np.diff(self.first)))

    def owners(self) -> np.ndarray:
        """Return the number of each row's person."""
        owners = np.empty(len(self.rows), dtype=np.intp)
        owners[self.rows] = np.repeat(np.arange(self.n_persons), np.diff(self.first))
        return owners

    def rows_of(self, persons: np.ndarray) -> np.ndarray:
        """Return the numbers of these persons' rows, person by person."""
        counts = np.diff(self.first)[persons]
        starts = self.first[persons] - np.append(0, np.cumsum(counts)[:-1])
        return self.rows[np.repeat(starts, counts) + np.arange(np.sum(counts))].view(np.intp)

    def of(self, persons: np.ndarray) -> np.ndarray:
        """Return the numbers of these persons' rows, in the order of the rows."""
        chosen = np.zeros(self.n_persons, dtype=bool)
        chosen[persons] = True
        return np.sort(self.rows[np.repeat(chosen, np.diff(self.first))])


def unit_of(groups, unit: str | None) -> str:
    """Return the name of the unit a fit protects: a record, or the unit of groups.

    Parameters
    ----------
    groups : array-like or None
        The ids, as a fit is given them; only whether there are any is looked at.
    unit : str or None
        Name of what they are the ids of; None: "person".

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If it is no word, or does not suit ``groups``.

    Examples
    --------
    >>> from skdpdyn.data.persons import unit_of
    >>> unit_of(None, None), unit_of([1, 1, 2], None), unit_of([1, 1, 2], "household")
    ('record', 'person', 'household')
    """
    if unit is None:
        return "record" if groups is None else "person"
    if (checked_unit(unit) == "record") != (groups is None):
        raise ValueError(
            f"unit={quoted(unit)}: a record is a row by itself, and any other unit is what groups "
            "hold the ids of. Pass both, or neither"
        )
    return unit


def checked_most_rows(limit: Any, n_samples: int) -> int:
    """Return the public limit on the rows of a person, as ``max_rows_per_person`` says it.

    Parameters
    ----------
    limit : int or "auto"
        The parameter.
    n_samples : int
        Number of persons.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If it is neither "auto" nor such a number.
    """
    if is_auto(limit):
        return auto_rows(n_samples)
    return checked_count(limit, "max_rows_per_person", largest=MOST_ROWS)


def persons_of(groups: Any, n_rows: int) -> tuple[np.ndarray | None, int]:
    """Return the number of each row's person, and how many persons there are.

    Parameters
    ----------
    groups : array-like of shape (n_rows,) or None
        Ids, see `person_codes`. None: each row is a record, and has no number.
    n_rows : int
        Number of rows.

    Returns
    -------
    ndarray of shape (n_rows,) or None
        The numbers.
    int
        Number of records.

    Examples
    --------
    >>> from skdpdyn.data.persons import persons_of
    >>> persons_of(["b", "a", "b", "c"], 4)[1], persons_of(None, 4)
    (3, (None, 4))
    """
    if groups is None:
        return None, n_rows
    codes = person_codes(groups, n_rows)
    return codes, int(codes.max()) + 1


def _codes_of_array(ids):
    """Return codes of numbers or strings, in the order in which they first appear."""
    if ids.dtype.kind not in "biufUS":
        raise ValueError(_KINDS)
    if ids.dtype.kind == "f" and not np.all(np.isfinite(ids)):
        raise ValueError(_MISSING)
    _, first, codes = np.unique(ids, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[codes]


def person_codes(groups, n_rows: int) -> np.ndarray:
    """Return the number of each row's person, in the order in which persons first appear.

    Parameters
    ----------
    groups : array-like of shape (n_rows,)
        Ids: integers, finite floats or strings.
    n_rows : int
        Number of rows.

    Returns
    -------
    ndarray of shape (n_rows,)

    Raises
    ------
    ValueError
        If an id is missing or of another kind, their number is another, or all rows are of one
        person. No id is quoted.

    Examples
    --------
    >>> from skdpdyn.data.persons import person_codes
    >>> person_codes(["b", "a", "b", "c"], 4).tolist()
    [0, 1, 0, 2]
    """
    if isinstance(groups, np.ma.MaskedArray) and np.any(np.ma.getmaskarray(groups)):
        raise ValueError(_MISSING)
    try:
        ids = np.asarray(groups)
        is_listed = isinstance(groups, list | tuple)
        if is_listed or (ids.dtype.kind in "US" and not isinstance(groups, np.ndarray)):
            # numpy would make numbers text, or floats that large ids share
            ids = np.asarray(groups, dtype=object)
    except Exception:
        ids = np.empty((0, 0))
    if ids.ndim != 1:
        raise ValueError("groups must be an array-like of one id for each row of X")
    if len(ids) != n_rows:
        raise ValueError("groups must hold one id for each row of X: there are more or fewer")
    codes = _codes_of_objects(ids) if ids.dtype.kind == "O" else _codes_of_array(ids)
    if codes.size and not np.any(codes):
        raise ValueError(
            "groups says that all rows are of one person: nothing can be learnt of one person "
            "without "
            "telling of them. Leave groups out if rows are of different persons"
        )
    return codes


_MISSING = (
    "groups holds missing ids (None, NaN or masked): every row needs an owner. Give rows of "
    "unknown owners ids of their own only if each is of another person"
)
_KINDS = "groups must hold integers, or strings: one kind of ids, equal for rows of one person"


def _codes_of_objects(ids):
    """Return the number of each id of any objects, in the order in which they first appear."""
    numbers: dict = {}
    for person in ids.tolist():
        if _is_missing(person):
            raise ValueError(_MISSING)
    try:
        codes = [numbers.setdefault(person, len(numbers)) for person in ids.tolist()]
        kinds = {isinstance(person, str) for person in numbers}
    except Exception:  # an id that is not hashable, whose error would be the other's context
        kinds = {True, False}
    if len(kinds) > 1:
        raise ValueError(_KINDS)
    return np.array(codes, np.int64)


def _is_missing(value):
    try:
        return value is None or bool(value != value)
    except Exception:  # pandas' NA is neither
        return True


def by_person(
    codes: np.ndarray, most_rows: int, equal: bool = False
) -> tuple[np.ndarray | None, Persons, np.ndarray]:
    """Return which rows are used, the person of each, and their weights.

    From a person with more than ``most_rows`` rows, that many are used, evenly spaced in the order
    of the rows. The choice depends on no value.

    Parameters
    ----------
    codes : ndarray of shape (n_rows,)
        Number of each row's person, as `person_codes` returns it.
    most_rows : int
        Public limit on the rows of a person that are used.
    equal : bool, default=False
        Whether every row has the public weight 1/most_rows, not 1/k.

    Returns
    -------
    used : ndarray of shape (n_used,) or None
        Numbers of the rows that are used; None: all.
    persons : Persons
        Persons of the used rows, which are numbered anew.
    weight : ndarray of shape (n_used,) or (0,)
        1/k of each row of a person with k rows, rounded so that k of them add up to at most 1.
        Empty where everyone has one row.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpdyn.data.persons import by_person
    >>> used, persons, weight = by_person(np.array([0, 1, 0, 0]), most_rows=2)
    >>> used.tolist(), persons.n_persons, weight.round(6).tolist()
    ([1, 2, 3], 2, [1.0, 0.5, 0.5])
    """
    used = None
    (rows, counts, first) = _sorted(codes)
    if np.any(counts > most_rows):
        place = np.arange(len(rows)) - np.repeat(first[:-1], counts)
        size = np.repeat(counts, counts)  # rows of the person of each row
        most = np.minimum(size, most_rows)
        used = np.sort(rows[(place + 1) * most // size > place * most // size])
        codes = codes[used]
        rows, counts, first = _sorted(codes)
    weight = np.empty(0)
    if equal:
        weight = np.full(len(codes), 1.0 if most_rows == 1 else _ROOM / most_rows)
    elif np.any(counts > 1):
        weight = np.where(counts == 1, 1.0, _ROOM / counts)[codes]
    return used, Persons(rows.astype(np.uintp), first), weight


def _sorted(codes):
    """Return numbers of rows person by person, how many each has, and where they begin."""
    counts = np.bincount(codes)
    return np.argsort(codes, kind="stable"), counts, np.append(0, np.cumsum(counts))
