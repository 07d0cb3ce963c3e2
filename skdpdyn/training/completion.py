"""A private profile of a table: its types, ranges, levels and classes, for a budget of its own."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skdpdyn.core import rules
from skdpdyn.core.losses import squared
from skdpdyn.core.noise import check_random_state, mark_of_release, seed_leaks, source_of
from skdpdyn.core.schema import Schema, Source, check_relation, facts_of
from skdpdyn.core.spending import Spending, buying, scaled_to, total_of
from skdpdyn.data.base import Rows
from skdpdyn.data.persons import unit_of
from skdpdyn.exceptions import PrivacyLeakWarning, warn
from skdpdyn.privacy import Adjacency, Budget, privacy_report, tightest, to_json
from skdpdyn.privacy._types import Mechanism
from skdpdyn.privacy.checks import checked_choice, is_auto
from skdpdyn.privacy.guarantees import Guarantee
from skdpdyn.privacy.report import Assumed, PrivacyReport
from skdpdyn.training.additive import expand
from skdpdyn.training.base import described, lines_of_facts, silent_arithmetic
from skdpdyn.training.facts import ClassLabels, Fact, TargetRange
from skdpdyn.training.purchase import of_open_columns, schema_of, strength_of
from skdpdyn.training.reading import Beside, read
from skdpdyn.training.silent import columns_without_levels, warn_of_silent
from skdpdyn.training.sources import facts_of as facts_of_sources, leaks_of
from skdpdyn.training.targets import Labels, Numbers
from skdpdyn.training.values import Facts, Family

__all__ = ["CompleteSchema", "complete_schema"]

AUTO = "auto"


class _TableReader(BaseEstimator):
    """Columns are read as those of an additive model."""

    family = Family(squared, Labels(), clip=lambda n_parameters, strength: 1.0, expand=expand)
    start = n_jobs = weight_bounds = None
    classes = solver = max_rows_per_person = AUTO

    def __init__(self, schema, bounds, categories):
        self.schema = schema
        self.bounds = AUTO if bounds is None else bounds
        self.categories = AUTO if categories is None else categories


@dataclass(frozen=True, repr=False)
class CompleteSchema(Schema):
    """A schema whose missing facts `complete_schema` bought, with their cost.

    Parameters
    ----------
    privacy_ : Guarantee or None, default=None
        The guarantee: ``epsilon(delta)``, ``delta(epsilon)``, ``mu``, ``tradeoff(fpr)``.
    mechanism_ : Composition or None, default=None
        Record of the releases: noisy counts.
    delta_ : float, default=0.0
        Delta of the budget.
    leaks_ : tuple of str, default=()
        Leaks that ``privacy_`` does not cover.
    n_samples_ : int, default=0
        Number of records, or of persons. It is public.
    bought_ : dict of str to float, default=None
        Facts that were bought, with their shares of mu^2.
    """

    privacy_: Guarantee | None = None
    mechanism_: Mechanism | None = None
    delta_: float = 0.0
    leaks_: tuple[str, ...] = ()
    n_samples_: int = 0
    bought_: Any = None

    @property
    def sources_(self) -> tuple[Source, ...]:
        """Releases that facts came from which were known before."""
        return self.sources[1:]

    def privacy_report(self) -> PrivacyReport:
        """Return the report of the release: its cost, its theorem, and the limits of the guarantee.

        Returns
        -------
        PrivacyReport
        """
        record: Any = self.mechanism_
        guarantee: Any = self.privacy_
        others = tightest(record, delta=self.delta_).alternatives
        unit = f", each a {guarantee.unit}" * (guarantee.unit != "record")
        public = f"n_samples={self.n_samples_}{unit}", "names and types of the columns"
        bought = (*lines_of_facts(self.bought_), *facts_of_sources(self.sources_))
        return privacy_report(
            record,
            guarantee,
            delta=self.delta_,
            bound="composition",
            alternatives={
                name: guarantee for name, guarantee in others.items() if name != "composition"
            },
            assumed=Assumed(public, source_of(self.leaks_), self.leaks_, bought),
        )


CompleteSchema.__doc__ = described(CompleteSchema)


def complete_schema(
    X: Any,
    y: Any = None,
    *,
    epsilon: float,
    delta: float | str = "auto",
    adjacency: str = "replace_one",
    schema: Schema | None = None,
    groups: Any = None,
    unit: str | None = None,
    random_state: int | None = None,
) -> CompleteSchema:
    """Buy the missing facts of a table: ranges of numbers, levels of text, classes or bounds of y.

    This is the first stage of a fit, under a separate budget. The result is a private profile of
    the table, which you can look at before you use the data for anything else. Pass it as
    ``schema=`` to models, searches, tables and scalers. They then buy no further facts, and list it
    in ``sources_``. Its cost is added to theirs, see ``total_privacy(schema, model)``.

    Parameters
    ----------
    X : array-like or frame of shape (n_samples, n_features), or ParquetRows
        The table, dense. Columns of text, categorical and object dtypes have levels. All others are
        numbers, dates (days since 1970) or booleans.
    y : array-like of shape (n_samples,), default=None
        Targets; None if there are none, and for `skdpdyn.data.ParquetRows`, which contain them.
        Integers are labels, and the classes are found by noisy counts. For floats, bounds are
        bought. The classes of booleans are False and True. Text labels must be listed in
        ``schema``.
    epsilon : float
        Privacy budget, > 0.
    delta : float or "auto", default="auto"
        Additive term of the (epsilon, delta) guarantee, in (0, 1). "auto": 1/n^2.
    adjacency : {"replace_one", "add_remove"}, default="replace_one"
        The neighbouring relation, see `skdpdyn.privacy.Adjacency`.
    schema : Schema or None, default=None
        Known facts, which cost nothing.
    groups : array-like of shape (n_samples,), default=None
        Id of the person that each row belongs to. The guarantee is then for a person with all of
        their rows, of which at most 100 are used. None: each row is a separate record.
    unit : str or None, default=None
        Name of the unit that the ids in ``groups`` stand for, such as "household". None: "person",
        or "record" without ``groups``.
    random_state : None or int, default=None
        None: fresh entropy and a cryptographic generator. An int repeats the noise, so the
        release is not private: for tests only.

    Returns
    -------
    CompleteSchema
        A `Schema` with all facts, and with ``privacy_``, ``mechanism_`` and ``privacy_report()``.

    Raises
    ------
    ValueError, TypeError
        If a parameter, X or y is invalid, or no fact is missing.
    CalibrationError
        If no amount of noise is known to meet the budget.

    Warns
    -----
    PrivacyWeakWarning
        If ``epsilon`` is above 20, or ``delta`` above 1/n.
    PrivacyLeakWarning
        If ``random_state`` is an int, or a release that ``schema`` comes from is not private.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpdyn import PrivateGAMClassifier, complete_schema
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"age": rng.uniform(18, 90, 20_000)})
    >>> frame["side"] = np.where(rng.random(20_000) < 0.5, "left", "right")
    >>> schema = complete_schema(frame, frame["age"] > 50, epsilon=0.5)
    >>> schema.types, schema.categories, schema.classes
    ({'age': 'number', 'side': 'text'}, {'side': ('left', 'right')}, (False, True))
    >>> model = PrivateGAMClassifier(epsilon=1.0, schema=schema).fit(frame, frame["age"] > 50)
    >>> model.bought_, [source.label for source in model.sources_]
    ({}, ['complete_schema'])
    """
    check_random_state(random_state)
    unit = unit_of(groups, unit)
    adjacency = Adjacency(checked_choice(adjacency, "adjacency", list(Adjacency)))
    check_relation(schema, adjacency, unit)
    known = facts_of(schema)
    model = _TableReader(schema, known.get("bounds"), known.get("categories"))
    has_target = y is not None or isinstance(X, Rows)
    y = y if has_target else np.zeros(len(X))
    with silent_arithmetic(), read(model, X, y, Beside(groups)) as reading:
        n_samples = reading.shape[0]
        budget = Budget.for_samples(epsilon, delta, n_samples=n_samples, adjacency=adjacency)
        target, of_target = _target(known, reading.form.of_y) if has_target else (None, ())
        open_facts = *of_target, *of_open_columns(reading.X.columns)
        if not open_facts:
            raise ValueError("the schema has all facts of the table: there is nothing to buy")
        if any(fact.name == "categories" for fact in open_facts):
            budget = replace(budget, reserved=rules.FAILURE_SHARE * budget.delta)
        strength = strength_of(budget, n_samples)
        of_facts = {fact.name: fact.shares(strength) for fact in open_facts}
        every = {name: share for shares in of_facts.values() for name, share in shares.items()}
        shares = scaled_to(every, 1.0)
        most_rows = 1 if groups is None else reading.most_rows
        records = _records(open_facts, shares, budget, most_rows)
        facts = Facts(target, reading.X.columns)
        spending = Spending.seeded(budget, shares, random_state)
        with buying(spending, shares, n_samples, records) as plan:
            for fact in open_facts:
                facts = fact.buy(reading, facts, spending)
    names = getattr(model, "feature_names_in_", range(len(facts.columns)))
    warn_of_silent(columns_without_levels(facts.columns, names))
    parameter = "target_bounds" if isinstance(facts.target, tuple) else "classes"
    found = schema_of(model, facts, parameter)
    found = found if schema is None else schema | found
    bought = {fact: total_of(shares[name] for name in names) for fact, names in of_facts.items()}
    leaks = (*leaks_of(found.sources), *seed_leaks(random_state))
    if leaks:
        warn(f"this schema is not private: {'; '.join(leaks)}", PrivacyLeakWarning)
    guarantee = plan.guarantee.with_unit(unit)
    told = f"{found.to_json()}{to_json(plan.mechanism)}{mark_of_release(random_state)}"
    key = hashlib.sha256(told.encode()).hexdigest()[:16]
    source = Source("complete_schema", guarantee, leaks, key)
    return CompleteSchema(
        **vars(replace(found, sources=(source, *found.sources))),
        privacy_=guarantee,
        mechanism_=plan.mechanism,
        delta_=budget.delta,
        leaks_=leaks,
        n_samples_=n_samples,
        bought_=bought,
    )


def _target(known, kind) -> tuple[Any, tuple[Fact, ...]]:
    """Return the known facts of targets of a kind, as numpy names it, and the buyer of others."""
    if known.get("classes") is not None and not is_auto(known["classes"]):
        return np.asarray(known["classes"]), ()
    if known.get("target_bounds") is not None and not is_auto(known["target_bounds"]):
        return tuple(known["target_bounds"]), ()
    if kind == "b":
        return np.array([False, True]), ()
    if kind in "iu":
        return None, (ClassLabels(Labels()),)
    if kind == "f":
        return None, (TargetRange(Numbers()),)
    raise ValueError(
        "y holds labels that are no numbers, and which occur is private: pass "
        "schema=Schema(classes=[...])"
    )


def _records(
    open_facts: Sequence[Fact], shares: Any, budget: Budget, most_rows: int
) -> dict[str, Mechanism]:
    """Return the records of releases that are not plain Gaussian ones."""
    of_facts = [fact.records(shares, budget, most_rows) for fact in open_facts]
    return {name: record for records in of_facts for name, record in records.items()}
