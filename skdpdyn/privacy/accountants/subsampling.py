"""Amplification by subsampling: DP-SGD with Poisson batches, and batches of fixed size."""

import math
from typing import Any, NoReturn

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy._types import Mechanism
from skdpdyn.privacy.accountants.registry import accountant
from skdpdyn.privacy.guarantees import Adjacency, GaussianDP, Guarantee
from skdpdyn.privacy.mechanisms import (
    PoissonSubsampled,
    WithoutReplacement,
    check_computable,
)
from skdpdyn.privacy.mixtures import SubsampledDP
from skdpdyn.privacy.numerical import PrivacyLossDP, SampledGaussian, TruncatedGaussian


@accountant("subsampling: composition of subsampled Gaussian steps by privacy loss distributions")
def subsampling(mechanism: Mechanism) -> NoReturn:
    """Compose subsampled Gaussian steps by privacy loss distributions, whatever is released.

    - `PoissonSubsampled`, add_remove: the subsampled Gaussian (1-q) N(0,1) + q N(m,1) against
      N(0,1), both directions. replace_one: against (1-q) N(0,1) + q N(-m,1), a dominating pair: the
      other records fixed, both laws are such mixtures, with shifts of norm at most m, and the
      shifts that are longest and opposite are worst. Composed numerically, with a Renyi curve
      (``.rdp``) by quadrature; ``epsilon`` and ``delta`` are the least of both and of the
      steps without sampling.
      Where batches are cut, the record may push out another (arXiv 2508.15089; the pair is proven
      in `numerical.TruncatedGaussian`).
    - `WithoutReplacement`, both adjacencies: the symmetrised profile q delta_mu(log(1 + (e^epsilon
      - 1)/q)), q = b/n, with the mu of a record *replaced* in the batch also under add_remove,
      since a batch without the record has another in its place.

    Hypotheses: bounded contributions, and batches drawn afresh and kept secret, as the record types
    say. No convexity.

    Parameters
    ----------
    mechanism : PoissonSubsampled or WithoutReplacement
        Record of the run.

    Returns
    -------
    PrivacyLossDP
        `GaussianDP` where every batch is certain to hold all records.

    Raises
    ------
    UnsupportedMechanismError
        For any other record.

    Examples
    --------
    >>> from skdpdyn.privacy import PoissonSubsampled, subsampling
    >>> m = PoissonSubsampled(
    ...     sampling_probability=0.01, noise_multiplier=1.0, n_steps=1000, adjacency="add_remove"
    ... )
    >>> round(subsampling(m).epsilon(1e-5), 3)
    1.828
    """
    raise UnsupportedMechanismError(f"subsampling has no theorem for {type(mechanism).__name__}")


@subsampling.register
def _(mechanism: PoissonSubsampled) -> Guarantee:
    numbers: dict[str, Any] = {
        "sampling_probability": mechanism.sampling_probability,
        "noise_multiplier": mechanism.noise_multiplier,
    }
    check_computable("subsampling", **numbers)
    n_samples = mechanism.n_samples
    largest = mechanism.largest_batch
    step = SampledGaussian(**numbers, adjacency=mechanism.adjacency)
    if n_samples is not None and largest is not None:
        cut = TruncatedGaussian(n_samples, largest, step)
        return PrivacyLossDP(((cut, mechanism.n_steps),), mechanism.adjacency)
    if mechanism.sampling_probability == 1:
        moved = mechanism.adjacency.sum_sensitivity(1.0)  # in units of C
        return GaussianDP(
            moved * math.sqrt(mechanism.n_steps) / mechanism.noise_multiplier, mechanism.adjacency
        )
    return PrivacyLossDP(((step, mechanism.n_steps),), mechanism.adjacency)


@subsampling.register
def _(mechanism: WithoutReplacement) -> PrivacyLossDP:
    check_computable("subsampling", noise_multiplier=mechanism.noise_multiplier)
    # noise_multiplier is over S = 2L (replace_one) or S = L (add_remove): a replaced record moves
    # the sum by 2L under both
    replaced = (
        1 if mechanism.adjacency is Adjacency.REPLACE_ONE else 2
    ) / mechanism.noise_multiplier
    step = SubsampledDP(
        GaussianDP(replaced, mechanism.adjacency), mechanism.batch_size / mechanism.n_samples
    )
    return PrivacyLossDP(((step, mechanism.n_steps),), mechanism.adjacency)
