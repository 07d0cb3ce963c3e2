"""The low bits of what is released: an attack that reads them, and its end.

The attacker of each release knows everything but its noise. So a way out is listened to on one data
set, what was released is repeated on its neighbour, and points that differ are released again many
times, of either data set at random.

All tests of this file together fail by chance with a probability below 1e-6.
"""

import ast
import importlib
import inspect
import pkgutil
from functools import cache

import numba
import numpy as np
import pytest
from releases import PACKAGE, WAYS_OUT, WIDE, Listener, overheard, table
from scipy import stats
from scipy.special import expit, ndtr, ndtri
from spending import noise_is_found_once

import skdpdyn
from skdpdyn import preprocessing
from skdpdyn.core.noise import generators, release
from skdpdyn.kernels.release import PITCH_BITS
from skdpdyn.solvers import SOLVERS

pytestmark = pytest.mark.every_case

COMPILED = not numba.config.DISABLE_JIT
N_DRAWS = 4_000 if COMPILED else 2_000  # of the coordinates of one line of the package
CHANCE = 1e-10  # of one test of one line of one way out
UNIT = 2.0**-53  # numpy's uniform numbers are its multiples


@cache
def both(way, n_features):
    """Return what two neighbours show and were heard to release, with the same outcomes."""
    one, other = table(n_features)
    run = WAYS_OUT[way](n_features)
    first = Listener()
    second = Listener(first.calls)
    with noise_is_found_once():
        _, shown_of_first = overheard(first, run, one)
        _, shown_of_second = overheard(second, run, other)
        return shown_of_first, shown_of_second, first, second


def exact(points, scales, distribution, rng):
    """Release points, a row each; tell the attacker the scale of the noise."""
    if distribution == "gaussian":
        return release(points, scales, rng), scales
    rows = zip(points, scales, strict=True)
    return np.array([release(*row, rng, distribution) for row in rows]), scales


def ordinary(points, scales, distribution, rng):
    """Add noise by the inverse distribution function; of gamma noise the length is told too."""
    noise = ndtri(rng.random(points.shape))
    if distribution == "gamma":
        length = rng.gamma(points.shape[1], size=(len(points), 1))
        scales = scales * (length / np.linalg.norm(noise, axis=1, keepdims=True))
    return points + scales * noise, scales


def uniforms(released, point, scale):
    """Return how many uniform numbers ``ordinary`` would have turned into what was released."""
    nearest = np.rint(ndtr((released - point) / scale) / UNIT)
    candidates = (nearest + np.arange(-6, 7)[:, None, None]) * UNIT
    return np.sum(point + scale * ndtri(candidates) == released, axis=0)


class Attack:
    """Releases of points of either of two data sets, and what their low bits say of which.

    ``reach``: 1 where the first alone can give more of the coordinates, -1 where the other can.
    ``likelihood``: the difference of their probabilities, were the noise ordinary.
    """

    def __init__(self, points, others, scales, distribution, noise, ways_to, rng):
        self.scales = scales
        self.truth = rng.random((len(points), 1)) < 0.5
        centres = np.where(self.truth, points, others)
        self.released, told = noise(centres, scales, distribution, rng)
        ways = [ways_to(self.released, possible, told) for possible in (points, others)]
        far = [(self.released - possible) / scales for possible in (points, others)]
        # in real arithmetic, which is what the guarantee is about
        if distribution == "gaussian":
            odds = np.sum(far[1] ** 2 - far[0] ** 2, axis=1) / 2
        else:
            odds = np.linalg.norm(far[1], axis=1) - np.linalg.norm(far[0], axis=1)
        self._surprise = self.truth[:, 0] - expit(odds)
        self.reach = np.sign(np.sum((ways[0] > 0).astype(int) - (ways[1] > 0), axis=1))
        ratio = np.sum(np.log(ways[0] + 1e-3) - np.log(ways[1] + 1e-3), axis=1)
        self.likelihood = np.tanh(ratio / 2)

    def excess(self, says):
        """Return how much more often it is right than allowed, in units of CHANCE (Hoeffding)."""
        bound = np.sqrt(np.sum(says**2) * np.log(2 / CHANCE) / 2)
        return float(np.sum(says * self._surprise) / max(bound, 1.0))

    def tells(self):
        """Return for both kinds of attack whether chance cannot explain how often it is right."""
        return abs(self.excess(self.reach)) > 1, abs(self.excess(self.likelihood)) > 1


