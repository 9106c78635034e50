"""Doors to files of xarray, Zarr and numcodecs, whose types are partly known: met here, once."""

from __future__ import annotations

from typing import Any, cast

import numcodecs  # pyright: ignore[reportMissingTypeStubs] - it has none
import xarray as xr
import zarr
from zarr.codecs import ShardingCodec
from zarr.codecs._v2 import V2Codec
from zarr.core.codec_pipeline import BatchedCodecPipeline

from halocline_engine.copies import of_device
from halocline_engine.datasets.dask_blocks import with_checked_blocks

__all__ = [
    "CODEC_PIPELINE",
    "NUMCODECS",
    "SHARDING",
    "V2_CODEC",
    "XARRAY",
    "ZARR",
    "is_on_device",
    "store_dataset",
    "variable_data",
]

NUMCODECS: Any = cast(Any, numcodecs)
XARRAY: Any = cast(Any, xr)
ZARR: Any = cast(Any, zarr)
CODEC_PIPELINE: Any = cast(Any, BatchedCodecPipeline)
SHARDING: Any = cast(Any, ShardingCodec)
V2_CODEC: Any = cast(Any, V2Codec)


def variable_data(dataset: xr.Dataset, name: str) -> Any:
    """Return a variable that is indexed lazily, without its coordinates."""
    return cast(Any, dataset[name].variable)


def is_on_device(dataset: xr.Dataset, name: str) -> bool:
    """Say whether a variable lies there; nothing is read, or computed."""
    # What is not loaded yet would be by `data`.
    return of_device(getattr(variable_data(dataset, name), "_data", None))


def store_dataset(dataset: xr.Dataset, path: Any, **options: Any) -> None:
    """Write a dataset to a new Zarr store of the third format, without consolidated metadata.

    `path` is one, or a store of Zarr's.
    """
    write = cast(Any, with_checked_blocks(dataset)).to_zarr
    write(path, mode="w-", zarr_format=3, consolidated=False, **options)
