"""Theorems: an accountant maps a record to a guarantee, or says which hypothesis failed."""

from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy._types import Mechanism
from skdpdyn.privacy.accountants.composition import composition
from skdpdyn.privacy.accountants.contraction import contraction
from skdpdyn.privacy.accountants.iteration import iteration
from skdpdyn.privacy.accountants.langevin import langevin
from skdpdyn.privacy.accountants.last_iterate import last_iterate
from skdpdyn.privacy.accountants.perturbation import perturbation
from skdpdyn.privacy.accountants.recursion import recursion
from skdpdyn.privacy.accountants.registry import ACCOUNTANTS, accountant, has_theorem, sharpest
from skdpdyn.privacy.accountants.selection import selection
from skdpdyn.privacy.accountants.subsampling import subsampling
from skdpdyn.privacy.checks import checked_delta
from skdpdyn.privacy.guarantees import GaussianDP, Guarantee
from skdpdyn.privacy.mechanisms import Composition

# bound of a composition whose parts are best judged by different accountants
MIXED = "tightest"


@dataclass(frozen=True)
class Tightest:
    """The smallest of several valid bounds on one release.

    Attributes
    ----------
    bound : str
        Name of the accountant that won; "tightest" where the parts of a composition are best judged
        by different ones. It is a valid ``bound=`` of the estimators, of `least_noise` and of
        `most_steps`.
    theorem : str
        The theorem of the paper, or the sharper form of it that was used (``"contraction(tight=
        True): ..."``). If the parts of a composition have different theorems: all of them.
    guarantee : Guarantee
        The guarantee.
    mechanism : record
        Record of the run.
    """

    bound: str
    theorem: str
    guarantee: Guarantee
    mechanism: Any = field(compare=False, repr=False)

    @cached_property
    def alternatives(self) -> Mechanism:
        """The other accountants by name, each with its guarantee or its error."""
        return {
            name: sharpest(judge, self.mechanism)
            for name, judge in ACCOUNTANTS.items()
            if name != self.bound
        }


def tightest(mechanism: Mechanism, *, delta: float = 1e-6) -> Tightest:
    """Return the smallest valid bound on a release, with its name and all others.

    For a `Composition`, each accountant judges all parts together. These bounds are compared with
    one more: the composition of the tightest bound of each part, whatever theorems proved them. If
    that one wins, its name is "tightest".

    Parameters
    ----------
    mechanism : record
        Record of the run.
    delta : float, default=1e-6
        Delta at which the epsilons of the bounds are compared. (Every bound holds at every delta;
        the winner may differ.)

    Returns
    -------
    Tightest

    Raises
    ------
    UnsupportedMechanismError
        If no accountant has a theorem whose hypotheses hold, with the reason that each gave.

    Examples
    --------
    >>> from skdpdyn.privacy import NoisyGradientDescent, tightest
    >>> m = NoisyGradientDescent(
    ...     n_steps=500,
    ...     noise_multiplier=250.0,
    ...     step_size=0.02,
    ...     strong_convexity=1.0,
    ...     smoothness=4.0,
    ... )
    >>> best = tightest(m)
    >>> best.bound, round(best.guarantee.mu, 8)
    ('last_iterate', 0.03979786)
    >>> best.theorem
    'last_iterate: Bok, Su and Altschuler (2024), shifted interpolation'
    >>> from skdpdyn.privacy import Composition, Gaussian, PoissonSubsampled
    >>> steps = PoissonSubsampled(
    ...     sampling_probability=0.01, noise_multiplier=1.0, n_steps=1000, adjacency="add_remove"
    ... )
    >>> best = tightest(Composition((steps, Gaussian(5.0, adjacency="add_remove"))), delta=1e-6)
    >>> best.bound, round(best.guarantee.epsilon(1e-6), 2)
    ('tightest', 2.3)
    """
    return weigh(mechanism, delta)


def weigh(mechanism: Mechanism, delta: float, accuracy: float | None = None) -> Tightest:
    """Return the `tightest` bound on a release; numerical epsilons have a relative ``accuracy``.

    Only accountants that can win are asked: those with a theorem for this type of record that no
    other accountant always beats.
    """
    checked_delta(delta)
    able = [name for name, judge in ACCOUNTANTS.items() if has_theorem(judge, mechanism)]
    answers: dict[str, Any] = {}
    for name in sorted(able, key=lambda name: ACCOUNTANTS[name].never_below is not None):
        if not isinstance(answers.get(ACCOUNTANTS[name].never_below), Guarantee):
            answers[name] = sharpest(ACCOUNTANTS[name], mechanism)
    valid = {name: answers[name] for name in able if isinstance(answers.get(name), Guarantee)}
    mixed = _mixed(mechanism, delta, accuracy) if isinstance(mechanism, Composition) else None
    if mixed is not None:
        valid[MIXED] = mixed.guarantee
    if not valid:
        reasons = "; ".join(
            f"{name}: {sharpest(judge, mechanism)}" for name, judge in ACCOUNTANTS.items()
        )
        raise UnsupportedMechanismError(
            f"no bound holds for this {type(mechanism).__name__}: {reasons}"
        )
    if accuracy is not None:
        valid = {name: guarantee.with_accuracy(accuracy) for name, guarantee in valid.items()}
    # Among Gaussian guarantees the smallest mu is the smallest at every delta; they win ties, being
    # exact
    gaussian = sorted(
        (name for name in valid if isinstance(valid[name], GaussianDP)),
        key=lambda name: valid[name].mu,
    )
    finalists = gaussian[:1] + [name for name in valid if name not in gaussian]
    winner = finalists[0]
    if len(finalists) > 1:
        epsilons = {name: valid[name].epsilon(delta) for name in finalists}
        winner = min(finalists, key=epsilons.__getitem__)
        # if several cost nothing at this delta, take the one that composes best
        if epsilons[winner] == 0:
            winner = min(
                (name for name in finalists if epsilons[name] == 0),
                key=lambda name: valid[name].advantage,
            )
    if mixed is not None and winner == MIXED:
        return Tightest(MIXED, mixed.theorem, valid[MIXED], mechanism)
    judge = ACCOUNTANTS[winner]
    return Tightest(
        winner, judge.sharper.theorem if judge.sharper else judge.theorem, valid[winner], mechanism
    )


def _mixed(mechanism: Mechanism, delta: float, accuracy: float | None) -> Tightest | None:
    """Compose the best bound of each part where no accountant proved all of them; else None."""
    try:
        best = {part: weigh(part, delta, accuracy) for part in dict.fromkeys(mechanism.mechanisms)}
    except UnsupportedMechanismError:
        # no theorem covers some part; the accountants' errors say so
        return None
    names = {each.bound for each in best.values()}
    if len(names) == 1 and MIXED not in names:
        return None
    guarantee = reduce(
        lambda joint, other: joint.compose(other),
        (best[part].guarantee for part in mechanism.mechanisms),
    )
    return Tightest(
        MIXED,
        "; ".join(dict.fromkeys(each.theorem for each in best.values())),
        guarantee,
        mechanism,
    )


__all__ = [
    "ACCOUNTANTS",
    "Tightest",
    "accountant",
    "composition",
    "contraction",
    "iteration",
    "langevin",
    "last_iterate",
    "perturbation",
    "recursion",
    "selection",
    "subsampling",
    "tightest",
]
