"""The privacy report: the cost of a release, its theorem, and the limits of its promise."""

import json
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy._types import Mechanism
from skdpdyn.privacy.accountants import ACCOUNTANTS, MIXED, tightest
from skdpdyn.privacy.card import as_rows, may_state, model_card
from skdpdyn.privacy.deployment import record_of
from skdpdyn.privacy.display import Document, Shown, printable
from skdpdyn.privacy.guarantees import GaussianDP, Guarantee
from skdpdyn.privacy.mechanisms import Gaussian
from skdpdyn.privacy.proofs import forms_of, proof_of
from skdpdyn.privacy.serialization import (
    ROUNDING,
    VERSION,
    agree,
    check_version,
    checksum,
    from_dict,
    load_json,
    to_dict,
)
from skdpdyn.privacy.words import (
    BOUGHT,
    LEAKS,
    NONE_SEEN,
    TRUST,
    mu_in_words,
    neighbours_of,
    parts_of,
    shown,
    summary,
)

FALSE_POSITIVE_RATES = (0.01, 0.001)

NO_THEOREM = "has no theorem for"  # text of errors of accountants without a theorem

NOT_COVERED = (
    (
        "whatever else was done with the same records: scaling by their mean or range, looking, "
        "tuning, fits that were discarded"
    ),
    (
        "groups: k records of one person cost more than one, k mu where the guarantee has a mu; "
        "epsilon and delta grow faster"
    ),
    "inferences from the population, which hold for people who are not in the data too",
    "those who can read memory, timings or intermediate iterates of the training process",
)


@dataclass(frozen=True)
class Assumed:
    """Assumptions of a guarantee, and exceptions to it.

    Parameters
    ----------
    public : sequence of str, default=()
        Facts that were taken as public.
    randomness : str, default="not told"
        Source of the noise, and whom it protects against.
    leaks : sequence of str, default=()
        Exceptions to the guarantee in this run.
    bought : sequence of str, default=()
        Facts that are known of the records because a budget paid for them.

    Examples
    --------
    >>> from skdpdyn.privacy import Assumed
    >>> len(Assumed(public=["n_samples=1000", "n_features=3"]).public)
    2
    """

    public: Sequence[str] = ()
    randomness: str = "not told"
    leaks: Sequence[str] = ()
    bought: Sequence[str] = ()


