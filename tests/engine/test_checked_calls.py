"""A call is checked by the outline of its dataset as the call itself would be."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import xarray as xr
from mistakes import BANDS, FLUX, PROGRAM, RIGHT, sea

import halocline_engine as he
from halocline_engine.datasets.storing.outline import outline_of, outlined, without_values
from halocline_engine.functions.reports.checking import check_call

_GOOD: dict[str, Any] = {"program": PROGRAM, "scalars": {"weight": 0.25}}
_STAGES = RIGHT["sequence"]["stages"]
#: Calls that are refused for what their metadata show.
REFUSED: list[tuple[Callable[..., object], Mapping[str, Any]]] = [
    (he.run, {**_GOOD, "fields": {"t": "temp"}}),
    (he.run, {**_GOOD, "fields": {"t": "cold"}}),
    (he.run, {**_GOOD, "scalars": {}}),
    (he.run, {**_GOOD, "axes": {"I": "lon"}}),
    (he.run, {**_GOOD, "boundary": {"lon": "edge"}}),
    (he.run, {**_GOOD, "steps": 3}),
    (he.run, {**_GOOD, "chunks": {"lon": 3}}),
    (he.run, {**_GOOD, "target": "gpux"}),
    (he.column, {"expression": "Gradient(u)"}),
    (he.column, {"expression": FLUX, "axis": "lev"}),
    (he.column, {"expression": FLUX, "chunks": {"lon": 2}}),
    (he.tridiagonal, {**BANDS, "rhs": "temp"}),
    (he.tridiagonal, {**BANDS, "chunks": {"lon": 2}}),
    (he.gather, {"source": "t", "index": "here", "dim": "x"}),
    (he.gather, {"source": "t", "index": "nearest", "dim": "lon"}),
    (he.matmul, {"left": "left", "right": "right", "dim": "a"}),
    (he.matmul, {"left": "left", "right": "right", "dim": "b", "chunks": {"q": 2}}),
    (he.sequence, {"stages": [_STAGES[0], {"tridiagonal": {**BANDS, "rhs": "temp"}}]}),
]
ALLOWED: list[tuple[Callable[..., object], Mapping[str, Any]]] = [
    (he.run, _GOOD),
    (he.column, {"expression": FLUX}),
    (he.tridiagonal, BANDS),
    (he.gather, RIGHT["gather"]),
    (he.matmul, RIGHT["matmul"]),
    (he.sequence, RIGHT["sequence"]),
]


def _outlines() -> list[xr.Dataset]:
    return [outlined(json.loads(json.dumps(outline_of(sea())))), without_values(sea())]


@pytest.mark.parametrize(("function", "arguments"), REFUSED)
def test_what_is_wrong_is_said_in_the_same_words(
    function: Callable[..., object], arguments: Mapping[str, Any]
) -> None:
    with pytest.raises(he.HaloclineError) as called:
        function(dataset=sea(), **{"target": "reference", **arguments})
    for dataset in _outlines():
        with pytest.raises(he.HaloclineError) as checked:
            check_call(function, dataset=dataset, **arguments)
        assert type(checked.value) is type(called.value)
        assert str(checked.value) == str(called.value)


@pytest.mark.parametrize(("function", "arguments"), ALLOWED)
def test_what_fits_passes(function: Callable[..., object], arguments: Mapping[str, Any]) -> None:
    for dataset in _outlines():
        check_call(function, dataset=dataset, **arguments)


@pytest.mark.parametrize("function", [he.regrid, he.neighbours])
def test_a_grid_is_no_mesh_and_no_weights(function: Callable[..., object]) -> None:
    others = [{"weights": each} for each in _outlines()] if function is he.regrid else None
    others = others or [{"mesh": each, "operation": "gradient"} for each in _outlines()]
    for beside in others:
        with pytest.raises(he.DatasetError, match=r"The (weights|mesh) hold"):
            check_call(function, dataset=sea(), **beside)


def test_a_check_ends_where_a_value_is_needed() -> None:
    weights = xr.Dataset(
        {
            "row": ("n_s", [1, 1]),
            "col": ("n_s", [1, 2]),
            "S": ("n_s", [0.5, 0.5]),
            "src_grid_dims": ("src_grid_rank", [2]),
            "dst_grid_dims": ("dst_grid_rank", [1]),
        }
    )
    dataset = xr.Dataset({"t": ("cell", np.ones(2))})
    check_call(he.regrid, dataset=without_values(dataset), weights=without_values(weights))


def test_an_outline_keeps_all_but_values() -> None:
    dataset = sea().assign_attrs(title="sea", big="x" * 5000, array=np.arange(2), none=None)
    plain = outlined(json.loads(json.dumps(outline_of(dataset))))
    assert dict(plain.sizes) == dict(dataset.sizes)
    assert set(plain.coords) == set(dataset.coords)
    wanted = outline_of(dataset)["variables"]
    for one in wanted.values():
        one.pop("values", None)  # no index is made of these
    assert outline_of(plain)["variables"] == wanted
    assert plain["z"].attrs == {"axis": "Z"}
    assert plain.attrs == {"title": "sea", "array": [0, 1]}
    with pytest.raises(Exception, match="Only the outline of the dataset is known"):
        plain["t"].values  # noqa: B018


@pytest.mark.parametrize(
    "outline",
    [
        {},
        {"variables": 3, "coordinates": [], "attrs": {}},
        {"variables": {"a": {"dims": ["x"]}}, "coordinates": [], "attrs": {}},
        {
            "variables": {"a": {"dims": ["x"], "shape": [-1], "dtype": "f8", "attrs": {}}},
            "coordinates": [],
            "attrs": {},
        },
        {
            "variables": {"a": {"dims": ["x"], "shape": [1, 2], "dtype": "f8", "attrs": {}}},
            "coordinates": [],
            "attrs": {},
        },
        {
            "variables": {"a": {"dims": ["x"], "shape": [1], "dtype": "float46", "attrs": {}}},
            "coordinates": [],
            "attrs": {},
        },
    ],
)
def test_what_is_no_outline_is_refused(outline: dict[str, Any]) -> None:
    with pytest.raises(he.DatasetError, match="The outline of a dataset cannot be read"):
        outlined(outline)
