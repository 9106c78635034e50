"""The client and the command against the real service."""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false
# pyright: reportInvalidTypeForm=false, reportUnusedVariable=false

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import typer
import xarray as xr

from halocline.client import Client
from halocline.command.cli import main
from halocline.command.options import precision
from halocline.connection import Connection
from halocline.errors import (
    AuthenticationError,
    CancelledError,
    DatasetError,
    FieldError,
    JobFailed,
    NameRuleError,
    NotFoundError,
    OutputError,
)
from halocline.gtscript import PARALLEL, Field, computation, interval
from halocline.transfer.uploads import needed

# A request to a Zarr store leaves its connection pool to the interpreter's end.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

GAIN = np.float32(0.5)


def halve(sst: Field[np.float64], half: Field[np.float64]) -> None:
    with computation(PARALLEL), interval(...):
        half = sst * GAIN  # noqa: F841


def wrong(sst: Field[np.float64], half: Field[np.float64]) -> None:
    with computation(PARALLEL), interval(...):
        half = sst * unknown_thing  # noqa: F821, F841 # pyright: ignore[reportUndefinedVariable, reportUnknownVariableType]


SLOW = """
def slow(sst: Field[np.float64], out: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        out = sst[1, 0, 0]
"""

HALVE = """import numpy as np
from gt4py.cartesian.gtscript import Field, PARALLEL, computation, interval

def halve(sst: Field[np.float64], half: Field[np.float64], *, gain: float):
    with computation(PARALLEL), interval(...):
        half = sst * gain
"""


@pytest.fixture
def client(service: str) -> Any:
    with Client(service) as made:
        yield made


@pytest.fixture
def sea() -> xr.Dataset:
    values = np.random.default_rng(7).normal(size=(2, 5, 6))
    values[:, 2, 3] = np.nan
    return xr.Dataset(
        {"sst": (("time", "y", "x"), values, {"units": "K"}), "other": ("x", np.arange(6.0))},
        coords={"time": np.array(["2026-01-01", "2026-02-01"], "M8[ns]"), "y": np.arange(5)},
        attrs={"title": "A sea"},
    )


def test_a_function_on_a_dataset_gives_a_lazy_dataset(client: Client, sea: xr.Dataset) -> None:
    job = client.stencil(halve, sea, target="reference")
    result = job.result(progress=False)
    assert job.status == "successful"
    assert job.progress == 1.0
    assert not cast("Any", result["half"].variable)._in_memory
    half = result["half"].transpose("time", "y", "x")
    np.testing.assert_array_equal(half.to_numpy(), sea["sst"].to_numpy() * 0.5)
    xr.testing.assert_identical(half["time"].drop_attrs(), sea["time"].drop_attrs())
    assert result.attrs["title"] == "A sea"
    assert job.plan()["target"] == "reference"
    kinds = [event.kind for event in job.events()]
    assert kinds.index("planned") < kinds.index("block-finished") < kinds.index("finished")
    assert "planned" in job.log()


