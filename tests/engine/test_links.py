"""Where results and passes go, by whatever name it is given."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.distribute.jobs.checkpoint import begin_pass

DOUBLED = """
def doubled(inp: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = 2.0 * inp
"""
STEPS: dict[str, Any] = {"steps": 3, "feedback": {"out": "inp"}, "target": "reference"}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "in.zarr"
    values = ("y", "x"), np.ones((4, 6))
    data = xr.Dataset({"inp": values, "index": ("point", np.array([3, 1]))})
    data.to_zarr(path, zarr_format=3, consolidated=False)
    return path


def everything(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def refused(folder: Path, **given: Any) -> str:
    """Return what a run says that must change nothing."""
    before = everything(folder)
    source = given.pop("source")
    with pytest.raises(he.OutputError) as caught:
        he.run(DOUBLED, source, **STEPS, **given)
    assert everything(folder) == before
    return str(caught.value)


def test_no_output_through_a_link_to_the_input(store: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(store)
    output = link / "out.zarr"
    said = (
        f"The output '{output}' lies on the input '{store}'. Choose a place outside of the input."
    )
    assert refused(tmp_path, source=store, output=output) == said
    assert refused(tmp_path, source=link, output=output) == said
    with pytest.raises(he.OutputError, match="lies on the input"):
        he.gather(store, source="inp", index="index", dim="x", target="cpu", output=output)


def test_no_output_in_what_xarray_opened(store: Path, tmp_path: Path) -> None:
    opened = xr.open_zarr(store, consolidated=False)
    said = refused(tmp_path, source=opened, output=store / "out.zarr")
    assert said.startswith(f"The output '{store}/out.zarr' lies on the input '{store}'.")


def test_no_workspace_on_the_input(store: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(store)
    for place in (store, store / "passes", link):
        assert refused(tmp_path, source=store, workspace=place) == (
            f"The workspace '{place}' lies on the input '{store}'. Choose a place outside of the"
            " input."
        )


def test_no_workspace_on_the_output(store: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.zarr"
    assert refused(tmp_path, source=store, output=output, workspace=output / "passes") == (
        f"The workspace '{output}/passes' lies on the output '{output}'. Choose a place outside of"
        " the output."
    )


def test_a_workspace_that_cannot_be_made(store: Path, tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("precious")
    link.symlink_to(tmp_path / "nowhere")
    for place in (file, link):
        assert refused(tmp_path, source=store, workspace=place / "passes") == (
            f"The workspace '{place}/passes' cannot be made, as '{place}' is no directory. Choose"
            " another place."
        )


def test_a_workspace_that_may_not_be_written(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(_path: object, _mode: int) -> bool:
        return False

    monkeypatch.setattr(os, "access", forbidden)
    assert refused(tmp_path, source=store, workspace=tmp_path / "passes") == (
        f"The workspace '{tmp_path}/passes' cannot be made, as '{tmp_path}' cannot be written to."
        " Choose another place."
    )


def test_passes_stay_in_the_workspace(tmp_path: Path) -> None:
    elsewhere, workspace = tmp_path / "elsewhere", tmp_path / "work"
    (elsewhere / "pass-000001").mkdir(parents=True)
    precious = elsewhere / "pass-000001" / "precious"
    precious.write_text("kept")
    workspace.mkdir()
    (workspace / "attempt-0").symlink_to(elsewhere)
    with pytest.raises(he.OutputError) as caught:
        begin_pass(workspace, 0, 1)
    assert str(caught.value) == (
        f"The folder '{workspace}/attempt-0' of the workspace is a link to another place. Remove"
        " it, or choose another workspace."
    )
    (workspace / "attempt-1").mkdir()
    link = workspace / "attempt-1" / "pass-000001"
    link.symlink_to(elsewhere / "pass-000001")
    with pytest.raises(he.OutputError, match="Halocline did not make that"):
        begin_pass(workspace, 1, 1)
    assert link.is_symlink()
    assert precious.read_text() == "kept"


def test_names_that_are_too_long(store: Path, tmp_path: Path) -> None:
    output = tmp_path / ("a" * 161)
    assert refused(tmp_path, source=store, output=output) == (
        f"The name of the output '{output}' is longer than 160 bytes. Choose a shorter one."
    )
    longer = tmp_path / ("a" * 300)
    assert refused(tmp_path, source=store, output=longer).startswith("The name of the output '")
    assert refused(tmp_path, source=store, output=longer / "out.zarr") == (
        f"The output's directory '{longer}' does not exist. Make it first."
    )
    with pytest.raises(he.DatasetError, match="does not exist"):
        he.run(DOUBLED, "a" * 300, target="reference")


def test_no_home_and_no_path(store: Path) -> None:
    with pytest.raises(he.ArgumentError) as caught:
        he.run(DOUBLED, store, target="reference", output="~nobody-of-that-name/out.zarr")
    assert str(caught.value) == (
        "The path '~nobody-of-that-name/out.zarr' begins with an unknown home directory."
        " Write the whole path, or './~...' for a name that begins so."
    )
    with pytest.raises(he.ArgumentError) as caught:
        he.run(DOUBLED, store, target="reference", output="out\0.zarr")
    assert str(caught.value).startswith("Argument 'output' must be a path, got the str 'out")


def weights_file(folder: Path) -> Path:
    places = np.arange(1, 25)
    made = xr.Dataset(
        {
            "row": ("n_s", places),
            "col": ("n_s", places),
            "S": ("n_s", np.ones(24)),
            "src_grid_dims": ("a", np.array([6, 4])),
            "dst_grid_dims": ("b", np.array([6, 4])),
        }
    )
    made.to_zarr(folder / "weights.zarr", zarr_format=3, consolidated=False)
    return folder / "weights.zarr"


def factors_of(folder: Path) -> Path:
    values = {"l": 1.0, "d": 4.0, "u": 1.0}
    bands = {name: (("y", "x"), np.full((4, 6), value)) for name, value in values.items()}
    place = folder / "factors.zarr"
    names: dict[str, Any] = {"lower": "l", "diagonal": "d", "upper": "u"}
    he.factor(xr.Dataset(bands), **names, dim="x", target="cpu", output=place)
    return place


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("what", ["weights", "factors"])
def test_no_output_in_what_is_read_beside_the_input(
    what: str, opened: bool, store: Path, tmp_path: Path
) -> None:
    place = weights_file(tmp_path) if what == "weights" else factors_of(tmp_path)
    (tmp_path / "link").symlink_to(place)
    output = tmp_path / "link" / "out.zarr"
    beside = xr.open_zarr(place, consolidated=False) if opened else place
    before = everything(tmp_path)
    call = (
        partial(he.regrid, store, beside, variables=["inp"])
        if what == "weights"
        else partial(he.solve, store, factors=beside, rhs="inp")
    )
    with pytest.raises(he.OutputError) as caught:
        call(target="cpu", output=output)
    assert str(caught.value) == (
        f"The output '{output}' lies on the {what} '{place}'. Choose a place outside of the {what}."
    )
    assert everything(tmp_path) == before
