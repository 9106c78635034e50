"""Matrix products on datasets, against xarray's own, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.datasets.chunk_files.raw import RawArray
from halocline_engine.distribute.products import job
from halocline_engine.distribute.tasks.events import BlockFinished, Event, Finished, Planned
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.errors import ArgumentError, CancelledError, CapacityError, FieldError
from halocline_engine.kernels.matmul.problem import CutSizes

SIZES = {"t": 3, "a": 37, "b": 29, "k": 53, "c": 4}
SMALL = CutSizes(outer=16, inner=16, unit=4)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut products into many tiles."""
    monkeypatch.setattr(job, "CUTS", {"reference": SMALL, "cpu": SMALL})


def drawn(left: str, right: str, types: tuple[str, str] = ("f8", "f8")) -> xr.Dataset:
    rng = np.random.default_rng(3)
    return xr.Dataset(
        {
            name: (tuple(dims), rng.normal(size=[SIZES[d] for d in dims]).astype(dtype))
            for name, dims, dtype in zip("lr", (left, right), types, strict=True)
        },
        coords={"a": np.arange(37) * 2.0, "lon": (("b",), np.arange(29.0))} if "a" in left else {},
        attrs={"title": "made", "history": "before"},
    )


def values(found: xr.Dataset) -> Any:
    return found["product"].values


def dot(dataset: xr.Dataset) -> Any:
    return cast("Any", xr).dot(dataset.l, dataset.r, dim="k")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("target", ["reference", "cpu"])
@pytest.mark.parametrize(
    "dims",
    ["ak kb", "ka bk", "ak k", "k kb", "k k", "tak tkb", "atk kbt", "tk tk", "ckta bk", "ack kbt"],
)
def test_products_are_those_of_xarray(dims: str, target: str) -> None:
    left, right = dims.split()
    dataset = drawn(left, right)
    wanted = dot(dataset)
    found = he.matmul(dataset, left="l", right="r", dim="k", target=target)
    assert found["product"].dims == wanted.dims
    np.testing.assert_allclose(values(found), wanted.values, rtol=1e-13, atol=1e-12)


@pytest.mark.parametrize("target", ["reference", "cpu"])
@pytest.mark.parametrize(
    ("types", "made"), [(("f4", "f4"), "f4"), (("f4", "f8"), "f8"), ((">f8", "f4"), "f8")]
)
def test_types(types: tuple[str, str], made: str, target: str) -> None:
    dataset = drawn("ak", "kb", types)
    found = he.matmul(dataset, left="l", right="r", dim="k", name="p", target=target)
    assert found["p"].dtype == np.dtype(made)
    exact = dataset.l.values.astype("f8") @ dataset.r.values.astype("f8")
    within = 1e-14 if made == "f8" else 1e-5
    np.testing.assert_allclose(found["p"].values, exact, rtol=within, atol=within)


def test_the_judge_rounds_once() -> None:
    dataset = drawn("ak", "kb", ("f4", "f4"))
    found = he.matmul(dataset, left="l", right="r", dim="k", target="reference")
    exact = dataset.l.values.astype("f8") @ dataset.r.values.astype("f8")
    np.testing.assert_array_equal(values(found), exact.astype("f4"))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_what_is_not_a_number_stays_in_its_rows_and_columns(target: str) -> None:
    dataset = drawn("ak", "kb")
    dataset.l[5, 7], dataset.r[50, 3] = np.nan, np.inf
    found = values(he.matmul(dataset, left="l", right="r", dim="k", target=target))
    assert np.isnan(found[5]).all()
    finite = np.isfinite(np.delete(found, 5, axis=0))
    assert not finite[:, 3].any()
    assert np.delete(finite, 3, axis=1).all()


def test_empty_sums_and_empty_results() -> None:
    for shape in ((3, 0, 2), (0, 4, 2), (3, 4, 0)):
        dataset = xr.Dataset(
            {"l": (("a", "k"), np.ones(shape[:2])), "r": (("k", "b"), np.ones(shape[1:]))}
        )
        found = he.matmul(dataset, left="l", right="r", dim="k", target="cpu")
        np.testing.assert_array_equal(values(found), np.zeros((shape[0], shape[2])))


