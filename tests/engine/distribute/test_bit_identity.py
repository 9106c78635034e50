"""Blocks, fused steps, workers and stores do not change a bit, on each target."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import distributed
import pytest
import xarray as xr

from halocline_engine.distribute.tasks.events import Event, Planned
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.functions.run import run
from halocline_engine.functions.stencil import Stencil, stencil

DASK: Any = cast(Any, distributed)
STEPS = 7
BLOCKS = {1: {}, 4: {"time": 2, "y": 19, "x": 19}, 37: {"time": 2, "y": 1}}


@pytest.fixture(scope="module", params=["reference", "cpu"])
def program(request: pytest.FixtureRequest, diffusion: str) -> Stencil:
    return stencil(diffusion, target=request.param)


@pytest.fixture(scope="module")
def expected(program: Stencil, ocean: xr.Dataset) -> bytes:
    result = diffused(program, ocean, {}, 1)
    assert result["out"].isnull().equals(ocean["inp"].isnull())
    assert float(abs(result["out"] - ocean["inp"]).max()) > 0.5
    return result["out"].values.tobytes()


@pytest.fixture(scope="module")
def one_worker() -> Iterator[Any]:
    with (
        DASK.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        DASK.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def diffused(
    program: Stencil,
    data: xr.Dataset | Path,
    chunks: dict[str, int],
    per_pass: int,
    **options: Any,
) -> xr.Dataset:
    return run(
        program,
        data,
        scalars={"coeff": 0.05},
        boundary={"x": "periodic", "y": {"low": "edge", "high": "reflect"}},
        steps=STEPS,
        feedback={"out": "inp"},
        target=program.target,
        chunks=chunks,
        options=Options(steps_per_pass=per_pass),
        **options,
    )


@pytest.mark.parametrize("mode", ["streamed", "resident"])
@pytest.mark.parametrize("per_pass", [1, 3, 7])
@pytest.mark.parametrize("count", BLOCKS)
def test_in_this_process(
    program: Stencil, ocean: xr.Dataset, expected: bytes, count: int, per_pass: int, mode: str
) -> None:
    events: list[Event] = []
    result = diffused(program, ocean, BLOCKS[count], per_pass, mode=mode, on_event=events.append)
    assert isinstance(events[0], Planned)
    assert events[0].mode == mode
    # In memory, each month has blocks of its own.
    assert events[0].blocks == (count if mode == "streamed" else len(ocean.time) * count)
    assert result["out"].values.tobytes() == expected


@pytest.mark.parametrize(("count", "per_pass"), [(1, 7), (4, 3), (37, 7)])
@pytest.mark.parametrize("workers", ["one_worker", "two_workers"])
@pytest.mark.parametrize("mode", ["streamed", "resident"])
def test_on_workers(
    program: Stencil,
    ocean: xr.Dataset,
    expected: bytes,
    count: int,
    per_pass: int,
    workers: str,
    mode: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    client = request.getfixturevalue(workers)
    output = tmp_path / "result.zarr"
    result = diffused(
        program, ocean, BLOCKS[count], per_pass, mode=mode, cluster=client, output=output
    )
    assert result["out"].values.tobytes() == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["result.zarr"]


def test_from_a_zarr_store(
    program: Stencil, ocean: xr.Dataset, expected: bytes, two_workers: Any, tmp_path: Path
) -> None:
    source = tmp_path / "source.zarr"
    ocean.chunk({"time": 1, "y": 16, "x": 11}).to_zarr(source, zarr_format=3, consolidated=False)
    result = diffused(program, source, {"y": 9, "x": 38}, 3, cluster=two_workers)
    assert result["out"].values.tobytes() == expected


def test_from_a_netcdf_file(
    program: Stencil, ocean: xr.Dataset, expected: bytes, tmp_path: Path
) -> None:
    source = tmp_path / "source.nc"
    ocean.to_netcdf(source)
    result = diffused(program, source, {"y": 9, "x": 38}, 3)
    assert result["out"].values.tobytes() == expected


def test_from_dask_arrays(program: Stencil, ocean: xr.Dataset, expected: bytes) -> None:
    result = diffused(program, ocean.chunk({"y": 10, "x": 7}), {"y": 9, "x": 38}, 3)
    assert result["out"].values.tobytes() == expected
