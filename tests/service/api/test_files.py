"""Results as NetCDF and CSV files, and uploads that are NetCDF files."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import io
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py  # pyright: ignore[reportMissingTypeStubs] - it has none
import numpy as np
import pandas as pd  # pyright: ignore[reportMissingTypeStubs] - it has none
import pytest
import xarray as xr
from tests.service.conftest import write

from halocline_service.api.responses.downloads import FileProcesses
from halocline_service.datasets.layout import Layout
from halocline_service.dispatcher.sweep import Sweep

if TYPE_CHECKING:
    from tests.service.conftest import ClientOf, Running

_H5: Any = h5py
_PD: Any = pd


@pytest.fixture
def data(data: Path, tmp_path: Path) -> Path:
    """Make a folder that may be read and that the test may write to."""
    return shutil.copytree(data, tmp_path / "data")


def done(service: Running, dataset: xr.Dataset | None = None, name: str = "own.zarr") -> str:
    """Return a job that has ended, whose result is twice a dataset."""
    if dataset is not None:
        write(dataset, service.data / name)
    job = service.submit(dataset="sst.zarr" if dataset is None else name)
    assert service.wait(job)["status"] == "successful"
    return job


def test_a_result_as_netcdf(service: Running, tmp_path: Path) -> None:
    job = done(service)
    answer = service.client.get(f"/jobs/{job}/results?f=netcdf")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/x-netcdf"
    called = f'attachment; filename="result-{job[-8:]}.nc"'
    assert answer.headers["content-disposition"] == called
    (tmp_path / "r.nc").write_bytes(answer.content)
    with xr.open_dataset(tmp_path / "r.nc", engine="netcdf4") as result:
        store = Layout(service.settings.data_dir.resolve()).jobs / job / "attempt-1/result.zarr"
        with xr.open_dataset(store, engine="zarr") as expected:
            xr.testing.assert_identical(result.load(), expected.load())


def test_files_have_heads_ranges_and_tags(service: Running) -> None:
    job = done(service)
    url = f"/jobs/{job}/results/result?f=netcdf"
    head = service.client.head(url)
    whole = service.client.get(url)
    assert head.status_code == 200
    assert int(head.headers["content-length"]) == len(whole.content)
    part = service.client.get(url, headers={"Range": "bytes=1-3"})
    assert (part.status_code, part.content) == (206, b"HDF")
    tag = {"If-None-Match": whole.headers["etag"]}
    assert service.client.get(url, headers=tag).status_code == 304
    assert service.client.get(f"/jobs/{job}/results?f=json").json() == (
        service.client.get(f"/jobs/{job}/results").json()
    )


def test_a_series_as_csv(service: Running) -> None:
    time = np.array(["2001-01-01", "2001-01-02"], "M8[ns]")
    coords: dict[str, Any] = {"time": time, "name": ("time", ["a", "b, c"]), "lat": 7.5}
    series = xr.Dataset({"t": ("time", [1.0, np.nan]), "n": ("time", [1.5, 2.5])}, coords)
    job = done(service, series)
    answer = service.client.get(f"/jobs/{job}/results?f=csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"].endswith('.csv"')
    table = _PD.read_csv(io.BytesIO(answer.content))
    assert sorted(table.columns) == ["lat", "n", "name", "t", "time"]
    assert table["time"].tolist() == ["2001-01-01", "2001-01-02"]
    assert table["name"].tolist() == ["a", "b, c"]
    assert (table["n"].tolist(), table["lat"].tolist()) == ([3.0, 5.0], [7.5, 7.5])
    assert table["t"].isna().tolist() == [False, True]


def test_csv_is_for_series_alone(service: Running) -> None:
    job = done(service)
    answer = service.client.get(f"/jobs/{job}/results?f=csv")
    assert (answer.status_code, answer.json()["code"]) == (400, "argument")
    assert answer.json()["detail"] == (
        "The result has the dimensions 'time', 'y', 'x', but CSV holds series along one dimension."
    )
    assert answer.json()["hint"] == "Write f=netcdf, or read the Zarr store."


def test_forms_that_are_not_there(service: Running) -> None:
    job = done(service)
    answer = service.client.get(f"/jobs/{job}/results?f=grib")
    assert (answer.status_code, answer.json()["code"]) == (400, "argument")
    assert "'netcdf'" in answer.json()["detail"] + answer.json()["hint"]
    other = service.client.get(f"/jobs/{job}/results/other?f=netcdf").json()
    assert (other["detail"], other["hint"]) == (
        f"Job '{job}' has no output 'other' that is a dataset.",
        "It has: result.",
    )
    echo = service.submit("echo", string="a")
    service.wait(echo)
    values = service.client.get(f"/jobs/{echo}/results?f=netcdf").json()
    assert (values["code"], values["detail"], values["hint"]) == (
        "no-such-output",
        f"Job '{echo}' has no dataset as its result.",
        "It has: values only; leave out f=.",
    )


def test_what_netcdf_cannot_hold_is_named(service: Running) -> None:
    job = done(service, xr.Dataset({"t": ("x", [1.0], {"odd": {"a": 1}})}, {"x": [0.0]}), "o.zarr")
    answer = service.client.get(f"/jobs/{job}/results?f=netcdf")
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        "The attribute 'odd' of 't' cannot be written to NetCDF, as it is {'a': 1}, the dict.",
    )
    assert answer.json()["hint"] == (
        "Read the Zarr store, which holds it; or drop it before the run."
    )


def test_a_file_has_a_largest_size(service: Running, client_of: ClientOf) -> None:
    data = xr.Dataset({"t": ("x", np.zeros(1000))})
    job = done(service, data, "large.zarr")
    client = client_of(service.settings.model_copy(update={"download_bytes": 1024}))
    answer = client.get(f"/jobs/{job}/results?f=netcdf")
    assert (answer.status_code, answer.json()["code"]) == (413, "capacity")
    assert answer.json()["detail"] == (
        "The file would have about 8000 bytes, but at most 1024 are made of a result."
    )
    full = client_of(service.settings.model_copy(update={"disk_headroom_bytes": 2**60}))
    answer = full.get(f"/jobs/{job}/results?f=netcdf")
    assert (answer.status_code, answer.json()["code"]) == (507, "output")


def test_those_who_ask_at_once_get_one_file(service: Running) -> None:
    job = done(service)
    started: list[dict[str, Any]] = []
    files: Any = service.app.state.files
    asked = files._asked

    async def counted(what: dict[str, Any]) -> Any:
        started.append(what)
        return await asked(what)

    files._asked = counted
    with ThreadPoolExecutor(4) as pool:
        answers = [*pool.map(service.client.get, [f"/jobs/{job}/results?f=netcdf"] * 4)]
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert len(started) == 1


def test_a_process_that_hangs_or_dies_is_told(service: Running) -> None:
    job = done(service)
    settings = service.settings.model_copy(update={"download_seconds": 0.2})
    hangs = "import time; time.sleep(60)"
    service.app.state.files = FileProcesses(settings, (sys.executable, "-c", hangs))
    answer = service.client.get(f"/jobs/{job}/results?f=netcdf")
    assert (answer.status_code, answer.json()["detail"]) == (
        413,
        "Making the file took more than 0.2 seconds.",
    )
    dies = (sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    service.app.state.files = FileProcesses(service.settings, dies)
    answer = service.client.get(f"/jobs/{job}/results?f=netcdf")
    assert (answer.status_code, answer.json()["code"]) == (413, "capacity")
    assert answer.json()["detail"] == "The process that should make the file ended by status -9."


def test_files_go_with_their_job_and_after_a_day(service: Running) -> None:
    job = done(service)
    layout = Layout(service.settings.data_dir.resolve())
    folder = layout.job(job) / "downloads"
    assert service.client.get(f"/jobs/{job}/results?f=netcdf").status_code == 200
    assert os.listdir(folder) == ["result.nc"]
    (folder / f".result.nc.{'0' * 32}.part").touch()
    sweep = Sweep(service.store, layout, 100.0)
    sweep.run()
    assert len(os.listdir(folder)) == 2
    for name in os.listdir(folder):
        os.utime(folder / name, (0, 0))
    sweep.run()
    assert os.listdir(folder) == []
    assert service.client.get(f"/jobs/{job}/results?f=netcdf").status_code == 200
    assert service.client.delete(f"/jobs/{job}").status_code == 200
    sweep.run()
    assert not layout.job(job).exists()


def upload(service: Running, content: bytes) -> tuple[str, Any]:
    """Send a file as an upload, and return its identifier and the answer to `complete`."""
    opened = service.client.post("/uploads").json()
    links = {link["rel"]: link["href"] for link in opened["links"]}
    sent = service.client.put(links["netcdf"], content=content)
    assert (sent.status_code, len(sent.headers["etag"])) == (204, 66)
    return opened["id"], service.client.post(links["complete"])


def netcdf(form: str, folder: Path) -> bytes:
    data: Any = xr.Dataset({"t": ("x", [1.0, 2.0])}, {"x": [0.0, 1.0]})
    data.to_netcdf(folder / "a.nc", format=form, engine="netcdf4")
    return (folder / "a.nc").read_bytes()


@pytest.mark.parametrize("form", ["NETCDF3_CLASSIC", "NETCDF3_64BIT", "NETCDF4"])
def test_an_upload_that_is_a_netcdf_file(form: str, idle: Running, tmp_path: Path) -> None:
    content = netcdf(form, tmp_path)
    identity, answer = upload(idle, content)
    assert answer.status_code == 200, answer.text
    info = answer.json()
    assert (info["status"], info["keys"], info["bytes"]) == ("complete", 1, len(content))
    assert info["href"] == f"http://testserver/uploads/{identity}.nc"
    assert idle.client.get(info["href"]).content == content
    resolver: Any = idle.app.state.context.resolver
    place = resolver.resolve(info["reference"], owner="local")
    assert place.read_bytes() == content
    late = idle.client.put(f"/uploads/{identity}.nc", content=b"x")
    assert (late.status_code, late.json()["code"]) == (409, "upload")
    job = idle.submit(dataset=info["href"])
    assert idle.client.get(f"/jobs/{job}/inputs").json()["inputs"]["dataset"] == (
        f"upload:{identity}"
    )
    assert idle.client.delete(f"/jobs/{job}").status_code == 200
    assert idle.client.delete(f"/uploads/{identity}").status_code == 204
    assert not place.exists()


def test_files_that_are_refused(idle: Running, tmp_path: Path) -> None:
    identity, answer = upload(idle, b"no NetCDF at all")
    assert (answer.status_code, answer.json()["code"]) == (400, "dataset")
    assert answer.json()["detail"] == (
        f"Dataset 'upload:{identity}' is no NetCDF file: expected the signature of HDF5 or 'CDF',"
        " got b'no N'."
    )
    assert answer.json()["hint"] == "Look at it with 'ncdump -h', and send another one."
    # It can be sent again.
    content = netcdf("NETCDF4", tmp_path)
    assert idle.client.put(f"/uploads/{identity}.nc", content=content).status_code == 204
    assert idle.client.post(f"/uploads/{identity}/complete").status_code == 200
    with _H5.File(tmp_path / "spy.nc", "w") as file:
        file["/v"] = _H5.ExternalLink("/etc/passwd", "/v")
    identity, answer = upload(idle, (tmp_path / "spy.nc").read_bytes())
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        f"Dataset 'upload:{identity}' is refused: '/v' is a link to another object or file.",
    )
    with _H5.File(tmp_path / "cycle.nc", "w") as file:
        file.create_group("a/b")
        file["/a/b/again"] = file["/a"]
    _, answer = upload(idle, (tmp_path / "cycle.nc").read_bytes())
    assert answer.json()["detail"].endswith("'/a/b/again' is another name of a group.")
    with _H5.File(tmp_path / "bomb.nc", "w") as file:
        file.create_dataset("v", (2**40, 2**20), chunks=(1, 1), dtype="f8")
    _, answer = upload(idle, (tmp_path / "bomb.nc").read_bytes())
    assert answer.status_code in (400, 413)
    assert "'v'" in answer.json()["detail"]


def test_a_netcdf_file_among_the_keys_of_a_store_is_refused(idle: Running) -> None:
    opened = idle.client.post("/uploads").json()
    answer = idle.client.put(f"{opened['href']}/data.nc", content=b"x")
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        "'data.nc' is the name of a NetCDF file, and no key of a Zarr store.",
    )
    assert answer.json()["hint"] == (
        f"PUT the whole file to http://testserver/uploads/{opened['id']}.nc"
    )
    assert idle.client.put(f"{opened['href']}/zarr.json", content=b"{}").status_code == 204
    assert idle.client.put(f"/uploads/{opened['id']}.nc", content=b"x").status_code == 204
    answer = idle.client.post(f"/uploads/{opened['id']}/complete")
    assert (answer.status_code, answer.json()["code"]) == (409, "upload")
    assert "has a NetCDF file and keys of a Zarr store" in answer.json()["detail"]


def test_files_are_bounded(idle: Running) -> None:
    opened = idle.client.post("/uploads").json()
    url = f"/uploads/{opened['id']}.nc"
    assert idle.client.get(url).status_code == 404
    larger = b"x" * (idle.settings.upload_key_bytes + 1)
    assert idle.client.put(url, content=larger).status_code == 204
    answer = idle.client.put(url, content=b"x" * (idle.settings.upload_bytes + 1))
    assert (answer.status_code, answer.json()["code"]) == (413, "body-too-large")
