"""Schedule -> text: one function for each kernel, plain loops over a box of points.

The functions take a box `i0, i1, j0, j1, k0, k1` relative to the domain's first point, so the same
code serves any split over threads; the number of levels `nk`; how many `rows` along J, and of them
how many points along the inner axis (`width`), to finish in all planes before the next ones are
begun; for each array the address of the domain's first point and its three strides in bytes; and
the scalars. The innermost loop runs along the layout's inner axis, where offsets are constants for
arrays that are adjacent along it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from halocline_engine.backends.cpu.builtins import SCOPES
from halocline_engine.backends.cpu.columns import Reuse, reuse_of
from halocline_engine.backends.cpu.text.layout import Layout
from halocline_engine.backends.cpu.text.outline import outlined
from halocline_engine.backends.cpu.text.regions import columns_in_none, masks_of, parted
from halocline_engine.backends.cpu.text.spell import spell
from halocline_engine.ir.nodes import (
    ANY_LEVEL,
    Assign,
    Bound,
    Expr,
    If,
    Offset,
    Parameter,
    Read,
    Statement,
    While,
)
from halocline_engine.ir.types import Axis, DType, Order
from halocline_engine.ir.walk import (
    accesses_of,
    assignments,
    expressions,
    irregular,
    statements,
    targets_of,
    walk,
)
from halocline_engine.schedule.nodes import Kernel, Schedule, Section
from halocline_engine.schedule.rare import narrow_masks, usual_body
from halocline_engine.schedule.storage.temporaries import kernels_of

__all__ = ["Function", "Module", "emit"]

#: An array and an offset, which is 0 along the inner axis.
_Row: TypeAlias = tuple[str, Offset]


@dataclass(frozen=True, slots=True)
class Function:
    """A generated function: its name, the arrays and scalars it takes, and what it reads again."""

    name: str
    arrays: tuple[str, ...]
    scalars: tuple[str, ...]
    reuse: Reuse


@dataclass(frozen=True, slots=True)
class Module:
    """The text, its functions in the order of the schedule's kernels, and what those call."""

    text: str
    functions: tuple[Function, ...]
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CpuArray:
    """An array as the text knows it."""

    text: str
    dtype: DType
    axes: tuple[Axis, ...]
    adjacent: bool


def emit(schedule: Schedule, layout: Layout) -> Module:
    """Return the text of all kernels for one layout; the same schedule gives the same bytes."""
    arrays = _arrays(schedule, layout)
    scalars = {s.name: f"s{n}" for n, s in enumerate(schedule.program.scalars)}
    types = {s.name: s.dtype for s in schedule.program.scalars}
    masks = narrow_masks(schedule.program)
    zigzag = schedule.walk.order == "zigzag"
    functions: list[Function] = []
    texts: list[str] = []
    parts: list[str] = []
    for number, kernel in enumerate(kernels_of(schedule.steps)):
        function = _function(f"kernel{number}", kernel, arrays, schedule, layout.inner)
        writer = _Writer(kernel, layout, arrays, scalars, masks, zigzag=zigzag)
        lines = [_head(function, arrays, scalars), *_casts(function, scalars, types)]
        text, cut = outlined("\n".join([*lines, *writer.loops()]), f"part{number}_")
        texts.append(text.rstrip())
        parts += cut
        functions.append(function)
    return Module("\n\n\n".join(texts) + "\n", tuple(functions), tuple(parts))


def _arrays(schedule: Schedule, layout: Layout) -> dict[str, CpuArray]:
    fields = {
        f.name: CpuArray(f"f{n}", f.dtype, f.axes, f.name in layout.adjacent)
        for n, f in enumerate(schedule.program.fields)
    }
    buffers = {
        b.name: CpuArray(f"b{n}", b.dtype, tuple(Axis), adjacent=True)
        for n, b in enumerate(schedule.buffers)
    }
    return {**fields, **buffers}


def _function(
    name: str, kernel: Kernel, arrays: dict[str, CpuArray], schedule: Schedule, inner: Axis
) -> Function:
    bodies = [statement for section in kernel.sections for statement in section.body]
    used = {name for name, _ in accesses_of(bodies)} | set(targets_of(bodies))
    parameters = {
        part.name
        for value in expressions(bodies)
        for part in walk(value)
        if isinstance(part, Parameter)
    }
    return Function(
        name,
        tuple(a for a in arrays if a in used),
        tuple(s.name for s in schedule.program.scalars if s.name in parameters),
        reuse_of(kernel, schedule, inner),
    )


def _head(function: Function, arrays: dict[str, CpuArray], scalars: dict[str, str]) -> str:
    words = ["i0", "i1", "j0", "j1", "k0", "k1", "nk", "rows", "width"]
    for name in function.arrays:
        text = arrays[name].text
        words += [text, f"{text}_i", f"{text}_j", f"{text}_k"]
    words += [scalars[name] for name in function.scalars]
    return f"def {function.name}({', '.join(words)}):"


def _casts(function: Function, scalars: dict[str, str], types: dict[str, DType]) -> list[str]:
    """Scalars come as Python has them and get their own type here."""
    return [
        f"    {scalars[name]} = np.{types[name]}({scalars[name]})"
        for name in function.scalars
        if types[name] not in (DType.BOOL, DType.INT64, DType.FLOAT64)
    ]


