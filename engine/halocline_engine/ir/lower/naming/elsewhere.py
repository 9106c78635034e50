"""Words of NumPy, xarray, Numba and GT4Py's other language, and how programs say the same.

A hint is what somebody who knows these would write here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from halocline_engine.language.parsing import parsed
from halocline_engine.language.syntax import Infix, Literal, Name, Term

__all__ = [
    "hint_of_attribute",
    "hint_of_call",
    "hint_of_constant",
    "hint_of_indices",
    "hint_without_stencil",
]

_WHOLE = (
    "A program computes each point from its neighbours: reduce a whole field with xarray, before "
    "or after the run; levels are added up in 'with computation(FORWARD)'."
)
_NEIGHBOUR = "Write a neighbour as an offset, like 'q[-1, 0, 0]'."
_DIFFERENCE = "Write differences of neighbours, like '0.5 * (q[1, 0, 0] - q[-1, 0, 0])'."
_SELECT = (
    "A program sees all points: write a neighbour as an offset, like 'q[-1, 0, 0]', or select "
    "with xarray before the run."
)
_SIZE = "A program does not know the sizes of arrays: pass one as a scalar parameter."
_NUMBER = "Assign the number to a field or a temporary, like 'q = 0.0'."
_NOTHING = "Leave it out: look at the result instead."
_PRODUCT = "Write the sum of products of neighbours, or use the function 'matmul' on a dataset."
_SORTING = "A program cannot order points: do it with xarray, before or after the run."

_REDUCTIONS = (
    *("sum", "mean", "prod", "std", "var", "median", "average", "nansum", "nanmean", "nanmax"),
    *("nanmin", "argmax", "argmin", "amax", "amin", "any", "all", "cumsum", "cumprod", "count"),
    *("quantile", "percentile", "reduce", "integrate", "trapz", "count_nonzero", "ptp"),
)
#: By the name of a function, without the module in front of it.
_CALLS: Mapping[str, str] = {
    **dict.fromkeys(_REDUCTIONS, _WHOLE),
    **dict.fromkeys(("roll", "shift", "pad", "take"), _NEIGHBOUR),
    **dict.fromkeys(("diff", "gradient", "convolve", "correlate", "differentiate"), _DIFFERENCE),
    **dict.fromkeys(("zeros", "ones", "full", "empty", "arange", "linspace", "array"), _NUMBER),
    **dict.fromkeys(("zeros_like", "ones_like", "full_like", "empty_like"), _NUMBER),
    **dict.fromkeys(("len", "shape", "size", "ndim"), _SIZE),
    **dict.fromkeys(
        ("range", "enumerate", "zip", "prange"),
        "Write the lines out, or a vertical loop as 'with computation(FORWARD)'.",
    ),
    **dict.fromkeys(("dot", "matmul", "einsum", "tensordot", "inner", "outer"), _PRODUCT),
    **dict.fromkeys(("sort", "argsort", "unique", "searchsorted"), _SORTING),
    **dict.fromkeys(("print", "assert_", "open", "input"), _NOTHING),
    **dict.fromkeys(("isel", "sel", "loc", "interp", "rolling", "coarsen", "groupby"), _SELECT),
    **dict.fromkeys(
        ("where", "select", "piecewise", "if_else"),
        "Write 'x if condition else y', or 'if condition:' with assignments.",
    ),
    **dict.fromkeys(("maximum", "fmax"), "Write 'max(x, y)'."),
    **dict.fromkeys(("minimum", "fmin"), "Write 'min(x, y)'."),
    **dict.fromkeys(("fabs", "absolute"), "Write 'abs(x)'."),
    **dict.fromkeys(("power", "float_power", "square"), "Write 'x ** 2'."),
    "clip": "Write 'min(max(x, low), high)'.",
    **dict.fromkeys(("nan_to_num", "fillna"), "Write '0.0 if isnan(x) else x'."),
    "isnull": "Write 'isnan(x)'.",
    "notnull": "Write 'not isnan(x)'.",
    "hypot": "Write 'sqrt(x * x + y * y)'.",
    "reciprocal": "Write '1.0 / x'.",
    "log2": "Write 'log(x) / log(2.0)'.",
    "log1p": "Write 'log(1.0 + x)'.",
    "expm1": "Write 'exp(x) - 1.0'.",
    "sign": "Write '1.0 if x > 0.0 else -1.0', or give the function in the text.",
    "heaviside": "Write '1.0 if x > 0.0 else 0.0'.",
    "isclose": "Write 'abs(x - y) < 1e-8'.",
    **dict.fromkeys(("deg2rad", "radians"), "Write 'x * 0.017453292519943295'."),
    **dict.fromkeys(("rad2deg", "degrees"), "Write 'x * 57.29577951308232'."),
    "logical_and": "Write 'x and y'.",
    "logical_or": "Write 'x or y'.",
    "logical_not": "Write 'not x'.",
    "astype": "Write 'np.float32(x)', or annotate a temporary, like 'q: np.float32 = x'.",
    "copy": "Assign the field to a temporary, like 'before = q'.",
    **dict.fromkeys(("max", "min"), f"{_WHOLE} The larger of two values is 'max(x, y)'."),
}
_ATTRIBUTES: Mapping[str, str] = {
    **dict.fromkeys(("shape", "size", "sizes", "ndim", "dims"), _SIZE),
    **dict.fromkeys(
        ("values", "data", "array", "ndarray", "asnumpy"),
        "Write the field's name alone: it is the value at each point.",
    ),
    **dict.fromkeys(
        ("T", "transpose"),
        "Only data dimensions are exchanged by '.T'; order the "
        "dimensions of a variable with xarray, before the run.",
    ),
    **dict.fromkeys(("real", "imag"), "Give the parts as two fields."),
    **dict.fromkeys(
        ("coords", "attrs", "lon", "lat", "x", "y", "z", "time"),
        "A coordinate is a field of its own: add a parameter that has its name.",
    ),
    "dtype": "Types stand in the annotations, like 'q: Field[np.float64]'.",
}
_CONSTANTS: Mapping[str, str] = {
    "nan": "Write '0.0 / 0.0'; the test for it is 'isnan(x)'.",
    "inf": "Write '1.0 / 0.0'.",
}
_NEXT = ("field_operator", "scan_operator", "program")
_COMPILERS = ("njit", "jit", "vectorize", "guvectorize", "stencil", "kernel", "parallel")
_FORM = "Write 'with computation(PARALLEL), interval(...):' in the body of a 'def'."


def hint_of_call(name: str, *, of_field: bool = False) -> str:
    """Return how a call is written here, by its name such as `np.where`, or "".

    >>> hint_of_call("np.maximum")
    "Write 'max(x, y)'."
    """
    *_, bare = name.rpartition(".")
    return "" if bare in ("max", "min") and not of_field else _CALLS.get(bare, "")


def hint_of_attribute(name: str) -> str:
    """Return what is written in place of an attribute of a field, or ""."""
    return _ATTRIBUTES.get(name) or _CALLS.get(name, "")


def hint_of_constant(name: str) -> str:
    """Return how a constant of NumPy is written here, by its name such as `np.nan`, or "".

    >>> hint_of_constant("np.inf")
    "Write '1.0 / 0.0'."
    """
    module, _, bare = name.rpartition(".")
    return _CONSTANTS.get(bare.lower(), "") if module in ("", "np", "math") else ""


def hint_of_indices(base: Term, indices: Iterable[Term]) -> str:
    """Return how indices of loops are written as offsets, or "" for other indices.

    >>> from halocline_engine.language.source import START
    >>> t, i, j = (Name(name, START) for name in "tij")
    >>> hint_of_indices(t, [Infix("+", i, Literal(1, START), START), j])
    "Offsets count from the point that is computed: write 't[1, 0, 0]'."
    """
    offsets: list[str] = []
    for index in indices:
        match index:
            case Name():
                offsets.append("0")
            case Infix("+" | "-" as sign, Name(), Literal(value)):
                offsets.append(f"{'-' * (sign == '-')}{value}")
            case Literal(value):
                offsets.append(f"{value}")
            case _:
                return ""
    name = base.name if isinstance(base, Name) else "q"
    whole = ", ".join([*offsets, "0", "0", "0"][: max(3, len(offsets))])
    return f"Offsets count from the point that is computed: write '{name}[{whole}]'."


def hint_without_stencil(text: str) -> str:
    """Return how a text becomes a stencil, by the language that it is written in."""
    nodes = list(ast.walk(parsed(text)))
    marks = {*_decorators(nodes)}
    if marks & {*_NEXT}:
        return (
            "It is a program of GT4Py next, which is another language. Write its operators as a "
            "Cartesian stencil: 'with computation(PARALLEL), interval(...):' in the body of a "
            "'def', with offsets like 'q[1, 0, 0]'."
        )
    loops = any(isinstance(node, ast.For) for node in nodes)
    if loops or marks & {*_COMPILERS}:
        return (
            f"{_FORM} It is computed at every point, without loops: 'a[i - 1, j]' is written as "
            "the offset 'a[-1, 0, 0]'."
        )
    return _FORM


def _decorators(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield the last names of all decorators."""
    for node in nodes:
        for mark in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            called = mark.func if isinstance(mark, ast.Call) else mark
            yield ast.unparse(called).rpartition(".")[2]
