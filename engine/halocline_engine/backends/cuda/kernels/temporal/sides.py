"""What positions near the sides of a domain need beside those inside.

They read the cells that a ghost is made of. The place of a thread lies in shared memory for them:
so it takes no registers inside, and is not computed at each position.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from halocline_engine.analysis.boundaries import Kind
from halocline_engine.backends.cuda.kernels.temporal.form import Form
from halocline_engine.backends.cuda.text.expressions import TYPES
from halocline_engine.backends.cuda.text.fragments import signed
from halocline_engine.ir.nodes import Read
from halocline_engine.ir.types import Axis
from halocline_engine.schedule.temporal.ghosts import Ghost, Offset, ghosts_along
from halocline_engine.schedule.temporal.levels import Node, Source

__all__ = ["GhostReads", "has_fixed", "restored_place", "saved_place"]


def has_fixed(form: Form) -> bool:
    """Whether values may be fixed ones: beyond a side where no ghosts are made."""
    axes = form.levels.ends if form.vertical else form.levels.ends[:2]
    is_closed = any(kind is Kind.NONE for ends in axes for kind in ends)
    return is_closed and any(node.halo is not None for node in form.levels.nodes)


def saved_place(form: Form) -> list[str]:
    """Return what saves the place of a thread, along K."""
    if not form.vertical:
        return []
    return [f"*saved = Place{{x, j, {'beyond' if has_fixed(form) else '0u'}, mine}};"]


def restored_place(form: Form) -> list[str]:
    """Return the place of a thread, and whether any of its warp has points beyond fixed sides."""
    lines: list[str] = []
    if form.vertical:
        lines += [
            "const Place at = *saved;",
            "const int x = at.x, j = at.j;",
            "const unsigned mine = at.mine;",
        ]
        lines += ["const unsigned beyond = at.beyond;"] if has_fixed(form) else []
    if has_fixed(form):
        lines.append("const bool some = __any_sync(0xffffffffu, beyond != 0u);")
    return lines


@dataclass(frozen=True)
class GhostReads:
    """Writes what a value reads of the step before it; `place` is the text of an element.

    `row` is the row that the value is of, and `across` a thread's own one across the stream.
    """

    form: Form
    node: Node
    row: str
    across: str
    place: Callable[[Source], str]

    def text(self, read: Read) -> str:
        """Return a read at any point of the domain, and those beyond it that are needed."""
        around = self.node.around.get(read)
        if around is None:
            return self.place(self.node.sources[read])
        kind = TYPES[self.form.levels.nodes[self.node.sources[read].node].dtype]

        def along(axes: int, at: Offset) -> str:
            """Return what the rules of the first axes give at an offset."""
            if not axes:
                return self.place(around[at])
            axis = axes - 1
            text = along(axis, at)
            for ghost in self._ghosts(read, axis):
                cells = [along(axis, _with(at, axis, cell)) for cell in ghost.cells]
                value = cells[0]
                if len(cells) == 2:
                    last, inner = cells
                    value = (
                        f"({kind})({last} + ({kind}){ghost.distance} * ({kind})({last} - {inner}))"
                    )
                text = f"({self._is_at(axis, ghost)} ? {value} : {text})"
            return text

        return along(3, read.offset)

    def _ghosts(self, read: Read, axis: int) -> tuple[Ghost, ...]:
        wanted = self.form.levels.step.wanted[self.node.name]
        return ghosts_along(self.form.levels.ends[axis], read.offset[axis], wanted[axis])

    def _is_at(self, axis: int, ghost: Ghost) -> str:
        """Return whether a point is where a read is this ghost."""
        name = "ijk"[axis]
        if list(Axis)[axis] is self.form.levels.along:
            point = self.row
        else:
            point = "x + e" if name == "i" else self.across
        last = f"n{name}{signed(ghost.at - 1)}"
        return f"{point} == {ghost.at if ghost.low else last}"


def _with(offset: Offset, axis: int, cell: int) -> Offset:
    i, j, k = (cell if at == axis else own for at, own in enumerate(offset))
    return i, j, k
