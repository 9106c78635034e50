"""The loops of a kernel over points, or over columns whose levels follow each other, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from halocline_engine.backends.cpu.builtins import SCOPES
from halocline_engine.backends.cpu.text.lanes import Lanes, may_go_in_step
from halocline_engine.backends.cpu.text.layout import Layout
from halocline_engine.backends.cpu.text.regions import columns_in_none, masks_of, parted
from halocline_engine.backends.cpu.text.spell import spell
from halocline_engine.ir.nodes import (
    ANY_LEVEL,
    Assign,
    Bound,
    Expr,
    If,
    Offset,
    Read,
    Statement,
    While,
)
from halocline_engine.ir.types import Axis, DType, Order
from halocline_engine.ir.walk import (
    accesses_of,
    assignments,
    irregular,
    statements,
    targets_of,
)
from halocline_engine.schedule.nodes import Kernel, Section
from halocline_engine.schedule.rare import usual_body

__all__ = ["CpuArray", "Loops", "level_text"]

#: An array and an offset, which is 0 along the inner axis.
_Row: TypeAlias = tuple[str, Offset]


@dataclass(frozen=True, slots=True)
class CpuArray:
    """An array as the text knows it."""

    text: str
    dtype: DType
    axes: tuple[Axis, ...]
    adjacent: bool


def _scopes(kernel: Kernel, layout: Layout, arrays: Mapping[str, CpuArray]) -> dict[str, int]:
    """Return the number of each array that the kernel writes; of all arrays where two may be one.

    Arrays that share a number may share memory.
    """
    if not layout.apart:
        return dict.fromkeys(arrays, 0)
    bodies = [statement for section in kernel.sections for statement in section.body]
    written = [name for name in dict.fromkeys(targets_of(bodies)) if name in arrays]
    return {name: min(n, SCOPES - 1) for n, name in enumerate(written)}


def _columns_in_no_region(
    kernel: Kernel, arrays: Mapping[str, CpuArray], inner: Axis, masks: frozenset[str]
) -> Iterator[str]:
    """Yield what loops along I need to know of narrow regions.

    Where no region of rows lies, columns matter that a region has whole.
    """
    bodies = [statement for section in kernel.sections for statement in section.body]
    if masks_of(bodies, masks) and inner is Axis.I:
        rows = {name for name in masks & arrays.keys() if Axis.I not in arrays[name].axes}
        registers = {register.name for register in kernel.registers}
        left = masks_of(usual_body(bodies, rows, registers), masks)
        along = [one for one in left if Axis.I in arrays[one.name].axes]
        places = [(arrays[one.name].text, one.offset[0]) for one in along]
        yield from (f"    {line}" for line in columns_in_none(places))


class Loops:
    """Writes the loops of a kernel; the names of registers and pointers are local to them."""

    def __init__(
        self,
        kernel: Kernel,
        layout: Layout,
        arrays: Mapping[str, CpuArray],
        scalars: Mapping[str, str],
        masks: frozenset[str],
        *,
        zigzag: bool,
    ) -> None:
        self.kernel = kernel
        self.masks = masks
        self.inner = layout.inner
        self.arrays = arrays
        self.scalars = scalars
        self.zigzag = zigzag and kernel.order is Order.PARALLEL
        self.registers = {t.name: f"r{n}" for n, t in enumerate(kernel.registers)}
        self.scopes = _scopes(kernel, layout, arrays)
        self.pointers: dict[_Row, str] = {}
        self.library: Set[str] = frozenset()

    def lines(self) -> Iterator[str]:
        """Yield the loop nest, indented for a function's body."""
        inner, kernel = self.inner.lower(), self.kernel
        yield from _columns_in_no_region(kernel, self.arrays, self.inner, self.masks)
        if kernel.order is not Order.PARALLEL:
            yield from self._columns()
            return
        if self.zigzag:
            yield "    turned = False"
        yield "    for start in range(j0, j1, rows):"
        yield "        end = min(start + rows, j1)"
        yield f"        for left in range({inner}0, {inner}1, width):"
        yield f"            right = min(left + width, {inner}1)"
        outer = "k" if self.inner is Axis.I else "i"
        for section in kernel.sections:
            yield from self._nest(section, [outer, "j", inner])
        if self.zigzag:
            yield "            turned = not turned"

    def _columns(self) -> Iterator[str]:
        """Yield the nest of a kernel whose levels follow each other; along I it has strips."""
        if self.inner is Axis.I:
            heads = [
                "for left in range(i0, i1, width):",
                "    right = min(left + width, i1)",
                "    for j in range(j0, j1):",
            ]
            rest = ["k", "i"]
        else:
            heads = ["for i in range(i0, i1):", "    for j in range(j0, j1):"]
            rest = ["k"]
        yield from (f"    {line}" for line in heads)
        for section in self.kernel.sections:
            yield from self._nest(section, rest)

    def _nest(self, section: Section, axes: list[str]) -> Iterator[str]:
        """Yield the loops of a section inside two others."""
        self.pointers = _rows(section, self.registers, self.inner)
        *outer, inner = axes
        self.library = _library(section)
        found = masks_of(section.body, self.masks)
        depth = 3
        for axis in outer:
            yield from ("    " * depth + line for line in self._loop(axis, section))
            depth += 1
        pad = "    " * depth
        for key, name in self.pointers.items():
            yield f"{pad}{name} = {_row(self._array(*key), key[1], self.inner)}"
        (line,) = self._loop(inner, section)
        if not found:
            whole = _whole(self, section, line, *self._bounds(inner, section))
            yield from (pad + one for one in whole)
            return
        across = [self._read(m) for m in found if self.inner not in self.arrays[m.name].axes]
        usual = usual_body(section.body, self.masks, self.registers.keys())
        loops = parted(line, self.inner, across)
        for heads, body in zip(loops, (section.body, usual), strict=True):
            if body:
                yield from (pad + head for head in heads)
                yield from self.body(body, depth + 1 + heads[-1].startswith(" "))

    def _loop(self, axis: str, section: Section) -> tuple[str, ...]:
        """Return the head of a loop; where columns turn, the outer ones of every other go back."""
        order = section.order or self.kernel.order
        turned = self.zigzag and axis != self.inner.lower()
        return _heads(axis, *self._bounds(axis, section), order, turned=turned)

    def _bounds(self, axis: str, section: Section) -> tuple[str, str]:
        """Return the first index of a loop and the one past its last, as text."""
        parallel = self.kernel.order is Order.PARALLEL
        if axis == "k":
            start, end = level_text(section.interval.start), level_text(section.interval.end)
            if not parallel:
                return start, end
            low, high = ("k0", "k1") if self.inner is Axis.I else ("left", "right")
            return f"max({low}, {start})", f"min({high}, {end})"
        if axis == "j":
            return "start", "end"
        return ("left", "right") if self.inner is Axis.I else ("i0", "i1")

    def body(self, body: tuple[Statement, ...], depth: int) -> Iterator[str]:
        """Yield statements at a point, so deep."""
        pad = "    " * depth
        for statement in body:
            match statement:
                case Assign(target, value, _) if target in self.registers:
                    yield f"{pad}{self.registers[target]} = {self.spelled(value)}"
                case Assign(target, value, _, level):
                    place = self._at(target, (0, 0, 0), level)
                    scope = self._scope(target, (0, 0, 0))
                    yield f"{pad}store_{scope}({place}, {self.spelled(value)})"
                case If(condition, then, otherwise, _):
                    yield f"{pad}if {self.spelled(condition)}:"
                    yield from self.body(then, depth + 1)
                    if otherwise:
                        yield f"{pad}else:"
                        yield from self.body(otherwise, depth + 1)
                case While(condition, inner, _):
                    yield f"{pad}while {self.spelled(condition)}:"
                    yield from self.body(inner, depth + 1)
                case _:
                    assert_never(statement)

    def spelled(self, value: Expr) -> str:
        """Return an expression at a point, as text."""
        return spell(value, self._read, lambda p: self.scalars[p.name], self.library)

    def _read(self, read: Read) -> str:
        if read.name in self.registers:
            return self.registers[read.name]
        scope = self._scope(read.name, read.offset)
        load = "load" if scope is None else f"load_{scope}"
        return f"{load}({self._at(read.name, read.offset, read.level)})"

    def _at(self, name: str, offset: Offset, level: Expr | None) -> str:
        """Return pointer and offset in bytes, as arguments, of an element at an offset or level."""
        if level is None:
            return self._place(name, offset)
        i, j, _ = offset
        along = f"({self.spelled(level)}) * {self.arrays[name].text}_k"
        if self.inner is Axis.K:
            return f"{self.pointers[(name, (i, j, 0))]}, {along}"
        return f"{self._place(name, (i, j, ANY_LEVEL))} + {along}"

    def _place(self, name: str, offset: Offset) -> str:
        pointer = self.pointers[(name, _across(offset, self.inner))]
        return f"{pointer}, {_along(self._array(name, offset), offset, self.inner)}"

    def _array(self, name: str, offset: Offset) -> CpuArray:
        """Return the array that has an element at an offset."""
        del offset
        return self.arrays[name]

    def _scope(self, name: str, offset: Offset) -> int | None:
        """Return the scope of an access, or None where the array is only read."""
        del offset
        return self.scopes.get(name)


