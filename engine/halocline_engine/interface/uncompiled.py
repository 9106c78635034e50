"""Programs with how their texts are read, for who knows the target and compiles them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["READING", "Uncompiled", "with_reading"]

#: Arguments of `stencil` that say how a text is read, and that jobs of a service have too.
READING = ("literal_precision", "arithmetic")


@dataclass(frozen=True, slots=True)
class Uncompiled:
    """A program that is compiled for the target of the workers that run it."""

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
