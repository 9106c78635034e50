"""The cells of a block that others wait for, apart from those inside: pure geometry.

One plane of a block whose neighbours need two rows on the low side of J and one column on the high
side of I::

    . . . . . e      e   edges: computed first, then sent
    . . . . . e      .   inner cells, computed while halos are under way
    e e e e e e
    e e e e e e
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from halocline_engine.distribute.grid.partition import Box, Span

__all__ = ["Split", "split"]

#: The axes along which a domain may be divided: levels of a column belong together.
_ALONG = (1, 0)


@dataclass(frozen=True, slots=True)
class Split:
    """A domain as one box of inner cells, and boxes of its edges."""

    inner: Box
    edges: tuple[Box, ...]


def split(domain: Box, sent: Iterable[Box]) -> Split | None:
    """Return the domain with all cells that are `sent` in its edges.

    None where no cells are left inside, or none of the domain is sent.

    >>> flat = Span(0, 1)
    >>> split((Span(0, 6), Span(0, 4), flat), [(Span(0, 6), Span(0, 2), flat)])
    ... # doctest: +NORMALIZE_WHITESPACE
    Split(inner=(Span(start=0, stop=6), Span(start=2, stop=4), Span(start=0, stop=1)),
          edges=((Span(start=0, stop=6), Span(start=0, stop=2), Span(start=0, stop=1)),))
    """
    inner = domain
    for box in sent:
        if all(a.meet(b).size for a, b in zip(inner, box, strict=True)):
            inner = max(_beside(inner, box), key=_cells)
        if not _cells(inner):
            return None
    edges: list[Box] = []
    rest = domain
    for axis in _ALONG:
        whole, within = rest[axis], inner[axis]
        beside = (Span(whole.start, within.start), Span(within.stop, whole.stop))
        edges += [_with(rest, axis, part) for part in beside if part.size]
        rest = _with(rest, axis, within)
    return Split(inner, tuple(edges)) if edges else None


def _beside(inner: Box, box: Box) -> Iterable[Box]:
    """Yield what is left of a box on either side of another one."""
    for axis in _ALONG:
        whole, taken = inner[axis], box[axis]
        yield _with(inner, axis, Span(max(whole.start, taken.stop), whole.stop))
        yield _with(inner, axis, Span(whole.start, min(whole.stop, taken.start)))


def _with(box: Box, axis: int, span: Span) -> Box:
    """Return the box with another span along an axis, empty where that ends before it begins."""
    spans = list(box)
    spans[axis] = span if span.stop > span.start else Span(span.start, span.start)
    i, j, k = spans
    return i, j, k


def _cells(box: Box) -> int:
    i, j, k = box
    return i.size * j.size * k.size
