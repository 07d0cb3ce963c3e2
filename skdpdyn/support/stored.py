"""The state of an object in its pickle."""

from dataclasses import fields
from typing import Any

__all__ = ["FieldsAlone"]


class FieldsAlone:
    """A dataclass whose pickles hold its fields and no cached values."""

    def __getstate__(self) -> dict[str, Any]:
        own: Any = self
        return {field.name: getattr(own, field.name) for field in fields(own)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
