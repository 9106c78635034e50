"""Run one program on two targets with the same rough input, in arrays that lie in many ways."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from lowered import lower
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from halocline_engine.analysis.dependence import check
from halocline_engine.analysis.extents import analyse
from halocline_engine.backends.base import Executable, Value
from halocline_engine.backends.reference.build import ReferenceBackend
from halocline_engine.ir.extent import Facts
from halocline_engine.ir.nodes import Field, Program
from halocline_engine.ir.types import Axis
from halocline_engine.ir.verify import verify
from halocline_engine.language.gtscript import parse
from halocline_engine.passes.pipeline import PASSES
from halocline_engine.schedule.plan import plan

Domain: TypeAlias = tuple[int, int, int]
Array: TypeAlias = NDArray[Any]

#: How an array may lie in memory.
LAYOUTS = ("along I", "along J", "along K", "padded", "reversed", "sliced", "shifted")
#: Elements by which a domain's first point lies behind a line of memory in a shifted layout.
_BEHIND = 3
_LINE = 128


@dataclass(frozen=True)
class Inputs:
    """Arrays indexed [i, j, k] with stride 0 along absent axes, and the domain's place in them."""

    arrays: dict[str, Array]
    origins: dict[str, Domain]


def front(text: str, **options: Any) -> tuple[Program, Facts]:
    """Return the program of a text and its facts; raises `ProgramError` as compiling does."""
    program = lower(parse(text), **options)
    verify(program)
    for rewrite in PASSES:
        program = rewrite(program)
        verify(program)
    check(program)
    return program, analyse(program)


def laid(values: Array, layout: str, first: int = 0) -> Array:
    """Return an array of the same values that lies in memory as `layout` says.

    `first` is where the domain begins along I.
    """
    match layout:
        case "along I":
            return np.asfortranarray(values)
        case "along J":
            return np.ascontiguousarray(values.transpose(2, 0, 1)).transpose(1, 2, 0)
        case "along K":
            return np.ascontiguousarray(values)
        case "padded":
            host = np.zeros([n + 3 for n in values.shape], values.dtype, order="F")
            host[1:-2, 2:-1, 1:-2] = values
            return host[1:-2, 2:-1, 1:-2]
        case "reversed":
            return np.asfortranarray(values[::-1, ::-1, ::-1])[::-1, ::-1, ::-1]
        case "sliced":
            host = np.zeros([2 * n for n in values.shape], values.dtype, order="F")
            host[::2, 1::2, ::2] = values
            return host[::2, 1::2, ::2]
        case "shifted":
            ni, nj, nk = values.shape
            unit = _LINE // values.itemsize
            start = (_BEHIND - first) % unit
            row = -(-(start + ni) // unit) * unit
            memory = np.zeros(row * nj * nk + unit, values.dtype)
            begin = -memory.ctypes.data // values.itemsize % unit + start
            steps = [values.itemsize * n for n in (1, row, row * nj)]
            host = as_strided(memory[begin:], values.shape, steps)
            host[...] = values
            return host
        case _:
            raise ValueError(layout)


def inputs(
    program: Program, facts: Facts, domain: Domain, *, layout: str = "along I", seed: int = 0
) -> Inputs:
    """Return rough random arrays with one cell to spare; what is only written holds NaN."""
    random = np.random.default_rng(seed)
    made = Inputs({}, {})
    tables = {lookup.name: math.prod(lookup.shape) for lookup in program.lookups}
    for field in program.fields:
        shape: list[int] = []
        origin: list[int] = []
        for axis, (low, high), size in zip(Axis, facts.fields[field.name], domain, strict=True):
            before = max(0, -low) + 1
            present = axis in field.axes
            shape.append(before + size + max(0, high) + 1 if present else 1)
            origin.append(before if present else 0)
        if field.name in tables:
            shape[2], origin[2] = tables[field.name], 0
        array = laid(_values(field, shape, random), layout, origin[0])
        pairs = zip(Axis, array.strides, strict=True)
        made.arrays[field.name] = as_strided(
            array, strides=[step if axis in field.axes else 0 for axis, step in pairs]
        )
        made.origins[field.name] = (origin[0], origin[1], origin[2])
    return made


def _values(field: Field, shape: list[int], random: np.random.Generator) -> Array:
    dtype = field.dtype.value
    if field.dtype.is_integer:
        return random.integers(-9, 10, shape).astype(dtype)
    if not field.dtype.is_float:
        return random.random(shape) > 0.5
    if field.written and not field.read:
        return np.full(shape, np.nan, dtype)
    return random.normal(size=shape).astype(dtype)


def copied(given: Inputs) -> Inputs:
    """Return the same values in arrays of their own."""
    arrays: dict[str, Array] = {}
    for name, array in given.arrays.items():
        own = np.array(array, order="F", copy=True)
        pairs = zip(own.strides, array.strides, strict=True)
        arrays[name] = as_strided(own, strides=[new if old else 0 for new, old in pairs])
    return Inputs(arrays, given.origins)


def run(
    executable: Executable, given: Inputs, domain: Domain, scalars: Mapping[str, Value]
) -> dict[str, Array]:
    """Run on the arrays, in place, and return them."""
    executable(given.arrays, scalars, given.origins, domain)
    return given.arrays


def judged(
    program: Program, facts: Facts, given: Inputs, domain: Domain, scalars: Mapping[str, Value]
) -> dict[str, Array]:
    """Return what the reference makes of the same input; `given` stays as it is."""
    reference = ReferenceBackend().build(plan(program, facts)).load()
    return run(reference, copied(given), domain, scalars)


def assert_same(got: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    """Assert that all arrays are equal, halos included; NaN is equal to NaN."""
    for name, array in expected.items():
        assert not np.shares_memory(got[name], array), "both are the same array"
        np.testing.assert_array_equal(got[name], array, err_msg=name)


def distance(got: Array, expected: Array) -> float:
    """Return the largest difference in units in the last place; infinite where one is special."""
    finite = np.isfinite(got) & np.isfinite(expected)
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    if not np.all(finite | same):
        return float("inf")
    larger = np.maximum(np.abs(got[finite]), np.abs(expected[finite]))
    steps = np.abs(got[finite] - expected[finite]) / np.spacing(larger)
    return float(steps.max(initial=0.0))
