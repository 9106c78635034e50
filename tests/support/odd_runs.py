"""Runs of a stencil on drawn datasets, beside NumPy and beside what the dataset has.

As a program it draws many: `python tests/support/odd_runs.py 2000 [--first N] [--cluster]
[--service URL]`.
"""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import argparse
import collections
import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd  # pyright: ignore[reportMissingTypeStubs] - it has none
import xarray as xr
from odd_datasets import FIELDS, OddDataset, draw_dataset

import halocline_engine as he

__all__ = ["DOORS", "Door", "difference_of_draw", "library", "on_cluster", "through_client"]

_PD: Any = pd
#: Computes a result from a dataset, in a folder, with more arguments.
Door = Callable[[Any, Path, dict[str, Any]], xr.Dataset]

SHIFT = """
def shift(t: Field[np.{0}], out: Field[np.{0}]):
    with computation(PARALLEL), interval(...):
        out = t[1, 0, 0]
"""
COPY = """
def copy(t: Field[np.{0}]):
    with computation(PARALLEL), interval(...):
        t = t
"""
_LEFT_OUT = "Attributes by which xarray would change values"
#: Parts of warnings: ours, and those of xarray about units of times that have no meaning.
_ALLOWED = (_LEFT_OUT, "ComplexWarning", "Ambiguous reference date")
_AXES = {"I": "x", "J": "y", "K": None}


def library(**more: Any) -> Door:
    """Return the door of the library, with more arguments; places are below the folder."""

    def run(dataset: Any, folder: Path, arguments: dict[str, Any]) -> xr.Dataset:
        places = {name: folder / place for name, place in more.items() if name in _PLACES}
        rest = {name: value for name, value in more.items() if name not in _PLACES}
        return he.run(dataset=dataset, target="reference", **arguments, **rest, **places)

    return run


_PLACES = ("output", "workspace")
DOORS: Mapping[str, Door] = {
    "memory": library(),
    "output": library(output="out.zarr"),
    "streamed": library(output="out.zarr", mode="streamed", chunks={"x": 2}),
    "workspace": library(output="out.zarr", workspace="work", mode="streamed"),
    "resumed in memory": library(workspace="work", mode="streamed"),
}


def on_cluster(cluster: Any) -> dict[str, Door]:
    """Return the doors of the library on a cluster."""
    return {
        "cluster": library(cluster=cluster),
        "cluster, output": library(cluster=cluster, output="out.zarr"),
        "cluster, streamed": library(cluster=cluster, mode="streamed", chunks={"x": 2}),
        "cluster, workspace": library(cluster=cluster, workspace="work", mode="streamed"),
    }


def through_client(client: Any) -> Door:
    """Return the door through a service."""

    def run(dataset: Any, folder: Path, arguments: dict[str, Any]) -> xr.Dataset:
        job = client.stencil(dataset=dataset, target="reference", **arguments)
        try:
            return job.result(progress=False).load()
        finally:
            job.remove()

    return run


def difference_of_draw(seed: int, folder: Path, doors: Mapping[str, Door]) -> str:
    """Return how a run of a drawn dataset differs from what it should be; empty where it does not.

    A dataset that a store cannot hold may be refused by the name of what it has.
    """
    random = Random(seed)
    drawn = draw_dataset(random)
    name = random.choice([*doors])
    source: Any = drawn.dataset
    wanted = drawn.dataset
    if random.random() < 0.4 and name != "memory":
        kind = random.choice(_FILES)
        source = folder / f"in.{kind}"
        opened = _written(drawn, source, kind)
        if opened is None:
            return ""
        wanted = opened
    text, form, arguments = _form(random, wanted)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = doors[name](source, folder, {"program": text, **arguments})
            found = found.load()
        except he.HaloclineError as error:
            return _refused(name, drawn, str(error))
        except Exception as error:
            if type(error).__module__.startswith("halocline"):
                return _refused(name, drawn, str(getattr(error, "error", error)))
            last = traceback.extract_tb(error.__traceback__)[-1]
            return f"{name}: {type(error).__name__}: {error} ({last.filename}:{last.lineno})"
    said = [str(one.message) for one in caught if str(one.message).startswith(_LEFT_OUT)]
    others = [f"{one.category.__name__}: {one.message}" for one in caught]
    others = [one for one in others if not any(text in one for text in _ALLOWED)]
    # Of files xarray tells by itself.
    if others and source is drawn.dataset:
        return f"{name}: a warning: {others[0]}"
    if len(said) > 1:
        return f"{name}: several warnings: {said}"
    wrong = _difference(found, wanted, form, " ".join(said))
    return f"{name}, {form}: {wrong}" if wrong else ""


_FILES = ("netcdf3", "netcdf4", "zarr2", "zarr3")
_OPEN: dict[str, dict[str, Any]] = {
    "netcdf3": {"engine": "netcdf4", "cache": False},
    "netcdf4": {"engine": "h5netcdf", "cache": False},
    "zarr2": {"engine": "zarr", "consolidated": False, "cache": False},
    "zarr3": {"engine": "zarr", "consolidated": False, "cache": False},
}


def _written(drawn: OddDataset, path: Path, kind: str) -> xr.Dataset | None:
    """Write a dataset as xarray does, and return what that opens; None where it cannot."""
    times: Any = dict.fromkeys(drawn.undecodable, False) or None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if kind.startswith("zarr"):
                form: Any = int(kind[-1])
                drawn.dataset.to_zarr(path, zarr_format=form, consolidated=False)
            else:
                form = {"netcdf3": "NETCDF3_64BIT", "netcdf4": "NETCDF4"}[kind]
                drawn.dataset.to_netcdf(path, format=form, engine="netcdf4")
            with xr.open_dataset(path, decode_times=times, **_OPEN[kind]) as opened:
                loaded = opened.load()
        except Exception:
            return None
    return loaded if str(loaded["t"].dtype) in FIELDS else None


