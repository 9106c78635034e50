"""Size of a program, which bounds the time and the memory of compilers.

Compilers run where the blocks are, often in processes that others use too, and cannot be stopped
there. So a service that has several users refuses what would take them long, before.
"""

from __future__ import annotations

from dataclasses import dataclass

from halocline_engine.errors import CapacityError
from halocline_engine.ir.nodes import Assign
from halocline_engine.ir.walk import accesses_of, expressions, statements, targets_of, walk
from halocline_engine.schedule.nodes import Kernel, Schedule
from halocline_engine.schedule.storage.temporaries import kernels_of

__all__ = ["Size", "check_size", "size_of"]

# What these take, in terms; where one function has hundreds, they take more each.
_BRANCH = 40
_LOOP = 100
_FIELD = 10


@dataclass(frozen=True, slots=True)
class Size:
    """Sums over the bodies of all loops, and of the arrays that each of them uses.

    Terms are the nodes of expressions, and assignments.
    """

    terms: int
    branches: int
    loops: int
    fields: int

    @property
    def total(self) -> int:
        """The size in terms."""
        return self.terms + _BRANCH * self.branches + _LOOP * self.loops + _FIELD * self.fields


def size_of(schedule: Schedule) -> Size:
    """Return the size of what a schedule becomes, after temporaries are computed again."""
    kernels = kernels_of(schedule.steps)
    bodies = [section.body for kernel in kernels for section in kernel.sections]
    found = [statement for body in bodies for statement in statements(body)]
    nodes = sum(1 for body in bodies for value in expressions(body) for _ in walk(value))
    branches = sum(not isinstance(statement, Assign) for statement in found)
    terms = nodes + len(found) - branches
    return Size(terms, branches, len(bodies), sum(_fields(kernel) for kernel in kernels))


def _fields(kernel: Kernel) -> int:
    """Return how many arrays each section uses, added up."""
    registers = {register.name for register in kernel.registers}
    used = (
        {*targets_of(section.body), *(name for name, _ in accesses_of(section.body))}
        for section in kernel.sections
    )
    return sum(len(names - registers) for names in used)


def check_size(schedule: Schedule, largest: int) -> None:
    """Raise `CapacityError` where a schedule is larger than what may be compiled.

    Most terms take Numba and LLVM 3 ms: 8000 are about 25 s and 700 MB on two slow cores.
    """
    size = size_of(schedule)
    if size.total > largest:
        raise CapacityError(
            f"The program is too large to compile: its terms ({size.terms}), branches"
            f" ({size.branches}), loops ({size.loops}) and fields in loops ({size.fields}) count 1,"
            f" {_BRANCH}, {_LOOP} and {_FIELD} each, {size.total} together, but at most {largest}"
            " are allowed.",
            hint="Split it into several programs that exchange fields.",
        )
