"""The dataset that a run gives back: coordinates and attributes kept, a line in the history."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import dask.array
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.datasets.dask_blocks import with_checked_blocks
from halocline_engine.datasets.disk import full_disk
from halocline_engine.datasets.grids.conventions import attributes_of as all_attributes
from halocline_engine.datasets.grids.match import FieldUse, Grid, Role
from halocline_engine.datasets.stores.netcdf import open_netcdf
from halocline_engine.datasets.stores.netcdf_writing import check_netcdf
from halocline_engine.datasets.storing.attributes import drop_decoding_attributes
from halocline_engine.datasets.storing.checks import (
    check_storable,
    check_values,
    warn_of_left_out,
)
from halocline_engine.datasets.storing.opening import open_zarr
from halocline_engine.datasets.storing.outputs import is_netcdf
from halocline_engine.datasets.storing.writing import store_values
from halocline_engine.datasets.untyped import ZARR
from halocline_engine.datasets.variables import is_distinct
from halocline_engine.errors import DatasetError, HaloclineError, OutputError

__all__ = [
    "add_attributes",
    "assemble",
    "attributes_of",
    "check_result",
    "consolidate",
    "create_result",
    "frame_of",
    "history_line",
    "in_memory_copy",
    "open_result",
]

_REFERENCES = ("grid_mapping", "bounds", "ancillary_variables", "cell_measures")


def history_line(program: str, steps: int, now: dt.datetime, version: str) -> str:
    """Return the line that a run adds to the history.

    >>> import datetime as dt
    >>> at = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    >>> history_line("hdiff", 2, at, "0.1.0")
    "2026-01-02T03:04:05Z halocline 0.1.0: program 'hdiff', 2 steps"
    """
    plural = "step" if steps == 1 else "steps"
    return f"{now:%Y-%m-%dT%H:%M:%SZ} halocline {version}: program '{program}', {steps} {plural}"


def frame_of(dataset: xr.Dataset, uses: Sequence[FieldUse], history: str) -> xr.Dataset:
    """Return the result without its variables.

    It has the coordinates that fit, what they and the results refer to by CF attributes, and the
    attributes, with the newest line of the history first.
    """
    dims = {dim for use in uses if use.result for dim in use.dims}
    written = {use.variable for use in uses if use.result}
    names = [cast("str", name) for name in dataset.coords]
    whole = [name for name in names if is_distinct(dataset, name)]
    kept = {name: dataset[name] for name in whole if set(dataset[name].dims) <= dims}
    for name in _referred(
        [*attributes_of(dataset, uses).values(), *map(all_attributes, kept.values())]
    ):
        if name in dataset.variables and name not in written and is_distinct(dataset, name):
            kept[name] = dataset[name]
    part = dataset[list(kept)]
    frame = part.drop_vars([name for name in part.coords if name not in kept])
    older = str(dataset.attrs.get("history", ""))
    return frame.assign_attrs(history=f"{history}\n{older}".rstrip())


def attributes_of(dataset: xr.Dataset, uses: Sequence[FieldUse]) -> dict[str, Mapping[str, Any]]:
    """Return the attributes of all results by their variables."""
    return {use.variable: _attributes(dataset, use, uses) for use in uses if use.result}


def _attributes(dataset: xr.Dataset, use: FieldUse, uses: Sequence[FieldUse]) -> dict[str, Any]:
    """Return the attributes of a result: of its variable, or of the input that it feeds."""
    match use.role:
        case Role.IN_PLACE:
            return all_attributes(dataset[use.variable])
        case Role.FEEDS:
            partner = next(other for other in uses if other.name == use.partner)
            return all_attributes(dataset[partner.variable])
        case Role.INPUT | Role.FED | Role.CREATED:
            return {}


def assemble(
    frame: xr.Dataset,
    uses: Sequence[FieldUse],
    arrays: Mapping[str, NDArray[Any]],
    attributes: Mapping[str, Mapping[str, Any]],
) -> xr.Dataset:
    """Return the result with its values in memory.

    `arrays` and `attributes` are named as the variables. Coordinates are read, as a result must not
    change or go when its input does.
    """
    results = {
        use.variable: (use.dims, arrays[use.variable], dict(attributes.get(use.variable, {})))
        for use in uses
        if use.result
    }
    return _read(frame).assign(results)


def check_result(
    frame: xr.Dataset,
    uses: Sequence[FieldUse],
    grid: Grid,
    attributes: Mapping[str, Mapping[str, Any]],
    output: Path,
) -> None:
    """Raise `OutputError` where a result cannot be stored, and warn of attributes that cannot.

    Values of coordinates that are not in memory are not read.
    """
    planned = _without_values(frame, uses, grid, attributes)
    check_storable(planned, OutputError)
    plain, left_out = drop_decoding_attributes(planned)
    if is_netcdf(output):
        check_netcdf(plain, OutputError)
    warn_of_left_out(left_out)


def create_result(
    path: Path,
    frame: xr.Dataset,
    uses: Sequence[FieldUse],
    grid: Grid,
    chunks: Mapping[str, Mapping[str, int]],
    attributes: Mapping[str, Mapping[str, Any]],
    plain: Sequence[str] = (),
) -> None:
    """Create a Zarr store with everything but the values of the results, which come later.

    Results that `plain` names are not compressed. `store_values` says what is stored of `frame`
    and of the `attributes` of results.
    """
    encoding: dict[str, dict[str, Any]] = {
        use.variable: {
            "chunks": tuple(chunks[use.name][dim] for dim in use.dims),
            "_FillValue": None,
            **({"compressors": ()} if use.name in plain else {}),
        }
        for use in uses
        if use.result
    }
    # Only the results come later: what Dask holds of the coordinates is computed now.
    read = _read(frame)
    with full_disk(path):
        try:
            check_values(read, OutputError)
            whole = _without_values(read, uses, grid, attributes)
            store_values(whole, path, compute=False, encoding=encoding)
        except (NotImplementedError, TypeError, ValueError) as error:
            raise OutputError(
                "The coordinates and attributes cannot be stored as Zarr:"
                f" {str(error).rstrip('. ')}.",
                hint="Drop or convert them before the run.",
            ) from error


def consolidate(path: Path) -> None:
    """Write all metadata of a store to its root, so that a reader needs one request."""
    with full_disk(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ZARR.consolidate_metadata(str(path), zarr_format=3)


def add_attributes(path: Path, attributes: Mapping[str, Any]) -> None:
    """Add attributes to a store that is complete but for them."""
    with full_disk(path):
        ZARR.open_group(str(path), mode="r+").attrs.update(attributes)
    consolidate(path)


def open_result(path: Path) -> xr.Dataset:
    """Open a result lazily."""
    if path.is_file():
        return open_netcdf(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return open_zarr(path, consolidated=True)


def in_memory_copy(
    result: xr.Dataset, frame: xr.Dataset, attributes: Mapping[str, Mapping[str, Any]]
) -> xr.Dataset:
    """Return a result that needs its store no more.

    The store has no more than values: coordinates are those of `frame`, and `attributes` those of
    the variables.
    """
    with result:
        loaded = cast(Any, result).load()
    made = {
        name: (one.dims, one.values, dict(attributes.get(name, {})))
        for name, one in loaded.data_vars.items()
    }
    whole = cast(Any, _read(frame)).assign_coords(loaded.coords)
    return whole.assign(made).assign_attrs(loaded.attrs)


def _read(frame: xr.Dataset) -> xr.Dataset:
    """Return the same with all values in memory; raises `DatasetError` where one cannot be read."""
    try:
        return cast(Any, with_checked_blocks(frame)).compute()
    except (HaloclineError, MemoryError):
        raise
    except Exception as error:  # readers raise whatever their libraries do
        raise DatasetError(
            f"The coordinates of the result cannot be read: {type(error).__name__}:"
            f" {str(error).rstrip('. ')}.",
            hint="Correct the input, or leave them out with drop_vars.",
        ) from error


def _without_values(
    frame: xr.Dataset,
    uses: Sequence[FieldUse],
    grid: Grid,
    attributes: Mapping[str, Mapping[str, Any]],
) -> xr.Dataset:
    """Return the result with variables that have no values yet."""
    results = {
        use.variable: (use.dims, _no_values(use, grid), dict(attributes.get(use.variable, {})))
        for use in uses
        if use.result
    }
    return frame.assign(results)


def _no_values(use: FieldUse, grid: Grid) -> Any:
    shape = tuple(grid.size_of(dim) for dim in use.dims)
    return cast(Any, dask.array).zeros(shape, chunks=shape, dtype=use.dtype)


def _referred(attributes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names that CF attributes mention, such as `area` of `area: cell_area`."""
    words: list[str] = []
    for attrs in attributes:
        for key in _REFERENCES:
            words.extend(str(attrs.get(key, "")).replace(":", " ").split())
    return list(dict.fromkeys(words))
