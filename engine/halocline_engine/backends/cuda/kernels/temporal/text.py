"""The code of fused steps: threads stream along an axis with some rows of every value in registers.

A block begins so far ahead of its own positions that all values are there when these begin, and
goes on so far behind them that the last step has made them. What other warps make of the same
points is made again. Positions near a side take the same values one by one, with those beyond the
side as they are in memory; between, several positions are written out in a row, so that values
become older without being moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import fill

from halocline_engine.backends.cuda.kernels.temporal.form import LANES, Form, parameters_of
from halocline_engine.backends.cuda.kernels.temporal.memory import Elements
from halocline_engine.backends.cuda.kernels.temporal.values import Registers
from halocline_engine.backends.cuda.model.entries import (
    Arg,
    BlockPointer,
    Pointer,
    ScalarValue,
    Size,
    StrideValue,
)
from halocline_engine.backends.cuda.text.expressions import TYPES, expression_text
from halocline_engine.backends.cuda.text.fragments import indent, signed
from halocline_engine.backends.cuda.text.prelude import prelude
from halocline_engine.errors import InternalError
from halocline_engine.ir.nodes import Read
from halocline_engine.schedule.temporal.levels import Node

__all__ = ["KERNEL", "fused_text", "shared_of"]

KERNEL = "kernel0"


def fused_text(form: Form) -> str:
    """Return a translation unit with the kernel that makes the steps of a form."""
    writer = _Writer(form)
    tile = form.tile
    blocks = f", {-(-tile.resident // tile.warps)}" if tile.resident else ""
    arguments = ", ".join(_parameter(arg, form) for arg in parameters_of(form))
    wrapped = fill(arguments, 92, initial_indent="    ", subsequent_indent="    ")
    lines = [
        f'extern "C" __global__ void __launch_bounds__({tile.threads}{blocks}) {KERNEL}(',
        f"{wrapped}) {{",
        *indent(writer.lines()),
        "}",
    ]
    kernel = "\n".join(lines)
    index = "long long" if form.wide else "int"
    parts = (f"typedef {index} index_t;\n", prelude(kernel), kernel)
    return "\n".join(part for part in parts if part).rstrip() + "\n"


def shared_of(form: Form) -> int:
    """Return the bytes of dynamic shared memory of a block."""
    return sum(Registers(form, n).shared for n in range(len(form.levels.nodes)))


def _parameter(arg: Arg, form: Form) -> str:
    match arg:
        case Size(name):
            return f"const int {name}"
        case StrideValue(kind, axis):
            return f"const index_t s{kind}{'ijk'[axis]}"
        case Pointer(array):
            written = array in form.levels.step.results
            const = "" if written else "const "
            return f"{const}{TYPES[form.dtype(array)]}* __restrict__ {form.names[array]}"
        case ScalarValue(name):
            dtype = next(one.dtype for one in form.levels.step.program.scalars if one.name == name)
            return f"const {TYPES[dtype]} {form.scalars[name]}"
        case BlockPointer():
            raise InternalError("Fused steps have no memory of blocks.")


@dataclass(frozen=True)
class _Writer:
    form: Form

    def lines(self) -> list[str]:
        """Return the body of the kernel."""
        form = self.form
        levels = form.levels
        return [
            *self._placed(),
            *Elements(form).bases(),
            *(Elements(form).beyond() if self._has_sides() else ()),
            *self._room(),
            *self._declared(),
            f"int y = y0{signed(-levels.start)};",
            f"const int end = y1{signed(levels.lag)};",
            *self._begun(),
            *self._loops(),
        ]

    def _has_sides(self) -> bool:
        """Whether any value may be a fixed one beyond a side."""
        return any(node.halo is not None for node in self.form.levels.nodes)

    def _placed(self) -> list[str]:
        """Return where the thread is, and which points are its own."""
        form = self.form
        left, right = form.lanes
        lines = [
            "const int lane = (int)threadIdx.x;",
            *_first("strip", "x" if form.vertical else "y"),
            f"const int first = strip * {form.columns}{signed(-left * form.width)};",
            f"const int x = first + lane * {form.width};",
            f"const bool own = lane >= {left} && lane < {LANES - right} && x < ni;",
        ]
        if not form.vertical:
            return [
                *lines,
                "const int k = level + (int)blockIdx.z;",
                "const int y0 = (int)blockIdx.x * depth, y1 = min(y0 + depth, nj);",
                f"const bool inner = first >= iinner0 && first + {LANES * form.width} <= iinner1;",
            ]
        tall = form.tile.block[1] * form.rows
        low = form.levels.low[1]
        return [
            *lines,
            "const int warp = (int)threadIdx.y;",
            *_first("line", "y"),
            f"const int j0 = line * {form.lines}, j1 = min(j0 + {form.lines}, nj);",
            f"const int j = j0{signed(-low)} + warp * {form.rows};",
            "const int y0 = (int)blockIdx.z * depth, y1 = min(y0 + depth, nk);",
            f"const bool inner = first >= iinner0 && first + {LANES * form.width} <= iinner1",
            f"    && j0{signed(-low)} >= jinner0 && j0{signed(tall - low)} <= jinner1;",
        ]

    def _room(self) -> Iterator[str]:
        """Yield the declarations of shared memory."""
        place = 0
        for number in range(len(self.form.levels.nodes)):
            registers = Registers(self.form, number)
            if not registers.shared:
                continue
            if not place:
                yield "extern __shared__ __align__(16) char room[];"
            kind = TYPES[registers.dtype]
            yield f"{kind} *const m{number} = ({kind} *)(room + {place});"
            place += registers.shared

    def _declared(self) -> Iterator[str]:
        for number in range(len(self.form.levels.nodes)):
            registers = Registers(self.form, number)
            for age in range(1, registers.kept.ages):
                yield f"{registers.declared(age)} = {{}};"
        for number in self._early():
            for place in range(self.form.tile.ahead):
                yield f"{self._next(number, place, declared=True)};"

    def _early(self) -> list[int]:
        """Return the values that are loaded before they are needed: those of the first step."""
        nodes = enumerate(self.form.levels.nodes)
        return [n for n, node in nodes if node.value is None and node.level == 0]

    def _next(self, number: int, place: int, *, declared: bool = False) -> str:
        if not declared:
            return f"n{number}_{place}"
        registers, form = Registers(self.form, number), self.form
        rows = "" if form.rows == 1 else f"[{1 if registers.flat[0] else form.rows}]"
        columns = 1 if registers.flat[1] else form.width
        return f"{TYPES[registers.dtype]} n{number}_{place}{rows}[{columns}]"

    def _begun(self) -> list[str]:
        """Return the loads of the first rows that are under way when the loop begins."""
        lines: list[str] = []
        for number in self._early():
            node, registers = self.form.levels.nodes[number], Registers(self.form, number)
            for place in range(self.form.tile.ahead):
                lines += Elements(self.form).loaded_within(
                    registers, node.name, self._next(number, place), _row(place - node.lag)
                )
        return lines

    def _loops(self) -> list[str]:
        form = self.form
        ahead, times = form.tile.ahead, max(1, form.tile.unroll)
        axis = "k" if form.vertical else "j"
        back = max(node.lag for node in form.levels.nodes)
        fore = max(
            (ahead if n in self._early() else 0) - node.lag
            for n, node in enumerate(form.levels.nodes)
            if node.value is None
        )
        inside = (
            f"y{signed(-back)} >= {axis}inner0 && y{signed(times + max(fore, 0))} <= {axis}inner1"
        )
        whole = self._position(near=False)
        several = [line for _ in range(times) for line in ("{", *indent(whole), "  ++y;", "}")]
        return [
            "while (y < end) {",
            "  #pragma unroll 1",
            f"  while (inner && y < end && {inside}) {{",
            *indent(indent(several)),
            "  }",
            "  if (y >= end) break;",
            *indent(self._position(near=True)),
            "  ++y;",
            "}",
        ]

    def _position(self, *, near: bool) -> list[str]:
        """Return the code of one position; `near` a side of the domain."""
        lines: list[str] = []
        fetched: set[int] = set()
        for number, node in enumerate(self.form.levels.nodes):
            registers = Registers(self.form, number)
            lines.append(f"{registers.declared(0)};")
            if node.value is None:
                lines += self._loaded(number, node, near=near)
            else:
                for source in dict.fromkeys(one.node for one in node.sources.values()):
                    if source not in fetched:
                        fetched.add(source)
                        below = Registers(self.form, source)
                        lines += below.fetched(range(1, below.kept.ages))
                lines += self._computed(registers, node)
            if node.halo is not None and near:
                lines += self._fixed(registers, node)
            lines += registers.fetched(range(1))
            if registers.shared:
                lines += registers.published()
            for name in node.outputs:
                lines += Elements(self.form).stored(registers, name, _row(-node.lag))
        for number in range(len(self.form.levels.nodes)):
            lines += Registers(self.form, number).aged()
        if shared_of(self.form):
            lines.append("__syncthreads();")
        return lines

    def _fixed(self, registers: Registers, node: Node) -> list[str]:
        """Return what keeps values beyond sides that are not open as they are."""
        name, before = self.form.halo_of(node.level + 1, node.halo or ""), ""
        if node.before is not None and not self.form.alternate:
            before = Registers(self.form, node.before.node).place(node.before.age)
        return Elements(self.form).fixed(registers, name, _row(-node.lag), before)

    def _loaded(self, number: int, node: Node, *, near: bool) -> list[str]:
        """Return the loads of a row, or the row that was under way and the loads of a later one."""
        registers, elements = Registers(self.form, number), Elements(self.form)
        load = elements.loaded_within if near else elements.loaded
        ahead = self.form.tile.ahead
        if node.level or not ahead:
            return load(registers, node.name, "", _row(-node.lag))
        lines = self._moved(registers, "", self._next(number, 0))
        for place in range(1, ahead):
            to, source = self._next(number, place - 1), self._next(number, place)
            lines += self._moved(registers, to, source)
        last = self._next(number, ahead - 1)
        return [*lines, *load(registers, node.name, last, _row(ahead - node.lag))]

    def _moved(self, registers: Registers, to: str, source: str) -> list[str]:
        rows = "" if self.form.rows == 1 else "[q]"
        target = registers.place(0) if not to else f"{to}{rows}[e]"
        return registers.every([f"{target} = {source}{rows}[e];"])

    def _computed(self, registers: Registers, node: Node) -> list[str]:
        """Return the computation of a row, all its elements."""
        form = self.form

        def read(one: Read) -> str:
            source = node.sources[one]
            return Registers(form, source.node).place(source.age, j=source.j, i=source.i)

        if node.value is None:
            raise InternalError("A value of fused steps has no expression.")
        value = expression_text(node.value, read, form.scalars.__getitem__)
        return registers.every([f"{registers.place(0)} = {value};"])


def _first(name: str, axis: str) -> list[str]:
    """Return the number of a block where those at both ends, which take longer, come first."""
    return [
        f"const int {name}_ = (int)blockIdx.{axis}, {name}s = (int)gridDim.{axis};",
        f"const int {name} = {name}_ > 1 ? {name}_ - 1 : {name}_ * ({name}s - 1);",
    ]


def _row(ahead: int) -> str:
    """Return the row that is so far ahead of the position."""
    return f"(y{signed(ahead)})" if ahead else "y"
