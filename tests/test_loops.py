"""How long a fit takes may tell of records: functions of the package, passes over the rows and rows
in each are counted on neighbours, and equal except where a minimiser stops by itself.
"""

import sys
from collections import Counter

import pytest
from releases import PACKAGE, WAYS_OUT, Listener, overheard, table
from spending import noise_is_found_once

STOPS_BY_ITSELF = ("objective_perturbation", "output_perturbation")
"""Ways out with a minimiser that is exact to a certified tolerance: its number of passes depends on
the records, and doc/guide/nist.rst says so.
"""


def counted(run, data, heard=None):
    """Return what was released, and how often each function was entered, with how many rows."""
    listener = Listener(heard, seed=0)
    found = Counter()

    def told(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            rows = getattr(frame.f_locals.get("X"), "shape", None)
            found[frame.f_code.co_filename, frame.f_code.co_qualname, rows] += 1

    def profiled(data):
        sys.setprofile(told)
        try:
            return run(data)
        finally:
            sys.setprofile(None)

    overheard(listener, profiled, data)
    return listener.calls, found


@pytest.mark.parametrize("way", [way for way in WAYS_OUT if not way.startswith(STOPS_BY_ITSELF)])
def test_neighbours_take_the_same_steps(way):
    one, other = table(2)
    with noise_is_found_once():
        heard, _ = counted(WAYS_OUT[way](2), one)  # and what is computed once a process
        (_, first), (_, second) = (counted(WAYS_OUT[way](2), data, heard) for data in (one, other))
    assert sum(first.values()) > 50
    unlike = {name for name in first | second if first[name] != second[name]}
    assert not unlike
