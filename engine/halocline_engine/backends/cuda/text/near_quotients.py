"""Levels whose divisions do not wait for each other.

A division ends with a branch, for the rare operands that its usual instructions are not exact for,
and a thread computes nothing behind a branch before it knows where that goes. So a level with
several divisions takes the usual way for all of them, and asks once, at its end, whether that was
right; where it was not, it begins again with divisions that are calls, whose text stands once.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from halocline_engine.backends.cuda.model.intervals import is_single
from halocline_engine.backends.cuda.text.expressions import TYPES, is_power_of_two
from halocline_engine.backends.cuda.text.fragments import indent, section_body
from halocline_engine.backends.cuda.text.statements import Scope
from halocline_engine.ir.nodes import Binary, While
from halocline_engine.ir.walk import expressions, irregular, statements, targets_of, walk
from halocline_engine.schedule.nodes import Section

__all__ = ["level_body"]

#: So many divisions of a level make it worth to have its statements twice: those of 8 bytes, or all
#: of them where the level stands in the text at most so many times (decision 0134).
_LEAST, _OFTEN = 2, 4
_USUAL = "usual"
_NEAR, _UNUSUAL = f"near_quotient({{}}, {{}}, {_USUAL})", "unusual_quotient({}, {})"


def level_body(
    section: Section,
    scope: Scope,
    own: Mapping[str, str | None],
    sums: Set[str],
    times: int = 1,
) -> list[str]:
    """Return the statements of a section, twice where it divides often.

    A level has the names in `own` in variables, which hold what is given, or nothing, before; those
    in `sums` are in variables that keep what levels before left in them. The level stands in the
    text so many times.
    """
    exact = section_body(section, scope)
    in_variables = section.assigned <= own.keys() | sums | scope.registers.keys()
    if not in_variables or not _divides_often(section, 8 if times > _OFTEN else 0):
        return exact
    near = section_body(section, replace(scope, quotient=_NEAR))
    again = section_body(section, replace(scope, quotient=_UNUSUAL))
    changed = [name for name in targets_of(section.body) if name in sums]
    return [
        f"bool {_USUAL} = true;",
        *(
            f"const {TYPES[scope.dtypes[n]]} was_{scope.arrays[n]} = {scope.outputs[n]};"
            for n in changed
        ),
        "{",
        *indent(near),
        "}",
        f"if (!{_USUAL}) {{",
        *(f"  {scope.outputs[n]} = {v};" for n, v in own.items() if v and n in section.assigned),
        *(f"  {scope.outputs[name]} = was_{scope.arrays[name]};" for name in changed),
        *indent(again),
        "}",
    ]


def _divides_often(section: Section, least: int) -> bool:
    """Return whether each of many levels divides several times, and can do so again.

    Quotients of fewer bytes than `least` do not count.
    """
    if is_single(section.interval) or irregular(section.body):
        return False
    if any(isinstance(s, While) for s in statements(section.body)):
        return False
    values = (node for value in expressions(section.body) for node in walk(value))
    divisions = (node for node in values if isinstance(node, Binary) and node.operator == "/")
    counted = (node for node in divisions if node.dtype.itemsize >= least)
    return sum(not is_power_of_two(node.right) for node in counted) >= _LEAST
