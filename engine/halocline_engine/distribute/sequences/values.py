"""Storage of variables between two stages: in this process, or in stores."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from halocline_engine.datasets.stores.sink import (
    ArraySink,
    Sink,
    ZarrSink,
    create_arrays,
    create_store,
)
from halocline_engine.datasets.stores.source import Arrays, ArrayStore, Region, Source
from halocline_engine.distribute.jobs.execute import Blockwise, Output
from halocline_engine.removal import remove_own

__all__ = ["InArrays", "InStores", "Place", "Room", "Values", "chunks_of", "copy_variable"]

#: A source and the name that a variable has there.
Place = tuple[Source, str]


@dataclass(frozen=True, slots=True)
class Values:
    """A source of all variables: those that stages made lie elsewhere than the given ones."""

    given: Source
    made: Mapping[str, Place] = field(default_factory=dict[str, Place])

    def read(self, name: str, region: Region) -> NDArray[Any]:
        """Return the values of a region."""
        source, there = self.place(name)
        return source.read(there, region)

    def place(self, name: str) -> Place:
        """Return where a variable is."""
        return self.made.get(name, (self.given, name))

    def with_made(self, made: Mapping[str, Place]) -> Values:
        """Return the same with variables in place of those of these names."""
        return Values(self.given, {**self.made, **made})


class Room(Protocol):
    """Makes room for what stages make."""

    def room(self, job: Blockwise) -> tuple[Sink, Source, Path | None]:
        """Return where a stage writes, where that is read, and a folder for what its passes share.

        The folder is None where they share this process.
        """
        ...

    def free(self, values: Values) -> None:
        """Give up the room of all that is not among these values."""
        ...


@dataclass(slots=True)
class InArrays:
    """Arrays of this process; those that nobody reads any more are written again."""

    used: list[NDArray[Any]] = field(default_factory=list["NDArray[Any]"])
    spare: list[NDArray[Any]] = field(default_factory=list["NDArray[Any]"])

    def room(self, job: Blockwise) -> tuple[Sink, Source, Path | None]:
        """Return where a stage writes, and where that is read."""
        uses = {output.name: output.use for output in job.outputs}
        arrays = create_arrays(uses, job.grid, self.spare)
        self.used.extend(arrays.values())
        return ArraySink(arrays), Arrays(arrays), None

    def free(self, values: Values) -> None:
        """Keep the arrays that are not among these values for later stages."""
        read = [
            source.arrays[name]
            for source, name in values.made.values()
            if isinstance(source, Arrays)
        ]
        used, self.used = self.used, []
        for one in used:
            kept = any(one is other for other in read)
            (self.used if kept else self.spare).append(one)


@dataclass(slots=True)
class InStores:
    """A store for each stage of each step, below a folder that all workers see."""

    folder: Path
    numbers: Iterator[int] = field(default_factory=itertools.count)
    used: list[Path] = field(default_factory=list[Path])

    def room(self, job: Blockwise) -> tuple[Sink, Source, Path | None]:
        """Return where a stage writes, where that is read, and a folder for its passes."""
        number = next(self.numbers)
        path, between = self.folder / f"made-{number}", self.folder / f"between-{number}"
        create_store(path, job.uses, job.grid, chunks_of(job.outputs), {})
        self.used += [path, between]
        return ZarrSink(str(path)), ArrayStore(str(path)), between

    def free(self, values: Values) -> None:
        """Remove the stores that are not among these values."""
        read = {source.path for source, _ in values.made.values() if isinstance(source, ArrayStore)}
        for path in self.used:
            if str(path) not in read and path.exists():
                remove_own(path)
        self.used = [path for path in self.used if str(path) in read]


def chunks_of(outputs: Iterable[Output]) -> dict[str, dict[str, int]]:
    """Return the sizes of chunks along the dimensions of each output."""
    return {one.name: dict(zip(one.dims, one.chunks, strict=True)) for one in outputs}


def copy_variable(place: Place, sink: Sink, output: Output, shape: tuple[int, ...]) -> None:
    """Copy a variable to a sink under the name of the output, a row of its chunks at a time."""
    source, name = place
    if not shape:
        sink.write(output.name, (), source.read(name, ()))
        return
    rest = tuple(slice(0, size) for size in shape[1:])
    for start in range(0, shape[0], max(1, output.chunks[0])):
        stop = min(shape[0], start + output.chunks[0])
        region = (slice(start, stop), *rest)
        sink.write(output.name, region, source.read(name, region))
