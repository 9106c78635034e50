"""Passes of a column over its levels, and the values that levels hand on in registers.

A column that reads what it wrote one level before would wait for its own store at each level. Such
values are kept in a variable, if every level writes them. The variable has the value of the last
level that wrote it until another section does: a sum that only the level reads where it is complete
needs no memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from halocline_engine.backends.cuda.kernels.columns.united import united_sections
from halocline_engine.backends.cuda.model.intervals import is_single
from halocline_engine.backends.cuda.text.expressions import TYPES
from halocline_engine.backends.cuda.text.fragments import offsets
from halocline_engine.backends.cuda.text.statements import Scope
from halocline_engine.ir.nodes import Bound
from halocline_engine.ir.remember import Remembering, remembered
from halocline_engine.ir.types import Order
from halocline_engine.ir.walk import Access, accesses_of, irregular
from halocline_engine.schedule.nodes import Kernel, Section
from halocline_engine.schedule.storage.coverage import flow

__all__ = ["Carry", "LevelVariables", "Pass", "always_assigned", "carries", "passes_of"]


@dataclass(frozen=True, slots=True)
class Pass(Remembering):
    """Sections of a column kernel that visit their levels in one order, one after the other."""

    order: Order
    sections: tuple[Section, ...]

    @property
    def step(self) -> int:
        """The K offset of the level that is visited before."""
        return -1 if self.order is Order.FORWARD else 1

    @property
    @remembered
    def written(self) -> frozenset[str]:
        """The names that the pass assigns."""
        return frozenset[str]().union(*(section.assigned for section in self.sections))


@dataclass(frozen=True, slots=True)
class LevelVariables:
    """Variables with the element of an array at a level, and at the one visited before."""

    scope: Scope

    def _type(self, name: str) -> str:
        return TYPES[self.scope.dtypes[name]]

    def _before(self, name: str) -> str:
        return f"before_{self.scope.arrays[name]}"

    def _here(self, name: str) -> str:
        return f"here_{self.scope.arrays[name]}"

    def _offsets(self, names: Iterable[str]) -> list[str]:
        """Return the offsets of the point in the arrays among some names."""
        return offsets(self.scope.arrays.keys() & set(names), self.scope)


@dataclass(frozen=True, slots=True)
class Carry:
    """What the levels of one section have of levels visited before in variables.

    `before` are the elements whose value there is in one when a level begins, `loaded` the names of
    those that the first level has to load, and `handed` the names that each level hands on.
    """

    before: frozenset[Access] = frozenset()
    loaded: frozenset[str] = frozenset()
    handed: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """The names that there are variables for."""
        return self.handed | {name for name, _ in self.before}

    def looked_up(self, section: Section) -> tuple[Access, ...]:
        """Return what the section reads, but for what variables have at all of its levels."""
        return tuple(
            (name, offset)
            for name, offset in accesses_of(section.body)
            if (name, offset) not in self.before or name in self.loaded
        )


@remembered
def passes_of(kernel: Kernel, levels: int = 0) -> tuple[Pass, ...]:
    """Return the sections of a column kernel, those of one order together.

    Where the number of `levels` is known, sections that visit the same levels one after the other
    are united where each level finds the same (`united_sections`).
    """
    found: list[Pass] = []
    for section in kernel.sections:
        order = section.order or kernel.order
        if found and found[-1].order is order:
            found[-1] = Pass(order, (*found[-1].sections, section))
        else:
            found.append(Pass(order, (section,)))
    if not levels or kernel.irregular:
        return tuple(found)
    single = kernel.flat | {register.name for register in kernel.registers}
    return tuple(
        Pass(one.order, united_sections(one.order, one.sections, single, levels)) for one in found
    )


def carries(
    passes: Sequence[Pass],
    arrays: frozenset[str],
    levels: int = 0,
    updated: Sequence[frozenset[str]] = (),
) -> tuple[tuple[Carry, ...], ...]:
    """Return what each section of each pass carries of `arrays`.

    A variable has the value of the last level that was visited where its array is assigned, until
    another section assigns it: a section that reads this very level needs no memory for it, be it
    the next one or the first of a later pass. `levels` are those of the domain where they are
    known. `updated` has the names of each section that levels may assign under a condition, and
    whose values they have in variables before. No interval is empty, so what a section hands on is
    there.
    """
    every = [(one.step, section) for one in passes for section in one.sections]
    held: dict[str, tuple[Bound, int]] = {}
    found: list[tuple[frozenset[Access], frozenset[str]]] = []
    handed: list[set[str]] = [set() for _ in every]
    for number, (step, section) in enumerate(every):
        own = always_assigned(section) | (updated[number] if updated else frozenset[str]())
        held = {name: at for name, at in held.items() if name not in irregular(section.body)}
        there = {name: level for name, (level, _) in held.items()}
        elements = _carried(section, step, own & arrays, there, levels)
        before = frozenset(name for name, _ in elements)
        loaded = frozenset(name for (name, _), is_there in elements.items() if not is_there)
        for name in before - loaded:
            handed[held[name][1]].add(name)
        if not is_single(section.interval):
            handed[number] |= before
        found.append((frozenset(elements), loaded))
        held = {name: at for name, at in held.items() if name not in section.assigned}
        held |= dict.fromkeys(own & arrays, (_end(section, step, levels), number))
    made = iter([Carry(*one, frozenset(names)) for one, names in zip(found, handed, strict=True)])
    return tuple(tuple(islice(made, len(one.sections))) for one in passes)


def _carried(
    section: Section,
    step: int,
    own: frozenset[str],
    there: Mapping[str, Bound],
    levels: int,
) -> dict[Access, bool]:
    """Return what a section reads of levels that were visited, and whether it is there at once.

    Variables have the elements of `there`, each at its level. Many levels hand on the names in
    `own`, which each of them has in a variable itself.
    """
    found: dict[Access, bool] = {}
    for name, offset in accesses_of(section.body):
        is_there = name in there and offset == (0, 0, offset[2])
        is_there &= there.get(name) == _begin(section, step, levels, offset[2])
        if not is_single(section.interval):
            if name in own and offset == (0, 0, step):
                found[name, offset] = is_there
        elif is_there and (offset[2] or name in own or name not in section.assigned):
            found[name, offset] = True
    return found


def _begin(section: Section, step: int, levels: int, k: int) -> Bound:
    """Return the level at an offset from the first one that a section visits."""
    start, end = section.interval.start, section.interval.end
    return _further(start, k, levels) if step < 0 else _further(end, k - 1, levels)


def _end(section: Section, step: int, levels: int) -> Bound:
    """Return the last level that a section visits."""
    start, end = section.interval.start, section.interval.end
    return _further(end, -1, levels) if step < 0 else _further(start, 0, levels)


def _further(bound: Bound, k: int, levels: int) -> Bound:
    """Return the level `k` further; the same one is always written alike if `levels` are known."""
    if levels:
        return Bound(from_end=False, offset=bound.level(levels) + k)
    return Bound(bound.from_end, bound.offset + k)


@remembered
def always_assigned(section: Section) -> frozenset[str]:
    """Return the names that a level assigns whatever branches it takes.

    Names whose elements at other levels, which only a run knows, are used there are not among them.
    """
    return frozenset(flow(section.body)[1]) - irregular(section.body)
