"""Planes that blocks of a kernel can keep, and the shared memory that they take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from halocline_engine.backends.cuda.kernels.points.planes import (
    MOST_PIECES,
    SHARED,
    Plane,
    planes_of,
)
from halocline_engine.backends.cuda.kernels.points.section import loaded_offsets, outputs
from halocline_engine.backends.cuda.model.entries import Entry, Variant, arrays_of
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.rare import rare_reads

__all__ = ["shared_bytes", "with_planes"]


def shared_bytes(entry: Entry, schedule: Schedule, variant: Variant, tile: Tile) -> int:
    """Return how many bytes of shared memory the planes of a block take."""
    planes = _planes(entry, schedule, variant, tile)
    return sum(plane.bytes for plane in planes.values())


def with_planes(tile: Tile, entry: Entry, schedule: Schedule, variant: Variant) -> Tile:
    """Return the tile, without planes where a block can not have them or there are none."""
    if not tile.planes:
        return tile
    if tile.depth > 1 and not variant.shift and _may_compute_outside(entry, schedule):
        planes = _planes(entry, schedule, variant, tile).values()
        few = all(plane.pieces <= MOST_PIECES * tile.threads for plane in planes)
        if few and 0 < sum(plane.bytes for plane in planes) <= SHARED:
            return tile
    return replace(tile, planes=0)


def _may_compute_outside(entry: Entry, schedule: Schedule) -> bool:
    """Whether points outside the domain may be computed, from any bits, and never stored.

    No integer is divided, nothing is loaded where a region decides that it is used, and what is
    written is stored after all points, behind a test.
    """
    arrays = dict(arrays_of(schedule))
    dtypes = [arrays[name] for name in entry.arrays]
    dtypes += [register.dtype for register in entry.kernel.registers]
    if len(entry.kernel.sections) != 1 or any(dtype.is_integer for dtype in dtypes):
        return False
    if rare_reads(entry.kernel.sections[0].body, entry.narrow):
        return False
    return set(outputs(entry.kernel.sections[0], entry)) == set(entry.written)


def _planes(entry: Entry, schedule: Schedule, variant: Variant, tile: Tile) -> Mapping[str, Plane]:
    arrays = arrays_of(schedule)
    names = [name for name, _ in arrays]
    kinds = {n: variant.kinds[k] for n, k in zip(names, variant.arrays, strict=True)}
    aligned = {n for n, is_so in zip(names, variant.aligned, strict=True) if is_so}
    offsets = loaded_offsets(entry.kernel.sections[0], entry)
    return planes_of(offsets, kinds, dict(arrays), aligned, tile)
