"""Widths of a column's cells and faces, as expressions that every target reads.

The width of a face is the distance of the centres beside it; at an end it is the width of the
cell there. The fields that hold them have names with a dot, which no variable has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from halocline_engine.ir.columns.formulas.algebra import Real
from halocline_engine.ir.nodes import Field
from halocline_engine.ir.types import Axis, DType

__all__ = [
    "CENTRE_SCALE",
    "CENTRE_WIDTH",
    "FACE_SCALE",
    "FACE_WIDTH",
    "HEIGHT",
    "SURFACE",
    "Heights",
    "Hybrid",
    "Metric",
    "Widths",
    "metric_fields",
    "width_at",
]

CENTRE_WIDTH = "width.centre"
FACE_WIDTH = "width.face"
CENTRE_SCALE = "scale.centre"
FACE_SCALE = "scale.face"
SURFACE = "height.surface"
HEIGHT = "height.face"

_SPACE = (Axis.I, Axis.J, Axis.K)


@dataclass(frozen=True, slots=True)
class Widths:
    """The widths themselves; the same everywhere, or `varying` over the horizontal."""

    varying: bool = False


@dataclass(frozen=True, slots=True)
class Hybrid:
    """Terrain-following height a + b * surface: width = width of a + width of b * surface."""


@dataclass(frozen=True, slots=True)
class Heights:
    """Heights (or depths) of the faces at every point; centres lie in the middle."""


Metric: TypeAlias = Widths | Hybrid | Heights


def metric_fields(metric: Metric, dtype: DType) -> tuple[Field, ...]:
    """Return the fields that a metric may read."""
    match metric:
        case Widths(varying):
            axes = _SPACE if varying else (Axis.K,)
            return tuple(Field(n, dtype, axes, True, False) for n in (CENTRE_WIDTH, FACE_WIDTH))
        case Hybrid():
            names = (CENTRE_WIDTH, FACE_WIDTH, CENTRE_SCALE, FACE_SCALE)
            levels = tuple(Field(n, dtype, (Axis.K,), True, False) for n in names)
            return (*levels, Field(SURFACE, dtype, (Axis.I, Axis.J), True, False))
        case Heights():
            return (Field(HEIGHT, dtype, _SPACE, True, False),)
        case _:
            assert_never(metric)


def width_at(metric: Metric, h: int, size: int, read: Callable[[str, int], Real]) -> Real:
    """Return the width at a point, counted in half levels; `read` gives a field at a point."""
    centre = h % 2 == 1
    match metric:
        case Widths():
            return read(CENTRE_WIDTH if centre else FACE_WIDTH, h)
        case Hybrid():
            own = read(CENTRE_WIDTH if centre else FACE_WIDTH, h)
            scale = read(CENTRE_SCALE if centre else FACE_SCALE, h)
            return own + scale * read(SURFACE, h)
        case Heights():
            if centre:
                return abs(read(HEIGHT, h + 1) - read(HEIGHT, h - 1))
            low, high = max(h - 2, 0), min(h + 2, size)
            difference = read(HEIGHT, high) - read(HEIGHT, low)
            return abs(difference * 0.5 if high - low == 4 else difference)
        case _:
            assert_never(metric)
