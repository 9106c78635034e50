"""Schedule -> text: one function for each kernel, plain loops over a box of points.

The functions take a box `i0, i1, j0, j1, k0, k1` relative to the domain's first point, so the same
code serves any split over threads; the number of levels `nk`; how many `rows` along J, and of them
how many points along the inner axis (`width`), to finish in all planes before the next ones are
begun; for each array the address of the domain's first point and its three strides in bytes; and
the scalars. The innermost loop runs along the layout's inner axis, where offsets are constants for
arrays that are adjacent along it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from halocline_engine.backends.cpu.columns import Reuse, reuse_of
from halocline_engine.backends.cpu.text.layout import Layout
from halocline_engine.backends.cpu.text.loops import CpuArray, Loops
from halocline_engine.backends.cpu.text.outline import outlined
from halocline_engine.backends.cpu.text.regions import masks_of
from halocline_engine.backends.cpu.text.strips import (
    STRIP,
    StripArray,
    StripLoops,
    StripRoom,
    may_have_strips,
    pays,
    strip_arrays,
)
from halocline_engine.ir.nodes import Parameter, Statement
from halocline_engine.ir.types import Axis, DType
from halocline_engine.ir.walk import (
    accesses_of,
    expressions,
    targets_of,
    walk,
)
from halocline_engine.schedule.nodes import Kernel, Schedule
from halocline_engine.schedule.rare import narrow_masks
from halocline_engine.schedule.storage.temporaries import kernels_of

__all__ = ["Function", "Module", "emit"]


@dataclass(frozen=True, slots=True)
class Function:
    """A generated function: its name, the arrays and scalars it takes, and what it reads again.

    The last of the arrays is memory for strips, where it goes through columns in such.
    """

    name: str
    arrays: tuple[str, ...]
    scalars: tuple[str, ...]
    reuse: Reuse
    strips: StripRoom | None


@dataclass(frozen=True, slots=True)
class Module:
    """The text, its functions in the order of the schedule's kernels, and what those call."""

    text: str
    functions: tuple[Function, ...]
    parts: tuple[str, ...]


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
        strips = _strips(kernel, schedule, layout, masks)
        function = _function(f"kernel{number}", kernel, arrays, schedule, layout.inner, strips)
        if strips:
            fields = frozenset(field.name for field in schedule.program.fields)
            writer = StripLoops(kernel, layout, arrays, scalars, strips, fields)
        else:
            writer = Loops(kernel, layout, arrays, scalars, masks, zigzag=zigzag)
        lines = [_head(function, arrays, scalars), *_casts(function, scalars, types)]
        text, cut = outlined("\n".join([*lines, *writer.lines()]), f"part{number}_")
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
    return {**fields, **buffers, STRIP: CpuArray("strip", DType.FLOAT64, tuple(Axis), True)}


def _strips(
    kernel: Kernel, schedule: Schedule, layout: Layout, masks: frozenset[str]
) -> tuple[StripArray, ...]:
    """Return the parts of strips, where a kernel goes along K in strips of columns."""
    bodies = [statement for section in kernel.sections for statement in section.body]
    if layout.inner is not Axis.K or not layout.apart:
        # A strip would keep what one field holds while the other one changes it.
        return ()
    if not may_have_strips(kernel) or masks_of(bodies, masks):
        return ()
    axes = {field.name: field.axes for field in schedule.program.fields}
    users = Counter(
        name
        for one in kernels_of(schedule.steps)
        for name in {name for section in one.sections for name in _names(section.body)}
    )
    axes |= {buffer.name: tuple(Axis) for buffer in schedule.buffers}
    private = {buffer.name for buffer in schedule.buffers if users[buffer.name] == 1}
    parts = strip_arrays(kernel, axes, private, schedule.facts.min_levels)
    return parts if parts and pays(kernel, parts) else ()


def _names(body: Sequence[Statement]) -> set[str]:
    """Return the names that statements read and assign."""
    return {name for name, _ in accesses_of(body)} | set(targets_of(body))


def _function(
    name: str,
    kernel: Kernel,
    arrays: dict[str, CpuArray],
    schedule: Schedule,
    inner: Axis,
    strips: tuple[StripArray, ...],
) -> Function:
    bodies = [statement for section in kernel.sections for statement in section.body]
    in_strips = {part.name for part in strips if not (part.is_loaded or part.stored)}
    used = _names(bodies) - in_strips | ({STRIP} if strips else set[str]())
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
        StripRoom.of(strips) if strips else None,
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
