"""Opening a dataset, however a user names it."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.arguments import WEB, address_scheme, source_of
from halocline_engine.datasets.stores.census import refuse_many_chunks
from halocline_engine.datasets.stores.source import InMemory, Opened, Region, Source, open_path
from halocline_engine.datasets.storing.joining import join_datasets, joint_of, region_in_parts
from halocline_engine.errors import DatasetError

__all__ = ["DatasetLike", "Joined", "open_source"]

#: A dataset of xarray, a path or an address, or several of these that follow each other.
DatasetLike: TypeAlias = xr.Dataset | str | Path | Sequence[str | Path]


def open_source(dataset: DatasetLike | Opened) -> Opened:
    """Open a dataset: one of xarray, a path, an address, or several of these.

    A text with `*`, `?` or `[` that is no path names all files that it matches. Raises
    `DatasetError` where it does not exist, cannot be read, or points outside of itself, and
    `CapacityError` where it declares too much.
    """
    if isinstance(dataset, Opened):
        return dataset
    if isinstance(dataset, xr.Dataset):
        for dim in dataset.dims:
            if not isinstance(dim, str):
                raise DatasetError(
                    f"The dimension {dim!r} of the dataset must have a text as its name.",
                    hint=f"Write dataset.rename({{{dim!r}: '...'}}).",
                )
        return Opened(dataset, InMemory(dataset), None, "")
    if isinstance(dataset, list | tuple):
        return _open_several(list(cast("Sequence[Any]", dataset)))
    if isinstance(dataset, str) and address_scheme(dataset) in WEB:
        from halocline_engine.datasets.inputs.web import open_address

        return open_address(dataset)
    path = source_of(dataset)
    # A name that is too long is no error here.
    if os.path.exists(path):
        return open_path(path.resolve())
    if "\n" in str(path):
        raise DatasetError(
            "A dataset must be an xarray.Dataset or a path, got a text of several lines.",
            hint="If it is a program: programs come first, then the dataset.",
        )
    if glob.has_magic(str(path)):
        matching = sorted(glob.glob(str(path)))
        if not matching:
            raise DatasetError(
                f"No file matches '{path}'.",
                hint="Check the pattern with 'ls', or pass the files as a list.",
            )
        return _open_several(matching)
    raise DatasetError(
        f"Dataset '{path}' does not exist.",
        hint="Expected an xarray.Dataset, or the path of a Zarr store or a NetCDF file.",
    )


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """Sources one after the other along a dimension, which is an axis of some variables."""

    parts: tuple[Source, ...]
    starts: tuple[int, ...]
    axes: dict[str, int] = field(default_factory=dict[str, int])
    dtypes: dict[str, str] = field(default_factory=dict[str, str])

    def read(self, name: str, region: Region) -> NDArray[Any]:
        """Return the values of a region, from the sources that have them."""
        axis = self.axes.get(name)
        if axis is None:
            return self.parts[0].read(name, region)
        pieces = [
            self.parts[at].read(name, part)
            for at, part in region_in_parts(self.starts, region, axis)
        ]
        if not pieces:
            return self.parts[0].read(name, region)
        whole = pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis=axis)
        return whole.astype(self.dtypes[name], copy=False)


def _open_several(paths: Sequence[Any]) -> Opened:
    """Open files that follow each other along a dimension."""
    if not paths:
        raise DatasetError(
            "A list of datasets must have at least one path, got none.",
            hint="Write for example ['january.nc', 'february.nc'].",
        )
    for one in paths:
        if not isinstance(one, str | os.PathLike):
            raise DatasetError(
                f"A list of datasets must have paths, got the {type(one).__name__} among them.",
                hint="Join datasets with xarray.concat, and pass the result.",
            )
    opened = [open_source(one) for one in paths]
    if len(opened) == 1:
        return opened[0]
    named = [(str(name), one.dataset) for name, one in zip(paths, opened, strict=True)]
    joint = joint_of(named, DatasetError)
    parts = [opened[at] for at in joint.order]

    def read(at: int, name: str, region: Region) -> NDArray[Any]:
        return parts[at].source.read(name, region)

    dataset = join_datasets([one.dataset for one in parts], joint, read)
    refuse_many_chunks(dataset)
    variables: Any = dataset.variables
    axes = {str(n): v.dims.index(joint.dim) for n, v in variables.items() if joint.dim in v.dims}
    source = Joined(
        tuple(one.source for one in parts),
        joint.starts,
        axes,
        {name: variables[name].dtype.newbyteorder("=").str for name in axes},
    )
    return Opened(dataset, source, None, " + ".join(one.identity for one in parts))
