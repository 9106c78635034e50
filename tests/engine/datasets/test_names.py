"""What results may be called: whoever makes them, in memory and in a store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.datasets.names import check_results
from halocline_engine.datasets.storing.array_names import storable
from halocline_engine.errors import ArgumentError, FieldError, RequestError

DOUBLE = """
def double(a: Field[np.float64], out: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        out = 2.0 * a
"""
DATASET = xr.Dataset(
    {
        **{name: (("y", "x"), np.ones((2, 4))) for name in ("low", "up", "b")},
        "diagonal": (("y", "x"), np.full((2, 4), 4.0)),
        "columns": (("x", "w"), np.ones((4, 3))),
        "index": ("p", [1, 2]),
        "place": ("x", [3, 2, 1, 0]),
    },
    coords={"x": np.arange(4.0), "lat": ("y", [0.0, 1.0]), "z": ("z", [0.5], {"axis": "Z"})},
)


def tridiagonal(name: Any, output: Path | None = None) -> xr.Dataset:
    return he.tridiagonal(
        DATASET,
        lower="low",
        diagonal="diagonal",
        upper="up",
        rhs="b",
        dim="x",
        name=name,
        target="reference",
        output=output,
    )


def gathered(name: Any, output: Path | None = None) -> xr.Dataset:
    return he.gather(
        DATASET, source="b", index="index", dim="x", name=name, target="reference", output=output
    )


def scattered(name: Any, output: Path | None = None) -> xr.Dataset:
    return he.scatter(
        DATASET,
        source="b",
        index="place",
        dim="q",
        size=4,
        name=name,
        target="reference",
        output=output,
    )


def multiplied(name: Any, output: Path | None = None) -> xr.Dataset:
    return he.matmul(
        DATASET, left="b", right="columns", dim="x", name=name, target="reference", output=output
    )


def doubled(name: Any, output: Path | None = None) -> xr.Dataset:
    fields, axes = {"a": "b", "out": name}, {"I": "x", "J": "y"}
    return he.run(DOUBLE, DATASET, fields=fields, axes=axes, target="reference", output=output)


MAKERS = (tridiagonal, gathered, scattered, multiplied, doubled)
_Make = Callable[..., xr.Dataset]


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "...",
        "a/b",
        "/a",
        "a\\b",
        "a\0",
        "zarr.json",
        ".zarray",
        "\ud800",
        "t\n",
        ".t",
        "a:b",
        "a?",
        "a#b",
        "a%2eb",
    ],
)
def test_what_has_no_place_in_a_store_is_refused(name: str) -> None:
    assert not storable(name)
    with pytest.raises(FieldError, match="is not a valid array name"):
        check_results([name], ())


@pytest.mark.parametrize("name", ["t", "sea surface", "__t", "rate (%)", "ä" * 120])
def test_any_plain_name_has_a_place(name: str, tmp_path: Path) -> None:
    assert storable(name)
    made = gathered(name, tmp_path / "out.zarr")
    assert (made[name].values == 1.0).all()
    assert not storable(name + "t" * 240)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("stored", [False, True])
def test_every_function_refuses_the_same_names(make: _Make, stored: bool, tmp_path: Path) -> None:
    output = tmp_path / "out.zarr" if stored else None
    for name in ("y", "lat", "..", "a/b", "zarr.json", "t" * 241):
        with pytest.raises(FieldError):
            make(name, output)
    for wrong in (3, None, ["t"]):
        with pytest.raises(ArgumentError):
            make(wrong, output)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("make", "name", "message"),
    [
        (
            tridiagonal,
            "lat",
            "The result cannot be named 'lat': a dimension or coordinate has it already. Give"
            " another 'name'.",
        ),
        (
            tridiagonal,
            "t" * 240,
            "The result cannot be named 'tttttttttttt...tttttt_status' because that is not a"
            " valid array name. Give it a shorter name: it has 247 bytes, and at most 240 are"
            " possible.",
        ),
        (
            gathered,
            "p/q",
            "The result cannot be named 'p/q' because that is not a valid array name. Give a"
            " 'name' of letters, digits and underscores.",
        ),
        (
            scattered,
            3,
            "Argument 'name' must be the name of the result, got the int 3. Write it as text, in"
            " quotes.",
        ),
        (
            doubled,
            "y",
            "Field 'out' is written, but 'y' is a dimension. Give it another name with"
            " fields={...}.",
        ),
        (
            doubled,
            "a/b",
            "Field 'out' is written, but 'a/b' is not a valid array name. Give it another"
            " name with fields={...}.",
        ),
    ],
)
def test_messages_say_what_is_wrong_with_a_name(make: _Make, name: str, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        make(name)
    assert str(caught.value) == message


def test_two_variables_of_a_result_have_two_names() -> None:
    check_results(["t", "t_status"], {"x"})
    with pytest.raises(FieldError) as caught:
        check_results(["t", "u", "t"], ())
    assert (
        str(caught.value) == "Two variables of the result would be named 't'. Give another 'name'."
    )
