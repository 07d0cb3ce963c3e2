"""Releases that a fit was given: the guarantee that pays for each, and its leaks.

A guarantee holds for what a fit is given if that is public, or was released before. So each fit
keeps, in ``sources_``, what its parameters held or came from: released models and maps, with their
leaks, facts of a table, and models that no guarantee covers, which are leaks themselves. Numbers in
a parameter are the word of who passes them.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from skdpdyn.core.expansion import Levels
from skdpdyn.core.schema import Schema, Source
from skdpdyn.privacy.arguments import has_own
from skdpdyn.privacy.guarantees import Guarantee


def given_to(estimator: Any) -> tuple[Source, ...]:
    """Return the sources in the parameters of an estimator, not those of its own fit."""
    values = estimator.get_params(deep=False).items()
    return tuple(
        dict.fromkeys(source for name, value in values for source in sources_of(value, name))
    )


def sources_of(value: Any, name: str) -> Iterator[Source]:
    """Yield the sources that the value of a parameter is, holds or comes from.

    Whatever has coefficients is a model, be it a dict or an array beside.
    """
    while type(value) is FrozenEstimator:
        value = value.estimator
    value = value.levels if isinstance(value, Levels) else value
    kind = type(value).__name__
    if value is None or isinstance(value, str | int | float | type):
        return
    if isinstance(value, Schema):
        yield from value.sources
    elif has_own(value, "privacy_") and isinstance(value.privacy_, Guarantee):
        leaks = tuple(getattr(value, "leaks_", ()))
        yield Source(f"{name}: a {kind}", value.privacy_, leaks, key_of(value))
        yield from getattr(value, "sources_", ())
    elif isinstance(getattr(value, "sources", None), tuple):  # a part of a model
        yield from value.sources or [_unpaid(name, kind, "says of no model that it is its")]
    elif hasattr(value, "coef_") or (hasattr(value, "get_params") and _has_learnt(value)):
        yield _unpaid(name, kind, "has no privacy_")
    elif hasattr(value, "get_params"):
        yield from given_to(value)
    else:
        for part in _parts_of(value):
            yield from sources_of(part, name)


def _parts_of(value):
    """Return the items of a container."""
    if isinstance(value, np.ndarray):
        return value.ravel().tolist() if value.dtype == object else ()
    items = value.values() if isinstance(value, Mapping) else value
    return list(items) if isinstance(value, Mapping | list | tuple | set | frozenset) else ()


def key_of(model: Any) -> str:
    """Return a checksum of a model's coefficients or ranges, or that of facts; "": it has none.

    Ranges of two releases are often equal: a mark tells these apart.
    """
    if isinstance(model, Schema):
        return model.sources[0].key if model.sources else ""
    while hasattr(model, "best_estimator_") or hasattr(model, "steps"):  # a search, a pipeline
        model = model.best_estimator_ if hasattr(model, "best_estimator_") else model.steps[-1][1]
    names = ("coef_", "intercept_") if hasattr(model, "coef_") else ("ranges_",)
    numbers = [np.asarray(getattr(model, name, ())) for name in names]
    if not any(array.size for array in numbers):
        return ""
    told = b"".join(array.tobytes() for array in numbers) + getattr(model, "_mark_", "").encode()
    return hashlib.sha256(told).hexdigest()[:16]


def leaks_of(sources: Iterable[Source]) -> tuple[str, ...]:
    """Return all that the guarantees of sources do not cover."""
    return tuple(dict.fromkeys(leak for source in sources for leak in source.leaks))


def facts_of(sources: tuple[Source, ...]) -> tuple[str, ...]:
    """Return the lines of a report on sources that were paid for."""
    return tuple(
        f"{source.label} of {source.guarantee}, paid for by that guarantee, which is not in this "
        "one"
        for source in sources
        if source.guarantee is not None
    )


def _unpaid(name, kind, why):
    leak = f"{name}: a {kind}, which {why}: no guarantee covers the records that it learnt from"
    return Source(f"{name}: a {kind}", None, (leak,))


def _has_learnt(value):
    return any(name.endswith("_") and not name.endswith("__") for name in vars(value))
