"""References of a Python function, found without running it and printed as program text."""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from numbers import Integral
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any, TypeAlias, cast

import numpy as np

from halocline_engine.errors import SourceError
from halocline_engine.language.parsing import parsed

__all__ = ["LANGUAGE", "Piece", "collect", "plain_function", "type_text"]

#: Names that the language defines; a program does not bring its own.
LANGUAGE = frozenset(
    (
        *("BACKWARD", "FORWARD", "PARALLEL", "computation", "interval", "horizontal", "region"),
        *("Field", "GlobalTable", "I", "J", "K", "IJ", "IK", "JK", "IJK", "THIS_K", "__INLINED"),
        *("abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil"),
        *("cos", "cosh", "erf", "erfc", "exp", "floor", "gamma", "isfinite", "isinf", "isnan"),
        *("log", "log10", "max", "min", "mod", "round", "round_away_from_zero", "sin", "sinh"),
        *("Table", "max_over", "min_over", "neighbor_sum"),
        *("sqrt", "tan", "tanh", "trunc", "compile_assert", "function", "stencil", "gtscript"),
        *("bool", "float", "float32", "float64", "int", "int8", "int16", "int32", "int64"),
        *("np", "numpy"),
    )
)

_NUMBERS = frozenset({"bool", "int8", "int16", "int32", "int64", "float32", "float64"})

_Reference: TypeAlias = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class Piece:
    """A part of a program: one line, or a block that stands apart; the file is '' if made here."""

    name: str
    text: str
    is_block: bool
    file: str = ""
    file_line: int = 0


def collect(
    functions: Iterable[Callable[..., Any]], given: Mapping[str, object] | None = None
) -> tuple[Piece, ...]:
    """Return the pieces of a program: constants, types, and functions, the last one as the last.

    `given` are values of names that must mean the same in these functions. Raises SourceError where
    a function has no readable text, or refers to a value that a program cannot hold.
    """
    collector = _Collector(given or {})
    for function in functions:
        collector.add_function(getattr(function, "__name__", ""), function, "the program")
    return collector.pieces()


class _Collector:
    """The pieces found so far, each name once; a name has one meaning in the whole program."""

    def __init__(self, given: Mapping[str, object]) -> None:
        self._lines: dict[str, str] = {}
        self._spaces: dict[str, dict[str, str]] = {}
        self._functions: dict[str, Piece] = {}
        self._meanings: dict[str, object] = {
            name: _number(value) or type_text(value) or value for name, value in given.items()
        }

    def pieces(self) -> tuple[Piece, ...]:
        """Lines first, then classes of constants, then functions, callees before callers."""
        lines = [Piece(name, text, is_block=False) for name, text in self._lines.items()]
        spaces = [
            Piece(name, "\n".join(_class_lines(name, members)), is_block=True)
            for name, members in self._spaces.items()
        ]
        return (*lines, *spaces, *self._functions.values())

    def add_function(self, name: str, value: object, user: str) -> None:
        """Add a function under the name that its user calls it, after what it refers to."""
        function = plain_function(value)
        if self._known(name, function, user):
            return
        node, text, file, line = _definition(function)
        scope = _scope(function)
        for root, attributes in _references(node):
            if root in scope and scope[root] is not function:
                self._add(root, attributes, scope[root], f"'{node.name}'")
        first, *rest = text.splitlines()
        renamed = first.replace(f"def {node.name}", f"def {name}", 1)
        self._functions[name] = Piece(name, "\n".join([renamed, *rest]), True, file, line)

    def _add(self, root: str, attributes: tuple[str, ...], value: object, user: str) -> None:
        """Add what a name stands for, unless the language has the name itself."""
        number = _number(value)
        if number is None and root in LANGUAGE:
            return
        if number is not None:
            self._add_line(root, number, user)
        elif (kind := type_text(value)) is not None:
            self._add_line(root, kind, user)
        elif inspect.isfunction(inspect.unwrap(cast("Any", value))):
            self.add_function(root, value, user)
        elif attributes:
            self._add_member(root, attributes, value, user)
        else:
            raise _unsupported(root, value, user)

    def _add_line(self, name: str, text: str, user: str) -> None:
        if not self._known(name, text, user):
            self._lines[name] = f"{name} = {text}"

    def _add_member(self, root: str, path: tuple[str, ...], value: object, user: str) -> None:
        """Add `root.name` to the class of constants that is printed for `root`."""
        self._known(root, value, user)
        whole = ".".join((root, *path))
        try:
            member = inspect.getattr_static(value, path[0])
        except AttributeError:
            raise _unsupported(whole, None, user, f"'{root}.{path[0]}' does not exist.") from None
        if isinstance(value, ModuleType) and inspect.isfunction(inspect.unwrap(member)):
            # A call of a module's function means the one of that name in the program's text.
            self._lines.setdefault(root, f"import {root}")
            self.add_function(path[0], member, user)
            return
        constant = member.value if isinstance(member, Enum) else member
        text = _number(constant) or type_text(constant)
        if text is None:
            raise _unsupported(whole, member, user)
        self._spaces.setdefault(root, {})[path[0]] = text

    def _known(self, name: str, meaning: object, user: str) -> bool:
        """Whether a name was seen before; raise if it meant something else then."""
        if name not in self._meanings:
            self._meanings[name] = meaning
            return False
        before = self._meanings[name]
        if before is meaning or (isinstance(meaning, str) and before == meaning):
            return True
        raise SourceError(
            f"The name '{name}' means one thing in {user} and another elsewhere in the program.",
            hint="A program is one text in which a name has one meaning; rename one of them.",
        )


