"""The code of fused steps: threads stream along an axis with some rows of every value in registers.

A block begins so far ahead of its own positions that all values are there when these begin, and
goes on so far behind them that the last step has made them. What other warps make of the same
points is made again. Positions near a side take the same values one by one, with those beyond the
side as they are in memory, or made of the cells inside; between, several positions are written out
in a row, so that values become older without being moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import fill

from halocline_engine.backends.cuda.kernels.temporal.exchange import Exchange, shared_of
from halocline_engine.backends.cuda.kernels.temporal.form import LANES, Form, parameters_of
from halocline_engine.backends.cuda.kernels.temporal.memory import Elements
from halocline_engine.backends.cuda.kernels.temporal.order import SIDES_FIRST
from halocline_engine.backends.cuda.kernels.temporal.position import (
    Position,
    early_of,
    row_ahead,
    under_way,
)
from halocline_engine.backends.cuda.kernels.temporal.sides import has_fixed, saved_place
from halocline_engine.backends.cuda.kernels.temporal.values import Registers
from halocline_engine.backends.cuda.model import entries
from halocline_engine.backends.cuda.text.expressions import TYPES
from halocline_engine.backends.cuda.text.fragments import indent, signed
from halocline_engine.backends.cuda.text.prelude import prelude
from halocline_engine.errors import InternalError

__all__ = ["KERNEL", "fused_text"]

KERNEL = "kernel0"

#: The strip of a block, where those at both ends, which take longer, come first.
_STRIPS_FIRST = (
    "const int strip_ = (int)blockIdx.y, strips = (int)gridDim.y;",
    "const int strip = strip_ > 1 ? strip_ - 1 : strip_ * (strips - 1);",
)


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


def _parameter(arg: entries.Arg, form: Form) -> str:
    match arg:
        case entries.Size(name):
            return f"const int {name}"
        case entries.StrideValue(kind, axis):
            return f"const index_t s{kind}{'ijk'[axis]}"
        case entries.Pointer(array):
            written = array in form.levels.step.results
            const = "" if written else "const "
            return f"{const}{TYPES[form.dtype(array)]}* __restrict__ {form.names[array]}"
        case entries.ScalarValue(name):
            dtype = next(one.dtype for one in form.levels.step.program.scalars if one.name == name)
            return f"const {TYPES[dtype]} {form.scalars[name]}"
        case entries.BlockPointer():
            raise InternalError("Fused steps have no memory of blocks.")


@dataclass(frozen=True)
class _Writer:
    """Writes the body of the kernel: where a thread is, what it begins with, and its loops."""

    form: Form

    def lines(self) -> list[str]:
        """Return the body of the kernel."""
        form = self.form
        levels = form.levels
        return [
            *self._placed(),
            *Elements(form).bases(),
            *(Elements(form).beyond() if has_fixed(form) else ()),
            *Elements(form).results(),
            *self._room(),
            *saved_place(form),
            *self._declared(),
            f"int y = y0{signed(-levels.start)};",
            f"const int end = y1{signed(levels.lag)};",
            *self._begun(),
            *self._loops(),
        ]

    def _placed(self) -> list[str]:
        """Return where the thread is, and which points are its own."""
        form = self.form
        left, right = form.lanes
        lines = [
            "const int lane = (int)threadIdx.x;",
            *(SIDES_FIRST if form.vertical else _STRIPS_FIRST),
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
            f"const int j0 = line * {form.lines}, j1 = min(j0 + {form.lines}, nj);",
            f"const int j = j0{signed(-low)} + warp * {form.rows};",
            "const int y0 = chunk * depth, y1 = min(y0 + depth, nk);",
            f"const bool inner = first >= iinner0 && first + {LANES * form.width} <= iinner1",
            f"    && first + {(LANES - right) * form.width} <= ni",
            f"    && j0{signed(-low)} >= jinner0 && j0{signed(tall - low)} <= jinner1;",
        ]

    def _room(self) -> Iterator[str]:
        """Yield the declarations of shared memory."""
        if shared_of(self.form):
            yield "extern __shared__ __align__(16) char room[];"
        place = 0
        for number in range(len(self.form.levels.nodes)):
            registers = Registers(self.form, number)
            shared = Exchange(registers).shared
            if not shared:
                continue
            kind = TYPES[registers.dtype]
            yield f"{kind} *const m{number} = ({kind} *)(room + {place});"
            place += shared
        if place:
            yield "__shared__ Barrier barrier;"
            yield "int turn = 0;"
            first = "threadIdx.x == 0 && threadIdx.y == 0"
            yield f"if ({first}) barrier_init(&barrier, {self.form.tile.warps});"
            yield "__syncthreads();"
        if self.form.vertical:
            thread = f"threadIdx.y * {LANES} + threadIdx.x"
            yield f"Place *const saved = (Place *)(room + {place}) + ({thread});"

    def _declared(self) -> Iterator[str]:
        for number in range(len(self.form.levels.nodes)):
            registers = Registers(self.form, number)
            for age in range(1, registers.kept.ages):
                yield f"{registers.declared(age)} = {{}};"
        for number in early_of(self.form):
            for place in range(self.form.tile.ahead):
                yield f"{under_way(self.form, number, place, declared=True)};"

    def _begun(self) -> list[str]:
        """Return the loads of the first rows that are under way when the loop begins."""
        lines: list[str] = []
        for number in early_of(self.form):
            node, registers = self.form.levels.nodes[number], Registers(self.form, number)
            for place in range(self.form.tile.ahead):
                target, row = under_way(self.form, number, place), row_ahead(place - node.lag)
                lines += Elements(self.form).loaded_within(registers, node.name, target, row)
        return lines

    def _loops(self) -> list[str]:
        form = self.form
        ahead, times = form.tile.ahead, max(1, form.tile.unroll)
        axis = "k" if form.vertical else "j"
        back = max(node.lag for node in form.levels.nodes)
        fore = max(
            (ahead + form.fetched if n in early_of(form) else 0) - node.lag
            for n, node in enumerate(form.levels.nodes)
            if node.value is None
        )
        inside = (
            f"y{signed(-back)} >= {axis}inner0 && y{signed(times + max(fore, 0))} <= {axis}inner1"
        )
        whole = Position(form, near=False).lines()
        several = [line for _ in range(times) for line in ("{", *indent(whole), "  ++y;", "}")]
        return [
            "while (y < end) {",
            "  #pragma unroll 1",
            f"  while (inner && y < end && {inside}) {{",
            *indent(indent(several)),
            "  }",
            "  if (y >= end) break;",
            *indent(Position(form, near=True).lines()),
            "  ++y;",
            "}",
        ]
