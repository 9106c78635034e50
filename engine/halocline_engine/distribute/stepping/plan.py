"""Cuts of the grid for ranks that keep all variables of several stages.

A dimension may be cut if no stage needs all its points at once. What stages read beside their
points decides how far the arrays of a part reach into those of its neighbours.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from halocline_engine.distribute.grid.partition import Span, shares
from halocline_engine.distribute.stepping.held import Cells, Variable, hull
from halocline_engine.distribute.stepping.schedule import Operation, Run, StageFields, Turn
from halocline_engine.distribute.stepping.stages import Part, StayingStage

__all__ = ["StepProgram", "Steps", "cut_program"]

#: Parts of all ranks, at most: their arrays are prepared one by one.
_MOST_PARTS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class StepProgram:
    """Stages in the order of a step; a stage may occur several times.

    A step after the first one begins with the `feedback`: results by the variable that gets their
    values. `sizes` are those of all dimensions. No stage reads the variables `passed`: they hold
    values for one step.
    """

    stages: tuple[StayingStage, ...]
    order: tuple[int, ...]
    feedback: Mapping[str, str]
    sizes: Mapping[str, int]
    passed: tuple[Variable, ...] = ()

    @property
    def variables(self) -> dict[str, Variable]:
        """All variables, those included that take the place of others.

        Variables that change places lie in memory alike.
        """
        found: dict[str, Variable] = {one.name: one for one in self.passed}
        for stage in self.stages:
            for one in stage.variables:
                found.setdefault(one.name, one)
        for names in self._groups(found):
            order = found[names[0]].order
            for name in names:
                one = found[name]
                found[name] = Variable(name, one.dims, one.dtype, order)
        return found

    @property
    def whole(self) -> frozenset[str]:
        """The dimensions that are not cut."""
        found = {dim for stage in self.stages for dim in stage.whole}
        for stage in self.stages:
            fields, dims = stage.fields(frozenset()), {v.name: v.dims for v in stage.variables}
            used = {dim for name in (*fields.read, *fields.written) for dim in dims[name]}
            found |= {dim for name in fields.written for dim in used.difference(dims[name])}
        around: dict[str, set[bool]] = {}
        for stage in self.stages:
            for dim, goes in stage.around.items():
                around.setdefault(dim, set()).add(goes)
        return frozenset(found.union(dim for dim, several in around.items() if len(several) > 1))

    def fields(self, cut: frozenset[str]) -> tuple[StageFields, ...]:
        """Return the variables of each stage."""
        return tuple(stage.fields(cut) for stage in self.stages)

    def operations(self, cut: frozenset[str]) -> tuple[Operation, ...]:
        """Return the operations of a step, but for its feedback."""
        fields = self.fields(cut)
        found: list[Operation] = []
        for number in self.order:
            found.append(Run(number, fields[number]))
            turned = self.stages[number].turned
            if turned:
                found.append(Turn(turned))
        return tuple(found)

    def cells(self, part: Part, cut: frozenset[str]) -> dict[str, Cells]:
        """Return the cells of each variable that a part has room for."""
        found: dict[str, list[Cells]] = {
            one.name: [{dim: part.spans[dim] for dim in one.dims}] for one in self.passed
        }
        for stage in self.stages:
            for name, cells in stage.cells(part, cut).items():
                found.setdefault(name, []).append(cells)
        held: dict[str, Cells] = {name: hull(several) for name, several in found.items()}
        for names in self._groups(held):
            united = hull([held[name] for name in names])
            held |= dict.fromkeys(names, united)
        return held

    def _groups(self, known: Mapping[str, object]) -> list[list[str]]:
        """Return the variables that change places, together."""
        groups: list[set[str]] = []
        turns = [*(stage.turned.items() for stage in self.stages), self.feedback.items()]
        for to, of in itertools.chain.from_iterable(turns):
            one = {to, of}
            for other in [group for group in groups if group & one]:
                groups.remove(other)
                one |= other
            groups.append(one)
        return [[name for name in known if name in group] for group in groups]


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """A program and how it is cut: `ranks` are the parts of each rank."""

    program: StepProgram
    cut: frozenset[str]
    ranks: tuple[tuple[Part, ...], ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of all ranks."""
        return tuple(part for some in self.ranks for part in some)

    def block_of(self, dim: str) -> int:
        """Return the points of the largest part along a dimension."""
        return max(part.spans[dim].size for part in self.parts)

    def shared(self, ranks: int) -> Steps:
        """Return the same parts on other ranks."""
        several = tuple(tuple(some) for some in shares(self.parts, min(ranks, len(self.parts))))
        return Steps(self.program, self.cut, several)

    @property
    def bytes(self) -> int:
        """The bytes of arrays and temporaries that a rank takes."""
        return max(
            sum(_part_bytes(self.program, part, self.cut) for part in some) for some in self.ranks
        )

    def whole_bytes(self, name: str) -> int:
        """Return the bytes of all values of a variable."""
        one = self.program.variables[name]
        return math.prod(self.program.sizes[dim] for dim in one.dims) * one.itemsize

    def own_bytes(self, names: Iterable[str]) -> int:
        """Return the bytes of the own cells of variables that a rank has."""
        variables = self.program.variables
        several = [variables[name] for name in names]
        return max(
            sum(_own_bytes(one, part) for part in some for one in several) for some in self.ranks
        )


