"""Strips of columns along K, which are brought to memory where columns lie side by side.

Loops along K whose levels wait for each other have no vectors. A strip has some columns along J;
each array with axes I and J has a part of its own in the memory of a strip, for each offset along I
at which it is read, and loops over its columns are those of arrays that are adjacent along J.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from halocline_engine.backends.cpu.builtins import SCOPES
from halocline_engine.backends.cpu.text.layout import Layout
from halocline_engine.backends.cpu.text.loops import CpuArray, Loops, level_text
from halocline_engine.ir.nodes import (
    Binary,
    Bound,
    Call,
    Expr,
    Interval,
    Offset,
    Read,
    Select,
    Unary,
    While,
)
from halocline_engine.ir.types import Axis, Order
from halocline_engine.ir.walk import (
    accesses_of,
    assignments,
    bodies_of,
    expressions,
    irregular,
    statements,
    targets_of,
    walk,
)
from halocline_engine.schedule.nodes import Kernel, Section
from halocline_engine.schedule.stages import is_within, joined
from halocline_engine.schedule.storage.coverage import assigns, exposed, moved

__all__ = [
    "STRIP",
    "StripArray",
    "StripLoops",
    "StripRoom",
    "may_have_strips",
    "pays",
    "strip_arrays",
]

#: The memory of a strip among the arrays of a function.
STRIP = ".strip"
#: More columns than these are not read around those of a strip.
_MOST_AROUND = 16
_PAD = "            "
#: Nanoseconds to move an element, and those that vectors spare of an operation, as measured; more
#: where it waits for the level before.
_MOVE, _PLAIN, _DIVISION, _FUNCTION = 0.8, 0.15, 0.7, 3.0
_LATE, _LATE_DIVISION = 0.5, 3.0
_LONG = frozenset(("sqrt", "exp", "log", "pow"))
_ONE_LEVEL = Interval(Bound(False, 0), Bound(False, 1))


@dataclass(frozen=True, slots=True)
class StripRoom:
    """What a strip needs: `arrays` with `around` columns and `beyond` levels more than it has."""

    arrays: int
    around: int
    beyond: int

    @classmethod
    def of(cls, parts: Sequence[StripArray]) -> StripRoom:
        """Return what parts need."""
        around = max(part.high - part.low for part in parts)
        return cls(len(parts), around, max(part.beyond for part in parts))


@dataclass(frozen=True, slots=True)
class StripArray:
    """A part of the memory of a strip, which has an array's columns at an offset along I.

    It has the columns from `low` before to `high` behind those of the strip, and the `levels`
    where it is touched, or one if it `is_flat`. They are brought there if `is_loaded`, and those in
    `stored` go back.
    """

    name: str
    i: int
    is_flat: bool
    low: int
    high: int
    levels: tuple[Interval, ...]
    is_loaded: bool
    stored: tuple[Interval, ...]

    @property
    def beyond(self) -> int:
        """How many levels outside of the domain it may have."""
        before = max(0 if s.start.from_end else -s.start.offset for s in self.levels)
        behind = max(s.end.offset if s.end.from_end else 0 for s in self.levels)
        return max(0, before) + max(0, behind)


def may_have_strips(kernel: Kernel) -> bool:
    """Return whether a kernel has columns whose levels are known and visited once."""
    bodies = [section.body for section in kernel.sections]
    looping = any(isinstance(one, While) for body in bodies for one in statements(body))
    return kernel.order is not Order.PARALLEL and not looping and not any(map(irregular, bodies))


def pays(kernel: Kernel, parts: Sequence[StripArray]) -> bool:
    """Return whether vectors gain more than it takes to bring columns to strips and back."""
    moves = sum(part.is_loaded + bool(part.stored) for part in parts)
    return max(map(_gain, kernel.sections)) > _MOVE * moves


def _gain(section: Section) -> float:
    """Return the nanoseconds of a level that vectors spare.

    What a branch does may not be done, and a processor that guesses branches does not always wait
    for what they assign: both count half, but for functions.
    """
    every = (node for value in expressions(section.body) for node in walk(value))
    found = _FUNCTION * sum(isinstance(node, Call) and node.function in _LONG for node in every)
    branches = tuple(inner for one in section.body for inner in bodies_of(one))
    guessed = {name for body in branches for name in targets_of(body)}
    before = {read for read in accesses_of(section.body) if read[1][2]}
    late = {(name, offset) for name, offset in before if name in section.assigned}
    always = frozenset(section.body)
    for statement in assignments(section.body):
        nodes = list(walk(statement.value))
        reads = {(node.name, node.offset) for node in nodes if isinstance(node, Read)}
        waits = reads & late
        half = statement not in always or (waits and all(name in guessed for name, _ in waits))
        found += sum(_cost(node, waits=bool(waits)) for node in nodes) * (0.5 if half else 1.0)
        if waits:
            late.add((statement.target, (0, 0, 0)))
    return found


def _cost(node: Expr, *, waits: bool) -> float:
    match node:
        case Binary("/"):
            return _LATE_DIVISION if waits else _DIVISION
        case Binary() | Unary() | Select() | Call():
            return _LATE if waits else _PLAIN
        case _:
            return 0.0


def strip_arrays(
    kernel: Kernel,
    axes: Mapping[str, Sequence[Axis]],
    private: Collection[str],
    levels: int,
) -> tuple[StripArray, ...] | None:
    """Return the parts of a strip, or None where too much is read around it.

    `axes` are those of arrays, of which `private` are used nowhere else; a domain has at least so
    many levels.
    """
    touched = _touched(kernel)
    places = dict.fromkeys((name, offset[0]) for name, offset, _ in touched)
    found: list[StripArray] = []
    for name, i in places:
        if name not in axes or not {Axis.I, Axis.J} <= set(axes[name]):
            continue
        own = [(offset, interval) for n, offset, interval in touched if (n, offset[0]) == (name, i)]
        writing = [s.interval for s in kernel.sections if i == 0 and name in targets_of(s.body)]
        several = [moved(interval, offset[2]) for offset, interval in own]
        needed = not (writing and _provides(kernel, name, levels))
        flat = Axis.K not in axes[name]
        if flat:
            needed, several, writing = True, [_ONE_LEVEL], [_ONE_LEVEL] * bool(writing)
        columns = [offset[1] for offset, _ in own]
        found.append(
            StripArray(
                name,
                i,
                flat,
                min(columns),
                max(columns),
                tuple(dict.fromkeys(several)),
                needed and name not in private,
                () if name in private else tuple(joined(writing, levels)),
            )
        )
    around = max((one.high - one.low for one in found), default=0)
    return tuple(found) if around <= _MOST_AROUND else None


def _touched(kernel: Kernel) -> list[tuple[str, Offset, Interval]]:
    """Return what sections read and assign, and where."""
    return [
        (name, offset, section.interval)
        for section in kernel.sections
        for name, offset in (
            *accesses_of(section.body),
            *((one.target, (0, 0, 0)) for one in assignments(section.body)),
        )
    ]


def _provides(kernel: Kernel, name: str, levels: int) -> bool:
    """Return whether a kernel surely assigns all that it reads of an array, before it reads it."""
    done: list[Interval] = []
    for section in kernel.sections:
        always = assigns(section.body, name)
        if name in targets_of(section.body) and not always:
            return False
        for offset in exposed(section, name):
            behind = _is_behind(section, kernel, offset[2])
            known = [*done, section.interval] if always and behind else done
            wanted = moved(section.interval, offset[2])
            within = (is_within(wanted, one, levels) for one in joined(known, levels))
            if offset[:2] != (0, 0) or not any(within):
                return False
        if always:
            done.append(section.interval)
    return True


def _is_behind(section: Section, kernel: Kernel, k: int) -> bool:
    match section.order or kernel.order:
        case Order.FORWARD:
            return k < 0
        case Order.BACKWARD:
            return k > 0
        case Order.PARALLEL:
            return False


class StripLoops(Loops):
    """Writes loops over strips, whose columns are next to each other in memory of their own.

    Arrays without the axes I and J stay where they are; those of `fields` may have more levels than
    the domain. No array stands for two fields.
    """

    def __init__(
        self,
        kernel: Kernel,
        layout: Layout,
        arrays: Mapping[str, CpuArray],
        scalars: Mapping[str, str],
        parts: Sequence[StripArray],
        fields: frozenset[str],
    ) -> None:
        super().__init__(kernel, layout, arrays, scalars, frozenset(), zigzag=False)
        self.inner = Axis.J
        self.fields = fields
        self.parts = {(part.name, part.i): (n, part) for n, part in enumerate(parts)}
        self.shift = len(self.scopes)

    def lines(self) -> Iterator[str]:
        """Yield the loop nest, indented for a function's body."""
        for number, part in self.parts.values():
            low, high = self._levels(part)
            yield f"    low{number}, high{number} = {low}, {high}"
        yield "    for i in range(i0, i1):"
        yield "        for left in range(j0, j1, width):"
        yield "            right = min(left + width, j1)"
        for number, part in self.parts.values():
            first = f"(left + {part.low}) * {self.arrays[part.name].dtype.itemsize}"
            rest = f"{first} - low{number} * {self.arrays[STRIP].text}_j"
            start = f"{self.arrays[STRIP].text} + {number} * {self.arrays[STRIP].text}_i"
            yield f"{_PAD}t{number} = {start} - {rest}"
            yield f"{_PAD}t{number}_k = {self.arrays[STRIP].text}_j"
        for number, part in self.parts.values():
            if part.is_loaded:
                columns = f"left + {part.low}, right + {part.high}"
                yield from self._moves(part, columns, f"low{number}, high{number}", back=False)
        for section in self.kernel.sections:
            yield from self._nest(section, ["k", "j"])
        for _, part in self.parts.values():
            for levels in part.stored:
                between = f"{level_text(levels.start)}, {level_text(levels.end)}"
                yield from self._moves(part, "left, right", between, back=True)

    def _levels(self, part: StripArray) -> tuple[str, str]:
        """Return the first level of a part and the one behind its last."""
        low = _nested("min", [level_text(levels.start) for levels in part.levels])
        high = _nested("max", [level_text(levels.end) for levels in part.levels])
        if part.name in self.fields or part.is_flat:
            return low, high
        # A temporary has the levels of the domain; a branch that is not taken may name others.
        return f"max({low}, 0)", f"min({high}, nk)"

    def _moves(self, part: StripArray, columns: str, levels: str, *, back: bool) -> Iterator[str]:
        """Yield the loops that bring columns to a strip, or back."""
        whole, own = self.arrays[part.name], self._array(part.name, (part.i, 0, 0))
        known = super()._scope(part.name, (part.i, 0, 0))
        scope = self._scope(part.name, (part.i, 0, 0))
        kind, size = f"pointer_{whole.dtype}", whole.dtype.itemsize
        there = f"k * {size}" if whole.adjacent else f"k * {whole.text}_k"
        there = "0" if part.is_flat else there
        here = f"k * {own.text}_k"
        if back:
            line = f"store_{known}(p, {there}, load_{scope}(q, {here}))"
        else:
            load = "load" if known is None else f"load_{known}"
            line = f"store_{scope}(q, {here}, {load}(p, {there}))"
        place = f"(i + {part.i}) * {whole.text}_i + j * {whole.text}_j".replace("+ -", "- ")
        yield f"{_PAD}for j in range({columns}):"
        yield f"{_PAD}    p = {kind}({whole.text} + {place})"
        yield f"{_PAD}    q = {kind}({own.text} + j * {size})"
        yield f"{_PAD}    for k in range({levels}):"
        yield f"{_PAD}        {line}"

    def _bounds(self, axis: str, section: Section) -> tuple[str, str]:
        return ("left", "right") if axis == "j" else super()._bounds(axis, section)

    def _array(self, name: str, offset: Offset) -> CpuArray:
        found = self.parts.get((name, offset[0]))
        if found is None:
            return replace(self.arrays[name], adjacent=False)
        axes = (Axis.J,) if found[1].is_flat else (Axis.J, Axis.K)
        return CpuArray(f"t{found[0]}", self.arrays[name].dtype, axes, adjacent=True)

    def _scope(self, name: str, offset: Offset) -> int | None:
        found = self.parts.get((name, offset[0]))
        if found is None:
            return super()._scope(name, offset)
        return min(self.shift + found[0], SCOPES - 1)


def _nested(function: str, values: Sequence[str]) -> str:
    several = tuple(dict.fromkeys(values))
    return several[0] if len(several) == 1 else f"{function}({', '.join(several)})"
