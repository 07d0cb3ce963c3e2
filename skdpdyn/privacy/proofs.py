"""Whether a record proves a guarantee, by which form of which bound."""

import math
from collections.abc import Callable
from functools import partial
from operator import eq
from typing import Any, NamedTuple

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy.accountants import ACCOUNTANTS, MIXED, tightest
from skdpdyn.privacy.guarantees import GaussianDP, Guarantee
from skdpdyn.privacy.mechanisms import Composition, Gaussian
from skdpdyn.privacy.numerical import PrivacyLossDP


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


def covers(guarantee: Guarantee, proved: Guarantee, alike: Callable[[Any, Any], bool] = eq) -> bool:
    """Return whether a guarantee allows for no less Gaussian noise and failure, and all else.

    ``alike`` says whether two costs are equal: another machine's numbers may differ.
    """
    declared = _Parts.of(guarantee)
    spent = _Parts.of(proved)
    enough = declared.mu >= spent.mu and declared.failure >= spent.failure
    return alike(guarantee, proved) or (enough and alike(declared.others, spent.others))


def proof_of(
    mechanism: Any,
    guarantee: Guarantee,
    bound: Any,
    delta: float,
    proves: Callable[[Guarantee, Guarantee], bool] = covers,
) -> str | None:
    """Return the options by which a bound proves a guarantee of a record, or None."""
    for options, form in forms_of(bound, delta).items():
        try:
            # what a record is of was up to the fit
            proved = form(mechanism).with_unit(guarantee.unit)
        except UnsupportedMechanismError:
            continue
        if proves(guarantee, proved):
            return options
    return None


def costs_no_more(record: Any, planned: Any) -> bool:
    """Return whether a record is another one but for more Gaussian noise in all.

    Gaussian noise is monotone beside any other part: the cost of the planned record is true of it.
    """
    (mu, others), (most, same) = (_gaussian_of(one) for one in (record, planned))
    return mu <= most and others == same


def _gaussian_of(record: Any) -> tuple[float, tuple[Any, ...]]:
    """Return the mu of all Gaussian parts of a record, and its other parts."""
    parts = record.mechanisms if isinstance(record, Composition) else (record,)
    mu = math.hypot(*(1 / part.noise_multiplier for part in parts if type(part) is Gaussian))
    return mu, tuple(part for part in parts if type(part) is not Gaussian)


class _Parts(NamedTuple):
    """The mu of the Gaussian parts of a guarantee, its failure, and all else that it says."""

    mu: float
    failure: float
    others: tuple[Any, ...]

    @classmethod
    def of(cls, guarantee: Any) -> "_Parts":
        """Return the parts of a guarantee, which may be one part itself."""
        parts = guarantee.parts if isinstance(guarantee, PrivacyLossDP) else ((guarantee, 1),)
        gaussian = [part.mu * math.sqrt(n) for part, n in parts if isinstance(part, GaussianDP)]
        others = [(part, n) for part, n in parts if not isinstance(part, GaussianDP)]
        failure = getattr(guarantee, "failure", 0.0)
        return cls(math.hypot(*gaussian), failure, (*others, guarantee.adjacency, guarantee.unit))
