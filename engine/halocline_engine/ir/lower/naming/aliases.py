"""Types that models name without defining them: those of `ndsl.dsl.typing`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set

from halocline_engine.ir.types import Axis, DType

__all__ = ["ndsl_field", "ndsl_numbers"]

_NUMBERS: Mapping[str, str] = {
    "Float": "float64",
    "Float32": "float32",
    "Float64": "float64",
    "Int": "int64",
    "Int32": "int32",
    "Int64": "int64",
    "Bool": "bool",
}
_FIELD = re.compile(r"(Float|Int|Bool)Field(IJK|IJ|IK|JK|I|J|K|)(32|64|)")


def ndsl_numbers(foreign: Set[str]) -> dict[str, str]:
    """Return what the types of numbers mean that a text imports by these names."""
    return {name: dtype for name, dtype in _NUMBERS.items() if name in foreign}


def ndsl_field(
    name: str, foreign: Set[str], casts: Mapping[str, str]
) -> tuple[DType, tuple[Axis, ...]] | None:
    """Return the type of elements and the axes of a field type that a text imports by this name.

    `FloatFieldIJ` has the numbers of `Float`, which the caller may have chosen.
    """
    match = _FIELD.fullmatch(name) if name in foreign else None
    if match is None or match[1] + match[3] not in _NUMBERS:
        return None
    kind = match[1] + match[3]
    dtype = DType(casts.get(kind, _NUMBERS[kind]))
    return dtype, tuple(Axis(axis) for axis in match[2] or "IJK")
