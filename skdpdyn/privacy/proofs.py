"""Whether a record proves a guarantee, by which form of which bound."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy.accountants import ACCOUNTANTS, MIXED, tightest
from skdpdyn.privacy.guarantees import GaussianDP, Guarantee
from skdpdyn.privacy.mechanisms import Gaussian
from skdpdyn.privacy.numerical import PrivacyLossDP
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
        as_declared = _declares(guarantee, proved) or _allows_more(guarantee, proved)
        if as_declared or agree(to_dict(proved), to_dict(guarantee), ROUNDING):
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


def _allows_more(guarantee: Guarantee, proved: Guarantee) -> bool:
    """Return whether a search allowed for more Gaussian releases and failures than it made."""
    if not isinstance(guarantee, PrivacyLossDP):
        return False
    declared = _Composed.of(guarantee)
    spent = _Composed.of(proved)
    more = declared.mu >= spent.mu * (1 - ROUNDING)
    fails_more = declared.failure >= spent.failure * (1 - ROUNDING)
    return more and fails_more and agree(declared.others, spent.others, ROUNDING)


class _Composed(NamedTuple):
    """The Gaussian part of a composition, all other parts as plain values, and its failure."""

    mu: float
    others: list[Any]
    failure: float

    @classmethod
    def of(cls, guarantee: Any) -> "_Composed":
        """Return the parts of a guarantee, which may be one part itself."""
        parts = guarantee.parts if isinstance(guarantee, PrivacyLossDP) else ((guarantee, 1),)
        gaussian = [part.mu * math.sqrt(n) for part, n in parts if isinstance(part, GaussianDP)]
        others = [[to_dict(part), n] for part, n in parts if not isinstance(part, GaussianDP)]
        others.append([guarantee.adjacency, guarantee.unit])
        return cls(math.hypot(*gaussian), others, getattr(guarantee, "failure", 0.0))


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
