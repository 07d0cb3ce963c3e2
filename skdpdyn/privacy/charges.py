"""The most that entries of a ledger cost any one unit: parts, dates, caps, and totals kept."""

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

from skdpdyn.privacy.budget import Budget
from skdpdyn.privacy.filters import Filter
from skdpdyn.privacy.guarantees import GaussianDP, Guarantee, check_alike, composed
from skdpdyn.privacy.renyi import largest
from skdpdyn.privacy.serialization import to_dict

Part: TypeAlias = tuple[str, str]
Dates: TypeAlias = tuple[str | None, str | None]

_NONE = Fraction()
_DAYS = 1 << 22  # of all years that a date may have, and of what is before and after them


class Charged(Protocol):
    """A charge of a ledger: a cost, and those whom the release is of."""

    @property
    def cost(self) -> Guarantee | None:
        """The cost; None: nothing."""

    @property
    def disjoint(self) -> Part | None:
        """A partition and its part."""

    @property
    def dates(self) -> Dates | None:
        """First and last date."""


@dataclass(frozen=True)
class Rules:
    """Limits that a ledger's entries keep together, fixed when its file is created.

    Parameters
    ----------
    cap : Budget
        The budget of the data set.
    unit : str, default="record"
        Whom the cap protects.
    filter : Filter or None, default=None
        What proves the cap; None: the composition of all costs.
    """

    cap: Budget
    unit: str = "record"
    filter: Filter | None = None

    @property
    def nothing(self) -> GaussianDP:
        """The cost of no entry."""
        return GaussianDP(0.0, self.cap.adjacency, unit=self.unit)

    @property
    def limit(self) -> float:
        """Largest amount that may be spent: an epsilon, or a share of the filter's."""
        return self.cap.epsilon if self.filter is None else 1.0

    def shown(self, spent: Any) -> str:
        """Return an amount that was spent in words."""
        if self.filter is None:
            return f"{spent:.6g}"
        return f"{100 * float(spent):.4g} % of {self.filter.kind}"

    def check(self, cost: Guarantee) -> None:
        """Raise unless a cost can be set aside, added up and stored."""
        check_alike(self.nothing, cost)
        if self.filter is not None:
            self.filter.check(cost)
        to_dict(cost)

    def numbers(self, cost: Guarantee) -> tuple[Fraction, ...] | None:
        """Return exact numbers of a cost that add up; None: it has none.

        Of a filter they are the shares of its limits, of Gaussian costs mu^2 and the probability of
        failure.
        """
        if self.filter is not None:
            shares = self.filter.shares(cost, self.cap, self.unit)
            return None if math.inf in shares else tuple(map(Fraction, shares))
        if type(cost) is not GaussianDP or cost.mu == math.inf:
            return None
        return Fraction(cost.mu) ** 2, Fraction(cost.failure)


