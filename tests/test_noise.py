"""Randomness: cryptographic, fresh, independent; seeds are refused or marked."""

import hashlib
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
from randomgen import AESCounter
from scipy import stats
from threadpoolctl import threadpool_limits

from skdpdyn.core.noise import UNCHARGED, check_random_state, generators, largest_norm, release
from skdpdyn.core.rounding import largest_batch
from skdpdyn.exceptions import PrivacyLeakWarning
from skdpdyn.model_selection import _trials
from skdpdyn.support.threads import threads_of

ROOT = Path(__file__).parents[1]
DRAWN_AT_IMPORT = generators(None)[0].bit_generator.random_raw()


@pytest.mark.parametrize("size", [1, 2, 10, 1000, 10**6])
def test_the_largest_norm_is_hardly_ever_exceeded(size):
    most = math.log(UNCHARGED["iterate"])
    assert stats.chi2.logsf(largest_norm("gaussian", size) ** 2, size) <= most
    assert stats.gamma.logsf(largest_norm("gamma", size), size) <= most


def test_the_list_of_what_is_not_charged_is_complete_and_the_code_keeps_to_it():
    page = (ROOT / "doc/theory/bits.rst").read_text(encoding="utf-8")
    table = page.partition("Ignored events\n")[2]
    rows = re.findall(r"^   \* - (\w+)\n     - .*\n     - (\S+)$", table, flags=re.MULTILINE)
    assert {name: float(p) for name, p in rows if name != "event"} == UNCHARGED
    assert max(UNCHARGED.values()) < 1e-149
    for other in ("README.md", "doc/guide/threats.rst"):
        text = " ".join((ROOT / other).read_text(encoding="utf-8").split())
        assert re.search("vents of probability below 1e-149 are ignored", text)
    assert len(UNCHARGED) == 4
    # Bernstein's bound on a batch of mean b in n_steps steps, at the size that is claimed
    size = largest_batch(10**6, 1e-3, 5000) + 1
    b = 1e3
    n_steps = 5000
    log_p = math.log(n_steps) - (size - b) ** 2 / (2 * b + 2 * (size - b) / 3)
    assert log_p <= -100 * math.log(10)
    # what is left of 1 where trials are not counted any more, and the grid of the uniform number
    assert float(_trials._NOTHING) + 2.0 ** (-8 * _trials._BYTES) < UNCHARGED["trials"] / 1e6
    assert math.log(2) + stats.norm.logsf(35) <= math.log(UNCHARGED["normal"])


