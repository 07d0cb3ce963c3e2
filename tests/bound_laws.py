"""Laws that every accountant obeys on every record, for those of another package too:

class TestMine(BoundLaws):
    accountants = {"mine": mine}  # registered with `skdpdyn.privacy.accountants.accountant`
    records = {"full batch": NoisyGradientDescent(n_steps=40, ...)}
"""

import itertools
import math
import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy import (
    ACCOUNTANTS,
    Composition,
    GaussianDP,
    OnePass,
    PoissonSubsampled,
    RenyiDP,
    Selection,
    tightest,
)

LONGER = {"n_steps": lambda n: n + 7, "n_epochs": lambda n: n + 2}
NOISIER = ("noise_multiplier", "noise")


def guarantee_of(accountant, record):
    try:
        return accountant(record)
    except UnsupportedMechanismError:
        return None


def with_adjacency(record, adjacency):
    if isinstance(record, Composition):
        return Composition(tuple(replace(part, adjacency=adjacency) for part in record.mechanisms))
    if isinstance(record, Selection):
        return replace(record, trial=replace(record.trial, adjacency=adjacency))
    return replace(record, adjacency=adjacency)


EPSILONS = np.append(0.0, np.geomspace(1e-3, 50, 12))


def check_profile(guarantee):
    deltas = np.array([guarantee.delta(float(epsilon)) for epsilon in EPSILONS])
    assert np.all((deltas >= 0) & (deltas <= 1))
    assert np.all(np.diff(deltas) <= 1e-14)
    np.testing.assert_allclose(guarantee.delta(EPSILONS), deltas, rtol=1e-6, atol=1e-12)
    for delta in (0.3, 1e-3, 1e-8, 1e-12):
        epsilon = guarantee.epsilon(delta)
        assert (epsilon == 0) == (delta >= guarantee.delta(0.0))
        if math.isfinite(epsilon):
            assert guarantee.delta(epsilon) <= delta * (1 + 1e-8) + 1e-15  # an FFT cannot do better
    epsilons = [guarantee.epsilon(delta) for delta in (0.3, 1e-3, 1e-8, 1e-300, 0.0)]
    assert all(one <= other * (1 + 1e-15) for one, other in itertools.pairwise(epsilons))
    for bad in (math.nan, -1.0):
        for question in (guarantee.delta, guarantee.epsilon):
            with pytest.raises(ValueError, match="must be"):
                question(bad)


class BoundLaws:
    """The laws as tests of records by a label; those that an accountant refuses are left out."""

    accountants: Mapping[str, Callable] = ACCOUNTANTS
    records: Mapping[str, Any] = {}

    def pairs(self):
        """Return the pairs of an accountant and a record that it covers, under either adjacency."""
        return [
            pytest.param(judge, with_adjacency(record, adjacency), id=f"{name}-{label}-{adjacency}")
            for name, judge in self.accountants.items()
            for label, record in self.records.items()
            for adjacency in ("replace_one", "add_remove")
            if guarantee_of(judge, record) is not None
        ]

    def pytest_generate_tests(self, metafunc):
        """Give every law its cases."""
        if "record" in metafunc.fixturenames:
            metafunc.parametrize(("accountant", "record"), self.pairs())
        if "renyi_record" in metafunc.fixturenames:
            renyi = (isinstance(pair.values[0](pair.values[1]), RenyiDP) for pair in self.pairs())
            curves = [*itertools.compress(self.pairs(), renyi)]
            metafunc.parametrize(("accountant", "renyi_record"), curves)
        if "any_record" in metafunc.fixturenames:
            metafunc.parametrize("any_record", self.records.values(), ids=list(self.records))

    def test_every_accountant_and_record_has_a_case(self):
        pairs = [pair.values for pair in self.pairs()]
        for name, accountant in self.accountants.items():
            assert any(covers is accountant for covers, _ in pairs), f"{name} covers no record here"
        for label, record in self.records.items():
            assert any(type(one) is type(record) for _, one in pairs), f"{label} is not covered"

    def test_guarantees_are_profiles(self, accountant, record):
        guarantee = accountant(record)
        assert guarantee.adjacency == record.adjacency
        check_profile(guarantee)
        again = pickle.loads(pickle.dumps(guarantee))
        assert again == guarantee
        assert again.epsilon(1e-6) == guarantee.epsilon(1e-6)
        assert pickle.loads(pickle.dumps(record)) == record
        assert hash(pickle.loads(pickle.dumps(record))) == hash(record)
        tpr = 1 - guarantee.tradeoff(np.array([0.0, 0.01, 0.2, 1.0]))
        assert np.all(np.diff(tpr) >= 0)
        assert tpr[-1] == 1
        assert tpr[1] - 0.01 <= guarantee.advantage + 1e-9

    @pytest.mark.parametrize("delta", [0.3, 1e-3, 1e-9])
    def test_no_order_of_a_fine_grid_is_better_than_ours(self, accountant, renyi_record, delta):
        guarantee = accountant(renyi_record)
        excess = np.geomspace(1e-9, 1e15, 3000)
        with np.errstate(over="ignore", invalid="ignore"):
            slack = -excess * np.log1p(1 / excess) - np.log1p(excess)
            epsilons = guarantee.rdp(1 + excess) + (slack - math.log(delta)) / excess
        assert guarantee.epsilon(delta) <= max(0.0, np.nanmin(epsilons)) * (1 + 1e-12)

    def test_more_steps_and_less_noise_cost_more(self, accountant, record):
        before = accountant(record).epsilon(1e-6)
        for name in NOISIER:
            if hasattr(record, name):
                noisier = replace(record, **{name: 1.5 * getattr(record, name)})
                assert accountant(noisier).epsilon(1e-6) <= before
        for name, longer in LONGER.items():
            declared = getattr(record, "__dataclass_fields__", {})
            if name in declared and getattr(record, name) is not None:
                more = replace(record, **{name: longer(getattr(record, name))})
                assert accountant(more).epsilon(1e-6) >= before * (1 - 1e-9)

    def test_composition_of_copies_is_k_fold(self, accountant, record):
        if isinstance(record, Composition):
            return
        threefold = accountant(Composition((record,) * 3))
        one = accountant(record)
        assert threefold == one.compose(one).compose(one)
        assert threefold.epsilon(1e-6) > one.epsilon(1e-6)
        assert threefold.delta(0.0) <= 3 * one.delta(0.0) + 1e-9  # basic composition
        if isinstance(one, GaussianDP):
            assert threefold.mu == pytest.approx(one.mu * math.sqrt(3), rel=1e-14)

    def test_adjacency_costs_at_most_a_factor_of_two(self, accountant, record):
        both = (with_adjacency(record, adjacency) for adjacency in ("replace_one", "add_remove"))
        replaced, removed = map(accountant, both)
        with pytest.raises(ValueError, match="cannot be added or compared"):
            replaced.compose(removed)
        # their unit is one record's contribution
        if isinstance(record, (PoissonSubsampled, OnePass)):
            assert removed.epsilon(1e-6) < replaced.epsilon(1e-6)

    def test_tightest_names_the_winner_and_the_reasons(self, any_record):
        record = any_record
        best = tightest(record, delta=1e-6)
        assert set(best.alternatives) | {best.bound} - {"tightest"} == set(ACCOUNTANTS)
        for other in best.alternatives.values():
            if isinstance(other, UnsupportedMechanismError):
                assert "needs" in str(other) or "no theorem" in str(other)
            else:
                assert best.guarantee.epsilon(1e-6) <= other.epsilon(1e-6)
