"""CUDA C++ of a schedule: pure text from frozen nodes.

Every pointer stands at the domain's first point of its array, so offsets are signed, and arrays
of one stride kind share one offset. A PARALLEL kernel computes a few rows of points in a thread,
neighbouring threads along I; a FORWARD or BACKWARD kernel computes a column in a thread. What
names a user gave never gets here: arrays are 'f0', 'b0', registers 'r0', scalars 'p0'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from textwrap import fill

from halocline_engine.backends.cuda.kernels.choose import kernel_kind
from halocline_engine.backends.cuda.model.entries import (
    Arg,
    BlockPointer,
    Entry,
    Pointer,
    ScalarValue,
    Size,
    StrideValue,
    Variant,
    arrays_of,
    entries_of,
    is_guarded,
    parameters,
)
from halocline_engine.backends.cuda.model.speed import H200
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.backends.cuda.text.dependent_launch import WAIT
from halocline_engine.backends.cuda.text.divisors import shared_divisors
from halocline_engine.backends.cuda.text.expressions import TYPES
from halocline_engine.backends.cuda.text.fragments import indent
from halocline_engine.backends.cuda.text.integers import SMALL, narrowed
from halocline_engine.backends.cuda.text.prelude import prelude
from halocline_engine.backends.cuda.text.statements import Scope
from halocline_engine.ir.types import DType, Order
from halocline_engine.schedule.nodes import Schedule

__all__ = ["emit"]


def emit(
    schedule: Schedule, variant: Variant, tiles: Mapping[str, Tile], *, follows: bool = False
) -> str:
    """Return a translation unit with every kernel of the schedule, for one kind of call.

    `tiles` gives the share of a thread for each kernel by its name in the code. With `follows`,
    kernels wait for the work before them before they touch memory, and so may be launched sooner.
    """
    names = _Names.of(schedule)
    kernels = "".join(
        _kernel(entry, schedule, variant, names, tiles[entry.name], follows=follows)
        for entry in entries_of(schedule)
    )
    index = "long long" if variant.wide else "int"
    parts = (f"typedef {index} index_t;\n", prelude(kernels), kernels)
    return "\n".join(part for part in parts if part).rstrip() + "\n"


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of arrays and scalars in the code, and the element types."""

    arrays: Mapping[str, str]
    scalars: Mapping[str, str]
    dtypes: Mapping[str, DType]
    fields: frozenset[str]

    @staticmethod
    def of(schedule: Schedule) -> _Names:
        program = schedule.program
        arrays = {field.name: f"f{n}" for n, field in enumerate(program.fields)}
        arrays |= {buffer.name: f"b{n}" for n, buffer in enumerate(schedule.buffers)}
        dtypes = dict(arrays_of(schedule)) | {s.name: s.dtype for s in program.scalars}
        return _Names(
            arrays=arrays,
            scalars={scalar.name: f"p{n}" for n, scalar in enumerate(program.scalars)},
            dtypes=dtypes,
            fields=frozenset(field.name for field in program.fields),
        )


def _kernel(
    entry: Entry,
    schedule: Schedule,
    variant: Variant,
    names: _Names,
    tile: Tile,
    *,
    follows: bool,
) -> str:
    body = _body(entry, schedule, variant, names, tile)
    arguments = ", ".join(
        _parameter(arg, entry, variant, names, tile, follows=follows)
        for arg in parameters(entry, schedule, variant, tile)
    )
    wrapped = fill(arguments, 92, initial_indent="    ", subsequent_indent="    ")
    lines = [
        f'extern "C" __global__ void __launch_bounds__({_bounds(tile)}) {entry.name}(',
        f"{wrapped}) {{",
        *(WAIT if follows else ()),
        *(f"  {line}" for line in body),
        "}",
    ]
    return "\n".join(lines) + "\n\n"


