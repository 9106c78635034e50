"""From the arguments of a column program to a job: names and places are found, blocks are cut."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import xarray as xr

from halocline_engine.analysis.columns import (
    check_fields,
    check_periodic,
    check_result_names,
    check_scalars,
    no_variable,
    shown_results,
)
from halocline_engine.analysis.named import near
from halocline_engine.analysis.scalars import scalars_of
from halocline_engine.analysis.work import work_of
from halocline_engine.backends.base import Value
from halocline_engine.backends.compiled import Compiled
from halocline_engine.backends.targets import TARGETS
from halocline_engine.datasets.grids.column_dims import Axis as ColumnAxis
from halocline_engine.datasets.grids.column_dims import ColumnDims, find_column_dims
from halocline_engine.datasets.grids.column_grid import ColumnGrid, column_grid
from halocline_engine.datasets.stores.sink import Sink
from halocline_engine.datasets.stores.source import Opened, Source
from halocline_engine.datasets.variables import check_distinct, check_unpacked, stored_chunks
from halocline_engine.distribute.blocks.work import Code
from halocline_engine.distribute.columns.work import ColumnInput, ColumnOutput, ColumnWork
from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.jobs.blocking import Cut, batch_memory, cut_batch
from halocline_engine.distribute.jobs.execute import Blockwise, Output
from halocline_engine.distribute.jobs.reading import reading_of
from halocline_engine.distribute.stencils.request import temporaries_of
from halocline_engine.distribute.tasks.options import Options, check_compiled
from halocline_engine.errors import ArgumentError, FieldError, ProgramError
from halocline_engine.ir.columns.calls import check_operators
from halocline_engine.ir.columns.check import Known, check_columns
from halocline_engine.ir.columns.lower import lower_columns
from halocline_engine.ir.columns.matrix import lower_matrix
from halocline_engine.ir.columns.nodes import Columns, Leaf
from halocline_engine.ir.columns.table import At
from halocline_engine.ir.nodes import Program
from halocline_engine.ir.types import DType, Order
from halocline_engine.ir.walk import targets_of
from halocline_engine.language.columns import parse_columns
from halocline_engine.language.columns_syntax import ColumnSyntax, names_in
from halocline_engine.language.source import locate
from halocline_engine.program import compile_lowered
from halocline_engine.schedule.nodes import Kernel
from halocline_engine.schedule.storage.temporaries import kernels_of

__all__ = ["CheckedColumn", "ColumnRequest", "check_column", "column_job"]

_TYPES = tuple(dtype.value for dtype in DType)
_FLOATS = ("float32", "float64")
# Arrays of a block that a process holds for each field: as read, put in order, and computed.
_HELD = 3
# Whole arrays that the reference needs for one statement.
_EXPRESSION = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRequest:
    """Request of a caller, as `column` describes it.

    Where `of` names a variable, the bands of the matrix that acts on it are made.
    """

    text: str
    fields: Mapping[str, str]
    scalars: Mapping[str, Any]
    axis: ColumnAxis
    heights: str | None
    boundary: Mapping[str, Any]
    dtype: str | None
    name: str
    chunks: Mapping[str, int]
    output: Path | None
    of: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CheckedColumn:
    """A validated request.

    `opened` has the coordinates of a dimension that is made; `sizes` are those of the dimensions
    of a block, in the order of the results, the centres standing for the vertical. `bands` are the
    offsets of results that are bands of a matrix.
    """

    request: ColumnRequest
    opened: Opened
    grid: ColumnGrid
    program: Program
    places: Mapping[str, At]
    variables: Mapping[str, str]
    sizes: Mapping[str, int]
    scalars: Mapping[str, Value]
    bands: Mapping[str, int]


def check_column(request: ColumnRequest, opened: Opened) -> CheckedColumn:
    """Return the request with all names resolved; reads coordinates only.

    Raises a `ProgramError` for the text, or a `RequestError`, before anything is written.
    """
    dataset, syntax = opened.dataset, parse_columns(request.text)
    check_operators(syntax)
    check_fields(syntax, request.fields)
    chosen = _chosen(request, dataset, syntax)
    used = {str(dim) for name in chosen.values() for dim in dataset[name].dims}
    periodic = _is_periodic(request.boundary)
    dims = find_column_dims(dataset, used, request.axis, periodic=periodic)
    check_periodic(request.boundary, (dims.centre, dims.face))
    known = {
        name: Known(_dtype(dataset, variable), _place(dataset, variable, dims))
        for name, variable in chosen.items()
    }
    columns = _checked(request, syntax, known, [str(name) for name in dataset.variables])
    grid = column_grid(dataset, dims, request.heights, periodic=periodic)
    dtype = _float_type(request.dtype, known.values())
    program, places, bands = _lowered(request, columns, grid, dtype)
    variables = {**chosen, **grid.variables}
    # In a sequence, a result of the step before has the name of one of this step.
    taken = {*dataset.coords, *dataset.dims, *variables.values(), *chosen}
    check_result_names(list(places), {str(name) for name in taken})
    read = [variables[field.name] for field in program.fields if field.name in variables]
    complete = cast("Any", dataset).assign_coords(dict(grid.coordinates))
    checked = CheckedColumn(
        request=request,
        opened=replace(opened, dataset=complete),
        grid=grid,
        program=program,
        places=places,
        variables=variables,
        sizes=_sizes(dataset, dims, read),
        scalars=scalars_of(program, {s.name: request.scalars[s.name] for s in program.scalars}),
        bands=bands,
    )
    _wished(checked)
    return checked


def _lowered(
    request: ColumnRequest, columns: Columns, grid: ColumnGrid, dtype: DType
) -> tuple[Program, dict[str, At], dict[str, int]]:
    """Return the program, where its results live, and which band of a matrix each is."""
    if request.of is None:
        program = lower_columns(columns, grid.shape, grid.metric, dtype, text=request.text)
        return program, {r.name: columns.items[r.value].at for r in columns.results}, {}
    matrix = lower_matrix(columns, grid.shape, grid.metric, dtype, request.of, text=request.text)
    names = matrix.bands.values()
    return (
        matrix.program,
        dict.fromkeys(names, matrix.rows),
        {n: d for d, n in matrix.bands.items()},
    )


def _chosen(request: ColumnRequest, dataset: xr.Dataset, syntax: ColumnSyntax) -> dict[str, str]:
    """Return the variable of each name in the text that stands for one."""
    there = {str(name) for name in dataset.variables}
    named = names_in(syntax)
    for variable in request.fields.values():
        if variable not in there:
            raise FieldError(
                f"Variable '{variable}' (argument 'fields') is not in the dataset.",
                hint=near(variable, there),
            )
    outputs = {output.name for output in syntax.outputs}
    found = {name: request.fields.get(name, name) for name in named if name not in request.scalars}
    chosen = {
        name: variable
        for name, variable in found.items()
        if variable in there and name not in outputs
    }
    for variable in chosen.values():
        check_distinct(dataset, variable)
    return chosen


def _checked(
    request: ColumnRequest, syntax: ColumnSyntax, known: Mapping[str, Known], there: Sequence[str]
) -> Columns:
    check_result_names(shown_results(syntax, request.name))
    columns = check_columns(syntax, known, request.scalars, request.name)
    check_scalars(syntax, request.scalars)
    if not any(isinstance(item, Leaf) for item in columns.items):
        raise no_variable(there)
    return columns


def _is_periodic(boundary: Mapping[str, Any]) -> bool:
    return any(isinstance(kind, str) and kind == "periodic" for kind in boundary.values())


def _dtype(dataset: xr.Dataset, variable: str) -> DType:
    array = dataset[variable]
    name = array.dtype.newbyteorder("=").name
    if name not in _TYPES:
        raise FieldError(
            f"Variable '{variable}' is {name}, expected one of {', '.join(_TYPES)}.",
            hint="Convert it with astype.",
        )
    check_unpacked(array)
    return DType(name)


def _place(dataset: xr.Dataset, variable: str, dims: ColumnDims) -> At:
    own = dataset[variable].dims
    if dims.centre in own and dims.face in own:
        raise FieldError(
            f"Variable '{variable}' has both '{dims.centre}' and '{dims.face}', expected one.",
            hint="Values of a column live on centres or on faces.",
        )
    if dims.centre in own:
        return At.CENTRE
    return At.FACE if dims.face in own else At.FLAT


def _float_type(asked: str | None, known: Any) -> DType:
    """Return the type in which everything is computed: by default float32 if all floats are."""
    if asked is not None:
        if not isinstance(cast("object", asked), str) or asked not in _FLOATS:
            raise ArgumentError(
                f"Argument 'dtype' must be 'float32' or 'float64', got {asked!r}.",
                hint="Leave it out for that of the variables.",
            )
        return DType(asked)
    found = {each.dtype for each in known}
    single = DType.FLOAT32 in found and DType.FLOAT64 not in found
    return DType.FLOAT32 if single else DType.FLOAT64


def _sizes(dataset: xr.Dataset, dims: ColumnDims, names: Sequence[str]) -> dict[str, int]:
    """Return the dimensions of a block: those of the largest variable in its order, after others.

    The vertical one is last where no variable has it.
    """
    found = [[str(dim) for dim in dataset[name].dims] for name in names]
    there = [[dims.centre if d == dims.face else d for d in own] for own in found]
    nothing: list[str] = []
    model = max(there, key=lambda own: (dims.centre in own, len(own)), default=nothing)
    extra = [d for own in there for d in own if d not in model]
    order = list(dict.fromkeys([*extra, *model]))
    order += [] if dims.centre in order else [dims.centre]
    return {d: dims.levels if d == dims.centre else int(dataset.sizes[d]) for d in order}


def column_job(checked: CheckedColumn, pool: Pool, target: str, options: Options) -> Blockwise:
    """Return the job: blocks of whole columns that fit. Raises `CapacityError` where none does."""
    request, dims = checked.request, checked.grid.dims
    compiled = _compiled(checked, target)
    check_compiled(compiled, options)
    inputs, outputs = _inputs(checked), _outputs(checked)
    cut = _cut(checked, compiled, pool, target, (inputs, outputs))
    widths = {
        name: values.astype(field.dtype.value)
        for name, values in checked.grid.widths.items()
        for field in checked.program.fields
        if field.name == name
    }

    def work(source: Source, sink: Sink) -> ColumnWork:
        return ColumnWork(
            code=Code.of(compiled),
            scalars=tuple(checked.scalars.items()),
            dims=tuple(checked.sizes),
            dim=dims.centre,
            inputs=inputs,
            widths=widths,
            outputs=outputs,
            domain=checked.grid.shape.domain,
            upright=_is_upright(checked, inputs),
            source=source,
            sink=sink,
            column_bytes=_inside(checked, compiled, target),
        )

    whole = {**checked.sizes, dims.face: checked.grid.shape.domain}
    used = {dim for item in outputs for dim in item.dims}
    block = {**dict(zip(checked.sizes, cut.block, strict=True)), dims.face: whole[dims.face]}
    return Blockwise(
        opened=checked.opened,
        sizes={dim: size for dim, size in whole.items() if dim in used},
        reads=tuple(item.variable for item in inputs),
        outputs=tuple(_made(checked, item, block, whole) for item in outputs),
        blocks=cut.blocks,
        work=work,
        what=f"column {'matrix' if checked.bands else 'program'} for"
        f" {', '.join(repr(item.field) for item in outputs)}",
        target=target,
        projected=cut.projected,
        output=request.output,
        note=_kernels(compiled),
        operations=_operations(checked),
    )


def _operations(checked: CheckedColumn) -> int:
    """Return the floating-point operations of all columns."""
    others = [size for dim, size in checked.sizes.items() if dim != checked.grid.dims.centre]
    column = work_of(checked.program, (1, 1, checked.grid.shape.domain))
    return math.prod(others) * column.operations.total()


def _kernels(compiled: Compiled) -> str:
    """Return in words in how many kernels a program is computed, and what each of them makes.

    Values on the same levels share one; a scan, or what is kept for several, has its own.
    """
    kernels = kernels_of(compiled.schedule.steps)
    results = {field.name for field in compiled.program.fields if field.written}
    made = [
        ", ".join(repr(name) for name in _written(kernel) if name in results) or "what others read"
        for kernel in kernels
    ]
    return f"computed in {len(kernels)} kernel{'s' * (len(kernels) > 1)}: {'; '.join(made)}"


def _written(kernel: Kernel) -> tuple[str, ...]:
    return targets_of(statement for section in kernel.sections for statement in section.body)


def _is_upright(checked: CheckedColumn, inputs: Sequence[ColumnInput]) -> bool:
    """Return whether levels lie side by side in most of the data, and need no order.

    What goes through a column level by level is faster where columns lie side by side.
    """
    if any(part.order is not Order.PARALLEL for part in checked.program.computations):
        return False
    whole = [item for item in inputs if item.vertical and len(item.dims) > 1]
    last = [item for item in whole if item.dims[-1] == item.vertical]
    return 2 * len(last) > len(whole)


def _compiled(checked: CheckedColumn, target: str) -> Compiled:
    try:
        return compile_lowered(checked.program, target)
    except ProgramError as error:
        raise locate(error, checked.request.text) from None


def _inputs(checked: CheckedColumn) -> tuple[ColumnInput, ...]:
    dims, found = checked.grid.dims, list[ColumnInput]()
    for field in checked.program.fields:
        if field.name not in checked.variables:
            continue
        variable = checked.variables[field.name]
        own = tuple(str(dim) for dim in checked.opened.dataset[variable].dims)
        vertical = next((dim for dim in (dims.centre, dims.face) if dim in own), "")
        levels = int(checked.opened.dataset.sizes[vertical]) if vertical else 1
        found.append(ColumnInput(field.name, variable, own, vertical, levels, field.dtype.value))
    return tuple(found)


def _outputs(checked: CheckedColumn) -> tuple[ColumnOutput, ...]:
    dims, shape = checked.grid.dims, checked.grid.shape
    vertical = {At.CENTRE: dims.centre, At.FACE: dims.face, At.FLAT: ""}
    found = list[ColumnOutput]()
    for field in checked.program.fields:
        if not field.written:
            continue
        at = checked.places[field.name]
        named = [vertical[at] if dim == dims.centre else dim for dim in checked.sizes]
        own = tuple(dim for dim in named if dim)
        levels = 1 if at is At.FLAT else shape.count(at)
        found.append(ColumnOutput(field.name, own, vertical[at], levels, field.dtype.value))
    return tuple(found)


def _made(
    checked: CheckedColumn, item: ColumnOutput, block: Mapping[str, int], sizes: Mapping[str, int]
) -> Output:
    bands, of = checked.bands, checked.request.of
    attributes: dict[str, Any] = {}
    if item.field in bands:
        attributes = {"matrix_variable": of, "matrix_offset": bands[item.field]}
    return Output.of_blocks(item.field, item.dims, item.dtype, block, sizes, attributes)


def _cut(
    checked: CheckedColumn,
    compiled: Compiled,
    pool: Pool,
    target: str,
    fields: tuple[Sequence[ColumnInput], Sequence[ColumnOutput]],
) -> Cut:
    """Return blocks of whole columns, by what a column takes."""
    inputs, outputs = fields
    sizes, dim = checked.sizes, checked.grid.dims.centre
    items = [(item.levels, item.dtype) for item in (*inputs, *outputs)]
    column = sum(levels * np.dtype(dtype).itemsize for levels, dtype in items)
    inside = _inside(checked, compiled, target)
    host = _HELD * column + inside
    columns = math.prod(size for d, size in sizes.items() if d != dim)
    made = sum(item.levels * np.dtype(item.dtype).itemsize for item in outputs) * columns
    room = batch_memory(pool, target, host, column + inside, 0 if checked.request.output else made)
    reading = reading_of(checked.opened, (item.variable for item in inputs))
    chunks = _source_chunks(checked, inputs)
    return cut_batch(sizes, dim, _wished(checked), chunks, pool, room, reading)


def _inside(checked: CheckedColumn, compiled: Compiled, target: str) -> int:
    """Return the bytes of the temporaries of a column."""
    domain = checked.grid.shape.domain
    inside = domain * sum(size for size, _ in temporaries_of(compiled))
    if not TARGETS[target].compiles:
        inside += _EXPRESSION * domain * 8
    return inside


def _wished(checked: CheckedColumn) -> dict[str, int]:
    """Return the caller's block sizes; columns are never split."""
    dims, sizes = checked.grid.dims, checked.sizes
    for name, size in checked.request.chunks.items():
        if name in (dims.centre, dims.face):
            if size < sizes[dims.centre]:
                raise ArgumentError(
                    f"Dimension '{name}' is vertical, and a block has all of it, but 'chunks'"
                    f" gives it {size} of {sizes[dims.centre]}.",
                    hint="Leave it out; a store that is chunked along it will do.",
                )
        elif name not in sizes:
            known = [dim for dim in sizes if dim != dims.centre]
            raise ArgumentError(
                f"Argument 'chunks' must name dimensions of the columns, got '{name}'.",
                hint=near(name, known),
            )
    return {
        n: size for n, size in checked.request.chunks.items() if n in sizes and n != dims.centre
    }


def _source_chunks(checked: CheckedColumn, inputs: Sequence[ColumnInput]) -> dict[str, int]:
    """Return the source's chunks along the dimensions of the largest variable."""
    model = max(inputs, key=lambda item: len(item.dims), default=None)
    if model is None:
        return {}
    chunks = stored_chunks(checked.opened.dataset[model.variable])
    return dict(zip(model.dims, chunks, strict=False))
