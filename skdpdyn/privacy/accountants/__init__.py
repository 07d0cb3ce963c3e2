"""Theorems: each accountant maps a record of what ran to a guarantee, or says which hypothesis failed."""

from dataclasses import dataclass, field
from functools import partial, reduce

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy.accountants.composition import composition
from skdpdyn.privacy.accountants.contraction import contraction
from skdpdyn.privacy.accountants.iteration import iteration
from skdpdyn.privacy.accountants.langevin import langevin
from skdpdyn.privacy.accountants.last_iterate import last_iterate, last_iterate_mu
from skdpdyn.privacy.accountants.perturbation import perturbation
from skdpdyn.privacy.accountants.recursion import recursion
from skdpdyn.privacy.accountants.selection import selection
from skdpdyn.privacy.accountants.subsampling import subsampling
from skdpdyn.privacy.checks import checked_delta
from skdpdyn.privacy.guarantees import GaussianDP, Guarantee
from skdpdyn.privacy.mechanisms import Composition

_ALL = (composition, langevin, last_iterate, contraction, iteration, subsampling, recursion, perturbation, selection)
ACCOUNTANTS = {accountant.__name__: accountant for accountant in _ALL}
"""Every accountant by name: what ``bound=`` of the estimators chooses from, beside "tightest"."""

MIXED = "tightest"  # name of the bound of a composition whose parts are best judged by different accountants

SHARPEST = {
    "contraction": partial(contraction, tight=True),
    "selection": partial(selection, tight=True),
}  # where an accountant has a sharper form than the printed one


def _compose_parts(accountant, mechanism, **options):
    """A composition costs what its parts cost together, each under the same family of theorems."""
    return reduce(lambda one, other: one.compose(other), (accountant(part, **options) for part in mechanism.mechanisms))


for _accountant in _ALL:
    _accountant.register(Composition, partial(_compose_parts, _accountant))


@dataclass(frozen=True)
class Tightest:
    """The smallest of several valid bounds on one release.

    Attributes
    ----------
    bound : str
        Name of the accountant that won; "tightest" where the parts of a composition are best judged by different ones. It is
        a valid ``bound=`` of the estimators, of `least_noise` and of `most_steps`.
    guarantee : Guarantee
        What it proved. Everything that a guarantee answers can also be asked of this object.
    alternatives : dict of str to Guarantee or UnsupportedMechanismError
        The other accountants: each with its guarantee, or with the hypothesis that failed.
    """

    bound: str
    guarantee: Guarantee
    alternatives: dict = field(compare=False)

    def __getattr__(self, name):
        if name.startswith("__") or "guarantee" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.guarantee, name)


def tightest(mechanism, *, delta=1e-6):
    """The smallest valid bound on a release, with its name and all others.

    Of a `Composition` each accountant judges all parts. Beside those bounds, the tightest bound of each part, composed, is
    compared: guarantees compose whichever theorem proved them. Where it wins, its name is "tightest".

    Parameters
    ----------
    mechanism : record
        What ran.
    delta : float, default=1e-6
        Where the bounds are compared, by their epsilon. (Every bound holds at every delta; the winner may differ.)

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
    >>> m = NoisyGradientDescent(n_steps=500, noise_multiplier=250.0, step_size=0.02, strong_convexity=1.0, smoothness=4.0)
    >>> best = tightest(m)
    >>> best.bound, round(best.mu, 8)
    ('last_iterate', 0.03979786)
    >>> from skdpdyn.privacy import Composition, Gaussian, PoissonSubsampled
    >>> steps = PoissonSubsampled(sampling_probability=0.01, noise_multiplier=1.0, n_steps=1000, adjacency="add_remove")
    >>> best = tightest(Composition((steps, Gaussian(5.0, "add_remove"))), delta=1e-6)
    >>> best.bound, round(best.epsilon(1e-6), 2)
    ('tightest', 2.3)
    """
    checked_delta(delta)
    answers = {}
    for name, accountant in (ACCOUNTANTS | SHARPEST).items():
        try:
            answers[name] = accountant(mechanism)
        except UnsupportedMechanismError as error:
            answers[name] = error
    valid = {name: answer for name, answer in answers.items() if not isinstance(answer, UnsupportedMechanismError)}
    mixed = _mixed(mechanism, delta) if isinstance(mechanism, Composition) else None
    if mixed is not None:
        valid[MIXED] = answers[MIXED] = mixed
    if not valid:
        reasons = "; ".join(f"{name}: {error}" for name, error in answers.items())
        raise UnsupportedMechanismError(f"no bound holds for this {type(mechanism).__name__}: {reasons}")
    # Among Gaussian guarantees the smallest mu is the smallest at every delta; they win ties, being exact
    gaussian = sorted((name for name in valid if isinstance(valid[name], GaussianDP)), key=lambda name: valid[name].mu)
    finalists = gaussian[:1] + [name for name in valid if name not in gaussian]
    winner = finalists[0]
    if len(finalists) > 1:
        epsilons = {name: valid[name].epsilon(delta) for name in finalists}
        winner = min(finalists, key=epsilons.get)
        if epsilons[winner] == 0:  # of several that are nothing at this delta, the one that composes best
            winner = min((name for name in finalists if epsilons[name] == 0), key=lambda name: valid[name].advantage)
    guarantee = answers.pop(winner)
    answers.pop(MIXED, None)  # it is no accountant
    return Tightest(winner, guarantee, answers)


def _mixed(mechanism, delta):
    """The best bounds of a composition's parts, composed, where no accountant proved all of them; else None."""
    try:
        best = {part: tightest(part, delta=delta) for part in dict.fromkeys(mechanism.mechanisms)}
    except UnsupportedMechanismError:  # of a part that no theorem covers; the accountants have said so
        return None
    names = {each.bound for each in best.values()}
    if len(names) == 1 and MIXED not in names:
        return None
    return reduce(lambda one, other: one.compose(other), (best[part].guarantee for part in mechanism.mechanisms))


__all__ = [
    "ACCOUNTANTS",
    "Tightest",
    "composition",
    "contraction",
    "iteration",
    "langevin",
    "last_iterate",
    "last_iterate_mu",
    "perturbation",
    "recursion",
    "selection",
    "subsampling",
    "tightest",
]
