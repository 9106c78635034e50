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
from typing import Any, NoReturn, TypeVar, cast

__all__ = [
    "BACKWARD",
    "FORWARD",
    "IJ",
    "IJK",
    "IK",
    "JK",
    "PARALLEL",
    "Field",
    "FieldType",
    "I",
    "J",
    "K",
    "Table",
    "TableType",
    "computation",
    "function",
    "interval",
    "isfinite",
    "isinf",
    "isnan",
    "max_over",
    "min_over",
    "neighbor_sum",
]

_F = TypeVar("_F", bound=Callable[..., Any])


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
        return FieldType(tuple(str(axes)), dtype, tuple(sizes))


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


def function(definition: _F) -> _F:
    """Mark a function that programs call; it is inlined where it is called."""
    return definition


Field: Any = _FieldWord()
Table: Any = _TableWord()
I: Any = _Word("I")  # noqa: E741 - the language's own name
J: Any = _Word("J")
K: Any = _Word("K")
IJ: Any = _Word("IJ")
IK: Any = _Word("IK")
JK: Any = _Word("JK")
IJK: Any = _Word("IJK")
PARALLEL: Any = _Word("PARALLEL")
FORWARD: Any = _Word("FORWARD")
BACKWARD: Any = _Word("BACKWARD")
computation: Any = _Word("computation")
interval: Any = _Word("interval")
isnan: Any = _Word("isnan")
isinf: Any = _Word("isinf")
isfinite: Any = _Word("isfinite")
neighbor_sum: Any = _Word("neighbor_sum")
max_over: Any = _Word("max_over")
min_over: Any = _Word("min_over")
