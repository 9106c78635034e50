"""Files that would show other files are refused before a reader opens them."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import h5py  # pyright: ignore[reportMissingTypeStubs] - it has none
import numpy as np
import pytest
import xarray as xr

from halocline_engine.datasets.inputs.opening import open_source
from halocline_engine.datasets.stores.hdf5_scan import is_hdf5, refuse_outside
from halocline_engine.errors import DatasetError

h5: Any = cast(Any, h5py)
REFUSED = " Copy it to a plain NetCDF file or a Zarr store first."


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(b"not for everyone")
    return path


@pytest.fixture
def other(tmp_path: Path) -> Path:
    path = tmp_path / "other.nc"
    xr.Dataset({"v": ("x", np.arange(4.0))}).to_netcdf(path)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(DatasetError) as caught:
        refuse_outside(path)
    with pytest.raises(DatasetError) as opened:
        open_source(path)
    assert str(opened.value) == str(caught.value)
    return str(caught.value)


def test_data_in_other_files(tmp_path: Path, secret: Path) -> None:
    path = tmp_path / "bad.nc"
    with h5.File(path, "w") as file:
        group = file.create_group("deep").create_group("deeper")
        group.create_dataset("v", (16,), "u1", external=[(str(secret), 0, 16)])
    assert refusal(path) == (
        "Dataset 'bad.nc' is refused: '/deep/deeper/v' keeps its data in other files." + REFUSED
    )


def test_links_to_other_files(tmp_path: Path, other: Path) -> None:
    path = tmp_path / "bad.nc"
    with h5.File(path, "w") as file:
        file["v"] = h5.ExternalLink(str(other), "/v")
    assert refusal(path) == (
        "Dataset 'bad.nc' is refused: '/v' is a link to another object or file." + REFUSED
    )


def test_links_in_the_middle_of_a_path(tmp_path: Path, other: Path) -> None:
    path = tmp_path / "bad.nc"
    with h5.File(path, "w") as file:
        file.create_group("a")["b"] = h5.SoftLink("/c")
        file["c"] = h5.ExternalLink(str(other), "/")
    assert "is a link to another object or file" in refusal(path)


def test_virtual_datasets(tmp_path: Path, other: Path) -> None:
    path = tmp_path / "bad.nc"
    layout = h5.VirtualLayout((4,), "f8")
    layout[:] = h5.VirtualSource(str(other), "v", (4,))
    with h5.File(path, "w") as file:
        file.create_virtual_dataset("v", layout)
    assert refusal(path) == ("Dataset 'bad.nc' is refused: '/v' is a virtual dataset." + REFUSED)


def test_filters_that_load_code(tmp_path: Path) -> None:
    path = tmp_path / "bad.nc"
    with h5.File(path, "w") as file:
        file.create_dataset("v", data=np.zeros(100), chunks=(10,), compression="lzf")
    assert refusal(path) == (
        "Dataset 'bad.nc' is refused: '/v' needs the filter 32000, which would load code." + REFUSED
    )


def test_a_file_that_is_not_whole(tmp_path: Path) -> None:
    path = tmp_path / "bad.nc"
    path.write_bytes(b"\x89HDF\r\n\x1a\n and no more")
    with pytest.raises(DatasetError, match=r"Dataset 'bad.nc' cannot be read as HDF5: "):
        refuse_outside(path)


def test_plain_files_pass(tmp_path: Path) -> None:
    path = tmp_path / "good.nc"
    dataset = xr.Dataset({"v": (("y", "x"), np.arange(6.0).reshape(2, 3))}, {"x": [1, 2, 3]})
    dataset.to_netcdf(path, encoding={"v": {"zlib": True, "shuffle": True}})
    assert is_hdf5(path)
    refuse_outside(path)
    xr.testing.assert_identical(open_source(path).dataset.load(), dataset)


def test_a_variable_may_have_two_names(tmp_path: Path) -> None:
    path = tmp_path / "good.h5"
    with h5.File(path, "w") as file:
        file["v"] = np.zeros(3)
        file.create_group("a")["again"] = file["v"]
    refuse_outside(path)


@pytest.mark.parametrize("above", ["/", "/a", "/a/b"])
def test_groups_within_themselves(tmp_path: Path, above: str) -> None:
    path = tmp_path / "bad.nc"
    with h5.File(path, "w") as file:
        group = file.create_group("a/b/c")
        group["again"] = file[above]
    assert refusal(path) == (
        "Dataset 'bad.nc' is refused: '/a/b/c/again' is another name of a group." + REFUSED
    )


@pytest.mark.parametrize("levels", [65, 3000])
def test_groups_nested_too_deeply(tmp_path: Path, levels: int) -> None:
    path = tmp_path / "bad.nc"
    with h5.File(path, "w") as file:
        group = file
        for _ in range(levels):
            group = group.create_group("a")
    place = "/a" * 64
    assert refusal(path) == (
        f"Dataset 'bad.nc' is refused: '{place}' is nested more than 64 groups deep." + REFUSED
    )


def test_signatures(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\0" * 1024 + b"\x89HDF\r\n\x1a\n")
    assert is_hdf5(path)
    path.write_bytes(b"CDF\x01" + b"\0" * 2000)
    assert not is_hdf5(path)
