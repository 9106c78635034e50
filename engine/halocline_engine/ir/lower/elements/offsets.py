"""Constant offsets, as they are written: `q[1, 0, -1]` and `q[I + 1, K - 1]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from halocline_engine.errors import LimitError, SyntaxRuleError
from halocline_engine.ir.lower.naming.scope import AXES
from halocline_engine.ir.nodes import Offset
from halocline_engine.ir.types import Axis
from halocline_engine.language.limits import Limits
from halocline_engine.language.source import Place, fault
from halocline_engine.language.syntax import Infix, Literal, Name, Prefix, Term

__all__ = ["PLAIN", "axis_of", "read_offset", "shown"]

_SPACE = (Axis.I, Axis.J, Axis.K)
#: The axes by what they are called in an inlined body.
PLAIN: Mapping[str, Axis] = {spelled: Axis(axis) for axis, spelled in AXES.items()}


def read_offset(
    name: str, axes: Sequence[Axis], indices: Sequence[Term], place: Place, limits: Limits
) -> Offset:
    """Return the offset that the indices of a field or temporary mean."""
    if not indices:
        return (0, 0, 0)
    if any(axis_of(index) for index in indices):
        shifts = _named_shifts(name, axes, indices, limits)
    elif len(indices) == len(axes):
        shifts = {a: _shift(t, _most(a, limits)) for a, t in zip(axes, indices, strict=True)}
    else:
        letters = ", ".join(axis.value for axis in axes)
        message = (
            f"'{shown(name)}' has the axes {letters} and needs {len(axes)} offsets, but got "
            f"{len(indices)}."
        )
        hint = f"Write '{shown(name)}[{', '.join('0' for _ in axes)}]' with an offset for each."
        raise fault(SyntaxRuleError, place, "offsets", message, hint)
    return shifts.get(Axis.I, 0), shifts.get(Axis.J, 0), shifts.get(Axis.K, 0)


def axis_of(index: Term) -> Axis | None:
    """Return the axis that an index names, as in `I`, `J + 1` and `K - 2`."""
    match index:
        case Name(name) | Infix("+" | "-", Name(name)):
            return PLAIN.get(name)
        case _:
            return None


def shown(name: str) -> str:
    """Return a temporary's name as its function's text spells it."""
    return name.rsplit(".", maxsplit=1)[-1]


def _named_shifts(
    name: str, axes: Sequence[Axis], indices: Sequence[Term], limits: Limits
) -> dict[Axis, int]:
    """Read `q[I + 1, K - 1]`: axes in order, those left out are 0."""
    shifts: dict[Axis, int] = {}
    for index in indices:
        axis = axis_of(index)
        if axis is None:
            message = "An offset names its axis, as the others of this read do."
            hint = "Write 'q[I + 1, K - 1]' or 'q[1, 0, -1]'."
            raise fault(SyntaxRuleError, index.place, "offsets", message, hint)
        if axis not in axes:
            letters = ", ".join(each.value for each in axes)
            message = f"'{shown(name)}' has no axis {axis.value}."
            hint = f"Its axes are {letters}."
            raise fault(SyntaxRuleError, index.place, "offsets", message, hint)
        if any(_SPACE.index(other) >= _SPACE.index(axis) for other in shifts):
            message = "The axes of an offset must be in the order I, J, K."
            hint = "Write 'q[I + 1, J, K - 1]'."
            raise fault(SyntaxRuleError, index.place, "offsets", message, hint)
        shifts[axis] = _axis_shift(index, _most(axis, limits))
    return shifts


def _most(axis: Axis, limits: Limits) -> int:
    return limits.levels if axis is Axis.K else limits.halo


def _axis_shift(index: Term, most: int) -> int:
    if not isinstance(index, Infix):
        return 0
    shift = _shift(index.right, most)
    return shift if index.operator == "+" else -shift


def _shift(term: Term, most: int) -> int:
    """Return a constant offset: an integer, with a sign or not."""
    match term:
        case Literal(bool()):
            pass
        case Literal(int() as value, place):
            return _bounded(value, most, place)
        case Prefix("-", Literal(int() as value), place) if not isinstance(value, bool):
            return _bounded(-value, most, place)
        case Prefix("+", Literal(int() as value), place) if not isinstance(value, bool):
            return _bounded(value, most, place)
        case _:
            pass
    message = "An offset must be one constant integer."
    hint = "Write the number itself, like 'q[2, 0, 0]', or an external."
    raise fault(SyntaxRuleError, term.place, "offsets", message, hint)


def _bounded(value: int, most: int, place: Place) -> int:
    """Return an offset that is not too large."""
    if abs(value) > most:
        message = f"An offset is at most {most} cells, but got {value}."
        hint = "Move data over larger distances outside of the program."
        raise fault(LimitError, place, "limits", message, hint)
    return value
