"""Audits: the largest leak that a fit claims, beside the leak its worst neighbours show.

Two kinds, which see different faults. A replay records what is handed to
`skdpdyn.core.noise.release` on one data set, repeats the outcomes on its neighbours, and compares
how far each release moves, in units of its noise, with what its part of the record allows. It is
exact, and finds where a fault is; it does not see noise of steps that are not shown. One fit is a
black box: on made-up data whose records are as many games, it attacks the coefficients that were
published, and its lower limit comes near the claim (`skdpdyn.audit.one_fit`).

Audits look at records without noise. They make up data of their own, and are given none.
"""

from skdpdyn.audit.kinds import audit
from skdpdyn.audit.replay import Call, Listener, allowed, listened, replayed
from skdpdyn.audit.results import Audit, Finding

__all__ = ["Audit", "Call", "Finding", "Listener", "allowed", "audit", "listened", "replayed"]
