"""Facts that are bought once, before the trials of a search or the parts of a table.

The facts that a fit would buy first of all, by the same parts and at the same shares: all that
follows takes them as public.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from skdpdyn.core.noise import Generator
from skdpdyn.core.spending import Share, Spending, planned, total_of, vocabulary_of
from skdpdyn.exceptions import CalibrationError
from skdpdyn.privacy._types import Mechanism
from skdpdyn.training.additive import as_parameters, learns_levels
from skdpdyn.training.family import Part
from skdpdyn.training.parts import LEVELS, ranges_of
from skdpdyn.training.reading import Reading
from skdpdyn.training.request import request_of
from skdpdyn.training.targets import Target
from skdpdyn.training.values import Request


@dataclass(frozen=True, eq=False)
class Preparation:
    """Facts that are to be bought: by which parts, at what shares, under which record.

    Attributes
    ----------
    request : Request
        What a fit is asked for.
    parts : tuple of Part
        Those that buy a fact.
    shares : dict of str to Share
        What they take.
    record : record or None
        What is released; None if nothing is.
    """

    request: Request
    parts: tuple[Part, ...]
    shares: dict[str, Share]
    record: Mechanism | None

    @classmethod
    def of(cls, request: Request, of_persons: bool = False) -> "Preparation":
        """Return the facts to buy for a request, of records or of persons."""
        parts = tuple(part for part in request.recipe.parts(request) if part.fact)
        shares = {name: of for part in parts for name, of in part.share(request).items()}
        records: dict[str, Mechanism] = {}
        if LEVELS in shares:
            columns: Any = request.expansion
            sizes = learns_levels(columns.columns), request.most_rows**of_persons
            records[LEVELS] = vocabulary_of(shares[LEVELS], request.budget, *sizes)
        record = planned(shares, request.budget, records).mechanism if shares else None
        return cls(request, parts, shares, record)

    @property
    def bought(self) -> dict[str, float]:
        """The facts, and the part of mu^2 that each takes."""
        return bought_facts(self.parts, self.request, self.shares)

    def first(self, model: Any, reading: Reading, spending: Spending) -> Reading:
        """Buy the facts that plans rest on, and return the reading under them."""
        for part in self.parts:
            reading = part.first(model, reading, self.request, spending)
        return reading

    def buy(self, model: Any, reading: Reading, generator: Generator) -> dict[str, Any]:
        """Return the facts as parameters of estimators, bought or public."""
        request = self.request
        spending = Spending(self.request.budget, self.shares, generator)
        reading = self.first(model, reading, spending)
        bounds = None
        if request.buys_ranges and reading.columns is None:
            rows = reading.rows(request.most_rows)
            bounds = ranges_of(rows, request.open_ranges, spending)
        if spending.record() != self.record:
            raise CalibrationError("what was bought is not what was planned: please report this")
        of_target = reading.target.attributes[f"{request.family.targets.parameter}_"]
        return _as_parameters(model, request, of_target, reading.columns, bounds)

    def stand_ins(self, model: Any, target: Target | None = None) -> dict[str, Any]:
        """Return the same for a plan, with stand-ins for facts that are still to be bought.

        Parameters
        ----------
        model : estimator
            Has the parameters.
        target : Target or None, default=None
            Targets that were read.
        """
        request = self.request
        targets = self.request.family.targets
        of_target = targets.public(model)
        if target is not None and not target.bought:
            of_target = target.attributes[f"{targets.parameter}_"]
        of_target = targets.stand_in if of_target is None else of_target
        columns = None if request.expansion is None else request.expansion.columns
        bounds = (-1.0, 1.0) if request.buys_ranges else None
        return _as_parameters(model, request, of_target, columns, bounds)


def _as_parameters(model, request, of_target, columns, bounds):
    """Return facts of the target and of columns as parameters of estimators."""
    facts = {request.family.targets.parameter: of_target}
    if columns is not None:
        names = getattr(model, "feature_names_in_", range(len(columns)))
        return facts | as_parameters(columns, names)
    return facts if bounds is None else facts | {"bounds": bounds}


def bought_facts(
    parts: Iterable[Part], request: Request, shares: Mapping[str, Share]
) -> dict[str, float]:
    """Return the facts that parts buy, and the part of mu^2 that each takes."""
    of_facts = {part.fact: part.share(request) for part in parts if part.fact}
    return {
        fact: total_of(shares[name] for name in names) for fact, names in of_facts.items() if names
    }


def resolved(model: Any, reading: Reading) -> tuple[Reading, Request]:
    """Return the reading and the request; targets give their facts where nothing buys them."""
    request = request_of(model, *reading.shape, reading.facts)
    if not reading.target.bought or request.buys_targets:
        return reading, request
    target = model.family.targets.of(model, reading.target.as_read, None)
    reading = replace(reading, target=target)
    return reading, request_of(model, *reading.shape, reading.facts)
