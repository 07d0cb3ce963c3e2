"""Cases of dp_accounting's own suites, with their numbers, against the guarantees of this library.

The suites are those of the package that is installed. They run as they are, on accountants that
ask `from_dp_event`; words of errors are not compared. A case that never reached an answer of ours
does not count.
"""

import contextlib
import importlib
import math
import unittest
from unittest import mock

import numpy as np
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.privacy_accountant import PrivacyAccountant
from scipy import optimize

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy import from_dp_event
from skdpdyn.privacy.mechanisms import log_inverse_gamma
from skdpdyn.privacy.sampled import sampled_divergence

REASONS = {
    "LaplaceDpEvent(noise_multiplier=1.0), <NeighboringRelation.REPLACE_ONE": "they refuse Laplace "
    "noise of replaced records, which is 2/z here",
    "DiscreteLaplaceDpEvent(noise_parameter=0.1, sensitivity=1), <Neigh": "the same",
    "mixture_of_gaussians_basic": "ours is above by 3e-6 of delta, the rounding of its grid",
    "truncated_subsampled_gaussian_basic": "theirs is above by the rounding of its grid",
    "test_supports": "they refuse the Renyi curve of Poisson batches of replaced records",
    "mean10^10": "1e10 expected trials are above the most of a Selection, 1e6",
    "log_a_frac_early_termination": "their series does not converge, which must be logged",
    "negative_binomial": "orders <= 1, and the least over their orders alone",
}


def guarantee_of(event, relation):
    """Return our guarantee of an event, for the relation that it is read under."""
    answers.append(event)
    replaced = relation is NeighboringRelation.REPLACE_ONE
    adjacency = "replace_one" if replaced else "add_remove"
    return from_dp_event(event, relation=relation, adjacency=adjacency)


answers = []


def parts_of(event):
    return getattr(event, "events", None) or [getattr(event, "event", event)]


def refused_part(event, relation):
    """Return the innermost event that is refused."""
    for part in parts_of(event):
        if part is not event:
            try:
                guarantee_of(part, relation)
            except UnsupportedMechanismError:
                return refused_part(part, relation)
    return event


class Adapter(PrivacyAccountant):
    """An accountant of theirs that asks this library."""

    def __init__(self, neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE, **_):
        super().__init__(neighboring_relation)
        self.guarantee = guarantee_of(dp_event.NoOpDpEvent(), neighboring_relation)

    def _maybe_compose(self, event, count, do_compose):
        if do_compose and count != 1:
            event = dp_event.SelfComposedDpEvent(event, count)
        try:
            guarantee = guarantee_of(event, self._neighboring_relation)
        except UnsupportedMechanismError as error:
            where = refused_part(event, self._neighboring_relation)
            return self.CompositionErrorDetails(where, str(error))
        if do_compose:
            self.guarantee = self.guarantee.compose(guarantee)
        return None

    @property
    def _is_open(self):  # at delta 1 too, as they have it
        return self.guarantee.delta(math.inf) >= 1

    def get_epsilon(self, target_delta):
        return math.inf if self._is_open else self.guarantee.epsilon(target_delta)

    def get_delta(self, target_epsilon):
        return self.guarantee.delta(target_epsilon)


class RenyiAdapter(Adapter):
    """The same by the Renyi curve, at their orders alone."""

    def __init__(self, orders=None, *arguments, **options):
        super().__init__(*arguments, **options)
        self._orders = np.array(theirs("rdp").DEFAULT_RDP_ORDERS if orders is None else orders)

    @property
    def _rdp(self):
        return np.array([divergence(self.guarantee, order) for order in self._orders])

    def get_epsilon(self, target_delta):
        return (
            math.inf if self._is_open else compute_epsilon(self._orders, self._rdp, target_delta)[0]
        )

    def get_delta(self, target_epsilon):
        return 1.0 if self._is_open else compute_delta(self._orders, self._rdp, target_epsilon)[0]


def divergence(guarantee, order):
    if guarantee.delta(math.inf) >= 1:
        return math.inf
    if math.isinf(order):
        return guarantee.epsilon(0.0)
    return guarantee.rdp(max(order, 1 + 1e-9))


def curve_at(orders, rdp):
    """Return orders above 1, where the divergence is known, and it."""
    orders = np.asarray(orders, dtype=float)
    known = (orders > 1) & np.isfinite(rdp)
    return orders[known], np.asarray(rdp)[known]


def slack(excess):
    """Return what the conversion of Canonne, Kamath and Steinke adds, times order - 1."""
    return -excess * np.log1p(1 / excess) - np.log1p(excess)


