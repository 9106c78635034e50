"""What is read for a block counts: chunks are decoded whole. And no file stays open."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from memory_taken import FORMS, KINDS, taken, write

import halocline_engine as he
from halocline_engine.datasets.inputs.opening import open_source
from halocline_engine.distribute.jobs.reading import Chunked, chunked
from halocline_engine.errors import CapacityError

CHUNK = 1 << 20


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores")
    for form in FORMS:
        write(folder / form, form, CHUNK)
    return folder


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_chunks_that_do_not_fit_are_refused(stores: Path, kind: str, form: str) -> None:
    """A block may be as small as a column; what it is cut from is decoded all the same."""
    job, given = KINDS[kind]
    options = he.Options(memory_limit=2 * CHUNK)
    with pytest.raises(CapacityError) as caught:
        job(dataset=stores / form, **given, target="cpu", output=stores / "no", options=options)
    assert caught.value.needed is not None
    assert caught.value.needed > CHUNK
    assert not (stores / "no").exists()


def test_what_reading_needs_is_said(stores: Path, tmp_path: Path) -> None:
    job, given = KINDS["tridiagonal"]
    options = he.Options(memory_limit=2 * CHUNK)
    with pytest.raises(CapacityError) as caught:
        job(
            dataset=stores / "packed",
            **given,
            target="cpu",
            output=tmp_path / "no",
            options=options,
        )
    assert str(caught.value) == (
        f"The smallest block and the chunks that are decoded for it need {caught.value.needed}"
        f" bytes of memory, but {CHUNK} are free for them. Store the dataset in smaller chunks,"
        " give smaller 'chunks', or use workers with more memory."
    )


@pytest.mark.parametrize("kind", KINDS)
def test_no_file_stays_open(stores: Path, tmp_path: Path, kind: str) -> None:
    job, given = KINDS[kind]
    path = tmp_path / "a.nc"
    path.write_bytes((stores / "netcdf").read_bytes())
    result = job(dataset=path, **given, target="cpu")
    held = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    assert str(path) not in held
    path.unlink()
    result.load()


@pytest.mark.parametrize(("kind", "form"), [("tridiagonal", "v2"), ("matmul", "packed")])
def test_growth_is_within_the_projection(kind: str, form: str) -> None:
    """A fresh process, whose blocks are chunks of 16 MB that cannot be compressed."""
    (found,) = taken([kind], form, 16_000_000)
    assert found.taken <= 1.15 * found.projected


def test_what_a_read_takes(tmp_path: Path) -> None:
    write(tmp_path / "shards", "shards", CHUNK)
    opened = open_source(tmp_path / "shards")
    shards = chunked(opened, "a")
    assert (shards.chunks[1], shards.pieces[1], shards.at_once) == (8192, 2048, 10)
    assert shards.bytes({"x": 2048}) == 2 * 2 * 16 * 2048 * 8
    assert shards.bytes({"x": 2049}) == 2 * 2 * 16 * 3 * 2048 * 8
    values = xr.Dataset({"a": ("x", np.ones(8))})
    values["a"].encoding["chunks"] = (4,)
    assert chunked(open_source(values), "a").bytes({}) == 0
    parts = values.chunk(x=2)  # pyright: ignore[reportUnknownMemberType] - partly annotated
    assert chunked(open_source(parts), "a").bytes({"x": 4}) == (2 + 1) * 16
    one = Chunked(("t", "x"), (9, 100), (1, 30), (1, 30), 4, 1)
    assert one.bytes({"t": 5, "x": 31}) == 2 * 30 * 4
