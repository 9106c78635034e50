"""One step of a feedback as values: what can be made several times in one pass through memory.

After this, every statement is a `Stage`, an assignment of its own name that no other stage assigns,
and reads are of earlier stages or of fields that the step does not write. Conditions are selects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from halocline_engine.ir.extent import Extent, Facts, Range
from halocline_engine.ir.nodes import Assign, Expr, If, Program, Read, Statement
from halocline_engine.ir.remember import Remembering
from halocline_engine.ir.types import Axis, DType, Order
from halocline_engine.ir.walk import irregular, reads_of, rewrite, statements
from halocline_engine.schedule.passes.flatten import flatten, masked
from halocline_engine.schedule.passes.powers import expand_powers
from halocline_engine.schedule.passes.prune import prune
from halocline_engine.schedule.passes.unordered import unordered
from halocline_engine.schedule.stages import WHOLE, Draft, Names, draft
from halocline_engine.schedule.storage.rename import rename

__all__ = ["Refused", "Stage", "Step", "step_of"]


_POINT: Extent = ((0, 0), (0, 0), (0, 0))
#: Statements of a step; the code of several steps has each of them as often.
_MOST_STAGES = 100


@dataclass(frozen=True, slots=True)
class Refused:
    """Reason that a program cannot make several steps at once, as a clause after 'since'."""

    reason: str


@dataclass(frozen=True, slots=True)
class Stage:
    """A value of a step, at every point; a read of it is of its `name`."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Step(Remembering):
    """A step of a feedback.

    `stages` are in order; `results` gives the stage that each output holds, and `feedback` the
    output that becomes each input that is fed. `dtypes` are those of all names, `extents` those of
    the fields that are read. `reach` is how far around a point a step reads what the last one made,
    and `wanted` how far beyond the domain each stage is needed.
    """

    program: Program
    stages: tuple[Stage, ...]
    results: Mapping[str, str]
    feedback: Mapping[str, str]
    dtypes: Mapping[str, DType]
    axes: Mapping[str, tuple[Axis, ...]]
    extents: Mapping[str, Extent]
    reach: tuple[Range, Range, Range]
    by_name: Mapping[str, Stage] = field(init=False, repr=False, compare=False)
    wanted: Mapping[str, Extent] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {stage.name: stage for stage in self.stages})
        object.__setattr__(self, "wanted", _wanted(self.stages, set(self.results.values())))

    @property
    def inputs(self) -> tuple[str, ...]:
        """The fields that are read, in the order of the program."""
        return tuple(self.extents)

    @property
    def is_vertical(self) -> bool:
        """Whether any value is read at another level, so that planes depend on each other."""
        return any(k for stage in self.stages for k in (r.offset[2] for r in reads_of(stage.value)))


def _wanted(stages: Sequence[Stage], results: Set[str]) -> dict[str, Extent]:
    """Return how far beyond the domain each stage is needed; results are so on the domain alone."""
    found: dict[str, Extent] = dict.fromkeys((stage.name for stage in stages), _POINT)
    for stage in reversed(stages):
        for read in reads_of(stage.value):
            if read.name in found and read.name not in results:
                i, j, k = (
                    (min(low, other[0]), max(high, other[1]))
                    for (low, high), other in zip(
                        found[read.name], _moved(found[stage.name], read), strict=True
                    )
                )
                found[read.name] = (i, j, k)
    return found


def _moved(extent: Extent, read: Read) -> Extent:
    """Return how far around the domain a read of points in an extent of it reaches."""
    i, j, k = ((low + by, high + by) for (low, high), by in zip(extent, read.offset, strict=True))
    return i, j, k


def step_of(program: Program, facts: Facts, feedback: Mapping[str, str]) -> Step | Refused:
    """Return a step in which each output of `feedback` becomes its input, or why there is none."""
    made = _unfit(program) or _unfit_pairs(program, feedback)
    if made is not None:
        return made
    stages = prune(expand_powers(rename(flatten(unordered(draft(program, facts))))))
    unfit = _unfit_parts(stages)
    if unfit is not None:
        return unfit
    found = _Values(stages, feedback).assigned()
    if isinstance(found, Refused):
        return found
    if len(found.stages) > _MOST_STAGES:
        return Refused(f"it has more than {_MOST_STAGES} statements")
    return _step(program, facts, feedback, found)


