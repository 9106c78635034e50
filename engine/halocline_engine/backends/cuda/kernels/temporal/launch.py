"""Launch geometry of fused steps. No device is asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from halocline_engine.analysis.boundaries import Kind
from halocline_engine.backends.base import OpenSides
from halocline_engine.backends.cuda.kernels.temporal.form import Form
from halocline_engine.backends.cuda.kernels.temporal.order import inverses_of
from halocline_engine.backends.cuda.model.launch import MAX_BLOCKS, Dim3
from halocline_engine.backends.cuda.model.tile import Domain
from halocline_engine.ir.types import Axis

__all__ = ["FusedLaunch", "launches_of", "sizes_of"]

#: Beyond all points.
_FAR = 1 << 30


@dataclass(frozen=True, slots=True)
class FusedLaunch:
    """One launch: blocks, the threads of each, and the first plane where planes are independent."""

    grid: Dim3
    block: Dim3
    level: int


def launches_of(form: Form, domain: Domain) -> Iterator[FusedLaunch]:
    """Yield the launches that cover a domain."""
    ni, nj, nk = domain
    block = (*form.tile.block, 1)
    strips = -(-ni // form.columns)
    if form.vertical:
        yield FusedLaunch((strips, -(-nj // form.lines), -(-nk // form.tile.depth)), block, 0)
        return
    for level in range(0, nk, MAX_BLOCKS):
        planes = min(MAX_BLOCKS, nk - level)
        yield FusedLaunch((-(-nj // form.tile.depth), strips, planes), block, level)


def sizes_of(form: Form, domain: Domain, sides: OpenSides, launch: FusedLaunch) -> tuple[int, ...]:
    """Return the values of the parameters `SIZE_NAMES`, in that order."""
    reach, ends = form.levels.step.reach, form.levels.ends
    along = list(Axis).index(form.levels.along)
    limits: list[int] = []
    grown: list[int] = []
    inner: list[int] = []
    for at, size in enumerate(domain):
        low_open, high_open = sides[at]
        more = [
            (form.levels.steps - 1) * abs(far) if is_open else 0
            for far, is_open in zip(reach[at], sides[at], strict=True)
        ]
        lows, highs = _ends(form, at)
        # Rows of the stream that are made before there are others may read ghosts as they are.
        begin = -reach[at][0] if at == along and ends[at][0] is not Kind.NONE else 0
        inner.append(max([-_FAR if low_open else begin, *(low - more[0] for low in lows)]))
        inner.append(min([_FAR if high_open else size, *(size + high + more[1] for high in highs)]))
        if at < 2:
            low_made, high_made = (kind is not Kind.NONE for kind in ends[at])
            limits += [-_FAR if low_open or low_made else 0]
            limits += [_FAR if high_open or high_made else size]
            grown += more
    sizes = (*domain, launch.level, form.tile.depth)
    return (*sizes, *limits, *grown, *inner, *inverses_of(launch.grid))


def _ends(form: Form, at: int) -> tuple[list[int], list[int]]:
    """Return how far around the points each field that is loaded is there along an axis."""
    axis = list(Axis)[at]
    step = form.levels.step
    loaded = {node.name for node in form.levels.nodes if node.value is None}
    extents = [step.extents[name][at] for name in sorted(loaded) if axis in step.axes[name]]
    return [low for low, _ in extents], [high for _, high in extents]
