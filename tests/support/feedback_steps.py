"""Programs that are fed what they made, drawn at random, and their steps one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from differential import Domain, front
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from halocline_engine.analysis.boundaries import UNMADE, Kind, MadeSides
from halocline_engine.backends.base import OpenSides, Value
from halocline_engine.backends.reference.build import ReferenceBackend
from halocline_engine.ir.extent import Extent
from halocline_engine.ir.nodes import Field
from halocline_engine.ir.types import Axis
from halocline_engine.schedule.plan import plan
from halocline_engine.schedule.temporal.step import Refused, Step, step_of

__all__ = ["CLOSED", "OPEN", "SCALARS", "Fed", "Grid", "fed_program", "grid_of", "made_sides"]

Array = NDArray[Any]
CLOSED: OpenSides = ((False, False), (False, False), (False, False))
OPEN: OpenSides = ((True, True), (True, True), (False, False))
#: NaN around what may be read.
_MARGIN = 5
SCALARS: Mapping[str, Value] = {"s": 0.375, "n": 3}


@dataclass(frozen=True)
class Fed:
    """A text, and the input that each output becomes."""

    text: str
    feedback: Mapping[str, str]

    def step(self) -> Step:
        program, facts = front(self.text)
        step = step_of(program, facts, self.feedback)
        assert not isinstance(step, Refused), step
        return step


def fed_program(seed: int, *, vertical: bool = False) -> Fed:
    """Return the program that belongs to a number; `vertical` reads other levels."""
    return _Drawn(Random(seed), vertical).program()


@dataclass
class _Drawn:
    random: Random
    vertical: bool
    temporaries: list[str] = field(default_factory=list[str])

    def program(self) -> Fed:
        pick = self.random.choice
        self.fed = ["u", "v", "w"][: pick((1, 1, 2, 3))]
        kinds = {name: pick(("float64", "float64", "float32")) for name in self.fed}
        lines = [f"{name}: Field[{kinds[name]}]" for name in self.fed]
        lines += ["c: Field[float64]", "h: Field[IJ, float32]", "b: Field[I, float64]"]
        lines += ["z: Field[K, float64]", "m: Field[int32]", "s: float64", "n: int64"]
        lines += [f"{name}_: Field[{kinds[name]}]" for name in self.fed]
        lines += ["extra: Field[float64]"] if pick((True, False)) else []
        body: list[str] = []
        for name in ("t", "r")[: self.random.randint(0, 2)]:
            body.append(f"{name} = {self.number(2)}")
            if pick((True, False, False)):
                # Only values at the point may be read where an assignment is under a condition.
                test = f"{self.here()} > {self.here()}"
                body.append(f"if {test}:\n            {name} = {name} + {self.here()}")
            self.temporaries.append(name)
        for name in self.fed:
            if pick((True, False, False, False)) and len(self.fed) > 1:
                body.append(f"{name}_ = {pick(self.fed)}")
            else:
                body.append(f"{name}_ = 0.25 * {name} + 0.125 * ({self.number(3)})")
        if pick((True, False, False)):
            one = pick(self.fed)
            test = f"{one} > 0.0"
            body.append(f"if {test}:\n            {one}_ = {one}_ * 0.5")
        if lines[-1].startswith("extra"):
            body.append(f"extra = {self.number(2)}")
        text = f"def drawn({', '.join(lines)}):\n    with computation(PARALLEL), interval(...):\n"
        text += "".join(f"        {line}\n" for line in body)
        return Fed(text, {f"{name}_": name for name in self.fed})

    def here(self) -> str:
        return self.random.choice((*self.fed, "c", "s", *self.temporaries))

    def number(self, depth: int) -> str:
        if depth == 0 or self.random.random() < 0.15:
            return self.read()
        one, two = self.number(depth - 1), self.number(depth - 1)
        match self.random.randint(0, 7):
            case 0:
                return f"({one} if {self.read()} > {self.read()} else {two})"
            case 1:
                return f"{self.random.choice(('min', 'max'))}({one}, {two} + 0.0)"
            case 2:
                return f"abs({one} - 0.5)"
            case _:
                return f"({one} {self.random.choice('+-*')} {two})"

    def read(self) -> str:
        pick, near = self.random.choice, (-1, 0, 0, 1)
        i, j = pick(near), pick(near)
        match self.random.randint(0, 11):
            case 0:
                return pick(("s", "0.5", "2.0", "n"))
            case 1:
                return f"c[{i}, {j}, {self.up()}]"
            case 2:
                return pick((f"h[{i}, {j}]", f"b[{i}]", "z", "m", f"m[0, {j}, 0]"))
            case 3 | 4 if self.temporaries:
                return f"{pick(self.temporaries)}[{i}, {j}, 0]"
            case 5:
                return f"{pick(self.fed)}[{2 * i}, {j}, {self.up()}]"
            case 6:
                return f"{pick(self.fed)}[{i}, {2 * j if not self.vertical else j}, 0]"
            case _:
                return f"{pick(self.fed)}[{i}, {j}, {self.up()}]"

    def up(self) -> int:
        return self.random.choice((-1, 0, 1)) if self.vertical else 0


@dataclass(frozen=True)
class Grid:
    """Arrays with just what several steps may read, and NaN around; a domain inside them."""

    fed: Fed
    steps: int
    sides: OpenSides
    domain: Domain
    arrays: Mapping[str, Array]
    origins: Mapping[str, Domain]
    scalars: Mapping[str, Value]
    ends: MadeSides = UNMADE

    def grown(self, left: int) -> tuple[tuple[int, int], ...]:
        """Return how much more than the domain a step computes that is followed by `left`."""
        reach = self.fed.step().reach
        return tuple(
            (left * -low * sides[0], left * high * sides[1])
            for (low, high), sides in zip(reach, self.sides, strict=True)
        )

    def expected(self) -> dict[str, Array]:
        """Return what the reference makes of as many single steps, on the domain."""
        program, facts = front(self.fed.text)
        reference = ReferenceBackend().build(plan(program, facts)).load()
        now = {name: _copy(array) for name, array in self.arrays.items()}
        axes = {one.name: one.axes for one in program.fields}
        for step in range(self.steps):
            grown = self.grown(self.steps - 1 - step)
            for new, old in self.fed.feedback.items():
                # Beyond the domain each step finds what the inputs held at first.
                now[new] = _copy(self.arrays[old])
            origins = {
                name: tuple(
                    at - more[0] if axis in axes[name] else 0
                    for axis, at, more in zip(Axis, origin, grown, strict=True)
                )
                for name, origin in self.origins.items()
            }
            sizes = tuple(n + low + high for n, (low, high) in zip(self.domain, grown, strict=True))
            reference(now, self.scalars, origins, sizes)  # pyright: ignore[reportArgumentType] # three of each
            if step + 1 < self.steps:
                now |= {old: now[new] for new, old in self.fed.feedback.items()}
                for old in self.fed.feedback.values():
                    self._make_ghosts(now[old], facts.fields[old], self.origins[old], grown)
        return {one.name: self.inside(now, one.name) for one in program.fields if one.written}

    def _make_ghosts(
        self, array: Array, extent: Extent, origin: Domain, grown: tuple[tuple[int, int], ...]
    ) -> None:
        """Fill what a step reads beyond sides where ghosts are made, along I, then J, then K."""
        for axis, (first, size, (low, high), more, kinds) in enumerate(
            zip(origin, self.domain, extent, grown, self.ends, strict=True)
        ):
            cells = np.moveaxis(array, axis, 0)
            ends = ((first - more[0], 1, -low), (first + size - 1 + more[1], -1, high))
            for kind, (last, inwards, depth) in zip(kinds, ends, strict=True):
                for distance in range(1, depth + 1):
                    ghost = cells[last - inwards * distance]
                    if kind is Kind.EDGE:
                        ghost[...] = cells[last]
                    elif kind is Kind.REFLECT:
                        ghost[...] = cells[last + inwards * distance]
                    elif kind is Kind.EXTRAPOLATE:
                        slope = cells[last] - cells[last + inwards]
                        ghost[...] = cells[last] + distance * slope

    def inside(self, arrays: Mapping[str, Array], name: str) -> Array:
        """Return the part of an array that is the domain."""
        i, j, k = (slice(at, at + n) for at, n in zip(self.origins[name], self.domain, strict=True))
        return arrays[name][i, j, k]


def made_sides(drawn: Sequence[Kind | None]) -> tuple[OpenSides, MadeSides]:
    """Return which sides are open, and the kinds of the others, of six where None is an open one.

    K is never open.
    """
    ends = [(drawn[2 * axis] or Kind.NONE, drawn[2 * axis + 1] or Kind.NONE) for axis in range(3)]
    opened = [(drawn[2 * axis] is None, drawn[2 * axis + 1] is None) for axis in range(2)]
    return (opened[0], opened[1], (False, False)), (ends[0], ends[1], ends[2])


def grid_of(
    fed: Fed,
    steps: int,
    domain: Domain,
    sides: OpenSides,
    seed: int = 0,
    order: str = "F",
    ends: MadeSides = UNMADE,
) -> Grid:
    """Return random arrays for steps of a program, what lies beyond its sides included."""
    program, facts = front(fed.text)
    random = np.random.default_rng(seed)
    step = fed.step()
    empty = Grid(fed, steps, sides, domain, {}, {}, {})
    grown = empty.grown(steps - 1)
    arrays: dict[str, Array] = {}
    origins: dict[str, Domain] = {}
    for one in program.fields:
        extent = facts.fields[fed.feedback.get(one.name, one.name)]
        inner: list[slice] = []
        shape: list[int] = []
        origin: list[int] = []
        for axis, (low, high), n, more in zip(Axis, extent, domain, grown, strict=True):
            if axis not in one.axes:
                shape, origin, inner = [*shape, 1], [*origin, 0], [*inner, slice(None)]
                continue
            before, behind = more[0] - low, n + more[1] + high
            lead = max(before, 0) + _MARGIN
            origin.append(lead)
            inner.append(slice(lead - before, lead + behind))
            shape.append(lead + max(n, behind) + _MARGIN)
        array = _filled(one, shape, tuple(inner), random, order)
        present = zip(Axis, array.strides, strict=True)
        strides = [stride if axis in one.axes else 0 for axis, stride in present]
        arrays[one.name] = as_strided(array, strides=strides)
        origins[one.name] = (origin[0], origin[1], origin[2])
    scalars = {one.name: SCALARS[one.name] for one in step.program.scalars}
    return Grid(fed, steps, sides, domain, arrays, origins, scalars, ends)


def _filled(
    one: Field, shape: list[int], inner: tuple[slice, ...], random: np.random.Generator, order: str
) -> Array:
    """Return values where they may be read, and elsewhere what must not be used."""
    dtype = one.dtype.value
    array = np.full(
        shape, np.nan if one.dtype.is_float else 99, dtype, "F" if order == "F" else "C"
    )
    if not one.written:
        size = array[inner].shape
        array[inner] = (
            random.normal(size=size) if one.dtype.is_float else random.integers(-3, 4, size)
        )
    return array


def _copy(array: Array) -> Array:
    own = np.array(array, order="F", copy=True)
    pairs = zip(own.strides, array.strides, strict=True)
    return as_strided(own, strides=[new if old else 0 for new, old in pairs])