def _step(
    program: Program, facts: Facts, feedback: Mapping[str, str], found: _Found
) -> Step | Refused:
    fields = {one.name: one for one in program.fields}
    missing = next((name for name in feedback if name not in found.results), None)
    if missing is not None:
        return Refused(f"'{missing}' is not written")
    read = {r.name for stage in found.stages for r in reads_of(stage.value)}
    read |= set(found.results.values())
    extents = {name: facts.fields[name] for name in fields if name in read}
    fed = [extents[name] for name in feedback.values() if name in extents]
    i, j, k = (
        (min([0, *(one[at][0] for one in fed)]), max([0, *(one[at][1] for one in fed)]))
        for at in range(3)
    )
    return Step(
        program=program,
        stages=found.stages,
        results=found.results,
        feedback={old: new for new, old in feedback.items()},
        dtypes={s.name: s.value.dtype for s in found.stages}
        | {one.name: one.dtype for one in program.fields},
        axes={one.name: one.axes for one in program.fields},
        extents=extents,
        reach=(i, j, k),
    )


def _unfit(program: Program) -> Refused | None:
    """Return why fields that are made for each call cannot be read by several steps at once."""
    if program.tables or program.gathers:
        return Refused("it reads through a table of neighbours")
    if program.positions or program.limits:
        return Refused("it reads indices, or has regions")
    if program.scratch or program.lookups:
        return Refused("it has temporaries of a plane, loops or tables")
    if program.choices:
        return Refused("scalars choose components of its fields")
    return None


def _unfit_pairs(program: Program, feedback: Mapping[str, str]) -> Refused | None:
    fields = {one.name: one for one in program.fields}
    for new, old in feedback.items():
        if new not in fields or old not in fields:
            return Refused(f"'{new}' or '{old}' is not a field")
        if fields[old].written:
            return Refused(f"'{old}' is fed and also written")
        if fields[new].dtype is not fields[old].dtype:
            return Refused(f"'{new}' and '{old}' have different types")
    flat = [f.name for f in program.fields if f.written and f.axes != tuple(Axis)]
    flat += [old for old in feedback.values() if fields[old].axes != tuple(Axis)]
    if flat:
        return Refused(f"'{flat[0]}' does not have all axes")
    return None


def _unfit_parts(stages: Draft) -> Refused | None:
    bodies = [stage.statement for part in stages.parts for stage in part.stages]
    if any(not isinstance(one, Assign | If) for one in statements(bodies)):
        return Refused("it has loops")
    if irregular(bodies) or any(isinstance(s, Assign) and s.level for s in statements(bodies)):
        return Refused("it reads levels that only a run knows")
    if any(part.order is not Order.PARALLEL for part in stages.parts):
        return Refused("its levels follow one another")
    if any(stage.interval != WHOLE for part in stages.parts for stage in part.stages):
        return Refused("some statements run on a part of the levels")
    return None


@dataclass(frozen=True, slots=True)
class _Found:
    stages: tuple[Stage, ...]
    results: Mapping[str, str]


class _Values:
    """Gives every assignment a name of its own, and reads the name of the value they are of."""

    def __init__(self, stages: Draft, feedback: Mapping[str, str]) -> None:
        self._draft = stages
        self._fed = set(feedback.values())
        self._names = Names(stages.temporaries)
        self._written = {
            name
            for part in stages.parts
            for stage in part.stages
            for name in stage.targets
            if name not in stages.temporaries
        }
        self._now: dict[str, str] = {}
        self._stages: list[Stage] = []
        self._refused: list[Refused] = []

    def assigned(self) -> _Found | Refused:
        """Return all stages, and the value that each written field has at the end."""
        for part in self._draft.parts:
            for stage in part.stages:
                for assign in self._assigns(stage.statement):
                    self._assign(assign)
                    if self._refused:
                        return self._refused[0]
        return _Found(
            tuple(self._stages), {name: self._now[name] for name in sorted(self._written)}
        )

    def _assigns(self, statement: Statement) -> Iterator[Assign]:
        if isinstance(statement, If):
            yield from masked(statement, None, self._names)
        elif isinstance(statement, Assign):
            yield statement

    def _assign(self, assign: Assign) -> None:
        def change(expr: Expr) -> Expr:
            return self._read(expr) if isinstance(expr, Read) else expr

        value = rewrite(assign.value, change)
        name = self._names.fresh(f"value.{assign.target}", value.dtype)
        self._now[assign.target] = name
        self._stages.append(Stage(name, value))

    def _read(self, read: Read) -> Read:
        known = self._now.get(read.name)
        if read.name not in self._written:
            return read if known is None else replace(read, name=known)
        if known is None:
            self._refused.append(
                Refused(f"'{read.name}' is read before it is written, and so keeps older values")
            )
            return read
        return replace(read, name=known)
