"""Time of a program on this machine, beside what its bytes and operations allow.

The machine's rates are those of programs of the same target, measured in the same process: a copy
of arrays, and long chains of the operations of each kind.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from halocline_engine.analysis.scalars import scalars_of
from halocline_engine.analysis.work import Operation, Work, work_of
from halocline_engine.backends.settled import left_of
from halocline_engine.errors import ArgumentError
from halocline_engine.functions.reports.turns import measured_turns
from halocline_engine.functions.stencil import Stencil, stencil
from halocline_engine.ir.extent import Facts
from halocline_engine.ir.nodes import Program
from halocline_engine.ir.types import Axis, DType

__all__ = ["LAYOUTS", "Rates", "Timing", "drawn_arrays", "halo_of", "measured_rates", "timing"]

#: Orders of axes, from the one of the largest stride to the fastest one.
LAYOUTS = ("KJI", "IJK")
_ROUNDS, _LASTING = 5, 0.01
_COPY = "def copy(a: Field[{0}], b: Field[{0}]):\n  with computation(PARALLEL), interval(...):\n"
#: Bytes of an array that is copied, and the domain of chains, by target.
_SIZES: Mapping[str, tuple[int, tuple[int, int, int]]] = {
    "cuda": (1 << 30, (256, 256, 128)),
    "cpu": (1 << 27, (128, 128, 32)),
    "reference": (1 << 22, (32, 32, 8)),
}
#: Steps of each of four chains, operations of a step, and the statement of a step.
_CHAINS = {
    Operation.PLAIN: (64, 2, "x{0} = x{0} * {1}(0.9999) + {1}(0.0001)"),
    Operation.DIVISION: (16, 1, "x{0} = {1}(1.7) / x{0}"),
    Operation.FUNCTION: (4, 1, "x{0} = exp({1}(0.5) - x{0})"),
}
_WORDS = {
    Operation.PLAIN: "additions and multiplications",
    Operation.DIVISION: "divisions and roots",
    Operation.FUNCTION: "functions such as exp",
}
#: From this share of the attainable rate on, the bound is named as the limiter.
_LIMITED = 0.75


@dataclass(frozen=True, slots=True)
class Rates:
    """Bytes per second of a copy, read and written, and operations per second of each kind."""

    copy: float
    operations: Mapping[Operation, float]


@dataclass(frozen=True, slots=True)
class Timing:
    """Timing of a program on this machine; `seconds` is the median of successive calls."""

    name: str
    target: str
    device: str
    layout: str
    domain: tuple[int, int, int]
    arrays: Mapping[str, str]
    work: Work
    seconds: float
    rates: Rates

    @property
    def operations(self) -> tuple[tuple[Operation, int], ...]:
        """Number of operations of each kind in the program."""
        counted = self.work.operations
        return tuple((kind, counted[kind]) for kind in Operation if kind in counted)

    @property
    def bounds(self) -> dict[str, float]:
        """Seconds of the memory traffic at the rate of a copy, and of each kind of operation."""
        computing = {
            _WORDS[kind]: number / self.rates.operations[kind] for kind, number in self.operations
        }
        return {"memory": self.work.bytes / self.rates.copy, **computing}

    @property
    def share_of_copy(self) -> float:
        """Rate of the compulsory traffic as a share of the rate of a copy."""
        return self.bounds["memory"] / self.seconds

    @property
    def share_of_attainable(self) -> float:
        """Rate as a share of the attainable one, limited by traffic or by all operations."""
        memory, *computing = self.bounds.values()
        return max(memory, sum(computing)) / self.seconds

    @property
    def limiter(self) -> str:
        """Resource that limits a call, in words."""
        memory, *computing = self.bounds.values()
        bound = max(self.bounds, key=self.bounds.__getitem__)
        name = "memory" if memory >= sum(computing) else bound
        if self.share_of_attainable >= _LIMITED:
            return name
        return f"not {name} alone: loads that are waited for, or bytes that move more than once"

    def document(self) -> dict[str, Any]:
        """Return the timing as JSON."""
        return {
            "name": self.name,
            "target": self.target,
            "device": self.device,
            "layout": self.layout,
            "domain": list(self.domain),
            "arrays": dict(self.arrays),
            "bytes": self.work.bytes,
            "operations": {kind.value: number for kind, number in self.operations},
            "seconds": self.seconds,
            "copy_bytes_per_second": self.rates.copy,
            "operations_per_second": {k.value: r for k, r in self.rates.operations.items()},
            "bounds": self.bounds,
            "share_of_copy": self.share_of_copy,
            "share_of_attainable": self.share_of_attainable,
            "limiter": self.limiter,
        }


def timing(
    program: Any,
    *,
    domain: tuple[int, int, int],
    scalars: Mapping[str, Any] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    layout: str = "KJI",
    target: str = "auto",
    **reading: Any,
) -> Timing:
    """Time a program on random arrays, and estimate the bounds of its traffic and arithmetic.

    Raises the errors of `stencil` and of calls, and `ArgumentError` for programs with tables.
    """
    made = stencil(program, target=target, **reading)
    meaning, facts = made.compiled.program, made.compiled.facts
    if meaning.tables:
        raise ArgumentError(
            f"Program '{meaning.name}' reads tables, which cannot be filled with random values.",
            hint="Time a program without them.",
        )
    halo, machine = halo_of(facts), _Machine.of(made.compiled.target)
    arrays = drawn_arrays(meaning, machine.library, domain, halo, layout, ranges or {})
    values = {**arrays, **(scalars or {})}
    made(**values, origin=halo, domain=domain)
    left = left_of(meaning, scalars_of(meaning, scalars or {}))
    turns = measured_turns(
        left,
        domain,
        lambda size: drawn_arrays(meaning, np, size, halo, layout, ranges or {}),
        scalars or {},
        halo,
    )
    work = work_of(left, domain, turns)
    types = {field.dtype for field in meaning.fields if field.name in arrays}
    dtype = "float64" if DType.FLOAT64 in types or DType.FLOAT32 not in types else "float32"
    seconds = machine.seconds(lambda: made(**values, origin=halo, domain=domain))
    rates = measured_rates(machine.target, dtype, layout, tuple(work.operations))
    axes = {field.name: "".join(a.value for a in field.axes) for field in meaning.fields}
    given = [field for field in meaning.fields if field.name not in meaning.made]
    return Timing(
        name=meaning.name,
        target=machine.target,
        device=machine.name,
        layout=layout,
        domain=domain,
        arrays={field.name: f"{field.dtype.value} {axes[field.name]}" for field in given},
        work=work,
        seconds=seconds,
        rates=rates,
    )


def halo_of(facts: Facts) -> tuple[int, int, int]:
    """Return the halo that suffices for all fields."""
    i, j, k = (
        max((max(-one[axis][0], one[axis][1], 0) for one in facts.fields.values()), default=0)
        for axis in range(3)
    )
    return i, j, k


def drawn_arrays(
    program: Program,
    library: Any,
    domain: tuple[int, int, int],
    halo: tuple[int, int, int],
    layout: str,
    ranges: Mapping[str, tuple[float, float]],
) -> dict[str, Any]:
    """Return arrays of NumPy or CuPy: random inputs, and NaN for floating-point outputs.

    `ranges` are the ranges of fields, by default from 0.5 to 1.5; whole numbers are 0 or 1.
    Components of a field are stored in planes, one after the other.
    """
    made: dict[str, Any] = {}
    lookups = {lookup.name: lookup.shape for lookup in program.lookups}
    components = {one.name: one.shape for one in program.components}
    for field in (field for field in program.fields if field.name not in program.made):
        shape = {
            axis: size + 2 * around
            for axis, size, around in zip(Axis, domain, halo, strict=True)
            if axis in field.axes
        }
        name = field.name.partition(".")[0]
        if name in made:
            continue
        order = [axis for axis in map(Axis, layout) if axis in shape]
        data = components.get(name, ())
        low, high = ranges.get(name, (0.5, 1.5))
        generator = library.random.default_rng(zlib.crc32(name.encode()))
        dtype, sizes = field.dtype.value, [*data, *(shape[axis] for axis in order)]
        if field.dtype in (DType.FLOAT32, DType.FLOAT64):
            values = generator.random(sizes, dtype=dtype)
            values *= high - low
            values += low
            if not _is_read(program, name):
                values[...] = np.nan
        else:
            values = (generator.random(sizes) < 0.5).astype(dtype)
        places = [len(data) + order.index(axis) for axis in shape]
        made[name] = values.transpose([*places, *range(len(data))])
        if name in lookups:
            made[name] = generator.random(lookups[name]).astype(dtype)
    return made


def _is_read(program: Program, name: str) -> bool:
    """Return whether a field or one of its components is read."""
    return any(one.read for one in program.fields if one.name.partition(".")[0] == name)


def measured_rates(target: str, dtype: str, layout: str, kinds: tuple[Operation, ...]) -> Rates:
    """Measure the rates of a copy and of some kinds of operations on a target."""
    machine = _Machine.of(target)
    size, domain = _SIZES[target]
    side = round((size // np.dtype(dtype).itemsize) ** (1 / 3))
    taken = machine.called(f"{_COPY.format(dtype)}    b = a\n", (side,) * 3, layout)
    copy = 2 * side**3 * np.dtype(dtype).itemsize / taken
    points = domain[0] * domain[1] * domain[2]
    operations: dict[Operation, float] = {}
    for kind in kinds:
        steps, each, _ = _CHAINS[kind]
        taken = machine.called(_chains(kind, dtype), domain, layout)
        operations[kind] = points * 4 * steps * each / taken
    return Rates(copy, operations)


def _chains(kind: Operation, dtype: str) -> str:
    steps, _, step = _CHAINS[kind]
    lines = [f"x{n} = a + {dtype}({n}.0)" for n in range(4)]
    lines += [step.format(n, dtype) for _ in range(steps) for n in range(4)]
    body = "".join(f"    {line}\n" for line in (*lines, "b = x0 + x1 + x2 + x3"))
    return _COPY.format(dtype) + body


@dataclass(frozen=True, slots=True)
class _Machine:
    """A target with its array library and its timer."""

    target: str
    name: str
    library: Any
    seconds: Callable[[Callable[[], None]], float]

    @staticmethod
    def of(target: str) -> _Machine:
        if target == "cuda":
            from halocline_engine.device.cupy_types import cupy
            from halocline_engine.device.launch.stopwatch import seconds_of

            library: Any = cupy()
            name = library.cuda.runtime.getDeviceProperties(0)["name"].decode()
            return _Machine(
                target, name, library, lambda call: median(seconds_of(call) for _ in range(_ROUNDS))
            )
        return _Machine(target, f"{os.cpu_count()} cores", np, _seconds_here)

    def called(self, text: str, domain: tuple[int, int, int], layout: str) -> float:
        """Return the seconds of a call of a program with one input and one output."""
        program: Stencil = stencil(text, target=self.target)
        arrays = drawn_arrays(program.compiled.program, self.library, domain, (0, 0, 0), layout, {})

        def call() -> None:
            program(**arrays)

        call()
        return self.seconds(call)


def _seconds_here(call: Callable[[], None]) -> float:
    """Return the median over rounds of the mean seconds of a call."""
    begun = perf_counter()
    call()
    number = max(1, round(_LASTING / max(perf_counter() - begun, 1e-9)))
    times: list[float] = []
    for _ in range(_ROUNDS):
        begun = perf_counter()
        for _ in range(number):
            call()
        times.append((perf_counter() - begun) / number)
    return median(times)
