"""The low bits of what is released: an attack that reads them, and its end."""

import ast
from pathlib import Path

import numpy as np
import pytest
from mpmath import mp, mpf
from problems import generator
from scipy import stats
from spending import spent

import skdpdyn
from skdpdyn.data.local import LocalRows
from skdpdyn.kernels import batches, descent
from skdpdyn.kernels.release import PITCH_BITS
from skdpdyn.losses import logistic, squared
from skdpdyn.noise import release
from skdpdyn.objective import Objective
from skdpdyn.solvers import (
    DPSGD,
    NoisyGD,
    NoisySGD,
    ObjectivePerturbation,
    OutputPerturbation,
    SufficientStatistics,
    objective_perturbation,
    output_perturbation,
    sufficient_statistics,
)


def ziggurat_widths():
    """Return the widths of numpy's 256 layers of the normal density, of which its normals are
    integer multiples.

    Marsaglia and Tsang (2000): layers of one area v under exp(-x^2/2), from the base with edge r
    on.
    """
    with mp.workdps(60):

        def layers(r):
            area = r * mp.exp(-r * r / 2) + mp.sqrt(mp.pi / 2) * mp.erfc(r / mp.sqrt(2))
            edges, height = [r], mp.exp(-r * r / 2)
            for _ in range(254):
                height = area / edges[-1] + mp.exp(-(edges[-1] ** 2) / 2)
                if height >= 1:
                    return 1, edges, area
                edges.append(mp.sqrt(-2 * mp.log(height)))
            return area / edges[-1] + mp.exp(-(edges[-1] ** 2) / 2) - 1, edges, area

        low, high = mpf("3.65"), mpf("3.66")
        for _ in range(170):
            middle = (low + high) / 2
            low, high = (middle, high) if layers(middle)[0] > 0 else (low, middle)
        _, edges, area = layers(low)
        base = area / mp.exp(-low * low / 2)
        return np.array([float(edge / 2**52) for edge in [base, *edges]])


WIDTHS = ziggurat_widths()


def reachable(released, point, scale):
    """Return how many coordinates ordinary noise of numpy can have made of a point."""
    normal = np.abs(released - point) / scale
    found = np.zeros(released.shape, dtype=bool)
    for width in WIDTHS:
        for offset in (-1, 0, 1):
            guess = (np.rint(normal / width) + offset) * width
            found |= point + np.copysign(scale * guess, released - point) == released
    return int(found.sum())


def ordinary(point, scale, rng, distribution="gaussian"):
    """Add noise as other libraries do."""
    return np.asarray(point) + scale * rng.standard_normal(np.shape(point))


SOLVERS = {
    "noisy_gd": (NoisyGD(n_steps=3, step_size=1.0), descent, logistic),
    "noisy_sgd": (NoisySGD("cyclic", batch_size=20, n_epochs=2), batches, logistic),
    "dp_sgd": (DPSGD(n_steps=3, batch_size=30), batches, logistic),
    "output_perturbation": (OutputPerturbation(), output_perturbation, logistic),
    "objective_perturbation": (ObjectivePerturbation(), objective_perturbation, logistic),
    "sufficient_statistics": (SufficientStatistics(), sufficient_statistics, squared),
}


def last_release(name, X, y, noise, monkeypatch, seed):
    """Run a solver and return what was released last, the point it was made of, and the scale of
    its noise.
    """
    solver, module, loss = SOLVERS[name]
    objective = Objective(loss, *X.shape, 1.0, alpha=0.1, clip=0.5)
    mechanism = solver.mechanism(objective, *spent(1.0, 1e-5))(4.0)
    seen = []

    def spy(point, scale, rng, *distribution):
        seen[:] = [noise(point, scale, rng, *distribution), np.array(point), scale]
        return seen[0]

    monkeypatch.setattr(module, "release", spy)
    solver.solve(objective, mechanism, LocalRows(X, y), generator=generator(seed))
    return seen


def tell(name, d, noise, monkeypatch, n_fits=10):
    """Return, fit by fit, by how many coordinates the true data set explains more than its
    neighbour does.

    The attacker knows all but the last noise: everything before it is drawn from the same seed.
    """
    rng, leads = np.random.default_rng(0), []
    for seed in range(n_fits):
        X, y = rng.uniform(-1, 1, (60, d)) / np.sqrt(d), (rng.random(60) < 0.5).astype(float)
        other = X.copy()
        other[0] = -X[0]
        released, point, scale = last_release(name, X, y, noise, monkeypatch, seed)
        _, other_point, _ = last_release(name, other, y, noise, monkeypatch, seed)
        leads.append(reachable(released, point, scale) - reachable(released, other_point, scale))
    return np.array(leads)


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 20, 100])
@pytest.mark.parametrize("name", SOLVERS)
def test_low_bits_tell_nothing(name, d, monkeypatch):
    """Which coordinates are reachable is a coin that does not know the data: a sign test,
    failure probability below 1e-6.
    """
    leads = tell(name, d, release, monkeypatch)
    total = int(np.abs(leads).sum())
    assert total == 0 or stats.binomtest(int(leads[leads > 0].sum()), total).pvalue > 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("name", ["noisy_gd", "noisy_sgd", "dp_sgd", "output_perturbation"])
def test_ordinary_addition_tells_the_data_at_once(name, monkeypatch):
    """Of the others the last release alone says less: neighbours are too far apart in its noise,
    or alike.
    """
    leads = tell(name, 100, ordinary, monkeypatch)
    assert np.all(leads > 0), leads


@pytest.mark.parametrize("name", SOLVERS)
def test_what_is_released_lies_on_a_lattice_that_knows_no_data(name, monkeypatch):
    """Its pitch follows from the scale of the noise, so every value can come of either data set."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.3, 0.3, (60, 5)), (rng.random(60) < 0.5).astype(float)
    released, _, scale = last_release(name, X, y, release, monkeypatch, 0)
    pitch = 2.0 ** (np.floor(np.log2(scale)) - PITCH_BITS)
    np.testing.assert_array_equal(released % pitch, 0)


def test_no_other_line_adds_noise():
    """Read the package: normals are drawn for steps, the linear term of objective perturbation,
    and releases alone.
    """
    package = Path(skdpdyn.__file__).parent
    drawing = {
        "standard_normal",
        "normal",
        "laplace",
        "standard_gamma",
        "gamma",
        "standard_exponential",
        "multivariate_normal",
    }
    allowed = {"draw_normals": {"noise.py", "kernels/descent.py", "kernels/batches.py"}}
    allowed["standard_noise"] = {"solvers/objective_perturbation.py"}
    for path in package.rglob("*.py"):
        name = path.relative_to(package).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = (
                node.func.attr
                if isinstance(node.func, ast.Attribute)
                else getattr(node.func, "id", None)
            )
            assert called not in drawing, (
                f"{name}:{node.lineno} draws noise itself: use skdpdyn.noise.release"
            )
            assert called not in allowed or name in allowed[called], (
                f"{name}:{node.lineno} calls {called}"
            )
