"""Sequences of stages through the real service, from this process, and from job files."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr

import halocline
import halocline_engine as he
from halocline.client import Client
from halocline.command.cli import main
from halocline.errors import ArgumentError, FieldError, ProgramError, RequestError
from halocline.gtscript import PARALLEL, Field, computation, interval

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

BANDS: dict[str, Any] = {"lower": "a", "diagonal": "b", "upper": "c", "dim": "z"}


def decay(t: Field[np.float64], left: Field[np.float64], rate: float):  # noqa: ANN201 - a stencil
    with computation(PARALLEL), interval(...):
        left = rate * t  # noqa: F841  # pyright: ignore[reportUnusedVariable] - a field


TEXT = """
def decay(t: Field[float], left: Field[float], rate: float):
    with computation(PARALLEL), interval(...):
        left = rate * t
"""


@pytest.fixture
def client(service: str) -> Generator[Client]:
    with Client(service) as made:
        yield made


def columns() -> xr.Dataset:
    t = np.random.default_rng(3).normal(size=(7, 4, 5))
    bands = {"a": -0.5, "b": 2.5, "c": -0.5}
    return xr.Dataset(
        {"t": (("z", "y", "x"), t), **{name: ("z", np.full(7, v)) for name, v in bands.items()}}
    )


def stages(program: Any = TEXT) -> list[dict[str, dict[str, Any]]]:
    return [
        {"stencil": {"program": program, "scalars": {"rate": np.float64(0.9)}}},
        {"tridiagonal": {**BANDS, "rhs": "left", "name": "t"}},
    ]


def test_a_job_of_several_stages(client: Client) -> None:
    dataset = columns()
    here = he.sequence(stages(), dataset, steps=3, target="reference")
    job = client.sequence(stages(decay), dataset, steps=3, target="reference", chunks={"x": 2})
    result = job.result(progress=False)
    assert set(result.data_vars) == {"left", "t", "t_status"}
    for name in here.data_vars:
        assert np.array_equal(result[name].values, here[name].values)
    assert job.plan()["steps"] == 3
    assert job.plan()["mode"] == "resident"
    streamed = client.sequence(stages(decay), dataset, steps=3, target="reference", mode="streamed")
    assert streamed.result(progress=False).identical(result.assign_attrs(streamed.result().attrs))
    assert streamed.plan()["passes"] == 6
    repeated = [{"repeat": 3, "stages": stages(decay)}]
    several = client.sequence(repeated, dataset, target="reference").result(progress=False)
    assert several["t"].equals(result["t"])
    local = halocline.run_local("sequence", dataset=dataset, stages=repeated, target="reference")
    assert local["t"].equals(result["t"])
    assert result.attrs["halocline_process"] == "sequence"
    assert json.loads(result.attrs["halocline_inputs"])["steps"] == 3
    kinds = {event.kind for event in job.events()}
    assert {"planned", "finished"} <= kinds
    fewer = job.clone(steps=1, stages=stages(decay)[:1])
    assert set(fewer.result(progress=False).data_vars) == {"left"}


def test_a_dataset_plans_and_computes_the_same(client: Client) -> None:
    dataset = columns()
    assert dataset.halocline.sequence(stages(), client=client, dry_run=True).plan().blocks >= 1
    local = halocline.run_local(
        "sequence", stages=stages(decay), dataset=dataset, steps=3, target="reference"
    )
    here = he.sequence(stages(), dataset, steps=3, target="reference")
    assert np.array_equal(local["t"], here["t"])


def test_datasets_of_stages_are_sent(client: Client, tmp_path: Path) -> None:
    dataset = columns()
    factors = he.factor(dataset, **BANDS, target="reference")
    solving = [{"solve": {"factors": factors, "rhs": "t", "name": "t"}}]
    here = he.sequence(solving, dataset, steps=2, target="reference")
    result = client.sequence(solving, dataset, steps=2, target="reference").result(progress=False)
    assert np.array_equal(result["t"].values, here["t"].values)
    made = client.factor(dataset, **BANDS, target="reference")
    made.wait()
    again = client.submit(
        "sequence",
        {
            "dataset": dataset,
            "steps": 2,
            "target": "reference",
            "stages": [{"solve": {"factors": made, "rhs": "t", "name": "t"}}],
        },
    )
    assert np.array_equal(again.result(progress=False)["t"].values, here["t"].values)
    assert again.inputs["stages"][0]["solve"]["factors"] == f"job:{made.id}"
    local = halocline.run_local("sequence", stages=solving, dataset=dataset, target="reference")
    assert json.loads(local.attrs["halocline_inputs"])["stages"][0]["solve"]["factors"] is None


def test_a_job_file_has_stages(service: str, tmp_path: Path) -> None:
    (tmp_path / "decay.py").write_text(TEXT)
    cast("Any", columns()).to_netcdf(tmp_path / "columns.nc")
    bands = "".join(f"{name} = '{value}'\n" for name, value in BANDS.items())
    (tmp_path / "job.toml").write_text(
        "process = 'sequence'\n"
        "[inputs]\ndataset = 'columns.nc'\nsteps = 3\ntarget = 'reference'\n"
        "[[inputs.stages]]\n[inputs.stages.stencil]\nprogram = 'decay.py'\nscalars = {rate = 0.9}\n"
        f"[[inputs.stages]]\n[inputs.stages.tridiagonal]\n{bands}rhs = 'left'\nname = 't'\n"
    )
    place = tmp_path / "result.zarr"
    command = ["run", str(tmp_path / "job.toml"), "--output", str(place), "--quiet"]
    with pytest.raises(SystemExit) as ended:
        main([*command, "--url", service])
    assert ended.value.code == 0
    here = he.sequence(stages(), columns(), steps=3, target="reference")
    with cast("Any", xr).open_zarr(place) as result:
        assert np.array_equal(result["t"].values, here["t"].values)


WRONG: list[tuple[Any, type[Exception], str, str]] = [
    (
        {"stencil": {}},
        ArgumentError,
        "Argument 'stages' must be a list of stages, got 'dict' {'stencil': {}}.",
        "Write for example stages=[{'stencil': {'program': program}}, {'tridiagonal': {'rhs': 'b',"
        " ...}}].",
    ),
    (
        [3],
        ArgumentError,
        "Argument 'stages[0]' must be a mapping, got 'int' 3.",
        "Write for example stages=[{'stencil': {'program': program}}, {'tridiagonal': {'rhs': 'b',"
        " ...}}].",
    ),
    (
        [{}],
        ArgumentError,
        "Argument 'stages[0]' must be one kind with its arguments, got 'dict' {}.",
        "Write for example stages=[{'stencil': {'program': program}}, {'tridiagonal': {'rhs': 'b',"
        " ...}}].",
    ),
    (
        [{"tridiagonal": {**BANDS, "rhs": "t", "periodic": 1}}],
        ArgumentError,
        "Argument 'periodic' must be True or False, got 'int' 1.",
        "Write for example periodic=True.",
    ),
    (
        [{"tridiagonl": BANDS}],
        RequestError,
        "Argument 'stages.0.tridiagonl' is unknown.",
        "Did you mean 'tridiagonal'?",
    ),
    (
        [{"stencil": {"program": TEXT, "steps": 3}}],
        RequestError,
        "Argument 'stages.0.stencil.steps' is unknown.",
        "There are program, fields, scalars, externals, dtypes, literal_precision, arithmetic,"
        " stencil_name, axes, grid, positions, boundary, feedback, chunks.",
    ),
    (
        [{"stencil": {"program": TEXT}}],
        ArgumentError,
        "Stage 1, 'stencil': Scalar 'rate' needs a value, got none.",
        "Give it: scalars={'rate': ...}.",
    ),
    (
        [{"stencil": {"program": TEXT.replace("rate * t", "rat * t")}}],
        ProgramError,
        "Stage 1, 'stencil': The name 'rat' is unknown.",
        "Did you mean 'rate'?",
    ),
]


@pytest.mark.parametrize(("given", "kind", "message", "hint"), WRONG)
def test_what_is_refused(
    client: Client, given: Any, kind: type[Exception], message: str, hint: str
) -> None:
    with pytest.raises(kind) as caught:
        client.sequence(given, columns())
    error: Any = caught.value
    assert (error.message, error.hint) == (message, hint)


def test_what_the_data_refuse_is_said_of_the_stage(client: Client) -> None:
    wrong = [stages()[0], {"tridiagonal": {**BANDS, "rhs": "lef"}}]
    for dataset in (columns(), client.upload(columns())):
        with pytest.raises(FieldError) as caught:
            client.sequence(wrong, dataset, target="reference")
        assert caught.value.message == (
            "Stage 2, 'tridiagonal': Variable 'lef' (argument 'rhs') is not in the dataset."
        )
        assert caught.value.hint.startswith("Did you mean 'left'")


def test_it_can_be_cancelled(client: Client) -> None:
    job = client.sequence(stages(), columns(), steps=1_000_000, target="reference")
    while job.status == "accepted":
        pass
    assert job.cancel() == "dismissed"