def plain_function(value: object) -> FunctionType:
    """Return the Python function under its decorators."""
    function = inspect.unwrap(cast("Any", value))
    if isinstance(function, FunctionType) and function.__name__ != "<lambda>":
        return function
    kind = "a lambda" if isinstance(function, FunctionType) else f"'{type(value).__name__}'"
    raise SourceError(
        f"A program must be text, a '.py' file or a plain Python function, got {kind}.",
        hint="Programs come first, then the dataset."
        if hasattr(value, "data_vars")
        else "Pass the function written with 'def', before it is compiled by another package.",
    )


def _definition(function: FunctionType) -> tuple[ast.FunctionDef, str, str, int]:
    """Return a function's tree, its text from `def` on with no indent, its file and its line."""
    try:
        lines, first = inspect.getsourcelines(function)
        file = inspect.getsourcefile(function) or ""
        tree = parsed(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError) as error:
        raise SourceError(
            f"The text of the function '{function.__name__}' cannot be found.",
            hint="Write it in a file or a notebook cell, or pass the program as text.",
        ) from error
    node = next((n for n in tree.body if isinstance(n, ast.FunctionDef)), None)
    if node is None:
        raise SourceError(f"The function '{function.__name__}' is not written with 'def'.")
    offset = node.lineno - 1
    own = textwrap.dedent("".join(lines)).splitlines()[offset : node.end_lineno]
    return node, "\n".join(own), file, max(first, 1) + offset


def _scope(function: FunctionType) -> Mapping[str, object]:
    """Return what names mean where the function was written: its module and its closure."""
    names = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:
            continue
    return MappingProxyType(names)


def _references(node: ast.FunctionDef) -> Iterator[_Reference]:
    """Yield the names from outside that a function reads, in text order, with their attributes."""
    local = _locals(node)
    seen: set[_Reference] = set()
    inner = [*ast.iter_child_nodes(node.args), *node.body]
    for part in inner:
        for reference in _chains(part):
            if reference[0] not in local and reference not in seen:
                seen.add(reference)
                yield reference


