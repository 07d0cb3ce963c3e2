"""How kernels are compiled."""

import gc

import numba
import pytest
from numba import types

from skdpdyn._startup import no_collections
from skdpdyn.kernels.jit import component, double_of_bits, entry


def _half(x):
    return x / 2


def _not_compilable(x):
    return x.no_such_attribute


def _power_of_two(exponent):
    return double_of_bits((exponent + 1023) << 52)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
@pytest.mark.parametrize("decorator", [entry, component])
@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_collection_is_as_before(decorator, enabled, monkeypatch):
    """After functions that compile and after those that do not."""
    calls = []
    monkeypatch.setattr(gc, "isenabled", lambda: enabled)
    monkeypatch.setattr(gc, "disable", lambda: calls.append("disable"))
    monkeypatch.setattr(gc, "enable", lambda: calls.append("enable"))
    expected = ["disable", "enable"] if enabled else ["disable"]
    decorator(types.float64(types.float64))(_half)
    assert calls == expected
    with pytest.raises(numba.TypingError):
        decorator(types.float64(types.float64))(_not_compilable)
    assert calls == 2 * expected


@pytest.mark.parametrize("enabled", [True, False])
def test_collections_come_back_when_the_last_one_is_done(enabled):
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        first, second = no_collections(), no_collections()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert not gc.isenabled()
        second.__exit__(None, None, None)
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()


@pytest.mark.parametrize("exponent", [-1022, -1, 0, 1, 52, 1023])
def test_double_of_bits(exponent):
    of_power = entry(types.float64(types.int64))(_power_of_two)
    assert of_power(exponent) == 2.0**exponent
