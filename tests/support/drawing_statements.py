"""Statements drawn at random: assignments, conditions, loops, and what only some programs have."""

from __future__ import annotations

from drawing_more import more
from drawing_scope import OUTPUTS, Scope
from drawing_values import condition, value, whole_number

__all__ = ["statement"]


def _general(scope: Scope, pad: str, nest: int) -> str:
    """Return a loop, or an assignment of a component, of a plane or at a level."""
    kind = scope.number(0, 3)
    if kind == 0 and nest:
        return _loop(scope, pad, nest - 1 if scope.whole else 0)
    if kind == 1 or scope.order == "PARALLEL" or scope.looping:
        scope.target = "d"
        return f"{pad}d[0, 0, 0][{scope.pick('0', '2', 'm % 3', 'q - 2')}] = {value(scope, 2)}\n"
    if kind == 2:
        scope.target = "f"
        return f"{pad}f = {scope.pick('f + ', '0.5 * f + ', '')}{value(scope, 2)}\n"
    target = scope.pick("x", "y")
    scope.target = target
    level = scope.pick("1", "-1", "q - 2", "m % 3 - 1")
    scope.written.add(target)
    scope.here.add(target)
    return f"{pad}{target}[0, 0, {level}] = {value(scope, 2)}\n"


def _loop(scope: Scope, pad: str, nest: int) -> str:
    """Return a loop of few turns, whose number differs from point to point."""
    scope.loops += 1
    count = f"count{scope.loops}"
    named = ("near[0] + 1", "m[far] % 4", "max_over(edge)") if scope.has_tables else ()
    text = f"{pad}{count} = 0\n{pad}while {count} < {scope.pick('2', 'm % 4', 'q', *named)}"
    text += f" and ({condition(scope)}):\n" if scope.number(0, 2) == 0 else ":\n"
    around, scope.looping = scope.looping, True
    for _ in range(scope.number(1, 2)):
        text += statement(scope, pad + "    ", nest)
    scope.looping = around
    return text + f"{pad}    {count} = {count} + 1\n"


def statement(scope: Scope, pad: str, nest: int) -> str:
    """Return a statement, with others in it up to a depth."""
    if scope.whole and scope.number(0, 2) == 0:
        return more(scope, pad, nest, statement)
    if scope.general and scope.number(0, 4) == 0:
        return _general(scope, pad, nest)
    if nest and scope.number(0, 4) == 0:
        return _conditional(scope, pad, nest)
    if scope.number(0, 7) == 0:
        text = f"{pad}n = {whole_number(scope)}\n"
        scope.written.add("n")
        return text
    temporary = scope.pick("t", "u", "v")
    target = scope.pick(*OUTPUTS, temporary, temporary, temporary)
    scope.target = target
    text = f"{pad}{target} = {_kept(scope, target)}{value(scope, 3)}\n"
    if target in OUTPUTS:
        scope.written.add(target)
        scope.here.add(target)
    else:
        scope.assigned(target)
    return text


def _kept(scope: Scope, target: str) -> str:
    """Return a term that keeps the old value in sight, so that no fault is overwritten."""
    if scope.number(0, 3) == 0 or (target not in OUTPUTS and target not in scope.first):
        return ""
    return f"0.5 * {target} + "


def _conditional(scope: Scope, pad: str, nest: int) -> str:
    text = f"{pad}if {condition(scope)}:\n"
    for _ in range(scope.number(1, 2)):
        text += statement(scope, pad + "    ", nest - 1)
    if scope.number(0, 1):
        text += f"{pad}else:\n" + statement(scope, pad + "    ", nest - 1)
    return text
