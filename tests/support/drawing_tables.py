"""Neighbours by table, drawn at random: fields at points that tables name, and loops over columns.

Two kinds of tables have columns of a program's own numbers: `near`, with values for each neighbour
in `wd`, `wf`, `wi` and `ok`, and `edge` with `we`. `first` and `far` are fields over I that name
points, and `cell` has points of its own, as cells have beside edges.
"""

from __future__ import annotations

from drawing_scope import Scope

__all__ = ["AROUND", "called", "entry", "named", "table_arguments", "table_test", "table_value"]

#: Functions of the module whose parameters are tables.
AROUND = """\
@function
def around(v, to, by=1.0):
    return neighbor_sum(by * (v[to] - HALF))

@function
def beside(v, to):
    return v[to[0]] if to[0] >= 0 else HALF

"""
#: Fields that no statement assigns and that have an axis I.
_FLOATS = ("a", "b", "c", "h", "hi", "hik", "cell", "cell")
_WHOLE = ("m", "m", "tiny", "low", "base")


def table_arguments(slots: tuple[int, int]) -> str:
    """Return parameters for a program with tables."""
    near, edge = slots
    return (
        f"    near: Table[{near}], wd: Table[{near}, np.float64], wf: Table[{near}, np.float32],\n"
        f"    wi: Table[{near}, np.int16], ok: Table[{near}, np.bool_],\n"
        f"    edge: Table[{edge}, np.int32], we: Table[{edge}, np.float32],\n"
        "    first: Field[I, np.int32], far: Field[I, np.int64], cell: Field[np.float64],\n"
    )


def entry(scope: Scope) -> str:
    """Return a whole number of a table at the point."""
    near, edge = (scope.number(0, most - 1) for most in scope.slots)
    return scope.pick(f"near[{near}]", f"near[{near}]", f"edge[{edge}]", f"wi[{near}]", "first")


def named(scope: Scope, *fields: str) -> str:
    """Return one of some fields at a point that a column names."""
    near, edge = (scope.number(0, most - 1) for most in scope.slots)
    columns = (f"near[{near}]", f"near[{near}]", f"edge[{edge}]", "first", "far")
    return f"{scope.pick(*fields)}[{scope.pick(*columns)}]"


def table_test(scope: Scope, one: str) -> str:
    """Return a condition of what tables name, or of a value and that."""
    near = scope.number(0, scope.slots[0] - 1)
    match scope.number(0, 6):
        case 0 | 1:
            return f"{entry(scope)} {scope.pick('>= 0', '< 0', '> 1', '!= K')}"
        case 2:
            return f"{scope.pick('ok', 'not ok')}[{near}]"
        case 3:
            return scope.pick("", "not ") + named(scope, "o")
        case 4:
            return f"{scope.pick('isnan', 'isfinite')}({named(scope, *_FLOATS)})"
        case 5:
            return f"{_loop(scope, one)} > {one}"
        case _:
            return f"{named(scope, *_FLOATS)} {scope.pick('<', '>=')} {one}"


def table_value(scope: Scope, one: str) -> str:
    """Return a value of tables; `one` has none, and may stand in a loop."""
    near, edge = (scope.number(0, most - 1) for most in scope.slots)
    match scope.number(0, 8):
        case 0 | 1:
            return named(scope, *_FLOATS)
        case 2:
            return named(scope, *_WHOLE)
        case 3:
            return scope.pick(f"wd[{near}]", f"wf[{near}]", f"we[{edge}]", entry(scope))
        case 4:
            index = entry(scope)
            level = f"{scope.pick('a', 'b', 'c')}[0, 0, {index} % 3 - 1]"
            return scope.pick(f"g.A[{index}]", f"d[0, 0, 0][{index}]", f"r.A[{index}]", level)
        case _:
            return _loop(scope, one)


def called(scope: Scope) -> str:
    """Return a call of a function with a table; none can be in a condition."""
    given = ("near", "near, wd", "near, wi", "near, s", "edge", "edge, we")
    calls = (f"around({{}}, {scope.pick(*given)})", f"beside({{}}, {scope.pick('near', 'edge')})")
    return scope.pick(*calls).format(scope.pick(*_FLOATS))


def _loop(scope: Scope, one: str) -> str:
    """Return a loop over columns; the table that is read is one that names points, or its own."""
    loop = scope.pick("neighbor_sum", "neighbor_sum", "max_over", "min_over")
    table = scope.pick("near", "near", "edge")
    weight = scope.pick("wd", "wf", "wi") if table == "near" else "we"
    there = f"{scope.pick(*_FLOATS)}[{table}]"
    match scope.number(0, 10):
        case 0:
            return f"{loop}({there})"
        case 1 | 2:
            return f"{loop}({weight} * ({there} - {one}))"
        case 3:
            return f"{loop}({scope.pick(*_WHOLE)}[{table}] + {table})"
        case 4:
            return f"{loop}({weight})"
        case 5:
            return f"{loop}({there} if {table} > {entry(scope)} else {one})"
        case 6:
            return f"{loop}(sqrt(abs({there})) * {weight} + {named(scope, *_FLOATS)})"
        case 7 if table == "near":
            return f"{loop}({weight} if ok or o[near] else {there})"
        case 8 if scope.slots[0] == scope.slots[1]:
            return f"{loop}({there} - {scope.pick('a', 'h')}[near] * c[edge])"
        case 9:
            index = scope.pick(table, "wi") if table == "near" else table
            looked = (
                f"g.A[{index}]",
                f"d[0, 0, 0][{index}]",
                f"b.at(K={index})",
                f"a[0, 0, {index} % 3 - 1]",
            )
            return f"{loop}({scope.pick(*looked)} - 0.5 * {there})"
        case _:
            return f"{loop}({there} * {weight}) + {loop}({weight} - {one})"
