"""The demo: its program against plain NumPy, and all of it once as a user runs it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray

from halocline.inputs.program import program_source
from halocline_engine.functions.run import run

DEMO = Path(__file__).parents[2] / "demo"
BOUNDARY = {"x": "periodic", "y": "edge"}
STRENGTH = 1 / 32

Values = NDArray[np.float64]


@pytest.fixture(scope="module")
def demo() -> Any:
    """Give the demo's modules, as `python demo/run.py` finds them."""
    sys.path.insert(0, str(DEMO))
    try:
        return {name: importlib.import_module(name) for name in ("data", "diffusion")}
    finally:
        sys.path.remove(str(DEMO))


@pytest.fixture(scope="module")
def program(demo: Any) -> str:
    return program_source(demo["diffusion"].limited_diffusion).text


@pytest.fixture(scope="module")
def sea(demo: Any) -> xr.Dataset:
    return cast("xr.Dataset", demo["data"].sea_surface())


def rough(seed: int) -> xr.Dataset:
    """Return a sea of white noise with scattered land."""
    random = np.random.default_rng(seed)
    values = random.normal(size=(2, 31, 37))
    values[random.random(values.shape) < 0.3] = np.nan
    return xr.Dataset({"tos": (("time", "y", "x"), values)})


def computed(program: str, dataset: xr.Dataset, steps: int, target: str = "cpu") -> Values:
    result = run(
        program,
        dataset,
        scalars={"strength": STRENGTH},
        boundary=BOUNDARY,
        steps=steps,
        feedback={"diffused": "tos"},
        target=target,
    )
    return result["diffused"].transpose("time", "y", "x").to_numpy()


def modelled(values: Values, steps: int) -> Values:
    """Diffuse in plain NumPy, with the sea's faces as masks and no arithmetic on NaN."""
    wet = ~np.isnan(values)
    u = np.where(wet, values, 0.0)
    open_x = wet & np.roll(wet, -1, -1)
    open_y = wet & np.roll(wet, -1, -2)
    open_y[..., -1, :] = False
    for _ in range(steps):
        east = np.where(open_x, np.roll(u, -1, -1) - u, 0.0)
        north = np.where(open_y, np.roll(u, -1, -2) - u, 0.0)
        laplacian = east - np.roll(east, 1, -1) + north - np.roll(north, 1, -2)
        flux_x = np.roll(laplacian, -1, -1) - laplacian
        flux_y = np.roll(laplacian, -1, -2) - laplacian
        flux_x[flux_x * east >= 0] = 0.0
        flux_y[flux_y * north >= 0] = 0.0
        u = u - STRENGTH * (flux_x - np.roll(flux_x, 1, -1) + flux_y - np.roll(flux_y, 1, -2))
    return np.where(wet, u, np.nan)


def no_seam(after: Values) -> None:
    """Check that x wraps smoothly: no third difference across it that others do not have too."""
    third = np.roll(after, -2, -1) - 3 * np.roll(after, -1, -1) + 3 * after - np.roll(after, 1, -1)
    roughness = np.nanmean(np.abs(third), axis=(0, 1))
    assert roughness[-1] < np.quantile(roughness[:-1], 0.9)


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_the_program_is_the_model_on_the_real_sea(
    program: str, sea: xr.Dataset, target: str
) -> None:
    before = sea["tos"].to_numpy()
    np.testing.assert_allclose(
        computed(program, sea, 5, target), modelled(before, 5), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_the_program_is_the_model_on_a_rough_sea(program: str, target: str) -> None:
    dataset = rough(3)
    expected = modelled(dataset["tos"].to_numpy(), 9)
    np.testing.assert_allclose(
        computed(program, dataset, 9, target), expected, rtol=1e-12, atol=1e-12
    )


def test_turning_the_sea_turns_the_result_bit_for_bit(program: str, sea: xr.Dataset) -> None:
    straight = computed(program, sea, 30)
    turned = computed(program, sea.roll(x=137, roll_coords=False), 30)
    np.testing.assert_array_equal(np.roll(straight, 137, -1), turned)


def test_the_sea_keeps_its_sum_and_its_coasts_and_has_no_seam(
    program: str, sea: xr.Dataset
) -> None:
    before = sea["tos"].to_numpy()
    after = computed(program, sea, 500)
    np.testing.assert_array_equal(np.isnan(after), np.isnan(before))
    kept, had = np.nansum(after, axis=(1, 2)), np.nansum(before, axis=(1, 2))
    np.testing.assert_allclose(kept, had, rtol=1e-10)
    assert np.nanmin(after) > np.nanmin(before)
    assert np.nanmax(after) < np.nanmax(before)
    assert np.nanstd(after - before) > 0.3
    no_seam(after)


def test_the_seam_would_be_seen(program: str, sea: xr.Dataset) -> None:
    walls = run(
        program,
        sea,
        scalars={"strength": STRENGTH},
        boundary={"x": "edge", "y": "edge"},
        steps=100,
        feedback={"diffused": "tos"},
        target="cpu",
    )
    after = walls["diffused"].transpose("time", "y", "x").to_numpy()
    with pytest.raises(AssertionError):
        no_seam(after)


def test_the_data_are_three_months_with_one_coast(sea: xr.Dataset) -> None:
    assert dict(sea.sizes) == {"time": 3, "y": 330, "x": 360}
    assert [f"{time:%Y-%m}" for time in sea["time"].to_numpy()] == ["2015-01", "2015-02", "2015-03"]
    tos = sea["tos"].to_numpy()
    land = np.isnan(tos)
    assert np.array_equal(land, np.broadcast_to(land[0], land.shape))
    assert land.mean() == pytest.approx(0.4513, abs=1e-4)
    columns = {column.tobytes() for column in np.moveaxis(np.nan_to_num(tos[0]), 1, 0)}
    assert len(columns) == 360, "the grid has no overlapping columns"


def test_the_demo_runs_as_a_user_runs_it(sea: xr.Dataset, tmp_path: Path) -> None:
    command = [sys.executable, str(DEMO / "run.py"), "--steps", "40", "--output", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Land is unchanged.\n" in done.stdout
    assert "\nSeconds: start " in done.stdout
    assert "\nResult:  out/result.zarr\nPicture: out/demo.png\n" in done.stdout
    assert "100%" in done.stderr
    with cast("Any", xr).open_zarr(tmp_path / "out/result.zarr", chunks=None) as result:
        after = result["diffused"].transpose("time", "y", "x").to_numpy()
        assert "limited_diffusion" in result.attrs["history"]
    before = sea["tos"].to_numpy()
    np.testing.assert_allclose(after, modelled(before, 40), rtol=1e-12, atol=1e-12)
    picture = (tmp_path / "out/demo.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 50_000
