"""
The low bits
============

Floating-point noise does not reach every number, and which ones it reaches depends on what it was
added to. So the low bits of a noisy result tell what lies under it (Mironov 2012). numpy makes a
Laplace variable of a uniform multiple of 2^-52, by its logarithm. Whoever knows all records but one
tries both candidates, and counts for each how many coordinates such a multiple turns into what was
released.

`skdpdyn.core.noise.release` ends that. It rounds the exact sum of point and ideal noise to a
lattice that depends on the scale of the noise alone, so that every value can come from either
candidate.
"""

import matplotlib.pyplot as plt
import numpy as np

from skdpdyn.core.noise import generators, release

# %%
# The means of 100 columns of 1,000 records, and of the same data with one record replaced; noise
# for epsilon = 1.
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (1000, 100))
neighbour = X.copy()
neighbour[0] = -X[0]
mean = X.mean(axis=0)
other_mean = neighbour.mean(axis=0)
scale = 2 * 100 / 1000


# %%
# How many coordinates a candidate can explain: the uniform that each needs, rounded to a multiple
# of 2^-52 and its neighbours, must give the released number back, bit by bit.
def explained(released, candidate):
    """Return how many coordinates numpy's Laplace noise can have made of a candidate."""
    multiple = np.rint(np.exp(-np.abs(released - candidate) / scale) * 2.0**52)
    found = np.zeros(released.shape, dtype=bool)
    for offset in range(-2, 3):
        noise = scale * np.log((multiple + offset) * 2.0**-52)
        found |= candidate + np.copysign(noise, released - candidate) == released
    return int(found.sum())


def exact(point, generator):
    """Release each coordinate by exact Laplace noise."""
    return np.array([release(coordinate, scale, generator, "gamma") for coordinate in point])


(generator,) = generators(None)
ways = {
    "rng.laplace": lambda: rng.laplace(mean, scale),
    "release": lambda: exact(mean, generator),
}
counts = {}
for name, way in ways.items():
    counts[name] = np.array(
        [
            (explained(value, mean), explained(value, other_mean))
            for value in (way() for _ in range(40))
        ]
    )
    told = np.sum(counts[name][:, 0] > counts[name][:, 1] + 30)
    print(
        f"{name}: the true data explain {counts[name][:, 0].mean():.1f} of 100 coordinates, "
        f"the neighbour {counts[name][:, 1].mean():.1f}; told in {told} of 40 releases"
    )

# %%
# Ordinary noise is explained far better by the true data. The lattice's points are the same for
# both.
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(1, 2, sharey=True, figsize=(8, 4), layout="constrained")
titles = {"rng.laplace": "floating-point noise", "release": "exact release"}
for ax, (name, pairs) in zip(axes, counts.items(), strict=True):
    true, other = pairs.T
    ax.plot(true, "o", label="the true data")
    ax.plot(other, "s", fillstyle="none", label="a neighbour, one record replaced")
    ax.set(title=titles[name], xlabel="number of the release", ylim=(-3, 103))
axes[0].set_ylabel("coordinates explained, of 100")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
plt.show()