@pytest.mark.usefixtures("small")
def test_chunks_memory_and_stores_change_no_bit(tmp_path: Path) -> None:
    dataset = drawn("tak", "tbk", ("f4", "f4"))
    asked: dict[str, Any] = {"left": "l", "right": "r", "dim": "k", "target": "cpu"}
    whole = values(he.matmul(dataset, **asked))
    plain: dict[str, Any] = {"compressors": ()}
    for number, (chunks, encoding, memory) in enumerate(
        [
            ((2, 7, 11), dict[str, Any](), 10**9),
            ((1, 16, 20), plain, 120_000),
            ((3, 37, 53), dict[str, Any](), 70_000),
        ]
    ):
        path = tmp_path / f"{number}.zarr"
        each = {n: {"chunks": tuple(map(min, chunks, dataset[n].shape)), **encoding} for n in "lr"}
        cast("Any", dataset).to_zarr(path, encoding=each, consolidated=False)
        events: list[Event] = []
        found = he.matmul(
            path,
            **asked,
            chunks={"a": 16 * (number + 1), "b": 5},
            output=tmp_path / f"made{number}.zarr",
            options=Options(memory_limit=memory),
            on_event=events.append,
        )
        np.testing.assert_array_equal(values(found), whole)
        assert isinstance(events[0], Planned)
        assert isinstance(events[-1], Finished)
        done = [event for event in events if isinstance(event, BlockFinished)]
        assert [event.done for event in done] == list(range(1, events[0].blocks + 1))


def test_two_dimensions_use_the_files_of_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = CutSizes(outer=16, inner=16, unit=4)
    monkeypatch.setattr(job, "CUTS", {"cpu": cut})
    dataset = drawn("ak", "kb", ("f4", "f4"))
    dataset.l[30:, :12] = np.nan
    asked: dict[str, Any] = {"left": "l", "right": "r", "dim": "k", "target": "cpu"}
    whole = values(he.matmul(dataset, **asked))
    encoding = {n: {"chunks": (10, 12), "compressors": (), "_FillValue": None} for n in "lr"}
    cast("Any", dataset).to_zarr(tmp_path / "in", encoding=encoding, consolidated=False)
    assert not (tmp_path / "in/l/c/3/0").exists()  # as Zarr leaves out chunks of fill values
    with (
        patch.object(RawArray, "read_into", autospec=True, side_effect=RawArray.read_into) as read,
        patch.object(RawArray, "write", autospec=True, side_effect=RawArray.write) as write,
    ):
        found = he.matmul(tmp_path / "in", **asked, output=tmp_path / "out")
    np.testing.assert_array_equal(values(found), whole)
    assert read.call_count > 0
    regions = {str(call.args[1]) for call in write.call_args_list}
    assert write.call_count == len(regions) == 6


def test_what_is_kept(tmp_path: Path) -> None:
    dataset = drawn("ak", "kb")
    found = he.matmul(dataset, left="l", right="r", dim="k", target="cpu", output=tmp_path / "out")
    assert set(found.coords) == {"a", "lon"}
    assert found["product"].attrs == {}
    assert found.attrs["title"] == "made"
    lines = found.attrs["history"].split("\n")
    assert lines[0].endswith(": product of 'l' and 'r' over 'k'")
    assert lines[1] == "before"