def attacks(way, n_features, noise, ways_to=uniforms):
    """Return an attack for each line of the package that releases, by its noise."""
    (rng,) = generators(None)
    of_line = {}
    *_, first, second = both(way, n_features)
    for one, other in zip(first.calls, second.calls, strict=True):
        if np.any(moved := one.point != other.point):
            numbers = np.stack([one.point, other.point, one.scale])
            # coordinates of Gaussian noise are told one by one
            gaussian = one.distribution == "gaussian"
            numbers = numbers[:, moved][..., None] if gaussian else numbers[:, None]
            of_line.setdefault((one.line, one.distribution), []).append(numbers)
    found = {}
    for (line, distribution), parts in of_line.items():
        numbers = np.concatenate(parts, axis=1)
        n_draws = N_DRAWS if distribution == "gaussian" else N_DRAWS // (10 * numbers.shape[2])
        which = rng.integers(numbers.shape[1], size=max(n_draws, 100))
        found[line, distribution] = Attack(*numbers[:, which], distribution, noise, ways_to, rng)
    return found


SHAPES = [(way, 2) for way in WAYS_OUT]
SHAPES += [pytest.param(way, 40, marks=pytest.mark.slow) for way in WIDE]


def check_shown(shown, shown_of_neighbour, first, second):
    """Given the same outcomes neighbours look alike, and have noise of the same scale."""
    assert shown == shown_of_neighbour
    assert [one.line for one in first.calls] == [one.line for one in second.calls]
    pairs = list(zip(first.calls, second.calls, strict=True))
    for one, other in pairs:
        np.testing.assert_array_equal(one.scale, other.scale)
    assert any(np.any(one.point != other.point) for one, other in pairs)


@pytest.mark.parametrize(("way", "n_features"), SHAPES)
def test_what_is_shown_tells_nothing_but_what_is_released(way, n_features):
    """Attributes, warnings and prints follow from what is released, whose low bits tell nothing:
    they are of a lattice that follows from the scale alone. Ordinary addition tells all at once.
    """
    check_shown(*both(way, n_features))
    for line, attack in attacks(way, n_features, ordinary).items():
        assert attack.tells() == (True, True), line
    for line, attack in attacks(way, n_features, exact).items():
        assert attack.tells() == (False, False), line
        whole = np.ldexp(attack.released, PITCH_BITS + 1 - np.frexp(attack.scales)[1])
        np.testing.assert_array_equal(whole, np.round(whole))
        low = whole.astype(int) % 16
        truth = np.broadcast_to(attack.truth, whole.shape)
        counts = [np.bincount(low[truth == one], minlength=16) for one in (True, False)]
        assert stats.chi2_contingency(counts).pvalue > CHANCE, line


def test_the_attack_is_on_every_solver_and_all_else_that_draws_noise():
    """Every public name that takes a seed, and every line of the package that releases."""
    names = set(public_names())
    assert len(names) > 8
    for name in {*names, *SOLVERS}:
        assert any(way.startswith(name) for way in WAYS_OUT), f"{name} is missing in releases.py"
    missing = lines_that_release()
    for way in (*COMING_TO_MOST, *WAYS_OUT):
        if missing:
            missing -= both(way, 2)[2].lines
    assert not missing, "these lines have no way out in releases.py that comes to them"


COMING_TO_MOST = (
    "private_regression weighted, of numbers",
    "counts of unknown bounds, evaluate",
    "PrivateRidge with slope and level, weighted persons",
    "private_regression of bought levels of persons",
    "PrivateGAMClassifier of three classes that looks",
    "PrivateSearchCV held out",
    "ranges, two of years",
    "output_perturbation descent",
    "sufficient_statistics",
    "complete_schema",
    "evaluate weighted, three classes",
    "prediction_interval",
    "noisy_sgd laplace",
    "objective_perturbation",
)
"""Ways that come to nearly all lines that release."""


