"""Steps whose edges are computed first, and sent while what is inside is computed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from halocline_engine.backends.base import Executable
from halocline_engine.distribute.grid.geometry import Geometry, Layout
from halocline_engine.distribute.grid.partition import Box
from halocline_engine.distribute.grid.split import split
from halocline_engine.distribute.resident.fusing import Group, divided

__all__ = ["WORTH", "Parts", "parts_of"]

#: Bytes of fields inside a block from which more kernels are worth it: some 10 us of a device.
WORTH = 32 << 20


@dataclass(frozen=True, slots=True)
class Parts:
    """The domain of a group of steps: what is inside, and its edges, each with what makes it."""

    inner: Mapping[Box, Executable | None]
    edges: Mapping[Box, Executable | None]


def parts_of(
    executable: Executable,
    layout: Layout,
    cells: Geometry,
    group: Group,
    awaited: Sequence[Box],
) -> Parts | None:
    """Return how to make the last steps of a bundle, after which other blocks await cells.

    None where all cells are made at once: where edges cannot be made by themselves, or where the
    fields have fewer than `WORTH` bytes inside.
    """
    found = split(cells.domains[group.last], awaited)
    if found is None or _bytes(layout, found.inner) < WORTH:
        return None
    boxes = divided(executable, layout, cells, group, (found.inner, *found.edges))
    if boxes is None:
        return None
    inner = boxes.pop(found.inner)
    return Parts({found.inner: inner}, boxes)


def _bytes(layout: Layout, box: Box) -> int:
    """Return the bytes of all fields in a box."""
    return math.prod(span.size for span in box) * sum(
        np.dtype(use.dtype).itemsize for use in layout.uses
    )
