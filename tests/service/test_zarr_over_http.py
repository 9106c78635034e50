"""xarray opens results lazily by their URL, with nothing but the URL."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr
from tests.service.conftest import HELD, small_dataset

from halocline_service.auth.keys import create

if TYPE_CHECKING:
    from tests.service.conftest import Running

_xr: Any = xr


def test_xarray_opens_a_result_lazily(service: Running, live: str) -> None:
    job = service.submit()
    service.wait(job)
    with _xr.open_dataset(service.data / "sst.zarr", engine="zarr") as source:
        expected = (source["sst"] * 2.0).load()
    url = service.client.get(f"/jobs/{job}/results").json()["result"]["href"]
    chunk = service.app.state.metrics
    with _xr.open_zarr(url.replace("http://testserver", live)) as opened:
        assert set(opened.variables) == {"sst", "time", "x", "y"}
        before = _served(chunk)
        assert opened["sst"].shape == (2, 6, 8)
        assert _served(chunk) == before
        got = opened["sst"].load()
        assert _served(chunk) == before + 1
    assert np.array_equal(got.values, expected.values, equal_nan=True)
    assert np.isnan(got.values).any()


def _served(metrics: Any) -> float:
    route = "/jobs/{job_id}/results/{output}.zarr/{key:path}"
    return float(metrics._requests.labels("GET", route, "200")._value.get())


def test_a_key_goes_in_the_headers(service: Running, live: str) -> None:
    job = service.submit()
    service.wait(job)
    key = create(service.store.keys, "local").text
    context = service.app.state.context
    closed = service.settings.model_copy(update={"auth": "keys"})
    object.__setattr__(context, "settings", closed)
    options = {"headers": {"Authorization": f"Bearer {key}"}}
    url = f"{live}/jobs/{job}/results/result.zarr"
    with _xr.open_zarr(url, storage_options=options) as opened:
        assert float(opened["sst"].notnull().sum()) > 0


def test_a_result_that_is_not_there_is_an_error_and_not_empty(service: Running, live: str) -> None:
    job = service.submit(scalars=HELD)
    service.wait(job, "running")
    with pytest.raises(Exception, match="425"):  # which one is the client's affair
        _xr.open_zarr(f"{live}/jobs/{job}/results/result.zarr")
    service.client.delete(f"/jobs/{job}")


@pytest.mark.filterwarnings("ignore:Failed to open Zarr store with consolidated")
@pytest.mark.parametrize("consolidated", [False, None])
def test_a_store_opens_without_its_consolidated_metadata(
    service: Running, live: str, consolidated: bool | None
) -> None:
    job = service.submit()
    service.wait(job)
    (root,) = service.settings.data_dir.glob(f"jobs/{job}/*/result.zarr/zarr.json")
    group = json.loads(root.read_text())
    if consolidated is None:
        del group["consolidated_metadata"]
        root.write_text(json.dumps(group))
    url = f"{live}/jobs/{job}/results/result.zarr"
    with (
        _xr.open_zarr(url, consolidated=consolidated) as opened,
        _xr.open_dataset(service.data / "sst.zarr", engine="zarr") as source,
    ):
        assert set(opened.variables) == {"sst", "time", "x", "y"}
        found = opened.load()
        assert found.attrs["halocline_job"] == job
        assert (source * 2.0).assign_attrs(found.attrs).identical(found)


def test_groups_in_groups_are_found(service: Running, live: str) -> None:
    dataset: Any = small_dataset()
    opened = service.client.post("/uploads").json()
    url = opened["href"].replace("http://testserver", live)
    with pytest.warns(match="not part in the Zarr format 3 specification"):
        dataset.to_zarr(url, group="deep/<er>", zarr_format=3, consolidated=True)
    with _xr.open_zarr(url, group="deep/<er>", consolidated=False) as found:
        assert small_dataset().identical(found.load())
    answer = service.client.get(f"/uploads/{opened['id']}.zarr/")
    assert answer.headers["content-type"].startswith("text/html")
    assert '<a href="deep">' in answer.text
    assert (
        '<a href="%3Cer%3E">&lt;er&gt;</a>'
        in service.client.get(f"/uploads/{opened['id']}.zarr/deep").text
    )
    assert service.client.get(f"/uploads/{opened['id']}.zarr/deep/<er>/sst").status_code == 404
