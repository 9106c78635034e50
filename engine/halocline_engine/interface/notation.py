"""Arguments in Python's notation, such as ``boundary={'x': 'edge'}``, within sentences."""

from __future__ import annotations

import ast
import re
from typing import Any, TypeAlias

__all__ = ["Placeholder", "Value", "end_of_value", "value_of"]

_SCALAR = re.compile(r"'[^']*'|-?\d[\w.+-]*\b|True|False|None")
_CLOSING = {"{": "}", "[": "]"}

#: Value of an argument: a Python object, possibly with placeholders inside.
Value: TypeAlias = Any


class Placeholder:
    """A value that the reader chooses."""

    def __init__(self, name: str = "...") -> None:
        self.name = name


def end_of_value(text: str, start: int) -> int:
    """Return the end of the value that begins at a position, or `start` if there is none."""
    opening = text[start : start + 1]
    if opening not in _CLOSING:
        scalar = _SCALAR.match(text, start)
        return start if scalar is None else scalar.end() - scalar[0].endswith(".")
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == opening) - (text[at] == _CLOSING[opening])
        if depth == 0:
            return at + 1
    return start


def value_of(text: str) -> Value:
    """Return the value of a text in Python's notation; raises SyntaxError or ValueError."""
    if not text:
        return Placeholder()
    if text == "{...}":
        return {Placeholder("NAME"): Placeholder("VALUE")}
    return _of_node(ast.parse(text, mode="eval").body)


def _of_node(node: ast.expr) -> Value:
    match node:
        case ast.Dict(keys=keys, values=values):
            pairs = [(key, value) for key, value in zip(keys, values, strict=True) if key]
            return {_of_node(key): _of_node(value) for key, value in pairs}
        case ast.List(elts=items):
            return [_of_node(item) for item in items]
        case ast.Constant(value=value):
            return Placeholder() if value is ... else value
        case ast.Name(id=name):
            return Placeholder(name)
        case _:
            return ast.literal_eval(node)
