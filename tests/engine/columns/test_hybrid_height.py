"""Potential temperature on hybrid height, real data: NumPy, xgcm and the engine agree."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from emulation.machine import EmulatedArtifact
from hybrid_height import FIELDS, SAMPLE, TEXT, by_numpy, by_xgcm, missing

import halocline_engine as he
from halocline_engine.datasets.inputs.opening import open_source
from halocline_engine.datasets.stores.sink import ArraySink
from halocline_engine.distribute.blocks.work import Code
from halocline_engine.distribute.columns.job import ColumnRequest, check_column, column_job
from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.program import compile_lowered


@pytest.fixture(scope="module")
def dataset() -> xr.Dataset:
    with xr.open_dataset(SAMPLE) as opened:
        return opened.load()


def evaluated(dataset: Any, **options: Any) -> xr.Dataset:
    arguments: dict[str, Any] = {"fields": FIELDS, "scalars": {"k": 2.5}, "dtype": "float64"}
    return he.column(TEXT, dataset, **{**arguments, **options})


def test_numpy_agrees(dataset: xr.Dataset) -> None:
    result = evaluated(SAMPLE, target="reference")
    for name, values in by_numpy(dataset, 2.5).items():
        np.testing.assert_allclose(result[name], values, rtol=1e-9, atol=1e-14)


def test_xgcm_agrees(dataset: xr.Dataset) -> None:
    result = evaluated(dataset, target="reference")
    expected = by_xgcm(dataset, result, 2.5)
    inner = result["gradient"].isel(model_level_number_face=slice(1, -1))
    np.testing.assert_allclose(inner, expected["gradient"], rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(result["tendency"], expected["tendency"], rtol=1e-9, atol=1e-14)


def test_results_know_where_they_are(dataset: xr.Dataset) -> None:
    result = evaluated(dataset, target="reference")
    assert result["gradient"].dims == (
        "model_level_number_face",
        "grid_latitude",
        "grid_longitude",
    )
    assert result["tendency"].dims == dataset["air_potential_temperature"].dims
    assert result["heat"].dims == ("grid_latitude", "grid_longitude")
    face = result["level_height_face"]
    assert face.dtype == np.float32
    assert face.values[[0, -1]].tolist() == [0.0, 900.0]
    assert face.attrs == {
        "axis": "Z",
        "c_grid_axis_shift": -0.5,
        "formula_terms": "a: level_height_face b: sigma_face orog: surface_altitude",
        "long_name": "level_height",
        "positive": "up",
        "standard_name": "atmosphere_hybrid_height_coordinate",
        "units": "m",
    }
    assert result["sigma_face"].values[0] == 1.0
    for name in ("level_height", "sigma", "surface_altitude", "grid_latitude"):
        xr.testing.assert_identical(result[name], dataset[name])
    assert "column program for 'gradient', 'tendency', 'heat'" in result.attrs["history"]
    assert result.attrs["Conventions"] == dataset.attrs["Conventions"]


def test_blocks_and_stores_change_no_bit(dataset: xr.Dataset, tmp_path: Path) -> None:
    text = "DivergenceF2C(bottom=SetValue(0.0), top=SetValue(0.0))(GradientC2F()(theta))"
    whole = he.column(text, dataset, fields=FIELDS, target="cpu")
    assert whole["result"].dtype == np.float32
    untyped: Any = dataset
    stored = he.column(
        text,
        untyped.chunk({"grid_latitude": 30, "model_level_number": 4}),
        fields=FIELDS,
        target="cpu",
        chunks={"grid_latitude": 17, "grid_longitude": 64},
        output=tmp_path / "out.zarr",
    )
    np.testing.assert_array_equal(stored["result"], whole["result"])
    assert stored["result"].dims == whole["result"].dims
    xr.testing.assert_identical(stored["sigma"].load(), whole["sigma"].load())
    judged = he.column(text, dataset, fields=FIELDS, target="reference")
    np.testing.assert_array_equal(judged["result"], whole["result"])


def test_missing_cells_stay_missing(dataset: xr.Dataset) -> None:
    holed = dataset.copy(deep=True)
    holed["air_potential_temperature"][6, 40:60, 30] = np.nan
    result, whole = (evaluated(each, target="reference") for each in (holed, dataset))
    for name, there in missing().items():
        np.testing.assert_array_equal(np.isnan(result[name].values), there)
        np.testing.assert_array_equal(result[name].values[~there], whole[name].values[~there])


def test_emulated_kernels_agree(dataset: xr.Dataset, emulation_folder: Path) -> None:
    """Blocks go through the same code as on a device, with kernels that run on the host."""
    part = dataset.isel(grid_latitude=slice(0, 9), grid_longitude=slice(0, 13))
    request = ColumnRequest(
        text=TEXT,
        fields=FIELDS,
        scalars={"k": 2.5},
        axis=None,
        heights=None,
        boundary={},
        dtype=None,
        name="result",
        chunks={},
        output=None,
    )
    checked = check_column(request, open_source(part))
    job = column_job(checked, LocalPool(), "reference", Options())
    assert job.work is not None
    arrays = {
        output.name: np.zeros([job.sizes[dim] for dim in output.dims], output.dtype)
        for output in job.outputs
    }
    work: Any = job.work(checked.opened.source, ArraySink(arrays))
    compiled = compile_lowered(checked.program, "reference")
    emulated = EmulatedArtifact(compiled.schedule, emulation_folder)
    changed = replace(work, code=Code("emulated", emulated))
    for block in job.blocks:
        changed.run(block)
    whole = evaluated(part, target="reference", dtype=None)
    for name, values in arrays.items():
        np.testing.assert_array_equal(values, whole[name])