def compute_epsilon(orders, rdp, delta):
    answers.append("epsilon")
    orders, rdp = curve_at(orders, rdp)
    if delta >= 1 or (rdp.size and np.all(rdp == 0)):
        return 0.0, None
    if delta == 0 or not rdp.size:
        return math.inf, None
    excess = orders - 1
    epsilons = rdp + (slack(excess) - math.log(delta)) / excess
    best = int(np.argmin(epsilons))
    return max(0.0, epsilons[best]), orders[best]


def compute_delta(orders, rdp, epsilon):
    answers.append("delta")
    orders, rdp = curve_at(orders, rdp)
    if not rdp.size:
        return 1.0, None
    if np.all(rdp == 0) or math.isinf(epsilon):
        return 0.0, None
    excess = orders - 1
    log_deltas = excess * (rdp - epsilon) + slack(excess)
    best = int(np.argmin(log_deltas))
    return math.exp(min(0.0, log_deltas[best])), orders[best]


def log_moment(q, noise, order):
    answers.append("moment")
    return (order - 1) * sampled_divergence(q, 1 / noise, float(order), False)


def sampled_curve(q, noise_multiplier, orders):
    return np.array([log_moment(q, noise_multiplier, max(a, 1 + 1e-9)) / max(a - 1, 1e-9)
                     for a in orders])  # fmt: skip


def gamma_of(shape, mean):
    answers.append("gamma")
    return math.exp(-log_inverse_gamma(mean, shape))


def mean_of(gamma, shape):
    answers.append("mean")
    if gamma == 1:
        return 1.0

    def excess(log_mean):
        return log_inverse_gamma(math.exp(log_mean), shape) + math.log(gamma)

    return math.exp(optimize.brentq(excess, 1e-10, 50.0, xtol=1e-14, rtol=1e-14))


def noise_of(event):
    guarantee = guarantee_of(event, NeighboringRelation.ADD_OR_REMOVE_ONE)
    if hasattr(guarantee, "mu"):
        return 1 / guarantee.mu
    while parts_of(event)[0] is not event:
        (event,) = parts_of(event)
    return event


def answers_curve(noise_parameter, num_buckets, alphas, relation):
    event = dp_event.RandomizedResponseDpEvent(noise_parameter, num_buckets)
    guarantee = guarantee_of(event, relation)
    return np.array([guarantee.rdp(a) if a <= 1 else divergence(guarantee, a) for a in alphas])


def theirs(name):
    modules = {"pld": "pld_privacy_accountant", "rdp": "rdp_privacy_accountant"}
    return importlib.import_module(f"dp_accounting.{name}.{modules[name]}")


OURS = {
    "pld": {"PLDAccountant": Adapter},
    "rdp": {
        "RdpAccountant": RenyiAdapter,
        "compute_epsilon": compute_epsilon,
        "compute_delta": compute_delta,
        "_compute_log_a": log_moment,
        "_compute_log_a_frac": log_moment,
        "_compute_rdp_poisson_subsampled_gaussian": sampled_curve,
        "_gamma_truncated_negative_binomial": gamma_of,
        "_truncated_negative_binomial_mean": mean_of,
        "_effective_gaussian_noise_multiplier": noise_of,
        "_compute_randomized_response_rdp": answers_curve,
    },
}


def cases(name):
    """Run a suite of theirs, "pld" or "rdp"; return each case's name, and None or what failed."""
    suite = importlib.import_module(theirs(name).__name__ + "_test")
    loader = unittest.defaultTestLoader
    found = []
    with contextlib.ExitStack() as stack:
        for function, ours in OURS[name].items():
            stack.enter_context(mock.patch.object(theirs(name), function, ours))
        words = mock.patch.object(
            unittest.TestCase,
            "assertRaisesRegex",
            lambda case, error, words, *rest: case.assertRaises(error, *rest),  # noqa: PT027
        )
        stack.enter_context(words)
        for group in loader.loadTestsFromModule(suite):
            for case in group:
                result, _ = unittest.TestResult(), answers.clear()
                case.run(result)
                if result.skipped:
                    continue
                wrong = [text for _, text in (*result.failures, *result.errors)]
                if not wrong and not answers:
                    wrong = ["it asks nothing of ours"]
                found.append((case.id() + str(case), wrong[0] if wrong else None))
    return found


def reason(name, failure):
    """Return why a case does not pass: what is known of it, or the last line of its failure."""
    known = (why for part, why in REASONS.items() if part in name)
    return next(known, failure.strip().splitlines()[-1])
