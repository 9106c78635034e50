"""NetCDF files as outputs: the same as xarray writes, whole or not at all, in bounded memory."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import cftime  # pyright: ignore[reportMissingTypeStubs] - it has none
import numpy as np
import pytest
import xarray as xr
from odd_datasets import OddDataset, draw_dataset

import halocline_engine as he
from halocline_engine.datasets.storing.attributes import drop_decoding_attributes
from halocline_engine.datasets.storing.opening import open_stored
from halocline_engine.errors import FieldError, OutputError

SHIFT = """
def shift(t: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = t[1, 0, 0]
"""
FED: dict[str, Any] = {"steps": 5, "feedback": {"out": "t"}}
UNTIL = {"field": "out", "change": "max", "below": 1e9, "check_every": 2, "non_finite": "ignore"}
WAYS: dict[str, dict[str, Any]] = {
    "one step": {},
    "blocks": {"chunks": {"x": 2}},
    "streamed": {**FED, "mode": "streamed"},
    "resident": {**FED, "mode": "resident"},
    "snapshots": {**FED, "snapshot_every": 2},
    "snapshots in a workspace": {
        **FED,
        "snapshot_every": 2,
        "workspace": "work",
        "mode": "streamed",
    },
    "until": {**FED, "until": UNTIL},
    "workers": {"cluster": 2, "chunks": {"x": 2}},
    "resident workers": {**FED, "mode": "resident", "cluster": 2},
}


def data() -> xr.Dataset:
    cf: Any = cftime
    days = np.array([cf.datetime(2001, 2, day, calendar="noleap") for day in (1, 27, 28)])
    time = xr.Variable("time", days, encoding={"units": "hours since 2000-01-01"})
    values = np.arange(60.0).reshape(3, 4, 5)
    values[0, 0, 0] = np.nan
    coords: dict[str, Any] = {
        "x": ("x", np.arange(5.0), {"units": "degrees_east"}),
        "time": time,
        "land": (("y", "x"), np.eye(4, 5, dtype=bool)),
        "station": ("y", ["a", "é", "", "d"]),
        "crs": ((), np.int32(0), {"grid_mapping_name": "latitude_longitude"}),
    }
    about = {"units": "K", "grid_mapping": "crs", "valid_range": np.array([0.0, 90.0], "f4")}
    return xr.Dataset({"t": (("time", "y", "x"), values, about)}, coords, {"title": "é"})


def opened(path: Path) -> xr.Dataset:
    """Open a file with the library of NetCDF, without the line of the history."""
    with open_stored(path, engine="netcdf4") as dataset:
        loaded = dataset.load()
    del loaded.attrs["history"]
    return loaded


def plain_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("way", WAYS)
def test_the_file_is_what_xarray_writes_of_the_result(way: str, tmp_path: Path) -> None:
    arguments: dict[str, Any] = {**WAYS[way], "boundary": {"x": "periodic"}, "target": "reference"}
    if "workspace" in arguments:
        arguments["workspace"] = tmp_path / "work"
    result = he.run(SHIFT, data(), output=tmp_path / "out.nc", **arguments)
    in_memory = {k: v for k, v in arguments.items() if k not in ("cluster", "workspace")}
    expected = he.run(SHIFT, data(), **in_memory)
    expected.to_netcdf(tmp_path / "xarray.nc")
    ours, theirs = opened(tmp_path / "out.nc"), opened(tmp_path / "xarray.nc")
    xr.testing.assert_identical(ours, theirs)
    assert np.isnan(ours["out"].encoding["_FillValue"])
    for key in ("units", "calendar"):
        assert ours["time"].encoding[key] == theirs["time"].encoding[key]
    assert [name for name in plain_files(tmp_path) if name.startswith(".")] == []
    result.load().to_netcdf(tmp_path / "again.nc")
    xr.testing.assert_identical(opened(tmp_path / "again.nc"), ours)


def test_results_are_compressed_as_options_say(tmp_path: Path) -> None:
    for compressed in (True, False):
        place = tmp_path / f"{compressed}.nc"
        options = he.Options(compressed=compressed)
        he.run(SHIFT, data(), output=place, options=options, target="reference")
        assert opened(place)["out"].encoding["zlib"] is compressed


def test_other_functions_write_netcdf_too(tmp_path: Path) -> None:
    bands = xr.Dataset({name: ("z", np.full(4, 1.0 + 3.0 * (name == "b"))) for name in "abcr"})
    arguments: Any = {"lower": "a", "diagonal": "b", "upper": "c", "rhs": "r", "dim": "z"}
    for place in (tmp_path / "out.nc", tmp_path / "OUT.NC4"):
        he.tridiagonal(bands, **arguments, target="reference", output=place)
        expected = he.tridiagonal(bands, **arguments, target="reference")
        expected.to_netcdf(tmp_path / f"{place.name}-xarray")
        xr.testing.assert_identical(opened(place), opened(tmp_path / f"{place.name}-xarray"))


def drawn_with_points(random: Random) -> OddDataset:
    """Draw a dataset whose field ``t`` has at least one point."""
    while True:
        drawn = draw_dataset(random)
        if drawn.dataset["t"].size:
            return drawn


@pytest.mark.parametrize("seed", range(40))
def test_drawn_datasets(seed: int, tmp_path: Path) -> None:
    """Refused is what xarray refuses, and what no store holds."""
    drawn = drawn_with_points(Random(seed))
    field, is_kept = drawn.dataset["t"], seed % 2
    if is_kept:
        drop_attributes(drawn.dataset)
    text = SHIFT.replace("float", f"np.{field.dtype.newbyteorder('=').name}")
    arguments: Any = {"axes": {"I": "x", "J": "y", "K": None}, "target": "reference"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result, refused = he.run(text, drawn.dataset, **arguments), ""
        try:
            expected: Any = drop_decoding_attributes(result)[0]
            expected.drop_encoding().to_netcdf(tmp_path / "xarray.nc", engine="netcdf4")
        except Exception as error:  # whatever xarray raises
            refused = str(error)
        found = ""
        try:
            he.run(text, drawn.dataset, output=tmp_path / "out.nc", **arguments)
        except OutputError as error:
            found = error.message
        assert bool(found) >= bool(refused)
        if found:
            assert refused or any(name in found for name in drawn.unkeepable)
            return
        ours, theirs = opened(tmp_path / "out.nc"), opened(tmp_path / "xarray.nc")
    assert {*ours.variables} == {*theirs.variables}
    for name in theirs.variables:
        # Missing texts come back as missing, and those of xarray as empty ones.
        values: Any = ours[name].fillna("") if ours[name].dtype == "O" else ours[name]
        assert values.values.ravel().tolist() == pytest.approx(
            theirs[name].values.ravel().tolist(), nan_ok=True
        )
        assert {*theirs[name].attrs} <= {*ours[name].attrs}


def drop_attributes(dataset: xr.Dataset) -> None:
    """Drop attributes that NetCDF does not have."""
    for owner in (dataset, *(dataset[name] for name in dataset.variables)):
        for name, value in [*owner.attrs.items()]:
            odd = isinstance(value, dict | bool | np.bool_ | list | type(None)) or str(
                value
            ) == str(2**70)
            if odd or name == "" or "/" in str(name):
                del owner.attrs[name]


_DROP = "Name the output with '.zarr', which holds it; or drop it before the run."
_RENAME = "Name the output with '.zarr', which holds it; or rename it before the run."
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an attribute": (
        {"attrs": {"a": {"b": 1}}},
        "The attribute 'a' of 'out' cannot be written to NetCDF, as it is {'b': 1}, the dict. "
        + _DROP,
    ),
    "a truth": (
        {"attrs": {"flag": True}},
        "The attribute 'flag' of 'out' cannot be written to NetCDF, as it is True, the bool. "
        + _DROP,
    ),
    "a name": (
        {"coords": {"-n": ("x", np.arange(5.0))}},
        "The coordinate '-n' cannot be written, as NetCDF allows no such name. " + _RENAME,
    ),
    "a type": (
        {"coords": {"half": ("x", np.arange(5, dtype="f2"))}},
        "The coordinate 'half' has values of type 'float16', which NetCDF does not have. Name the"
        " output with '.zarr', which holds it; or convert it to float32 or float64 before the run.",
    ),
    "a complex number": (
        {"coords": {"z": ("x", np.arange(5) * 1j)}},
        "The coordinate 'z' has values of type 'complex128', which NetCDF does not have. Name the"
        " output with '.zarr', which holds it; or convert it to float32 or float64 before the run.",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_netcdf_cannot_hold_is_refused_before_anything_is_computed(
    what: str, tmp_path: Path
) -> None:
    more, message = REFUSED[what]
    dataset: Any = data().assign_coords(more.get("coords", {}))
    dataset["t"].attrs |= more.get("attrs", {})
    heard: list[Any] = []
    with pytest.raises(OutputError) as caught:
        he.run(
            SHIFT,
            dataset,
            output=tmp_path / "out.nc",
            on_event=heard.append,
            target="reference",
            feedback={"out": "t"},
        )
    assert str(caught.value) == message
    assert heard == []
    assert plain_files(tmp_path) == []
    he.run(SHIFT, dataset, output=tmp_path / "out.zarr", target="reference")


def test_a_result_with_a_name_that_netcdf_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"The variable '\+' cannot be written"):
        he.run(SHIFT, data(), fields={"out": "+"}, output=tmp_path / "o.nc", target="reference")
    with pytest.raises(FieldError):
        he.run(SHIFT, data(), fields={"out": "a/b"}, output=tmp_path / "o.nc", target="reference")


def test_an_output_that_someone_makes_meanwhile_is_kept(tmp_path: Path) -> None:
    def make(_event: object) -> None:
        (tmp_path / "out.nc").write_text("precious")

    with pytest.raises(OutputError) as caught:
        he.run(SHIFT, data(), output=tmp_path / "out.nc", on_event=make, target="reference")
    assert str(caught.value) == (
        f"The output '{tmp_path}/out.nc' was made by someone else during the run. Choose another"
        " place."
    )
    assert (tmp_path / "out.nc").read_text() == "precious"
    assert plain_files(tmp_path) == ["out.nc"]


KILLED = """
import os, sys, signal
import numpy as np, xarray as xr
import halocline_engine as he
from halocline_engine.distribute.jobs import outputs
write = outputs.write_netcdf
def killed(*given):
    write(*given)
    os.kill(os.getpid(), signal.SIGKILL)
outputs.write_netcdf = killed
data = xr.Dataset({"t": (("y", "x"), np.ones((4, 5)))})
he.run(sys.argv[1], data, output=sys.argv[2], target="reference")
"""


def test_a_process_that_is_killed_leaves_no_half_file(tmp_path: Path) -> None:
    place = tmp_path / "out.nc"
    ended = subprocess.run([sys.executable, "-c", KILLED, SHIFT, str(place)], check=False)
    assert ended.returncode == -signal.SIGKILL
    (left,) = plain_files(tmp_path)
    assert left.startswith(".out.nc.")
    assert left.endswith(".part")
    he.run(SHIFT, data(), output=place, target="reference")
    assert plain_files(tmp_path) == ["out.nc"]


FULL = """
import errno, sys
import numpy as np, xarray as xr
import halocline_engine as he
from halocline_engine.datasets.stores import netcdf_writing

left = 20_000

class Small(netcdf_writing._LateErrors):
    def __init__(self, file):
        class Disk:
            def __getattr__(self, name):
                return getattr(file, name)
            def write(self, data):
                global left
                if left < len(data):
                    raise OSError(errno.ENOSPC, "No space left on device")
                left -= len(data)
                return file.write(data)
        super().__init__(Disk())

netcdf_writing._LateErrors = Small
data = xr.Dataset({"t": (("y", "x"), np.random.default_rng(1).random((200, 50)))})
for _ in range(2):
    try:
        he.run(sys.argv[1], data, output=sys.argv[2], target="reference", chunks={"y": 20})
    except he.OutputError as error:
        print(error)
left = 10**9
he.run(sys.argv[1], data, output=sys.argv[2], target="reference")
"""


def test_a_disk_that_fills_up_is_told_and_ends_no_process(tmp_path: Path) -> None:
    """HDF5 itself ends the process where a file cannot be closed."""
    place = tmp_path / "out.nc"
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FULL, SHIFT, str(place)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    first, second = ended.stdout.splitlines()
    assert first.startswith(f"Writing to '{tmp_path}/.out.nc.")
    assert first.endswith(
        "stopped because the disk is full. Free some space, or choose another place with output=."
    )
    assert second.startswith("Writing to ")
    assert plain_files(tmp_path) == ["out.nc"]


CANCELLED: dict[str, Callable[..., object]] = {
    **{
        way: partial(he.run, SHIFT, target="reference", **WAYS[way])
        for way in ("one step", "blocks", "streamed", "resident", "snapshots")
    },
    "another function": partial(
        he.tridiagonal, lower="t", diagonal="t", upper="t", rhs="t", dim="x"
    ),
}


@pytest.mark.parametrize("way", CANCELLED)
def test_a_run_is_cancelled_while_its_file_is_written(way: str, tmp_path: Path) -> None:
    """The draft is there, its values computed; then nothing is left of either."""
    looks: list[bool] = []

    def cancelled() -> bool:
        looks.append(any(tmp_path.glob(".out.nc.*/.new-netcdf")))
        return looks[-1]

    dataset = data().fillna(1.0).transpose("y", "time", "x")
    with pytest.raises(he.CancelledError, match=r"^The run was cancelled\."):
        CANCELLED[way](dataset, output=tmp_path / "out.nc", cancelled=cancelled)
    assert looks.count(True) == 1
    assert not list(tmp_path.iterdir())
    CANCELLED[way](dataset, output=tmp_path / "out.nc", cancelled=lambda: False)
    assert [path.name for path in tmp_path.iterdir()] == ["out.nc"]


LARGE = """
import resource, sys
import numpy as np, xarray as xr
import halocline_engine as he

folder = sys.argv[2]

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

def computed(rows, name):
    array = xr.DataArray(np.zeros((rows, 512, 512)), dims=("time", "y", "x"))
    array.to_dataset(name="t").to_zarr(
        f"{folder}/{name}.zarr", encoding={"t": {"chunks": (4, 512, 512)}}, consolidated=False
    )
    del array
    options = he.Options(memory_limit=96 << 20)
    before = peak()
    he.run(sys.argv[1], f"{folder}/{name}.zarr", output=f"{folder}/{name}.nc", options=options,
           target="reference", chunks={"time": 4})
    return before

computed(8, "small")
import os
pid = os.fork()  # the array of zeros counts for the parent alone
if pid == 0:
    array = xr.DataArray(np.zeros((100, 512, 512)), dims=("time", "y", "x"))
    array.to_dataset(name="t").to_zarr(
        f"{folder}/large.zarr", encoding={"t": {"chunks": (4, 512, 512)}}, consolidated=False
    )
    os._exit(0)
os.waitpid(pid, 0)
before = peak()
he.run(sys.argv[1], f"{folder}/large.zarr", output=f"{folder}/large.nc",
       options=he.Options(memory_limit=96 << 20), target="reference", chunks={"time": 4})
print(peak() - before, os.path.getsize(f"{folder}/large.nc"))
"""


def test_a_large_result_takes_little_memory(tmp_path: Path) -> None:
    """200 MiB are written; what is taken in addition to a small run is a few blocks."""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LARGE, SHIFT, str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
    )
    taken, _ = map(int, ended.stdout.split())
    with xr.open_dataset(tmp_path / "large.nc") as result:
        assert result["out"].nbytes == 100 << 21
    assert taken < 100 << 20
