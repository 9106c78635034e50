"""Datasets drawn at random: legal for xarray, and as odd as people's are.

A dataset has a field `t` over `x` and `y`, and perhaps another dimension, with coordinates, types,
attributes, encodings and chunks of all sorts.
"""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import datetime as dt
import pathlib
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast

import cftime  # pyright: ignore[reportMissingTypeStubs] - it has none
import numpy as np
import pandas as pd  # pyright: ignore[reportMissingTypeStubs] - it has none
import xarray as xr

__all__ = ["FIELDS", "OddDataset", "draw_dataset"]

_CF: Any = cftime
_PD: Any = pd
FIELDS = ("bool", "int8", "int16", "int32", "int64", "float32", "float64")
UNDECODABLE = (
    {"units": "months since 1979-01-01"},
    {"units": "years since 1-1-1"},
    {"units": "days since 2000-01-01", "calendar": "none"},
    {"units": "days since 2000-13-01"},
    {"units": "mm since midnight"},
)
#: Attributes by which xarray decodes.
DECODING: tuple[dict[str, Any], ...] = (
    {"scale_factor": 0.5},
    {"scale_factor": np.float32(0.1), "add_offset": np.float32(3)},
    {"scale_factor": "0.1"},
    {"add_offset": 10},
    {"_FillValue": 1},
    {"_FillValue": np.float64("nan")},
    {"missing_value": np.array([1, 2])},
    {"missing_value": 2.0, "_FillValue": 1.0},
    {"_Unsigned": "true"},
    {"_Unsigned": "false", "_FillValue": 3},
    {"dtype": "bool"},
    {"dtype": "timedelta64[s]", "units": "seconds"},
    {"units": "days since 2000-01-01"},
    {"units": "hours since 1850-01-01 00:00:00", "calendar": "noleap"},
    {"units": "seconds since 1970-01-01", "calendar": "360_day", "scale_factor": 2.0},
    {"units": "days since 2000-01-01", "bounds": "edges"},
    {"coordinates": "lat lon"},
    {"_Encoding": "utf-8"},
)
#: Attributes that stay.
PLAIN: tuple[dict[str, Any], ...] = (
    {"long_name": "sea é"},
    {"units": "K"},
    {"units": "days"},
    {"calendar": "standard"},
    {"valid_range": np.array([0.0, 9.5], "f4")},
    {"flag_values": np.array([1, 2], "i1"), "flag_meanings": "a b"},
    {"list": [1, "a", None]},
    {"pair": (1, 2)},
    {"nothing": None},
    {"not a number": float("nan")},
    {"yes": True},
    {"truth": np.bool_(False)},
    {"nested": {"a": [1, {"b": "c"}]}},
    {"empty": np.array([])},
    {"dtype": "packed"},
    {"grid_mapping": "crs"},
    {"bounds": "edges"},
    {"big": 2**70},
    {"": "no name"},
    {"a b:c/d": 1},
)
#: Attributes that no store can hold.
BAD: tuple[dict[Any, Any], ...] = (
    {"bad": dt.datetime(2000, 1, 1)},
    {"bad": b"abc"},
    {"bad": {1}},
    {"bad": 1 + 2j},
    {"bad": np.datetime64("2000-01-01")},
    {"bad": np.array(["2000-01-01"], "M8[ns]")},
    {"bad": pathlib.PurePosixPath("/x")},
    {"bad": {1: "a"}},
    {"bad": object()},
    {"bad": [np.timedelta64(1, "s")]},
    {"bad": np.dtype("f4")},
    {7: "bad"},
)
NAMES = (
    *("lat", "crs", "lon (deg)", "a b", "é", "t.2m", "-n", "zarr", "history", "Lat", "step no"),
    "edges",
)
BAD_NAMES = ("a/b", "a:b", ".hidden", "zarr.json", "a?b", "..", "n%20", "new\nline", 5)


@dataclass
class OddDataset:
    """A dataset; `unkeepable` are the names and attributes for which it may be refused."""

    dataset: xr.Dataset
    unkeepable: list[str] = field(default_factory=list[str])
    undecodable: list[str] = field(default_factory=list[str])


