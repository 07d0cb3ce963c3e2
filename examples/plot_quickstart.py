"""
Who earns more than 50,000 dollars? Privately
=============================================

A logistic regression on the Adult census data, trained under a privacy budget that you choose.
Noise and number of steps are found from the budget; the fitted model says what was spent. At the
end, what makes it work: the privacy loss of the *last* iterate converges, where composition charges
for every step.
"""

# %%
# The data, with public bounds
# ---------------------------- Nothing may be learnt from the records outside the private fit:
# columns are scaled by documented bounds, and the categories are the levels that the form offers.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdpdyn import PrivateLogisticRegression
from skdpdyn.datasets import load_adult
from skdpdyn.preprocessing import BoundsScaler
from skdpdyn.privacy import NoisyGradientDescent, calibrate, composition, langevin, last_iterate

adult = load_adult()
numeric, categorical = list(adult.bounds), list(adult.categories)


def with_public_columns(model):
    """Build a pipeline whose preprocessing costs no privacy."""
    columns = make_column_transformer(
        (BoundsScaler(adult.bounds), numeric),
        (
            OneHotEncoder(
                categories=[adult.categories[name] for name in categorical], sparse_output=False
            ),
            categorical,
        ),
    )
    return make_pipeline(columns, model)


X_train, X_test, y_train, y_test = train_test_split(
    adult.data, adult.target, test_size=0.2, random_state=0
)
print(
    f"{len(X_train)} records to learn from, {X_train.shape[1]} columns, {np.mean(y_test == '<=50K'):.3f} earn <=50K"
)

# %%
# Train at several budgets
# ------------------------
# ``epsilon`` is the budget; ``delta`` is 1/n^2 by default. Everything else is left alone.

budgets = [0.03, 0.1, 0.3, 1.0, 3.0]
accuracies = []
print(f"{'budget':>10} {'accuracy':>9} {'spent':>28} {'steps':>6} {'bound':>13}")
for epsilon in budgets:
    pipeline = with_public_columns(
        PrivateLogisticRegression(epsilon=epsilon, classes=["<=50K", ">50K"])
    )
    accuracies.append(pipeline.fit(X_train, y_train).score(X_test, y_test))
    model = pipeline[-1]
    spent = f"epsilon={model.epsilon_:.4g}, delta={model.delta_:.1e}"
    print(f"{epsilon:>10} {accuracies[-1]:>9.4f} {spent:>28} {model.n_iter_:>6} {model.bound_:>13}")

exact = (
    with_public_columns(LogisticRegression(C=10, max_iter=2000))
    .fit(X_train, y_train)
    .score(X_test, y_test)
)
print(f"{'no privacy':>10} {exact:>9.4f}")

# %%
# What the budget pays for
# ------------------------ One training run, judged by three theorems: composition pays for every
# step, the Langevin bound of Chourasia, Ye and Shokri (2021) converges, and so does the exact
# bound, which is never above the others. Here the loss is regularised enough to see it.

problem = {
    "n_samples": len(X_train),
    "n_features": 105,
    "lipschitz": 0.5,
    "strong_convexity": 2e-3,
    "smoothness": 0.27,
}
run = calibrate(0.1, 1e-9, n_steps="worst_case", **problem)
steps = np.unique(np.geomspace(1, 30_000, 60).astype(int))
curves = {}
for bound in (composition, langevin, last_iterate):
    curves[bound.__name__] = [
        bound(
            NoisyGradientDescent(
                n_steps=int(k),
                noise_multiplier=run.noise_multiplier,
                step_size=3.6,
                strong_convexity=2e-3,
                smoothness=0.27,
            )
        ).epsilon(1e-9)
        for k in steps
    ]
for name, curve in curves.items():
    print(f"epsilon after {steps[-1]} steps by {name}: {curve[-1]:.3f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.semilogx(budgets, accuracies, "o-", label="private, all defaults")
left.axhline(exact, color="0.4", linestyle="--", label="not private")
left.axhline(np.mean(y_test == "<=50K"), color="0.7", linestyle=":", label="always <=50K")
left.set(xlabel="epsilon", ylabel="test accuracy", title="Adult: accuracy against budget")
left.legend()
for name, curve in curves.items():
    right.loglog(steps, curve, label=name.replace("_", " "))
right.set(xlabel="number of steps", ylabel="epsilon at delta = 1e-9", title="One run, three bounds")
right.legend()
figure.savefig("quickstart.png", dpi=120)
plt.show()
