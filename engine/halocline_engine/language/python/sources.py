r"""Programs as text: strings, files, and Python functions with all that they refer to.

A function is never pickled and never run. Its text is taken with `inspect`, and what it refers to
is looked up in its module and printed in front of it: numbers as literals, NumPy numbers as casts,
classes, modules and other objects whose attributes it reads as classes of constants, type aliases
as `Field[...]`, and other functions as their own text, in turn with what they refer to. Decorators
are dropped. A name that belongs to the language, such as `sqrt` or `interval`, means what it means
in the language, whatever the module calls by that name.

>>> print(program_source("def f(a: Field[float]):\n    pass\n").text)
def f(a: Field[float]):
    pass
<BLANKLINE>
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from os import PathLike
from pathlib import Path
from types import FunctionType
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from halocline_engine.errors import ArgumentError, SourceError
from halocline_engine.language.parsing import parsed
from halocline_engine.language.python.collect import LANGUAGE, Collected, collect, plain_function
from halocline_engine.language.python.uses import Uses, all_uses, stencil_uses

__all__ = [
    "Placed",
    "ProgramLike",
    "Source",
    "Span",
    "check_external",
    "nested_externals",
    "parameters",
    "program_source",
    "used_externals",
    "with_functions",
    "with_place",
]

ProgramLike: TypeAlias = str | Path | Callable[..., Any]


@dataclass(frozen=True)
class Span:
    """`count` lines of a text from `first` on, which stand in `file` from `file_line` on."""

    first: int
    count: int
    file: str
    file_line: int


@dataclass(frozen=True)
class Source:
    """A program's text, the name of its stencil where known, and where its lines come from."""

    text: str
    name: str | None
    spans: tuple[Span, ...]
    renamed: Mapping[object, str] = field(default_factory=dict[object, str])

    def origin(self, line: int) -> tuple[str, int] | None:
        """Return the file and the line that a line of the text comes from, if known."""
        for span in self.spans:
            if span.first <= line < span.first + span.count:
                return span.file, span.file_line + line - span.first
        return None


def program_source(program: ProgramLike) -> Source:
    """Return the text of a program.

    A `str` with a line break is text; any other `str`, and a `Path`, is a `.py` file to read. A
    function is collected as the module says. Raises SourceError where none of this works.
    """
    if isinstance(program, str) and not program.strip():
        raise SourceError(f"{_FORMS}, got empty text.", hint=_PASS)
    if isinstance(program, str) and "\n" in program:
        return Source(program, None, ())
    if isinstance(program, str | Path):
        return _file(Path(program))
    return _joined(collect([program]))


def with_functions(
    source: Source,
    program: ProgramLike,
    externals: Mapping[str, object],
    defined: Collection[str],
    foreign: Collection[str],
    name: str | None = None,
) -> Source:
    """Return a program's text with the functions that it has as externals or attributes of them.

    `name` is the stencil's, `defined` are the names that the text defines, and `foreign` those that
    it imports, of which '*' stands for any. What has a name that the text defines otherwise gets
    another one; `renamed` says which functions did.
    """
    if not externals:
        return source
    called: list[FunctionType] = []
    uses = stencil_uses(source.text, name or source.name)
    while True:
        own = {one for one in defined if one not in foreign and one not in uses.imported}
        used = {one: externals[one] for one in sorted(uses.names - own) if one in externals}
        new = [f for f in dict.fromkeys(_called(uses, used)) if f not in called]
        new = [f for f in new if not _has(source, defined, f)]
        if not new:
            break
        called += new
        uses |= all_uses(_joined(collect(called)).text)
    if not called:
        return source
    if not isinstance(program, str | Path):
        return _joined(collect([*called, program]))
    # What the text imports has the value of the external in these functions too.
    names = {*used} if "*" in foreign else {*used} & {*foreign}
    own = {name for name in names if any(_is(used[name], name, one) for one in called)}
    more = _joined(collect(called, {name: used[name] for name in names - own}, defined))
    below = source.text.rstrip("\n") + "\n\n\n"
    moved = (replace(span, first=span.first + below.count("\n")) for span in more.spans)
    return Source(below + more.text, source.name, (*source.spans, *moved), more.renamed)


def used_externals(
    source: Source, externals: Mapping[str, Any], name: str | None
) -> dict[str, Any]:
    """Return the externals that a stencil uses; objects as mappings of the attributes it reads."""
    uses = stencil_uses(source.text, name or source.name)
    found: dict[str, Any] = {}
    for one in sorted(uses.names & externals.keys()):
        given = externals[one]
        if one in LANGUAGE and one not in uses.imported:
            continue  # the language says what it is
        check_external(one, given)
        read = sorted({path[0] for root, path in uses.attributes if root == one})
        if not read or isinstance(given, Mapping) or _is_function(given):
            found[one] = _named(given, source)
            continue
        members = {attribute: _member(given, attribute) for attribute in read}
        found[one] = {
            key: _named(each, source) for key, each in members.items() if each is not None
        }
    return found


def check_external(name: str, value: object) -> None:
    """Raise `ArgumentError` for a path or a text in the place of a module."""
    is_text = isinstance(value, str) and (value.endswith(".py") or "\n" in value)
    if not (is_text or isinstance(value, PathLike)):
        return
    path = str(cast("object", value))
    what = "a text" if "\n" in path else f"the path '{path}'"
    raise ArgumentError(
        f"The external '{name}' must be a module, a function or a number, got {what}.",
        hint=f"Modules are not read from files: import it, and pass externals={{'{name}': {name}}},"
        " or write its constants into the text, below 'class " + f"{name}:'.",
    )