def draw_dataset(random: Random) -> OddDataset:
    """Draw a dataset."""
    extra = random.choice((None, None, "time", "member"))
    sizes = {"y": random.randint(2, 4), "x": random.randint(3, 5)}
    if extra is not None:
        sizes[extra] = random.choice((0, 1, 2, 3))
    empty = [f"Dimension '{dim}'" for dim, size in sizes.items() if not size]
    drawn = OddDataset(xr.Dataset(), unkeepable=empty)
    coords = _coordinates(random, sizes, drawn)
    dims = random.sample([*sizes], len(sizes))
    shape = tuple(sizes[dim] for dim in dims)
    values = np.array([random.randint(0, 4) for _ in range(int(np.prod(shape)))])
    dtype = random.choice(FIELDS)
    if random.random() < 0.1 and dtype not in ("bool", "int8"):
        dtype = np.dtype(dtype).newbyteorder(">")
    data: Any = values.reshape(shape).astype(dtype)
    if np.dtype(dtype).kind == "f" and random.random() < 0.3:
        data.flat[:1] = np.nan
    dataset: Any = xr.Dataset({"t": (dims, data, _attributes(random, drawn, "t"))}, coords)
    if random.random() < 0.2 and "edges" not in dataset:
        edges = np.arange(2.0 * sizes["x"]).reshape(-1, 2)
        dataset["edges"] = (("x", "two"), edges, _attributes(random, drawn, "edges"))
    dataset.attrs = _attributes(random, drawn, "the dataset")
    if random.random() < 0.1:
        dataset.attrs |= random.choice(({"_NCProperties": "v"}, {"coordinates": "lat"}))
    for name in dataset.variables:
        if random.random() < 0.15:
            dataset[name].encoding = _encoding(random, dataset[name])
    drawn.dataset = _chunked(random, dataset)
    return drawn


def _coordinates(random: Random, sizes: dict[str, int], drawn: OddDataset) -> dict[Any, Any]:
    coords: dict[Any, Any] = {}
    for dim, size in sizes.items():
        if random.random() < 0.5:
            values = _values(random, (size,), drawn, dim, index=True)
            coords[dim] = (dim, values, _attributes(random, drawn, dim))
    for _ in range(random.randint(0, 3)):
        name: Any = random.choice(NAMES)
        if random.random() < 0.03:
            name = random.choice(BAD_NAMES)
            drawn.unkeepable.append(repr(name))
        dims = random.choice(((), ("x",), ("y",), ("y", "x"), ("x", "y"), tuple(sizes)))
        shape = tuple(sizes[dim] for dim in dims)
        values = _values(random, shape, drawn, name)
        coords[name] = (dims, values, _attributes(random, drawn, name))
    return coords


def _values(
    random: Random, shape: tuple[int, ...], drawn: OddDataset, name: object, *, index: bool = False
) -> Any:
    """Draw an array; one of the kinds that no store can hold is rare."""
    count = int(np.prod(shape))
    numbers = random.sample(range(1, 100), count)
    if random.random() < 0.04 and len(shape) == 1 and count:
        drawn.unkeepable.append(repr(name))
        return _unkeepable(random, numbers)
    kind = random.choice(_KINDS)
    if index and kind in ("complex64", "text or missing", "bool", "float16"):
        kind = "float64"
    made = _of_kind(kind, numbers)[:count]
    return made[0] if not shape and made.dtype == object else made.reshape(shape)


_KINDS = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", ">f4", ">i2"),
    *("M8[ns]", "M8[us]", "M8[s]", "NaT", "old", "m8[ns]", "m8[s]"),
    *("S1", "S3", "U", "string", "text", "bytes", "text or missing", "whole numbers"),
    *("noleap", "360_day", "gregorian"),
)


