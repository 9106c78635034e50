"""Expressions of variables: compiled as programs of the stencil language, and never executed.

An expression is the right-hand side of one statement, so its functions, types and errors are those
of programs. It has no neighbours: fields stand for their values at the same point.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.analysis.named import near
from halocline_engine.backends.targets import HOST_TARGET
from halocline_engine.datasets.stores.source import native
from halocline_engine.datasets.variables import check_distinct
from halocline_engine.distribute.blocks.work import Code, executable_of
from halocline_engine.errors import FieldError, NameRuleError, ProgramError, SyntaxRuleError
from halocline_engine.ir.types import DType
from halocline_engine.language.limits import Limits, check_text, check_tree, python_tree
from halocline_engine.language.source import START, Place, excerpt, fault, locate
from halocline_engine.program import compile_program

__all__ = ["Expression", "ordered_dims", "read_expression"]

_LIMITS = Limits(source=16_384, tokens=4_000, nodes=8_000)
_DEEP = "Make a variable for parts of it."
_BEFORE = "        {value} = "


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression of `variables`, whose values are of a type.

    One without code is a variable, whose values are taken as they are.
    """

    text: str
    variables: tuple[str, ...]
    dims: tuple[str, ...]
    dtype: np.dtype[Any]
    code: Code | None = None

    def values(self, read: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Return the values at all points, from variables of one shape."""
        arrays = [read[name] for name in self.variables]
        if self.code is None:
            return arrays[0]
        shape = arrays[0].shape
        made = np.empty(shape, self.dtype)
        if made.size:
            names = [*self.variables, _free("value", self.variables)]
            fields = {n: _flat(a) for n, a in zip(names, [*arrays, made], strict=True)}
            domain = fields[names[-1]].shape
            executable_of(self.code)(fields, {}, dict.fromkeys(names, (0, 0, 0)), domain)
        return made


def _flat(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view indexed [i, j, k] whose I is the last dimension."""
    last = array.shape[-1] if array.ndim else 1
    rows = math.prod(array.shape[:-1])
    return np.ascontiguousarray(array).reshape(rows, last).T[:, :, np.newaxis]


def read_expression(text: str, dataset: xr.Dataset, target: str = HOST_TARGET) -> Expression:
    """Return an expression as it is for a dataset.

    Raises `ProgramError` with the place in the text, and `FieldError` for a variable that cannot
    be used.
    """
    if text in dataset.variables:
        return _variable(text, dataset)
    try:
        names = tuple(_names(text, dataset))
    except ProgramError as error:
        raise locate(error, text) from None
    if not names:
        raise FieldError(
            f"The expression '{text}' names no variable.",
            hint=near(text, map(str, dataset.variables)),
        )
    for name in names:
        _check_type(name, dataset)
    head, value = _head(names, dataset), _free("value", names)
    before = _BEFORE.format(value=value)
    try:
        compiled = compile_program(f"{head}\n{before}{text.strip()}\n", target=target)
    except ProgramError as error:
        raise _moved(error, text.strip(), head.count("\n") + 1, len(before)) from None
    dims = ordered_dims([tuple(str(dim) for dim in dataset[name].dims) for name in names])
    return Expression(text, names, dims, np.dtype(np.float64), Code.of(compiled))


def ordered_dims(several: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return dimensions in the order of the variable that has most of them, and then the others."""
    longest = max(several, key=len)
    return tuple(dict.fromkeys((*longest, *(dim for dims in several for dim in dims))))


def _variable(name: str, dataset: xr.Dataset) -> Expression:
    check_distinct(dataset, name)
    array = dataset[name]
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise FieldError(
            f"Variable '{name}' has values of type '{array.dtype}', but numbers are reduced.",
            hint="Convert it with astype('float64').",
        )
    dims = tuple(str(dim) for dim in array.dims)
    return Expression(name, (name,), dims, native(array.dtype))


def _names(text: str, dataset: xr.Dataset) -> Iterator[str]:
    """Yield the variables of an expression, each once; raises `ProgramError`."""
    check_text(text.strip(), _LIMITS)
    tree = python_tree(text.strip(), _DEEP)
    check_tree(tree, _LIMITS)
    match tree.body:
        case [ast.Expr(value)]:
            pass
        case _:
            message = "This is not an expression of variables."
            raise fault(SyntaxRuleError, START, "syntax", message, "Write one, such as 'rho * t'.")
    functions = {node.func for node in ast.walk(value) if isinstance(node, ast.Call)}
    seen: set[str] = set()
    for node in ast.walk(value):
        if isinstance(node, ast.Subscript):
            message = "An expression has no offsets: it is evaluated point by point."
            hint = "Make a variable of it with a stencil."
            raise fault(SyntaxRuleError, _place(node), "offsets", message, hint)
        if not isinstance(node, ast.Name) or node in functions or node.id in seen:
            continue
        if node.id not in dataset.variables:
            message = f"The dataset has no variable '{node.id}'."
            hint = near(node.id, map(str, dataset.variables))
            raise fault(NameRuleError, _place(node), "names", message, hint)
        seen.add(node.id)
        yield node.id


def _place(node: ast.expr) -> Place:
    return Place(node.lineno, node.col_offset + 1)


def _check_type(name: str, dataset: xr.Dataset) -> None:
    check_distinct(dataset, name)
    dtype = native(dataset[name].dtype).name
    if dtype not in tuple(DType):
        raise FieldError(
            f"Variable '{name}' has values of type '{dtype}', which expressions do not have.",
            hint=f"They have {', '.join(DType)}; convert it with astype.",
        )


def _head(names: tuple[str, ...], dataset: xr.Dataset) -> str:
    fields = [f'{name}: Field["{native(dataset[name].dtype).name}"]' for name in names]
    fields.append(f'{_free("value", names)}: Field["float64"]')
    return f"def reduced({', '.join(fields)}):\n    with computation(PARALLEL), interval(...):"


def _free(name: str, taken: tuple[str, ...]) -> str:
    """Return a name that is not taken.

    >>> _free("value", ("value", "t"))
    'value_'
    """
    return name if name not in taken else _free(f"{name}_", taken)


def _moved(error: ProgramError, text: str, lines: int, columns: int) -> ProgramError:
    """Return an error of a program with its place in the expression that was put there."""
    error.others = ()
    line = error.line - lines
    if line < 1:
        error.line, error.column, error.excerpt = 0, 0, ""
        return error
    column = error.column - columns if line == 1 else error.column
    error.line, error.column = line, max(1, column)
    error.excerpt = excerpt(text, Place(error.line, error.column))
    return error