def cut_program(program: StepProgram, workers: int, chunks: Mapping[str, int]) -> Steps:
    """Return the program cut for so many workers, or in parts of some sizes along dimensions."""
    sizes = {dim: min(chunks.get(dim, size), size) for dim, size in program.sizes.items()}
    whole = program.whole
    sizes |= {dim: program.sizes[dim] for dim in whole if dim in sizes}
    if sizes == dict(program.sizes) and workers > 1:
        sizes |= _shared(program, workers, whole)
    count = math.prod(-(-n // sizes[dim]) for dim, n in program.sizes.items())
    if count > _MOST_PARTS:
        sizes = {**program.sizes, **_shared(program, workers, whole)}
    cut = frozenset(dim for dim, size in program.sizes.items() if sizes[dim] < size)
    along = [
        [Span(at, min(at + sizes[dim], size)) for at in range(0, size, sizes[dim])]
        for dim, size in program.sizes.items()
    ]
    parts = [
        Part(index, dict(zip(program.sizes, spans, strict=True)))
        for index, spans in enumerate(itertools.product(*along))
    ]
    return Steps(program, cut, (tuple(parts),)).shared(workers)


def _shared(program: StepProgram, workers: int, whole: frozenset[str]) -> dict[str, int]:
    """Return the size of parts along the dimension whose cut leaves the least to exchange."""
    reach = {
        dim: max((stage.reach.get(dim, 0) for stage in program.stages), default=0)
        for dim in program.sizes
    }
    most: dict[str, int] = {}
    for variable in program.variables.values():
        for dim in variable.dims:
            most[dim] = most.get(dim, 0) + 1
    free = [dim for dim, size in program.sizes.items() if dim not in whole and size > 1]
    if not free or workers == 1:
        return {}

    def cost(dim: str) -> tuple[bool, int, float]:
        size = program.sizes[dim]
        return size < workers, -most.get(dim, 0), reach[dim] / size

    best = min(free, key=cost)
    return {best: -(-program.sizes[best] // workers)}


def _part_bytes(program: StepProgram, part: Part, cut: frozenset[str]) -> int:
    """Return the bytes that a part takes."""
    variables, cells = program.variables, program.cells(part, cut)
    held = sum(
        math.prod(span.size for span in cells[name].values()) * one.itemsize
        for name, one in variables.items()
    )
    return held + sum(stage.bytes(part, cut) for stage in program.stages)


def _own_bytes(variable: Variable, part: Part) -> int:
    return math.prod(part.spans[dim].size for dim in variable.dims) * variable.itemsize
