"""
Stochastic training
===================

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
X = columns.fit_transform(adult.data)
y = adult.target
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=0)
n = len(X_train)
epsilon = 0.1
batch_size = 1000
n_fits = 3
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
    """Return the noise that piles up where the data leave the parameters flat.

    It is over that of full batches which were trained for the same time.
    """
    m = model.mechanism_
    divisor = n if isinstance(model.solver, NoisyGD) else batch_size
    # that noise multipliers are over
    effect = model.clip_ * (1 if isinstance(model.solver, DPSGD) else 2)
    step_size = np.broadcast_to(m.step_size, m.n_steps)
    noise = effect / divisor * np.linalg.norm(step_size * m.noise_multiplier)
    return noise / (2 * model.clip_ / n * np.sum(step_size) / gdp_mu(epsilon, model.delta_))


passes = [1, 4, 16, 64]
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
for (name, solver), style in zip(solvers.items(), ("o-", "s-", "D-", "^-", "v--"), strict=True):
    scores = []
    noises = []
    for k in passes:
        model = PrivateLogisticRegression(
            epsilon=epsilon, classes=["<=50K", ">50K"], solver=solver(k), conditioning=None
        )
        scores.append([model.fit(X_train, y_train).score(X_test, y_test) for _ in range(n_fits)])
        noises.append(excess_noise(model))
    mean = np.mean(scores, axis=1)
    spread = np.std(scores, axis=1)
    print(
        f"{name:26s} accuracy",
        *(f"{score:.3f}" for score in mean),
        " noise",
        *(f"{noise:.2f}" for noise in noises),
    )
    axes[0].errorbar(passes, mean, spread, fmt=style, capsize=3, label=name)
    axes[1].plot(passes, noises, style)
axes[0].set(
    title=f"Accuracy at epsilon {epsilon}", xscale="log", ylabel="accuracy on other records"
)
axes[1].set(
    title="The price of batches",
    xscale="log",
    yscale="log",
    ylabel="noise in flat directions, full batches = 1",
)
for ax in axes:
    ax.minorticks_off()
    ax.set_xticks(passes, map(str, passes))
    ax.set_xlabel("passes over the data")
axes[1].set_yticks([1, 2, 4], ["1", "2", "4"])
figure.legend(loc="outside lower center", ncols=3, frameon=False)
plt.show()