class Tally:
    """Charges by name, and their total, kept as they come and go.

    A unit is in one part of each partition at most, and has one date. It pays for what is of
    everybody, for the part of each partition that it is in, and for the windows that hold its date.

    Sums are exact: they do not depend on the order in which charges came, and what is taken back
    leaves nothing behind. A charge that has `Rules.numbers` takes as long among many as among few.

    Parameters
    ----------
    rules : Rules
        The cap, and how charges add up.
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._kept: dict[str, Kept] = {}
        self._others: dict[str, Kept] = {}  # those without numbers
        self._sums = (Sum(), Sum())  # one for each number

    def put(self, name: str, charge: Charged) -> None:
        """Set the charge of a name in the place of the one that it had."""
        self._swap(name, self._with_numbers(charge))

    def spent_with(self, name: str, charge: Charged) -> Any:
        """Return the amount that would be spent if a name had another charge."""
        before = self._swap(name, self._with_numbers(charge))
        try:
            return self.spent
        finally:
            self._swap(name, before)

    def _with_numbers(self, charge: Charged) -> "Kept | None":
        return None if charge.cost is None else Kept(charge, self.rules.numbers(charge.cost))

    def _swap(self, name: str, new: "Kept | None") -> "Kept | None":
        """Set the charge of a name, and return the one that it had."""
        old = self._kept.pop(name, None)
        if new is not None:
            self._kept[name] = new
        if old is not None and new is not None and old.pays_like(new):
            return old
        self._others.pop(name, None)
        for kept, sign in ((old, -1), (new, 1)):
            if kept is not None and kept.numbers is not None:
                for total, number in zip(self._sums, kept.numbers, strict=True):
                    total.add(sign * number, kept.charge)
        if new is not None and new.numbers is None:
            self._others[name] = new
        return old

    @property
    def spent(self) -> Any:
        """The part of ``rules.limit`` that is taken: an epsilon, or a share of the filter's."""
        if self.rules.filter is None:
            return float(self.total.epsilon(self.rules.cap.delta))
        return math.inf if self._others else max(total.most for total in self._sums)

    @property
    def total(self) -> Guarantee:
        """Total cost to any one unit; by a filter, the cap."""
        rules = self.rules
        if rules.filter is not None:
            return rules.filter.guarantee(rules.cap, rules.unit)
        if not self._others:
            return self._gaussian(*(total.most for total in self._sums))
        return composed(self._costs())

    def _gaussian(self, square: Fraction, failure: Fraction) -> GaussianDP:
        below_1 = min(float(failure), 1 - 2.0**-53)
        return GaussianDP(_root(square), self.rules.cap.adjacency, below_1, self.rules.unit)

    def _costs(self) -> list[Guarantee]:
        """Return the costs that one unit pays, of all kinds."""
        of_all: list[Any] = []
        of_parts: dict[str, dict[str, list[Any]]] = {}
        dated = False
        for charge, _ in self._others.values():
            if charge.disjoint is not None:
                partition, part = charge.disjoint
                of_parts.setdefault(partition, {}).setdefault(part, []).append(charge.cost)
            elif charge.dates is not None:
                dated = True
            else:
                of_all.append(charge.cost)
        square, failure = (total.most_but(of_parts, dated) for total in self._sums)
        costs = [self._gaussian(square, failure), *of_all]
        costs += [self._dearest_part(partition, of_parts[partition]) for partition in of_parts]
        if dated:
            with_dates = [kept for kept in self._kept.values() if kept.charge.dates is not None]
            costs.append(largest([self._joint(of_day) for of_day in _by_day(with_dates)]))
        return costs

    def _dearest_part(self, partition: str, others: dict[str, list[Guarantee]]) -> Guarantee:
        """Return the cost of the dearest part of a partition, some of which are not Gaussian."""
        numbers = [total.parts(partition) for total in self._sums]
        costs = [
            composed([self._gaussian(*(by_part[part] for by_part in numbers)), *others[part]])
            for part in others
        ]
        rest = [part for part in numbers[0] if part not in others]
        costs += [self._gaussian(*(by_part[part] for by_part in numbers)) for part in rest]
        return largest(costs)

    def _joint(self, kept: "list[Kept]") -> Guarantee:
        """Return the cost of several releases together."""
        others = [release.charge.cost for release in kept if release.numbers is None]
        numbers = [release.numbers for release in kept if release.numbers is not None]
        square = sum((numbers_of_release[0] for numbers_of_release in numbers), Fraction())
        failure = sum((numbers_of_release[1] for numbers_of_release in numbers), Fraction())
        return composed([self._gaussian(square, failure), *cast(list[Guarantee], others)])


class Kept(NamedTuple):
    """A charge, and the numbers of its cost."""

    charge: Charged
    numbers: tuple[Fraction, ...] | None

    def pays_like(self, other: "Kept") -> bool:
        """Return whether sums are the same with the other one in its place."""
        same = (self.charge.disjoint, self.charge.dates) == (
            other.charge.disjoint,
            other.charge.dates,
        )
        return same and self.numbers is not None and self.numbers == other.numbers


