"""Programs that read fields at points that tables name, against plain loops, on arrays and data."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray

import halocline_engine as he
from halocline_engine.backends.made.tables import TableArtifact
from halocline_engine.errors import ArgumentError, AxisError, FieldError
from halocline_engine.program import compile_program

TARGETS = ("reference", "cpu")
SPREAD = """
N = 3

def spread(
    h: Field[float], near: Table[N], w: Table[N, np.float64], out: Field[float], top: Field[float]
):
    with computation(PARALLEL), interval(...):
        out = neighbor_sum(w * (h[near] - h))
        top = max_over(h[near]) - min_over(h[near])
"""
ONE = """
def one(h: Field[float], first: Field[I, np.int32], near: Table[2, np.int32], out: Field[float]):
    with computation(FORWARD):
        with interval(0, 1):
            out = h[first] if near[0] >= 0 else 0.0
        with interval(1, None):
            out = out[0, 0, -1] + h[near[1]]
"""


def mesh(points: int = 40, missing: bool = True) -> tuple[NDArray[np.int64], NDArray[Any]]:
    rng = np.random.default_rng(points)
    return rng.integers(-1 if missing else 0, points, (points, 3)), rng.random((points, 3))


def spread(
    h: NDArray[Any], near: NDArray[Any], w: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return what the program means, for fields [point, level]."""
    out, top = np.zeros_like(h), np.zeros_like(h)
    for point, row in enumerate(near):
        there = [slot for slot in range(3) if row[slot] >= 0]
        for slot in there:
            out[point] += w[point, slot] * (h[row[slot]] - h[point])
        most = [h[row[slot]] for slot in there]
        top[point] = np.max(most, 0) - np.min(most, 0) if most else -np.inf
    return out, top


@pytest.mark.parametrize("target", TARGETS)
def test_loops_over_neighbours(target: str) -> None:
    near, w = mesh()
    h = np.random.default_rng(1).normal(size=(40, 1, 5))
    h[7] = np.nan
    stencil = pickle.loads(pickle.dumps(he.stencil(SPREAD, target=target)))
    out, top = np.full_like(h, np.nan), np.full_like(h, np.nan)
    stencil(h, near, w, out, top)
    wanted = spread(h[:, 0], near, w)
    np.testing.assert_array_equal(out[:, 0], wanted[0])
    np.testing.assert_array_equal(top[:, 0], wanted[1])
    turned = np.asfortranarray(h)
    stencil(turned[::-1][::-1], np.asfortranarray(near), w, out=out, top=top)
    np.testing.assert_array_equal(out[:, 0], wanted[0])


@pytest.mark.parametrize("target", TARGETS)
def test_single_neighbours_and_origins(target: str) -> None:
    h = np.random.default_rng(2).normal(size=(12, 3, 4))
    first = np.array([0, 5, -1, 10, 2, 3, 4, 5, 9, 9, 9, 9], "i4")
    near = np.stack([first, first[::-1]], axis=1)
    out = np.full((12, 3, 4), -7.0)
    stencil = he.stencil(ONE, target=target)
    # Points count from the domain's first one: h begins at 1.
    origin = {"_all_": (0, 0, 0), "h": (1, 0, 0)}
    stencil(h, first, near, out, origin=origin, domain=(10, 3, 4))

    def there(index: NDArray[Any]) -> NDArray[Any]:
        return np.where((index >= 0)[:, None, None], h[index + 1], np.nan)

    wanted = np.empty((10, 3, 4))
    wanted[..., 0] = np.where((first[:10] >= 0)[:, None], there(first[:10])[..., 0], 0.0)
    for level in range(1, 4):
        wanted[..., level] = wanted[..., level - 1] + there(first[::-1][:10])[..., level]
    np.testing.assert_array_equal(out[:10], wanted)
    assert (out[10:] == -7).all()


def test_kernels_for_a_device_read_plain_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("halocline_engine.program.resolve", str)
    artifact = compile_program(SPREAD, target="cuda").artifact
    assert isinstance(artifact, TableArtifact)
    assert [gather.name for gather in artifact.gathers] == [f"h@near.{n}" for n in range(3)]
    assert artifact.tuned("off", 1.0).gathers == artifact.gathers
    assert "__global__" in artifact.source


def test_points_may_lie_in_another_array() -> None:
    """A field that is read through tables alone has its own number of points: edges and cells."""
    text = """
def difference(h: Field[float], cells: Table[2], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = h[cells[1]] - h[cells[0]]
"""
    h = np.arange(5.0).reshape(5, 1, 1) ** 2
    cells = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 0], [0, 2], [1, 3]])
    out = np.zeros((7, 1, 1))
    he.stencil(text, target="cpu")(h, cells, out)
    assert out.ravel().tolist() == [1, 3, 5, 7, -16, 4, 8]


@pytest.mark.parametrize("target", TARGETS)
def test_a_field_may_have_no_points(target: str) -> None:
    text = """
def around(h: Field[float], m: Field[np.int32], near: Table[2], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = neighbor_sum(h[near]) + m[near[0]] + (1.0 if isnan(h[near[1]]) else 0.0)
"""
    h, m, out = np.zeros((0, 1, 3)), np.zeros((0, 1, 3), "i4"), np.zeros((4, 1, 3))
    stencil = he.stencil(text, target=target)
    stencil(h, m, np.full((4, 2), -1), out)
    np.testing.assert_array_equal(out, 1.0)
    with pytest.raises(FieldError, match="names point 0 at"):
        stencil(h, m, np.zeros((4, 2), "i8"), out)


