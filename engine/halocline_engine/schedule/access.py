"""What statements touch: names read at offsets, names assigned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from halocline_engine.ir.nodes import Offset, Statement
from halocline_engine.ir.walk import assignments, reads

__all__ = ["Access", "reads_of", "targets_of"]

#: A name and the offset it is read at.
Access: TypeAlias = tuple[str, Offset]


def reads_of(body: Iterable[Statement]) -> tuple[Access, ...]:
    """Return the distinct reads of statements, nested ones included, in order of appearance."""
    return tuple({(read.name, read.offset): None for read in reads(body)})


def targets_of(body: Iterable[Statement]) -> tuple[str, ...]:
    """Return the distinct names that statements assign, nested ones included, in order."""
    return tuple({assign.target: None for assign in assignments(body)})
