"""Solves through the real service: what the client sends, and what comes back."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline.client import Client
from halocline.errors import FieldError, RequestError

# A request to a Zarr store leaves its connection pool to the interpreter's end.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture
def client(service: str) -> Generator[Client]:
    with Client(service) as made:
        yield made


def columns() -> xr.Dataset:
    rng = np.random.default_rng(3)
    dims, shape = ("z", "x"), (9, 5)
    data = {name: (dims, rng.normal(size=shape)) for name in "acd"}
    dominant = 1 + abs(data["a"][1]) + abs(data["c"][1])
    return xr.Dataset({**data, "b": (dims, dominant), "unused": ("x", np.arange(5.0))})


def test_tridiagonal_systems(client: Client) -> None:
    dataset = columns()
    names: Any = {"lower": "a", "diagonal": "b", "upper": "c", "rhs": "d", "dim": "z"}
    job = client.tridiagonal(
        dataset,
        **names,
        periodic=True,
        residual=True,
        name="u",
        target="reference",
        chunks={"x": 2},
    )
    result = job.result(progress=False)
    here = he.tridiagonal(
        dataset, **names, periodic=True, residual=True, name="u", target="reference"
    )
    assert set(result.data_vars) == {"u", "u_status", "u_residual"}
    for name in here.data_vars:
        assert np.array_equal(result[name].values, here[name].values)
    assert job.plan()["blocks"] == 3


def test_factors_of_one_job_serve_another(client: Client) -> None:
    dataset = columns()
    names: Any = {"lower": "a", "diagonal": "b", "upper": "c", "dim": "z"}
    dataset = dataset.assign(e=2 * dataset["d"])
    factors = client.factor(dataset, **names, target="reference")
    factors.wait()
    accessor = cast("Any", dataset).halocline
    job = accessor.solve(factors, client=client, rhs=["d", "e"], target="reference")
    result = job.result(progress=False)
    for name in "de":
        here = he.tridiagonal(dataset, **names, rhs=name, target="reference")
        assert np.array_equal(result[f"{name}_solution"], here["solution"])


def test_pentadiagonal_systems_with_pivoting(client: Client) -> None:
    dataset = columns()
    five: Any = {"second_lower": "c", "lower": "a", "diagonal": "a", "upper": "c"}
    five |= {"second_upper": "d", "rhs": "d", "dim": "z", "pivoting": True, "target": "reference"}
    result = client.pentadiagonal(dataset, **five).result(progress=False)
    here = he.pentadiagonal(dataset, **five)
    assert np.array_equal(result["solution"], here["solution"])
    assert not here["solution_status"].any()


def test_trees_by_the_accessor(client: Client) -> None:
    sizes = np.array([3, 0, 4])
    dataset = xr.Dataset(
        {
            "nodes_of": ("cell", sizes, {"sample_dimension": "node"}),
            "parent": ("node", np.array([1, 2, -1, -1, 0, 0, 2])),
            "d": ("node", np.full(7, 4.0)),
            "u": ("node", np.full(7, -1.0)),
            "r": ("node", np.arange(7.0)),
        }
    )
    names: Any = {"diagonal": "d", "upper": "u", "parent": "parent", "rhs": "r"}
    names["row_size"] = "nodes_of"
    job = cast("Any", dataset).halocline.tree(client=client, **names, target="reference")
    here = he.tree(dataset, **names, target="reference")
    result = job.result(progress=False)
    assert np.array_equal(result["solution"].values, here["solution"].values)
    assert np.array_equal(result["solution_status"].values, here["solution_status"].values)


def test_what_the_dataset_lacks_is_refused_and_not_sent(client: Client) -> None:
    names: Any = {"lower": "aa", "diagonal": "b", "upper": "c", "rhs": "d", "dim": "z"}
    for dataset in (columns(), client.upload(columns())):
        with pytest.raises(FieldError) as caught:
            client.tridiagonal(dataset, **names)
        assert str(caught.value) == (
            "Variable 'aa' (argument 'lower') is not in the dataset. Did you mean 'a'?"
        )


def test_what_the_inputs_tell_is_refused_at_once(client: Client) -> None:
    names: Any = {"lower": "a", "diagonal": "b", "upper": "c", "rhs": "d", "dim": "z"}
    with pytest.raises(RequestError) as caught:
        client.tridiagonal("a.zarr", **names, mode="resident")
    assert caught.value.message == ("Argument 'mode' must be 'auto' or 'streamed', got 'resident'.")