class Sum:
    """The sum of numbers that the dearest unit pays."""

    def __init__(self) -> None:
        self.most = Fraction()
        self._of_parts: dict[str, Parts] = {}
        self._of_days = Days()

    def add(self, number: Fraction, charge: Charged) -> None:
        """Add a number, to be paid by those whom a charge is of."""
        if not number:
            return
        if charge.disjoint is not None:
            partition, part = charge.disjoint
            parts = self._of_parts.setdefault(partition, Parts())
            self.most -= parts.most
            parts.add(number, part)
            self.most += parts.most
        elif charge.dates is not None:
            self.most -= self._of_days.most
            self._of_days.add(number, *_days(charge.dates))
            self.most += self._of_days.most
        else:
            self.most += number

    def most_but(self, partitions: Iterable[str], dated: bool) -> Fraction:
        """Return the sum without some partitions, and without all that has dates."""
        parts = (self._of_parts[name].most for name in partitions if name in self._of_parts)
        return self.most - sum(parts) - self._of_days.most * dated

    def parts(self, partition: str) -> "defaultdict[str, Fraction]":
        """Return the sum of each part."""
        parts = self._of_parts.get(partition)
        return defaultdict(Fraction, parts.sums if parts else ())


class Parts:
    """Sums of parts that share no unit, and the largest of them."""

    def __init__(self) -> None:
        self.sums: dict[str, Fraction] = {}
        self._heap: list[tuple[Fraction, str]] = []  # of sums that were, largest first

    def add(self, number: Fraction, part: str) -> None:
        """Add a number to a part."""
        self.sums[part] = self.sums.get(part, Fraction()) + number
        heapq.heappush(self._heap, (-self.sums[part], part))

    @property
    def most(self) -> Fraction:
        """The largest sum."""
        while self._heap:
            number, part = self._heap[0]
            if self.sums[part] == -number:
                return -number
            heapq.heappop(self._heap)
        return Fraction()


class Days:
    """Sums of windows of days, and the largest on any day.

    A tree: the root is all days, and each node has two halves. A number stands at the few nodes
    that make up its window, so that a window of any length takes as long.
    """

    def __init__(self) -> None:
        self._of_all: dict[int, Fraction] = {}  # what stands at a node
        self._most: dict[int, Fraction] = {}  # the largest sum on any day of a node

    def add(self, number: Fraction, first: int, last: int) -> None:
        """Add a number to the days of a window, both ends included."""
        low = _DAYS + first
        high = _DAYS + last
        while low <= high:
            if low % 2 == 1:  # a right half, whose left half is not in the window
                self._stand(number, low)
                low += 1
            if high % 2 == 0:
                self._stand(number, high)
                high -= 1
            low //= 2
            high //= 2
        for day in {first, last}:
            node = (_DAYS + day) // 2
            while node:
                halves = max(self._most.get(2 * node, _NONE), self._most.get(2 * node + 1, _NONE))
                self._most[node] = self._of_all.get(node, _NONE) + halves
                node //= 2

    def _stand(self, number: Fraction, node: int) -> None:
        self._of_all[node] = self._of_all.get(node, _NONE) + number
        self._most[node] = self._most.get(node, _NONE) + number

    @property
    def most(self) -> Fraction:
        """The largest sum on any day."""
        return self._most.get(1, _NONE)


def _days(dates: Dates) -> tuple[int, int]:
    """Return a window as numbers of days; an open end is before or after all."""
    first, last = dates
    return (
        0 if first is None else date.fromisoformat(first).toordinal(),
        _DAYS - 1 if last is None else date.fromisoformat(last).toordinal(),
    )


def _by_day(kept: Iterable[Kept]) -> Iterator[list[Kept]]:
    """Yield the charges of each day that pays for no less than the days around it."""
    turns: list[tuple[int, bool, int, Kept]] = []
    for number, release in enumerate(kept):
        first, last = _days(cast(Dates, release.charge.dates))
        turns += [(first, False, number, release), (last, True, number, release)]
    now: dict[int, Kept] = {}
    grown = False
    for _, ends, number, release in sorted(turns, key=lambda turn: turn[:3]):
        if ends and grown:
            yield [*now.values()]
        if ends:
            del now[number]
        else:
            now[number] = release
        grown = not ends


def _root(square: Fraction) -> float:
    """Return the square root, rounded; infinite if it is too large."""
    size = square.numerator.bit_length() - square.denominator.bit_length()
    shift = max(0, 130 - size) // 2 * 2
    scaled = (square.numerator << shift) // square.denominator
    root = math.isqrt(scaled)
    root += root * root < scaled  # up
    try:
        return float(Fraction(root, 1 << shift // 2))
    except OverflowError:
        return math.inf