def _form(random: Random, dataset: xr.Dataset) -> tuple[str, str, dict[str, Any]]:
    dtype = dataset["t"].dtype.newbyteorder("=").name
    common = {"axes": _AXES}
    roll = common | {"boundary": {"x": "periodic"}}
    match random.choice(("copy", "shift", "fed back", "every")):
        case "copy":
            return COPY.format(dtype), "copy", common
        case "shift":
            return SHIFT.format(dtype), "shift", roll
        case "fed back":
            return SHIFT.format(dtype), "fed back", {**roll, "steps": 3, "feedback": {"out": "t"}}
        case _:
            more = {"steps": 3, "feedback": {"out": "t"}, "snapshot_every": 2}
            return SHIFT.format(dtype), "every", {**roll, **more}


def _refused(name: str, drawn: OddDataset, message: str) -> str:
    is_named = any(one in message for one in drawn.unkeepable)
    return "" if is_named else f"{name}: refused: {message}"


def _difference(found: xr.Dataset, dataset: xr.Dataset, form: str, said: str) -> str:
    result = "t" if form == "copy" else "out"
    field = dataset["t"]
    rolls = {"copy": (0,), "shift": (1,), "fed back": (3,), "every": (2, 3)}[form]
    values = [field.roll(x=-steps) for steps in rolls]
    if wrong := _other_values(found[result], values, dims=form == "every"):
        return wrong
    attributes = {} if form == "shift" else field.attrs
    if wrong := _other_attributes(found[result].attrs, attributes, said, result):
        return wrong
    for name in dataset.coords:
        if not {*dataset[name].dims} <= {*field.dims}:
            continue
        if name not in found.coords:
            return f"coordinate {name!r} is not there"
        if wrong := _other_variable(found[name].variable, dataset[name].variable):
            return f"{name!r}: {wrong}"
        if wrong := _other_attributes(found[name].attrs, dataset[name].attrs, said, str(name)):
            return wrong
    for name in found.data_vars:
        if name == result:
            continue
        if wrong := _other_variable(found[name].variable, dataset[name].variable):
            return f"{name!r}: {wrong}"
        if wrong := _other_attributes(found[name].attrs, dataset[name].attrs, said, str(name)):
            return wrong
    own = {key: value for key, value in dataset.attrs.items() if key != "history"}
    return _other_attributes(found.attrs, own, said, "the dataset")


def _other_values(found: Any, wanted: list[Any], *, dims: bool) -> str:
    if found.dtype != wanted[0].dtype.newbyteorder("="):
        return f"result is {found.dtype}, not {wanted[0].dtype}"
    parts = [found.isel(step=at) for at in range(len(wanted))] if dims else [found]
    for part, want in zip(parts, wanted, strict=True):
        other = want.transpose(*part.dims).values
        if not np.array_equal(part.values, other, equal_nan=other.dtype.kind == "f"):
            return f"values {part.values.tolist()}, not {other.tolist()}"
    return ""


def _other_variable(found: Any, wanted: Any) -> str:
    if found.dims != wanted.dims:
        return f"dims {found.dims}, not {wanted.dims}"
    kinds = {getattr(one.dtype, "kind", "O") for one in (found, wanted)}
    is_same = _native(found.dtype) == _native(wanted.dtype)
    # Widths of bytes are those of the longest, and objects are stored as what they are.
    if not is_same and kinds != {"S"} and "O" not in kinds:
        return f"type {found.dtype}, not {wanted.dtype}"
    here, there = (_plain(one.values) for one in (found, wanted))
    return "" if here == there else f"values {here}, not {there}"


def _native(dtype: Any) -> Any:
    is_plain = isinstance(dtype, np.dtype) and dtype.kind != "T"
    return dtype.newbyteorder("=") if is_plain else dtype


def _plain(values: Any) -> list[Any]:
    """Return values that can be compared; missing ones are None."""
    found = np.asarray(values)
    flat = [str(one) for one in found.ravel()] if found.dtype.kind in "Mm" else found.ravel()
    return [None if _PD.isnull(one) else one for one in flat]


def _other_attributes(found: Any, wanted: Mapping[Any, Any], said: str, owner: str) -> str:
    for name, value in wanted.items():
        if name not in found:
            if repr(name) in said and owner in said:
                continue
            return f"attribute {name!r} of {owner} is not there: {said}"
        if _form_of(found[name]) != _form_of(value):
            return f"attribute {name!r} of {owner} is {found[name]!r}, not {value!r}"
    return ""


def _form_of(value: Any) -> str:
    """Return an attribute as JSON has it."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return str([_form_of(one) for one in value])
    return repr(value)


def main() -> None:
    """Draw many, and count the differences by kind."""
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--service", help="the address of a running service")
    asked = parser.parse_args()
    doors = DOORS
    if asked.cluster:
        import distributed

        made: Any = distributed
        doors = on_cluster(made.Client(n_workers=2, threads_per_worker=1, dashboard_address=None))
    if asked.service:
        from halocline import Client

        doors = {"service": through_client(Client(asked.service))}
    counts: collections.Counter[str] = collections.Counter()
    for seed in range(asked.first, asked.first + asked.count):
        # A write of Zarr that failed may still have threads that write.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            wrong = difference_of_draw(seed, Path(folder), doors)
        if wrong:
            counts[wrong[:60]] += 1
            print(seed, wrong[:300], flush=True)
    print(f"{asked.count} draws, {sum(counts.values())} differences")


if __name__ == "__main__":
    main()
