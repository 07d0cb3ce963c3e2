"""Learning algorithms: each names its release before it runs, and runs exactly that.

Who is in a step (`skdpdyn.kernels.draws`) and what a step does (a schedule) make a record; the
theorems of `skdpdyn.privacy` say what it costs, and `runs` runs it. So a solver of noisy steps is
batches x schedule x theorem: it chooses the numbers of a record, and nothing else.
"""

from skdpdyn.solvers.base import Solver
from skdpdyn.solvers.dp_sgd import DPSGD
from skdpdyn.solvers.noisy_gd import NoisyGD
from skdpdyn.solvers.noisy_sgd import NoisySGD
from skdpdyn.solvers.objective_perturbation import ObjectivePerturbation
from skdpdyn.solvers.output_perturbation import OutputPerturbation
from skdpdyn.solvers.sufficient_statistics import SufficientStatistics

SOLVERS: dict[str, type[Solver]] = {
    "dp_sgd": DPSGD,
    "noisy_gd": NoisyGD,
    "noisy_sgd": NoisySGD,
    "objective_perturbation": ObjectivePerturbation,
    "output_perturbation": OutputPerturbation,
    "sufficient_statistics": SufficientStatistics,
}
"""Every solver by the name that ``solver=`` of the estimators takes."""

__all__ = [
    "DPSGD",
    "SOLVERS",
    "NoisyGD",
    "NoisySGD",
    "ObjectivePerturbation",
    "OutputPerturbation",
    "Solver",
    "SufficientStatistics",
]
