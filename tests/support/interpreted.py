"""Run the CPU target's generated text with the Python interpreter, where compiling is too slow."""

from __future__ import annotations

import ast
import ctypes
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import numpy as np

from halocline_engine.backends.cpu import build, builtins, calls, code, pieces
from halocline_engine.backends.cpu.builtins import SCOPES
from halocline_engine.backends.cpu.caches import Caches
from halocline_engine.backends.cpu.text.emit import Module, emit
from halocline_engine.backends.cpu.text.layout import Layout
from halocline_engine.backends.reference.multiply_add import multiply_add
from halocline_engine.backends.reference.values import FUNCTIONS
from halocline_engine.ir.types import DType
from halocline_engine.language.parsing import parsed
from halocline_engine.schedule.nodes import Schedule


class _Pointer:
    """An address and the type of what lies there."""

    def __init__(self, dtype: str, address: int) -> None:
        self.dtype = np.dtype(dtype)
        self.address = address

    def at(self, offset: int) -> Any:
        raw = (ctypes.c_char * self.dtype.itemsize).from_address(int(self.address) + int(offset))
        return np.frombuffer(cast("bytes", raw), self.dtype)


def _load(pointer: _Pointer, offset: int) -> Any:
    return pointer.at(offset)[0]


def _store(pointer: _Pointer, offset: int, value: Any) -> None:
    pointer.at(offset)[0] = value


def _pointer(dtype: DType) -> Callable[[int], _Pointer]:
    return lambda address: _Pointer(dtype.value, address)


#: Memory of functions that may still run.
_ROOMS: deque[Any] = deque(maxlen=4096)


def _room(size: int) -> int:
    _ROOMS.append(np.full(size, 255, np.uint8))
    return int(_ROOMS[-1].ctypes.data)


def _select(condition: bool, then: Any, otherwise: Any) -> Any:
    chosen = then if condition else otherwise
    # A whole number of the text has 64 bits where it is compiled, and Python's has no end.
    return np.int64(chosen) if type(chosen) is int else chosen


def _truncated(dtype: DType) -> Callable[[Any], Any]:
    limits = np.iinfo(dtype.value)

    def truncated(value: Any) -> Any:
        if np.isnan(value):
            return limits.dtype.type(0)
        inside = min(max(float(value), float(limits.min)), float(limits.max))
        return limits.dtype.type(min(int(inside), limits.max))

    return truncated


def _function(name: str) -> Callable[..., Any]:
    """Return what the reference has for a function of floats, of numbers."""

    def function(*arguments: Any) -> Any:
        value = np.asarray(FUNCTIONS[name](*map(np.atleast_1d, arguments)))
        return value[0]

    return function


_FUNCTIONS = {name: _function(name) for name in FUNCTIONS if name not in ("abs", "pow")}


def namespace() -> dict[str, Any]:
    """Return interpreted twins of what the generated text may call."""
    safe = {"range": range, "max": max, "min": min, "abs": abs}
    pointers = {f"pointer_{dtype}": _pointer(dtype) for dtype in DType}
    return {
        "__builtins__": safe,
        "np": np,
        "math": SimpleNamespace(fabs=np.abs, pow=np.power, **_FUNCTIONS),
        "load": _load,
        **{f"load_{n}": _load for n in range(SCOPES)},
        **{f"store_{n}": _store for n in range(SCOPES)},
        "room": _room,
        "select": _select,
        "multiply_add": multiply_add,
        "minimum": np.minimum,
        "maximum": np.maximum,
        "round_away": _FUNCTIONS["round_away_from_zero"],
        "exponential": _FUNCTIONS["exp"],
        "logarithm": _FUNCTIONS["log"],
        "power": np.power,
        "integer_power": _function("pow"),
        "float_remainder": np.remainder,
        "integer_remainder": np.remainder,
        **{f"truncated_{dtype}": _truncated(dtype) for dtype in DType if dtype.is_integer},
        **pointers,
    }


def _itself(body: Any) -> Any:
    return body


def compile_nothing(*arguments: Any, cache: bool) -> Any:
    """Stand in for the compiler: the function itself."""
    body, _ = arguments
    assert not cache

    def quiet(*words: Any) -> None:
        with np.errstate(all="ignore"):
            body(*words)

    return quiet


class _NumpyNumbers(ast.NodeTransformer):
    """Make NumPy numbers of float literals: Python's own raise where they are divided by zero."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if not isinstance(node.value, float):
            return node
        function = ast.Attribute(ast.Name("np", ast.Load()), "float64", ast.Load())
        return ast.Call(function, [node], [])


def _emit(schedule: Schedule, layout: Layout) -> Module:
    module = emit(schedule, layout)
    return replace(module, text=ast.unparse(_NumpyNumbers().visit(parsed(module.text))))


def patch(monkeypatch: Any) -> None:
    """Let CPU executables interpret their text from here on, cut into many small pieces."""
    monkeypatch.setattr(pieces, "SERIAL_POINTS", 1)
    monkeypatch.setattr(build, "read_caches", lambda: Caches(level2=512))
    monkeypatch.setattr(code, "_file_of", Mock(return_value=None))
    monkeypatch.setattr(code, "_jit", compile_nothing)
    monkeypatch.setattr(code, "_called_by_kernels", _itself)
    monkeypatch.setattr(calls, "emit", _emit)
    monkeypatch.setattr(builtins, "namespace", namespace)
