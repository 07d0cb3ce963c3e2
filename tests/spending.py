"""The budget that solvers are asked with in tests."""

from skdpdyn.privacy import Budget


def spent(epsilon, delta, adjacency="replace_one", bound="tightest"):
    """Return what `Solver.mechanism` and `Solver.auto_alpha` take after the objective: a budget
    and the name of a bound.
    """
    return Budget(epsilon, delta, adjacency), bound