def test_the_generator_is_aes_128_in_counter_mode():
    """Of the counters 0 and 1; the first block is the NIST known answer 66e94bd4ef8a2c3b..."""
    known = {0: "66e94bd4ef8a2c3b884cfa59ca342b2e47711816e91d6ff059bbbf2bf58e0fd3"}
    # FIPS-197 key 000102...0f, counter 0
    known[int.from_bytes(bytes(range(16)), "little")] = "c6a13b37878f5b826f4f8162a1c8d879"
    for key, blocks in known.items():
        words = AESCounter(key=key).random_raw(len(blocks) // 16).tolist()
        assert b"".join(word.to_bytes(8, "little") for word in words).hex() == blocks


def test_fits_use_that_generator_with_all_of_its_key():
    """64 keys of 128 bits agree in no half (failure probability below 1e-15)."""
    keys = []
    for (generator,) in (generators(None) for _ in range(64)):
        assert isinstance(generator.bit_generator, AESCounter)
        seed = generator.bit_generator.state["s"]["seed"][:2]
        keys.append([int(word) for word in seed])
    for half in range(2):
        assert len({key[half] for key in keys}) == 64


@pytest.mark.smoke
def test_streams_are_independent():
    """Correlations of 20,000 normals are below 7 deviations: failure below 1e-11 a pair."""
    for random_state in (None, 3):
        draws = np.array([g.standard_normal(20_000) for g in generators(random_state, 4)])
        correlation = np.corrcoef(draws)
        assert np.all(np.abs(correlation[~np.eye(4, dtype=bool)]) < 0.05)


@pytest.mark.smoke
def test_none_is_fresh_every_time_and_an_int_repeats():
    def draw(random_state):
        return generators(random_state)[0].standard_normal(8)

    assert not np.any(draw(None) == draw(None))
    np.testing.assert_array_equal(draw(5), draw(5))
    np.testing.assert_array_equal(draw(5), draw(np.int64(5)))
    assert not np.any(draw(5) == draw(6))


@pytest.mark.system
def test_two_processes_draw_different_noise():
    program = "from skdpdyn.core.noise import generators; print(generators(None)[0].random(4))"
    command = [sys.executable, "-c", program]
    assert subprocess.check_output(command) != subprocess.check_output(command)


def test_global_seeds_change_nothing():
    np.random.seed(0)  # noqa: NPY002 - the very thing that must have no effect
    first = generators(None)[0].standard_normal(4)
    np.random.seed(0)  # noqa: NPY002
    assert not np.any(generators(None)[0].standard_normal(4) == first)


def test_seeds_are_marked_as_not_private():
    message = "random_state=7: the noise can be recomputed .* not private"
    with pytest.warns(PrivacyLeakWarning, match=message):
        generators(7)


KINDS = np.random.default_rng, np.random.RandomState, np.random.PCG64, np.random.SeedSequence
COPIES = "is refused: clones, folds and workers would copy its state"


@pytest.mark.every_case
@pytest.mark.parametrize("state", [*(kind(0) for kind in KINDS), -1, 1.5, True, "0"])
def test_other_states_are_refused_with_the_reason(state):
    message = COPIES if isinstance(state, (*KINDS[1:], np.random.Generator)) else "an int >= 0"
    with pytest.raises(TypeError, match=message):
        check_random_state(state)


def test_blocks_of_a_wide_release_are_drawn_alike_by_any_number_of_threads():
    """And each from a stream of its own: no block repeats another, nor those of a second release.

    Chi-square of 30,000 normals, failure probability 1e-9.
    """
    point = np.zeros(30_000)
    scale = np.linspace(1.0, 2.0, 30_000)
    drawn = {}
    for n_threads in (1, 2, 3, 7):
        generator = np.random.Generator(AESCounter(key=1))
        drawn[n_threads] = [release(point, scale, generator, n_threads=n_threads) for _ in range(2)]
    for found in drawn.values():
        np.testing.assert_array_equal(found, drawn[1])
    normals = np.ravel(drawn[1]) / np.tile(scale, 2)
    low, high = stats.chi2.ppf([5e-10, 1 - 5e-10], normals.size)
    assert low < np.sum(normals**2) < high
    blocks = normals[: 14 * 4096].reshape(-1, 4096)
    correlations = np.corrcoef(blocks) - np.eye(len(blocks))
    assert np.max(np.abs(correlations)) < 7 / math.sqrt(4096)


def test_threads_are_those_of_openmp():
    assert threads_of(None, 1_999_999) == 1
    assert 1 <= threads_of(None, 10**9) <= os.cpu_count()
    with threadpool_limits(1):
        assert threads_of(None, 10**9) == 1
    assert threads_of(3, 1) == 3
    assert threads_of(-1, 1) == joblib.effective_n_jobs(-1)


def test_no_test_draws_fresh_noise_unless_it_says_how_it_may_fail(request):
    """What is marked as fresh states a probability of 1e-6 or less."""
    marked = [item for item in request.session.items if item.get_closest_marker("fresh")]
    stated = re.compile("1e-([6-9]|[1-9]\\d)")
    assert not [item.nodeid for item in marked if not stated.search(str(item.obj.__doc__))]
    if os.environ.get("HYPOTHESIS_PROFILE") != "random":
        (one,) = generators(None)
        (other,) = generators(None)
        name = request.node.nodeid
        keys = [hashlib.shake_256(f"{name} {k}".encode()).digest(16) for k in (1, 2)]
        first = [AESCounter(key=int.from_bytes(key)).random_raw() for key in keys]
        assert first == [one.bit_generator.random_raw(), other.bit_generator.random_raw()]
        key = hashlib.shake_256(f"{request.node.parent.nodeid} 1".encode()).digest(16)
        assert AESCounter(key=int.from_bytes(key)).random_raw() == DRAWN_AT_IMPORT
