"""The code of one position of fused steps: loads, values, exchanges, stores, and all one older."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from halocline_engine.backends.cuda.kernels.temporal.exchange import Exchange
from halocline_engine.backends.cuda.kernels.temporal.form import Form
from halocline_engine.backends.cuda.kernels.temporal.memory import Elements
from halocline_engine.backends.cuda.kernels.temporal.sides import (
    GhostReads,
    has_fixed,
    restored_place,
)
from halocline_engine.backends.cuda.kernels.temporal.values import Registers
from halocline_engine.backends.cuda.text.expressions import TYPES, expression_text
from halocline_engine.backends.cuda.text.fragments import signed
from halocline_engine.errors import InternalError
from halocline_engine.ir.nodes import Read
from halocline_engine.schedule.temporal.levels import Node, Source

__all__ = ["Position", "early_of", "row_ahead", "under_way"]


def early_of(form: Form) -> list[int]:
    """Return the values that are loaded before they are needed: those of the first step."""
    nodes = enumerate(form.levels.nodes)
    return [n for n, node in nodes if node.value is None and node.level == 0]


def under_way(form: Form, number: int, place: int, *, declared: bool = False) -> str:
    """Return the array of a row that is so many positions ahead."""
    if not declared:
        return f"n{number}_{place}"
    registers = Registers(form, number)
    rows = "" if form.rows == 1 else f"[{1 if registers.flat[0] else form.rows}]"
    columns = 1 if registers.flat[1] else form.width
    return f"{TYPES[registers.dtype]} n{number}_{place}{rows}[{columns}]"


def row_ahead(ahead: int) -> str:
    """Return the row that is so far ahead of the position."""
    return f"(y{signed(ahead)})" if ahead else "y"


@dataclass(frozen=True)
class Position:
    """Writes the code of a position; `near` a side of the domain."""

    form: Form
    near: bool

    def lines(self) -> list[str]:
        """Return the code."""
        fetches = self._fetches()
        last = self._last_shared(fetches)
        lines = [] if last is None else ["barrier_wait(&barrier, turn ^ 1);"]
        lines += restored_place(self.form) if self.near else []
        for number, node in enumerate(self.form.levels.nodes):
            registers = Registers(self.form, number)
            lines.append(f"{registers.declared(0)};")
            if node.value is None:
                lines += self._loaded(number, node)
            else:
                for source in fetches[number]:
                    below = Registers(self.form, source)
                    lines += Exchange(below).fetched(range(1, below.kept.ages))
                lines += self._computed(registers, node)
            if node.halo is not None and self.near and has_fixed(self.form):
                lines += self._fixed(registers, node)
            lines += Exchange(registers).fetched(range(1))
            if Exchange(registers).shared:
                lines += Exchange(registers).published()
            if number == last:
                lines += ["__syncwarp();", "if (lane == 0) barrier_arrive(&barrier);"]
                lines.append("turn ^= 1;")
            for name in node.outputs:
                row = row_ahead(-node.lag)
                whole = self.form.vertical and not self.near
                lines += Elements(self.form).stored(registers, name, row, whole=whole)
        for number in range(len(self.form.levels.nodes)):
            lines += Registers(self.form, number).aged()
        return lines

    def _fetches(self) -> dict[int, list[int]]:
        """Return the values of which each that is computed gets elements of other threads.

        Where warps share rows, those are for the next value that is computed, which then does not
        wait for them.
        """
        found: dict[int, list[int]] = {}
        known: set[int] = set()
        before = None
        for number, node in enumerate(self.form.levels.nodes):
            if node.value is None:
                continue
            found[number] = []
            new = dict.fromkeys(one.node for one in node.sources.values() if one.node not in known)
            known.update(new)
            found[number if before is None or not self.form.vertical else before] += new
            before = number
        return found

    def _last_shared(self, fetches: Mapping[int, list[int]]) -> int | None:
        """Return the value after which a warp has read and written all rows that warps share.

        What is computed after it does not wait for other warps.
        """
        shared = {n for n in range(len(self.form.levels.nodes)) if self._is_shared(n)}
        readers = {n for n, sources in fetches.items() if shared & {*sources}}
        return max(shared | readers, default=None)

    def _is_shared(self, number: int) -> bool:
        return Exchange(Registers(self.form, number)).shared > 0

    def _fixed(self, registers: Registers, node: Node) -> list[str]:
        """Return what keeps values beyond sides that are not open as they are."""
        name, before = self.form.halo_of(node.level + 1, node.halo or ""), ""
        if node.before is not None and not self.form.alternate:
            before = Registers(self.form, node.before.node).place(node.before.age)
        return Elements(self.form).fixed(registers, name, row_ahead(-node.lag), before)

    def _loaded(self, number: int, node: Node) -> list[str]:
        """Return the loads of a row, or the row that was under way and the loads of a later one."""
        registers, elements = Registers(self.form, number), Elements(self.form)
        load = elements.loaded_within if self.near else elements.loaded
        ahead = self.form.tile.ahead
        if node.level or not ahead:
            return load(registers, node.name, "", row_ahead(-node.lag))
        lines = self._moved(registers, "", under_way(self.form, number, 0))
        for place in range(1, ahead):
            to, source = (
                under_way(self.form, number, place - 1),
                under_way(self.form, number, place),
            )
            lines += self._moved(registers, to, source)
        last = under_way(self.form, number, ahead - 1)
        lines += load(registers, node.name, last, row_ahead(ahead - node.lag))
        if self.form.fetched and not self.near:
            row = row_ahead(ahead + self.form.fetched - node.lag)
            lines += elements.fetched(node.name, row)
        return lines

    def _moved(self, registers: Registers, to: str, source: str) -> list[str]:
        rows = "" if self.form.rows == 1 else "[q]"
        target = registers.place(0) if not to else f"{to}{rows}[e]"
        return registers.every([f"{target} = {source}{rows}[e];"])

    def _computed(self, registers: Registers, node: Node) -> list[str]:
        """Return the computation of a row, all its elements."""
        form = self.form

        def place(source: Source) -> str:
            return Registers(form, source.node).place(source.age, j=source.j, i=source.i)

        def inside(one: Read) -> str:
            return place(node.sources[one])

        across = "j + q" if form.rows > 1 else "j"
        ghosts = GhostReads(form, node, row_ahead(-node.lag), across, place)
        read = ghosts.text if self.near else inside
        if node.value is None:
            raise InternalError("A value of fused steps has no expression.")
        value = expression_text(node.value, read, form.scalars.__getitem__)
        return registers.every([f"{registers.place(0)} = {value};"])