@dataclass(frozen=True, repr=False)
class PrivacyReport(Shown):
    """Report on the cost of a release and on its assumptions.

    ``print`` shows it in six lines and ``to_text`` in full; ``to_json`` writes a file that
    `check_report` reads, ``to_model_card`` a page for an auditor. Notebooks show HTML.

    Attributes
    ----------
    sections : dict of str to dict
        Title to entries, in the order in which they are shown.
    stored : dict
        Record and guarantee as `to_dict` stores them, for checking later.
    """

    sections: dict[str, Any]
    stored: dict[str, Any]

    @cached_property
    def mechanism(self) -> Mechanism:
        """Record of the run."""
        return from_dict(self.stored["mechanism"])

    @cached_property
    def guarantee(self) -> Guarantee:
        """Guarantee of the release."""
        return from_dict(self.stored["guarantee"])

    def as_dict(self) -> dict[str, Any]:
        """Return a plain dict that JSON takes; doc/report_schema.json describes it.

        Returns
        -------
        dict
            The sections, what is stored, and a checksum of both. Infinite numbers are texts.
        """
        content = _plain({**self.sections, "stored": self.stored})
        return {**content, "checksum": checksum(content)}

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return ``as_dict`` as a JSON document, for ``python -m skdpdyn check``.

        Parameters
        ----------
        path : str, path-like or None, default=None
            A file to write it to as well.

        Returns
        -------
        str
        """
        text = json.dumps(self.as_dict(), indent=1, allow_nan=False)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def to_model_card(self, **deployment: Any) -> str:
        """Return the privacy section of a model card, in Markdown.

        It says what was promised, to whom, under which assumptions, what the registry of
        deployments asks, and how to check it from ``mechanism_`` alone.

        Parameters
        ----------
        **deployment : dict
            What only who deploys knows, see `to_registry`. Fields that nobody gives are "not
            stated".

        Returns
        -------
        str
        """
        return model_card(self, deployment)

    def to_registry(self, **deployment: Any) -> dict[str, Any]:
        """Return a record for the Differential Privacy Deployments Registry, of tier 3.

        The report fills what it knows: the unit, neighbours, parameters, mechanisms, composition,
        floating point, timing, the version, and what is public. Who deploys says the rest, and may
        say more of anything.

        Parameters
        ----------
        **deployment : dict
            Fields by their names in the registry's schema. Needed are ``name``, ``data_curators``
            (list of str), ``description``, ``intended_use``, ``data_product_region``,
            ``publication_date`` ("2026-03-31"), ``data_product_sector``,
            ``release_type_details`` (will the records be used again?),
            ``preprocessing_and_hyperparameter_tuning`` (and who paid for it),
            ``justification``, ``registry_authors`` (list of str), and ``access_control``, which the
            registry has among the mechanisms. ``sources``, ``notes`` and ``url_slug`` may be given.

        Returns
        -------
        dict
            What YAML and JSON take; ``skdpdyn/privacy/registry_schema.json`` describes it.

        Raises
        ------
        ValueError
            If a field is missing, unknown or not of its kind: by its name.

        Examples
        --------
        >>> from skdpdyn.privacy import Gaussian, composition, privacy_report
        >>> release = Gaussian(10.0)
        >>> report = privacy_report(release, composition(release), delta=1e-6, bound="composition")
        >>> record = report.to_registry(
        ...     name="Length of stay",
        ...     data_curators=["A hospital"],
        ...     description="Mean length of stay in a year.",
        ...     intended_use="Planning of beds.",
        ...     data_product_region="Sweden",
        ...     publication_date="2026-03-31",
        ...     data_product_sector="Healthcare",
        ...     release_type_details="The records of the year are not used again.",
        ...     preprocessing_and_hyperparameter_tuning="None but for public bounds.",
        ...     access_control="Two statisticians, on one server.",
        ...     justification="Less noise would not change the number of beds.",
        ...     registry_authors=["A statistician"],
        ... )
        >>> record["url_slug"]
        'length-of-stay-a-hospital-2026'
        >>> round(record["deployment"]["privacy_loss"]["privacy_parameters"]["epsilon"], 6)
        0.396857
        """
        return record_of(self, deployment)

    def to_text(self) -> str:
        """Return all sections as text: theorem, assumptions, limits.

        Returns
        -------
        str
        """
        lines = []
        for title, entries in self._readable().items():
            lines.append(printable(title))
            lines += [f"  {printable(name)}: {shown(value)}" for name, value in entries.items()]
        return "\n".join(lines)

    def document(self) -> Document:
        """Return the promise in a few lines, with all sections to unfold."""
        sections = self._readable()
        spent = sections["spent"]
        assumed = self.sections["assumed"]
        epsilon = shown(spent["epsilon"])
        delta = shown(spent["delta"])
        mu = f", mu {spent['mu']}" if "mu" in spent else ""
        unit = self.guarantee.unit
        (missed, reach), *_ = reaches = attackers_reach(self.guarantee)
        names = dict.fromkeys(getattr(self.mechanism, "names", None) or ())
        tables = {
            title: [(name, shown(value)) for name, value in entries.items()]
            for title, entries in sections.items()
        }
        return Document(
            f"privacy report: epsilon {epsilon} at delta {delta}{mu}, for one {unit}",
            notes=[
                f"  neighbours: {spent['neighbours']}",
                f"  attacker: {missed} {reach}",
                *[f"  bought: {', '.join(names)}"] * bool(names),
                f"  public: {shown([*assumed['public']])}",
                *[f"  {NONE_SEEN}"] * (not assumed[LEAKS]),
            ],
            leaks=assumed[LEAKS],
            figures=[(f"ε={epsilon}", f"spent, at δ = {delta}"), *reaches],
            folded=[*tables.items(), ("deployment", as_rows(self, {}))],
        )

    def _readable(self) -> dict[str, Any]:
        """Return the sections for people: the promise first, and only bounds that could apply."""
        sections = {title: dict(entries) for title, entries in self.sections.items()}
        mechanism = self.mechanism
        guarantee = self.guarantee
        spent = sections["spent"]
        theorem = sections["theorem"]
        promise = {name: spent.pop(name) for name in ("epsilon", "delta")}
        spent = {name: value for name, value in spent.items() if name not in ("mu", "failure")}
        if gaussian := mu_in_words(guarantee):
            promise["mu"] = gaussian
        whom = {"protected": f"one {guarantee.unit}"} | spent
        sections["spent"] = promise | whom | {"trusted": TRUST}
        by = partial(_theorem_of, bound=theorem["bound"], delta=promise["delta"])
        if parts := parts_of(mechanism, lambda part: f"; by {by(part)}"):
            for name in ("parts", "mechanisms"):
                theorem.pop(name, None)
            theorem |= {f"part {i}, {name}": words for i, (name, words) in enumerate(parts, 1)}
        else:
            theorem["theorem"] = by(mechanism)
        sections["assumed"][LEAKS] = sections["assumed"][LEAKS] or NONE_SEEN
        others = sections.get("other bounds", {})
        able = {name: value for name, value in others.items() if NO_THEOREM not in str(value)}
        sections["other bounds"] = able
        return {title: entries for title, entries in sections.items() if entries}


def _theorem_of(record: Any, bound: str, delta: float) -> str:
    """Return the theorem by which a bound judges a record, or a part of one."""
    if bound == MIXED and type(record) is not Gaussian:
        return tightest(record, delta=delta).theorem
    theorem: str = ACCOUNTANTS["composition" if type(record) is Gaussian else bound].theorem
    return theorem


def attackers_reach(guarantee: Guarantee) -> list[tuple[str, str]]:
    """Return the share that an attacker misses at a fixed false-positive rate, in words.

    Parameters
    ----------
    guarantee : Guarantee
        Guarantee of the release.

    Returns
    -------
    list of (str, str) pairs
        A rate in per cent, and what it is.
    """
    missed = guarantee.tradeoff(np.array(FALSE_POSITIVE_RATES))
    reach = "of members, at least, are missed by an attacker with a {} % false-positive rate"
    return [
        # a promise: rounded down
        (f"{math.floor(1000 * rate) / 10:g} %", reach.format(f"{100 * false:g}"))
        for false, rate in zip(FALSE_POSITIVE_RATES, missed.tolist(), strict=True)
    ]


_GROUPS_OF_UNITS = (
    "groups of {}s: what k of them have in common costs more, k mu where the guarantee has a mu; "
    "epsilon and delta grow faster"
)


def privacy_report(
    mechanism: Mechanism,
    guarantee: Guarantee,
    *,
    delta: float,
    bound: str,
    alternatives: dict[str, Any] | None = None,
    assumed: Assumed | None = None,
) -> PrivacyReport:
    """Report on a release, from public values only.

    Parameters
    ----------
    mechanism : record
        Record of the run.
    guarantee : Guarantee
        Guarantee of the release.
    delta : float
        Delta at which epsilon is reported.
    bound : str
        Name of the accountant that proved the guarantee.
    alternatives : dict or None, default=None
        Other accountants' guarantees or errors, as ``tightest(...).alternatives``.
    assumed : Assumed or None, default=None
        What the guarantee stands on, and where it does not hold. None: nothing was told.

    Returns
    -------
    PrivacyReport

    Examples
    --------
    >>> from skdpdyn.privacy import NoisyGradientDescent, privacy_report, tightest
    >>> m = NoisyGradientDescent(
    ...     n_steps=500,
    ...     noise_multiplier=250.0,
    ...     step_size=0.02,
    ...     strong_convexity=1.0,
    ...     smoothness=4.0,
    ... )
    >>> best = tightest(m)
    >>> report = privacy_report(m, best.guarantee, delta=1e-6, bound=best.bound)
    >>> round(report.as_dict()["attacker"]["true positive rate at 1% false positives"], 6)
    0.011111
    """
    assumed = assumed or Assumed()
    leaks = [*assumed.leaks, *getattr(guarantee, "leaks", ())]
    guarantee = getattr(guarantee, "guarantee", guarantee)  # an answer of `tightest`, or a total
    unit = guarantee.unit
    spent: dict[str, Any] = {} if unit == "record" else {"protected": f"one {unit}, with all rows"}
    spent |= {
        "neighbours": f"{guarantee.adjacency}: {neighbours_of(guarantee.adjacency, unit)}",
        "epsilon": float(guarantee.epsilon(delta)),
        "delta": float(delta),
    }
    if isinstance(guarantee, GaussianDP):
        spent["mu"] = float(guarantee.mu)
        if guarantee.failure:
            spent["failure"] = float(guarantee.failure)
    reached = 1 - np.asarray(guarantee.tradeoff(np.array(FALSE_POSITIVE_RATES)))
    attacker = {"largest advantage (true minus false positive rate)": float(guarantee.advantage)}
    for rate, tpr in zip(FALSE_POSITIVE_RATES, reached.tolist(), strict=True):
        attacker[f"true positive rate at {100 * rate:g}% false positives"] = tpr
    theorem = {"bound": bound, "hypotheses checked on": type(mechanism).__name__}
    theorem |= _contents(mechanism)
    others = {
        name: str(other)
        if isinstance(other, UnsupportedMechanismError)
        else float(other.epsilon(delta))
        for name, other in (alternatives or {}).items()
    }
    sections = {
        "spent": spent,
        "attacker": attacker,
        "theorem": theorem,
        "other bounds": others,
        "assumed": {
            "public": [*assumed.public],
            "randomness": assumed.randomness,
            BOUGHT: [*assumed.bought],
            LEAKS: leaks,
        },
        "not protected against": {
            str(number): _GROUPS_OF_UNITS.format(unit)
            if unit != "record" and text.startswith("groups:")
            else text
            for number, text in enumerate(NOT_COVERED, 1)
        },
        "made by": {"skdpdyn": sys.modules["skdpdyn"].__version__},
    }
    stored = {
        "version": VERSION,
        "mechanism": to_dict(mechanism),
        "guarantee": to_dict(guarantee),
    }
    return PrivacyReport({title: entries for title, entries in sections.items() if entries}, stored)


def check_report(report: dict[str, Any] | str) -> dict[str, Any]:
    """Recompute every number of a stored report from the record of the run in it.

    The guarantee is proved again from the record by the bound that the report names, and every
    number of the report is computed again from that guarantee. Numbers may differ by rounding
    (1e-9, and the grid's accuracy for numerical composition). Entries that do not follow from the
    record, such as the list of public facts, are checked by the checksum.

    Whoever changes the record, all numbers and the checksum alike has written the report of
    another run: compare ``stored["mechanism"]`` with the model's own ``mechanism_``.

    Parameters
    ----------
    report : dict or str
        Result of ``PrivacyReport.as_dict`` or ``PrivacyReport.to_json``.

    Returns
    -------
    dict
        The report.

    Raises
    ------
    ValueError
        If a number does not agree, by its name; or if it is no report, or one of another version.

    Examples
    --------
    >>> from skdpdyn.privacy import Gaussian, check_report, composition, privacy_report
    >>> release = Gaussian(10.0)
    >>> report = privacy_report(release, composition(release), delta=1e-6, bound="composition")
    >>> stored = report.as_dict()
    >>> round(check_report(stored)["spent"]["epsilon"], 6)
    0.396857
    >>> stored["spent"]["epsilon"] = 0.2
    >>> check_report(stored)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: spent, epsilon: the report says 0.2, its record 0.39685...
    """
    report = load_json(report) if isinstance(report, str) else report
    if not isinstance(report, dict) or not all(
        isinstance(report.get(name), dict) for name in _SECTIONS
    ):
        raise ValueError(f"this is no report: one has the sections {', '.join(_SECTIONS)}")
    is_dict = isinstance(report.get("other bounds", {}), dict)
    if report["assumed"].keys() != _ASSUMED or not is_dict:
        raise ValueError(
            f"this is no report: assumed has the entries {', '.join(sorted(_ASSUMED))}"
        )
    check_version(report["stored"].get("version"), "stored, version")
    _recompute(report)
    content = {name: value for name, value in report.items() if name != "checksum"}
    if report.get("checksum") != checksum(content):
        raise ValueError(
            "checksum: it is not that of the report, so that something in it was changed"
        )
    return report


def _recompute(report: dict[str, Any]) -> None:
    """Recompute a report from its record, or name the first entry that disagrees."""
    stored = report["stored"]
    spent = report["spent"]
    bound = report["theorem"].get("bound")
    mechanism = _restored(stored, "mechanism")
    guarantee = _restored(stored, "guarantee")
    if not isinstance(guarantee, Guarantee):
        raise ValueError(f"stored, guarantee: a {type(guarantee).__name__} is none")
    delta = spent.get("delta")
    if not isinstance(delta, float | int) or isinstance(delta, bool) or not 0 <= delta <= 1:
        raise ValueError(f"spent, delta: {delta!r} is not in [0, 1]")
    if proof_of(mechanism, guarantee, bound, delta, may_state) is None:
        raise ValueError(
            f"stored, guarantee: {guarantee!r} is not what {bound} proves of the stored record"
        )
    again = privacy_report(mechanism, guarantee, delta=delta, bound=bound).as_dict()
    for title in ("spent", "attacker", "theorem"):
        _compare(report[title], again[title], title, max(ROUNDING, guarantee.accuracy))
    for name, claimed in report.get("other bounds", {}).items():
        _compare_other(name, claimed, mechanism, delta)


_SECTIONS = ("spent", "attacker", "theorem", "assumed", "not protected against", "stored")
_ASSUMED = {"public", "randomness", BOUGHT, LEAKS}


def _restored(stored: dict[str, Any], name: str) -> Any:
    """Return the record or guarantee that a report stores."""
    try:
        return from_dict(stored.get(name))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"stored, {name}: {error}") from None


def _compare(
    claimed: dict[str, Any], computed: dict[str, Any], title: str, tolerance: float
) -> None:
    """Compare a section of a report with computed values; raise an error that names the entry."""
    for name in {**computed, **claimed}:
        if name not in claimed or name not in computed:
            raise ValueError(
                f"{title}, {name}: it is "
                f"{'missing' if name in computed else 'no entry of such a report'}"
            )
        if not agree(claimed[name], computed[name], tolerance):
            raise ValueError(
                f"{title}, {name}: the report says {claimed[name]!r}, its record {computed[name]!r}"
            )


def _compare_other(name: str, claimed: Any, mechanism: Any, delta: float) -> None:
    """Compare another bound's epsilon, or its refusal, with the record."""
    answers = []
    for form in forms_of(name, delta).values():
        try:
            other = form(mechanism)
        except UnsupportedMechanismError as error:
            answers.append(str(error))
            continue
        answers.append(_plain(float(other.epsilon(delta))))
        if agree(claimed, answers[-1], max(ROUNDING, other.accuracy)):
            return
    is_refusal = isinstance(claimed, str) and claimed != "inf"
    if not (
        is_refusal and any(isinstance(answer, str) for answer in answers)
    ):  # the reason for which a bound does not apply may be said in other words
        raise ValueError(
            f"other bounds, {name}: the report says {claimed!r}, its record {answers[-1]!r}"
        )


def _plain(value: Any) -> Any:
    """Return copies of dicts and lists in which infinite numbers are texts."""
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _contents(record: Any) -> dict[str, Any]:
    """Return the fields of a record; of one whose parts have names, these with their records."""
    if getattr(record, "names", None) is not None:
        return {"parts": [f"{name}: {words}" for name, words in parts_of(record)]}
    return {
        field.name: summary(getattr(record, field.name))
        for field in fields(record)
        if field.name != "names"
    }
