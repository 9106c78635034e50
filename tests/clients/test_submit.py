"""Any process from a file of JSON, by the command and by the client."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline.client import Client
from halocline.command.cli import main

# A request to a Zarr store leaves its connection pool to the interpreter's end.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

INPUTS = {
    "expression": "slope = GradientC2F(bottom=SetValue(0.0), top=SetGradient(g))(t)",
    "scalars": {"g": 2.0},
    "target": "reference",
}


@pytest.fixture
def column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> xr.Dataset:
    """Write a column, and the inputs of a process without it, into the current folder."""
    faces = np.arange(5.0) ** 2
    dataset = xr.Dataset(
        {"t": ("z", np.sqrt(faces[1:]))},
        coords={"z_f": ("z_f", faces, {"axis": "Z", "c_grid_axis_shift": -0.5})},
    )
    monkeypatch.chdir(tmp_path)
    dataset.to_netcdf("column.nc")
    Path("inputs.json").write_text(json.dumps(INPUTS))
    return dataset


def command(service: str, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main([*words, "--url", service])
    out, err = capsys.readouterr()
    return cast("int", end.value.code), out, " ".join(err.replace("│", " ").split())


def test_any_process_from_a_file(
    service: str, capsys: pytest.CaptureFixture[str], column: xr.Dataset
) -> None:
    expected = he.column(**cast("Any", {**INPUTS, "dataset": column}))["slope"]
    words = ("submit", "inputs.json", "column.nc", "--process", "column")
    code, out, _ = command(service, capsys, *words, "--output", "slope.zarr", "--quiet")
    assert code == 0
    with cast("Any", xr).open_zarr("slope.zarr", chunks=None) as result:
        np.testing.assert_array_equal(result["slope"], expected)
    Path("inputs.json").write_text(json.dumps({**INPUTS, "dataset": "column.nc"}))
    code, out, _ = command(service, capsys, "submit", "inputs.json", "--process", "column")
    with Client(service) as client:
        assert client.job(out.strip()).wait() == "successful"
        job = client.submit("column", {**INPUTS, "dataset": column})
        np.testing.assert_array_equal(job.result(progress=False)["slope"], expected)


@pytest.mark.parametrize(
    ("text", "words", "code", "message"),
    [
        (None, (), 3, "error: The inputs 'bad.json' cannot be read: No such file or directory."),
        ("{", (), 3, "error: The inputs 'bad.json' are not JSON: Expecting property name"),
        ("[1]", (), 3, "error: The inputs 'bad.json' must be an object with names, got 'list'."),
        (
            '{"dataset": "a.nc"}',
            ("b.nc",),
            3,
            "error: The dataset is given twice: as 'b.nc', and as 'a.nc' in 'bad.json'. hint: Give",
        ),
        ("{}", ("--field", "a=b"), 2, "Options of a stencil cannot be combined with it; write"),
        ("{}", ("--steps", "2"), 2, "Options of a stencil cannot be combined with it; write"),
        ('{"expression": "2.0 * a"}', (), 3, "error: Input 'dataset' is missing."),
        ('{"dataset": "a.nc", "expression": "2.0 *"}', (), 3, "line 1, column"),
    ],
)
def test_messages(
    service: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str | None,
    words: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("bad.json").write_text(text)
    found, _, err = command(service, capsys, "submit", "bad.json", *words, "--process", "column")
    assert found == code
    assert message in err


def test_a_stencil_needs_a_dataset(service: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = command(service, capsys, "submit", "halve.py")
    assert code == 2
    assert "Invalid value for DATASET: A stencil needs one." in err
