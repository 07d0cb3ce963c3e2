"""Names for types that many annotations share."""

from typing import Annotated, Any, TypeAlias

import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
# A number, or an array of them: answers have the shape of the question.
Floats: TypeAlias = float | Array
# A record of what ran. It has no base class: it is whatever an accountant has a theorem for.
Mechanism: TypeAlias = Any
# An Adjacency, which a user may give by its name: the field of a record holds the Adjacency.
Named: TypeAlias = Any
# What a number of a record may follow from: what is public, and what was released before it.
Public: TypeAlias = Annotated[float, "public"]
Released: TypeAlias = Annotated[float, "released"]
