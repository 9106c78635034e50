"""Estimate of how long a column waits for itself at each level."""

from __future__ import annotations

from halocline_engine.backends.cuda.kernels.columns.passes import Pass
from halocline_engine.backends.cuda.model.intervals import is_single
from halocline_engine.ir.nodes import FMA, Binary, Call, Expr
from halocline_engine.ir.types import DType
from halocline_engine.ir.walk import expressions, walk

__all__ = ["is_function", "level_cycles"]

#: Cycles from an operation to the next that needs its result, and of what a level does besides.
_PLAIN, _AROUND = 6, 40
#: Cycles of divisions and functions, by the bytes of their type.
_LONG = {4: 40, 8: 110}
_SHORT = frozenset((FMA, "abs", "min", "max", "floor", "ceil", "trunc", "round"))


def level_cycles(one: Pass) -> int:
    """Return the cycles of a level of a pass, in its section of many levels that takes longest.

    Operations are taken one after the other, as those of a recurrence are.
    """
    return max(
        (
            _AROUND + sum(_cycles(node) for value in expressions(s.body) for node in walk(value))
            for s in one.sections
            if len(one.sections) == 1 or not is_single(s.interval)
        ),
        default=_AROUND,
    )


def is_function(node: Expr) -> bool:
    """Return whether a device computes an expression in many instructions, other than divisions."""
    return isinstance(node, Call) and node.function not in _SHORT and node.dtype is not DType.BOOL


def _cycles(node: Expr) -> int:
    match node:
        case Binary("/", _, _, dtype):
            return _LONG.get(dtype.itemsize, _PLAIN)
        case Call(_, _, dtype) if is_function(node):
            return _LONG.get(dtype.itemsize, _PLAIN)
        case Binary() | Call():
            return _PLAIN
        case _:
            return 0
