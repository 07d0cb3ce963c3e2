"""The privacy report: what was spent, by which theorem, and what it does not cover."""

import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from skdpdyn.exceptions import UnsupportedMechanismError
from skdpdyn.privacy._types import Mechanism
from skdpdyn.privacy.accountants import ACCOUNTANTS, MIXED, tightest
from skdpdyn.privacy.display import page
from skdpdyn.privacy.guarantees import GaussianDP, Guarantee
from skdpdyn.privacy.serialization import VERSION, checksum, from_dict, load_json, to_dict

FALSE_POSITIVE_RATES = (0.01, 0.001)

NEIGHBOURS = {
    "replace_one": "one record changed at will; the number of records is public",
    "add_remove": "one record's contribution there or not; the public normaliser stays",
}

LEAKS = "not private in this run"
NONE_SEEN = "nothing that this estimator can see; ask total_privacy(pipeline)"
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
class PrivacyReport:
    """Report on the cost of a release and on its assumptions.

    ``str`` for text, ``to_json`` for a file that `check_report` reads, ``to_model_card`` for an
    auditor, HTML in notebooks.

    Attributes
    ----------
    sections : dict of str to dict
        Title to entries, in the order in which they are shown.
    stored : dict
        Record and guarantee as `to_dict` stores them, for checking later.
    """

    sections: dict[str, Any]
    stored: dict[str, Any]

    def as_dict(self) -> Mechanism:
        """Return a plain dict that JSON takes; doc/report_schema.json describes it.

        Returns
        -------
        dict
            The sections, what is stored, and a checksum of both. Infinite numbers are texts.
        """
        content = _plain({**self.sections, "stored": self.stored})
        return {**content, "checksum": checksum(content)}

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return ``as_dict`` as a JSON document, for ``python -m skdpdyn.privacy check``.

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

    def to_model_card(self) -> str:
        """Return the privacy section of a model card, in Markdown.

        It says what was promised, to whom, under which assumptions, and how to check it from
        ``mechanism_`` alone.

        Returns
        -------
        str
        """
        spent, theorem, assumed = (
            self.sections[title] for title in ("spent", "theorem", "assumed")
        )
        mechanism, guarantee = (from_dict(self.stored[name]) for name in ("mechanism", "guarantee"))
        leaks = assumed[LEAKS]
        relation, unit = str(guarantee.adjacency), guarantee.unit
        lines = ["# Privacy", ""]
        if not leaks:
            lines += [f"Not private in this run: {NONE_SEEN}.", ""]
        else:
            lines += ["**NOT PRIVATE in this run. What follows does not hold for:**", ""]
            lines += [*_bullets(leaks), ""]
        lines += [
            "## What was promised",
            "",
            (
                f"The release is ({_shown(spent['epsilon'])}, "
                f"{_shown(spent['delta'])})-differentially private"
            )
            + (
                f", and {_shown(spent['mu'])}-Gaussian differentially private"
                if "mu" in spent
                else ""
            )
            + ".",
            "",
            (
                f"Someone who knows all {unit}s but one, and guesses about that one from what was "
                "released, has at most:"
            ),
            "",
            *_bullets(
                f"{name}: {_shown(value)}" for name, value in self.sections["attacker"].items()
            ),
            "",
            "## To whom",
            "",
            (
                f"To every single {unit}. Neighbouring data sets ({relation}): "
                f"{_neighbours(relation, unit)}."
            ),
            "",
            "Not protected against:",
            "",
            *_bullets(self.sections["not protected against"].values()),
            "",
            "## Under which assumptions",
            "",
            "Public, and not read off the records:",
            "",
            *_bullets(assumed["public"] or ["nothing was named"]),
            "",
            f"Randomness: {assumed['randomness']}.",
            "",
            (
                f"The bound is `{theorem['bound']}`. Its hypotheses were checked on the record of "
                "what ran:"
            ),
            "",
            *_bullets(
                f"{name}: {_shown(value)}" for name, value in theorem.items() if name != "bound"
            ),
            "",
            *_measured(self.sections.get("diagnostics", {})),
            "## How to check it",
            "",
            *_how_to_check(mechanism, guarantee, theorem["bound"], spent),
        ]
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        lines = []
        for title, entries in self._readable().items():
            lines.append(title)
            lines += [f"  {name}: {_shown(value)}" for name, value in entries.items()]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        sections = self._readable()
        spent, leaks = sections["spent"], self.sections["assumed"][LEAKS]
        figures = [
            (f"ε={_shown(spent['epsilon'])}", f"spent, at δ = {_shown(spent['delta'])}"),
            *attackers_reach(from_dict(self.stored["guarantee"])),
        ]
        return page(
            "privacy report",
            figures,
            leaks=leaks,
            lines=[f"neighbours: {spent['neighbours']}"] + [f"{LEAKS}: {NONE_SEEN}"] * (not leaks),
            folded=[
                (title, [(name, _shown(value)) for name, value in entries.items()])
                for title, entries in sections.items()
            ],
        )

    def _readable(self) -> dict[str, Any]:
        """Return the sections for people: leaks in words, and only bounds that could apply."""
        sections = dict(self.sections)
        assumed = sections["assumed"]
        sections["assumed"] = {**assumed, LEAKS: assumed[LEAKS] or NONE_SEEN}
        others = sections.pop("other bounds", {})
        able = {name: value for name, value in others.items() if NO_THEOREM not in str(value)}
        if not able:
            return sections
        position = list(self.sections).index("other bounds")
        entries = list(sections.items())
        return dict([*entries[:position], ("other bounds", able), *entries[position:]])


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


