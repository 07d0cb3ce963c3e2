"""
One run, six analyses
=====================

Table I of Boninsegna's survey, as numbers instead of rates: the noise that (epsilon, delta) asks
for under the textbook chain, Renyi composition, amplification by iteration and Langevin dynamics.
"""

import math

import matplotlib.pyplot as plt
from scipy.optimize import root_scalar

from skdpdyn.privacy import (
    CyclicBatches,
    GaussianDP,
    NoisyGradientDescent,
    PoissonSubsampled,
    langevin,
    last_iterate,
    subsampling,
)
from skdpdyn.privacy.accountants.iteration import iteration

n = 10_000
batch_size = 100
epsilon = 1.0
delta = 1e-5
strong_convexity = 0.05
smoothness = 1.0
step_size = 0.5


def least_noise(cost):
    """Return the noise multiplier at which the cost is epsilon."""
    above = root_scalar(lambda x: cost(math.exp(x)) - epsilon, bracket=(-1, 6), xtol=1e-3)
    return math.exp(above.root)


def textbook(z, e):
    """Return epsilon of one step, by the subsampling lemma, by advanced composition.

    Boninsegna, Section III.A: half of delta goes to the steps k, half is the slack. A step costs e'
    = log(1 + q (exp(epsilon) - 1)), and all of them sqrt(2 k log(1 / slack)) e' + k e' (exp(e') -
    1) (Dwork and Roth 2014, Theorem 3.20).
    """
    q = batch_size / n
    k = e * n // batch_size
    step = math.log1p(q * math.expm1(GaussianDP(1 / z).epsilon(delta / 2 / (k * q))))
    return math.sqrt(2 * k * math.log(2 / delta)) * step + k * step * math.expm1(step)


analyses = {
    "advanced composition, Poisson batches": textbook,
    "privacy losses, Poisson batches": lambda z, e: subsampling(
        PoissonSubsampled(
            sampling_probability=batch_size / n,
            noise_multiplier=z,
            n_steps=e * n // batch_size,
            adjacency="add_remove",
        )
    ).epsilon(delta),
    "iteration, cyclic batches": lambda z, e: iteration(
        CyclicBatches(
            n_samples=n,
            batch_size=batch_size,
            n_epochs=e,
            noise_multiplier=z,
            step_size=step_size,
            strong_convexity=0.0,
            smoothness=smoothness,
        )
    ).epsilon(delta),
    "last iterate, cyclic batches": lambda z, e: last_iterate(
        CyclicBatches(
            n_samples=n,
            batch_size=batch_size,
            n_epochs=e,
            noise_multiplier=z,
            step_size=step_size,
            strong_convexity=strong_convexity,
            smoothness=smoothness,
        )
    ).epsilon(delta),
    "Langevin, full batch": lambda z, e: langevin(
        NoisyGradientDescent(
            n_steps=e,
            noise_multiplier=z,
            step_size=step_size,
            strong_convexity=strong_convexity,
            smoothness=smoothness,
        )
    ).epsilon(delta),
    "last iterate, full batch": lambda z, e: last_iterate(
        NoisyGradientDescent(
            n_steps=e,
            noise_multiplier=z,
            step_size=step_size,
            strong_convexity=strong_convexity,
            smoothness=smoothness,
        )
    ).epsilon(delta),
}

# %%
# Noise multipliers by number of epochs: those of the converging analyses grow more slowly.
epochs = (1, 4, 16, 64)
plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(7, 5.4), layout="constrained")
for (name, cost), style in zip(analyses.items(), "osD^vP", strict=True):
    noise = [least_noise(lambda z, e=e, cost=cost: cost(z, e)) for e in epochs]
    print(f"{name:40s}", " ".join(f"{z:9.3f}" for z in noise))
    ax.loglog(epochs, noise, f"{style}-", label=name)
ax.set(
    title=f"The noise that epsilon = {epsilon:g}, delta = {delta:g} asks for",
    xlabel="passes over the data",
    ylabel="noise multiplier",
)
ax.minorticks_off()
ax.set_xticks(epochs, map(str, epochs))
figure.legend(loc="outside lower center", ncols=2, frameon=False)
plt.show()
