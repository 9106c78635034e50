"""Arguments of a wrong kind: what is said, wherever they are given."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.arguments import place_of, sizes_by_name, source_of
from halocline_engine.errors import ArgumentError

DOUBLED = """
def doubled(inp: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = 2.0 * inp
"""
MEASURED = " sizes are then planned from memory."


@pytest.fixture(scope="module")
def dataset() -> xr.Dataset:
    levels = ("y", "x"), np.random.default_rng(1).random((4, 6))
    places = "x", np.arange(6)
    return xr.Dataset({"inp": levels, "a": levels, "index": places})


def said(call: Callable[..., object], /, *arguments: Any, **named: Any) -> str:
    with pytest.raises(ArgumentError) as caught:
        call(*arguments, **named)
    return str(caught.value)


@pytest.mark.parametrize(
    ("argument", "given", "expected"),
    [
        (
            "boundary",
            "periodic",
            "must be a mapping, got the str 'periodic'. "
            "Write for example boundary={'lon': 'periodic', 'lat': 'edge'}.",
        ),
        (
            "boundary",
            {1: "edge"},
            "must have names as keys, got the int 1. "
            "Write for example boundary={'lon': 'periodic', 'lat': 'edge'}.",
        ),
        (
            "scalars",
            [0.2],
            "must be a mapping, got the list [0.2]. Write for example scalars={'weight': 0.25}.",
        ),
        (
            "fields",
            {"inp": 3},
            "must give a name for 'inp', got the int 3. "
            "Write for example fields={'inp': 'temperature'}.",
        ),
        (
            "axes",
            "xy",
            "must be a mapping, got the str 'xy'. Write for example axes={'I': 'lon', 'J': 'lat'}.",
        ),
        (
            "feedback",
            {"out": None},
            "must give a name for 'out', got the NoneType None. "
            "Write for example feedback={'out': 'inp'}.",
        ),
        (
            "chunks",
            "auto",
            "must be a mapping, got the str 'auto'. "
            "Write for example chunks={'lat': 180, 'lon': 360}.",
        ),
        (
            "chunks",
            {"x": 1.5},
            "must give a whole number along 'x', got the float 1.5. "
            "Write for example chunks={'lat': 180, 'lon': 360}, or leave it out:" + MEASURED,
        ),
        (
            "externals",
            3,
            "must be a mapping, got the int 3. Write for example externals={'ORDER': 2}.",
        ),
        (
            "dtypes",
            "float32",
            "must be a mapping, got the str 'float32'. "
            "Write for example dtypes={'real': 'float32'}.",
        ),
        (
            "stencil_name",
            3,
            "must be the name of a function of the text, got the int 3. Write it as text,"
            " in quotes.",
        ),
        (
            "target",
            3,
            "must be the name of a target, got the int 3. Write it as text, in quotes.",
        ),
        (
            "cluster",
            2.5,
            "must be a number of worker processes, the address of a Dask scheduler or a"
            " distributed.Client, got the float 2.5.",
        ),
        ("output", 3, "must be a path, got the int 3. Write for example output='result.zarr'."),
        (
            "workspace",
            b"x",
            "must be a path, got the bytes b'x'. Write for example workspace='result.zarr'.",
        ),
    ],
)
def test_run(dataset: xr.Dataset, argument: str, given: Any, expected: str) -> None:
    message = said(he.run, DOUBLED, dataset, **{argument: given})
    assert message == f"Argument '{argument}' {expected}"


def test_what_is_run_and_on_what(dataset: xr.Dataset) -> None:
    assert said(he.run, 3, dataset) == (
        "Argument 'program' must be the text of a program, a file, a function or a stencil, got"
        " the int 3. Write it as text, in quotes."
    )
    assert said(he.stencil, None) == (
        "Argument 'program' must be the text of a program, a file, a function or a stencil, got"
        " the NoneType None. Give the text of a program, a file, a function or a stencil:"
        " program='...'."
    )
    assert said(he.run, DOUBLED, dataset["inp"]).startswith(
        "A dataset must be an xarray.Dataset or a path, got the DataArray. A variable becomes a"
    )
    assert said(he.run, DOUBLED, None) == (
        "A dataset must be an xarray.Dataset or a path, got the NoneType. "
        "Pass the dataset, for example xr.open_dataset('data.nc') or the path 'data.nc'."
    )


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (he.tridiagonal, {"lower": "a", "diagonal": "a", "upper": "a", "rhs": "a", "dim": "x"}),
        (he.factor, {"lower": "a", "diagonal": "a", "upper": "a", "dim": "x"}),
        (he.gather, {"source": "a", "index": "index", "dim": "x"}),
        (he.matmul, {"left": "a", "right": "a", "dim": "x"}),
    ],
)
def test_blocks_and_places(
    dataset: xr.Dataset, call: Callable[..., Any], named: Mapping[str, str]
) -> None:
    assert said(call, dataset, **named, chunks=[2]) == (
        "Argument 'chunks' must be a mapping, got the list [2]. "
        "Write for example chunks={'lat': 180, 'lon': 360}."
    )
    assert said(call, dataset, **named, output=7).startswith("Argument 'output' must be a path")


def test_column(dataset: xr.Dataset) -> None:
    assert said(he.column, 3, dataset) == (
        "Argument 'expression' must be the text of an expression, got the int 3. Write it as text,"
        " in quotes."
    )
    assert said(he.column, "inp", dataset, axis={"centre": 3}) == (
        "Argument 'axis' must give a name for 'centre', got the int 3. "
        "Write for example axis={'centre': 'lev', 'face': 'ilev'}."
    )


def test_what_is_as_good_as_a_number_or_a_path(tmp_path: Path) -> None:
    class Place(os.PathLike[str]):
        def __fspath__(self) -> str:
            return str(tmp_path)

    assert sizes_by_name("chunks", {"x": np.int16(3)}) == {"x": 3}
    assert place_of("output", Place()) == source_of(Place()) == tmp_path
    assert place_of("output", None) is None
