"""Files that cannot be read or written: the same error here and on a cluster."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from clusters import MadeUp

import halocline_engine as he
from halocline_engine.distribute.executors.dask import ClusterPool
from halocline_engine.distribute.jobs.outputs import temporary_folder
from halocline_engine.distribute.tasks.events import BlockFinished, Event

DOUBLED = """
def doubled(inp: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = 2.0 * inp
"""
CALLS: dict[str, Callable[..., xr.Dataset]] = {
    "run": partial(he.run, DOUBLED, target="cpu", chunks={"y": 4, "x": 6}),
    "tridiagonal": partial(
        he.tridiagonal,
        lower="inp",
        diagonal="inp",
        upper="inp",
        rhs="inp",
        dim="x",
        target="cpu",
        chunks={"y": 2},
    ),
    "gather": partial(he.gather, source="inp", index="index", dim="x", target="cpu"),
    "matmul": partial(he.matmul, left="inp", right="turned", dim="x", target="cpu"),
}
Said = tuple[type[he.HaloclineError], str]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    random = np.random.default_rng(4)
    data = xr.Dataset(
        {
            "inp": (("y", "x"), random.random((8, 12))),
            "turned": (("x", "z"), random.random((12, 3))),
            "index": ("point", np.array([1, 11])),
        }
    )
    path = tmp_path / "in.zarr"
    chunks = {"inp": {"chunks": (4, 6)}}
    data.to_zarr(path, zarr_format=3, consolidated=False, encoding=chunks)  # pyright: ignore[reportArgumentType, reportCallIssue]
    return path


def said(call: Callable[..., object], *arguments: Any, **named: Any) -> Said:
    with pytest.raises(he.HaloclineError) as caught:
        call(*arguments, **named)
    return type(caught.value), str(caught.value)


def damaged(store: Path, how: str) -> Path:
    file = store / "inp" / "c" / "1" / "1"
    file.unlink()
    if how == "broken":
        file.write_bytes(b"x" * 50)
    else:
        file.symlink_to(file)
    return file


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("how", ["broken", "unreadable"])
def test_a_chunk_is_named_everywhere(call: str, how: str, store: Path, two_workers: Any) -> None:
    file = damaged(store, how)
    kind, message = said(CALLS[call], store)
    assert kind is he.DatasetError
    assert message.startswith(f"Chunk (1, 1) of variable 'inp' of '{store}' cannot be decoded: ")
    assert f"The file '{file}' is damaged" in message
    assert said(CALLS[call], store, cluster=two_workers) == (kind, message)


@pytest.mark.parametrize("call", CALLS)
def test_what_xarray_opened(call: str, store: Path, two_workers: Any) -> None:
    damaged(store, "broken")
    lazy = xr.open_zarr(store, consolidated=False, chunks=None)
    kind, message = said(CALLS[call], lazy)
    assert kind is he.DatasetError
    assert message == (
        "Variable 'inp' of the dataset cannot be read: RuntimeError: Zstd decompression error:"
        " invalid input data. Correct its source or its computation."
    )
    kind, message = said(CALLS[call], lazy, cluster=two_workers)
    assert kind is he.DatasetError
    assert "'inp'" in message
    assert " of the dataset cannot be read: RuntimeError: Zstd decompression error" in message


def test_what_dask_computes(two_workers: Any) -> None:
    def failing(_: object) -> Any:
        raise RuntimeError("no such thing")

    dask: Any = da
    zeros = dask.zeros((8, 12), chunks=(4, 6))
    values = zeros.map_blocks(failing, dtype=float, meta=np.zeros((0, 0)))
    data = xr.Dataset({"inp": (("y", "x"), values)})
    expected = (
        he.DatasetError,
        "Variable 'inp' of the dataset cannot be read: RuntimeError: no such thing. Correct its"
        " source or its computation.",
    )
    assert said(CALLS["run"], data) == expected
    assert said(CALLS["run"], data, cluster=two_workers) == expected


@pytest.mark.parametrize("call", ["run", "tridiagonal"])
@pytest.mark.parametrize("where", ["here", "cluster"])
def test_a_place_that_is_lost_meanwhile(
    call: str, where: str, store: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = tmp_path / "results"
    place.mkdir()

    def spoil(event: Event) -> None:
        if isinstance(event, BlockFinished):
            for number, folder in enumerate(place.rglob("c")):
                # Workers may be quicker, and win.
                with suppress(OSError):
                    folder.rename(tmp_path / f"lost-{event.done}-{number}")
                    folder.write_text("in the way")

    named = {} if where == "here" else {"cluster": request.getfixturevalue("two_workers")}
    output = place / "out.zarr"
    cut = {"chunks": {"y": 1, "x": 1}} if call == "run" else {"chunks": {"y": 1}}
    kind, message = said(CALLS[call], store, output=output, on_event=spoil, **cut, **named)
    assert kind is he.OutputError
    assert message.startswith(f"Writing to '{place}/.out.zarr.")
    assert ".part' failed: " in message
    assert message.endswith(" Repair the disk or the folder, or choose another one with output=.")
    assert list(place.iterdir()) == []


def test_an_error_of_a_file_is_no_lost_cluster() -> None:
    denied = PermissionError(errno.EACCES, "Permission denied", "/some/file")
    pool: Any = ClusterPool(MadeUp("tcp://here:1", answer=denied))
    with pytest.raises(PermissionError, match="some/file"):
        pool._ask(int)


def test_a_folder_that_is_still_written_to_goes_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something is written into it just before it is removed, twice."""
    whole = os.rmdir
    calls: list[str] = []

    def busy(name: str, **given: Any) -> None:
        calls.append(name)
        if len(calls) <= 2:
            (made / "0").write_text("late")
        whole(name, **given)

    monkeypatch.setattr(os, "rmdir", busy)
    with temporary_folder(tmp_path) as made:
        (made / "zarr.json").write_text("x")
    assert len(calls) == 3
    assert list(tmp_path.iterdir()) == []
