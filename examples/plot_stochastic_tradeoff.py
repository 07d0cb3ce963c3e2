"""
The trade-off of stochastic training
====================================

Boninsegna's survey asks what the noise of privacy costs when gradients are those of batches. Here
at equal budgets and equal passes over the Adult census data: full batches, Poisson batches whose
every step is paid for, fresh batches of a fixed size, and batches shuffled once, which hide each
other as long as only the last iterate is shown.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OneHotEncoder

from skdpdyn import PrivateLogisticRegression
from skdpdyn.datasets import load_adult
from skdpdyn.preprocessing import BoundsScaler
from skdpdyn.privacy.guarantees import gdp_mu
from skdpdyn.solvers import DPSGD, NoisyGD, NoisySGD

adult = load_adult()
columns = make_column_transformer(
    (BoundsScaler(adult.bounds), list(adult.bounds)),
    (
        OneHotEncoder(categories=list(adult.categories.values()), sparse_output=False),
        list(adult.categories),
    ),
)
X, y = columns.fit_transform(adult.data), adult.target
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=0)
n, epsilon, batch_size, n_fits = len(X_train), 0.1, 1000, 3
n_batches = -(-n // batch_size)

# %%
# Solvers by their number of passes over the data. A full batch makes one step a pass, all others
# 37. Shuffled batches are run twice: with steps that cool in the last epoch, as is the default, and
# without, when little but its own noise hides the last batch.
solvers = {
    "full batch": lambda passes: NoisyGD(n_steps=passes),
    "Poisson batches": lambda passes: DPSGD(n_steps=passes * n_batches, batch_size=batch_size),
    "fresh batches": lambda passes: NoisySGD("without_replacement", batch_size, passes),
    "shuffled once": lambda passes: NoisySGD("shuffled_once", batch_size, passes),
    "shuffled once, not cooled": lambda passes: NoisySGD(
        "shuffled_once", batch_size, passes, cooling=False
    ),
}


def excess_noise(model):
    """Noise that piles up where the data leave the parameters flat, over that of full batches trained for the same time."""
    m = model.mechanism_
    divisor = n if isinstance(model.solver, NoisyGD) else batch_size
    # that noise multipliers are over
    effect = model.clip_ * (1 if isinstance(model.solver, DPSGD) else 2)
    step_size = np.broadcast_to(m.step_size, m.n_steps)
    noise = effect / divisor * np.linalg.norm(step_size * m.noise_multiplier)
    return noise / (2 * model.clip_ / n * np.sum(step_size) / gdp_mu(epsilon, model.delta_))


passes = [1, 4, 16, 64]
figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
for name, solver in solvers.items():
    scores, noises = [], []
    for k in passes:
        model = PrivateLogisticRegression(
            epsilon=epsilon, classes=["<=50K", ">50K"], solver=solver(k)
        )
        scores.append(
            np.mean([model.fit(X_train, y_train).score(X_test, y_test) for _ in range(n_fits)])
        )
        noises.append(excess_noise(model))
    print(
        f"{name:26s} accuracy",
        *(f"{score:.3f}" for score in scores),
        " noise",
        *(f"{noise:.2f}" for noise in noises),
    )
    axes[0].semilogx(passes, scores, "o-", label=name)
    axes[1].loglog(passes, noises, "o-", label=name)
axes[0].set(ylabel=f"accuracy at epsilon {epsilon}, mean of {n_fits} fits")
axes[1].set(ylabel="noise, full batches = 1", yticks=[1, 2, 4], yticklabels=["1", "2", "4"])
for ax in axes:
    ax.set(xlabel="passes over the data", xticks=passes, xticklabels=map(str, passes))
    ax.minorticks_off()
axes[0].legend(frameon=False, fontsize="small")
plt.show()
