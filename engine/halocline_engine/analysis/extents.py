"""Extents around the domain: of each statement's computation and each field's reads.

One reverse pass over the statements, as GridTools has it: a statement runs where any of its targets
is needed, and what it reads is needed there, moved by the offset. A field is needed on the domain
only; an `If` is one statement with one extent.

In a FORWARD or BACKWARD computation a level reads what later statements left on the levels visited
before, so there the pass is repeated until nothing grows. Where it grows for ever (each level needs
its neighbours of the level before) no finite halo is right, and the program is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from halocline_engine.analysis.levels import (
    field_levels,
    least_levels,
    refuse_outside_temporaries,
)
from halocline_engine.errors import DependenceError, InternalError
from halocline_engine.ir.extent import CENTRE, Facts, Horizontal, enclose, shift
from halocline_engine.ir.nodes import (
    ANY_LEVEL,
    FAR,
    Assign,
    Binary,
    Block,
    Computation,
    Expr,
    If,
    Position,
    Program,
    Read,
    Statement,
    While,
)
from halocline_engine.ir.types import Axis, Order
from halocline_engine.ir.walk import (
    assignments,
    head,
    is_entangled,
    program_bodies,
    reads,
    reads_of,
    statements,
    targets_of,
)

__all__ = ["Needs", "analyse", "exact_reads", "horizontal_needs"]

_Map: TypeAlias = dict[str, Horizontal]
_Blocks: TypeAlias = tuple[tuple[Horizontal, ...], ...]
#: The maps of needs that a read adds to.
_Route: TypeAlias = Callable[["Read"], tuple[_Map, ...]]


@dataclass(frozen=True, slots=True)
class Needs:
    """Places at which each name is needed in any statement, and at which each statement runs.

    `statements` are nested as computations, blocks and bodies are.
    """

    names: Mapping[str, Horizontal]
    statements: tuple[_Blocks, ...]


def analyse(program: Program) -> Facts:
    """Return the extents of a program.

    Raises `DependenceError` where a loop-carried dependence has no finite extent and where a
    temporary is read outside the domain's levels. An entangled `If` has no extent as one statement;
    `passes.split_conditionals` must come before.
    """
    _refuse_entangled(program)
    refuse_outside_temporaries(program)
    needs = horizontal_needs(program)
    _refuse_wide_loops(program, needs)
    least = least_levels(program)
    vertical = field_levels(program, least)
    clipped = horizontal_needs(program, clip=True).names if program.regions else needs.names
    return Facts(
        fields={f.name: (*needs.names[f.name], vertical[f.name]) for f in program.fields},
        temporaries=_stored(program, needs),
        statements=needs.statements,
        min_levels=least,
        in_regions={
            f.name: (*clipped[f.name], vertical[f.name])
            for f in program.fields
            if clipped[f.name] != needs.names[f.name]
        },
    )


def exact_reads(program: Program, facts: Facts) -> dict[str, Horizontal]:
    """Return the exact reads of input fields; they may leave out the point itself."""
    only_read = {field.name for field in program.fields if field.read and not field.written}
    found: dict[str, Horizontal] = {}
    extents = (extents for blocks in facts.statements for extents in blocks)
    for body, several in zip(program_bodies(program), extents, strict=True):
        for statement, ran in zip(body, several, strict=True):
            for read in reads((statement,)):
                if read.name in only_read:
                    there = shift(ran, *read.offset[:2])
                    found[read.name] = enclose(found.get(read.name, there), there)
    return found


def _stored(program: Program, needs: Needs) -> dict[str, Horizontal]:
    """Return where temporaries need memory: wherever they are written.

    An `If` has one extent, so a target is written where any other target of it is needed.
    """
    found = {temporary.name: needs.names[temporary.name] for temporary in program.temporaries}
    for body, extents in zip(
        program_bodies(program),
        (extents for blocks in needs.statements for extents in blocks),
        strict=True,
    ):
        for statement, ran in zip(body, extents, strict=True):
            for assignment in assignments((statement,)):
                if assignment.target in found:
                    found[assignment.target] = enclose(found[assignment.target], ran)
    return found


def horizontal_needs(program: Program, *, clip: bool = False) -> Needs:
    """Return the horizontal part of the analysis; raises `DependenceError` as `analyse` does.

    The needs of names are the same before and after the pass that splits entangled conditionals. If
    `clip`, what statements read in regions is needed only as far as the regions reach.
    """
    axes = {f.name: frozenset(f.axes) for f in program.fields}
    regions: Mapping[str, Position] = program.regions if clip else {}
    pass_ = _Pass({t.name for t in program.temporaries}, axes, regions)
    live: _Map = {item.name: CENTRE for item in (*program.fields, *program.temporaries)}
    found: list[_Blocks] = []
    for computation in reversed(program.computations):
        blocks, live = (
            pass_.parallel(computation, live)
            if computation.order is Order.PARALLEL
            else pass_.sequential(computation, live)
        )
        found.append(blocks)
    return Needs(live, tuple(reversed(found)))


@dataclass(frozen=True, slots=True)
class _Pass:
    """The reverse pass over one computation; maps say where the values of names are needed."""

    temporaries: set[str]
    axes: Mapping[str, frozenset[Axis]]
    regions: Mapping[str, Position]

    def parallel(self, computation: Computation, after: _Map) -> tuple[_Blocks, _Map]:
        """Return the extents of the statements, and the needs before the computation."""
        live = dict(after)
        found = [
            self._body(block, live, lambda _: (live,)) for block in reversed(computation.blocks)
        ]
        return tuple(reversed(found)), live

    def sequential(self, computation: Computation, after: _Map) -> tuple[_Blocks, _Map]:
        """As `parallel`; reads of levels that were visited before are needs at the end of a body.

        A read at the level itself is met by earlier statements of the body, a read of a level
        that was not visited by what stood before the computation. One at any level may be each of
        these, and so may one of what is assigned at other levels.
        """
        visited = -1 if computation.order is Order.FORWARD else 1
        # What else is needed stays as it is; merging that, too, takes long for many computations.
        own: _Map = {name: after[name] for name in _names(computation)}
        before = dict(own)
        carried: _Map = {}
        found: list[tuple[Horizontal, ...]] = []
        for block in reversed(computation.blocks):
            extents, live, carried = self._carry(block, own, carried, before, visited)
            before = _merge(before, live)
            found.append(extents)
        return tuple(reversed(found)), {**after, **_merge(before, carried)}

    def _carry(
        self, block: Block, after: _Map, carried: _Map, before: _Map, visited: int
    ) -> tuple[tuple[Horizontal, ...], _Map, _Map]:
        """Repeat the pass over one body until what it carries from level to level is stable.

        Growth follows a path through carried temporaries; one that is longer than there are
        temporaries visits one of them twice and grows for ever.
        """
        growing: list[str] = []
        scattered = {
            one.target
            for one in assignments(block.body)
            if one.level is not None and one.target in self.temporaries
        }
        for _ in range(len(self.temporaries) + 2):
            live = _merge(after, carried)
            grown = dict(carried)

            def route(read: Read, live: _Map = live, grown: _Map = grown) -> tuple[_Map, ...]:
                if read.offset[2] == ANY_LEVEL or read.name in scattered:
                    return live, grown, before
                direction = read.offset[2] * visited
                return (live if direction == 0 else grown if direction > 0 else before,)

            extents = self._body(block, live, route)
            names = sorted(self.temporaries & grown.keys())
            growing = [name for name in names if grown[name] != carried.get(name, CENTRE)]
            if not growing:
                return extents, live, grown
            carried = grown
        raise _endless(growing[0], block)

    def _body(self, block: Block, live: _Map, route: _Route) -> tuple[Horizontal, ...]:
        """Return the extents of one body, and add what it reads to the maps that `route` names."""
        found = [self._statement(s, live, route) for s in reversed(block.body)]
        return tuple(reversed(found))

    def _statement(self, statement: Statement, live: _Map, route: _Route) -> Horizontal:
        """Return where a statement runs: fields on the domain, temporaries where needed."""
        extent = CENTRE
        if isinstance(statement, If) and is_entangled(statement, self.temporaries):
            for inner in reversed((*statement.then, *statement.otherwise)):
                extent = enclose(extent, self._statement(inner, live, route))
            self._heads(statement, extent, route)
        else:
            targets = {a.target for a in assignments((statement,))} & self.temporaries
            for target in sorted(targets):
                extent = enclose(extent, live[target])
            self._reads(statement, extent, route)
        return extent

    def _reads(self, statement: Statement, extent: Horizontal | None, route: _Route) -> None:
        """Add what a statement on an extent reads to the needs."""
        if extent is None:
            return
        self._heads(statement, extent, route)
        match statement:
            case Assign():
                pass
            case If(condition, then, otherwise):
                for inner in then:
                    self._reads(inner, _clipped(extent, condition, self.regions), route)
                for inner in otherwise:
                    self._reads(inner, extent, route)
            case While(_, body):
                for inner in body:
                    self._reads(inner, extent, route)
            case _:
                assert_never(statement)

    def _heads(self, statement: Statement, extent: Horizontal, route: _Route) -> None:
        """Add what the expressions of a statement itself read on an extent to the needs."""
        for read in (read for expr in head(statement) for read in reads_of(expr)):
            for needs in route(read):
                self._need(needs, read, extent)

    def _need(self, needs: _Map, read: Read, extent: Horizontal) -> None:
        """Add a read on an extent to the needs."""
        i, j = shift(extent, read.offset[0], read.offset[1])
        axes = self.axes.get(read.name)
        if axes is not None:
            i = i if Axis.I in axes else (0, 0)
            j = j if Axis.J in axes else (0, 0)
        needs[read.name] = enclose(needs.get(read.name, CENTRE), (i, j))


def _clipped(
    extent: Horizontal, condition: Expr, regions: Mapping[str, Position]
) -> Horizontal | None:
    """Return the part of an extent in the regions that a condition names; None where none is.

    A side that the domain's own size keeps away from an edge is `FAR` from it.
    """
    if isinstance(condition, Binary) and condition.operator == "and":
        left = _clipped(extent, condition.left, regions)
        return None if left is None else _clipped(left, condition.right, regions)
    region = regions.get(condition.name) if isinstance(condition, Read) else None
    if region is None or region.span is None:
        return extent
    at = list(Axis).index(region.axis)
    (low, high), start, end = extent[at], region.span.start, region.span.end
    if (start.from_end and start.offset >= high) or (not end.from_end and end.offset <= low):
        return None
    low = FAR if start.from_end else max(low, start.offset)
    high = min(high, end.offset) if end.from_end else -FAR
    return ((low, high), extent[1]) if at == 0 else (extent[0], (low, high))


def _refuse_entangled(program: Program) -> None:
    temporaries = {temporary.name for temporary in program.temporaries}
    for body in program_bodies(program):
        if any(is_entangled(statement, temporaries) for statement in body):
            raise InternalError(
                "An 'if' assigns a temporary and reads it at a horizontal offset, and was not "
                "split before the analysis."
            )


def _refuse_wide_loops(program: Program, needs: Needs) -> None:
    """Refuse what writes a field and, around the domain, temporaries, and cannot be split."""
    temporaries = {temporary.name for temporary in program.temporaries}
    extents = (extents for blocks in needs.statements for extents in blocks)
    for body, found in zip(program_bodies(program), extents, strict=True):
        for statement, extent in zip(body, found, strict=True):
            if extent == CENTRE or isinstance(statement, Assign):
                continue
            fields = [name for name in targets_of((statement,)) if name not in temporaries]
            if fields and any(_is_rigid(inner) for inner in statements((statement,))):
                raise DependenceError(
                    f"Field '{fields[0]}' is written in a 'while', or beside an assignment at a"
                    " level, with temporaries that are needed outside the domain.",
                    hint="Write a temporary there, and assign it to the field after that.",
                    rule="loop-extent",
                    line=statement.location.line,
                    column=statement.location.column,
                )


def _is_rigid(statement: Statement) -> bool:
    """Whether a statement cannot be one masked assignment after the other."""
    match statement:
        case While():
            return True
        case Assign():
            return statement.level is not None
        case If():
            return False
        case _:
            assert_never(statement)


def _names(computation: Computation) -> Iterator[str]:
    """Yield the names that a computation reads or assigns, some more than once."""
    for block in computation.blocks:
        yield from (read.name for read in reads(block.body))
        yield from (assignment.target for assignment in assignments(block.body))


def _merge(left: Mapping[str, Horizontal], right: Mapping[str, Horizontal]) -> _Map:
    """Return the needs of both."""
    merged = dict(left)
    for name, extent in right.items():
        merged[name] = enclose(merged.get(name, CENTRE), extent)
    return merged


def _endless(name: str, block: Block) -> DependenceError:
    """Say that no halo is wide enough, at the first read of `name` on another level."""
    location = next(
        statement.location
        for statement in block.body
        for read in reads((statement,))
        if read.name == name and read.offset[2]
    )
    return DependenceError(
        f"Each level needs neighbours of '{name}' on the level before, so the halo would grow "
        "with the number of levels.",
        hint="Take the horizontal offset out of the loop over levels, or compute the neighbours' "
        "value in a computation of its own.",
        rule="loop-carried-extent",
        line=location.line,
        column=location.column,
    )
