"""Transfers by indices, and the rules for invalid ones.

A transfer moves `elements` elements of `element_bytes` bytes each. A gather reads element
`index[i]` of the source and writes it as element i of the target; a scatter reads element i and
writes it as element `index[i]`. Indices count elements, not bytes, from the first element.

Both arrays begin at an address that is a multiple of `alignment`, and the size of an element is a
multiple of it. A batch moves several pairs of arrays by the same indices. Bytes that no index
names are left as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from halocline_engine.errors import ArgumentError, InternalError

__all__ = [
    "ALIGNMENTS",
    "Bytes",
    "Direction",
    "Duplicates",
    "Index",
    "Negative",
    "OutOfRange",
    "Policy",
    "Transfer",
    "alignment_of",
    "check_transfer",
    "choice",
]

#: Bytes of the pieces that elements are moved in; the first two are for small types.
ALIGNMENTS = (1, 2, 4, 8, 16)

#: An array indexed [batch, element, byte].
Bytes: TypeAlias = NDArray[np.uint8]
#: An array of whole numbers, of 32 or 64 bits.
Index: TypeAlias = NDArray[np.signedinteger[Any]]


class Direction(Enum):
    """Side that indices address."""

    GATHER = "gather"
    SCATTER = "scatter"


class OutOfRange(Enum):
    """Treatment of an index that names no element.

    ERROR: the first one is named. CLIP: the nearest element is meant. WRAP: elements repeat
    periodically. MASK: nothing is moved.
    """

    ERROR = "error"
    CLIP = "clip"
    WRAP = "wrap"
    MASK = "mask"


class Negative(Enum):
    """Meaning of a negative index: out of range, or counted from the end as in Python."""

    OUT_OF_RANGE = "out_of_range"
    FROM_END = "from_end"


class Duplicates(Enum):
    """Result of a scatter where several elements go to one place.

    ERROR: the first index that was there before is named. LAST: the last in the order of the
    indices stays. SUM, MIN, MAX: they are combined in the order of the indices; a minimum or
    maximum with a NaN is NaN.
    """

    ERROR = "error"
    LAST = "last"
    SUM = "sum"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Policy:
    """Treatment of indices that cannot be taken as they are."""

    out_of_range: OutOfRange = OutOfRange.ERROR
    negative: Negative = Negative.OUT_OF_RANGE
    duplicates: Duplicates = Duplicates.ERROR


@dataclass(frozen=True, slots=True)
class Transfer:
    """A gather or a scatter; sizes in bytes."""

    direction: Direction
    alignment: int
    element_bytes: int
    elements: int

    def __post_init__(self) -> None:
        """Refuse sizes that do not fit together."""
        if self.alignment not in ALIGNMENTS:
            raise InternalError(
                f"The alignment of a transfer must be one of {ALIGNMENTS}, got {self.alignment}."
            )
        if self.element_bytes < 1 or self.element_bytes % self.alignment:
            raise InternalError(
                "The size of an element must be a multiple of the alignment, got"
                f" {self.element_bytes} bytes and an alignment of {self.alignment}."
            )
        if self.elements < 0:
            raise InternalError(f"A transfer cannot have {self.elements} elements.")

    @property
    def pieces(self) -> int:
        """Number of pieces of `alignment` bytes in an element."""
        return self.element_bytes // self.alignment


def alignment_of(*numbers: int) -> int:
    """Return the largest alignment that addresses and sizes in bytes have in common.

    >>> alignment_of(64, 24), alignment_of(6), alignment_of(4096)
    (8, 2, 16)
    """
    return max(one for one in ALIGNMENTS if not any(number % one for number in numbers))


def check_transfer(transfer: Transfer, source: Bytes, target: Bytes, index: Index) -> None:
    """Refuse arrays that do not fit a transfer; what indices say is checked before."""
    gather = transfer.direction is Direction.GATHER
    dense = target if gather else source
    fits = (
        source.ndim == target.ndim == 3
        and source.shape[0] == target.shape[0]
        and source.shape[2] == target.shape[2] == transfer.element_bytes
        and dense.shape[1] == transfer.elements == index.size
        and index.ndim == 1
    )
    if not fits:
        raise InternalError(
            f"A {transfer.direction.value} of {transfer.elements} elements of"
            f" {transfer.element_bytes} bytes got {index.shape} indices and arrays of the shapes"
            f" {source.shape} and {target.shape}, indexed [batch, element, byte]."
        )


def choice(kind: type[Enum], argument: str, value: object) -> Any:
    """Return the member of an enumeration that a user named; raises `ArgumentError`."""
    for member in kind:
        if isinstance(value, str) and member.value == value:
            return member
    names = ", ".join(f"'{member.value}'" for member in kind)
    raise ArgumentError(
        f"Argument '{argument}' must be one of {names}, got {value!r}.", hint="Leave it out."
    )
