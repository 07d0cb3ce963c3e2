"""A deployment as the Differential Privacy Deployments Registry asks for it, of tier 3.

A report fills what it knows; who deploys says the rest. The registry publishes a schema, see
``registry_schema.json`` beside this file for its address and date.
"""

import json
import math
import re
import sys
from collections.abc import Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from skdpdyn.privacy.words import (
    LEAKS,
    TRUST,
    in_words,
    mu_in_words,
    neighbours_of,
    parts_of,
    shown,
)

SCHEMA = Path(__file__).with_name("registry_schema.json")
_SLUG = "url_slug"  # of the record itself, not of its deployment
_CLAIMS = "variant_name", "privacy_unit", "privacy_unit_details", "privacy_parameters"
_ACCESS = "access_control"  # a part of what the registry has under "mechanisms"
_TIMING = (
    "Timing: not covered. The release itself answers no query; whoever can time, or read the "
    "memory of, the training process is not protected against."
)
_PLATFORM = (
    "Platform: every sum runs over fixed parts of the rows in a fixed order, so that the number "
    "of threads changes no bit; side channels of the machine are not covered."
)


@cache
def schema() -> dict[str, Any]:
    """Return the schema of a record.

    Returns
    -------
    dict
        A JSON Schema, draft 7.
    """
    content: dict[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return content


def sections() -> dict[str, dict[str, Any]]:
    """Return the fields of each section of a deployment, with their entries in the schema."""
    properties = schema()["properties"]["deployment"]["properties"]
    return {name: section["properties"] for name, section in properties.items()}


def fields_from(report: Any) -> dict[str, Any]:
    """Return the fields of a deployment that a report can fill, by their names in the schema."""
    spent = report.sections["spent"]
    assumed = report.sections["assumed"]
    mechanism = report.mechanism
    guarantee = report.guarantee
    public = "; ".join(assumed["public"]) or "nothing was named"
    leaks = assumed[LEAKS]
    delta = spent["delta"]
    gaussian = mu_in_words(guarantee, after="-Gaussian differentially private")
    parts = parts_of(mechanism)
    together = "".join(f", {name}" for name, _ in parts)
    composed = f": one after another{together}" if parts else ""
    return {
        "data_product_type": "Machine learning model",
        "variant_name": "Approximate DP" if delta else "Pure DP",
        "data_domain": f"All data sets that share what is public: {public}.",
        "unprotected_quantities": "\n".join(
            [f"Public, and not protected: {public}.", *(f"NOT PRIVATE: {leak}." for leak in leaks)]
        ),
        "privacy_unit": guarantee.unit,
        "privacy_unit_details": (
            f"{guarantee.adjacency}: {neighbours_of(str(guarantee.adjacency), guarantee.unit)}."
        ),
        "privacy_parameters": {"epsilon": spent["epsilon"], "delta": delta},
        "privacy_parameters_details": "; ".join(
            [gaussian] * bool(gaussian)
            + [f"{name}: {shown(value)}" for name, value in report.sections["attacker"].items()]
        ),
        "model_name": "Central",
        "model_name_details": f"Trust: {TRUST}.",
        "actors": f"{TRUST[0].upper()}{TRUST[1:]}.",
        "release_type": "One release",
        "data_source_type": "Static",
        "data_source_type_details": "The fit read one data set.",
        "access_type": "Non-interactive",
        "access_type_details": "Whoever has the release asks nothing of the records.",
        "post_processing": (
            "What was released is turned into units of the columns by what is public or released."
        ),
        "composition": (
            f"By the bound `{report.sections['theorem']['bound']}`, of the record of all that was "
            f"released{composed}."
        ),
        "mechanisms": "\n".join(
            [
                *[
                    f"- {name}: {words}"
                    for name, words in parts or [("record", in_words(mechanism))]
                ],
                f"Implementation: skdpdyn {sys.modules['skdpdyn'].__version__}.",
                f"Noise and floating point: {assumed['randomness']}.",
                _TIMING,
                _PLATFORM,
            ]
        ),
    }


def fields_of(report: Any, stated: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return all fields of a deployment by section, None where nobody has stated them.

    Raises
    ------
    ValueError
        If there is no field of a given name, or it may not hold such a value, or claims something
        else than the report.
    """
    of_sections = sections()
    names = {name for section in of_sections.values() for name in section} | {_ACCESS, _SLUG}
    unknown = sorted(stated.keys() - names)
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: no field of a deployment: {sorted(names)}")
    claims = fields_from(report)
    for name in _CLAIMS:
        if stated.get(name, claims[name]) != claims[name]:
            raise ValueError(f"{name}={stated[name]!r}: the report says {claims[name]!r}")
    values = claims | dict(stated)
    if _ACCESS in stated:
        values["mechanisms"] += f"\nAccess control: {stated[_ACCESS]}"
    by_section = {
        title: {name: values.get(name) for name in section}
        for title, section in of_sections.items()
    }
    for title, section in of_sections.items():
        for name, allowed in section.items():
            if by_section[title][name] is not None:
                _check(name, by_section[title][name], allowed)
    return by_section


def record_of(report: Any, stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record of the registry.

    Raises
    ------
    ValueError
        If a field is missing, all of them by name; or as `fields_of` does.
    """
    by_section = fields_of(report, stated)
    optional = {"sources", "notes"}
    missing = [
        name
        for section in by_section.values()
        for name, value in section.items()
        if value is None and name not in optional
    ]
    missing += [_ACCESS] * (_ACCESS not in stated and "mechanisms" not in stated)
    if missing:
        raise ValueError(
            f"the registry asks for more than a report knows: give {', '.join(missing)}"
        )
    basic = by_section["basic"]
    words = f"{basic['name']} {basic['data_curators'][0]} {basic['publication_date'][:4]}"
    slug = stated.get(_SLUG, re.sub("[^a-z0-9]+", "-", words.lower()).strip("-"))
    deployment = {
        title: {name: value for name, value in section.items() if value is not None}
        for title, section in by_section.items()
    }
    return {_SLUG: slug, "status": "Draft", "tier": 3, "deployment": deployment}


def _check(name: str, value: Any, allowed: dict[str, Any]) -> None:
    """Raise unless a field may hold a value, in the words of who fills the form."""
    if name == "privacy_parameters":
        if not math.isfinite(value["epsilon"]):
            raise ValueError("epsilon is infinite at this delta: there is no promise to register")
    elif "$ref" in allowed:
        if not (isinstance(value, list) and value and all(isinstance(item, str) for item in value)):
            raise ValueError(f"{name}={value!r} must be a list of names")
    elif not (isinstance(value, str) and value):
        raise ValueError(f"{name}={value!r} must be a text")
    elif value not in allowed.get("enum", [value]):
        raise ValueError(f"{name}={value!r} must be one of {', '.join(allowed['enum'])}")
    elif "format" in allowed:
        try:
            date.fromisoformat(value)
        except ValueError:
            raise ValueError(f"{name}={value!r} must be a date, as 2026-03-31") from None