def _whole(loops: Loops, section: Section, head: str, low: str, high: str) -> Iterator[str]:
    """Yield the innermost loop, over points that take turns together where that pays."""
    kernel = loops.kernel
    apart = kernel.order is Order.PARALLEL or loops.inner is Axis.I
    if apart and may_go_in_step(section.body):
        types = {register.name: register.dtype for register in kernel.registers}
        scope = max(loops.scopes.values(), default=-1) + 1
        index = loops.inner.lower()
        lanes = Lanes(index, types, loops.registers, loops.spelled, loops.body, scope)
        yield from lanes.lines(section.body, low, high)
    else:
        yield head
        yield from loops.body(section.body, 1)


def _heads(axis: str, low: str, high: str, order: Order, *, turned: bool) -> tuple[str, ...]:
    """Return the head of a loop, with the index of one that may go back."""
    match order:
        case Order.PARALLEL if turned:
            index = f"({low} + {high} - 1 - step_{axis}) if turned else step_{axis}"
            return f"for step_{axis} in range({low}, {high}):", f"    {axis} = {index}"
        case Order.BACKWARD if axis == "k":
            return (f"for k in range({high} - 1, {low} - 1, -1):",)
        case Order.PARALLEL | Order.FORWARD | Order.BACKWARD:
            return (f"for {axis} in range({low}, {high}):",)
        case _:
            assert_never(order)


