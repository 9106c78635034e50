"""Copies of fields in columns: what a later pass would load again, a column may keep.

A copy of a field that the kernel assigns takes its place in the kernel, and is stored where no
later section assigns the level again. A copy of any other one is made by the first pass that reads
it, for the passes behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import groupby

from halocline_engine.ir.nodes import Assign, Bound, Expr, Interval, Read, Statement
from halocline_engine.ir.remember import remembered
from halocline_engine.ir.types import DType, Order
from halocline_engine.ir.walk import accesses_of, rewrite_statement
from halocline_engine.schedule.nodes import Kernel, Section
from halocline_engine.schedule.storage.coverage import assigns, exposed
from halocline_engine.schedule.storage.rename import retargeted

__all__ = ["Copied", "copied", "copy_name", "copyable"]

_HERE = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class Copied:
    """A kernel with a copy of a field; `saved` are the loads and stores of a level without it."""

    kernel: Kernel
    saved: float


def copy_name(name: str) -> str:
    """Return the name of the copy of a field."""
    return f"{name}.copy"


def copyable(kernel: Kernel, dtypes: Mapping[str, DType], levels: int) -> tuple[str, ...]:
    """Return the names among some that columns may have copies of, those that save most first."""
    found = {name: copied(kernel, name, dtype, levels) for name, dtype in dtypes.items()}
    saved = {
        name: one.saved * dtypes[name].itemsize for name, one in found.items() if one is not None
    }
    return tuple(sorted(saved, key=lambda name: -saved[name]))


@remembered
def copied(kernel: Kernel, name: str, dtype: DType, levels: int) -> Copied | None:
    """Return a kernel whose columns have a copy of a field, or None where that saves nothing.

    Each level has its copy before a section reads it, and columns read no other column's.
    """
    accesses = [at for s in kernel.sections for at in accesses_of(s.body) if at[0] == name]
    if any(offset[:2] != (0, 0) for _, offset in accesses) or name in kernel.irregular:
        return None
    is_assigned = any(name in section.assigned for section in kernel.sections)
    if is_assigned:
        return _replaced(kernel, name, dtype, levels)
    return _beside(kernel, name, dtype, levels)


def _beside(kernel: Kernel, name: str, dtype: DType, levels: int) -> Copied | None:
    """Return a kernel whose first pass over a field copies it, and whose later ones read that."""
    passes = _passes(kernel)
    reading = [number for number, s in enumerate(kernel.sections) if _offsets(s, name)]
    if not reading:
        return None
    first = passes[reading[0]]
    copy = Assign(copy_name(name), Read(name, _HERE, dtype))
    done: set[int] = set()
    sections: list[Section] = []
    for number, section in zip(passes, kernel.sections, strict=True):
        offsets, body = _offsets(section, name), section.body
        if number == first and _HERE in offsets:
            done |= _levels(section, levels)
            body = (copy, *body)
        elif number > first:
            if not all(_levels(section, levels, k) <= done for _, _, k in offsets):
                return None
            body = _read_anew(body, name)
        sections.append(replace(section, body=body))
    later = {passes[n] for n in reading} - {first}
    return Copied(replace(kernel, sections=tuple(sections)), len(later)) if later else None


def _replaced(kernel: Kernel, name: str, dtype: DType, levels: int) -> Copied | None:
    """Return a kernel that works on a copy of a field that it assigns, and stores the last one."""
    passes = _passes(kernel)
    store = Assign(name, Read(copy_name(name), _HERE, dtype))
    done: set[int] = set()
    sections: list[Section] = []
    saved = 0.0
    begun: set[int] = set()
    for number, (at, section) in enumerate(zip(passes, kernel.sections, strict=True)):
        own, is_whole = _levels(section, levels), assigns(section.body, name)
        step = 1 if (section.order or kernel.order) is Order.BACKWARD else -1
        open_here = _HERE in exposed(section, name)
        offsets = _offsets(section, name)
        for _, _, k in offsets:
            known = done | own if is_whole and (k * step > 0 or not (k or open_here)) else done
            if not _levels(section, levels, k) <= known:
                return None
        if begun - {at} and any(k * step <= 0 or not is_whole for _, _, k in offsets):
            saved += len(own) / levels
        body = _read_anew(section.body, name)
        if name in section.assigned:
            if not is_whole and not own <= done:
                return None
            done |= own
            begun.add(at)
            body = tuple(retargeted(statement, {name: copy_name(name)}) for statement in body)
            again = own & _assigned_again(kernel.sections[number + 1 :], name, levels)
            saved += len(again) / levels
            for part, is_last in _parts(section, own - again, levels, step):
                sections.append(replace(part, body=(*body, store) if is_last else body))
        else:
            sections.append(replace(section, body=body))
    return Copied(replace(kernel, sections=tuple(sections)), saved) if saved else None


def _parts(
    section: Section, last: Set[int], levels: int, step: int
) -> Iterator[tuple[Section, bool]]:
    """Yield the parts of a section in the order of visits, and whether they are among `last`."""
    own = sorted(_levels(section, levels), reverse=step > 0)
    runs = [(is_last, list(run)) for is_last, run in groupby(own, key=last.__contains__)]
    for is_last, run in runs:
        ends = Bound(from_end=False, offset=min(run)), Bound(from_end=False, offset=max(run) + 1)
        yield replace(section, interval=Interval(*ends)) if runs[1:] else section, is_last


def _assigned_again(sections: Sequence[Section], name: str, levels: int) -> set[int]:
    whole = [_levels(s, levels) for s in sections if name in s.assigned]
    return set[int]().union(*whole)


def _passes(kernel: Kernel) -> list[int]:
    """Return the number of each section's pass: those that follow each other in one order."""
    found: list[int] = []
    before: Order | None = None
    for section in kernel.sections:
        order = section.order or kernel.order
        found.append(found[-1] + (order is not before) if found else 0)
        before = order
    return found


def _offsets(section: Section, name: str) -> list[tuple[int, int, int]]:
    return [offset for read, offset in accesses_of(section.body) if read == name]


def _levels(section: Section, levels: int, k: int = 0) -> set[int]:
    """Return the levels of a section, or those at an offset from them."""
    start, end = section.interval.start, section.interval.end
    return set(range(start.level(levels) + k, end.level(levels) + k))


def _read_anew(body: tuple[Statement, ...], name: str) -> tuple[Statement, ...]:
    """Return a body that reads the copy of a field instead."""

    def change(expr: Expr) -> Expr:
        if isinstance(expr, Read) and expr.name == name:
            return replace(expr, name=copy_name(name))
        return expr

    return tuple(
        rewrite_statement(statement, change)
        if any(read == name for read, _ in accesses_of((statement,)))
        else statement
        for statement in body
    )
