"""The theory: the cost of a noisy run, and the noise that a budget needs. Usable on its own."""

from skdpdyn.privacy.accountants import (
    ACCOUNTANTS,
    composition,
    contraction,
    iteration,
    langevin,
    last_iterate,
    perturbation,
    recursion,
    selection,
    subsampling,
    tightest,
)
from skdpdyn.privacy.accountants.perturbation import PerturbedObjectiveDP
from skdpdyn.privacy.budget import Budget
from skdpdyn.privacy.calibration import calibrate, least_noise, most_steps
from skdpdyn.privacy.filters import Filter
from skdpdyn.privacy.guarantees import Adjacency, GaussianDP
from skdpdyn.privacy.laplace import LaplaceDP
from skdpdyn.privacy.ledger import Ledger
from skdpdyn.privacy.mechanisms import (
    Composition,
    CyclicBatches,
    Gaussian,
    NoisyGradientDescent,
    OnePass,
    PoissonSubsampled,
    Vocabulary,
    WithoutReplacement,
)
from skdpdyn.privacy.mixtures import ProfileMixture, SubsampledDP
from skdpdyn.privacy.numerical import PrivacyLossDP
from skdpdyn.privacy.regret import mu_and_regret
from skdpdyn.privacy.releases import Laplace, PerturbedObjective, PerturbedOutput, Selection
from skdpdyn.privacy.renyi import ApproximateDP, RenyiDP
from skdpdyn.privacy.report import Assumed, check_report, privacy_report
from skdpdyn.privacy.sequences import last_iterate_mu
from skdpdyn.privacy.serialization import from_json, to_json

__all__ = [
    "ACCOUNTANTS",
    "Adjacency",
    "ApproximateDP",
    "Assumed",
    "Budget",
    "Composition",
    "CyclicBatches",
    "Filter",
    "Gaussian",
    "GaussianDP",
    "Laplace",
    "LaplaceDP",
    "Ledger",
    "NoisyGradientDescent",
    "OnePass",
    "PerturbedObjective",
    "PerturbedObjectiveDP",
    "PerturbedOutput",
    "PoissonSubsampled",
    "PrivacyLossDP",
    "ProfileMixture",
    "RenyiDP",
    "Selection",
    "SubsampledDP",
    "Vocabulary",
    "WithoutReplacement",
    "calibrate",
    "check_report",
    "composition",
    "contraction",
    "from_json",
    "iteration",
    "langevin",
    "last_iterate",
    "last_iterate_mu",
    "least_noise",
    "most_steps",
    "mu_and_regret",
    "perturbation",
    "privacy_report",
    "recursion",
    "selection",
    "subsampling",
    "tightest",
    "to_json",
]
