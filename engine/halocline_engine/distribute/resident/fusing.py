"""Steps of a bundle that a target makes at once, in one pass through memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from halocline_engine.analysis.boundaries import UNMADE, Kind, MadeSides, Side, cells_of, is_negated
from halocline_engine.backends.base import Executable, OpenSides, Placed
from halocline_engine.backends.fusing import CLOSED, FusingExecutable
from halocline_engine.datasets.grids.match import FieldUse, Role
from halocline_engine.distribute.grid.geometry import Geometry, Layout
from halocline_engine.distribute.grid.partition import Box, Span, shares
from halocline_engine.schedule.temporal.ghosts import inward
from halocline_engine.schedule.temporal.step import Refused

__all__ = [
    "Group",
    "best_bundle",
    "divided",
    "feedback_of",
    "groups_of",
    "may_fuse",
    "unfused_layout",
]


@dataclass(frozen=True, slots=True)
class Group:
    """Steps of a bundle that are made together: the first and last one, and what makes all of them.

    `executable` is None for the block's own, which makes one.
    """

    first: int
    last: int
    executable: Executable | None


def may_fuse(layout: Layout) -> bool:
    """Say whether steps may be fused, as far as roles of fields and boundaries tell."""
    return not unfused_layout(layout)


def unfused_layout(layout: Layout) -> str:
    """Return why scalars, roles of fields or boundaries let no steps be fused, or nothing."""
    if layout.varying:
        return "scalars change from step to step"
    for use in layout.uses:
        if use.role is Role.IN_PLACE:
            return f"'{use.name}' is updated in place"
        if not _is_written(use):
            return f"'{use.name}' is not written everywhere"
    fed = [
        (use.name, [(_made(line.low), _made(line.high)) for line in lines])
        for use, lines in zip(layout.uses, layout.lines, strict=True)
        if use.kept
    ]
    if layout.grid.positions:
        return "fields lie at centres and at faces"
    for name, sides in fed:
        if any(is_negated(kind) for pair in sides for kind in pair):
            return f"'{name}' is antisymmetric at a boundary"
        if sides != fed[0][1]:
            return f"'{fed[0][0]}' and '{name}' have different boundaries"
    return ""


def best_bundle(
    executable: Executable, layout: Layout, box: Box, bundle: int, most: int, *, alone: bool
) -> int:
    """Return how many steps a block makes between two exchanges, `most` at most.

    Whole groups of fused steps where these pay. Where steps are made one by one it is `bundle`, or
    as many as pay where all blocks are `alone` in one memory.
    """
    if most == 1 or not isinstance(executable, FusingExecutable) or isinstance(executable, Placed):
        return bundle
    i, j, k = box
    ends = _ends_of(layout)
    domain = (i.size, j.size, k.size)
    steps = 1
    if may_fuse(layout):
        steps = executable.fused_steps(feedback_of(layout), domain, ends=ends)
    if steps == 1 and alone and any(layout.endless):
        return max(bundle, executable.steps_between_fills(feedback_of(layout), domain, most))
    if steps == 1:
        return bundle
    return steps * max(1, min(most, bundle) // steps)


def groups_of(executable: Executable, layout: Layout, cells: Geometry, steps: int) -> list[Group]:
    """Return how a block makes the last `steps` steps of its bundle."""
    count = len(cells.domains)
    first = count - steps
    alone = [Group(step, step, None) for step in range(first, count)]
    if steps == 1 or not isinstance(executable, FusingExecutable) or isinstance(executable, Placed):
        return alone
    if not may_fuse(layout):
        return alone
    i, j, k = cells.domains[-1]
    ends = _ends_of(layout)
    best = executable.fused_steps(feedback_of(layout), (i.size, j.size, k.size), ends=ends)
    if best == 1:
        return alone
    return list(_fused(executable, layout, cells, range(first, count), best))


def _fused(
    executable: FusingExecutable[Executable],
    layout: Layout,
    cells: Geometry,
    steps: range,
    best: int,
) -> Iterator[Group]:
    for group in shares(steps, -(-len(steps) // best)):
        last = cells.domains[group[-1]]
        sides = _open_sides(layout, cells.domains[group[0]], last, len(group))
        found = Refused("sides are open in part")
        ends = UNMADE if sides is None else _ends_of(layout, sides)
        if sides is not None and len(group) > 1 and _has_cells(layout, ends, last):
            found = executable.fused(len(group), feedback_of(layout), sides, ends)
        if isinstance(found, Refused):
            yield from (Group(step, step, None) for step in group)
        else:
            yield Group(group[0], group[-1], found)


def divided(
    executable: Executable, layout: Layout, cells: Geometry, group: Group, parts: Sequence[Box]
) -> dict[Box, Executable | None] | None:
    """Return what makes the steps of a group on parts of its domain, in any order.

    None where a part needs what others compute in the same steps, or has no code.
    """
    if isinstance(executable, Placed) or layout.named or _reads_written(layout):
        return None
    if group.executable is None:
        return dict.fromkeys(parts)
    whole, count = cells.domains[group.last], group.last - group.first + 1
    sides = _open_sides(layout, cells.domains[group.first], whole, count)
    if sides is None or not isinstance(executable, FusingExecutable):
        return None
    found: dict[Box, Executable | None] = {}
    for box in parts:
        i, j, k = (
            (low or part.start > span.start, high or part.stop < span.stop)
            for (low, high), part, span in zip(sides, box, whole, strict=True)
        )
        ends = _ends_of(layout, (i, j, k))
        if not _has_cells(layout, ends, box):
            return None
        several = cast(
            "Executable | Refused", executable.fused(count, feedback_of(layout), (i, j, k), ends)
        )
        if isinstance(several, Refused):
            return None
        found[box] = several
    return found


def _reads_written(layout: Layout) -> bool:
    """Whether a program reads a field that it writes at other points of a plane."""
    return any(
        use.role not in (Role.INPUT, Role.FED) and any(any(along) for along in reach[:2])
        for use, reach in zip(layout.uses, layout.reaches, strict=True)
    )


def _open_sides(layout: Layout, first: Box, last: Box, steps: int) -> OpenSides | None:
    """Return at which sides earlier steps compute more; None where they do so in part.

    Blocks that are near an end of the data, but not at it, have such sides.
    """
    found: list[tuple[bool, bool]] = []
    for wide, narrow, (low, high) in zip(first, last, layout.reach, strict=True):
        if not narrow.size:
            return None
        sides = _growth(wide, narrow, (steps - 1) * -low, (steps - 1) * high)
        if sides is None:
            return None
        found.append(sides)
    i, j, k = found
    return None if any(k) else (i, j, k)


def _growth(wide: Span, narrow: Span, low: int, high: int) -> tuple[bool, bool] | None:
    below, above = narrow.start - wide.start, wide.stop - narrow.stop
    if below not in (0, low) or above not in (0, high):
        return None
    return below > 0, above > 0


def _is_written(use: FieldUse) -> bool:
    """Whether a field that steps write has values of the last one alone."""
    return use.complete or use.role not in (Role.FEEDS, Role.CREATED)


def _ends_of(layout: Layout, sides: OpenSides = CLOSED) -> MadeSides:
    """Return how ghosts follow from cells on the sides of a block that are not open."""
    fed = (lines for use, lines in zip(layout.uses, layout.lines, strict=True) if use.kept)
    i, j, k = (
        (_made(line.low, is_open=opens[0]), _made(line.high, is_open=opens[1]))
        for line, opens in zip(next(fed, layout.lines[0]), sides, strict=True)
    )
    return i, j, k


def _has_cells(layout: Layout, ends: MadeSides, last: Box) -> bool:
    """Whether a block's last step computes all cells that ghosts are made of, as others then do."""
    return all(
        span.size > max(inward(kinds[0], -low), inward(kinds[1], high))
        for kinds, (low, high), span in zip(ends, layout.reach, last, strict=True)
    )


def _made(side: Side, *, is_open: bool = False) -> Kind:
    return Kind.NONE if is_open or not cells_of(side.kind, 1) else side.kind


def feedback_of(layout: Layout) -> Mapping[str, str]:
    """Return the input that each output becomes in the next step."""
    return {use.name: use.partner for use in layout.uses if use.role is Role.FEEDS}
