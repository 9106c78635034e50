"""Results as NetCDF files, uploads of such files, and the paths of both, against a real service."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, cast

import httpx2
import numpy as np
import pytest
import xarray as xr

import halocline as hc
from halocline import downloads
from halocline.command.cli import main
from halocline.config import Settings
from halocline.connection import Connection
from halocline.errors import ArgumentError, HaloclineError, OutputError, ServiceError

# A request to a Zarr store leaves its connection pool to the interpreter's end.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

HALVE = """
def halve(sst: Field[np.float64], half: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        half = sst * 0.5
"""
HOW: dict[str, Any] = {"target": "reference"}


@pytest.fixture
def client(service: str) -> Generator[hc.Client]:
    with hc.Client(service) as made:
        yield made


@pytest.fixture(scope="module")
def sea() -> xr.Dataset:
    values = np.arange(60.0).reshape(2, 5, 6)
    values[:, 2, 3] = np.nan
    time = np.array(["2026-01-01", "2026-02-01"], "M8[ns]")
    return xr.Dataset(
        {"sst": (("time", "y", "x"), values, {"units": "K"})},
        coords={"time": time, "y": np.arange(5), "x": np.arange(6.0)},
    )


def check(path: Path, sea: xr.Dataset) -> None:
    """Compare a file with what was to be computed."""
    with xr.open_dataset(path, engine="netcdf4") as result:
        np.testing.assert_array_equal(result["half"].values, sea["sst"].values * 0.5)
        assert result["time"].values.tolist() == sea["time"].values.tolist()


def test_download_as_netcdf(client: hc.Client, sea: xr.Dataset, tmp_path: Path) -> None:
    job = client.stencil(HALVE, sea, **HOW)
    path = job.download(str(tmp_path / "r.nc"), progress=False)
    assert path == tmp_path / "r.nc"
    check(path, sea)
    assert path.stat().st_mode & 0o777 == 0o644
    assert [p.name for p in tmp_path.iterdir()] == ["r.nc"]
    job.result().to_netcdf(tmp_path / "own.nc")
    with (
        xr.open_dataset(path) as ours,
        xr.open_dataset(tmp_path / "own.nc") as theirs,
    ):
        xr.testing.assert_identical(ours.load(), theirs.load())


def test_the_awaited_client_downloads_netcdf(service: str, sea: xr.Dataset, tmp_path: Path) -> None:
    async def downloaded() -> Path:
        async with hc.AsyncClient(service) as awaited:
            job = await awaited.stencil(HALVE, sea, **HOW)
            with pytest.raises(OutputError):
                await job.download(tmp_path / "r.zip")
            return await job.download(tmp_path / "r.nc", progress=False)

    check(asyncio.run(downloaded()), sea)


@pytest.fixture
def files(tmp_path: Path, sea: xr.Dataset, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "halve.py").write_text(HALVE)
    cast("Any", sea).to_netcdf(tmp_path / "sea.nc")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(service: str, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main([*words, "--url", service])
    out, err = capsys.readouterr()
    return cast("int", end.value.code), err if end.value.code else out


def test_the_command_writes_netcdf(
    service: str, capsys: pytest.CaptureFixture[str], files: Path, sea: xr.Dataset
) -> None:
    words = ("halve.py", "sea.nc", "--target", "reference", "--quiet")
    assert command(service, capsys, "run", *words, "--output", "r.nc") == (0, "r.nc\n")
    check(files / "r.nc", sea)
    assert command(service, capsys, "submit", *words, "--output", "s.nc", "--json")[0] == 0
    check(files / "s.nc", sea)
    with hc.Client(service) as client:
        identity = client.jobs(1)[0].id
    assert command(service, capsys, "download", identity, "d.nc", "--quiet") == (0, "d.nc\n")
    check(files / "d.nc", sea)
    (files / "job.toml").write_text(
        "output = 'j.nc'\n[inputs]\nprogram = 'halve.py'\ndataset = 'sea.nc'\ntarget = 'reference'"
    )
    assert command(service, capsys, "run", "job.toml", "--quiet") == (0, "j.nc\n")
    check(files / "j.nc", sea)


#: A path by what is wrong with it, and the message about it; '{}' is the path.
WRONG = {
    "r.zip": "The output '{}' has the suffix '.zip', but results are written as Zarr stores or"
    " NetCDF files.",
    "r.csv": "The output '{}' has the suffix '.csv', but results are written as Zarr stores or"
    " NetCDF files.",
    "sea.nc": "The output '{}' exists already.",
    "no/r.nc": "The output's directory 'no' does not exist.",
    "s3://bucket/r.zarr": "The output '{}' is an address, but files are written to paths of this"
    " machine.",
    "https://host/r.nc": "The output '{}' is an address, but files are written to paths of this"
    " machine.",
}
COMMANDS: dict[str, Callable[[str], tuple[str, ...]]] = {
    "run": lambda output: ("run", "halve.py", "sea.nc", "--output", output),
    "submit": lambda output: ("submit", "halve.py", "sea.nc", "--output", output),
    "download": lambda output: ("download", "no-such-job", output),
    "job file": lambda output: ("run", "job.toml"),
}


@pytest.mark.parametrize("output", WRONG)
@pytest.mark.parametrize("way", COMMANDS)
def test_paths_are_checked_before_anything_is_sent(
    way: str, output: str, capsys: pytest.CaptureFixture[str], files: Path
) -> None:
    (files / "job.toml").write_text(
        f"output = '{output}'\n[inputs]\nprogram = 'halve.py'\ndataset = 'sea.nc'"
    )
    code, err = command("http://127.0.0.1:1", capsys, *COMMANDS[way](output))
    assert code == 3
    assert f"error: {WRONG[output].format(output)}\n" in err


@pytest.mark.parametrize("output", WRONG)
def test_paths_of_downloads_are_checked_before_the_wait(output: str, files: Path) -> None:
    job = unreachable()
    with pytest.raises((OutputError, ArgumentError)) as caught:
        job.download(output)
    assert caught.value.message == WRONG[output].format(output)


def unreachable() -> Any:
    """Return a job of a service that does not answer."""
    from halocline.job import Job

    def fail(request: httpx2.Request) -> httpx2.Response:
        raise AssertionError(f"nothing should be asked: {request.url}")

    settings = Settings("http://127.0.0.1:1", None)
    return Job(Connection(settings, httpx2.MockTransport(fail)), "0" * 36)


@pytest.mark.parametrize("output", WRONG)
def test_paths_of_local_runs_are_checked(output: str, files: Path, sea: xr.Dataset) -> None:
    with pytest.raises(HaloclineError) as caught:
        hc.run_local("stencil", program=HALVE, dataset=sea, output=output, **HOW)
    here = output if ":" in output else str(files / output)
    assert caught.value.message == WRONG[output].format(here).replace("'no'", f"'{files}/no'")


def test_local_runs_write_netcdf(files: Path, sea: xr.Dataset) -> None:
    hc.run_local("stencil", program=HALVE, dataset="sea.nc", output="l.nc", **HOW)
    check(files / "l.nc", sea)
    hc.run_local("stencil", program=HALVE, dataset=sea, output=f"file://{files}/f.nc", **HOW)
    check(files / "f.nc", sea)


def test_the_default_output_is_named_where_it_exists(
    capsys: pytest.CaptureFixture[str], files: Path
) -> None:
    (files / "result.zarr").mkdir()
    code, err = command("http://127.0.0.1:1", capsys, "run", "halve.py", "sea.nc")
    assert (code, err) == (
        3,
        "error: The result 'result.zarr' exists already.\n"
        "hint: Choose another path with --output, or remove it.\n",
    )


@pytest.mark.parametrize("form", ["NETCDF3_64BIT", "NETCDF4"])
def test_jobs_read_uploads_that_are_netcdf_files(
    form: str, client: hc.Client, sea: xr.Dataset, tmp_path: Path
) -> None:
    cast("Any", sea).to_netcdf(tmp_path / "sea.nc", format=form, engine="netcdf4")
    with httpx2.Client(base_url=client.url, timeout=60) as http:
        opened = http.post("/uploads").json()
        content = (tmp_path / "sea.nc").read_bytes()
        assert http.put(f"/uploads/{opened['id']}.nc", content=content).status_code == 204
        assert http.post(f"/uploads/{opened['id']}/complete").status_code == 200
    job = client.stencil(HALVE, opened["reference"], **HOW)
    result = job.result(progress=False)
    np.testing.assert_array_equal(result["half"].values, sea["sst"].values * 0.5)
    told = result.attrs["halocline_datasets"]
    assert opened["reference"] in told
    assert hashlib.sha256(content).hexdigest() in told
    assert "data.nc" not in told


def test_a_file_is_downloaded_in_pieces_that_may_be_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, tried = bytes(range(256)) * 3, []
    tag = hashlib.sha256(content).hexdigest()

    def answer(request: httpx2.Request) -> httpx2.Response:
        assert str(request.url).endswith("/results/result?f=netcdf")
        tried.append(request.headers["Range"])
        if len(tried) == 2:
            raise httpx2.ReadError("lost")
        first, _, last = request.headers["Range"].removeprefix("bytes=").partition("-")
        part = content[int(first) : int(last) + 1]
        of = f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}"
        return httpx2.Response(206, content=part, headers={"ETag": f'"{tag}"', "Content-Range": of})

    monkeypatch.setattr(downloads, "_PIECE", 300)
    settings = Settings("http://host", None)
    connection = Connection(settings, httpx2.MockTransport(answer), sleep=lambda _: None)
    downloads.download(connection, "http://host/jobs/1/results/result.zarr", tmp_path / "r.nc")
    assert (tmp_path / "r.nc").read_bytes() == content
    assert tried == ["bytes=0-299", "bytes=300-599", "bytes=300-599", "bytes=600-899"]
    tag = "0" * 64
    with pytest.raises(ServiceError) as caught:
        downloads.download(connection, "http://host/jobs/1/results/result.zarr", tmp_path / "s.nc")
    assert str(caught.value) == (
        "The file of the result was corrupted in transit: its SHA-256 differs from that of the "
        "service. Try again. If the error persists, a proxy may change the content."
    )
    assert [p.name for p in tmp_path.iterdir()] == ["r.nc"]


@pytest.fixture
def months(files: Path, sea: xr.Dataset) -> Path:
    """Make files of the times of a dataset, of which the names are in another order."""
    for number, name in enumerate(("m_b.nc", "m_a.nc")):
        cast("Any", sea).isel(time=slice(number, number + 1)).to_netcdf(files / name)
    return files


@pytest.mark.parametrize("given", [["m_a.nc", "m_b.nc"], (Path("m_b.nc"), "m_a.nc"), "m_*.nc"])
def test_several_files_are_uploaded_as_one(
    given: Any, client: hc.Client, months: Path, sea: xr.Dataset
) -> None:
    result = client.stencil(HALVE, given, **HOW).result(progress=False)
    np.testing.assert_array_equal(result["half"].values, sea["sst"].values * 0.5)
    local = hc.run_local("stencil", program=HALVE, dataset=given, **HOW)
    np.testing.assert_array_equal(local["half"].values, sea["sst"].values * 0.5)


def test_the_command_takes_several_files(
    service: str, capsys: pytest.CaptureFixture[str], months: Path, sea: xr.Dataset
) -> None:
    words = ("halve.py", "m_*.nc", "--target", "reference", "--quiet")
    assert command(service, capsys, "run", *words, "--output", "r.nc")[0] == 0
    check(months / "r.nc", sea)
    (months / "deep").mkdir()
    for number, given in enumerate(("['../m_a.nc', '../m_b.nc']", "'../m_*.nc'")):
        (months / "deep/job.toml").write_text(
            f"output = '{number}.nc'\n[inputs]\nprogram = '../halve.py'\ndataset = {given}\n"
            "target = 'reference'"
        )
        assert command(service, capsys, "run", "deep/job.toml", "--quiet")[0] == 0
        check(months / f"deep/{number}.nc", sea)
    code, reference = command(service, capsys, "upload", "m_*.nc")
    assert (code, reference[:7]) == (0, "upload:")
    with hc.Client(service) as client:
        client.uploads.remove(reference.strip())


def test_files_that_do_not_fit_are_named(client: hc.Client, months: Path) -> None:
    for given, message in (
        ("none_*.nc", "No file here matches 'none_*.nc'."),
        (["m_a.nc", "none.nc"], "Dataset 'none.nc' is not on this machine."),
        (
            ["m_a.nc", "sea.nc"],
            "'m_a.nc' does not follow 'sea.nc' along 'time': it begins at 2026-02-01 00:00:00, and"
            " the other one ends at 2026-02-01 00:00:00.",
        ),
        ([], "A list of datasets must have at least one path, got none."),
        (["m_a.nc", 3], "A list of datasets must have paths, got the int among them."),
    ):
        with pytest.raises(HaloclineError) as caught:
            client.stencil(HALVE, cast("Any", given), **HOW)
        assert caught.value.message == message