def nested_externals(externals: Mapping[str, Any]) -> dict[str, Any]:
    """Return externals with those that have dotted names as attributes of modules.

    >>> nested_externals({"ppm.p1": 0.5, "ppm.p2": 2.0, "ORDER": 4})
    {'ppm': {'p1': 0.5, 'p2': 2.0}, 'ORDER': 4}
    """
    nested: dict[str, Any] = {}
    for name, value in externals.items():
        inner, whole = nested, ""
        *modules, last = name.split(".")
        for module in modules:
            whole = f"{whole}.{module}" if whole else module
            if whole in externals:
                raise ArgumentError(
                    f"The external '{name}' is given twice, by its name and within '{whole}'.",
                    hint="Give one of them.",
                )
            inner = inner.setdefault(module, {})
        inner[last] = value
    return nested


def _named(value: Any, source: Source) -> Any:
    """Return what stands for a value: the number of an Enum, and the name of a function."""
    if isinstance(value, Enum):
        return value.value
    if not _is_function(value):
        return value
    function = plain_function(value)
    return {"function": source.renamed.get(function, function.__name__)}


def _called(uses: Uses, used: Mapping[str, object]) -> Iterator[FunctionType]:
    """Yield the functions among externals that are used, or that are called as their attributes."""
    for name, value in used.items():
        if name in LANGUAGE:
            continue
        members = sorted(path[0] for root, path in uses.calls if root == name and len(path) == 1)
        for one in (value, *(_member(value, member) for member in members)):
            if _is_function(one):
                yield plain_function(one)


def _member(value: object, name: str) -> object:
    if isinstance(value, Mapping):
        return cast("Mapping[str, object]", value).get(name)
    try:
        return getattr(value, name, None)
    except Exception:  # it is code of the user
        return None


def _has(source: Source, defined: Collection[str], function: FunctionType) -> bool:
    """Whether a text has a function: one of its own file, with nothing from around it."""
    if function.__name__ not in defined or function.__closure__:
        return False
    try:
        lines, _ = inspect.findsource(function)
    except (OSError, TypeError):
        return False
    return "".join(lines).rstrip() == source.text.rstrip()


def _is(value: object, name: str, function: FunctionType) -> bool:
    """Whether an external is a function, under its own name."""
    return name == function.__name__ and inspect.unwrap(cast("Any", value)) is function


def _is_function(value: object) -> bool:
    if not callable(value):
        return False
    function = inspect.unwrap(value)
    return isinstance(function, FunctionType) and function.__name__ != "<lambda>"


def parameters(source: Source, name: str | None = None) -> tuple[str, ...]:
    """Return the parameters of the stencil, or nothing where the text does not show which it is.

    The stencil is the function called `name`, or else the only one with a `with computation(...)`.
    """
    try:
        tree = parsed(source.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    wanted = name or source.name
    if wanted:
        found = [node for node in functions if node.name == wanted]
    else:
        found = [node for node in functions if any(isinstance(s, ast.With) for s in node.body)]
    if len(found) != 1:
        return ()
    arguments = found[0].args
    return tuple(a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))


class Placed(Protocol):
    """An error at a line of a text, in the engine or in a client."""

    file: str
    file_line: int

    @property
    def line(self) -> int:
        """Number of the line in the text, from 1."""
        ...

    @property
    def others(self) -> Sequence[Placed]:
        """Further errors of the same text."""
        ...


_Error = TypeVar("_Error", bound=Placed)


def with_place(error: _Error, source: Source) -> _Error:
    """Set the file and the line where an error's place is in the caller's own file, if known."""
    for each in (error, *error.others):
        found = source.origin(each.line)
        if found is not None:
            each.file, each.file_line = found
    return error


_FORMS = "A program must be text with line breaks, a '.py' file or a function"
_FORM = "Write a function with 'with computation(PARALLEL), interval(...):' in its body."
_PASS = "Pass the text of a program, the path of a '.py' file that is here, or the function itself."


def _file(path: Path) -> Source:
    if path.suffix != ".py":
        raise SourceError(f"{_FORMS}, got '{path}'.", hint=_PASS)
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise SourceError(f"The program '{path}' cannot be read: {reason}.") from error
    except UnicodeDecodeError as error:
        raise SourceError(f"The program '{path}' cannot be read: {error}.") from error
    if not text.strip():
        raise SourceError(f"The program '{path}' is empty.", hint=_FORM)
    return Source(text, None, (Span(1, text.count("\n") + 1, str(path), 1),))


def _joined(collected: Collected) -> Source:
    """Put the pieces below each other; the last one is the stencil."""
    pieces = collected.pieces
    lines: list[str] = []
    spans: list[Span] = []
    for piece in pieces:
        if piece.is_block and lines:
            lines += ["", ""]
        own = piece.text.splitlines()
        if piece.file:
            spans.append(Span(len(lines) + 1, len(own), piece.file, piece.file_line))
        lines += own
    text = "\n".join(lines) + "\n"
    return Source(text, pieces[-1].name, tuple(spans), collected.renamed)
