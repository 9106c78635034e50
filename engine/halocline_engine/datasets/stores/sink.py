"""Sinks: references that travel to workers and write regions there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from halocline_engine.datasets.decoding.pieces import cells_within, pieces_of
from halocline_engine.datasets.disk import full_disk
from halocline_engine.datasets.grids.match import FieldUse, Grid
from halocline_engine.datasets.stores.source import Region
from halocline_engine.datasets.untyped import ZARR

__all__ = ["ArraySink", "KeptArrays", "Sink", "ZarrSink", "create_arrays", "create_store"]


class Sink(Protocol):
    """A set of named arrays that are written by regions."""

    def write(self, name: str, region: Region, values: NDArray[Any]) -> None:
        """Store the values of a region; storing them again changes nothing."""
        ...


@dataclass(frozen=True, slots=True)
class ZarrSink:
    """Zarr arrays under a path; the regions of two writers must not share a chunk."""

    path: str

    def write(self, name: str, region: Region, values: NDArray[Any]) -> None:
        """Store the values of a region; raises `OutputError` where the disk is full."""
        with full_disk(self.path):
            array = ZARR.open_array(self.path, path=name, mode="r+")
            for piece in pieces_of(region, array.shape, array.shards or array.chunks):
                array[piece] = values if piece == region else values[cells_within(piece, region)]


@dataclass(frozen=True, slots=True, eq=False)
class ArraySink:
    """Arrays of this process."""

    arrays: Mapping[str, NDArray[Any]]

    def write(self, name: str, region: Region, values: NDArray[Any]) -> None:
        """Store the values of a region."""
        self.arrays[name][region] = values


@dataclass(frozen=True, slots=True, eq=False)
class KeptArrays:
    """Arrays that one block makes of whole variables, which are kept as they are."""

    arrays: dict[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])

    def write(self, name: str, region: Region, values: NDArray[Any]) -> None:
        """Keep a variable; its region is all of it."""
        assert all(part.start == 0 for part in region), "one block makes all of it"
        self.arrays[name] = values


def create_store(
    path: Path,
    uses: Sequence[FieldUse],
    grid: Grid,
    chunks: Mapping[str, Mapping[str, int]],
    attributes: Mapping[str, Any],
) -> None:
    """Create a store of uncompressed arrays, named as the fields are, between two passes.

    `chunks` gives the size along each dimension of each field, `attributes` those of the store.
    """
    with full_disk(path):
        ZARR.create_group(str(path), zarr_format=3, attributes=dict(attributes))
        for use in uses:
            ZARR.create_array(
                store=str(path),
                name=use.name,
                shape=tuple(grid.size_of(dim) for dim in use.dims),
                chunks=tuple(chunks[use.name][dim] for dim in use.dims),
                dtype=use.dtype,
                compressors=None,
                zarr_format=3,
            )


def create_arrays(
    uses: Mapping[str, FieldUse],
    grid: Grid,
    spare: list[NDArray[Any]] | None = None,
    make: Callable[[tuple[int, ...], np.dtype[Any]], NDArray[Any]] = np.empty,
) -> dict[str, NDArray[Any]]:
    """Return arrays of this process under the same names, whose values are not defined.

    What fits is taken out of `spare`, arrays that are no longer used; others are made by `make`.
    """
    found: dict[str, NDArray[Any]] = {}
    for name, use in uses.items():
        shape, dtype = tuple(grid.size_of(dim) for dim in use.dims), np.dtype(use.dtype)
        fitting = [at for at, one in enumerate(spare or ()) if _is(one, shape, dtype)]
        found[name] = spare.pop(fitting[0]) if spare and fitting else make(shape, dtype)
    return found


def _is(values: NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    return values.shape == shape and values.dtype == dtype