def _scopes(kernel: Kernel, layout: Layout, arrays: dict[str, CpuArray]) -> dict[str, int]:
    """Return the number of each array that the kernel writes; of all arrays where two may be one.

    Arrays that share a number may share memory.
    """
    if not layout.apart:
        return dict.fromkeys(arrays, 0)
    bodies = [statement for section in kernel.sections for statement in section.body]
    written = [name for name in dict.fromkeys(targets_of(bodies)) if name in arrays]
    return {name: min(n, SCOPES - 1) for n, name in enumerate(written)}


def _columns_in_no_region(
    kernel: Kernel, arrays: dict[str, CpuArray], inner: Axis, masks: frozenset[str]
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


class _Writer:
    """Writes one kernel; the names of registers and pointers are local to it."""

    def __init__(
        self,
        kernel: Kernel,
        layout: Layout,
        arrays: dict[str, CpuArray],
        scalars: dict[str, str],
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

    def loops(self) -> Iterator[str]:
        """Yield the loop nest, indented for a function's body."""
        inner = self.inner.lower()
        yield from _columns_in_no_region(self.kernel, self.arrays, self.inner, self.masks)
        if self.kernel.order is not Order.PARALLEL:
            yield from self._columns()
            return
        if self.zigzag:
            yield "    turned = False"
        yield "    for start in range(j0, j1, rows):"
        yield "        end = min(start + rows, j1)"
        yield f"        for left in range({inner}0, {inner}1, width):"
        yield f"            right = min(left + width, {inner}1)"
        outer = ["k", "j"] if self.inner is Axis.I else ["i", "j"]
        for section in self.kernel.sections:
            yield from self._nest(section, [*outer, inner])
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
        self.library = _library(section, self.kernel.order)
        *outer, inner = axes
        depth = 3
        for axis in outer:
            yield from ("    " * depth + line for line in self._loop(axis, section))
            depth += 1
        pad = "    " * depth
        for key, name in self.pointers.items():
            yield f"{pad}{name} = {_row(self._array(*key), key[1], self.inner)}"
        (line,) = self._loop(inner, section)
        found = masks_of(section.body, self.masks)
        if not found:
            yield pad + line
            yield from self._body(section.body, depth + 1)
            return
        across = [self._read(m) for m in found if self.inner not in self.arrays[m.name].axes]
        usual = usual_body(section.body, self.masks, self.registers.keys())
        loops = parted(line, self.inner, across)
        for heads, body in zip(loops, (section.body, usual), strict=True):
            if body:
                yield from (pad + head for head in heads)
                yield from self._body(body, depth + 1 + heads[-1].startswith(" "))

    def _loop(self, axis: str, section: Section) -> Iterator[str]:
        """Yield the head of a loop; where columns turn, the outer ones of every other go back."""
        low, high = self._bounds(axis, section)
        order = section.order or self.kernel.order
        match order:
            case Order.PARALLEL if self.zigzag and axis != self.inner.lower():
                yield f"for step_{axis} in range({low}, {high}):"
                yield f"    {axis} = ({low} + {high} - 1 - step_{axis}) if turned else step_{axis}"
            case Order.BACKWARD if axis == "k":
                yield f"for k in range({high} - 1, {low} - 1, -1):"
            case Order.PARALLEL | Order.FORWARD | Order.BACKWARD:
                yield f"for {axis} in range({low}, {high}):"
            case _:
                assert_never(order)

    def _bounds(self, axis: str, section: Section) -> tuple[str, str]:
        """Return the first index of a loop and the one past its last, as text."""
        parallel = self.kernel.order is Order.PARALLEL
        if axis == "k":
            start, end = _level(section.interval.start), _level(section.interval.end)
            if not parallel:
                return start, end
            low, high = ("k0", "k1") if self.inner is Axis.I else ("left", "right")
            return f"max({low}, {start})", f"min({high}, {end})"
        if axis == "j":
            return "start", "end"
        return ("left", "right") if self.inner is Axis.I else ("i0", "i1")

    def _body(self, body: tuple[Statement, ...], depth: int) -> Iterator[str]:
        pad = "    " * depth
        for statement in body:
            match statement:
                case Assign(target, value, _) if target in self.registers:
                    yield f"{pad}{self.registers[target]} = {self._spell(value)}"
                case Assign(target, value, _, level):
                    place = self._at(target, (0, 0, 0), level)
                    scope = self._scope(target, (0, 0, 0))
                    yield f"{pad}store_{scope}({place}, {self._spell(value)})"
                case If(condition, then, otherwise, _):
                    yield f"{pad}if {self._spell(condition)}:"
                    yield from self._body(then, depth + 1)
                    if otherwise:
                        yield f"{pad}else:"
                        yield from self._body(otherwise, depth + 1)
                case While(condition, inner, _):
                    yield f"{pad}while {self._spell(condition)}:"
                    yield from self._body(inner, depth + 1)
                case _:
                    assert_never(statement)

    def _spell(self, value: Expr) -> str:
        read, scalars = self._read, self.scalars
        return spell(value, read, lambda p: scalars[p.name], self.library)

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
        along = f"({self._spell(level)}) * {self.arrays[name].text}_k"
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


def _library(section: Section, order: Order) -> Set[str]:
    """Return functions that should be the C library's, whatever the order of axes.

    Loops with others in them have no vectors: those with a `while`, and some that look values up.
    Columns along K have none either, and powers take most time there.
    """
    if any(isinstance(one, While) for one in statements(section.body)):
        return {"exp", "log", "pow"}
    return {"pow"} if order is not Order.PARALLEL or irregular(section.body) else frozenset()


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


def _level(bound: Bound) -> str:
    if not bound.from_end:
        return str(bound.offset)
    return f"nk - {-bound.offset}" if bound.offset < 0 else "nk"
