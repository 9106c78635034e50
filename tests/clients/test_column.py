"""Operators on staggered columns through the real service: what is sent, and what comes back."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Generator
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr
from hybrid_height import FIELDS, SAMPLE, TEXT, by_numpy, by_xgcm, missing

import halocline_engine as he
from halocline.client import Client
from halocline.errors import ProgramError, RequestError

# A request to a Zarr store leaves its connection pool to the interpreter's end.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture
def client(service: str) -> Generator[Client]:
    with Client(service) as made:
        yield made


def test_potential_temperature_on_hybrid_height(client: Client) -> None:
    """What the service makes of real data is what NumPy and xgcm make of it; holes stay holes."""
    options: dict[str, Any] = {
        "fields": FIELDS,
        "scalars": {"k": 2.5},
        "dtype": "float64",
        "target": "reference",
        "chunks": {"grid_latitude": 40, "grid_longitude": 100},
    }
    with xr.open_dataset(SAMPLE) as opened:
        dataset = opened.load()
    holed = dataset.copy(deep=True)
    holed["air_potential_temperature"][6, 40:60, 30] = np.nan
    jobs = [
        cast("Any", each).halocline.column(TEXT, client=client, **options)
        for each in (dataset, holed)
    ]
    assert jobs[0].plan()["blocks"] == 3
    assert "computed in 2 kernels: 'gradient', 'tendency'; " in jobs[0].plan()["reason"]
    result, with_holes = (job.result(progress=False) for job in jobs)
    for name, values in by_numpy(dataset, 2.5).items():
        np.testing.assert_allclose(result[name], values, rtol=1e-9, atol=1e-14)
    expected = by_xgcm(dataset, result, 2.5)
    inner = result["gradient"].isel(model_level_number_face=slice(1, -1))
    np.testing.assert_allclose(inner, expected["gradient"], rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(result["tendency"], expected["tendency"], rtol=1e-9, atol=1e-14)
    here = he.column(TEXT, dataset, **options)
    for name, there in missing().items():
        assert result[name].dims == here[name].dims
        assert np.array_equal(result[name].values, here[name].values)
        assert np.array_equal(np.isnan(with_holes[name].values), there)
        assert np.array_equal(with_holes[name].values[~there], result[name].values[~there])
    assert np.array_equal(result["level_height_face"].values, here["level_height_face"].values)


def test_arguments_of_every_kind_arrive(client: Client) -> None:
    faces, middles = np.arange(5.0), np.arange(5.0) + 0.5
    dataset = xr.Dataset(
        {"a": ("lev", middles**2), "h": ("ilev", faces)},
    )
    options: dict[str, Any] = {
        "axis": {"centre": "lev", "face": "ilev"},
        "boundary": {"lev": "periodic"},
        "name": "slope",
        "target": "reference",
    }
    dataset = dataset.assign_coords(m=("lev", middles))
    text = "GradientC2F()(a)"
    result = client.column(text, dataset, heights="h", **options).result(progress=False)
    here = he.column(text, dataset, heights="h", **options)
    assert np.array_equal(result["slope"].values, here["slope"].values)


def test_what_the_text_tells_is_refused_at_once(client: Client) -> None:
    with pytest.raises(ProgramError) as caught:
        client.column("GradientC2F(bottom=)(a)", "a.zarr")
    assert (caught.value.line, caught.value.column) == (1, 20)
    with pytest.raises(RequestError) as refused:
        client.column("a", "a.zarr", mode="resident")
    assert refused.value.message == (
        "Argument 'mode' must be 'auto' or 'streamed', got 'resident'."
    )


def test_what_the_dataset_tells_is_refused_at_once(client: Client) -> None:
    dataset = xr.Dataset({"a": ("z", np.arange(3.0))}, coords={"h": ("z_f", np.arange(4.0))})
    with pytest.raises(ProgramError, match="takes this argument on faces, but it is on centres"):
        client.column("GradientF2C()(a)", dataset, axis={"centre": "z", "face": "z_f"})
