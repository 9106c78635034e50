"""Horizontal regions drawn at random: parts of I and J, at both ends of the domain and beyond."""

from __future__ import annotations

from drawing_scope import Scope

__all__ = ["regions"]


def regions(scope: Scope) -> str:
    """Return a `with` of one region or two, which run one after the other."""
    several = [_region(scope) for _ in range(scope.number(1, 2))]
    return f"with horizontal({', '.join(several)}):"


def _region(scope: Scope) -> str:
    sides = [_side(scope, "I"), _side(scope, "J")]
    if scope.number(0, 1):
        sides[scope.number(0, 1)] = ":"
    return f"region[{', '.join(sides)}]"


def _side(scope: Scope, axis: str) -> str:
    """Return an index, or a range of them, which has a point in a domain that is not small."""
    low, high = scope.number(-1, 1), scope.number(-1, 1)
    first, last = f"{axis}[0]", f"{axis}[-1]"
    match scope.number(0, 7):
        case 0:
            return scope.pick("0", "1", "2")
        case 1:
            return _moved(first, low)
        case 2:
            return _moved(last, high)
        case 3:
            return f"{_moved(first, low)} : {_moved(last, high)}"
        case 4:
            return f"{_moved(first, low)} : {_moved(first, low + scope.number(1, 3))}"
        case 5:
            return f"{_moved(last, high)} : {_moved(last, high + scope.number(1, 2))}"
        case 6:
            return scope.pick("EAST", "EAST : I[-1]") if axis == "I" else "NOWHERE"
        case _:
            return scope.pick(f": {_moved(first, 1 + low)}", f"{_moved(last, high)} :", "1 :")


def _moved(edge: str, by: int) -> str:
    return edge if by == 0 else f"{edge} {'+' if by > 0 else '-'} {abs(by)}"
