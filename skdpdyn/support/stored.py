"""What a pickle holds of an object."""

from dataclasses import fields
from typing import Any

__all__ = ["FieldsAlone"]


class FieldsAlone:
    """A dataclass whose pickles hold its fields: what is cached beside them follows from them."""

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
