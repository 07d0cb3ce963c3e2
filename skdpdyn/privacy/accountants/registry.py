"""Registry of accountants, with their theorems and needs."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce, singledispatch, update_wrapper
from typing import Any

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy._types import Mechanism
from skdpdyn.privacy.checks import quoted
from skdpdyn.privacy.guarantees import GaussianDP, Guarantee
from skdpdyn.privacy.mechanisms import Composition, Gaussian
from skdpdyn.privacy.needs import NEEDS, Needs
from skdpdyn.privacy.rounded import rounded

ACCOUNTANTS: dict[str, Any] = {}
"""Every accountant by name, as ``bound=`` of the estimators takes it."""


@dataclass(frozen=True)
class Sharper:
    """A form of a theorem that is never above the printed one.

    Parameters
    ----------
    theorem : str
        Name of the sharper form.
    options : dict
        Arguments of the accountant that ask for it.
    """

    theorem: str
    options: dict[str, Any]


def accountant(
    theorem: str, *, needs: Any = None, sharper: Any = None, never_below: Any = None
) -> Any:
    """Register a function as an accountant under its own name, dispatched on the record's type.

    The function itself handles records without a theorem: it raises `UnsupportedMechanismError`.
    Add theorems with its ``register``. Compositions are covered: their cost is the composition of
    the costs of their parts, each under the same family of theorems. A part that is Gaussian noise
    alone costs exactly GDP(1 / noise_multiplier), beside any other part.

    Parameters
    ----------
    theorem : str
        Paper and theorem, for people.
    needs : Needs or None, default=None
        Its needs of a run; None: none.
    sharper : Sharper or None, default=None
        A form that is never above the printed one; `tightest` uses it.
    never_below : str or None, default=None
        Name of an accountant whose bound is never above this one, so this one cannot win where the
        other holds.

    Returns
    -------
    callable
        The decorator.

    Raises
    ------
    ValueError
        If an accountant has that name already.
    """

    def register(function: Callable[..., Any]) -> Any:
        name = function.__name__
        if name in ACCOUNTANTS or name == "tightest":
            raise ValueError(
                f"an accountant named {quoted(name)} is there already: give this one another name"
            )
        exact = singledispatch(function)

        def judge(mechanism: Mechanism, *arguments: Any, **options: Any) -> Guarantee:
            guarantee = exact(mechanism, *arguments, **options)
            mu = getattr(mechanism, "rounding", 0.0)
            return rounded(guarantee, mu) if mu else guarantee

        dispatched: Any = update_wrapper(judge, exact)
        dispatched.theorem = theorem
        dispatched.sharper = sharper
        dispatched.never_below = never_below
        dispatched.needs = NEEDS[name] = needs or Needs()
        dispatched.register(Composition, partial(_compose_parts, dispatched))
        ACCOUNTANTS[name] = dispatched
        return dispatched

    return register


def _compose_parts(judge: Callable[..., Any], mechanism: Mechanism, **options: Any) -> Guarantee:
    """Compose the costs of a composition's parts, each under the same family of theorems.

    Releases with Gaussian noise beside another part are exactly what they are under all of them.
    """
    parts = mechanism.mechanisms
    released = [1 / part.noise_multiplier for part in parts if type(part) is Gaussian]
    costs = [judge(part, **options) for part in parts if type(part) is not Gaussian]
    if not costs:
        costs = [judge(part, **options) for part in parts]
    elif released:
        costs.insert(0, GaussianDP(reduce(math.hypot, released), mechanism.adjacency))
    return reduce(Guarantee.compose, costs)


def has_theorem(judge: Any, mechanism: Mechanism) -> bool:
    """Return whether an accountant has a theorem for a record, or for all its parts."""
    if isinstance(mechanism, Composition):
        return all(has_theorem(judge, part) for part in mechanism.mechanisms)
    return judge.dispatch(type(mechanism)) is not judge.dispatch(object)


def sharpest(judge: Any, mechanism: Mechanism) -> Any:
    """Return the sharpest guarantee of an accountant, or the error."""
    try:
        return judge(mechanism, **(judge.sharper.options if judge.sharper else {}))
    except UnsupportedMechanismError as error:
        return error
