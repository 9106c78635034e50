"""Datasets that declare more than anyone can list: refused by arithmetic, whatever they are for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.distribute.grid.partition import MOST_BLOCKS, partition
from halocline_engine.errors import CapacityError

PROGRAM = """
def double(a: Field[np.float64], out: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        out = a + a
"""

JOBS: Mapping[str, Callable[[Any], object]] = {
    "stencil": lambda data: he.run(PROGRAM, data),
    "column": lambda data: he.column("a + a", data),
    "tridiagonal": lambda data: he.tridiagonal(
        data, lower="a", diagonal="a", upper="a", rhs="a", dim="x"
    ),
    "tree": lambda data: he.tree(data, diagonal="a", upper="a", parent="a", rhs="a", row_size="a"),
    "gather": lambda data: he.gather(data, source="a", index="a", dim="x"),
    "scatter": lambda data: he.scatter(data, source="a", index="a", dim="x", size=4),
    "matmul": lambda data: he.matmul(data, left="a", right="a", dim="x"),
    "regrid": lambda data: he.regrid(xr.Dataset({"b": ("x", np.zeros(8))}), data),
    "neighbours": lambda data: he.neighbours(xr.Dataset({"b": ("x", np.zeros(8))}), data, "mean"),
}


def declared(folder: Path, *shape: int, chunk: tuple[int, ...]) -> Path:
    """Write a store that declares an array of which no chunk is there."""
    array = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": "float64",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0.0,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": {},
        "dimension_names": ["y", "x"],
    }
    inline = {"kind": "inline", "must_understand": False, "metadata": {"a": array}}
    group = {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": {},
        "consolidated_metadata": inline,
    }
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "zarr.json").write_text(json.dumps(array))
    (folder / "zarr.json").write_text(json.dumps(group))
    return folder


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_a_few_bytes_that_declare_many_chunks_are_refused(
    tmp_path: Path, job: Callable[[Any], object]
) -> None:
    with pytest.raises(CapacityError) as caught:
        job(declared(tmp_path / "a.zarr", 2**50, 8, chunk=(1, 8)))
    assert str(caught.value) == (
        "Variable 'a' has 1125899906842624 chunks, but may have 10000000. Write it with larger "
        "chunks."
    )


def test_a_few_bytes_that_declare_more_than_a_file_holds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CapacityError) as caught:
        he.run(PROGRAM, declared(tmp_path / "a.zarr", 2**61, 8, chunk=(2**61, 8)))
    assert str(caught.value) == (
        "Variable 'a' declares 147573952589676412928 bytes, but no store holds more than "
        "9223372036854775807. Write it with the shape that it has."
    )
    assert (caught.value.needed, caught.value.available) == (2**67, 2**63 - 1)


def test_blocks_are_counted_before_they_are_made() -> None:
    with pytest.raises(CapacityError) as caught:
        partition((2**40, 2**40, 1), (4,), (2, 1, 1), (4,))
    assert str(caught.value) == (
        "The 4835703278458516698824704 cells would be cut into 604462909807314587353088 blocks, "
        "but a pass may have 1000000. Give larger 'chunks' or more 'memory_limit', or select a"
        " part of the dataset."
    )
    assert len(partition((MOST_BLOCKS // 100, 1, 1), (), (1, 1, 1), ())) == MOST_BLOCKS // 100


def test_chunks_of_one_cell_that_are_asked_for_are_counted() -> None:
    data = xr.Dataset({"a": (("y", "x"), np.zeros((1001, 1000)))})
    with pytest.raises(CapacityError, match=r"1001000 blocks, but a pass may have 1000000\."):
        he.run(PROGRAM, data, chunks={"x": 1, "y": 1})
