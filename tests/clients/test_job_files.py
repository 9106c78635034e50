"""Job files and the commands that take them, against a service."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import typer.main
import xarray as xr

from halocline import ArgumentError, Client, Job
from halocline.command.base import app
from halocline.command.cli import main
from halocline.command.jobfile import read_job_file
from halocline_engine.interface.absent import Door, way_out
from halocline_service.document import job_file_schema

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

SCALE = """
def scale(t: Field[np.float64], s: Field[np.float64], gain: float):
    with computation(PARALLEL), interval(...):
        s = gain * t[1, 0, 0]
"""
TOML = """
job_name = "scaled"
labels = ["sst", "test"]
output = "out.zarr"

[inputs]
program = "scale.py"
dataset = "sea.nc"
target = "reference"
boundary = {x = "periodic"}

[inputs.scalars]
gain = 2.0
"""
YAML = """
process: stencil
name: scaled
labels: [sst, test]
output: out.zarr
inputs:
  program: scale.py
  dataset: sea.nc
  target: reference
  boundary: {x: periodic}
  scalars: {gain: 2.0}
"""
SCHEMA = Path(__file__).parents[2] / "docs" / "job-file.schema.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "scale.py").write_text(SCALE)
    values = np.random.default_rng(1).normal(size=(3, 4))
    cast("Any", xr.Dataset({"t": (("y", "x"), values)})).to_netcdf(tmp_path / "sea.nc")
    (tmp_path / "job.toml").write_text(TOML)
    (tmp_path / "job.yaml").write_text(YAML)
    document = {"process": "stencil", "inputs": {"program": SCALE, "dataset": "sea.nc"}}
    (tmp_path / "job.json").write_text(json.dumps(document))
    return tmp_path


@pytest.fixture
def client(service: str) -> Generator[Client]:
    with Client(service) as made:
        yield made


def command(url: str, capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main([*words, "--url", url])
    out, err = capsys.readouterr()
    assert end.value.code == status, err
    return out if status == 0 else err


def expected(folder: Path) -> Any:
    with cast("Any", xr).open_dataset(folder / "sea.nc") as sea:
        return 2.0 * np.roll(sea["t"].to_numpy(), -1, axis=1)


@pytest.mark.parametrize("kind", ["toml", "yaml"])
def test_a_job_file_is_run(
    folder: Path, client: Client, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    out = command(client.url, capsys, "run", str(folder / f"job.{kind}"), "--quiet")
    assert out.strip() == str(folder / "out.zarr")
    with cast("Any", xr).open_zarr(folder / "out.zarr", chunks=None) as result:
        np.testing.assert_array_equal(result["s"].transpose("y", "x").to_numpy(), expected(folder))
    job = client.jobs()[0]
    assert (job.name, job.labels) == ("scaled", ["sst", "test"])


def test_a_job_file_of_old_names_is_read_by_the_new_ones(tmp_path: Path) -> None:
    old = "process = 'stencil'\nname = 'a'\n[inputs]\nname = 'f'\nevery = 2\nuntil = {every = 3}"
    (tmp_path / "old.toml").write_text(old)
    read = read_job_file(tmp_path / "old.toml")
    assert read.job_name == "a"
    assert read.inputs == {"stencil_name": "f", "snapshot_every": 2, "until": {"check_every": 3}}


def test_options_change_what_the_file_says(
    folder: Path, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--scalar", "gain=3", "--order", "row", "--job-name", "other", "--label", "a")
    out = command(client.url, capsys, "submit", str(folder / "job.toml"), *words)
    job = client.job(out.strip())
    assert (job.inputs["scalars"], job.inputs["order"]) == ({"gain": 3}, "row")
    assert job.inputs["boundary"] == {"x": "periodic"}
    assert (job.name, job.labels) == ("other", ["a"])
    again = command(client.url, capsys, "clone", job.id, "--scalar", "gain=4").strip()
    clone = client.job(again)
    assert (clone.inputs["scalars"], clone.name) == ({"gain": 4}, "other")
    assert json.loads(command(client.url, capsys, "show", again, "--inputs")) == {
        "process": "stencil",
        "inputs": clone.inputs,
    }


def test_a_plan_and_an_upload(
    folder: Path, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    before = [job.id for job in client.jobs(process="plan")]
    out = command(client.url, capsys, "plan", str(folder / "job.toml"))
    assert "halo     x 0+1" in out.splitlines()
    words = ("plan", str(folder / "scale.py"), str(folder / "sea.nc"), "--scalar", "gain=1")
    told = json.loads(command(client.url, capsys, *words, "--target", "reference", "--json"))
    assert (told["halo"], told["result_bytes"]) == ({"x": [0, 1]}, 96)
    assert [job.id for job in client.jobs(process="plan")] == before
    reference = command(client.url, capsys, "upload", str(folder / "sea.nc")).strip()
    assert reference in [each["reference"] for each in client.uploads.list()]
    client.uploads.remove(reference)


def test_waiting_downloading_and_following(
    folder: Path, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    job = command(client.url, capsys, "submit", str(folder / "job.yaml")).strip()
    assert "successful" in command(client.url, capsys, "wait", job, "--quiet")
    out = folder / "fetched.zarr"
    assert command(client.url, capsys, "download", job, str(out), "--quiet").strip() == str(out)
    told = command(client.url, capsys, "download", job, str(out), status=3)
    assert f"The output '{out}' exists already." in told
    lines = command(client.url, capsys, "logs", job, "--follow").splitlines()
    assert any("planned target=reference" in line or "planned" in line for line in lines)
    assert all(re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z +\d+ % [a-z-]+", line) for line in lines)
    assert all(
        json.loads(line)
        for line in command(client.url, capsys, "logs", job, "--follow", "--json").splitlines()
    )
    found = command(
        client.url, capsys, "ls", "--label", "sst", "--job-name", "scale", "--status", "successful"
    )
    assert job in found
    assert "There are no jobs." in command(client.url, capsys, "ls", "--label", "nothing")
    assert "There are no jobs." in command(client.url, capsys, "ls", "--since", "2100-01-01")


def test_an_interrupt_prints_the_command_to_resume_with(
    folder: Path,
    client: Client,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(self: Job, *_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Job, "download", interrupted)
    told = command(client.url, capsys, "run", str(folder / "job.toml"), "--quiet", status=130)
    job = client.jobs()[0].id
    resume = f"halocline download {job} {folder / 'out.zarr'} --url {client.url}"
    assert told.strip() == f"The job continues. Resume with: {resume}"


def test_the_version_and_completion(capsys: pytest.CaptureFixture[str]) -> None:
    for words, told in ((["--version"], "halocline "), (["--help"], "--install-completion")):
        with pytest.raises(SystemExit) as end:
            main(words)
        assert end.value.code == 0
        assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.toml", "a = ", "is not TOML"),
        ("a.yaml", "a: [", "is not YAML"),
        ("a.json", "{", "is not JSON"),
        ("a.json", "5", "must have members, got 'int'"),
        ("a.toml", "steps = 3", "has the unknown member 'steps'"),
        ("a.toml", "inputs = 3", "Member 'inputs' of the job file"),
        ("a.toml", "labels = 'a'", "must be a list, got 'str'"),
        ("a.toml", "job_name = 3", "must be text, got 'int'"),
    ],
)
def test_what_is_no_job_file_is_told(tmp_path: Path, name: str, text: str, told: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ArgumentError) as error:
        read_job_file(tmp_path / name)
    assert told in error.value.message
    assert error.value.hint
    with pytest.raises(ArgumentError, match="cannot be read: No such file"):
        read_job_file(tmp_path / "nothing.toml")


def test_the_published_schema_is_that_of_the_service() -> None:
    assert SCHEMA.read_text() == job_file_schema(), (
        "Run: halocline-server job-schema > docs/job-file.schema.json"
    )


def test_the_schema_accepts_job_files_and_refuses_others(folder: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(job_file_schema())
    good: dict[str, Any] = {"process": "stencil", "inputs": {"program": "a.py", "dataset": "b"}}
    jsonschema.validate(good, schema)
    jsonschema.validate({"inputs": good["inputs"]}, schema)
    for bad in (
        {**good, "process": "stencils"},
        {**good, "steps": 3},
        {**good, "inputs": {**good["inputs"], "steps": 0}},
        {**good, "process": "gather"},
        {"process": "stencil"},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(bad, schema)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("--every", "2"),
            "There is no option '--every'. hint: It was renamed to '--snapshot-every'.",
        ),
        (("--name=f",), "It was renamed to '--stencil-name'; that of a job is '--job-name'."),
        (("--cluster", "2"), "Leave it out: the service computes on its own workers."),
        (("--memory-limit", "5"), "the operator of the service sets the limits of a job."),
        (("--until", "x"), "Write it into a job file, below 'inputs'"),
    ],
)
def test_options_of_other_interfaces_are_answered(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["run", "a.py", "b.nc", *words])
    assert end.value.code == 2
    assert told in " ".join(capsys.readouterr().err.split())


def test_no_command_has_an_option_that_is_refused() -> None:
    commands: Any = typer.main.get_command(app)
    for command in (*commands.commands.values(), *commands.commands["uploads"].commands.values()):
        for option in getattr(command, "params", ()):
            assert not way_out(Door.COMMAND, option.name), option.name
