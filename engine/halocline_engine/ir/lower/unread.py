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
    if isinstance(node, Name):
        yield node.name.partition(".")[0]
    elif isinstance(node, tuple):
        for item in cast("tuple[object, ...]", node):
            yield from _names(item)
    elif is_dataclass(node):
        for one in fields(node):
            yield from _names(getattr(node, one.name))


def calls(node: object) -> Iterator[str]:
    """Yield the functions that are called in a definition."""
    if isinstance(node, Apply):
        yield node.function
    if isinstance(node, tuple):
        for item in cast("tuple[object, ...]", node):
            yield from calls(item)
    elif is_dataclass(node):
        for one in fields(node):
            yield from calls(getattr(node, one.name))
