"""Processes computed in this Python process, with the arguments and results of the service."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from halocline.errors import ArgumentError, ProgramError
from halocline.inputs.arguments import plain, text
from halocline.inputs.changes import DATASETS
from halocline.inputs.program import program_source
from halocline.inputs.stages import each_input, with_texts
from halocline_engine.interface.absent import Door, shown, way_out
from halocline_engine.interface.habits import hint_of_argument
from halocline_engine.interface.refusals import nearest, renamed_to
from halocline_engine.interface.uncompiled import READING, with_reading
from halocline_engine.language.python.sources import Source, with_place

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["installed_engine", "placed", "run_local"]

_FUNCTIONS = {
    "stencil": "run",
    **{
        name: name
        for name in (
            *("column", "tridiagonal", "pentadiagonal", "factor", "solve", "tree", "gather"),
            *("scatter", "regrid", "neighbours", "matmul", "reduce", "sequence"),
        )
    },
}
_ENGINE = (
    *("cf_xarray", "dask", "distributed", "h5netcdf", "netCDF4", "numba", "platformdirs"),
    *("psutil", "threadpoolctl"),
)
#: Inputs of a stencil that are options of the engine's function.
_OPTIONS = frozenset({"order"})
_LEFT_OUT = inspect.Parameter("left_out", inspect.Parameter.KEYWORD_ONLY, default=None)
_NOT_INPUTS = ("cluster", "on_event", "cancelled", "options", "workspace", "plans")


def run_local(process: str, /, **inputs: Any) -> xr.Dataset:
    """Compute a process on this machine, without a service.

    It needs `pip install 'halocline[engine]'`. Values and attributes equal those of a service on
    the same target, except for the attributes of the job.

    Parameters
    ----------
    process : str
        Name of the process, such as 'stencil'.
    **inputs : object
        Inputs, as for the client's method of the same name, or as returned by `Job.inputs`. A
        dataset is an xarray object, a path, or several paths. `output` is the path of a Zarr store
        or a NetCDF file for a result that is larger than memory, and `progress` whether a bar is
        shown, as for `run`.

    Returns
    -------
    xarray.Dataset
        The result.

    Raises
    ------
    ProgramError, RequestError
        The program or an argument is wrong.
    ArgumentError
        The engine is not installed.

    Examples
    --------
    >>> import xarray as xr
    >>> import halocline as hc
    >>> dataset = xr.Dataset({"a": (("i", "k"), [[1.0, 2.0]]), "b": (("k", "j"), [[3.0], [4.0]])})
    >>> result = hc.run_local(
    ...     "matmul", dataset=dataset, left="a", right="b", dim="k", target="reference"
    ... )
    >>> result["product"].values.tolist()
    [[11.0]]

    """
    if text("process", process) not in _FUNCTIONS:
        known = ", ".join(_FUNCTIONS)
        raise ArgumentError(f"There is no process '{process}'.", hint=f"There are: {known}.")
    place = {name: inputs.pop(name) for name in ("output", "progress") if name in inputs}
    if "stages" in inputs:
        inputs["stages"] = with_texts(inputs["stages"])
    sent, source = _plain(inputs)
    datasets = {name: _local(name, inputs[name]) for name in DATASETS & inputs.keys()}
    engine = installed_engine()
    with placed(source):
        return _computed(engine, process, sent, datasets, place)


def _plain(inputs: Mapping[str, Any]) -> tuple[dict[str, Any], Source | None]:
    """Return inputs as JSON, except for datasets, and the program's source."""
    others = {name: value for name, value in inputs.items() if name not in DATASETS}
    source = program_source(others["program"]) if "program" in others else None
    if source is not None:
        others["program"] = source.text
        if others.get("stencil_name") is None and source.name is not None:
            others["stencil_name"] = source.name
    return plain(others), source


def installed_engine() -> Any:
    """Return the engine; raises ArgumentError if one of its requirements is not installed."""
    for name in _ENGINE:
        if importlib.util.find_spec(name) is None:
            raise ArgumentError(
                f"Computing here needs the engine, but '{name}' is not installed.",
                hint="Install it: pip install 'halocline[engine]'; or submit the job to a service.",
            )
    import halocline_engine

    return halocline_engine


