"""Whether a record proves a guarantee, by which form of which bound."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy.accountants import ACCOUNTANTS, MIXED, tightest
from skdpdyn.privacy.guarantees import GaussianDP, Guarantee
from skdpdyn.privacy.mechanisms import Gaussian
from skdpdyn.privacy.serialization import to_dict

ROUNDING = 1e-9  # by which another machine's numbers may differ
_ROOM = 5e-9  # part of mu that a fit with a learnt map keeps for rounding


def forms_of(bound: Any, delta: float) -> dict[str, Callable[..., Any]]:
    """Return the forms of a bound by their options; for parts judged one by one, `tightest`."""
    if isinstance(bound, str) and bound == MIXED:
        return {f", delta={delta!r}": lambda mechanism: tightest(mechanism, delta=delta).guarantee}
    if not isinstance(bound, str) or bound not in ACCOUNTANTS:
        raise ValueError(f"theorem, bound: {bound!r} is none of {', '.join(ACCOUNTANTS)}")
    judge = ACCOUNTANTS[bound]
    forms = {"": judge}
    if judge.sharper:
        options = ", ".join(f"{name}={value!r}" for name, value in judge.sharper.options.items())
        forms[f", {options}"] = partial(judge, **judge.sharper.options)
    return forms


def theorem_of(record: Any, bound: str, delta: float) -> str:
    """Return the theorem by which a bound judges a record, or a part of one."""
    if bound == MIXED and type(record) is not Gaussian:
        return tightest(record, delta=delta).theorem
    return ACCOUNTANTS["composition" if type(record) is Gaussian else bound].theorem


def proof_of(mechanism: Any, guarantee: Guarantee, bound: Any, delta: float) -> str | None:
    """Return the options by which a bound proves a guarantee of a record, or None."""
    for options, form in forms_of(bound, delta).items():
        try:
            # what a record is of was up to the fit
            proved = form(mechanism).with_unit(guarantee.unit)
        except UnsupportedMechanismError:
            continue
        if agree(to_dict(proved), to_dict(guarantee), ROUNDING) or _declares(guarantee, proved):
            return options
    return None


def _declares(guarantee: Guarantee, proved: Guarantee) -> bool:
    """Return whether a fit declared slightly more than its record costs, which is also true."""
    if not (isinstance(guarantee, GaussianDP) and isinstance(proved, GaussianDP)):
        return False
    a_little_more = proved.mu <= guarantee.mu <= proved.mu * (1 + _ROOM)
    same = replace(guarantee, mu=proved.mu, failure=proved.failure)
    fails = guarantee.failure >= proved.failure
    return a_little_more and fails and agree(to_dict(same), to_dict(proved), ROUNDING)


def agree(value: Any, other: Any, tolerance: float) -> bool:
    """Return whether two plain values are equal, numbers up to a relative tolerance."""
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(
            agree(value[name], other[name], tolerance) for name in value
        )
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(
            agree(*pair, tolerance) for pair in zip(value, other, strict=True)
        )
    if type(value) in (int, float) and type(other) in (int, float):
        return math.isclose(value, other, rel_tol=tolerance)
    return type(value) is type(other) and value == other
