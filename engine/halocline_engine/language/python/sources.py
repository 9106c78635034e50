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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

from halocline_engine.errors import SourceError
from halocline_engine.language.parsing import parsed
from halocline_engine.language.python.collect import Piece, collect

__all__ = [
    "Placed",
    "ProgramLike",
    "Source",
    "Span",
    "parameters",
    "program_source",
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
    if isinstance(program, str) and "\n" in program:
        return Source(program, None, ())
    if isinstance(program, str | Path):
        return _file(Path(program))
    return _joined(collect(program))


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


def _file(path: Path) -> Source:
    if path.suffix != ".py":
        raise SourceError(
            f"A program must be text with line breaks, a '.py' file or a function, got '{path}'."
        )
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise SourceError(f"The program '{path}' cannot be read: {reason}.") from error
    except UnicodeDecodeError as error:
        raise SourceError(f"The program '{path}' cannot be read: {error}.") from error
    return Source(text, None, (Span(1, text.count("\n") + 1, str(path), 1),))


def _joined(pieces: tuple[Piece, ...]) -> Source:
    """Put the pieces below each other; the last one is the stencil."""
    lines: list[str] = []
    spans: list[Span] = []
    for piece in pieces:
        if piece.is_block and lines:
            lines += ["", ""]
        own = piece.text.splitlines()
        if piece.file:
            spans.append(Span(len(lines) + 1, len(own), piece.file, piece.file_line))
        lines += own
    return Source("\n".join(lines) + "\n", pieces[-1].name, tuple(spans))
