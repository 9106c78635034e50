"""Blocks of Dask that are not as their array declares are refused, whoever reads them."""

# Dask has no annotations.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import dask.array
import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.datasets.dask_blocks import load_region
from halocline_engine.datasets.stores.source import InMemory, spool

DASK = cast("Any", dask.array)
ADD = """
def add(s: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = s + 1.0
"""
ALONG = {"I": "c", "J": None}

_SHORT = (
    "Block (0) of variable 's' must have the declared shape (12,), but Dask computed one of (1,)."
    " Declare the shapes that blocks have, with 'chunks' of dask.array.map_blocks, or correct the"
    " function that makes them."
)


def blocks(change: Callable[[Any], Any], size: int = 12, chunk: int = 12) -> Any:
    """Return counted doubles whose blocks a function changes, and the declaration does not say."""
    array = DASK.from_array(np.arange(float(size)), chunks=chunk)
    return array.map_blocks(change, dtype="f8", meta=np.zeros(0))


def short(size: int = 12) -> Any:
    return blocks(lambda block: block[:1], size, size)


def weights() -> xr.Dataset:
    one = np.arange(1, 13)
    return xr.Dataset(
        {"row": ("n_s", one), "col": ("n_s", one), "S": ("n_s", short())},
        coords={"src_grid_dims": ("r", [12]), "dst_grid_dims": ("q", [12])},
    )


def ring(corners: Any) -> xr.Dataset:
    """Return six faces around a sphere."""
    topology = {
        "cf_role": "mesh_topology",
        "node_coordinates": "lon lat",
        "face_node_connectivity": "corners",
    }
    return xr.Dataset(
        {
            "mesh": ((), 0, topology),
            "corners": (("face", "four"), corners, {"start_index": 0}),
            "lon": ("node", np.tile(np.arange(6) * 60.0, 2), {"units": "degrees_east"}),
            "lat": ("node", np.repeat([-20.0, 20.0], 6), {"units": "degrees_north"}),
        }
    )


def corners_of_ring() -> Any:
    node = np.arange(12).reshape(2, 6)
    east = np.roll(node, -1, 1)
    return np.stack([node[0], east[0], east[1], node[1]], 1)


def three_corners(block: Any) -> Any:
    return block[:, :3]


def plain(**variables: Any) -> xr.Dataset:
    return xr.Dataset({name: ("c", values) for name, values in variables.items()})


def column(levels: Any) -> xr.Dataset:
    return xr.Dataset(
        {"s": ("z", np.arange(12.0))},
        {"z": ("z", np.arange(12) + 0.5, {"axis": "Z"}), "h": ("f", levels)},
    )


