"""A matrix product through the real service."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline.client import Client
from halocline.errors import FieldError

# A request to a Zarr store leaves its connection pool to the interpreter's end.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture
def client(service: str) -> Generator[Client]:
    with Client(service) as made:
        yield made


@pytest.fixture
def dataset() -> xr.Dataset:
    rng = np.random.default_rng(8)
    return xr.Dataset(
        {
            "pattern": (("mode", "cell"), rng.normal(size=(5, 12))),
            "amplitude": (("time", "mode"), rng.normal(size=(7, 5))),
            "unused": (("cell",), rng.normal(size=12)),
        },
        coords={"cell": np.arange(12)},
    )


def test_a_product(client: Client, dataset: xr.Dataset) -> None:
    names: Any = {"left": "amplitude", "right": "pattern", "dim": "mode", "name": "field"}
    job = client.matmul(dataset, **names, chunks={"time": 3}, target="cpu")
    got, wanted = job.result(progress=False), he.matmul(dataset, **names, target="cpu")
    assert set(got.data_vars) == {"field"}
    assert got["field"].dims == ("time", "cell")
    np.testing.assert_array_equal(got["field"].values, wanted["field"].values)
    np.testing.assert_array_equal(got["cell"].values, np.arange(12))
    assert "tiles of left pass" in str(job.plan()["reason"])


def test_the_accessor_and_a_refusal(client: Client, dataset: xr.Dataset) -> None:
    submit = cast("Any", dataset).halocline.matmul
    names = {"left": "amplitude", "right": "pattern", "dim": "time"}
    with pytest.raises(FieldError, match="'pattern' has no dimension 'time' to sum over"):
        submit(client=client, **names, target="reference")
