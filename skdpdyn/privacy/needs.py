"""Needs of a bound, as data, so that solvers and schedules do not import accountants."""

from dataclasses import dataclass

from skdpdyn.privacy.checks import is_named, quoted

NEEDS: dict[str, "Needs"] = {}
"""Needs of each accountant, by name; registering an accountant enters them."""


@dataclass(frozen=True, kw_only=True)
class Needs:
    """Hypotheses of a bound that a solver can keep or break by the way it runs.

    Parameters
    ----------
    contraction : bool, default=False
        Every step is known to be a contraction.
    equal_steps : bool, default=False
        Step size and noise are the same in every step.
    last_iterate_only : bool, default=False
        Only the last iterate is released. Under such a bound it pays to keep the others secret.
    step_below_inverse_smoothness : bool, default=False
        Every step size is strictly below 1 / smoothness.

    Examples
    --------
    >>> from skdpdyn.privacy.needs import needs
    >>> needs("langevin").equal_steps, needs("composition").equal_steps
    (True, False)
    """

    contraction: bool = False
    equal_steps: bool = False
    last_iterate_only: bool = False
    step_below_inverse_smoothness: bool = False


def checked_bound(bound: str) -> str:
    """Return the name of a bound, or raise an error that lists the names."""
    if not is_named(bound, "tightest", *NEEDS):
        raise ValueError(f"bound={quoted(bound)} must be 'tightest' or one of {sorted(NEEDS)}")
    return bound


def needs(bound: str) -> Needs:
    """Return the hypotheses of a bound.

    Parameters
    ----------
    bound : str
        Name of an accountant, or "tightest", which only has the needs that all accountants share.

    Returns
    -------
    Needs

    Raises
    ------
    ValueError
        If there is no bound of that name.
    """
    if checked_bound(bound) != "tightest":
        return NEEDS[bound]
    return Needs(
        **{
            name: all(getattr(needed, name) for needed in NEEDS.values())
            for name in Needs.__dataclass_fields__
        }
    )


def rewards_unequal_last_steps(bound: str) -> bool:
    """Return whether a bound may reward unequal steps if only the last iterate is released.

    Parameters
    ----------
    bound : str
        Name of an accountant, or "tightest": whether that of any accountant may.

    Returns
    -------
    bool
    """
    judges = NEEDS.values() if checked_bound(bound) == "tightest" else [NEEDS[bound]]
    return any(needed.last_iterate_only and not needed.equal_steps for needed in judges)