def _body(
    entry: Entry, schedule: Schedule, variant: Variant, names: _Names, tile: Tile
) -> list[str]:
    """Return the statements of a kernel, and others for calls that are not as they usually are.

    Usually integers that a caller gives are small, and arrays have the levels of the domain.
    """
    kind, kernel, program = kernel_kind(entry, tile), entry.kernel, schedule.program
    known = _known_limits(entry, schedule, variant, tile)
    may_differ = {limit.name for limit in program.limits if limit.field is not None}
    tests = [
        f"{names.scalars[name]} == {level}" for name, level in known.items() if name in may_differ
    ]
    every = small = kernel
    if kernel.is_general and kernel.order is Order.PARALLEL and not variant.wide:
        limits = {limit.name for limit in program.limits}
        integers = {one.name for one in program.scalars if one.dtype is DType.INT64} - limits
        scalars = [name for name in entry.scalars if name in integers]
        every, small = narrowed(kernel, program), narrowed(kernel, program, scalars)
        if small.registers != every.registers:
            given = (names.scalars[name] for name in scalars)
            tests += [f"{one} >= -{SMALL} && {one} <= {SMALL}" for one in given]
    usual_names = replace(names, scalars={**names.scalars, **known})
    usual = _text(replace(entry, kernel=small), schedule, variant, usual_names, tile)
    if not tests:
        return usual
    tile = kind.other_tile(entry, schedule, tile)
    other = _text(replace(entry, kernel=every), schedule, variant, names, tile)
    return [f"if ({' && '.join(tests)}) {{", *indent(usual), "} else {", *indent(other), "}"]


def _known_limits(entry: Entry, schedule: Schedule, variant: Variant, tile: Tile) -> dict[str, str]:
    """Return the first and last levels of arrays that have the domain's, as temporaries do."""
    fields = {None, *kernel_kind(entry, tile).within_domain(entry, schedule, variant, tile)}
    return {
        one.name: f"{tile.levels - 1 if one.last else 0}LL"
        for one in schedule.program.limits
        if tile.held and one.field in fields and one.name in entry.scalars
    }


def _text(
    entry: Entry, schedule: Schedule, variant: Variant, names: _Names, tile: Tile
) -> list[str]:
    """Return the statements of a kernel as they stand."""
    kernel = entry.kernel
    arrays = [name for name, _ in arrays_of(schedule)]
    kinds = dict(zip(arrays, variant.arrays, strict=True))
    # Alignment counts from `shift` before the domain, so tiles that begin elsewhere have none.
    fit = tile.shift == variant.shift
    aligned = dict(zip(arrays, variant.aligned, strict=True))
    scope = Scope(
        arrays={name: names.arrays[name] for name in entry.arrays},
        kinds={name: (kinds[name], variant.kinds[kinds[name]]) for name in entry.arrays},
        scalars=names.scalars,
        dtypes={name: names.dtypes[name] for name in entry.arrays}
        | {register.name: register.dtype for register in kernel.registers},
        fields=names.fields,
        guarded=names.fields if is_guarded(entry, names.fields) else frozenset(),
        registers={register.name: f"r{n}" for n, register in enumerate(kernel.registers)},
        aligned=frozenset(name for name in entry.arrays if fit and aligned[name]),
        divisors=shared_divisors(kernel),
    )
    return kernel_kind(entry, tile).text(entry, schedule, variant, scope, tile)


def _bounds(tile: Tile) -> str:
    """Return the threads of a block, and how many blocks that go through all columns must fit."""
    most = -(-tile.blocks // H200.processors)
    return f"{tile.threads}, {most}" if most else str(tile.threads)


def _parameter(
    arg: Arg, entry: Entry, variant: Variant, names: _Names, tile: Tile, *, follows: bool
) -> str:
    match arg:
        case Size("inverse"):
            return "const unsigned inverse"
        case Size(name):
            return f"const int {name}"
        case StrideValue(kind, axis):
            return f"const index_t s{kind}{'ijk'[axis]}"
        case Pointer(array):
            const = "" if array in entry.written else "const "
            # What nothing else writes may be loaded at any time, also before the kernel waits. NVCC
            # merges loads of two branches, and if one array is const takes the other for const too;
            # it is if NVCC finds that no condition for a store to it can hold.
            back = entry.swept and not tile.on_chip
            apart = variant.disjoint and not (follows or back or array in entry.maybe_constant)
            alone = "__restrict__ " if apart else ""
            return f"{const}{TYPES[names.dtypes[array]]}* {alone}{names.arrays[array]}"
        case ScalarValue(name):
            return f"const {TYPES[names.dtypes[name]]} {names.scalars[name]}"
        case BlockPointer(name, dtype):
            return f"{TYPES[dtype]}* {name}"
