"""The words of the stencil language, for editors, linters and Python itself.

A program is text and Python never runs it, but Python reads the function's annotations and an
editor looks for every name. Importing the words from here (or from GT4Py) satisfies both::

    import numpy as np
    from halocline.gtscript import PARALLEL, Field, computation, interval

    def double(a: Field[np.float64], b: Field[np.float64]):
        with computation(PARALLEL), interval(...):
            b = 2.0 * a
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar, cast

import numpy as np

__all__ = [
    "BACKWARD",
    "FORWARD",
    "IJ",
    "IJK",
    "IK",
    "JK",
    "PARALLEL",
    "THIS_K",
    "Axis",
    "AxisIndex",
    "Field",
    "FieldType",
    "GlobalTable",
    "I",
    "J",
    "K",
    "ShiftedAxis",
    "Table",
    "TableType",
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "compile_assert",
    "computation",
    "cos",
    "cosh",
    "enum",
    "erf",
    "erfc",
    "exp",
    "float32",
    "float64",
    "floor",
    "function",
    "gamma",
    "horizontal",
    "int32",
    "int64",
    "interval",
    "isfinite",
    "isinf",
    "isnan",
    "lazy_function",
    "lazy_stencil",
    "log",
    "log10",
    "max",
    "max_over",
    "min",
    "min_over",
    "mod",
    "neighbor_sum",
    "region",
    "round",
    "round_away_from_zero",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "stencil",
    "tan",
    "tanh",
    "trunc",
]

_F = TypeVar("_F", bound=Callable[..., Any])
_C = TypeVar("_C")


@dataclass(frozen=True)
class FieldType:
    """The type of an array parameter: its axes in order, and its element type."""

    axes: tuple[str, ...]
    dtype: Any
    data_dims: tuple[int, ...] = ()


@dataclass(frozen=True)
class TableType:
    """The type of a table: how many numbers each point has, and their type."""

    slots: int
    dtype: Any = int


class _TableWord:
    """`Table[n]` or `Table[n, dtype]`."""

    def __getitem__(self, item: Any) -> Any:
        return (
            TableType(*cast("tuple[int, Any]", item))
            if isinstance(item, tuple)
            else TableType(item)
        )


class _FieldWord:
    """`Field[dtype]` or `Field[axes, dtype]`; a pair `(dtype, sizes)` has data dimensions."""

    def __getitem__(self, item: Any) -> Any:
        if not (isinstance(item, tuple) and isinstance(item[0], _Word)):
            item = (IJK, item)
        axes, element = cast("tuple[Any, Any]", item)
        dtype, sizes = cast("Any", element) if isinstance(element, tuple) else (element, ())
        return FieldType(tuple(str(axes)), dtype, _shape(sizes))


class _GlobalTableWord:
    """`GlobalTable[(dtype, sizes)]`, an array that has nothing to do with the domain."""

    def __getitem__(self, item: tuple[Any, Any]) -> FieldType:
        dtype, sizes = item
        return FieldType((), dtype, _shape(sizes))


def _shape(sizes: int | tuple[int, ...]) -> tuple[int, ...]:
    return sizes if isinstance(sizes, tuple) else (sizes,)


class _Word:
    """A word that means something in a program and nothing in Python."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __call__(self, *_: Any) -> NoReturn:
        raise TypeError(
            f"'{self._name}' belongs to a stencil program, which Python does not run; pass the "
            "function to 'Client.stencil'."
        )


@dataclass(frozen=True)
class AxisIndex:
    """A place on an axis, such as `I[0]` or `J[-1] + 1`: the value of an external."""

    axis: str
    index: int
    offset: int = 0

    def __add__(self, offset: int) -> AxisIndex:
        return AxisIndex(self.axis, self.index, self.offset + offset)

    __radd__ = __add__

    def __sub__(self, offset: int) -> AxisIndex:
        return self + -offset


@dataclass(frozen=True)
class ShiftedAxis:
    """An axis shifted by some points, such as `I - 1`."""

    name: str
    shift: int

    def __add__(self, shift: int) -> ShiftedAxis:
        return ShiftedAxis(self.name, self.shift + shift)

    def __sub__(self, shift: int) -> ShiftedAxis:
        return self + -shift