def _local(name: str, given: Any) -> Any:
    """Return a dataset on this machine: an xarray object, or a path."""
    import xarray as xr

    if isinstance(given, xr.DataArray):
        return given.to_dataset() if given.name is not None else given
    if isinstance(given, xr.Dataset | Path | list | tuple):
        return cast("Any", given)
    if isinstance(given, str) and not given.startswith(("upload:", "job:")):
        return given
    got = f"'{given}'" if isinstance(given, str) else f"'{type(given).__name__}'"
    raise ArgumentError(
        f"Argument '{name}' must be an xarray Dataset or a path on this machine, got {got}.",
        hint="Pass the dataset itself, or 'job.result()'.",
    )


def _computed(
    engine: Any,
    process: str,
    inputs: Mapping[str, Any],
    datasets: Mapping[str, Any],
    place: Mapping[str, Any],
) -> xr.Dataset:
    """Call the engine's function, and record the provenance in the attributes."""
    from halocline_engine.functions.reports.provenance import provenance

    targets: list[str] = []

    def record_target(event: Any) -> None:
        targets.extend(str(event.target) for _ in range(event.kind == "planned"))

    function = cast("Callable[..., xr.Dataset]", getattr(engine, _FUNCTIONS[process]))
    _check_names(process, function, {**inputs, **datasets})
    given = _arguments(process, each_input(inputs, _here))
    options = {name: given.pop(name) for name in _OPTIONS & given.keys()}
    how = {"options": engine.Options(**options)} if options else {}
    result = function(**given, **datasets, **how, **place, on_event=record_target)
    named = {
        name: {"reference": str(value)} if isinstance(value, str | Path) else {}
        for name, value in datasets.items()
    }
    recorded = each_input(inputs, _without_dataset)
    made = provenance(process, recorded, target=targets[-1], datasets=named)
    return result.assign_attrs(made)


def _arguments(process: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs as arguments of the engine's function, including those of stages."""
    match process, inputs:
        case "stencil", {"program": _}:
            return with_reading(inputs)
        case "sequence", {"stages": [*stages]}:
            made = [
                _arguments(process, stage)
                if "repeat" in stage
                else {kind: _arguments(kind, own) for kind, own in stage.items()}
                for stage in stages
            ]
            return {**inputs, "stages": made}
        case _:
            return dict(inputs)


def _here(name: str, value: Any) -> Any:
    """Return an input as an argument of the engine's function."""
    if name == "program":  # a line break marks it as text rather than a path
        return f"{value}\n"
    return _local(name, value) if name in DATASETS else value


def _without_dataset(name: str, value: Any) -> Any:
    """Return an input as JSON; datasets without a name become None."""
    return value if name not in DATASETS or isinstance(value, str) else None


def _check_names(process: str, function: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Raise ArgumentError for unknown or missing inputs of a process."""
    known = {**inspect.signature(function).parameters}
    if process == "stencil":
        known |= dict.fromkeys((*READING, *_OPTIONS), _LEFT_OUT)
    for name in given:
        if name not in known or name in _NOT_INPUTS:
            message = f"Process '{process}' has no input '{name}'{renamed_to(process, name)}."
            raise ArgumentError(message, hint=_hint(process, name, given[name], [*known]))
    for name, one in known.items():
        if one.default is one.empty and name not in given:
            raise ArgumentError(
                f"Process '{process}' needs the input '{name}', got none.",
                hint=f"Give it: run_local('{process}', {name}=...).",
            )


def _hint(process: str, name: str, value: Any, known: Sequence[str]) -> str:
    if name in _NOT_INPUTS:
        return f"Call the library: halocline.{_FUNCTIONS[process]}(..., {name}={shown(value)})."
    if close := nearest(name, known):
        return f"Did you mean '{close}'?"
    hint = way_out(Door.LIBRARY, name, value) or hint_of_argument(name, value, known)
    return hint or f"It has: {', '.join(known)}."


@contextmanager
def placed(source: Source | None) -> Generator[None]:
    """Add the place in the caller's own file to errors in a program."""
    try:
        yield
    except ProgramError as error:
        if source is not None:
            with_place(error, source)
        raise
