"""`NAME=VALUE` words of the command line, read into dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import typer

__all__ = ["boundaries", "join", "numbers", "pairs", "precision"]


def join(words: Sequence[str] | None) -> list[str]:
    """Split words at commas, so that an option can be given once or several times.

    >>> join(["I=x,J=y", "K=z"])
    ['I=x', 'J=y', 'K=z']
    """
    return [part for word in words or () for part in word.split(",") if part]


def pairs(option: str, words: Sequence[str] | None) -> dict[str, str]:
    """Read `NAME=VALUE` words.

    >>> pairs("--field", ["inp=tos"])
    {'inp': 'tos'}
    """
    found: dict[str, str] = {}
    for word in words or ():
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise typer.BadParameter(f"Expected NAME=VALUE, got '{word}'.", param_hint=option)
        if name in found:
            raise typer.BadParameter(f"'{name}' is given twice.", param_hint=option)
        found[name] = value
    return found


def numbers(option: str, words: Sequence[str] | None) -> dict[str, bool | int | float]:
    """Read `NAME=NUMBER` words; whole numbers stay whole.

    >>> numbers("--scalar", ["alpha=0.5", "n=3", "flag=true"])
    {'alpha': 0.5, 'n': 3, 'flag': True}
    """
    return {name: _number(option, text) for name, text in pairs(option, words).items()}


def precision(option: str, words: Sequence[str] | None) -> int | dict[str, int] | None:
    """Read bits of the numbers in a program: `32`, or `int=64` and `float=32`.

    >>> precision("--literal-precision", ["32"])
    32
    >>> precision("--literal-precision", ["float=32"])
    {'float': 32}
    """
    if not words:
        return None
    if len(words) == 1 and words[0].isdecimal():
        return int(words[0])
    found = pairs(option, words)
    if not found.keys() <= {"int", "float"} or not set(found.values()) <= {"32", "64"}:
        raise typer.BadParameter("Write 32, or int=64 and float=32.", param_hint=option)
    return {name: int(bits) for name, bits in found.items()}


def boundaries(option: str, words: Sequence[str] | None) -> dict[str, Any]:
    """Read `DIM=KIND`, `DIM.low=KIND` and `DIM.high=KIND`; a number is a constant.

    >>> boundaries("--boundary", ["x=periodic", "y.low=edge", "y.high=0"])
    {'x': 'periodic', 'y': {'low': 'edge', 'high': {'constant': 0.0}}}
    """
    found: dict[str, Any] = {}
    for name, text in pairs(option, words).items():
        kind = _kind(option, text)
        dim, dot, side = name.rpartition(".")
        if dot and side in ("low", "high"):
            sides = found.setdefault(dim, {})
            if not isinstance(sides, dict):
                raise typer.BadParameter(f"'{dim}' is given twice.", param_hint=option)
            sides[side] = kind
        else:
            found[name] = kind
    return found


def _kind(option: str, text: str) -> Any:
    if text.isidentifier():
        return text
    return {"constant": float(_number(option, text))}


def _number(option: str, text: str) -> bool | int | float:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    readers: tuple[Callable[[str], int | float], ...] = (int, float)
    for read in readers:
        try:
            return read(text)
        except ValueError:
            continue
    raise typer.BadParameter(f"Expected a number, got '{text}'.", param_hint=option)