CALLS: dict[str, Callable[[], object]] = {
    "run": lambda: he.run(ADD, plain(s=short()), axes=ALONG),
    "run on a field of 2-D": lambda: he.run(
        ADD, xr.Dataset({"s": (("y", "x"), DASK.stack([short(), short()]))})
    ),
    "gather": lambda: he.gather(plain(s=short(), i=np.arange(12)), source="s", index="i", dim="c"),
    "gather by indices": lambda: he.gather(
        plain(s=np.arange(12.0), i=short().astype("i8")), source="s", index="i", dim="c"
    ),
    "scatter": lambda: he.scatter(
        plain(s=short(), i=np.arange(12)), source="s", index="i", dim="k", size=12
    ),
    "regrid": lambda: he.regrid(plain(t=np.arange(12.0)), weights()),
    "regrid a field": lambda: he.regrid(plain(t=short()), weights().assign(S=("n_s", np.ones(12)))),
    "neighbours": lambda: he.neighbours(
        xr.Dataset({"h": ("face", short(6))}), ring(corners_of_ring()), "sum"
    ),
    "neighbours on a mesh": lambda: he.neighbours(
        xr.Dataset({"h": ("face", np.arange(6.0))}),
        ring(DASK.from_array(corners_of_ring()).map_blocks(three_corners, dtype="i8")),
        "sum",
    ),
    "tridiagonal": lambda: he.tridiagonal(
        plain(a=np.zeros(12), b=np.ones(12), d=short()),
        lower="a",
        diagonal="b",
        upper="a",
        rhs="d",
        dim="c",
    ),
    "matmul": lambda: he.matmul(
        xr.Dataset({"a": (("m", "k"), np.ones((2, 12))), "b": ("k", short())}),
        left="a",
        right="b",
        dim="k",
    ),
    "column": lambda: he.column(
        "GradientC2F(bottom=SetGradient(0.0), top=SetGradient(0.0))(s)",
        column(np.arange(13.0)).assign(s=("z", short())),
        axis={"centre": "z", "face": "f"},
        heights="h",
    ),
    "heights of a column": lambda: he.column(
        "GradientC2F(bottom=SetGradient(0.0), top=SetGradient(0.0))(s)",
        column(short(13)),
        axis={"centre": "z", "face": "f"},
        heights="h",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_reader_refuses_short_blocks(name: str) -> None:
    with pytest.raises(he.DatasetError, match=r"^Block \(.*\) of variable '.*' must have the decl"):
        CALLS[name]()


def test_text_of_the_error_for_a_shape() -> None:
    with pytest.raises(he.DatasetError) as caught:
        he.run(ADD, plain(s=short()), axes=ALONG, target="reference")
    assert str(caught.value) == _SHORT


def test_text_of_the_error_for_a_type() -> None:
    data = plain(s=blocks(lambda block: block.astype("c16")))
    with pytest.raises(he.DatasetError) as caught:
        he.run(ADD, data, axes=ALONG, target="reference")
    assert str(caught.value) == (
        "Block (0) of variable 's' must have the declared type 'float64', but Dask computed"
        " 'complex128'. Declare the type that blocks have, with 'dtype' of dask.array.map_blocks,"
        " or cast them with astype."
    )


@pytest.mark.parametrize("dtype", ["f4", "i2", ">f8"])
def test_types_that_the_declared_one_holds(dtype: str) -> None:
    data = blocks(lambda block: block.astype(dtype), chunk=5)
    values = InMemory(plain(s=data)).read("s", (slice(3, 7),))
    assert values.dtype == np.dtype("f8")
    assert values.tolist() == [3.0, 4.0, 5.0, 6.0]


CHANGES: dict[str, Callable[[Any], Any]] = {
    "shorter": lambda block: block[:-1],
    "padded": lambda block: np.pad(block, 1),
    "of more dimensions": lambda block: np.stack([block, block]),
    "of none": lambda block: block.sum(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("region", [slice(0, 12), slice(4, 6), slice(7, 8)])
def test_any_region_of_any_wrong_block(change: Callable[[Any], Any], region: slice) -> None:
    with pytest.raises(he.DatasetError, match=r"Block \([01]\) of variable 's'"):
        load_region("s", blocks(change, chunk=6), (region,))


def test_a_store_for_other_processes_has_no_wrong_block(tmp_path: Path) -> None:
    with pytest.raises(he.DatasetError, match=r"Block \([01]\) of variable 's'"):
        spool(plain(s=blocks(lambda b: b[: 12 - len(b)], chunk=8)), ["s"], tmp_path / "spool.zarr")


def test_coordinates_of_a_result() -> None:
    data = plain(s=np.arange(12.0)).assign_coords(h=("c", short()))
    with pytest.raises(he.DatasetError, match=r"Block \(0\) of variable 'h'"):
        he.run(ADD, data, axes=ALONG, target="reference")


class _Counted:
    """A source that counts the values it is asked for."""

    shape, dtype, ndim = (100, 100), np.dtype("f8"), 2

    def __init__(self) -> None:
        self.largest = 0

    def __getitem__(self, region: Any) -> Any:
        values = np.arange(10000.0).reshape(100, 100)[region]
        self.largest = max(self.largest, values.size)
        return values


def test_a_source_is_asked_for_the_region_alone() -> None:
    source = _Counted()
    data = DASK.from_array(source, chunks=(100, 100), meta=np.zeros((0, 0)))
    values = load_region("v", data, (slice(5, 7), slice(0, 3)))
    assert values.tolist() == [[500.0, 501.0, 502.0], [600.0, 601.0, 602.0]]
    assert source.largest == 6


def test_drawn_regions_have_the_values_of_dask() -> None:
    random = np.random.default_rng(51)
    for _ in range(40):
        shape: tuple[int, ...] = tuple(random.integers(1, 9, random.integers(0, 4)).tolist())
        values = random.random(shape).astype(random.choice(["f4", ">f8", "i2"]))
        array = DASK.from_array(values, chunks=tuple(int(random.integers(1, n + 1)) for n in shape))
        made = [array, array + 1, array.T, array[::-1] if shape else array]
        data = made[int(random.integers(len(made)))]
        sizes: tuple[int, ...] = data.shape
        starts = [int(random.integers(0, n + 1)) for n in sizes]
        region = tuple(
            slice(low, int(random.integers(low, n + 1)))
            for low, n in zip(starts, sizes, strict=True)
        )
        dims = [f"d{at}" for at in range(data.ndim)]
        read = InMemory(xr.Dataset({"v": (dims, data)})).read("v", region)
        assert np.array_equal(read, data.compute()[region])
