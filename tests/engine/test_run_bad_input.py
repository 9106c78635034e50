"""Bad input gets a clear error, before anything is written."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.datasets.stores.sink import ZarrSink
from halocline_engine.errors import (
    ArgumentError,
    AxisError,
    BoundaryError,
    CapacityError,
    DatasetError,
    FieldError,
    HaloclineError,
    OutputError,
)
from halocline_engine.functions.run import run

MEAN = """
def mean(inp: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = 0.5 * (inp[-2, 0, 0] + inp[2, 0, 0])
"""
SCALED = """
def scaled(inp: Field[float], out: Field[float], factor: float):
    with computation(PARALLEL), interval(...):
        out = factor * inp
"""
IN_PLACE = """
def grow(inp: Field[float]):
    with computation(PARALLEL), interval(...):
        inp = 2.0 * inp
"""
LEVELS = """
def sum_up(inp: Field[float], out: Field[float]):
    with computation(FORWARD):
        with interval(0, 1):
            out = inp
        with interval(1, None):
            out = inp + out[0, 0, -1]
"""
VERTICAL = """
def slope(inp: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = inp[0, 0, 1] - inp[0, 0, -1]
"""
PLANE = """
def plane(inp: Field[IJ, float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = inp
"""
COUNTS = """
def counts(inp: Field[int], out: Field[int]):
    with computation(PARALLEL), interval(...):
        out = inp[1, 0, 0]
"""


def data(**changes: Any) -> xr.Dataset:
    dims = changes.pop("dims", ("y", "x"))
    shape = changes.pop("shape", (6, 8))
    dtype = changes.pop("dtype", float)
    return xr.Dataset({"inp": (dims, np.ones(shape, dtype))})


class Bad(NamedTuple):
    kind: type[HaloclineError]
    message: str
    program: str = MEAN
    data: Callable[[], Any] = data
    arguments: Mapping[str, Any] = MappingProxyType({})


CASES = {
    "unknown variable": Bad(
        FieldError,
        "Field 'inp' is read, but the dataset has no variable 'in'. Did you mean 'inp'?",
        arguments={"fields": {"inp": "in"}},
    ),
    "unknown field": Bad(
        ArgumentError,
        "Argument 'fields' must map fields of the program, got 'imp'. Did you mean 'inp'?",
        arguments={"fields": {"imp": "inp"}},
    ),
    "in place without a variable": Bad(
        FieldError,
        "Field 'inp' is read, but the dataset has no variable 'u'. There are 'inp'.",
        IN_PLACE,
        arguments={"fields": {"inp": "u"}},
    ),
    "missing axis": Bad(
        AxisError,
        "Axis 'I' was not found among the dimensions 'rows', 'columns'. Say which one it is:"
        " axes={'I': ...}, or give the coordinates CF attributes such as axis='X'.",
        data=lambda: data(dims=("rows", "columns")),
    ),
    "ambiguous axis": Bad(
        AxisError,
        "Axis 'I' could be any of 'x', 'i'. Choose one: axes={'I': 'x'}.",
        data=lambda: data(dims=("x", "i")),
    ),
    "axis that is no dimension": Bad(
        AxisError,
        "Axis 'I' must be a dimension of the variables, got 'lon'. They have 'y', 'x'.",
        arguments={"axes": {"I": "lon"}},
    ),
    "one dimension for two axes": Bad(
        AxisError,
        "Dimension 'x' was given for two axes, expected one. Give each axis its own, for"
        " example axes={'I': 'x', 'J': 'y'}.",
        arguments={"axes": {"I": "x", "J": "x"}},
    ),
    "an axis that is none": Bad(
        AxisError,
        "Argument 'axes' must map 'I', 'J' or 'K' to dimensions, got 'X'. Write axes={'I': 'x'}.",
        arguments={"axes": {"X": "x"}},
    ),
    "no levels for vertical neighbours": Bad(
        AxisError,
        "Axis 'K' was not found and no dimension is left for it. The program reads neighbours along"
        " it: give the variables that dimension, or say with axes={...} which dimension is which"
        " axis.",
        VERTICAL,
    ),
    "too few levels": Bad(
        AxisError,
        "The program needs at least 2 levels along K, but 'z' has 1. Use data with more"
        " levels, or a program that needs fewer.",
        LEVELS,
        lambda: data(dims=("z", "y", "x"), shape=(1, 6, 8)),
    ),
    "wrong dtype": Bad(
        FieldError,
        "Field 'inp' is float64, but variable 'inp' is float32. Cast the variable with"
        " .astype('float64'), or annotate the field with np.float32.",
        data=lambda: data(dtype=np.float32),
    ),
    "field of the wrong shape": Bad(
        FieldError,
        "Field 'inp' has no axis K, but variable 'inp' has its dimension 'z'. Select one point of"
        " it, or declare the field with that axis.",
        PLANE,
        lambda: data(dims=("z", "y", "x"), shape=(2, 6, 8)),
    ),
    "written variable that lacks a dimension": Bad(
        FieldError,
        "Field 'out' is written, but variable 'out' lacks the dimension 'y'. Give the result"
        " another name with fields={...}, or broadcast the variable.",
        data=lambda: data().assign(out=("x", np.zeros(8))),
    ),
    "written coordinate": Bad(
        FieldError,
        "Field 'out' is written, but 'x' is a coordinate. Give it another name with fields={...}.",
        data=lambda: data().assign_coords(x=np.arange(8.0)),
        arguments={"fields": {"out": "x"}},
    ),
    "halo deeper than the domain": Bad(
        BoundaryError,
        "The program reads 2 cells before and 2 cells after a cell along 'x', which has only 4, so"
        " that no cell can be computed. Give a boundary: boundary={'x': 'edge'}.",
        data=lambda: data(shape=(6, 4)),
    ),
    "reflection deeper than the domain": Bad(
        BoundaryError,
        "The program reads 2 cells before a cell along 'x', which with the boundary 'reflect'"
        " needs at least 3 cells, but it has 2. Give more cells, or a boundary that needs none of"
        " them, such as 'edge' or {'constant': 0.0}.",
        data=lambda: data(shape=(6, 2)),
        arguments={"boundary": {"x": "reflect"}},
    ),
    "periodic at one end": Bad(
        BoundaryError,
        "The boundary of 'x' must be periodic at both ends, got 'periodic' and 'none'."
        " Write boundary={'x': 'periodic'} for both ends.",
        arguments={"boundary": {"x": {"low": "periodic"}}},
    ),
    "periodic along a dimension that is looped over": Bad(
        BoundaryError,
        "Dimension 'time' is not a stencil axis; it takes no boundary. The axes are 'x', 'y'. If"
        " 'time' is one, say which with axes={...}.",
        data=lambda: data(dims=("time", "y", "x"), shape=(2, 6, 8)),
        arguments={"boundary": {"time": "periodic"}},
    ),
    "boundary of no dimension": Bad(
        BoundaryError,
        "A boundary was given for 'xx', which is not a dimension of the program's fields. Did you"
        " mean 'x'?",
        arguments={"boundary": {"xx": "edge"}},
    ),
    "unknown boundary": Bad(
        BoundaryError,
        "The boundary of 'x' must be one of 'periodic', 'edge', 'reflect', 'symmetric',"
        " 'antisymmetric', 'extrapolate', 'none' or"
        " {'constant': number}, got 'wall'. For example boundary={'x': 'periodic', 'y': {'low':"
        " 'edge', 'high': {'constant': 0}}}.",
        arguments={"boundary": {"x": "wall"}},
    ),
    "unknown end": Bad(
        BoundaryError,
        "The boundary of 'x' must have 'low' and 'high', got 'left'. For example boundary={'x':"
        " 'periodic', 'y': {'low': 'edge', 'high': {'constant': 0}}}.",
        arguments={"boundary": {"x": {"left": "edge"}}},
    ),
    "antisymmetric flags": Bad(
        BoundaryError,
        "Field 'inp' is bool, which has no negative values, so it cannot be 'antisymmetric' along"
        " 'x'. Use 'symmetric'.",
        COUNTS.replace("Field[int]", "Field[bool]"),
        lambda: data(dtype=np.bool_),
        arguments={"boundary": {"x": "antisymmetric"}},
    ),
    "extrapolated integers": Bad(
        BoundaryError,
        "Field 'inp' is int64, so it cannot be extrapolated along 'x'. Use 'edge'.",
        COUNTS,
        lambda: data(dtype=np.int64),
        arguments={"boundary": {"x": "extrapolate"}},
    ),
    "constant that an integer cannot be": Bad(
        BoundaryError,
        "Field 'inp' is int64, which has no value 0.5 for the boundary of 'x'. Use 'edge', or a"
        " number that the type has.",
        COUNTS,
        lambda: data(dtype=np.int64),
        arguments={"boundary": {"x": {"constant": 0.5}}},
    ),
    "constant beyond an integer": Bad(
        BoundaryError,
        "Field 'inp' is int64, which has no value 1000000000000000000000 for the boundary of 'x'."
        " Use 'edge', or a number that the type has.",
        COUNTS,
        lambda: data(dtype=np.int64),
        arguments={"boundary": {"x": {"constant": 10**21}}},
    ),
    "constant beyond a float": Bad(
        BoundaryError,
        "Field 'inp' is float64, which has no value 100000000000000000...0000000000000000000 for"
        " the boundary of 'x'. Use 'edge', or a number that the type has.",
        arguments={"boundary": {"x": {"constant": 10**400}}},
    ),
    "missing scalar": Bad(
        ArgumentError,
        "Scalar 'factor' needs a value, got none. Give it: scalars={'factor': ...}.",
        SCALED,
    ),
    "unknown scalar": Bad(
        ArgumentError,
        "Argument 'scalars' must name scalars of the program, got 'faktor'. Did you mean 'factor'?",
        SCALED,
        arguments={"scalars": {"faktor": 2.0}},
    ),
    "steps without feedback": Bad(
        ArgumentError,
        "With 2 steps some output must feed an input, but nothing does. Say which one:"
        " feedback={'out': 'inp'}.",
        arguments={"steps": 2},
    ),
    "no steps": Bad(
        ArgumentError,
        "Argument 'steps' must be a whole number from 1, got 0. Write for example steps=10.",
        arguments={"steps": 0},
    ),
    "feedback of unknown fields": Bad(
        ArgumentError,
        "Argument 'feedback' must map fields of the program, got 'new'. There are 'inp', 'out'.",
        arguments={"steps": 2, "feedback": {"new": "inp"}},
    ),
    "feedback the wrong way round": Bad(
        ArgumentError,
        "Feedback must come from a field that is written, got 'inp'. Write feedback={'out':"
        " 'inp'}.",
        arguments={"steps": 2, "feedback": {"inp": "out"}},
    ),
    "split levels": Bad(
        ArgumentError,
        "Dimension 'z' is the axis K, which is never split, but 'chunks' gives it 1 of 3 levels."
        " Leave it out.",
        data=lambda: data(dims=("z", "y", "x"), shape=(3, 6, 8)),
        arguments={"chunks": {"z": 1}},
    ),
    "chunks of no dimension": Bad(
        ArgumentError,
        "Argument 'chunks' must name dimensions of the fields, got 'w'. There are 'x', 'y'.",
        arguments={"chunks": {"w": 1}},
    ),
    "chunks of nothing": Bad(
        ArgumentError,
        "Argument 'chunks' must be at least 1 along 'x', got 0."
        " Leave it out: sizes are then planned from memory.",
        arguments={"chunks": {"x": 0}},
    ),
    "unknown mode": Bad(
        ArgumentError,
        "Argument 'mode' must be 'auto', 'streamed' or 'resident', got the str 'fast'. "
        "Leave it out.",
        arguments={"mode": "fast"},
    ),
    "empty dimension": Bad(
        FieldError,
        "Dimension 'x' must have at least one point, got none. Select points of the dataset along"
        " it.",
        data=lambda: data(shape=(6, 0)),
    ),
}


def files(folder: Path) -> dict[str, bytes]:
    """Return all that is under a folder."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.mark.parametrize("name", CASES)
def test_bad_requests(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    arguments: dict[str, Any] = {
        "target": "reference",
        "output": tmp_path / "out.zarr",
        **case.arguments,
    }
    with pytest.raises(case.kind) as caught:
        run(case.program, case.data(), workspace=tmp_path / "work", **arguments)
    assert str(caught.value) == case.message
    assert type(caught.value) is case.kind
    assert list(tmp_path.iterdir()) == []


def test_options_of_the_text_with_a_stencil() -> None:
    from halocline_engine.functions.stencil import stencil

    with pytest.raises(ArgumentError) as caught:
        run(stencil(MEAN, target="reference"), data(), target="reference", dtypes={})
    assert str(caught.value) == (
        "Argument 'dtypes' belongs to a program's text, but a stencil was given. Give 'dtypes' to"
        " halocline_engine.stencil(...)."
    )


def test_dataset_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        run(MEAN, tmp_path / "none.zarr", target="reference", output=tmp_path / "out.zarr")
    assert str(caught.value) == (
        f"Dataset '{tmp_path}/none.zarr' does not exist. Expected an xarray.Dataset, or the path of"
        " a Zarr store or a NetCDF file."
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["text", "folder", "broken"])
def test_dataset_that_cannot_be_read(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "bad"
    if kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"hello" if kind == "text" else b"\x89HDF\r\n\x1a\n and no more")
    before = files(tmp_path)
    with pytest.raises(DatasetError, match=r"bad' (cannot be read as|is no)"):
        run(MEAN, path, target="reference", output=tmp_path / "out.zarr")
    assert files(tmp_path) == before


@pytest.mark.parametrize("place", ["", "inside.zarr"])
def test_output_on_the_input(place: str, tmp_path: Path) -> None:
    store = tmp_path / "in.zarr"
    data().to_zarr(store, zarr_format=3, consolidated=False)
    before = files(tmp_path)
    with pytest.raises(OutputError) as caught:
        run(MEAN, store, target="reference", output=store / place)
    assert str(caught.value) == (
        f"The output '{store / place}' lies on the input '{store}'. Choose a place outside of the"
        " input."
    )
    assert files(tmp_path) == before


@pytest.mark.parametrize("name", ["out.zip", "out.csv", "out.HDF5", "out.grib"])
def test_output_with_the_suffix_of_another_format(name: str, tmp_path: Path) -> None:
    output = tmp_path / name
    with pytest.raises(OutputError) as caught:
        run(MEAN, data(), target="reference", output=output)
    assert str(caught.value) == (
        f"The output '{output}' has the suffix '{output.suffix}', but results are written as Zarr"
        " stores or NetCDF files. Name it 'out.zarr' or 'out.nc'."
    )
    assert files(tmp_path) == {}


def test_output_is_checked_before_the_dataset_is_opened(tmp_path: Path) -> None:
    for output, part in (("out.zip", "has the suffix '.zip'"), ("no/out.nc", "does not exist")):
        with pytest.raises(OutputError, match=part):
            he.gather(
                tmp_path / "not there.nc",
                source="a",
                index="i",
                dim="x",
                target="reference",
                output=tmp_path / output,
            )


@pytest.mark.parametrize("name", ["run-0.5", "day.1", "v2.0.zarr", "plain"])
def test_output_with_a_suffix_that_is_no_format(name: str, tmp_path: Path) -> None:
    run(MEAN, data(), target="reference", output=tmp_path / name)
    assert (tmp_path / name / "zarr.json").exists()


def test_output_that_exists(tmp_path: Path) -> None:
    output = tmp_path / "out.zarr"
    output.mkdir()
    (output / "precious").write_text("kept")
    with pytest.raises(OutputError) as caught:
        run(MEAN, data(), target="reference", output=output)
    assert str(caught.value) == (
        f"The output '{output}' exists already. Choose another place, or remove it."
    )
    assert files(tmp_path) == {"out.zarr/precious": b"kept"}


def test_output_without_a_directory(tmp_path: Path) -> None:
    with pytest.raises(OutputError) as caught:
        run(MEAN, data(), target="reference", output=tmp_path / "no" / "out.zarr")
    assert str(caught.value) == (
        f"The output's directory '{tmp_path}/no' does not exist. Make it first."
    )
    assert list(tmp_path.iterdir()) == []


def test_too_little_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)

    def little(_path: object) -> object:
        return usage._replace(free=100)

    monkeypatch.setattr(shutil, "disk_usage", little)
    with pytest.raises(OutputError) as caught:
        run(MEAN, data(), target="reference", output=tmp_path / "out.zarr")
    assert str(caught.value) == (
        f"The run needs up to 384 bytes under '{tmp_path}', but only 100 are free. Free some space,"
        " or choose another place with output=."
    )
    assert list(tmp_path.iterdir()) == []


def test_disk_that_fills_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        shape = chunks = (4, 6)
        shards = None

        def __setitem__(self, region: object, values: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    from halocline_engine.datasets import untyped

    def full(*_args: object, **_options: object) -> Full:
        return Full()

    monkeypatch.setattr(untyped.ZARR, "open_array", full)
    output = tmp_path / "out.zarr"
    with pytest.raises(OutputError) as caught:
        run(MEAN, data(), target="reference", output=output)
    assert str(caught.value).startswith(f"Writing to '{tmp_path}/.out.zarr.")
    assert str(caught.value).endswith(
        " stopped because the disk is full. Free some space, or choose another place with output=."
    )
    assert list(tmp_path.iterdir()) == []
    assert ZarrSink(str(output)).path == str(output)


def test_other_failures_of_a_disk_are_not_called_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_args: object, **_options: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    from halocline_engine.datasets import untyped

    monkeypatch.setattr(untyped.ZARR, "open_array", broken)
    with pytest.raises(OutputError) as caught:
        run(MEAN, data(), target="reference", output=tmp_path / "out.zarr")
    assert str(caught.value).startswith(f"Writing to '{tmp_path}/.out.zarr.")
    assert str(caught.value).endswith(
        " failed: OSError: [Errno 5] Input/output error. Repair the disk or the folder, or choose"
        " another one with output=."
    )
    assert list(tmp_path.iterdir()) == []


def test_result_too_large_for_memory() -> None:
    from halocline_engine.distribute.tasks.options import Options

    with pytest.raises(CapacityError) as caught:
        run(MEAN, data(), target="reference", options=Options(memory_limit=100))
    assert str(caught.value) == (
        "The result needs 384 bytes of memory, but only 100 are free. Give output= to write it to a"
        " Zarr store instead."
    )
    assert (caught.value.needed, caught.value.available) == (384, 100)


def test_block_too_large_for_memory(tmp_path: Path) -> None:
    from halocline_engine.distribute.tasks.options import Options

    with pytest.raises(CapacityError) as caught:
        run(
            MEAN,
            data(),
            target="reference",
            chunks={"x": 8, "y": 6},
            output=tmp_path / "out.zarr",
            options=Options(memory_limit=100),
        )
    assert str(caught.value) == (
        "The smallest block needs 2.69 kB of a worker's memory, but only 100 bytes are free. Give"
        " smaller 'chunks', fewer steps at once, or workers with more memory."
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("dtype", "way"),
    [
        (np.complex128, "Give its parts as two variables: .real and .imag."),
        ("U3", "Its values are text or objects: select a variable of numbers, or convert it."),
        ("M8[ns]", "Its values are times: subtract one, divide by np.timedelta64(1, 's'), and "),
    ],
)
def test_values_that_no_cast_keeps_have_a_way_of_their_own(dtype: Any, way: str) -> None:
    with pytest.raises(FieldError) as caught:
        run(MEAN, data(dtype=dtype), target="reference")
    assert caught.value.hint.startswith(way)


def test_types_that_the_language_has_not_are_no_way_out() -> None:
    with pytest.raises(FieldError) as caught:
        run(MEAN, data(dtype=np.uint16), target="reference")
    assert str(caught.value) == (
        "Field 'inp' is float64, but variable 'inp' is uint16. Cast the variable with"
        " .astype('float64')."
    )
