"""The model card: the promise, to whom it is made, its assumptions, and how to check it."""

from collections.abc import Iterable, Mapping
from typing import Any

from skdpdyn.privacy.accountants import ACCOUNTANTS, MIXED
from skdpdyn.privacy.deployment import fields_of
from skdpdyn.privacy.display import code_span, markdown, printable
from skdpdyn.privacy.guarantees import GaussianDP, Guarantee
from skdpdyn.privacy.proofs import covers, proof_of
from skdpdyn.privacy.serialization import ROUNDING, agree, to_dict, to_json
from skdpdyn.privacy.words import (
    BOUGHT,
    LEAKS,
    NONE_SEEN,
    TRUST,
    mu_in_words,
    neighbours_of,
    parts_of,
    shown,
)

_ROOM = 5e-9  # part of mu that a fit with a learnt map keeps for rounding


def model_card(report: Any, deployment: Mapping[str, Any]) -> str:
    """Return the privacy section of a model card, in Markdown."""
    sections = report.sections
    unit = report.guarantee.unit
    spent, assumed, theorem = (sections[name] for name in ("spent", "assumed", "theorem"))
    parts = parts_of(report.mechanism)
    shown_elsewhere = ("bound", "parts", "mechanisms") if parts else ("bound",)
    blocks = [
        "# Privacy",
        *_private_at_all(assumed[LEAKS]),
        "## What was promised",
        _promise(spent, report.guarantee),
        (
            f"Someone who knows all {unit}s but one, and guesses about that one from what was "
            "released, has at most:"
        ),
        _bullets(_entries(sections["attacker"])),
        "## To whom",
        (
            f"To every single {unit}. Neighbouring data sets ({report.guarantee.adjacency}): "
            f"{neighbours_of(str(report.guarantee.adjacency), unit)}."
        ),
        f"Who is trusted: {TRUST}.",
        "Not protected against:",
        _bullets(sections["not protected against"].values()),
        "## Under which assumptions",
        "Public, and not read off the records:",
        _bullets(assumed["public"] or ["nothing was named"]),
        *[f"{BOUGHT.capitalize()}:", _bullets(assumed[BOUGHT])] * bool(assumed[BOUGHT]),
        markdown(f"Randomness: {assumed['randomness']}."),
        (
            f"The bound is {code_span(theorem['bound'])}. Its hypotheses were checked on the "
            "record of what ran:"
        ),
        _bullets(_entries({k: v for k, v in theorem.items() if k not in shown_elsewhere}, parts)),
        "## Deployment",
        "What the Differential Privacy Deployments Registry asks:",
        _bullets(_entries({}, as_rows(report, deployment))),
        "## How to check it",
        *_proof(report),
        (
            "Or from the stored report, which holds the same record: `python -m skdpdyn check "
            "report.json`.\nIt proves the guarantee again and recomputes every number above."
        ),
    ]
    return "\n\n".join(blocks) + "\n"


def _private_at_all(leaks: list[str]) -> list[str]:
    if leaks:
        return ["**NOT PRIVATE in this run. What follows does not hold for:**", _bullets(leaks)]
    return [
        "A differentially private release: a promise to everyone in the records, proved below.",
        NONE_SEEN,
    ]


def _promise(spent: Mapping[str, Any], guarantee: Guarantee) -> str:
    gaussian = mu_in_words(guarantee, after="-Gaussian differentially private")
    also = f", and {gaussian}" if gaussian else ""
    promise = f"({shown(spent['epsilon'])}, {shown(spent['delta'])})-differentially private"
    return f"The release is {promise}{also}."


def as_rows(report: Any, deployment: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the fields of a deployment as names and texts of one line."""
    rows = []
    for fields in fields_of(report, deployment).values():
        for name, value in fields.items():
            if isinstance(value, dict):
                value = ", ".join(f"{key} {shown(entry)}" for key, entry in value.items())
            text = "not stated" if value is None else value
            text = text if isinstance(text, str) else shown(text)
            line = text.replace("\n- ", "; ").replace("\n", " ")
            rows.append((name.replace("_", " "), printable(line)))
    return rows


def may_state(guarantee: Guarantee, proved: Guarantee) -> bool:
    """Return whether a report may state a guarantee: the proved one, up to the last digits.

    A fit declares slightly more Gaussian noise than its record costs, and a search allows for all
    that it might have released.
    """

    def alike(value: Any, other: Any) -> bool:
        return agree(to_dict(value), to_dict(other), ROUNDING)

    gaussian = isinstance(guarantee, GaussianDP) and isinstance(proved, GaussianDP)
    if gaussian and guarantee.mu > proved.mu * (1 + _ROOM):
        return False
    return covers(guarantee, proved, alike)


def _proof(report: Any) -> list[str]:
    """Return blocks that prove the promise again."""
    spent = report.sections["spent"]
    bound = report.sections["theorem"]["bound"]
    named = bound in {MIXED, *ACCOUNTANTS}
    promise = report.guarantee, bound, spent["delta"]
    options = proof_of(report.mechanism, *promise, may_state) if named else None
    how = "From the record alone, without the data:"
    load = f"from skdpdyn.privacy import {bound}"
    guarantee = f"{bound}(model.mechanism_{options}){'.guarantee' * (bound == MIXED)}"
    if options is None:
        how = "The guarantee is not that of the record alone: it is a total of several releases."
        load = "from skdpdyn.privacy import from_json"
        guarantee = f"from_json({to_json(report.guarantee)!r})"
    check = f"guarantee.epsilon({spent['delta']!r})  # {spent['epsilon']!r}"
    return [how, f"```python\n{load}\n\nguarantee = {guarantee}\n{check}\n```"]


def _entries(section: Mapping[str, Any], more: Iterable[tuple[str, str]] = ()) -> list[str]:
    return [f"{name}: {shown(value)}" for name, value in [*section.items(), *more]]


def _bullets(texts: Iterable[str]) -> str:
    return "\n".join(f"- {markdown(text)}" for text in texts)
