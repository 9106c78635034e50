"""Programs with options for reading their text, before they are compiled for a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["READING", "Uncompiled", "with_reading"]

#: Options of `stencil` for reading a text, which are also inputs of jobs of a service.
READING = ("literal_precision", "arithmetic")


@dataclass(frozen=True, slots=True)
class Uncompiled:
    """A program to be compiled for the target of its workers."""

    program: Any
    literal_precision: int | Mapping[str, int] = 64
    arithmetic: Any = "separate"


def with_reading(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs of a stencil in a service as arguments of `run`.

    >>> with_reading({"program": "text", "steps": 2, "arithmetic": "fused"})["program"].arithmetic
    'fused'
    """
    how = {name: inputs[name] for name in READING if name in inputs}
    others = {name: value for name, value in inputs.items() if name not in how}
    if how:
        others["program"] = Uncompiled(inputs["program"], **how)
    return others