_PERSON = "one person, with all rows"  # of reports before the guarantee itself had a unit
_GROUPS_OF_UNITS = (
    "groups of {}s: what k of them have in common costs more, k mu where the guarantee has a mu; "
    "epsilon and delta grow faster"
)


def _neighbours(relation: str, unit: str) -> str:
    """Say which data sets are neighbours."""
    return NEIGHBOURS[relation].replace("record", unit)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(map(_shown, value)) or "nothing"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def privacy_report(
    mechanism: Mechanism,
    guarantee: Guarantee,
    *,
    delta: float,
    bound: str,
    alternatives: dict[str, Any] | None = None,
    public: Any = (),
    randomness: str = "not told",
    leaks: Any = (),
    diagnostics: dict[str, Any] | None = None,
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
    public : sequence of str, default=()
        Facts that were taken as public.
    randomness : str, default="not told"
        Source of the noise, and whom it protects against.
    leaks : sequence of str, default=()
        Exceptions to the guarantee in this run.
    diagnostics : dict or None, default=None
        Further noisy numbers about the records, by name. The guarantee covers them.

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
    leaks = [*leaks, *getattr(guarantee, "leaks", ())]
    guarantee = getattr(guarantee, "guarantee", guarantee)  # an answer of `tightest`, or a total
    unit = guarantee.unit
    spent: dict[str, Any] = {} if unit == "record" else {"protected": f"one {unit}, with all rows"}
    spent |= {
        "neighbours": f"{guarantee.adjacency}: {_neighbours(guarantee.adjacency, unit)}",
        "epsilon": float(guarantee.epsilon(delta)),
        "delta": float(delta),
    }
    if isinstance(guarantee, GaussianDP) and not guarantee.failure:
        spent["mu"] = float(guarantee.mu)
    reached = 1 - np.asarray(guarantee.tradeoff(np.array(FALSE_POSITIVE_RATES)))
    attacker = {"largest advantage (true minus false positive rate)": float(guarantee.advantage)}
    for rate, tpr in zip(FALSE_POSITIVE_RATES, reached.tolist(), strict=True):
        attacker[f"true positive rate at {100 * rate:g}% false positives"] = tpr
    theorem = {"bound": bound, "hypotheses checked on": type(mechanism).__name__}
    theorem |= _contents(mechanism)
    others = {name: _other(other, delta) for name, other in (alternatives or {}).items()}
    sections = {
        "spent": spent,
        "attacker": attacker,
        "theorem": theorem,
        "other bounds": others,
        "diagnostics": diagnostics or {},
        "assumed": {
            "public": [*public],
            "randomness": randomness,
            LEAKS: leaks,
        },
        "not protected against": {
            str(number): _GROUPS_OF_UNITS.format(unit)
            if unit != "record" and text.startswith("groups:")
            else text
            for number, text in enumerate(NOT_COVERED, 1)
        },
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

    Reports of versions 0.2 and 0.3.0rc1, which store no version, are recomputed in the same way.

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
        If a number does not agree, by its name; or if it is no report. Of a report without a
        version, it says that an older one may have counted in another way.

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
    optional = ("other bounds", "diagnostics")
    if report["assumed"].keys() != _ASSUMED or not all(
        isinstance(report.get(name, {}), dict) for name in optional
    ):
        raise ValueError(
            f"this is no report: assumed has the entries {', '.join(sorted(_ASSUMED))}"
        )
    try:
        _recompute(report)
    except ValueError as error:
        if "version" in report["stored"]:
            raise
        raise ValueError(
            f"{error} (an older version of skdpdyn wrote this report, 0.3.0rc1 or before, and may "
            "have counted in another way: check it with that version)"
        ) from None
    content = {name: value for name, value in report.items() if name != "checksum"}
    if report.get("checksum") != checksum(content):
        raise ValueError(
            "checksum: it is not that of the report, so that something in it was changed"
        )
    return report


def _recompute(report: dict[str, Any]) -> None:
    """Recompute a report from its record, or name the first entry that disagrees."""
    stored, spent, bound = report["stored"], report["spent"], report["theorem"].get("bound")
    mechanism, guarantee = _restored(stored, "mechanism"), _restored(stored, "guarantee")
    if not isinstance(guarantee, Guarantee):
        raise ValueError(f"stored, guarantee: a {type(guarantee).__name__} is none")
    if stored.get("version", _FIRST) < _UNITS and spent.get("protected") == _PERSON:
        guarantee = guarantee.with_unit("person")
    delta = spent.get("delta")
    if not isinstance(delta, float | int) or isinstance(delta, bool) or not 0 <= delta <= 1:
        raise ValueError(f"spent, delta: {delta!r} is not in [0, 1]")
    if _proof(mechanism, guarantee, bound, delta) is None:
        raise ValueError(
            f"stored, guarantee: {guarantee!r} is not what {bound} proves of the stored record"
        )
    again = privacy_report(mechanism, guarantee, delta=delta, bound=bound).as_dict()
    if "version" not in stored:
        again["theorem"] |= _as_before(mechanism, stored["mechanism"], report["theorem"])
        lacks = {field.name for field in fields(mechanism)} - stored["mechanism"].keys()
        for name in lacks - report["theorem"].keys():
            again["theorem"].pop(name, None)
    for title in ("spent", "attacker", "theorem"):
        _compare(report[title], again[title], title, max(_ROUNDING, guarantee.accuracy))
    for name, claimed in report.get("other bounds", {}).items():
        _compare_other(name, claimed, mechanism, delta)


_FIRST = 1  # version of the records of 0.2, the first whose reports were stored
_UNITS = 3  # version from which on a guarantee has its unit
_SECTIONS = ("spent", "attacker", "theorem", "assumed", "not protected against", "stored")
_ASSUMED = {"public", "randomness", LEAKS}
_ROUNDING = 1e-9  # by which another machine's numbers may differ
_ROOM = 5e-9  # part of mu that a fit with a learnt map keeps for rounding


def _restored(stored: dict[str, Any], name: str) -> Any:
    """Return the record or guarantee that a report stores, without a version as of the first."""
    version = stored.get("version", _FIRST)
    if type(version) is not int or not _FIRST <= version <= VERSION:
        raise ValueError(
            f"stored, version: {version!r} must be an integer from {_FIRST} to {VERSION}: a later "
            "skdpdyn wrote it"
        )
    try:
        return from_dict(stored.get(name), version)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"stored, {name}: {error}") from None


def _as_before(mechanism: Any, stored: dict[str, Any], theorem: dict[str, Any]) -> dict[str, Any]:
    """Return several records as the text of earlier versions, where a report has such."""
    texts = {}
    for name, entries in stored.items():
        records = getattr(mechanism, name, None)
        if isinstance(records, tuple) and str(theorem.get(name)).startswith("("):
            words = [
                f"{type(record).__name__}({', '.join(_arguments(record, entry))})"
                for record, entry in zip(records, entries, strict=True)
            ]
            texts[name] = f"({', '.join(words)}{',' * (len(words) == 1)})"
    return texts


def _arguments(record: Any, stored: dict[str, Any]) -> list[str]:
    """Return the fields of a record that is stored, as Python writes them."""
    kept = [
        field.name
        for field in fields(record)
        if field.name in stored or field.metadata.get("optional")
    ]
    return [f"{name}={getattr(record, name)!r}" for name in kept]


def _forms(bound: Any, delta: float) -> dict[str, Callable[..., Any]]:
    """Return the forms of a bound by their options; for parts judged one by one, `tightest`."""
    if isinstance(bound, str) and bound == MIXED:
        return {f", delta={delta!r}": lambda mechanism: tightest(mechanism, delta=delta).guarantee}
    if not isinstance(bound, str) or bound not in ACCOUNTANTS:
        raise ValueError(f"theorem, bound: {bound!r} is none of {', '.join(ACCOUNTANTS)}")
    judge = ACCOUNTANTS[bound]
    forms = {"": judge}
    if judge.sharper:
        options = ", ".join(f"{name}={value!r}" for name, value in judge.sharper.options.items())
        forms[f", {options}"] = partial(judge, **judge.sharper.options)
    return forms


def _proof(mechanism: Any, guarantee: Guarantee, bound: Any, delta: float) -> str | None:
    """Return the options by which a bound proves a guarantee of a record, or None."""
    for options, form in _forms(bound, delta).items():
        try:
            # what a record is of was up to the fit
            proved = form(mechanism).with_unit(guarantee.unit)
        except UnsupportedMechanismError:
            continue
        if _agree(to_dict(proved), to_dict(guarantee), _ROUNDING) or _declares(guarantee, proved):
            return options
    return None


def _declares(guarantee: Guarantee, proved: Guarantee) -> bool:
    """Return whether a fit declared slightly more than its record costs, which is also true."""
    if not (isinstance(guarantee, GaussianDP) and isinstance(proved, GaussianDP)):
        return False
    a_little_more = proved.mu <= guarantee.mu <= proved.mu * (1 + _ROOM)
    return a_little_more and _agree(
        to_dict(replace(guarantee, mu=proved.mu)), to_dict(proved), _ROUNDING
    )


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
        if not _agree(claimed[name], computed[name], tolerance):
            raise ValueError(
                f"{title}, {name}: the report says {claimed[name]!r}, its record {computed[name]!r}"
            )


def _compare_other(name: str, claimed: Any, mechanism: Any, delta: float) -> None:
    """Compare another bound's epsilon, or its refusal, with the record."""
    answers = []
    for form in _forms(name, delta).values():
        try:
            other = form(mechanism)
        except UnsupportedMechanismError as error:
            answers.append(str(error))
            continue
        answers.append(_plain(float(other.epsilon(delta))))
        if _agree(claimed, answers[-1], max(_ROUNDING, other.accuracy)):
            return
    reworded = (
        isinstance(claimed, str)
        and claimed != "inf"
        and any(isinstance(answer, str) for answer in answers)
    )
    if not reworded:  # the reason for which a bound does not apply may be said in other words
        raise ValueError(
            f"other bounds, {name}: the report says {claimed!r}, its record {answers[-1]!r}"
        )


def _agree(one: Any, other: Any, tolerance: float) -> bool:
    """Return whether two plain values are equal, numbers up to a relative tolerance."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            _agree(one[name], other[name], tolerance) for name in one
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(
            _agree(*pair, tolerance) for pair in zip(one, other, strict=True)
        )
    if type(one) in (int, float) and type(other) in (int, float):
        return math.isclose(one, other, rel_tol=tolerance)
    return type(one) is type(other) and one == other


def _how_to_check(
    mechanism: Any, guarantee: Guarantee, bound: str, spent: dict[str, Any]
) -> list[str]:
    """Return lines of Markdown that prove the promise again."""
    options = (
        _proof(mechanism, guarantee, bound, spent["delta"])
        if bound in {MIXED, *ACCOUNTANTS}
        else None
    )
    lines = ["From the record alone, without the data:", "", "```python"]
    if options is None:
        lines = [
            "The guarantee is not that of the record alone: it is a total of several releases.",
            "",
            "```python",
        ]
        lines += [
            "from skdpdyn.privacy import from_json",
            "",
            f"guarantee = from_json({json.dumps(to_dict(guarantee))!r})",
        ]
    else:
        lines += [
            f"from skdpdyn.privacy import {bound}",
            "",
            f"guarantee = {bound}(model.mechanism_{options})",
        ]
    lines += [f"guarantee.epsilon({spent['delta']!r})  # {spent['epsilon']!r}", "```", ""]
    return [
        *lines,
        (
            "Or from the stored report, which holds the same record: `python -m skdpdyn.privacy "
            "check report.json`."
        ),
        "It proves the guarantee again and recomputes every number above.",
    ]


def _measured(diagnostics: dict[str, Any]) -> list[str]:
    """Lines of Markdown on what was bought to know of the records."""
    if not diagnostics:
        return []
    entries = (f"{name}: {_shown(value)}" for name, value in diagnostics.items())
    return [
        "## What is known of the records",
        "",
        "With noise, paid for:",
        "",
        *_bullets(entries),
        "",
    ]


def _bullets(texts: Any) -> list[str]:
    return [f"- {text}" for text in texts]


def _plain(value: Any) -> Any:
    """Return copies of dicts and lists in which infinite numbers are texts."""
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _summary(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return f"{value.size} values from {value.min():.6g} to {value.max():.6g}"
    if isinstance(value, tuple) and all(map(is_dataclass, value)):
        return "; ".join(map(_in_words, value))
    return value if value is None or isinstance(value, (int, float)) else str(value)


def _contents(record: Any) -> dict[str, Any]:
    """Return the fields of a record; of one whose parts have names, these with what each ran."""
    if getattr(record, "names", None) is None:
        return {
            field.name: _summary(getattr(record, field.name))
            for field in fields(record)
            if field.name != "names"
        }
    runs = groupby(zip(record.names, record.mechanisms, strict=True))
    counted = [(name, part, len([*same])) for (name, part), same in runs]
    return {
        "parts": [
            f"{name}: {f'{count} times ' if count > 1 else ''}{_in_words(part)}"
            for name, part, count in counted
        ]
    }


def _in_words(record: Any) -> str:
    """Return a record of several as its type and its fields."""
    entries = {field.name: _summary(getattr(record, field.name)) for field in fields(record)}
    words = ", ".join(f"{name}={_shown(value)}" for name, value in entries.items())
    return f"{type(record).__name__}({words})"


def _other(other: Guarantee, delta: float) -> Any:
    return (
        str(other) if isinstance(other, UnsupportedMechanismError) else float(other.epsilon(delta))
    )
