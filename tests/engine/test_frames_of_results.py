"""Coordinates and attributes that a store has no place for: refused before any work."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd  # pyright: ignore[reportMissingTypeStubs] - it has none
import pytest
import xarray as xr

import halocline_engine as he

DOUBLED = """
def doubled(inp: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = 2.0 * inp
"""
STEPS: dict[str, Any] = {"steps": 2, "feedback": {"out": "inp"}, "target": "reference"}
BANDS: dict[str, Any] = {"lower": "inp", "diagonal": "inp", "upper": "inp", "rhs": "inp"}
DROP = "Rename or drop it before the run."
TYPES = "Convert them to numbers or texts, or drop it, before the run."
VALUES = "Use texts as names, and texts, numbers or lists of them as values."


def data() -> xr.Dataset:
    values = ("y", "x"), np.ones((4, 6))
    return xr.Dataset({"inp": values, "index": ("point", np.array([1, 0]))})


def pairs() -> xr.Dataset:
    both = pd.MultiIndex.from_product([[0, 1], [0, 1, 2]], names=("a", "b"))
    return data().assign_coords(xr.Coordinates.from_pandas_multiindex(both, "x"))


CASES: dict[str, tuple[Any, str]] = {
    "a MultiIndex": (
        pairs(),
        "The coordinate 'x' is part of a MultiIndex, which no store can hold. Take it apart with"
        " reset_index('x') before the run; set_index puts it together again.",
    ),
    "a number as a name": (
        data().assign_coords({cast("Any", 7): ("x", np.arange(6.0))}),
        "The coordinate 7 cannot be stored, as its name is not a valid array name. " + DROP,
    ),
    "a name that is a path": (
        data().assign_coords({"a/b": ("x", np.arange(6.0))}),
        "The coordinate 'a/b' cannot be stored, as its name is not a valid array name. " + DROP,
    ),
    "types of pandas": (
        data().assign_coords(x=pd.period_range("2000", "2005", freq="Y")),
        "The coordinate 'x' has values of type 'period[Y-DEC]', which no store can hold. " + TYPES,
    ),
    "a mixture": (
        data().assign_coords(o=("x", np.array([1, "a", None, 2, 3, 4], object))),
        "The coordinate 'o' has values of the types 'NoneType', 'int', 'str', which no store can"
        " hold. " + TYPES,
    ),
    "a mixture beside its dimension": (
        data().assign_coords(x=np.array([1, 2.5, True, 2, 3, 4], object)),
        "The coordinate 'x' has values of the types 'bool', 'float', 'int', which no store can"
        " hold. " + TYPES,
    ),
    "objects": (
        data().assign_coords(o=((), np.array({"a": 1}, object))),
        "The coordinate 'o' has values of type 'dict', which no store can hold. " + TYPES,
    ),
    "an attribute": (
        data().assign_attrs(source=print),
        "The attribute 'source' of the dataset cannot be stored, as it is <built-in function"
        " print>, the builtin_function_or_method. " + VALUES,
    ),
    "an attribute of a coordinate": (
        data().assign_coords(x=("x", np.arange(6.0), {1: "one"})),
        "The attribute 1 of 'x' cannot be stored, as it is 'one', the str. " + VALUES,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_stored_is_said_first(case: str, tmp_path: Path) -> None:
    dataset, message = CASES[case]
    events: list[object] = []
    output = tmp_path / "out.zarr"
    with pytest.raises(he.OutputError) as caught:
        he.run(DOUBLED, dataset, **STEPS, output=output, on_event=events.append)
    assert str(caught.value) == message
    with pytest.raises(he.OutputError) as caught:
        he.tridiagonal(
            dataset, **BANDS, dim="y", target="cpu", output=output, on_event=events.append
        )
    assert str(caught.value) == message
    assert events == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("case", CASES)
def test_in_memory_all_of_it_stays(case: str) -> None:
    dataset, _ = CASES[case]
    result = he.run(DOUBLED, dataset, **STEPS)
    assert set(result.coords) == set(dataset.coords)
    assert set(result.xindexes) == set(dataset.xindexes)


def test_objects_that_a_store_can_hold(tmp_path: Path) -> None:
    texts = np.array(["a", None, "b", "c", "d", np.nan], object)
    days = xr.date_range("2000-01-01", periods=6, calendar="noleap", use_cftime=True)
    dataset = data().assign_coords(
        o=("x", texts), b=("x", np.array([b"a", *"bcdef"], object)), t=("x", days)
    )
    found = he.run(DOUBLED, dataset, **STEPS, output=tmp_path / "out.zarr")
    assert found["o"].values[[0, 2, 3, 4]].tolist() == ["a", "b", "c", "d"]
    assert found["t"].values.tolist() == list(days)


def test_a_mixture_that_is_made_by_dask(tmp_path: Path) -> None:
    """It is not known before it is read."""
    mixed = np.array([1, "a", None, 2, 3, 4], object)
    dataset = data().assign_coords(o=("x", mixed)).chunk({"x": 3})
    with pytest.raises(he.OutputError) as caught:
        he.run(DOUBLED, dataset, **STEPS, output=tmp_path / "out.zarr")
    said = "The coordinates and attributes cannot be stored as Zarr: unable to infer dtype on"
    assert str(caught.value).startswith(said)
    assert list(tmp_path.iterdir()) == []


def test_dimensions_have_texts_as_names() -> None:
    numbered = data().rename({"y": cast("Any", 3)})
    with pytest.raises(he.DatasetError) as caught:
        he.run(DOUBLED, numbered, target="reference")
    assert str(caught.value) == (
        "The dimension 3 of the dataset must have a text as its name. Write"
        " dataset.rename({3: '...'})."
    )