def _chains(node: ast.AST) -> Iterator[_Reference]:
    """Yield `name.attribute...` chains below a node, in text order."""
    path: list[str] = []
    root = node
    while isinstance(root, ast.Attribute):
        path.insert(0, root.attr)
        root = root.value
    if isinstance(root, ast.Name):
        yield (root.id, tuple(path))
        return
    for child in ast.iter_child_nodes(node):
        yield from _chains(child)


def _locals(node: ast.FunctionDef) -> frozenset[str]:
    """Return the names that belong to the function: parameters, targets and imports."""
    names = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
    for inner in ast.walk(node):
        match inner:
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.ImportFrom(names=aliases) | ast.Import(names=aliases):
                names |= {alias.asname or alias.name for alias in aliases}
            case _:
                pass
    return frozenset(names)


def _number(value: Any) -> str | None:
    """Print a number as the language writes it, or return None for what is no number.

    >>> _number(np.float32(0.5)), _number(2.5), _number("x")
    ('np.float32(0.5)', '2.5', None)
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = cast("Any", value)[()]
    if isinstance(value, np.generic):
        kind = str(cast("Any", value).dtype)
        text = _number(cast("Any", value).item()) if kind in _NUMBERS else None
        plain = text is None or kind in ("bool", "int64", "float64")
        return text if plain else f"np.{kind}({text})"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return repr(int(value))
    return repr(value) if isinstance(value, float) and math.isfinite(value) else None


def type_text(value: Any) -> str | None:
    """Print a type of data as the language writes it, or return None for what is no such type.

    Field types are known by their attributes `axes`, `dtype` and `data_dims`, which GT4Py's have
    as well, and types of tables by `slots` and `dtype`.
    """
    if value is bool or value is int or value is float:
        return str(value.__name__)
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        name = np.dtype(cast("Any", value)).name
        return f"np.{'bool_' if name == 'bool' else name}" if name in _NUMBERS else None
    if isinstance(value, type):
        return None
    if isinstance(value, tuple):
        return _pair_text(cast("tuple[object, ...]", value))
    if all(hasattr(value, name) for name in ("slots", "dtype")):
        dtype = type_text(value.dtype)
        return f"Table[{int(value.slots)}, {dtype}]" if dtype else None
    if not all(hasattr(value, name) for name in ("axes", "dtype", "data_dims")):
        return None
    named = isinstance(value.dtype, str)
    dtype = repr(value.dtype) if named else type_text(np.dtype(value.dtype))
    if value.data_dims:
        dtype = f"({dtype}, {tuple(int(size) for size in value.data_dims)})"
    axes = "".join(str(getattr(axis, "name", axis)) for axis in value.axes)
    if not axes:
        return f"GlobalTable[{dtype}]"
    return f"Field[{dtype}]" if axes == "IJK" else f"Field[{axes}, {dtype}]"


def _pair_text(value: tuple[object, ...]) -> str | None:
    """Print a type of numbers with the shape of data dimensions, or return None."""
    if len(value) != 2:
        return None
    element, size = value
    sizes = cast("tuple[object, ...]", size) if isinstance(size, tuple) else (size,)
    whole = [int(one) for one in sizes if isinstance(one, Integral)]
    dtype = type_text(element)
    is_pair = dtype is not None and len(whole) == len(sizes) > 0
    return f"({dtype}, {tuple(whole)})" if is_pair else None


def _class_lines(name: str, members: Mapping[str, str]) -> Iterator[str]:
    """Print a class of constants."""
    yield f"class {name}:"
    for key, text in members.items():
        yield f"    {key} = {text}"


def _unsupported(name: str, value: object, user: str, hint: str = "") -> SourceError:
    """Say which name stands for something that a program cannot hold."""
    kind = "a module" if isinstance(value, ModuleType) else f"'{type(value).__name__}'"
    told = f"{kind}: {value!r}"[:120] if value is not None else "nothing"
    return SourceError(
        f"The name '{name}' in {user} stands for {told}, which a program cannot hold.",
        hint=hint
        or "A program holds finite numbers, types, functions, and classes of numbers; "
        "pass other values as 'scalars' or 'externals'.",
    )