@pytest.mark.usefixtures("small")
def test_a_product_is_cancelled(tmp_path: Path) -> None:
    looks = iter(range(10_000))
    with pytest.raises(CancelledError):
        he.matmul(
            drawn("ak", "kb"),
            left="l",
            right="r",
            dim="k",
            target="cpu",
            output=tmp_path / "out",
            cancelled=lambda: next(looks) > 7,
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"left": "x"}, FieldError, "The dataset has no variable 'x'. There are 'a', 'l', "),
        (
            {"dim": "a"},
            FieldError,
            "Variable 'r' has no dimension 'a' to sum over; it has 'k', 'b'. Both variables must"
            " have it.",
        ),
        (
            {"right": "n"},
            FieldError,
            "Variable 'n' has values of type 'int64'; a product needs 'float32' or 'float64'."
            " Convert it with astype.",
        ),
        (
            {"name": "lon"},
            FieldError,
            "The result cannot be named 'lon': a dimension or coordinate has it already. Give"
            " another 'name'.",
        ),
        (
            {"name": "x/y"},
            FieldError,
            "The result cannot be named 'x/y' because that is not a valid array name. Give a"
            " 'name' of letters, digits and underscores.",
        ),
        (
            {"left": 3},
            ArgumentError,
            "Argument 'left' must be the name of a variable, got the int 3.",
        ),
        (
            {"dim": ["k"]},
            ArgumentError,
            "Argument 'dim' must be the name of a dimension, got the list ['k'].",
        ),
        (
            {"name": None},
            ArgumentError,
            "Argument 'name' must be the name of the result, got the NoneType None.",
        ),
        (
            {"mode": "resident"},
            ArgumentError,
            "Argument 'mode' must be 'auto' or 'streamed', got the str 'resident'. Leave it out.",
        ),
        (
            {"chunks": {"k": 4}},
            ArgumentError,
            "Dimension 'k' is summed over in fixed pieces, but 'chunks' names it. Leave it out; a"
            " store that is chunked along it will do.",
        ),
        (
            {"chunks": {"q": 4}},
            ArgumentError,
            "Argument 'chunks' must name dimensions of the product, got 'q'. There are 'a', 'b'.",
        ),
        (
            {"chunks": {"a": 0}},
            ArgumentError,
            "Argument 'chunks' must be at least 1 along 'a', got 0."
            " Leave it out: sizes are then planned from memory.",
        ),
    ],
)
def test_messages(change: dict[str, Any], kind: type[Exception], message: str) -> None:
    dataset = drawn("ak", "kb").assign(n=(("k", "b"), np.ones((53, 29), int)))
    asked: dict[str, Any] = {"left": "l", "right": "r", "dim": "k", "target": "cpu"}
    with pytest.raises(kind, match=re.escape(message)):
        he.matmul(dataset, **{**asked, **change})


def test_a_product_without_rows_goes_to_a_store(tmp_path: Path) -> None:
    dataset = drawn("ak", "kb").isel(a=slice(0))
    asked: dict[str, Any] = {"left": "l", "right": "r", "dim": "k", "target": "cpu"}
    assert values(he.matmul(dataset, **asked, output=tmp_path / "out")).shape == (0, 29)


def test_a_result_that_does_not_fit_has_a_way_out() -> None:
    asked: dict[str, Any] = {"left": "l", "right": "r", "dim": "k", "target": "cpu"}
    dataset = xr.Dataset(
        {"l": (("a", "k"), np.ones((600, 2))), "r": (("k", "b"), np.ones((2, 600)))}
    )
    options = Options(memory_limit=2_500_000)
    with pytest.raises(CapacityError) as caught:
        he.matmul(dataset, **asked, options=options)
    assert str(caught.value) == (
        "The product needs 2880000 bytes of memory as a result of this process, but it may take"
        " 2500000. Give an 'output', so that it is written to a store."
    )


def test_memory_is_refused_with_numbers() -> None:
    with pytest.raises(CapacityError) as caught:
        he.matmul(
            drawn("ak", "kb"),
            left="l",
            right="r",
            dim="k",
            target="cpu",
            options=Options(memory_limit=200_000),
        )
    error = caught.value
    assert 0 < error.available < error.needed
    assert str(error) == (
        f"A product in tiles of 37 x 29 needs {error.needed} bytes of memory, but"
        f" {error.available} are free for it. Use workers with more memory; the size of tiles"
        " is fixed for repeatable results."
    )
