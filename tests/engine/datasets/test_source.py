"""What tells that a dataset was written anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr

from halocline_engine.datasets.inputs.opening import open_source
from halocline_engine.datasets.untyped import ZARR


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_metadata_of_every_array_count(tmp_path: Path, zarr_format: int) -> None:
    arrays = {f"v{number:02}": (("x",), np.arange(4.0)) for number in range(70)}
    store = tmp_path / "many.zarr"
    written = cast("Any", xr.Dataset(arrays))
    written.to_zarr(store, consolidated=False, zarr_format=zarr_format)
    before = open_source(store)
    assert open_source(store).identity == before.identity
    ZARR.open_array(str(store), path="v69", mode="r+").attrs.update(units="m")
    after = open_source(store)
    assert after.identity != before.identity
    assert after.dataset["v69"].attrs == {"units": "m"}


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_chunk_that_is_written_anew_is_seen(tmp_path: Path, zarr_format: int) -> None:
    store = tmp_path / "chunks.zarr"
    encoding = {"v": {"chunks": (1, 1)}}
    dataset = cast("Any", xr.Dataset({"v": (("y", "x"), np.ones((3, 3)))}))
    dataset.to_zarr(store, consolidated=False, encoding=encoding, zarr_format=zarr_format)
    before = open_source(store)
    ZARR.open_array(str(store), path="v", mode="r+")[2, 1] = 5.0
    after = open_source(store)
    assert after.identity != before.identity
    assert float(after.dataset["v"].values[2, 1]) == 5.0
