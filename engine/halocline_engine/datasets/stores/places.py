"""One place along the first dimension of stored arrays, as a source and as a sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.datasets.stores.sink import ArraySink, Sink
from halocline_engine.datasets.stores.source import Region, Source

__all__ = ["PlaceSink", "PlaceSource", "place_in"]


@dataclass(frozen=True, slots=True)
class PlaceSink:
    """The arrays of a sink at one index of their first dimension."""

    sink: Sink
    index: int

    def write(self, name: str, region: Region, values: NDArray[Any]) -> None:
        """Store the values of a region of the other dimensions."""
        self.sink.write(name, (slice(self.index, self.index + 1), *region), values[np.newaxis])


@dataclass(frozen=True, slots=True)
class PlaceSource:
    """The arrays of a source at one index of their first dimension; `names` are those it has."""

    source: Source
    index: int
    names: Mapping[str, str]

    def read(self, name: str, region: Region) -> NDArray[Any]:
        """Return the values of a region of the other dimensions."""
        there = (slice(self.index, self.index + 1), *region)
        return self.source.read(self.names[name], there)[0]


def place_in(sink: Sink, index: int) -> Sink:
    """Return one place of a sink: views of its arrays, where it has arrays of this process."""
    if isinstance(sink, ArraySink):
        return ArraySink({name: array[index, ...] for name, array in sink.arrays.items()})
    return PlaceSink(sink, index)