class Axis(_Word):
    """An axis: `I[0]` is its first point, `I[-1]` its last one, and `I - 1` the axis shifted."""

    @property
    def name(self) -> str:
        """The letter of the axis."""
        return self._name

    def __getitem__(self, index: int) -> AxisIndex:
        return AxisIndex(self._name, index)

    def __add__(self, shift: int) -> ShiftedAxis:
        return ShiftedAxis(self._name, shift)

    def __sub__(self, shift: int) -> ShiftedAxis:
        return self + -shift


def function(definition: _F) -> _F:
    """Mark a function that programs call; it is inlined where it is called."""
    return definition


def stencil(definition: Any = None, **_options: Any) -> Any:
    """Mark a stencil, as GT4Py's decorator does; its options are ignored."""
    return function if definition is None else definition


def lazy_stencil(definition: Any = None, **_options: Any) -> Any:
    """Mark a stencil, as `stencil` does."""
    return function if definition is None else definition


def lazy_function(
    before_annotation: Callable[..., Any] | None = None,
    after_annotation: Callable[..., Any] | None = None,
) -> Callable[[_F], _F]:
    """Mark a function as `function` does; in GT4Py its types are read when it is called first."""
    del before_annotation, after_annotation  # what they would change is not executed
    return function


@function
def sign(a: float, b: float) -> float:
    """Return the size of `a` with the sign of `b`, in programs; it is an external of models."""
    size = abs(a)
    return size if b > 0 else -size


def enum(definition: _C) -> _C:
    """Mark a class of whole numbers, which are constants in programs."""
    return definition


if TYPE_CHECKING:
    # Annotations of a program, as tools see them: its names are assigned anything.
    Field: TypeAlias = Any
    GlobalTable: TypeAlias = Any
    Table: TypeAlias = Any
    float32 = float
    float64 = float
    int32 = int
    int64 = int
else:
    Field = _FieldWord()
    GlobalTable = _GlobalTableWord()
    Table = _TableWord()
    float32 = np.float32
    float64 = np.float64
    int32 = np.int32
    int64 = np.int64

I: Any = Axis("I")  # noqa: E741 - the language's own name
J: Any = Axis("J")
K: Any = Axis("K")
THIS_K: Any = _Word("THIS_K")
IJ: Any = _Word("IJ")
IK: Any = _Word("IK")
JK: Any = _Word("JK")
IJK: Any = _Word("IJK")
PARALLEL: Any = _Word("PARALLEL")
FORWARD: Any = _Word("FORWARD")
BACKWARD: Any = _Word("BACKWARD")
computation: Any = _Word("computation")
interval: Any = _Word("interval")
horizontal: Any = _Word("horizontal")
region: Any = _Word("region")
compile_assert: Any = _Word("compile_assert")
__INLINED: Any = _Word("__INLINED")
abs: Any = _Word("abs")  # noqa: A001 - the language's own name
max: Any = _Word("max")  # noqa: A001 - the language's own name
min: Any = _Word("min")  # noqa: A001 - the language's own name
sqrt: Any = _Word("sqrt")
cbrt: Any = _Word("cbrt")
exp: Any = _Word("exp")
log: Any = _Word("log")
log10: Any = _Word("log10")
sin: Any = _Word("sin")
cos: Any = _Word("cos")
tan: Any = _Word("tan")
asin: Any = _Word("asin")
acos: Any = _Word("acos")
atan: Any = _Word("atan")
atan2: Any = _Word("atan2")
sinh: Any = _Word("sinh")
cosh: Any = _Word("cosh")
tanh: Any = _Word("tanh")
asinh: Any = _Word("asinh")
acosh: Any = _Word("acosh")
atanh: Any = _Word("atanh")
floor: Any = _Word("floor")
ceil: Any = _Word("ceil")
trunc: Any = _Word("trunc")
round: Any = _Word("round")  # noqa: A001 - the language's own name
round_away_from_zero: Any = _Word("round_away_from_zero")
mod: Any = _Word("mod")
erf: Any = _Word("erf")
erfc: Any = _Word("erfc")
gamma: Any = _Word("gamma")
isnan: Any = _Word("isnan")
isinf: Any = _Word("isinf")
isfinite: Any = _Word("isfinite")
neighbor_sum: Any = _Word("neighbor_sum")
max_over: Any = _Word("max_over")
min_over: Any = _Word("min_over")