def test_columns_choose_levels_and_components() -> None:
    """Between inner brackets a table stands for each of its columns as well."""
    text = """
def chosen(v: Field[(np.float64, (2,))], which: Table[2], up: Table[2], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = neighbor_sum(v[0, 0, up - 1][which])
"""
    v = np.random.default_rng(4).normal(size=(3, 1, 4, 2))
    which, up = np.array([[0, 1], [1, -1], [-1, -1]]), np.array([[1, 2], [0, 3], [1, 1]])
    out = np.zeros((3, 1, 4))
    he.stencil(text, target="reference")(v, which, up, out)
    for point in range(3):
        for level in range(4):
            shifts = [(n, s) for n, s in zip(which[point], up[point] - 1, strict=True) if n >= 0]
            wanted = sum(v[point, 0, min(max(level + s, 0), 3), n] for n, s in shifts)
            assert out[point, 0, level] == wanted


def test_steps_on_a_dataset(tmp_path: Path) -> None:
    near, w = mesh()
    rng = np.random.default_rng(3)
    data = xr.Dataset(
        {
            "h": (("time", "cell", "z"), rng.normal(size=(2, 40, 3))),
            "face_face": (("cell", "three"), near),
            "w": (("three", "cell"), w.T),
        }
    )
    path = tmp_path / "in.zarr"
    cast("Any", data).to_zarr(path, zarr_format=3, consolidated=False)
    wanted = before = data["h"].values
    for _ in range(3):
        before = wanted
        wanted = np.stack([spread(field, near, w)[0] for field in before])
    for source, chunks in ((data, None), (path, {"time": 1, "z": 2})):
        chosen = chunks and {name: size for name, size in chunks.items() if name != "z"}
        found = he.run(
            SPREAD,
            source,
            fields={"near": "face_face"},
            steps=3,
            feedback={"out": "h"},
            chunks=chosen,
            target="cpu",
        )
        np.testing.assert_array_equal(found["out"].values, wanted)
        top = np.stack([spread(field, near, w)[1] for field in before])
        np.testing.assert_array_equal(found["top"].values, top)


def test_what_does_not_fit_is_named() -> None:
    near, w = mesh()
    h = np.zeros((40, 1, 2))
    stencil = he.stencil(SPREAD, target="reference")
    out = np.full_like(h, 5.0)

    def message(*given: Any) -> str:
        with pytest.raises(FieldError) as caught:
            stencil(h, *given, out, out.copy())
        assert (out == 5).all()
        return str(caught.value)

    far = near.copy()
    far[9, 1] = 40
    assert message(far, w) == (
        "Table 'near' names point 40 at [9, 1], but field 'h' has 40 points along I."
        " Points are numbered from 0 to 39, and -1 stands for none."
    )
    far[9, 1] = -2
    assert message(far, w).startswith("Table 'near' names point -2 at [9, 1], but ")
    assert message(near[:, :2], w) == (
        "Table 'near' must hold 3 'int64' for each point along I, but got 'int64' of the shape"
        " (40, 2). Pass another array, or change the annotation."
    )
    assert message(None, w) == (
        "Table 'near' must be an array with 2 dimensions, (I, 3), but got None."
        " A row has the neighbours of a point."
    )
    assert message(near[0], w) == (
        "Table 'near' must be an array with 2 dimensions, (I, 3), but got ndarray of the shape"
        " (3,). A row has the neighbours of a point."
    )


def test_what_does_not_fit_in_a_dataset() -> None:
    near, w = mesh()
    data = xr.Dataset(
        {
            "h": (("cell",), np.zeros(40)),
            "near": (("cell", "three"), near),
            "w": (("cell", "three"), w),
            "v": (("edge", "three"), w),
            "edge_cells": (("edge", "three"), near),
            "plain": (("cell",), near[:, 0]),
        }
    )

    def message(kind: type[he.HaloclineError], dataset: xr.Dataset = data, **options: Any) -> str:
        with pytest.raises(kind) as caught:
            he.run(SPREAD, dataset, target="reference", **options)
        return str(caught.value)

    assert message(ArgumentError, chunks={"cell": 10}) == (
        "Tables name points anywhere along 'cell', so a block has all of them, but 'chunks' gives"
        " it 10 of 40. Leave it out, and cut other dimensions."
    )
    assert message(FieldError, fields={"near": "plain"}) == (
        "Table 'near' has 3 columns, so its variable must have two dimensions, one of them with 3"
        " points, but 'plain' has {'cell': 40}. Write 'Table[n]' with the number of columns that"
        " it has."
    )
    assert message(FieldError, fields={"near": "neer"}) == (
        "Table 'near' is read, but the dataset has no variable 'neer'. Did you mean 'near'?"
    )
    assert message(AxisError, fields={"w": "v"}) == (
        "The points of table 'w' lie along 'edge', but axis I is 'cell'. Say axes={'I': 'edge'},"
        " or use a table of that dimension."
    )
    assert message(FieldError, fields={"near": "edge_cells", "w": "v"}) == (
        "Field 'h' is read at points of table 'near', which lie along 'edge', but variable 'h' has"
        " no such dimension. Gather between different dimensions with halocline_engine.gather, or"
        " call the stencil on arrays."
    )
    assert message(ArgumentError, fields={"near.0": "w"}) == (
        "Argument 'fields' must map fields of the program, got 'near.0'. Did you mean 'near'?"
    )
    far = data.copy(deep=True)
    far["near"][3, 2] = 99
    assert message(FieldError, far).startswith("Table 'near' names point 99 at [3, 2], but ")
