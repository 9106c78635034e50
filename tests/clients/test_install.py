"""What the client says where only a part is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from halocline.errors import DatasetError
from halocline.transfer.uploads import opened


def _nothing(_name: str) -> None:
    """Find no module."""


@pytest.mark.parametrize(
    ("start", "readers"), [(b"CDF\x01", "netCDF4, scipy"), (b"\x89HDF", "netCDF4, h5netcdf")]
)
def test_a_netcdf_file_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: bytes, readers: str
) -> None:
    path = tmp_path / "sea.nc"
    path.write_bytes(start + b"\0" * 100)
    monkeypatch.setattr("halocline.transfer.uploads.find_spec", _nothing)
    with pytest.raises(DatasetError) as error:
        opened(path)
    assert error.value.message == (
        f"'{path}' is a NetCDF file, which needs one of {readers} to be read."
    )
    assert error.value.hint == "Install it: pip install 'halocline[netcdf]'."
