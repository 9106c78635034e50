"""Real files through the engine: dimensions found, months and years looped over, land kept."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from pathlib import Path
from typing import Any

import iris_sample_data  # pyright: ignore[reportMissingTypeStubs] - it has none
import numpy as np
import pytest
import xarray as xr

from halocline_engine.distribute.tasks.events import Event, Planned
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.functions.run import run

SAMPLES = Path(iris_sample_data.path)

GRADIENT = """
def gradient(t: Field[np.float32], out: Field[np.float32]):
    with computation(PARALLEL), interval(...):
        out = 0.5 * (t[1, 0, 0] - t[-1, 0, 0])
"""
SMOOTH = """
def smooth(t: Field[np.float32], out: Field[np.float32]):
    with computation(PARALLEL), interval(...):
        out = 0.25 * (t[1, 0, 0] + t[-1, 0, 0] + t[0, 1, 0] + t[0, -1, 0])
"""
LAPSE = """
def lapse(theta: Field[np.float32], height: Field[K, np.float32], out: Field[np.float32]):
    with computation(PARALLEL), interval(...):
        out = (theta[0, 0, 1] - theta[0, 0, -1]) / (height[1] - height[-1])
"""
DIFFUSE = """
def diffuse(sst: Field[np.float32], out: Field[np.float32], coeff: np.float32):
    with computation(PARALLEL), interval(...):
        east = sst[1, 0, 0] - sst
        west = sst - sst[-1, 0, 0]
        north = sst[0, 1, 0] - sst
        south = sst - sst[0, -1, 0]
        east = 0.0 if isnan(east) else east
        west = 0.0 if isnan(west) else west
        north = 0.0 if isnan(north) else north
        south = 0.0 if isnan(south) else south
        out = sst + coeff * (east - west + north - south)
"""


def test_months_of_sea_surface_temperature(tmp_path: Path) -> None:
    source = SAMPLES / "ostia_monthly.nc"
    events: list[Event] = []
    result = run(
        GRADIENT,
        source,
        fields={"t": "surface_temperature", "out": "gradient"},
        boundary={"longitude": "periodic"},
        target="reference",
        chunks={"time": 10, "longitude": 100},
        output=tmp_path / "out.zarr",
        on_event=events.append,
    )
    with xr.open_dataset(source) as before:
        sst = before["surface_temperature"].values
        wanted = np.float32(0.5) * (np.roll(sst, -1, 2) - np.roll(sst, 1, 2))
        np.testing.assert_array_equal(result["gradient"].values, wanted)
        assert result["gradient"].dims == ("time", "latitude", "longitude")
        for name in ("time", "latitude", "longitude", "forecast_reference_time"):
            xr.testing.assert_equal(result[name], before[name])
        assert result["longitude"].attrs == before["longitude"].attrs
        assert result.attrs["Conventions"] == before.attrs["Conventions"]
    assert "program 'gradient', 1 step" in result.attrs["history"]
    assert isinstance(events[0], Planned)
    assert events[0].blocks == 6 * 5
    assert np.isnan(wanted).any()


def test_two_hundred_years_of_air_temperature(tmp_path: Path) -> None:
    source = SAMPLES / "A1B_north_america.nc"
    result = run(
        SMOOTH,
        source,
        fields={"t": "air_temperature", "out": "air_temperature"},
        steps=3,
        feedback={"out": "t"},
        boundary={"latitude": "edge"},
        target="reference",
        output=tmp_path / "out.zarr",
        options=Options(steps_per_pass=2),
    )
    with xr.open_dataset(source) as before:
        wanted = before["air_temperature"].values
        assert result["air_temperature"].attrs == before["air_temperature"].attrs
        assert "latitude_longitude" in result
        xr.testing.assert_equal(result["time"], before["time"])
    quarter = np.float32(0.25)
    for _ in range(3):
        p = np.pad(wanted, ((0, 0), (1, 1), (0, 0)), mode="edge")
        inside = p[:, 1:-1, 2:] + p[:, 1:-1, :-2] + p[:, 2:, 1:-1] + p[:, :-2, 1:-1]
        wanted = wanted.copy()
        wanted[:, :, 1:-1] = quarter * inside
    np.testing.assert_array_equal(result["air_temperature"].values, wanted)
    assert result.sizes["time"] == 240


def test_levels_over_hills() -> None:
    source = SAMPLES / "hybrid_height.nc"
    result = run(
        LAPSE,
        source,
        fields={"theta": "air_potential_temperature", "height": "level_height"},
        target="reference",
        chunks={"grid_latitude": 33},
    )
    with xr.open_dataset(source) as before:
        theta = before["air_potential_temperature"].values
        height = before["level_height"].values[:, None, None]
        wanted = (theta[2:] - theta[:-2]) / (height[2:] - height[:-2])
    assert result["out"].dims == ("model_level_number", "grid_latitude", "grid_longitude")
    np.testing.assert_array_equal(result["out"].values[1:-1], wanted)
    assert np.isnan(result["out"].values[[0, -1]]).all()


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_land_stays_and_the_ocean_has_no_seam(target: str) -> None:
    with xr.open_dataset(SAMPLES / "NEMO/nemo_1m_20150101-20150201_grid-T.nc") as source:
        before = source[["tos"]].load()
    arguments: dict[str, Any] = {
        "fields": {"sst": "tos", "out": "tos"},
        "scalars": {"coeff": 0.2},
        "boundary": {"x": "periodic", "y": "edge"},
        "steps": 5,
        "feedback": {"out": "sst"},
        "target": target,
    }
    after = run(DIFFUSE, before, **arguments)
    blocks = run(DIFFUSE, before, chunks={"y": 100, "x": 77}, **arguments)
    assert after["tos"].values.tobytes() == blocks["tos"].values.tobytes()
    assert after["tos"].isnull().equals(before["tos"].isnull())
    assert 0.4 < float(after["tos"].isnull().mean()) < 0.5
    turned = run(DIFFUSE, before.roll(x=180), **arguments)
    np.testing.assert_array_equal(turned["tos"].values, np.roll(after["tos"].values, 180, 2))
    assert float(after["tos"].max()) <= float(before["tos"].max())
    assert float(abs(after["tos"] - before["tos"]).max()) > 0.1
