"""The model card: what was promised, to whom, under which assumptions, and how to check it."""

from collections.abc import Iterable, Mapping
from typing import Any

from skdpdyn.privacy.accountants import ACCOUNTANTS, MIXED
from skdpdyn.privacy.deployment import fields_of
from skdpdyn.privacy.guarantees import Guarantee
from skdpdyn.privacy.proofs import proof_of
from skdpdyn.privacy.serialization import from_dict, to_json
from skdpdyn.privacy.words import (
    BOUGHT,
    LEAKS,
    NONE_SEEN,
    TRUST,
    covering,
    neighbours_of,
    parts_of,
    shown,
)


def model_card(report: Any, deployment: Mapping[str, Any]) -> str:
    """Return the privacy section of a model card, in Markdown."""
    mechanism, guarantee = (from_dict(report.stored[name]) for name in ("mechanism", "guarantee"))
    lines = [
        *_private_at_all(report.sections["assumed"][LEAKS]),
        *_promised(report.sections, guarantee),
        *_to_whom(report.sections, guarantee),
        *_assumed(report.sections, mechanism),
        *_measured(report.sections.get("diagnostics", {})),
        *_deployed(report, deployment),
        *_how_to_check(mechanism, guarantee, report.sections),
    ]
    return "\n".join(lines) + "\n"


def _private_at_all(leaks: list[str]) -> list[str]:
    if not leaks:
        what = (
            "A differentially private release: a promise to everyone in the records, proved below."
        )
        return ["# Privacy", "", what, "", f"Exceptions in this run: {NONE_SEEN}.", ""]
    title = ["# Privacy", "", "**NOT PRIVATE in this run. What follows does not hold for:**", ""]
    return [*title, *_bullets(leaks), ""]


def _promised(sections: Mapping[str, Any], guarantee: Guarantee) -> list[str]:
    spent = sections["spent"]
    also = f", and {shown(spent['mu'])}-Gaussian differentially private" if "mu" in spent else ""
    if covers := covering(guarantee):
        also = f", and Gaussian differentially private with a mu of {covers}"
    promise = f"({shown(spent['epsilon'])}, {shown(spent['delta'])})-differentially private"
    return [
        "## What was promised",
        "",
        f"The release is {promise}{also}.",
        "",
        (
            f"Someone who knows all {guarantee.unit}s but one, and guesses about that one from "
            "what was released, has at most:"
        ),
        "",
        *_bullets(f"{name}: {shown(value)}" for name, value in sections["attacker"].items()),
        "",
    ]


def _to_whom(sections: Mapping[str, Any], guarantee: Guarantee) -> list[str]:
    relation, unit = str(guarantee.adjacency), guarantee.unit
    return [
        "## To whom",
        "",
        (
            f"To every single {unit}. Neighbouring data sets ({relation}): "
            f"{neighbours_of(relation, unit)}."
        ),
        "",
        f"Who is trusted: {TRUST}.",
        "",
        "Not protected against:",
        "",
        *_bullets(sections["not protected against"].values()),
        "",
    ]


def _assumed(sections: Mapping[str, Any], mechanism: Any) -> list[str]:
    assumed, theorem = sections["assumed"], dict(sections["theorem"])
    bound, parts = theorem.pop("bound"), parts_of(mechanism)
    for name in ("parts", "mechanisms"):
        if parts:
            theorem.pop(name, None)
    return [
        "## Under which assumptions",
        "",
        "Public, and not read off the records:",
        "",
        *_bullets(assumed["public"] or ["nothing was named"]),
        "",
        *_listed(f"{BOUGHT.capitalize()}:", assumed[BOUGHT]),
        f"Randomness: {assumed['randomness']}.",
        "",
        f"The bound is `{bound}`. Its hypotheses were checked on the record of what ran:",
        "",
        *_bullets(f"{name}: {shown(value)}" for name, value in [*theorem.items(), *parts]),
        "",
    ]


def _measured(diagnostics: Mapping[str, Any]) -> list[str]:
    """Lines on what was bought to know of the records."""
    if not diagnostics:
        return []
    entries = (f"{name}: {shown(value)}" for name, value in diagnostics.items())
    title = ["## What is known of the records", "", "With noise, paid for:", ""]
    return [*title, *_bullets(entries), ""]


def _deployed(report: Any, deployment: Mapping[str, Any]) -> list[str]:
    """Lines on the deployment: all fields that the registry asks for."""
    title = ["## Deployment", "", "What the Differential Privacy Deployments Registry asks:", ""]
    return [*title, *_bullets(f"{name}: {text}" for name, text in as_rows(report, deployment)), ""]


def as_rows(report: Any, deployment: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the fields of a deployment as names and texts of one line."""
    rows = []
    for fields in fields_of(report, deployment).values():
        for name, value in fields.items():
            if isinstance(value, dict):
                value = ", ".join(f"{key} {shown(entry)}" for key, entry in value.items())
            text = "not stated" if value is None else shown(value)
            rows.append((name.replace("_", " "), text.replace("\n- ", "; ").replace("\n", " ")))
    return rows


def _how_to_check(mechanism: Any, guarantee: Guarantee, sections: Mapping[str, Any]) -> list[str]:
    """Lines that prove the promise again."""
    spent, bound = sections["spent"], sections["theorem"]["bound"]
    named = bound in {MIXED, *ACCOUNTANTS}
    options = proof_of(mechanism, guarantee, bound, spent["delta"]) if named else None
    if options is None:
        how = [
            "The guarantee is not that of the record alone: it is a total of several releases.",
            "",
            "```python",
            "from skdpdyn.privacy import from_json",
            "",
            f"guarantee = from_json({to_json(guarantee)!r})",
        ]
    else:
        how = [
            "From the record alone, without the data:",
            "",
            "```python",
            f"from skdpdyn.privacy import {bound}",
            "",
            f"guarantee = {bound}(model.mechanism_{options}){'.guarantee' * (bound == MIXED)}",
        ]
    return [
        "## How to check it",
        "",
        *how,
        f"guarantee.epsilon({spent['delta']!r})  # {spent['epsilon']!r}",
        "```",
        "",
        (
            "Or from the stored report, which holds the same record: `python -m skdpdyn.privacy "
            "check report.json`."
        ),
        "It proves the guarantee again and recomputes every number above.",
    ]


def _listed(title: str, texts: list[str]) -> list[str]:
    return [title, "", *_bullets(texts), ""] if texts else []


def _bullets(texts: Iterable[str]) -> list[str]:
    return [f"- {text}" for text in texts]