def test_only_what_the_program_needs_is_uploaded(
    client: Client, sea: xr.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    send = Connection.send

    def spied(connection: Connection, method: str, path: str, **given: Any) -> Any:
        sent.append(f"{method} {path}")
        return send(connection, method, path, **given)

    monkeypatch.setattr(Connection, "send", spied)
    other = sea.assign_attrs(title="A sea that was not sent before")
    assert client.stencil(halve, other, target="reference").wait() == "successful"
    names = {path.partition(".zarr/")[2].partition("/")[0] for path in sent if path[:3] == "PUT"}
    assert names == {"zarr.json", "sst", "time", "y"}


def test_what_is_needed() -> None:
    dataset = xr.Dataset(
        {"a": ("x", [1.0]), "b": ("x", ["t"]), "c": ("x", np.array([{}], object))},
        coords={"odd": ("x", np.array([[1]], object)[0])},
    )
    assert set(needed(dataset, ["a", "nothing"]).variables) == {"a", "odd"}
    assert set(needed(dataset, ["a", "b"]).variables) == {"a", "b", "odd"}
    with pytest.raises(FieldError) as lacking:
        needed(dataset, ["a", "bb"], complete=True)
    assert str(lacking.value) == "The dataset has no variable 'bb'. Did you mean 'b'?"


def test_what_no_store_can_hold_is_refused_before_it_is_sent(client: Client) -> None:
    before = client.uploads.list()
    with pytest.raises(DatasetError) as caught:
        client.upload(xr.Dataset({"c": ("x", np.array([{}], object))}))
    assert str(caught.value) == (
        "The variable 'c' has values of type 'dict', which no store can hold. Convert them to"
        " numbers or texts, or drop it, before the run."
    )
    assert client.uploads.list() == before


def test_a_result_can_be_the_next_jobs_dataset(client: Client, sea: xr.Dataset) -> None:
    first = client.stencil(halve, sea, target="reference")
    first.result_url()
    names = {"sst": "half", "half": "quarter"}
    second = client.stencil(halve, first, fields=names, target="reference")
    result = second.result(progress=False)["quarter"].transpose("time", "y", "x")
    np.testing.assert_array_equal(result.to_numpy(), sea["sst"].to_numpy() * 0.25)


def test_an_upload_serves_several_jobs(client: Client, sea: xr.Dataset) -> None:
    reference = client.upload(sea)
    assert reference.startswith("upload:")
    for _ in range(2):
        assert client.stencil(halve, reference, target="reference").wait() == "successful"


@pytest.mark.parametrize("kind", ["nc", "zarr"])
def test_a_local_path_is_opened_and_uploaded(
    client: Client, sea: xr.Dataset, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / f"sea.{kind}"
    if kind == "nc":
        cast("Any", sea).to_netcdf(path, engine="h5netcdf")
    else:
        cast("Any", sea).to_zarr(path, zarr_format=2)
    result = client.stencil(halve, path, target="reference").result(progress=False)
    half = result["half"].transpose("time", "y", "x")
    np.testing.assert_array_equal(half.to_numpy(), sea["sst"].to_numpy() * 0.5)


def test_a_file_that_is_no_dataset_is_refused(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "notes.nc"
    path.write_text("hello")
    with pytest.raises(
        DatasetError, match=rf"^The dataset '{path}' cannot be opened here: "
    ) as told:
        client.stencil(halve, path)
    assert "\n" not in told.value.message
    assert "'ncdump -h' says more" in told.value.hint
    with pytest.raises(DatasetError, match=rf"^The folder '{tmp_path}' is not a Zarr store: "):
        client.stencil(halve, tmp_path)


def test_the_accessor_does_the_same(client: Client, sea: xr.Dataset) -> None:
    job = cast("Any", sea).halocline.stencil(halve, client=client, target="reference")
    assert job.wait() == "successful"


def test_a_wrong_program_is_refused_at_once_and_shown_in_its_file(
    client: Client, sea: xr.Dataset
) -> None:
    with pytest.raises(NameRuleError) as caught:
        client.stencil(wrong, sea)
    error = caught.value
    line = next(
        n for n, t in enumerate(Path(__file__).read_text().splitlines(), 1) if "unknown_thing" in t
    )
    assert (error.file, error.file_line) == (__file__, line)
    assert "unknown_thing" in error.message
    assert error.excerpt.splitlines()[1].strip() == "^"
    assert error.hint


MODEL = """
from model.dsl import FloatField, Surface, function, limiters
import model.constants as constants


def scaled(sst: FloatField, half: FloatField):
    from __externals__ import edge

    with computation(PARALLEL), interval(...):
        halff = sst
        half = sst * 0.1 + constants.OFFSET
        with horizontal(region[edge, :]):
            half = 0.0
"""


def test_a_modules_types_constants_and_precision_are_given(client: Client, sea: xr.Dataset) -> None:
    job = client.stencil(
        MODEL,
        sea,
        dtypes={"FloatField": "Field[np.float64]"},
        externals={"edge": {"axis": "I", "index": -1}, "constants": {"OFFSET": 2.0}},
        literal_precision={"float": 32},
        target="reference",
    )
    half = job.result(progress=False)["half"].transpose("time", "y", "x").to_numpy()
    expected = sea["sst"].to_numpy() * float(np.float32(0.1)) + 2.0
    expected[..., -1] = 0.0
    np.testing.assert_array_equal(half, expected)
    warned = next(event for event in job.events() if event.kind == "warned")
    assert warned.data["hint"] == "Did you mean the field 'half'?"


def test_a_job_may_round_once(client: Client, sea: xr.Dataset) -> None:
    text = """
def once(sst: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = sst * 0.1 + sst
"""
    found = {
        how: client.stencil(text, sea, arithmetic=how, target="reference").result(progress=False)
        for how in ("separate", "fused")
    }
    fused, separate = (found[how]["out"].to_numpy() for how in ("fused", "separate"))
    np.testing.assert_allclose(fused, separate, rtol=1e-15)
    assert (fused != separate).any()


def test_all_errors_of_a_program_arrive(client: Client, sea: xr.Dataset) -> None:
    text = MODEL.replace("halff = sst", "half = unknown").replace("half = 0.0", "half = sst[1, 0]")
    with pytest.raises(NameRuleError) as caught:
        client.stencil(
            text,
            sea,
            dtypes={"FloatField": "Field[np.float64]"},
            externals={"edge": {"axis": "I", "index": -1}, "constants": {"OFFSET": 2.0}},
        )
    assert [other.line for other in caught.value.others] == [13]
    assert "'sst' has the axes I, J, K and needs 3 offsets, but got 2." in str(caught.value)
    assert caught.value.others[0].excerpt


def test_a_request_that_does_not_fit_the_data_is_refused(client: Client, sea: xr.Dataset) -> None:
    count = len(client.jobs())
    for dataset in (sea, client.upload(sea)):
        with pytest.raises(FieldError, match="sss"):
            client.stencil(halve, dataset, fields={"sst": "sss"}, target="reference")
    assert len(client.jobs()) == count


def test_a_request_whose_values_do_not_fit_fails_the_job(client: Client) -> None:
    dataset = xr.Dataset({"t": ("x", [1.0, 2.0]), "at": ("n", [0, 7])})
    job = client.gather(dataset, source="t", index="at", dim="x", target="reference")
    with pytest.raises(JobFailed) as caught:
        job.result(progress=False)
    assert "7" in caught.value.error.message
    assert job.status == "failed"


def test_a_dataset_that_is_not_there_is_refused(client: Client) -> None:
    with pytest.raises(DatasetError, match=r"^Dataset 'nowhere\.zarr' is not on this machine, "):
        client.stencil(halve, "nowhere.zarr")
    with pytest.raises(DatasetError, match=r"^Dataset '/etc/passwd' is not under a folder that"):
        client.stencil(halve, "file:///etc/passwd")
    with pytest.raises(NotFoundError, match=r"^There is no job 'x'\. 'client\.jobs"):
        client.job("x")


def test_results_are_kept_along_the_steps(client: Client, sea: xr.Dataset) -> None:
    how: dict[str, Any] = {"boundary": {"x": "periodic"}, "feedback": {"out": "sst"}}
    how["target"] = "reference"
    job = sea.halocline.stencil(SLOW, client=client, steps=5, snapshot_every=2, **how)
    result = job.result()
    assert result["step"].values.tolist() == [2, 4, 5]
    assert [one.kind for one in job.events()].count("snapshot-written") == 2
    for place, steps in enumerate((2, 4, 5)):
        alone = client.stencil(SLOW, sea, steps=steps, **how).result()["out"]
        assert result["out"].values[place].tobytes() == alone.values.tobytes()


def test_a_running_job_can_be_dismissed(client: Client, sea: xr.Dataset) -> None:
    job = client.stencil(
        SLOW,
        sea,
        boundary={"x": "periodic"},
        steps=400,
        feedback={"out": "sst"},
        target="reference",
    )
    assert job.cancel() == "dismissed"
    with pytest.raises(CancelledError, match=f"^Job '{job.id}' was dismissed and has no result"):
        job.result()


def test_a_copy_is_what_is_opened(client: Client, sea: xr.Dataset, tmp_path: Path) -> None:
    job = client.stencil(halve, sea, target="reference")
    path = job.download(tmp_path / "copy.zarr", progress=False)
    with cast("Any", xr).open_zarr(path, chunks=None) as copy:
        xr.testing.assert_identical(copy.load(), job.result().load())
    with pytest.raises(OutputError) as caught:
        job.download(path)
    assert str(caught.value) == (
        f"The output '{path}' exists already. Choose another place, or remove it."
    )
    assert [p.name for p in path.parent.iterdir()] == ["copy.zarr"]


def test_jobs_are_listed_newest_first(client: Client, sea: xr.Dataset) -> None:
    reference = client.upload(sea)
    first, second = (client.stencil(halve, reference, target="reference") for _ in range(2))
    assert client.jobs(2) == [second, first]
    assert client.job(first.id) == first
    first.wait()
    second.wait()


def test_a_key_opens_everything(locked_service: tuple[str, str], sea: xr.Dataset) -> None:
    url, key = locked_service
    with Client(url) as stranger, pytest.raises(AuthenticationError, match="needs a valid API key"):
        stranger.jobs()
    with Client(url, key) as client:
        result = client.stencil(halve, sea, target="reference").result(progress=False)
        assert float(result["half"].sum()) == pytest.approx(float(sea["sst"].sum()) / 2)


def command(service: str, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main([*words, "--url", service])
    out, err = capsys.readouterr()
    return cast("int", end.value.code), out, err


@pytest.fixture
def files(tmp_path: Path, sea: xr.Dataset, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "halve.py").write_text(HALVE)
    cast("Any", sea).to_netcdf(tmp_path / "sea.nc", engine="h5netcdf")
    monkeypatch.chdir(tmp_path)
    return tmp_path


GOOD = ("halve.py", "sea.nc", "--scalar", "gain=0.5", "--target", "reference")


def test_run_writes_a_store(
    service: str, capsys: pytest.CaptureFixture[str], files: Path, sea: xr.Dataset
) -> None:
    code, out, err = command(service, capsys, "run", *GOOD, "--output", "half.zarr")
    assert (code, out) == (0, "half.zarr\n")
    assert err == ""  # progress is for terminals
    with cast("Any", xr).open_zarr(files / "half.zarr", chunks=None) as result:
        half = result["half"].transpose("time", "y", "x").to_numpy()
    np.testing.assert_array_equal(half, sea["sst"].to_numpy() * 0.5)
    code, _, err = command(service, capsys, "run", *GOOD, "--output", "half.zarr")
    assert code == 3
    assert err == (
        "error: The output 'half.zarr' exists already.\nhint: Choose another place, or remove it.\n"
    )


@pytest.mark.parametrize("word", ["32", "float=32"])
def test_the_precision_of_numbers_is_an_option(
    service: str, capsys: pytest.CaptureFixture[str], files: Path, sea: xr.Dataset, word: str
) -> None:
    (files / "halve.py").write_text(HALVE.replace("* gain", "* 0.1"))
    words = (*GOOD, "--output", "tenth.zarr", "--literal-precision", word)
    code, _, err = command(service, capsys, "run", *words)
    assert (code, "error" in err) == (0, False)
    with cast("Any", xr).open_zarr(files / "tenth.zarr", chunks=None) as result:
        tenth = result["half"].transpose("time", "y", "x").to_numpy()
    np.testing.assert_array_equal(tenth, sea["sst"].to_numpy() * float(np.float32(0.1)))


@pytest.mark.parametrize("words", [["real=32"], ["float=16"], ["32", "int=64"]])
def test_a_wrong_precision_is_no_option(words: list[str]) -> None:
    with pytest.raises(typer.BadParameter):
        precision("--literal-precision", words)


def test_submit_then_look_at_it(
    service: str, capsys: pytest.CaptureFixture[str], files: Path
) -> None:
    assert files.exists()
    code, out, _ = command(service, capsys, "submit", *GOOD)
    identity = out.strip()
    assert (code, len(identity)) == (0, 36)
    with Client(service) as client:
        assert client.job(identity).wait() == "successful"
    code, out, _ = command(service, capsys, "ls", "--limit", "1")
    head, row = out.splitlines()
    assert head.split() == ["id", "process", "status", "done", "created", "message"]
    assert row.split()[:5] == [identity, "stencil", "successful", "100", "%"]
    code, out, _ = command(service, capsys, "show", identity)
    assert [line.split()[0] for line in out.splitlines()] == [
        *("id", "process", "status", "done", "created", "started", "finished", "message"),
        "results",
    ]
    code, out, _ = command(service, capsys, "show", identity, "--schedule")
    assert (code, out.splitlines()[1].split()[:3]) == (0, ["order", "of", "work"])
    code, out, _ = command(service, capsys, "logs", identity[-10:])
    assert " planned " in out
    code, out, _ = command(service, capsys, "open", identity)
    assert out.startswith(f"{service}/jobs/{identity}/results/result.zarr\n")
    assert f'halocline.Client("{service}").job("{identity}").result()' in out
    code, out, _ = command(service, capsys, "cancel", identity)
    assert (code, out) == (0, "successful\n")
    code, out, _ = command(service, capsys, "rm", identity)
    assert (code, out) == (0, f"{identity}\n")
    code, _, err = command(service, capsys, "show", identity)
    hint = "'halocline ls' lists your jobs; the end of an id is enough."
    told = f"error: There is no job '{identity}'.\nhint: {hint}\n"
    assert (code, err) == (1, told)


def test_everything_speaks_json(
    service: str, capsys: pytest.CaptureFixture[str], files: Path
) -> None:
    assert files.exists()
    _, out, err = command(service, capsys, "submit", *GOOD, "--wait", "--json")
    job = json.loads(out)
    assert (job["status"], err) == ("successful", "")
    identity = job["jobID"]
    _, out, _ = command(service, capsys, "ls", "--json")
    assert identity in [each["jobID"] for each in json.loads(out)]
    _, out, _ = command(service, capsys, "show", identity, "--json")
    assert json.loads(out)["jobID"] == identity
    _, out, _ = command(service, capsys, "show", identity, "--schedule", "--json")
    assert json.loads(out)["order"] == "row"
    _, out, _ = command(service, capsys, "logs", identity, "--json")
    assert "finished" in [json.loads(line)["kind"] for line in out.splitlines()]
    _, out, _ = command(service, capsys, "open", identity, "--json")
    assert json.loads(out)["href"].endswith("/results/result.zarr")
    _, out, _ = command(service, capsys, "cancel", identity, "--json")
    assert json.loads(out) == {"jobID": identity, "status": "successful"}
    code, _, err = command(service, capsys, "show", "f" * 36, "--json")
    assert (code, json.loads(err)["code"]) == (1, "no-such-job")


def test_a_wrong_program_is_shown_with_a_caret(
    service: str, capsys: pytest.CaptureFixture[str], files: Path
) -> None:
    (files / "halve.py").write_text(HALVE.replace("sst * gain", "sst * gian"))
    code, out, err = command(service, capsys, "submit", *GOOD)
    assert (code, out) == (3, "")
    lines = err.splitlines()
    assert lines[0] == "halve.py, line 6, column 22:"
    assert lines[1].startswith("error: ")
    assert lines[3].endswith("half = sst * gian")
    assert lines[4].index("^") == lines[3].index("gian")
    assert lines[-1].startswith("hint: ")


def test_a_failed_job_is_told_with_its_reason(
    service: str, capsys: pytest.CaptureFixture[str], files: Path
) -> None:
    assert files.exists()
    xr.Dataset({"t": ("x", [1.0, 2.0]), "at": ("n", [0, 7])}).to_netcdf(files / "t.nc")
    (files / "in.json").write_text('{"source": "t", "index": "at", "dim": "x"}')
    words = ("in.json", "t.nc", "--process", "gather", "--wait")
    code, _, err = command(service, capsys, "submit", *words)
    assert code == 4
    assert "failed.\nerror: " in err
    told = err[err.index("error: ") :]
    assert "\nhint: " in told
    _, out, _ = command(service, capsys, "ls", "--limit", "1")
    code, out, _ = command(service, capsys, "show", out.splitlines()[1].split()[0])
    assert code == 0
    assert out.endswith(f"\n\n{told}")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--scalar", "gain"), "Expected NAME=VALUE, got 'gain'."),
        (("--scalar", "gain=x"), "Expected a number, got 'x'."),
        (("--field", "a=b", "--field", "a=c"), "'a' is given twice."),
        (("--boundary", "x=edge,x.low=edge"), "'x' is given twice."),
    ],
)
def test_a_wrong_command_line_is_refused(
    service: str, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], text: str
) -> None:
    code, _, err = command(service, capsys, "submit", "halve.py", "sea.nc", *words)
    assert code == 2
    assert text in " ".join(err.replace("│", " ").split())


def test_a_service_that_is_not_there_has_its_own_status(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("halocline.connection._ATTEMPTS", 1)
    code, _, err = command("http://127.0.0.1:9", capsys, "ls")
    assert code == 5
    assert err.startswith("error: No service answers at 'http://127.0.0.1:9'")


def test_the_command_starts_quickly() -> None:
    code = (
        "import sys, halocline.command.cli; print('xarray' in sys.modules, 'zarr' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