def _library(section: Section) -> Set[str]:
    """Return functions that should be the C library's, whatever the order of axes.

    Loops with others in them have no vectors: those of points that do not go in step, and some that
    look values up, where a power takes three times as long.
    """
    if any(isinstance(one, While) for one in statements(section.body)):
        return frozenset() if may_go_in_step(section.body) else {"exp", "log", "pow"}
    return {"pow"} if irregular(section.body) else frozenset()


def _along(array: CpuArray, offset: Offset, inner: Axis) -> str:
    """Return how many bytes behind its row's first element one lies, as text."""
    if inner not in array.axes:
        return "0"
    index, step = inner.lower(), offset[list(Axis).index(inner)]
    if array.adjacent:
        size = array.dtype.itemsize
        moved = f" {'-' if step < 0 else '+'} {abs(step) * size}" if step else ""
        return f"{index} * {size}{moved}"
    place = f"({index} {'-' if step < 0 else '+'} {abs(step)})" if step else index
    return f"{place} * {array.text}_{index}"


def _across(offset: Offset, inner: Axis) -> Offset:
    """Return an offset without what it has along the inner axis."""
    i, j, k = (0 if axis is inner else step for axis, step in zip(Axis, offset, strict=True))
    return i, j, k


def _rows(section: Section, registers: Mapping[str, str], inner: Axis) -> dict[_Row, str]:
    """Name a pointer for every array and offset across the inner axis."""
    assigned = (
        (one.target, (0, 0, 0 if one.level is None else ANY_LEVEL))
        for one in assignments(section.body)
    )
    keys: dict[_Row, None] = {}
    for name, offset in (*accesses_of(section.body), *assigned):
        if name not in registers:
            keys[(name, _across(offset, inner))] = None
    return {key: f"p{n}" for n, key in enumerate(keys)}


def _row(array: CpuArray, offset: Offset, inner: Axis) -> str:
    """Return the address of a row's first element, as text; of all levels, that of the first."""
    steps = dict(zip(Axis, offset, strict=True))
    terms = [array.text]
    for axis in (Axis.J, Axis.K, Axis.I):
        step = steps[axis]
        if axis is not inner and axis in array.axes and step != ANY_LEVEL:
            low = axis.lower()
            place = f"({low} {'-' if step < 0 else '+'} {abs(step)})" if step else low
            terms.append(f"{place} * {array.text}_{low}")
    return f"pointer_{array.dtype}({' + '.join(terms)})"


def level_text(bound: Bound) -> str:
    """Return a level as text."""
    if not bound.from_end:
        return str(bound.offset)
    sign = "-" if bound.offset < 0 else "+"
    return f"nk {sign} {abs(bound.offset)}" if bound.offset else "nk"
