"""Reductions through the real service."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr

import halocline as hc
import halocline_engine as he
from halocline.client import Client
from halocline.errors import ArgumentError, NameRuleError

# A request to a Zarr store leaves its connection pool to the interpreter's end.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

DIAGNOSTICS: Any = {
    "heat": {"sum": "rho * t", "weights": "area"},
    "zonal": {"mean": "t", "dims": ["lon"], "skipna": False},
    "hottest": {"max": "t"},
    "pdf": {"histogram": "t", "bins": np.array([-4.0, 0.0, 4.0])},
}


@pytest.fixture
def client(service: str) -> Generator[Client]:
    with Client(service) as made:
        yield made


@pytest.fixture
def dataset() -> xr.Dataset:
    rng = np.random.default_rng(8)
    return xr.Dataset(
        {
            "t": (("lat", "lon"), rng.normal(size=(5, 12))),
            "rho": (("lat",), rng.normal(size=5)),
            "area": (("lat",), rng.uniform(size=5)),
            "unused": (("cell",), rng.normal(size=12)),
        },
        coords={"lon": np.arange(12) * 30.0},
    )


def test_all_ways_give_the_same(client: Client, dataset: xr.Dataset) -> None:
    wanted = he.reduce(dataset, DIAGNOSTICS)
    job = client.reduce(dataset, DIAGNOSTICS, chunks={"lat": 2})
    submit = cast("Any", dataset).halocline.reduce
    ways = [
        job.result(progress=False),
        submit(DIAGNOSTICS, client=client, target="reference").result(progress=False),
        hc.run_local("reduce", dataset=dataset, diagnostics=DIAGNOSTICS),
    ]
    for got in ways:
        assert set(got.data_vars) == set(wanted.data_vars)
        for name, one in wanted.data_vars.items():
            np.testing.assert_array_equal(got[name].values, one.values)
    assert "unused" not in str(job.plan())


def test_what_is_wrong_is_said_before_a_job_is_made(client: Client, dataset: xr.Dataset) -> None:
    with pytest.raises(NameRuleError, match="The dataset has no variable 'tt'"):
        client.reduce(dataset, {"a": {"sum": "2.0 * tt"}})
    with pytest.raises(ArgumentError, match="must be a mapping, got"):
        client.reduce(dataset, cast("Any", ["t"]))
    with pytest.raises(ArgumentError, match="a list of numbers"):
        client.reduce(dataset, {"a": {"histogram": "t", "bins": "0, 1"}})
    with pytest.raises(ArgumentError, match="must be 'auto', 'cpu' or 'reference'"):
        client.reduce(dataset, {"a": {"sum": "t"}}, target="cuda")
    with pytest.raises(ArgumentError, match="diagnostics"):
        client.reduce(dataset, {"a": {"sum": "t" * 2001}})


PROGRAM = """
def smooth(t: Field[float], s: Field[float]):
    with computation(PARALLEL), interval(...):
        s = 0.5 * (t[-1, 0, 0] + t[1, 0, 0])
"""


def test_a_stencil_has_diagnostics(client: Client, dataset: xr.Dataset) -> None:
    given: Any = {
        "boundary": {"lon": "periodic"},
        "axes": {"I": "lon", "J": "lat"},
        "steps": 4,
        "feedback": {"s": "t"},
        "diagnostics": {"heat": {"sum": "rho * t", "weights": "area", "every": 2}},
    }
    wanted = he.run(PROGRAM, dataset, **given)
    job = client.stencil(PROGRAM, dataset, **given)
    local = hc.run_local("stencil", program=PROGRAM, dataset=dataset, **given)
    for got in (job.result(progress=False), local):
        np.testing.assert_array_equal(got["heat"].values, wanted["heat"].values)
        assert got["step"].values.tolist() == [2, 4]
    wrong: Any = {**given, "diagnostics": {"heat": {"sum": "rhoo * t"}}}
    with pytest.raises(NameRuleError, match="The dataset has no variable 'rhoo'"):
        client.stencil(PROGRAM, dataset, **wrong)
