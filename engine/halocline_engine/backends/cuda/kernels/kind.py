"""The interface of a kind of kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from halocline_engine.backends.cuda.model.entries import Entry, Variant
from halocline_engine.backends.cuda.model.launch import Launch
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.backends.cuda.text.statements import Scope
from halocline_engine.ir.extent import Range
from halocline_engine.schedule.nodes import Schedule

__all__ = ["BlockMemory", "KernelKind"]


@dataclass(frozen=True, slots=True)
class BlockMemory:
    """Memory for the blocks' own temporaries: its name in the code, and elements of `itemsize`."""

    name: str
    itemsize: int
    elements: int
    alignment: int


def _no_memory(
    _entry: Entry, _schedule: Schedule, _tile: Tile, _domain: Domain
) -> Iterator[BlockMemory]:
    return iter(())


def _nothing(_entry: Entry, _schedule: Schedule, _variant: Variant, _tile: Tile) -> frozenset[str]:
    return frozenset()


def _same(_entry: Entry, _schedule: Schedule, tile: Tile) -> Tile:
    return tile


@dataclass(frozen=True, slots=True)
class KernelKind:
    """Operations that the compiler and the runtime need of a kind of kernel.

    Attributes
    ----------
    tile
        The tile that the kind's cost model proposes, or None where the kind cannot compute the
        kernel or another one is faster.
    fit
        A given tile, cut down to what the kernel can have, or None where the kind cannot compute
        the kernel under it.
    text
        The body of the kernel in CUDA C++, line by line.
    shared_bytes
        The bytes of dynamic shared memory of a block.
    launches
        The launches that cover the domain, widened by the kernel's extent, on some levels.
    block_memory
        The memory that blocks keep temporaries in, by the name of its parameter.
    within_domain
        The fields that must have no levels but those of the domain where points look levels up.
    other_tile
        The tile for where they have others, which needs no more shared memory.
    one_domain
        Whether a tile serves only the domain that it was made for.

    """

    tile: Callable[[Entry, Schedule, Variant, Domain], Tile | None]
    fit: Callable[[Tile, Entry, Schedule, Variant, Domain], Tile | None]
    text: Callable[[Entry, Schedule, Variant, Scope, Tile], list[str]]
    shared_bytes: Callable[[Entry, Schedule, Variant, Tile, Domain], int]
    launches: Callable[[Entry, Domain, Tile, Range], Iterator[Launch]]
    block_memory: Callable[[Entry, Schedule, Tile, Domain], Iterator[BlockMemory]] = _no_memory
    within_domain: Callable[[Entry, Schedule, Variant, Tile], frozenset[str]] = _nothing
    other_tile: Callable[[Entry, Schedule, Tile], Tile] = _same
    one_domain: bool = False
