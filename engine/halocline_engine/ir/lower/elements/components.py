"""Data dimensions: a component is chosen when the text is lowered, or by an index of the run.

A component that an index of the run chooses is one of all components, as a choice of them. An
index beyond them reads the first or the last one, and assigns none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from halocline_engine.errors import SyntaxRuleError, TypeRuleError
from halocline_engine.ir.lower.types import convert
from halocline_engine.ir.nodes import (
    Binary,
    Call,
    Components,
    Expr,
    If,
    Location,
    Number,
    Select,
    Statement,
)
from halocline_engine.ir.types import DType
from halocline_engine.language.source import Place, fault

__all__ = ["chosen", "flat_index", "no_component", "no_product", "stored"]


def flat_index(
    indices: Sequence[Expr], name: str, shape: tuple[int, ...], place: Place
) -> int | Expr:
    """Return the number of an element in C order, which is a constant or an INT64."""
    if len(indices) != len(shape):
        message = f"'{name}' has the data dimensions {shape}, and an index for each is needed."
        hint = "Write an index for each: 'q[0, 0, 0][1]' or 'q.A[1]'."
        raise fault(SyntaxRuleError, place, "data-dimensions", message, hint)
    total: int | Expr = 0
    for index, size in zip(indices, shape, strict=True):
        if not index.dtype.is_integer:
            message = f"The index of a data dimension is an integer, but got {index.dtype.value}."
            hint = "Convert it with 'int(...)'."
            raise fault(TypeRuleError, place, "data-dimensions", message, hint)
        if isinstance(index, Number):
            number = int(index.value)
            if not 0 <= number < size:
                message = (
                    f"'{name}' has the components 0 to {size - 1} here, but got the index {number}."
                )
                hint = "Use another index, or change the type of the field."
                raise fault(SyntaxRuleError, place, "data-dimensions", message, hint)
            total = _plus(_times(total, size), number)
        else:
            within = _within(convert(index, DType.INT64, place), size) if len(shape) > 1 else index
            total = _plus(_times(total, size), convert(within, DType.INT64, place))
    return total


def chosen(index: Expr, parts: Sequence[Expr], first: int = 0) -> Expr:
    """Return the part that an index chooses, which counts from `first`."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    test = Binary("<", index, Number(DType.INT64, first + half), DType.BOOL)
    halves = chosen(index, parts[:half], first), chosen(index, parts[half:], first + half)
    return Select(test, *halves, parts[0].dtype)


def stored(
    index: Expr, count: int, store: Callable[[int], tuple[Statement, ...]], place: Location
) -> If:
    """Return the statement that stores the component which an index chooses, if there is one."""
    low = Binary(">=", index, Number(DType.INT64, 0), DType.BOOL)
    high = Binary("<", index, Number(DType.INT64, count), DType.BOOL)
    body = _stored(index, 0, count, store, place)
    return If(Binary("and", low, high, DType.BOOL), body, (), place)


def no_component(whole: Components, place: Place) -> SyntaxRuleError:
    """Return the error for an array with data dimensions without an index."""
    form = ", ".join("0" for _ in whole.shape)
    message = f"'{whole.name}' has data dimensions, and none of its components is chosen here."
    hint = f"Write '{whole.name}.A[{form}]', or assign to a field with data dimensions."
    return fault(SyntaxRuleError, place, "data-dimensions", message, hint)


def no_product(place: Place) -> SyntaxRuleError:
    """Return the error for a product of matrices that is no whole array."""
    message = "'@' is a product of arrays with data dimensions, and stands in an expression here."
    hint = "Assign it to a field, or a temporary, with data dimensions."
    return fault(SyntaxRuleError, place, "data-dimensions", message, hint)


def _stored(
    index: Expr,
    first: int,
    end: int,
    store: Callable[[int], tuple[Statement, ...]],
    place: Location,
) -> tuple[Statement, ...]:
    if end - first == 1:
        return store(first)
    middle = (first + end) // 2
    test = Binary("<", index, Number(DType.INT64, middle), DType.BOOL)
    halves = (
        _stored(index, first, middle, store, place),
        _stored(index, middle, end, store, place),
    )
    return (If(test, *halves, place),)


def _within(index: Expr, size: int) -> Expr:
    """Return an index, or the nearest one that there is."""
    above = Call("max", (index, Number(DType.INT64, 0)), DType.INT64)
    return Call("min", (above, Number(DType.INT64, size - 1)), DType.INT64)


def _times(value: int | Expr, factor: int) -> int | Expr:
    if isinstance(value, int):
        return value * factor
    return Binary("*", value, Number(DType.INT64, factor), DType.INT64)


def _plus(value: int | Expr, more: int | Expr) -> int | Expr:
    if isinstance(value, int) and isinstance(more, int):
        return value + more
    if value == 0:
        return more
    if more == 0:
        return value
    left, right = (Number(DType.INT64, v) if isinstance(v, int) else v for v in (value, more))
    return Binary("+", left, right, DType.INT64)
