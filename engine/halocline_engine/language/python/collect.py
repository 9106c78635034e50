"""References of a Python function, found without running it and printed as program text."""

from __future__ import annotations

import ast
import inspect
import itertools
import math
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from numbers import Integral
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any, cast

import numpy as np

from halocline_engine.errors import SourceError
from halocline_engine.language.parsing import parsed
from halocline_engine.language.python.uses import (
    Reference,
    chains,
    locals_of,
    outside,
    references_of,
)

__all__ = ["LANGUAGE", "Collected", "Piece", "collect", "plain_function", "type_text"]

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

#: What a name means that the text of a program defines.
_OF_TEXT = object()


@dataclass(frozen=True)
class Piece:
    """A part of a program: one line, or a block that stands apart; the file is '' if made here."""

    name: str
    text: str
    is_block: bool
    file: str = ""
    file_line: int = 0


@dataclass(frozen=True)
class Collected:
    """The pieces of a program, and the functions that it has under another name than their own."""

    pieces: tuple[Piece, ...]
    renamed: Mapping[object, str]


def collect(
    functions: Iterable[Callable[..., Any]],
    given: Mapping[str, object] | None = None,
    defined: Collection[str] = (),
) -> Collected:
    """Return the pieces of a program: constants, types, and functions, the last one as the last.

    `given` are values of names that must mean the same in these functions, and `defined` names that
    the text has already: what they call so is renamed. Raises SourceError where a function has no
    readable text, or refers to a value that a program cannot hold.
    """
    collector = _Collector(given or {}, defined)
    for function in functions:
        collector.add_function(getattr(function, "__name__", ""), function, "the program")
    return collector.collected()


class _Collector:
    """The pieces found so far, each name once; a name has one meaning in the whole program.

    Modules of a model use a name for several things, like `constants` for the one next to each of
    them. What comes later is called `constants__2` then, where it is defined and where it is used.
    """

    def __init__(self, given: Mapping[str, object], defined: Collection[str]) -> None:
        self._lines: dict[str, str] = {}
        self._spaces: dict[str, dict[str, str]] = {}
        self._functions: dict[str, Piece] = {}
        self._renamed: dict[object, str] = {}
        self._given = frozenset(given)
        self._meanings: dict[str, object] = dict.fromkeys(defined, _OF_TEXT)
        self._meanings |= {
            name: _number(value) or type_text(value) or value for name, value in given.items()
        }

    def collected(self) -> Collected:
        """Lines first, then classes of constants, then functions, callees before callers."""
        lines = [Piece(name, text, is_block=False) for name, text in self._lines.items()]
        spaces = [
            Piece(name, "\n".join(_class_lines(name, members)), is_block=True)
            for name, members in self._spaces.items()
        ]
        return Collected((*lines, *spaces, *self._functions.values()), self._renamed)

    def add_function(self, name: str, value: object, user: str) -> str:
        """Add a function under the name that its user calls it, after what it refers to.

        Returns the name that it has in the program.
        """
        function = plain_function(value)
        name, is_new = self._named(name, function, user)
        if not is_new:
            return name
        if name != function.__name__:
            self._renamed.setdefault(function, name)
        node, text, file, line = _definition(function)
        scope = _scope(function)
        names: dict[Reference, str] = {}
        for root, attributes in references_of(node):
            if root in scope and scope[root] is not function:
                found = self._add(root, attributes, scope[root], f"'{node.name}'")
                if found != ".".join((root, *attributes)):
                    names[root, attributes] = found
        first, *rest = _with_names(node, text, names)
        renamed = first.replace(f"def {node.name}", f"def {name}", 1)
        self._functions[name] = Piece(name, "\n".join([renamed, *rest]), True, file, line)
        return name

    def _add(self, root: str, attributes: tuple[str, ...], value: object, user: str) -> str:
        """Add what a name stands for, unless the language has the name itself.

        Returns what to write for the name with its attributes.
        """
        number = _number(value)
        if number is None and root in LANGUAGE:
            return ".".join((root, *attributes))
        text = number or type_text(value)
        if text is not None:
            name = self._add_line(root, text, user)
        elif inspect.isfunction(inspect.unwrap(cast("Any", value))):
            name = self.add_function(root, value, user)
        elif attributes:
            return self._add_member(root, attributes, value, user)
        else:
            raise _unsupported(root, value, user)
        return ".".join((name, *attributes))

    def _add_line(self, name: str, text: str, user: str) -> str:
        name, is_new = self._named(name, text, user)
        if is_new:
            self._lines[name] = f"{name} = {text}"
        return name

    def _add_member(self, root: str, path: tuple[str, ...], value: object, user: str) -> str:
        """Add `root.name` to the class of constants that is printed for `root`."""
        whole = ".".join((root, *path))
        try:
            member = inspect.getattr_static(value, path[0])
        except AttributeError:
            raise _unsupported(whole, None, user, f"'{root}.{path[0]}' does not exist.") from None
        if isinstance(value, ModuleType) and inspect.isfunction(inspect.unwrap(member)):
            # A call of a module's function means the one of that name in the program's text.
            name = self.add_function(path[0], member, user)
            if name != path[0] or self._meanings.setdefault(root, value) is not value:
                return name
            self._lines.setdefault(root, f"import {root}")
            return whole
        root, _ = self._named(root, value, user)
        constant = member.value if isinstance(member, Enum) else _attribute(value, path[0], member)
        text = _number(constant) or type_text(constant)
        if text is None:
            raise _unsupported(whole, member, user)
        self._spaces.setdefault(root, {})[path[0]] = text
        return ".".join((root, *path))

    def _named(self, name: str, meaning: object, user: str) -> tuple[str, bool]:
        """Return the name that a thing has in the program, and whether it is new there."""
        is_text = isinstance(meaning, str)
        for number in itertools.count(1):
            one = name if number == 1 else f"{name}__{number}"
            if one not in self._meanings:
                self._meanings[one] = meaning
                return one, True
            before = self._meanings[one]
            if before is meaning or (is_text and before == meaning):
                return one, False
            if is_text and isinstance(before, str) and one in self._given:
                break
        raise SourceError(
            f"The name '{name}' means one thing in {user} and another elsewhere in the program.",
            hint="A program is one text in which a name has one meaning; rename one of them.",
        )


def _attribute(value: object, name: str, static: object) -> object:
    """Return an attribute of an object, also where its class computes it, as of a named tuple."""
    if isinstance(value, type) or not hasattr(type(static), "__get__"):
        return static
    try:
        return getattr(value, name)
    except Exception:  # it is code of the user
        return static


def _with_names(node: ast.FunctionDef, text: str, names: Mapping[Reference, str]) -> Sequence[str]:
    """Return the lines of a function with other names for what it refers to."""
    lines = [line.encode() for line in text.splitlines()]
    local = locals_of(node) if names else frozenset[str]()
    found = [each for part in outside(node) for each in chains(part)] if names else []
    for root, path, start, end in sorted(found, key=lambda each: each[2], reverse=True):
        new = names.get((root, path))
        if new is None or root in local:
            continue
        (first, left), (last, right) = start, end
        line, after = first - node.lineno, lines[last - node.lineno][right:]
        lines[line] = lines[line][:left] + new.encode() + after
        for below in range(line + 1, last - node.lineno + 1):
            lines[below] = b""
    return [line.decode() for line in lines]


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
