"""
Intervals
=========

Which coefficients differ from 0? A private model does not say, because noise and penalty have moved
its coefficients. `private_regression` fits without a penalty, and prints a table whose standard
errors include all noise.
"""

# %%
# Ten covariates of the Adult data
# --------------------------------
# Who earns more than 50,000 dollars a year? All columns are scaled to [-1, 1] by public bounds.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdpdyn import PrivateLogisticRegression
from skdpdyn.datasets import load_adult
from skdpdyn.inference import private_regression

adult = load_adult()
data = adult.data


def scaled(name, low, high):
    """Bring a numeric column to [-1, 1]."""
    return np.clip((data[name] - low) / (high - low) * 2 - 1, -1, 1)


def among(name, *levels):
    """Return 1 where a column has one of the levels, and -1 elsewhere."""
    return np.where(data[name].isin(levels), 1.0, -1.0)


X = pd.DataFrame(
    {
        "age": scaled("age", 17, 77),
        "education": scaled("education-num", 1, 16),
        "hours": scaled("hours-per-week", 0, 80),
        "male": among("sex", "Male"),
        "married": among("marital-status", "Married-civ-spouse"),
        "white": among("race", "White"),
        "professional": among("occupation", "Prof-specialty", "Exec-managerial"),
        "self-employed": among("workclass", "Self-emp-inc", "Self-emp-not-inc"),
        "government": among("workclass", "Federal-gov", "Local-gov", "State-gov"),
        "born in the US": among("native-country", "United-States"),
    }
)
y = (adult.target == ">50K").to_numpy()

# %%
# A model and its table
# ---------------------

model = PrivateLogisticRegression(classes=[False, True])
_, summary = private_regression(model, X, y, epsilon=2.0, bounds=(-1, 1))
print(summary)

# %%
# A smaller budget answers less, and says so. What it could not answer is charged all the same.

print(private_regression(model, X, y, epsilon=0.1, bounds=(-1, 1))[1])

# %%
# Beside the table without privacy
# --------------------------------
# statsmodels prints it, if it is installed. The private intervals are wider, and hold its numbers
# about as often as they say.

estimates = np.empty(0)
errors = np.empty(0)
try:
    from statsmodels.api import Logit, add_constant
except ImportError:
    print("statsmodels is not installed")
else:
    public = Logit(y, add_constant(X)).fit(disp=0)
    print(public.summary().tables[1])
    estimates = np.append(public.params[1:], public.params.iloc[0])
    errors = np.append(public.bse[1:], public.bse.iloc[0])

# %%

plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(7, 5), layout="constrained")
places = np.arange(len(summary.names))
half_width = summary.conf_int()[:, 1] - summary.coef
ax.errorbar(summary.coef, places, xerr=half_width, fmt="o", capsize=3, label="private, 95 %")
if estimates.size:
    ax.errorbar(
        estimates,
        places + 0.25,
        xerr=1.96 * errors,
        fmt="s",
        capsize=3,
        fillstyle="none",
        label="no privacy, 95 %",
    )
ax.axvline(0, color="0.7", linewidth=1)
ax.set_yticks(places, summary.names)
ax.invert_yaxis()
ax.set(title="Earning more than 50,000 dollars", xlabel="coefficient: change of the log odds")
figure.legend(loc="outside lower center", ncols=2, frameon=False)
print(f"answered: {summary.answered.sum()} of {len(summary.names)} coefficients")
plt.show()