def public_names():
    """Return the public names that take a seed, but for classes to derive others from."""
    derived_from = "PrivateLinearModel", "PrivateLinearClassifier", "PrivateLinearRegressor"
    for module in pkgutil.walk_packages(skdpdyn.__path__, "skdpdyn."):
        if module.name in ("skdpdyn.__main__", "skdpdyn.export.onnx", "skdpdyn.core.noise"):
            continue
        found = importlib.import_module(module.name)
        for name in set(getattr(found, "__all__", ())).difference(derived_from):
            one = getattr(found, name)
            may_draw = inspect.isclass(one) or inspect.isfunction(one)
            may_draw = may_draw and not (inspect.isclass(one) and issubclass(one, Exception))
            if may_draw and "random_state" in inspect.signature(one).parameters:
                yield name


def calls_in_package():
    """Return every call in the package: its file, the name that is called, and the node."""
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield name, getattr(node.func, "attr", getattr(node.func, "id", None)), node


def lines_that_release():
    """Return files and lines of the calls of `release` and of what is made of it."""
    found = set()
    for name, called, node in calls_in_package():
        other = isinstance(node.func, ast.Attribute)
        other &= ast.unparse(getattr(node.func, "value", node)) in ("np", "cells")  # of bought ones
        # an audit releases made-up numbers alone; a table's quantile is that of the normal law
        other |= name in ("audit/replay.py", "core/noise.py")
        other |= called == "quantile" and name.startswith("inference/")
        if called in ("release", "symmetric", "quantile") and not other:
            found.add((name, node.lineno))
    assert len(found) > 20
    return found


DRAWING = {
    # normals of earlier steps, of the linear term of objective perturbation, and their kin
    "draw_normals": "core/noise.py solvers/steps.py",
    "standard_noise": "solvers/objective_perturbation.py",
    "draw_gamma": "core/noise.py",
    # digits, batches, trials, seeds
    "random": "kernels/later.py kernels/release.py kernels/normals.py kernels/draws.py",
    "bytes": "model_selection/_trials.py",
    "permutation": "kernels/draws.py solvers/runs.py solvers/output_perturbation.py"
    " model_selection/_splits.py",
    "integers": "kernels/draws.py solvers/runs.py model_selection/_candidates.py"
    " model_selection/private_search.py audit/one_fit.py",
    # records of audits, which are made up; digits
    "uniform": "audit/replay.py kernels/release.py",
    "choice": "audit/replay.py",
    "spawn": "core/noise.py",
    "urandom": "core/noise.py",
}


def test_no_other_line_adds_noise():
    """Read the package: who draws anything at random, by whatever method of numpy's generators."""
    methods = {name for name in dir(np.random.Generator) if name[0] != "_"}
    for name, called, node in calls_in_package():
        # they read no record: rows of plans are made up
        if name in ("planning.py", "inference/planned.py"):
            continue
        if called in DRAWING or (called in methods and isinstance(node.func, ast.Attribute)):
            # the loss, Python's type, and a check of fields
            other = called in ("poisson", "bytes", "choice") and isinstance(node.func, ast.Name)
            drawing = other or name in DRAWING.get(called, "").split()
            assert drawing, f"{name}:{node.lineno} draws by {called}: noise is for `release` alone"


# --- the attack finds what is not as it should be -------------------------------------------------


def test_planted_bug_a_count_that_is_shown(monkeypatch):
    def publish(self, *spent):
        full(self, *spent)
        self.n_long_ = self.rows_seen

    full = preprocessing.PrivateScaler._publish_plan
    read = preprocessing.Reading

    def counting(X, **others):
        preprocessing.PrivateScaler.rows_seen = int(np.sum(np.linalg.norm(X, axis=1) > 0.9))
        return read(X, **others)

    monkeypatch.setattr(preprocessing.PrivateScaler, "_publish_plan", publish)
    monkeypatch.setattr(preprocessing.PrivateScaler, "rows_seen", 0, raising=False)
    monkeypatch.setattr(preprocessing, "Reading", counting)
    with pytest.raises(AssertionError):
        check_shown(*both.__wrapped__("PrivateScaler", 2))
