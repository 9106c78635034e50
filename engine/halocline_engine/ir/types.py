"""Axes, orders and data types, and the C-like promotion of the language."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Axis", "DType", "Order", "promote"]


class Axis(StrEnum):
    """A direction of the grid: I and J are horizontal, K is vertical."""

    I = "I"  # noqa: E741 - the field's own name
    J = "J"
    K = "K"


class Order(StrEnum):
    """Order in which a computation visits the levels."""

    PARALLEL = "PARALLEL"
    FORWARD = "FORWARD"
    BACKWARD = "BACKWARD"


class DType(StrEnum):
    """An element type, by its NumPy name, listed by rank from low to high."""

    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"

    @property
    def rank(self) -> int:
        """The place in the order of promotion; the higher wins."""
        return _RANKS[self]

    @property
    def is_float(self) -> bool:
        """Whether values have a fraction."""
        return self in (DType.FLOAT32, DType.FLOAT64)

    @property
    def is_integer(self) -> bool:
        """Whether values are whole numbers; a bool is not."""
        return self is not DType.BOOL and not self.is_float

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return _SIZES[self]


_RANKS = {dtype: rank for rank, dtype in enumerate(DType)}
_SIZES = {
    DType.BOOL: 1,
    DType.INT8: 1,
    DType.INT16: 2,
    DType.INT32: 4,
    DType.INT64: 8,
    DType.FLOAT32: 4,
    DType.FLOAT64: 8,
}


def promote(left: DType, right: DType) -> DType:
    """Return the type of an operation on two operands: the one of higher rank.

    This is the rule of the language and not NumPy's: int64 with float32 gives float32.

    >>> promote(DType.INT64, DType.FLOAT32).value
    'float32'
    """
    return left if left.rank >= right.rank else right
