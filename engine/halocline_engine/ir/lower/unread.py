"""Errors of a stencil's statements, without those that only follow from others."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from typing import cast

from halocline_engine.errors import LimitError, ProgramError
from halocline_engine.ir.lower.naming.scope import assigned
from halocline_engine.language.faults import Faults
from halocline_engine.language.syntax import Apply, Name, Step

__all__ = ["Unread", "calls"]


@dataclass(slots=True, kw_only=True)
class Unread(Faults):
    """Errors so far, and the temporaries that statements with errors would have given a value."""

    arguments: Set[str]
    names: set[str] = field(default_factory=set[str])

    @contextmanager
    def of(self, step: Step) -> Generator[None]:
        """Keep an error of a statement, unless it reads what another error left without a value."""
        try:
            yield
        except LimitError:
            raise
        except ProgramError as error:
            if self.names.isdisjoint(_names(step)):
                self.add(error)
            self.names |= {name for name, _ in assigned((step,))} - self.arguments


def _names(node: object) -> Iterator[str]:
    """Yield the names in a statement."""
    return (one.name.partition(".")[0] for one in _below(node) if isinstance(one, Name))


def calls(node: object) -> Iterator[str]:
    """Yield the functions that are called in a definition."""
    return (one.function for one in _below(node) if isinstance(one, Apply))


def _below(node: object) -> Iterator[object]:
    """Yield a part of a program and all parts of it."""
    yield node
    if isinstance(node, tuple):
        for item in cast("tuple[object, ...]", node):
            yield from _below(item)
    elif is_dataclass(node):
        for one in fields(node):
            yield from _below(getattr(node, one.name))
