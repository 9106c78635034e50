"""Limits of size and depth of a program's text, checked before Python parses it.

Python's own parser can be made to run for a minute or to exhaust memory by a short text, so the
text is counted token by token first. Nothing here executes any of it.
"""

from __future__ import annotations

import ast
import io
import string
import tokenize
from dataclasses import dataclass

from halocline_engine.errors import LimitError, SyntaxRuleError
from halocline_engine.language.parsing import parsed
from halocline_engine.language.source import START, Place, fault
from halocline_engine.signatures import with_answers

__all__ = ["LIMITS", "Limits", "check_text", "check_tree", "python_tree"]


@with_answers
@dataclass(frozen=True, slots=True)
class Limits:
    """The largest program that is accepted.

    Parameters
    ----------
    source : int, default: 524288
        Bytes of the text in UTF-8.
    tokens : int, default: 100000
        Tokens of the text.
    nodes : int, default: 200000
        Nodes of Python's syntax tree.
    depth : int, default: 64
        How deeply brackets, expressions and blocks are nested.
    digits : int, default: 64
        Characters of one number.
    fields : int, default: 256
        Fields that are parameters.
    arrays : int, default: 1024
        Fields with each component of those that have data dimensions, and each column of a table.
    statements : int, default: 16384
        Statements after functions were inlined.
    terms : int, default: 300000
        Terms of expressions after functions were inlined.
    halo : int, default: 64
        Cells of one horizontal offset.
    levels : int, default: 4096
        Levels of one vertical offset.
    components : int, default: 256
        Numbers that a field with data dimensions has at each point.
    turns : int, default: 100000
        How often the body of a `while` runs at a point.

    Raises
    ------
    ArgumentError
        A limit is not a positive whole number.

    See Also
    --------
    stencil : Takes `limits`.

    Examples
    --------
    >>> import halocline_engine as he
    >>> he.Limits(halo=128).halo
    128

    """

    source: int = 512 * 1024
    tokens: int = 100_000
    nodes: int = 200_000
    depth: int = 64
    digits: int = 64
    fields: int = 256
    arrays: int = 1_024
    statements: int = 16_384
    terms: int = 300_000
    halo: int = 64
    levels: int = 4_096
    components: int = 256
    turns: int = 100_000


LIMITS = Limits()


def check_text(text: str, limits: Limits) -> None:
    """Raise where the text is too large, or holds what must not reach the parser."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        message = "The program is not text: it holds a character that UTF-8 cannot express."
        raise fault(SyntaxRuleError, START, "text", message) from error
    if size > limits.source:
        raise _too_large("bytes", size, limits.source, START)
    if "\0" in text:
        message = "The program is not text: it holds a NUL character."
        raise fault(SyntaxRuleError, START, "text", message)
    try:
        _check_tokens(text, limits)
    except tokenize.TokenError as error:
        reason, (line, column) = error.args
        raise _not_python(str(reason), Place(line, column + 1)) from error
    except SyntaxError as error:
        place = Place(max(error.lineno or 1, 1), max(error.offset or 1, 1))
        raise _not_python(error.msg, place) from error


def _check_tokens(text: str, limits: Limits) -> None:
    """Count tokens and open brackets; refuse long numbers."""
    count = depth = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        # Before Python 3.12 an f-string is one token, and each of its characters may be one inside.
        inside = token.string if _is_formatted(token) else ""
        count += 1 + len(inside)
        if count > limits.tokens:
            raise fault(
                LimitError,
                _place(token),
                "limits",
                f"The program has more than {limits.tokens} tokens.",
                _SPLIT,
            )
        if token.type == tokenize.OP and token.string in "([{":
            depth += 1
            if depth > limits.depth:
                raise _too_deep(_place(token), limits)
        elif token.type == tokenize.OP and token.string in ")]}":
            depth -= 1
        elif depth + sum(map(inside.count, "([{")) > limits.depth:
            raise _too_deep(_place(token), limits)
        elif token.type == tokenize.NUMBER and len(token.string) > limits.digits:
            message = (
                f"A number has {len(token.string)} characters, but at most {limits.digits} are "
                "allowed."
            )
            raise fault(LimitError, _place(token), "limits", message, "Write it with fewer digits.")


def _place(token: tokenize.TokenInfo) -> Place:
    return Place(token.start[0], token.start[1] + 1)


def _is_formatted(token: tokenize.TokenInfo) -> bool:
    """Say whether a token is a whole f-string."""
    start = token.string.lstrip(string.ascii_letters)
    return token.type == tokenize.STRING and "f" in token.string.removesuffix(start).lower()


def check_tree(tree: ast.Module, limits: Limits) -> None:
    """Raise where the syntax tree has too many nodes or is nested too deeply.

    The depth of an expression counts from its statement, that of a statement from the module.
    """
    count = 0
    stack: list[tuple[ast.AST, int, ast.AST]] = [(tree, 0, tree)]
    while stack:
        node, depth, placed = stack.pop()
        if hasattr(node, "lineno"):
            placed = node
        count += 1
        if count > limits.nodes:
            raise _too_large("nodes", count, limits.nodes, START)
        if depth > limits.depth:
            raise _too_deep(_place_of(placed), limits)
        inside = not isinstance(node, ast.stmt)
        for child in ast.iter_child_nodes(node):
            fresh = not inside and not isinstance(child, ast.stmt)
            stack.append((child, 1 if fresh else depth + 1, placed))


def _place_of(node: ast.AST) -> Place:
    """Return where a node begins, which the module alone does not say."""
    match node:
        case ast.AST(lineno=int(line), col_offset=int(column)):
            return Place(line, column + 1)
        case _:
            return START


def _too_deep(place: Place, limits: Limits) -> LimitError:
    """Return the error for a text that is nested too deeply."""
    message = f"The program is nested more than {limits.depth} levels deep here."
    return fault(LimitError, place, "limits", message, "Use temporaries for parts of it.")


_PYTHON = "Check the brackets, quotes, colons and indentation here."
_SPLIT = "Split it into several programs."


def _too_large(what: str, got: int, most: int, place: Place) -> LimitError:
    message = f"The program has {got} {what}, but at most {most} are allowed."
    if what == "nodes":
        message = f"The program has more than {most} nodes in its syntax tree."
    return fault(LimitError, place, "limits", message, _SPLIT)


def python_tree(text: str, hint: str) -> ast.Module:
    """Return what Python's parser makes of a text; `hint` says what to do where it is too deep."""
    try:
        return parsed(text)
    except SyntaxError as error:
        place = Place(max(error.lineno or 1, 1), max(error.offset or 1, 1))
        raise _not_python(error.msg, place) from error
    except (RecursionError, MemoryError) as error:
        message = "The program is nested too deeply for Python's parser."
        raise fault(LimitError, START, "limits", message, hint) from error
    except ValueError as error:
        raise _not_python(str(error), START) from error


def _not_python(reason: str, place: Place) -> SyntaxRuleError:
    """Return the error for a text that Python's parser refuses."""
    clean = "".join(c if c.isprintable() else "?" for c in reason).rstrip(".")
    message = f"The text is not valid Python syntax: {clean}."
    return fault(SyntaxRuleError, place, "python", message, _PYTHON)
