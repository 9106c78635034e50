"""Values and conditions drawn at random."""

from __future__ import annotations

from drawing_library import constant, library, property_of, whole
from drawing_places import place, test
from drawing_scope import OUTPUTS, READ_ONLY, Scope
from drawing_tables import called, entry, named, table_test, table_value

__all__ = ["condition", "read", "temporary", "value", "whole_number"]


def condition(scope: Scope) -> str:
    if scope.has_tables and scope.number(0, 2) == 0:
        return table_test(scope, _plain(scope))
    if scope.whole and scope.number(0, 2) == 0:
        return property_of(scope, read(scope)) if scope.number(0, 4) == 0 else test(scope)
    compared = f"{read(scope)} {scope.pick('<', '>=', '!=')} {_leaf(scope)}"
    match scope.number(0, 3):
        case 0:
            return f"{compared} and {read(scope)} > 0.0"
        case 1:
            return f"not ({compared})"
        case _:
            return compared


def value(scope: Scope, depth: int) -> str:
    if depth == 0 or scope.number(0, 4) == 0:
        return _leaf(scope)
    one, two = value(scope, depth - 1), value(scope, depth - 1)
    if scope.has_tables and scope.number(0, 9) == 0:
        return called(scope)
    if scope.whole and scope.number(0, 5) == 0:
        return library(scope, one, two)
    match scope.number(0, 9):
        case 0 if not scope.peer:
            return f"({one} if {condition(scope)} else {two})"
        case 1:
            return f"{scope.pick('min', 'max')}({one}, {two} + 0.0)"
        case 2:
            return f"sqrt(abs({one} + 0.5))"
        case 3:
            base = f"float64({read(scope)})" if scope.peer else read(scope)
            return f"({base} ** {scope.number(2, 4)})"
        case 4:
            return f"({one} / {read(scope)})"
        case _:
            return f"({one} {scope.pick('+', '-', '*')} {two})"


def whole_number(scope: Scope) -> str:
    beside = "m" if scope.has_tables else "m[1, 0, 0]"
    names = ["m", *(("n", beside) if "n" in scope.written else ())]
    names += ["K", "base"] if scope.whole else []
    names += ["THIS_K"] if scope.whole and not scope.peer else []
    names += [entry(scope), named(scope, "m", "base", "low")] if scope.has_tables else []
    left = scope.pick(*names) if len(names) > 1 else "m"
    number = f"{left} {scope.pick('+', '-', '*', '%')} {scope.pick('q', '2', '-3', 'm')}"
    if scope.whole and scope.number(0, 1):
        return whole(scope, number, scope.pick("times", "m", "few", "small"))
    return number


def _leaf(scope: Scope) -> str:
    if scope.number(0, 3) == 0:
        if scope.whole and scope.number(0, 1):
            return constant(scope)
        return scope.pick("s", "0.5", "2.0", "-1.25", "q", "3")
    return read(scope)


def _at_level(scope: Scope) -> str:
    """Return what is looked up: at a level of the run, in a table, or a component."""
    index = scope.pick("K", "2", "m % 5", *(("K - 1",) if scope.peer else ("m", "K - q")))
    side = 0 if scope.peer or scope.has_tables else 1
    match scope.number(0, 6):
        case 4:
            return "f"
        case 0:
            return f"g.A[{scope.pick('1', 'm % 5', 'm' if not scope.peer else '3')}]"
        case 1:
            level = 0 if scope.order == "PARALLEL" else scope.number(-1, 1)
            return f"d[0, 0, {level}][{scope.pick('0', '1', 'm % 3', 'q - 1')}]"
        case 2:
            return f"{scope.pick(*READ_ONLY)}[{scope.number(-side, side)}, 0, m % 3 - 1]"
        case 3:
            return f"r.A[{scope.pick('0', 'm % 2')}]"
        case _ if scope.has_levels:
            names = [*READ_ONLY]
            if scope.order != "PARALLEL":
                names += [name for name in OUTPUTS if name in scope.written]
            return f"{scope.pick(*names)}.at(K=0 + {index})"
        case _:
            return "f"


def read(scope: Scope) -> str:
    if scope.has_tables and scope.number(0, 3) == 0:
        return table_value(scope, _plain(scope))
    if scope.whole and scope.number(0, 3) == 0:
        return place(scope)
    if scope.general and scope.number(0, 4) == 0:
        return _at_level(scope)
    kind = scope.number(0, 9)
    if kind == 3:
        return scope.pick("h", "h" if scope.has_tables else "h[1, -1]", "w", "w[-1]", "m")
    if kind > 7:
        name = scope.pick(*OUTPUTS)
        return f"{name}[0, 0, {_level(scope, name)}]"
    if kind > 3 and scope.first:
        return temporary(scope)
    i, j, k = scope.beside(2), scope.beside(2), scope.number(-1, 1)
    return f"{scope.pick(*READ_ONLY)}[{i}, {j}, {k}]"


def _plain(scope: Scope) -> str:
    """Return what may stand in a loop over columns, or beside it: it has no tables."""
    if scope.first and scope.number(0, 1):
        return temporary(scope)
    return scope.pick("a", "b[0, 0, 1]", "c[0, 0, -1]", "K", "s", "0.5", "h", "m", "hi", "y")


def temporary(scope: Scope) -> str:
    name = scope.pick(*sorted(scope.first))
    i, j = 0, 0
    fresh = name not in scope.here or scope.first[name] == scope.block
    if scope.number(0, 1) and fresh and name != scope.target and not scope.is_narrow:
        i, j = scope.number(-1, 1), scope.number(-1, 1)
    return f"{name}[{i}, {j}, {_level(scope, name)}]"


def _level(scope: Scope, name: str) -> int:
    """Return an offset along K that stays inside the levels, for what the block may read so."""
    own = name in scope.here or name == scope.target
    if scope.number(0, 1) or (scope.order == "PARALLEL" and (own or scope.looping)):
        return 0
    low = 0 if scope.interval.startswith(("0", "...")) else -1
    high = 0 if scope.interval.endswith(("None", "...")) else 1
    return scope.number(low, high)
