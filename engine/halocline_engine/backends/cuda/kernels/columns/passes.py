"""Passes of a column over its levels, and the values that levels hand on in registers.

A column that reads what it wrote one level before would wait for its own store at each level. Such
values are kept in a variable, if every level writes them, and from section to section as long as
no level lies between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from halocline_engine.backends.cuda.kernels.columns.united import united_sections
from halocline_engine.backends.cuda.model.intervals import is_single
from halocline_engine.ir.nodes import Assign, Interval
from halocline_engine.ir.types import Order
from halocline_engine.ir.walk import assignments, irregular, reads
from halocline_engine.schedule.nodes import Kernel, Section

__all__ = ["Carry", "Pass", "always_assigned", "carries", "passes_of"]


@dataclass(frozen=True, slots=True)
class Pass:
    """Sections of a column kernel that visit their levels in one order, one after the other."""

    order: Order
    sections: tuple[Section, ...]

    @property
    def step(self) -> int:
        """The K offset of the level that is visited before."""
        return -1 if self.order is Order.FORWARD else 1

    @property
    def written(self) -> frozenset[str]:
        """The names that the pass assigns."""
        return frozenset(a.target for s in self.sections for a in assignments(s.body))


@dataclass(frozen=True, slots=True)
class Carry:
    """What the levels of one section have of the level before in variables.

    `before` are the names whose value there is in one, `loaded` those of them that the first level
    has to load, and `handed` those that each level hands on.
    """

    before: frozenset[str] = frozenset()
    loaded: frozenset[str] = frozenset()
    handed: frozenset[str] = frozenset()


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
    one: Pass, arrays: frozenset[str], updated: Sequence[frozenset[str]] = ()
) -> tuple[Carry, ...]:
    """Return what each section of a pass carries of `arrays`.

    `updated` has the names of each section that levels may assign under a condition, and whose
    values they have in variables before. No interval is empty, so what a section hands on is there
    for the next one.
    """
    return tuple(_carries(one, arrays, updated or [frozenset[str]()] * len(one.sections)))


def _carries(
    one: Pass, arrays: frozenset[str], updated: Sequence[frozenset[str]]
) -> Iterator[Carry]:
    wanted = [_read_before(section, one.step) & arrays for section in one.sections]
    current: frozenset[str] = frozenset()
    last: Section | None = None
    for section, names, changed in zip(one.sections, wanted, updated, strict=True):
        if last is None or not _adjoins(last.interval, section.interval, one.step):
            current = frozenset()
        always = (always_assigned(section) | changed) & arrays
        current -= irregular(section.body)
        before = names & (current if is_single(section.interval) else always)
        handed = always & frozenset[str]().union(*wanted)
        yield Carry(before, before - current, handed)
        current, last = handed, section


def _read_before(section: Section, step: int) -> frozenset[str]:
    return frozenset(r.name for r in reads(section.body) if r.offset == (0, 0, step))


def always_assigned(section: Section) -> frozenset[str]:
    """Return the names that every level assigns before it may assign them under a condition.

    Names whose elements at other levels, which only a run knows, are used there are not among them.
    """
    first: dict[str, bool] = {}
    for statement in section.body:
        for assign in assignments((statement,)):
            here = isinstance(statement, Assign) and statement.level is None
            first.setdefault(assign.target, here)
    return frozenset(name for name, always in first.items() if always) - irregular(section.body)


def _adjoins(above: Interval, below: Interval, step: int) -> bool:
    """Return whether the levels visited next begin where the others end."""
    return above.end == below.start if step < 0 else above.start == below.end
