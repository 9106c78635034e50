"""Signature of a program: requirements of the arguments of its calls."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from halocline_engine.analysis.levels import touched_levels
from halocline_engine.analysis.named import used_fields
from halocline_engine.ir.extent import Facts, Range
from halocline_engine.ir.nodes import Field, Parameter, Program
from halocline_engine.ir.walk import expressions, program_bodies, reads, walk

__all__ = ["Signature", "signature_of"]


@dataclass(frozen=True, slots=True)
class Signature:
    """A program and its facts; `used` are the fields that a call needs arrays for.

    `optional` are the arguments that may be left out, as they are not used or have a default;
    `elsewhere` the fields that are read at points of tables alone, which may have other points.
    """

    program: Program
    facts: Facts
    used: tuple[Field, ...]
    optional: frozenset[str]
    elsewhere: frozenset[str]
    _levels: dict[int, Mapping[str, Range]] = field(
        default_factory=dict[int, Mapping[str, Range]], compare=False, repr=False
    )

    def levels(self, size: int) -> Mapping[str, Range]:
        """Return the first and the last level of each field that a domain of `size` touches."""
        found = self._levels.get(size)
        if found is None:
            found = dict(touched_levels(self.program, size))
            found |= {gather.field: (0, size - 1) for gather in self.program.gathers}
            # One domain or a few, as a rule; a sweep over many must not fill the memory.
            if len(self._levels) >= 16:
                self._levels.clear()
            self._levels[size] = found
        return found


def signature_of(program: Program, facts: Facts) -> Signature:
    """Return what calls of a program must give."""
    direct = {read.name for body in program_bodies(program) for read in reads(body)}
    return Signature(
        program=program,
        facts=facts,
        used=tuple(used_fields(program)),
        optional=frozenset(_optional(program)),
        elsewhere=frozenset({gather.field for gather in program.gathers} - direct),
    )


def _optional(program: Program) -> set[str]:
    used = {
        node.name
        for body in program_bodies(program)
        for expr in expressions(body)
        for node in walk(expr)
        if isinstance(node, Parameter)
    }
    fields = {f.name for f in program.fields if not (f.read or f.written)}
    fields |= {table.name for table in program.tables if fields >= {*table.columns}}
    known = {field.name for field in program.fields}
    for whole in program.components:
        if not any(whole.field(n) in known for n in range(math.prod(whole.shape))):
            fields.add(whole.name)
    return fields | {s.name for s in program.scalars if s.default is not None or s.name not in used}
