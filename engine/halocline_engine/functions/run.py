"""Stencil programs on datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from os import PathLike
from typing import Any, Unpack

import xarray as xr

from halocline_engine.arguments import (
    RESIDENT_MODES,
    by_name,
    names,
    names_by_name,
    place_of,
    whole,
)
from halocline_engine.backends.compiled import Compiled, retargeted
from halocline_engine.datasets.diagnostics import Diagnostic, diagnostics_of
from halocline_engine.datasets.inputs.opening import DatasetLike, open_source
from halocline_engine.datasets.times.clock import time_of
from halocline_engine.distribute.executors.select import check_threads
from halocline_engine.distribute.modes.launch import launch
from halocline_engine.distribute.stencils.blockwise import stencil_job
from halocline_engine.distribute.stencils.request import Request, check
from halocline_engine.distribute.tasks.options import options_of
from halocline_engine.distribute.tasks.until import until_of
from halocline_engine.errors import ArgumentError
from halocline_engine.functions.documentation import documented
from halocline_engine.functions.execution import Execution, ExecutionArguments, Planning
from halocline_engine.functions.stencil import Stencil
from halocline_engine.interface.uncompiled import READING, Uncompiled
from halocline_engine.interface.workspace import attempt_of
from halocline_engine.language.python.sources import ProgramLike
from halocline_engine.program import compile_program
from halocline_engine.signatures import complete

__all__ = ["run"]


@documented(ExecutionArguments)
def run(
    program: ProgramLike | Stencil,
    dataset: DatasetLike,
    *,
    fields: Mapping[str, str] | None = None,
    scalars: Mapping[str, Any] | None = None,
    externals: Mapping[str, Any] | None = None,
    dtypes: Mapping[Any, Any] | None = None,
    stencil_name: str | None = None,
    axes: Mapping[str, str | None] | None = None,
    grid: Mapping[str, Mapping[str, str]] | None = None,
    positions: Mapping[str, Sequence[str]] | None = None,
    boundary: Mapping[str, Any] | None = None,
    steps: int = 1,
    feedback: Mapping[str, str] | None = None,
    until: Mapping[str, Any] | None = None,
    snapshot_every: int | None = None,
    time: Mapping[str, Any] | None = None,
    diagnostics: Mapping[str, Mapping[str, Any]] | None = None,
    workspace: str | PathLike[str] | None = None,
    **given: Unpack[ExecutionArguments],
) -> xr.Dataset:
    """Run a stencil program on a dataset.

    Parameters
    ----------
    program : str, path, function or Stencil
        Program text, the path of a `.py` file, a Python function (taken as its source, with the
        constants and functions that it refers to; never executed), or a compiled stencil.
    %(dataset)s
    fields : mapping of str to str, optional
        Variables by field of the program; by default the variable of the same name. A field that is
        written becomes a variable of the result. A variable that lacks an axis of a field that is
        only read is repeated along it.
    scalars : mapping of str to number, DataArray or mapping, optional
        Values of the scalar parameters: numbers, arrays along the dimension 'step' or one that is
        looped over, ``{'values': [...], 'dim': 'step'}``, or what the clock tells at the beginning
        of each step, ``{'clock': 'seconds'}``, 'step', 'day_of_year' or 'time_of_day'.
    externals : mapping of str to number, optional
        Values of the names that the program imports from `__externals__`.
    dtypes : mapping of str or type to dtype or str, optional
        Types that the annotations of the program give as names: of numbers, or of fields as text.
    stencil_name : str, optional
        Which stencil of the text, if it has several.
    axes : mapping of str to str or None, optional
        Dimensions that are I, J and K; None if there is no such axis. By default they follow from
        CF attributes, or from names such as x, y and z, lon and lat, or those of models. Other
        dimensions are looped over.
    grid : mapping of str to mapping, optional
        Dimensions by axis and position, such as ``{'X': {'center': 'xh', 'right': 'xq'}}``; the
        positions are 'center', 'left', 'right', 'outer' and 'inner', as in xgcm. By default they
        follow from SGRID, from the attributes `axis` and `c_grid_axis_shift`, or from names that
        models use. Face `i` is the lower face of cell `i`, whatever its number in the dataset.
    positions : mapping of str to list of str, optional
        Dimensions of fields that the program writes, where an axis has several. By default they
        are those of the input that the field feeds, those that all inputs have, or the centres.
    boundary : mapping of str to str or mapping, optional
        What lies beyond the ends of a dimension, for both ends or as ``{'low': ..., 'high': ...}``:
        'edge' (the last cell), 'reflect' (mirrored at the last cell, which is not repeated),
        'symmetric' (mirrored at the end, so that the last cell is repeated), 'antisymmetric' (the
        same with the other sign), 'extrapolate' (linear), ``{'constant': value}``, 'periodic' (both
        ends), or 'none', the default: cells whose stencil leaves the data are not computed. It
        applies before each step to all fields, but those with a rule of their own:
        ``{'low': ..., 'high': ..., 'fields': {'v': {'constant': 0.0}}}``.
    steps : int, default: 1
        Number of times the program is run. With an end or a duration in `time` it follows from
        that.
    feedback : mapping of str to str, optional
        Inputs by the output that becomes them in the next step. The output keeps the values of the
        input where nothing is written. Fields that are updated in place need none.
    until : mapping, optional
        Condition for ending the run early: ``{'field': 'v', 'change': 'max', 'below': 1e-6,
        'check_every': 100}`` measures every 100 steps the change of the output `v` in the last
        step, and ends the run if no point changed by more than 1e-6. 'norm' is the square root of
        the sum of squares. Values that are NaN from the start are ignored. A value that becomes
        infinite or NaN raises a `DivergenceError`, unless ``'non_finite': 'ignore'``. The result
        has the attributes `halocline_steps` and `halocline_change`.
    snapshot_every : int, optional
        Number of steps between snapshots of the result, along a first dimension 'step', or 'time'
        if there is a clock. The last step is kept too.
    time : mapping, optional
        Clock of the steps: ``{'start': '2015-01-01', 'step': '15min'}``. Fields that are only read
        and whose variables vary with time are forcing: ``'interpolate'`` is 'linear' (the default),
        'previous', 'nearest', 'mean' (over the step, for records with time bounds), or one for each
        field; ``'cyclic'`` is True, 'year' or a duration if records repeat. ``'end'`` or
        ``'duration'`` give the number of steps. A ``'calendar'`` of CF is by default that of the
        data. Without a start, the run continues from the dataset's time without dimensions; seconds
        and steps count from the ``'reference'``, by default the start of the first run. Results
        have the time of the end of their step.
    diagnostics : mapping of str to mapping, optional
        Sums, means, extremes and histograms of fields after each step, as `reduce` takes them:
        ``{'heat': {'sum': 't * area', 'every': 10}}``. They become variables of the result along a
        dimension 'step', or 'time' if there is a clock; 'every' is the number of steps between
        two of them. The last step is measured too. A variable that an output feeds has the
        values of the output.
    %(execution)s
    workspace : path, optional
        Folder of checkpoints. The same job with the same workspace continues from the newest one.

    Returns
    -------
    xarray.Dataset
        Variables of all fields that are written, with the coordinates and attributes of the dataset
        and a line in `history`. Cells that are not computed keep the values of the dataset's
        variable, or are NaN (0 in types without NaN) if it has none.

    Raises
    ------
    ProgramError
        The program is wrong; the message shows the line.
    %(errors)s

    See Also
    --------
    stencil : The same programs on arrays.

    Notes
    -----
    The result has the same bits for any blocks, steps per pass and workers on one target. K is
    never split into blocks.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import halocline_engine as he
    >>> program = '''
    ... def smooth(t: Field[float], s: Field[float], *, weight: float):
    ...     with computation(PARALLEL), interval(...):
    ...         s = t + weight * (t[-1, 0, 0] - 2.0 * t + t[1, 0, 0])
    ... '''
    >>> dataset = xr.Dataset({"t": (("y", "x"), [[0.0, 0.0, 4.0, 0.0]])})
    >>> result = he.run(
    ...     program,
    ...     dataset,
    ...     scalars={"weight": 0.25},
    ...     boundary={"x": "periodic"},
    ...     steps=2,
    ...     feedback={"s": "t"},
    ... )
    >>> result["s"].values.tolist()
    [[0.5, 1.0, 1.5, 1.0]]

    """
    execution = Execution(**complete(run, given), modes=RESIDENT_MODES)
    cluster = execution.cluster
    options = options_of(execution.options)
    check_threads(options, execution.workers)
    request = Request(
        fields=names_by_name("fields", fields, "{'inp': 'temperature'}"),
        scalars=by_name("scalars", scalars, "{'weight': 0.25}"),
        axes=_axes(axes),
        grid=None if grid is None else _grid(grid),
        positions=_positions(positions),
        boundary=by_name("boundary", boundary, "{'lon': 'periodic', 'lat': 'edge'}"),
        steps=whole("steps", steps, 1),
        feedback=names_by_name("feedback", feedback, "{'out': 'inp'}"),
        until=until_of(until),
        diagnostics=_diagnostics(diagnostics),
        every=None if snapshot_every is None else whole("snapshot_every", snapshot_every, 1),
        time=time_of(time),
        chunks=execution.block_sizes,
        output=execution.place,
        workspace=place_of("workspace", workspace),
        attempt=attempt_of(workspace),
    )
    reading = {"stencil_name": stencil_name, "externals": externals, "dtypes": dtypes}
    execution.expect_workers()
    opened = open_source(dataset)
    with ExitStack() as stack:
        existing, chosen = execution.connect(stack)
        execution.wait_for("compiling")
        compiled = _compile(program, reading, chosen)
        for warning in compiled.warnings:
            execution.warn(warning)
        checked = execution.passed(check(request, opened, compiled))
        if isinstance(cluster, Planning):
            return execution.run(stencil_job(checked, cluster.on, options), cluster.on, "")
        pool = execution.pool_of(existing, chosen, stack)
        return launch(checked, pool, execution.tell, execution.cancelled, options, execution.mode)


def _compile(
    program: ProgramLike | Stencil | Uncompiled, reading: Mapping[str, Any], target: str
) -> Compiled:
    """Compile a text that is read so, or take a stencil as it was compiled, for this target."""
    if isinstance(program, Uncompiled):
        how = {name: getattr(program, name) for name in READING}
        return compile_program(program.program, **reading, **how, target=target)
    if not isinstance(program, Stencil):
        return compile_program(program, **reading, target=target)
    for argument, value in reading.items():
        if value is not None:
            raise ArgumentError(
                f"Argument '{argument}' belongs to a program's text, but a stencil was given.",
                hint=f"Give '{argument}' to halocline_engine.stencil(...).",
            )
    compiled = program.compiled
    if compiled.target == target:
        return compiled
    return retargeted(compiled.program, compiled.facts, compiled.schedule, target)


def _grid(given: object) -> dict[str, dict[str, str]]:
    example = "{'X': {'center': 'xh', 'right': 'xq'}}"
    axes = by_name("grid", given, example)
    return {
        name: dict(names_by_name(f"grid['{name}']", axes[name], "{'center': 'xh', 'right': 'xq'}"))
        for name in axes
    }


def _positions(given: object) -> dict[str, list[str]]:
    said = by_name("positions", given, "{'curl': ['yq', 'xq']}")
    return {name: names(f"positions['{name}']", said[name], "['yq', 'xq']") for name in said}


def _diagnostics(given: Mapping[str, Mapping[str, Any]] | None) -> tuple[Diagnostic, ...]:
    return () if given is None else diagnostics_of("diagnostics", given, of_run=True)


def _axes(given: object) -> Mapping[str, str | None] | None:
    example = "{'I': 'lon', 'J': 'lat'}"
    return None if given is None else names_by_name("axes", given, example, none=True)
