"""Flights from New York in 2013: a sample."""

from typing import Any, Literal, overload

from sklearn.utils import Bunch

from skdpdyn.datasets._tables import bunch, columns_of

# Public facts about the variables, not computed from these records: the calendar, the clock, and
# limits of domestic flights, rounded outwards
BOUNDS = {
    "month": (1, 12),
    "day": (1, 31),
    "sched_dep_time": (0, 1440),
    "sched_arr_time": (0, 1440),
    "air_time": (0, 700),
    "distance": (0, 5_000),
}

# Codes of the timetable of the whole year, not of this sample
CATEGORIES = {
    name: codes.split()
    for name, codes in {
        "carrier": "9E AA AS B6 DL EV F9 FL HA MQ OO UA US VX WN YV",
        "origin": "EWR JFK LGA",
        "dest": """
            ABQ ACK ALB ANC ATL AUS AVL BDL BGR BHM BNA BOS BQN BTV BUF BUR BWI BZN CAE CAK CHO CHS
            CLE CLT CMH CRW CVG DAY DCA DEN DFW DSM DTW EGE EYW FLL GRR GSO GSP HDN HNL HOU IAD IAH
            ILM IND JAC JAX LAS LAX LEX LGB MCI MCO MDW MEM MHT MIA MKE MSN MSP MSY MTJ MVY MYR OAK
            OKC OMA ORD ORF PBI PDX PHL PHX PIT PSE PSP PVD PWM RDU RIC ROC RSW SAN SAT SAV SBN SDF
            SEA SFO SJC SJU SLC SMF SNA SRQ STL STT SYR TPA TUL TVC TYS XNA""",
    }.items()
}

LATE = 15  # minutes


@overload
def load_flights(*, return_X_y: Literal[False] = False, as_frame: bool = True) -> Bunch: ...
@overload
def load_flights(*, return_X_y: Literal[True], as_frame: bool = True) -> tuple[Any, Any]: ...
def load_flights(*, return_X_y: bool = False, as_frame: bool = True) -> Any:
    """Load a sample of the flights that left New York in 2013.

    Does a flight arrive more than 15 minutes late?

    R package nycflights13 (H. Wickham), from the US Bureau of Transportation Statistics, CC0 1.0.

    ================   ==============
    Records            20,000 of 327,346, drawn at random
    Columns            9: 6 numeric, 3 categorical
    Classes            False and True (24 %)
    ================   ==============

    Parameters
    ----------
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=True
        Data as a pandas DataFrame and target as a Series; False: as arrays, ``data`` of dtype
        object, without pandas.

    Returns
    -------
    data : Bunch
        With ``data``, ``target`` (whether the flight arrived late), ``frame`` (data, both delays
        and target; None for arrays), ``feature_names``, ``target_names``, ``dep_delay`` and
        ``arr_delay`` (minutes, shape (20000,); ``arr_delay`` is the target of a regression, with
        public bounds of -60 to 180, beyond which it is clipped), ``bounds`` (public bounds of the
        numeric columns), ``categories`` (public codes of the others), ``DESCR``. Scheduled times
        are in minutes after midnight, ``air_time`` in minutes, ``distance`` in miles.
    (data, target) : tuple
        In its place with ``return_X_y``: data of shape (20000, 9) and target of shape (20000,).

    Examples
    --------
    >>> from skdpdyn.datasets import load_flights
    >>> X, y = load_flights(return_X_y=True, as_frame=False)
    >>> X.shape, round(float(y.mean()), 3)
    ((20000, 9), 0.236)
    """
    columns = columns_of("flights.csv.gz", CATEGORIES)
    for name in ("sched_dep_time", "sched_arr_time"):  # stored as hhmm
        columns[name] = columns[name] // 100 * 60 + columns[name] % 100
    delays = {name: columns.pop(name) for name in ("dep_delay", "arr_delay")}
    return bunch(
        columns,
        ("late", delays["arr_delay"] > LATE),
        delays,
        as_frame=as_frame,
        return_X_y=return_X_y,
        target_names=[False, True],
        bounds=dict(BOUNDS),
        categories={name: list(codes) for name, codes in CATEGORIES.items()},
        DESCR=load_flights.__doc__,
    )