def _of_kind(kind: str, numbers: list[int]) -> Any:
    texts = [f"n{number}" for number in numbers]
    first = np.datetime64("2000-01-01T00:00:00", "ns")
    match kind:
        case "M8[ns]" | "M8[us]" | "M8[s]":
            step = {"M8[ns]": 86_400 * 10**9 + 7, "M8[us]": 10**9 + 1000, "M8[s]": 10**9 * 60}[kind]
            return (first + np.array(numbers) * np.timedelta64(step, "ns")).astype(kind)
        case "NaT":
            times = first + np.array(numbers) * np.timedelta64(10**9 + 1, "ns")
            times[:1] = np.datetime64("NaT", "ns")
            return times
        case "old":
            return np.array([f"{number:04d}-02-03" for number in numbers], "M8[s]")
        case "m8[ns]" | "m8[s]":
            return np.array(numbers, kind)
        case "S1":
            return np.array([chr(40 + number % 80).encode() for number in numbers], "S1")
        case "S3":
            return np.array([text.encode() for text in texts], "S3")
        case "U":
            return np.array(texts)
        case "string":
            return np.array(texts, np.dtypes.StringDType())
        case "text":
            return np.array([*texts, "é"], object)[:-1]
        case "bytes":
            return np.array([*(text.encode() for text in texts), b""], object)[:-1]
        case "text or missing":
            return np.array([*texts[:-1], None, ""], object)[:-1]
        case "whole numbers":
            return np.array(numbers, object)
        case "noleap" | "360_day" | "gregorian":
            times = [_CF.datetime(2000, 1 + n % 12, 1 + n % 28, calendar=kind) for n in numbers]
            return np.array([*times, None], object)[:-1]
        case _:
            return np.array(numbers).astype(kind)


def _unkeepable(random: Random, numbers: list[int]) -> Any:
    match random.randrange(7):
        case 0:
            return _PD.array(numbers, dtype="Int64")
        case 1:
            return _PD.Categorical([str(number) for number in numbers])
        case 2:
            return _PD.array([None, *[True] * (len(numbers) - 1)], dtype="boolean")
        case 3:
            return np.array([(number, 0.5) for number in numbers], [("a", "i4"), ("b", "f4")])
        case 4:
            return np.array([{"a": 1}, *numbers[1:]], object)
        case 5:
            return np.array([dt.date(2000, 1, 1 + number % 28) for number in numbers], object)
        case _:
            return np.array(numbers, np.longdouble)


def _attributes(random: Random, drawn: OddDataset, owner: object) -> dict[Any, Any]:
    attributes: dict[Any, Any] = {}
    for group, share in ((PLAIN, 0.5), (DECODING, 0.3), (UNDECODABLE, 0.1), (BAD, 0.02)):
        if random.random() >= share:
            continue
        attributes |= cast("dict[Any, Any]", random.choice(group))
        if group is BAD:
            drawn.unkeepable += ["'bad'", "7"]
        if group is UNDECODABLE and owner != "the dataset":
            drawn.undecodable.append(str(owner))
    return attributes


def _encoding(random: Random, array: Any) -> dict[str, Any]:
    """Draw what a file may have left behind."""
    if array.dtype.kind == "M":
        units = random.choice(("days since 2001-01-01", "hours since 1900-01-01 12:00:00"))
        return {"units": units, "calendar": "proleptic_gregorian", "dtype": np.dtype("int32")}
    return random.choice(
        (
            {"scale_factor": 0.01, "add_offset": 5.0, "dtype": np.dtype("i2"), "_FillValue": -1},
            {"_FillValue": 1, "dtype": np.dtype("i1"), "_Unsigned": "true"},
            {"missing_value": 2.0},
            {"zlib": True, "complevel": 4, "chunksizes": None, "source": "/gone.nc"},
            {"grid_mapping": "crs", "bounds": "edges"},
            {"coordinates": "nothing here", "dtype": np.dtype("float32")},
            {"chunks": (1,) * array.ndim, "preferred_chunks": {}},
        )
    )


def _chunked(random: Random, dataset: Any) -> xr.Dataset:
    """Have Dask hold the dataset, or some variables of it, in chunks of any sizes."""
    match random.randrange(5):
        case _ if not all(isinstance(one.dtype, np.dtype) for one in dataset.variables.values()):
            return dataset
        case 0:
            return dataset.chunk({"x": (1, dataset.sizes["x"] - 1)})
        case 1:
            return dataset.chunk({"y": 2})
        case 2:
            one = random.choice([*dataset.variables])
            return dataset if one in dataset.dims else dataset.assign({one: dataset[one].chunk()})
        case _:
            return dataset
