"""Memory layout of the arrays of a call, as far as the generated code depends on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from halocline_engine.ir.nodes import Program
from halocline_engine.ir.types import Axis

__all__ = ["Layout", "contiguous", "layout_of"]


@dataclass(frozen=True, slots=True)
class Layout:
    """The axis of the innermost loop, I or K, and the fields whose elements are adjacent along it.

    Temporaries in memory are always adjacent along `inner`. Where not all fields are `apart`, one
    array stands for two of them.
    """

    inner: Axis
    adjacent: frozenset[str]
    apart: bool = True


def contiguous(program: Program, inner: Axis = Axis.I) -> Layout:
    """Return the layout in which every field that has the axis is adjacent along it."""
    return Layout(inner, frozenset(f.name for f in program.fields if inner in f.axes))


def layout_of(
    program: Program,
    strides: Mapping[str, tuple[int, int, int]],
    *,
    apart: bool = True,
) -> Layout:
    """Return the layout of a call: the inner axis is the one that most fields are adjacent along.

    `strides` are those along I, J and K, in bytes; fields that are None to the caller are left out.
    Fields that callers do not give, such as masks of regions, have no say: they are adjacent along
    their only axis.
    """
    along_i: list[str] = []
    along_k: list[str] = []
    for field in program.fields:
        if field.name not in strides:
            continue
        i, _, k = strides[field.name]
        if i == field.dtype.itemsize and Axis.I in field.axes:
            along_i.append(field.name)
        if k == field.dtype.itemsize and Axis.K in field.axes:
            along_k.append(field.name)
    votes = [sum(name not in program.made for name in along) for along in (along_i, along_k)]
    if votes[1] > votes[0]:
        return Layout(Axis.K, frozenset(along_k), apart)
    return Layout(Axis.I, frozenset(along_i), apart)
