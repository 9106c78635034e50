"""Parts of variables and results as they lie in memory, for whoever copies them itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from halocline_engine.copies import AnyArray
from halocline_engine.datasets.memory.reached import ReachedArrays
from halocline_engine.datasets.memory.shared import SharedArrays
from halocline_engine.datasets.stores.places import PlaceSink
from halocline_engine.datasets.stores.sink import ArraySink, Sink
from halocline_engine.datasets.stores.source import Arrays, InMemory, Region, Source, array_in

__all__ = ["cells_in", "part_in"]


def part_in(source: Source, name: str) -> Callable[[Region], AnyArray] | None:
    """Return what gives regions of a variable without a copy; None where nothing does."""
    match source:
        case ReachedArrays():
            return partial(source.part, name)
        case SharedArrays():
            return source.arrays[name].values(writable=False).__getitem__
        case Arrays():
            return source.arrays[name].__getitem__
        case InMemory():
            found = array_in(source, name)
            return None if found is None else found.__getitem__
        case _:
            return None


def cells_in(sink: Sink, name: str, region: Region) -> Any:
    """Return the cells of a region of a result, to be overwritten; None where they do not lie."""
    match sink:
        case PlaceSink(inner, index):
            found = cells_in(inner, name, (slice(index, index + 1), *region))
            return None if found is None else found[(0, ...)]
        case ReachedArrays():
            return sink.part(name, region)
        case SharedArrays():
            return sink.arrays[name].values(writable=True)[(*region, ...)]
        case ArraySink():
            return sink.arrays[name][(*region, ...)]
        case _:
            return None
