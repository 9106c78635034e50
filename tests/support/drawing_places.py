"""Reads of the whole language: fewer axes, components, tables, and levels in every spelling."""

from __future__ import annotations

from drawing_scope import PLANES, READ_ONLY, Scope

__all__ = ["place", "test"]

#: Fields with fewer axes, and the bases of levels.
_FEWER = ("hi", "hi[1]", "hj[-1]", "hik[1, -1]", "hjk[0, 1]", "hjk", "base", "h[0, 1]")
_FEWER_HERE = ("hi", "hj", "hik[0, -1]", "hjk[0, 1]", "hjk", "base", "h")
#: What offsets look like that name axes.
_NAMED = ("I+1", "I-1", "J+1", "I-1, J+1", "K+1", "I+1, K-1", "J-1, K+1")
_NAMED_HERE = ("K+1", "K-1")


def place(scope: Scope) -> str:
    """Return what is read where, without a level that arrays of GT4Py lack for a peer."""
    own = scope.written | scope.here
    # GT4Py takes no index of a component in which K stands.
    half, third = ("base % 2", "base % 3") if scope.peer else ("K % 2", "K % 3")
    named = _NAMED_HERE if scope.has_tables else _NAMED
    match scope.number(0, 9):
        case 0:
            return scope.pick("K", "(K * 2 - q)", "(K % 3)", "float64(K)", "(0.5 * K)")
        case 1:
            return scope.pick(*(_FEWER_HERE if scope.has_tables else _FEWER))
        case 2 if scope.declared - {"flag"}:
            return _declared(scope)
        case 3:
            return f"{scope.pick(*READ_ONLY)}[{scope.pick(*named)}]"
        case 4:
            return f"gg.A[{scope.pick('3', 'm % 4')}, {scope.pick('0', third, 'base % 3')}]"
        case 5 if not (scope.looping or scope.in_region or "e" in own):
            return f"e[{scope.beside(1)}, 0, 0][{scope.pick('0', 'm % 2')}]"
        case 6 if scope.has_levels and (scope.order != "PARALLEL" or "d" not in own):
            level = scope.pick("K", "2", "base % 4")
            return f"d.at(K=0 + {level}, ddim=[{scope.pick('0', 'm % 3', third)}])"
        case 8 | 9:
            beside = 0 if "mm" in own else scope.beside(1)
            return scope.pick(
                *("few", "small", "fed", "ground", "tiny", "low", "tint", "times", "kn[-1]"),
                *("kd.A[0]", f"kd[{beside}][1]", "gi.A[m % 6]" if scope.peer else "gi.A[m]"),
                f"mm[{beside}, 0, 0][{scope.pick('1, 0', 'm % 2, 1')}]",
            )
        case 7:
            moved = ("m % 3 - K % 2", "q - K % 4 - 1")
            level = scope.pick("base % 2", "m % 3 - 1", *(() if scope.peer else moved))
            return f"{scope.pick(*READ_ONLY)}[0, 0, {level}]"
        case _:
            return f"e[0, 0, 0][{scope.pick('1', 'm % 2', half)}]"


def _declared(scope: Scope) -> str:
    """Return a temporary with a type; one over I and J may be read beside the point."""
    name = scope.pick(*sorted(scope.declared - {"flag"}))
    if name not in PLANES or name in scope.here or scope.is_narrow or scope.number(0, 1):
        return name
    return f"{name}[{scope.number(-1, 1)}, {scope.number(-1, 1)}]"


def test(scope: Scope) -> str:
    """Return a condition of levels, of what is true or not, or of a plane."""
    return scope.pick(
        "K % 2 == 0",
        "K >= q - 1",
        "m % 4 == K",
        "base > K",
        *("o", "on", "wet", "not wet or o", "m == Phase.ICE", "COUNT > times"),
        *(("o[0, 0, 1]", "not o") if scope.has_tables else ("o[1, 0, 0]", "not o[0, -1, 0]")),
        "isnan(x)",
        "hi > hj",
        "hik[0, 0] < K",
        *("flag" if name == "flag" else f"{name} > 0" for name in sorted(scope.declared)),
    )
