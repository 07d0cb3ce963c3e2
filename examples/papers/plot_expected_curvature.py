"""
Expected curvature
==================

Figure 1 and Table 2 of Yu et al. (2020), Gradient perturbation is underrated for differentially
private convex optimization: the least curvature of linear regression is tiny, its average is not,
and noise sees the average.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

# Two of the four state a licence and come with the examples; the others are read where the
# benchmarks have their data.
# sphinx-gallery runs in the examples' folder
here = Path(__file__).parent if "__file__" in globals() else Path()
folders = [here / "data", here / "../../../shared/data"]
PAPER = {
    "graduate_admission": (6.68e-3, 0.40),
    "sonar": (3.63e-4, 0.19),
    "boston_housing": (3.44e-3, 0.34),
    "swedish_motor_insurance": (9.07e-6, 0.24),
}


def min_max(columns):
    """Return columns scaled to [0, 1]."""
    low = columns.min(axis=0)
    high = columns.max(axis=0)
    return (columns - low) / (high - low)


def load(name):
    """Return features, and the target in [0, 1].

    Payment is the Swedish target, as claims are known when it is paid.
    """
    path = next(
        (folder / f"{name}.npz" for folder in folders if (folder / f"{name}.npz").exists()), None
    )
    if path is None:
        return None
    data = np.load(path, allow_pickle=False)
    if "payment" in data:
        return min_max(np.column_stack([data["X"], data["y"]]).astype(float)), min_max(
            data["payment"].astype(float)
        )
    return min_max(data["X"].astype(float)), min_max(data["y"].astype(float))


def expected_curvature(hessian, gradient, step, sigma):
    """Return equation 5 at a point: (tr(H) sigma^2 + <gradient, step>) / (p sigma^2 + |step|^2).

    ``step`` leads from the minimiser to the point, at which the gradient and the Hessian are.
    """
    noise = np.asarray(sigma) ** 2
    return (hessian.trace() * noise + gradient @ step) / (len(step) * noise + step @ step)


# %%
# Table 2: our least and average eigenvalues beside the paper's, which does not say which columns it
# kept.
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained")
axes = dict(zip(("graduate_admission", "sonar"), axes, strict=True))
sigma = np.geomspace(1e-3, 3, 100)
for name, (least, average) in PAPER.items():
    if (data := load(name)) is None:
        print(f"{name:24s} skipped: not shipped, since its source states no licence")
        continue
    X, y = data
    hessian = X.T @ X / len(X)
    eigenvalues = np.linalg.eigvalsh(hessian)
    print(
        f"{name:24s} least {eigenvalues[0]:.2e} (paper {least:.2e}), "
        f"average {eigenvalues.mean():.2f} (paper {average:.2f})"
    )
    if name not in axes:
        continue
    minimiser = np.linalg.lstsq(X, y, rcond=None)[0]
    curvature = expected_curvature(hessian, -X.T @ y / len(X), -minimiser, sigma)  # at x = 0
    axes[name].semilogx(sigma, curvature, label="expected curvature")
    axes[name].axhline(eigenvalues.mean(), linestyle="--", color="0.5", label="average curvature")
    axes[name].axhline(eigenvalues[0], linestyle=":", color="0.5", label="least curvature")
    axes[name].set(
        title=name.replace("_", " ").capitalize(),
        xlabel="standard deviation of the noise",
        ylabel="curvature along the path",
    )
    print(f"{'':24s} expected curvature at sigma = 1: {np.interp(1.0, sigma, curvature):.3f}")
handles = axes["sonar"].get_legend_handles_labels()
figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False)
plt.show()
