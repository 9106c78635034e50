"""From the arguments of `factor` and `solve` to jobs: names are checked, blocks are cut."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from halocline_engine.datasets.stores.device import BroughtToDevice
from halocline_engine.datasets.stores.sink import Sink
from halocline_engine.datasets.stores.source import Opened, Source
from halocline_engine.datasets.variables import hint_of_conversion
from halocline_engine.device.launch.streams import brought
from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.jobs.blocking import (
    Cut,
    batch_memory,
    check_wanted,
    cut_batch,
)
from halocline_engine.distribute.jobs.execute import Blockwise, Output, Stage
from halocline_engine.distribute.jobs.places import readable
from halocline_engine.distribute.jobs.reading import Reading, reading_of
from halocline_engine.distribute.solves.banded import Band
from halocline_engine.distribute.solves.factored import (
    FACTORS,
    OF_CORNERS,
    PREFIX,
    FactoredWork,
    FactorWork,
)
from halocline_engine.distribute.solves.on_device import one_block, stays, with_note
from halocline_engine.distribute.solves.request import bands_of, chunks_in, sizes_of
from halocline_engine.errors import ArgumentError, FieldError
from halocline_engine.kernels.operations import CORRECTING, FACTORING, SOLVING
from halocline_engine.kernels.status import status_attributes

__all__ = [
    "CheckedFactor",
    "CheckedSolve",
    "FactorRequest",
    "SolveRequest",
    "check_factor",
    "check_solve",
    "factor_job",
    "factored_job",
]

# Arrays of a block that a process holds, and on a device.
_HELD = 16
_ON_DEVICE = 8
_ABOUT: Mapping[str, str] = {
    "lower": "factors: the band below the diagonal",
    "reciprocal": "factors: reciprocals of the pivots",
    "upper": "factors: the band above the diagonal over the pivots",
    "column": "factors: what the corners add, for all rows",
    "share": "factors: how far the last row adds to the first",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorRequest:
    """Request of a caller; `variables` are lower, upper and diagonal."""

    variables: tuple[str, str, str]
    dim: str
    periodic: bool
    chunks: Mapping[str, int]
    output: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveRequest:
    """Request of a caller: a solution, by name, for each of some right-hand sides."""

    names: Mapping[str, str]
    chunks: Mapping[str, int]
    output: Path | None


@dataclass(frozen=True, slots=True, eq=False)
class CheckedFactor:
    """A validated request; `sizes` are those of the dimensions of the diagonal, in order."""

    request: FactorRequest
    opened: Opened
    bands: tuple[Band, Band, Band]
    sizes: Mapping[str, int]
    dtype: str


@dataclass(frozen=True, slots=True, eq=False)
class CheckedSolve:
    """A validated request; `along` are the dimensions of factors in their order."""

    request: SolveRequest
    opened: Opened
    factors: Opened
    along: tuple[str, ...]
    dim: str
    periodic: bool
    rhs: tuple[Band, ...]
    sizes: Mapping[str, int]
    dtype: str

    @property
    def operations(self) -> int:
        """Floating-point operations of all right-hand sides, of inner rows."""
        a_row = SOLVING + (CORRECTING if self.periodic else 0)
        return a_row * sum(math.prod(self.sizes[dim] for dim in band.dims) for band in self.rhs)


def check_factor(request: FactorRequest, opened: Opened) -> CheckedFactor:
    """Return the request with all names resolved; reads no values."""
    named = zip(("lower", "upper", "diagonal"), request.variables, strict=True)
    arguments: dict[str, str] = dict[str, str](named)
    found = bands_of(opened, arguments, request.dim)
    sizes = sizes_of(opened, found[-1], request.dim, periodic=request.periodic)
    for name in (*FACTORS, *OF_CORNERS, "status"):
        if PREFIX + name in {*opened.dataset.coords, *opened.dataset.sizes}:
            raise ArgumentError(
                f"The dataset has a coordinate or dimension '{PREFIX}{name}', as factors have a"
                " variable.",
                hint="Give it another name.",
            )
    dtype = opened.dataset[found[-1].name].dtype.name
    return CheckedFactor(request, opened, (found[0], found[1], found[2]), sizes, dtype)


def factor_job(
    checked: CheckedFactor, pool: Pool, target: str, mode: str = "streamed"
) -> Blockwise:
    """Return the job: blocks of whole matrices that fit. Raises `CapacityError`."""
    request, sizes = checked.request, checked.sizes
    opened, band, names = checked.opened, checked.bands[-1], request.variables
    size, plain = _bytes_on_device(checked.dtype, sizes), _plain(request, mode)
    on_device = stays(opened, names, pool, target, size, plain=plain)
    if on_device:
        cut = one_block(sizes, size)
    else:
        reading = reading_of(opened, names)
        cut = _cut(opened, band, request.dim, request, pool, target, reading)

    def work(source: Source, sink: Sink) -> FactorWork:
        return FactorWork(
            bands=checked.bands,
            dims=tuple(sizes),
            dim=request.dim,
            source=source,
            sink=sink,
            target=target,
            periodic=request.periodic,
            on_device=on_device,
        )

    block = dict(zip(sizes, cut.block, strict=True))
    over = tuple(dim for dim in sizes if dim != request.dim)

    def output(name: str, dims: tuple[str, ...], kind: str, about: Mapping[str, Any]) -> Output:
        return Output.of_blocks(PREFIX + name, dims, kind, block, sizes, about)

    by_row = (*FACTORS, *(OF_CORNERS[:1] if request.periodic else ()))
    known = {"solve_dim": request.dim, "solve_periodic": int(request.periodic)}
    outputs = [
        output(name, tuple(sizes), checked.dtype, {"long_name": _ABOUT[name], **known})
        for name in by_row
    ]
    if request.periodic:
        outputs.append(output("share", over, checked.dtype, {"long_name": _ABOUT["share"]}))
    outputs.append(output("status", over, "uint8", status_attributes()))
    job = Blockwise(
        opened=checked.opened,
        sizes=sizes,
        reads=request.variables,
        outputs=tuple(outputs),
        blocks=cut.blocks,
        work=work,
        what=f"factors of tridiagonal matrices of '{request.variables[2]}' along '{request.dim}'",
        target=target,
        projected=cut.projected,
        output=request.output,
        operations=(FACTORING + (SOLVING if request.periodic else 0)) * math.prod(sizes.values()),
        whole=on_device,
        on_device=on_device,
    )
    return with_note(job, names)


def check_solve(request: SolveRequest, opened: Opened, factors: Opened) -> CheckedSolve:
    """Return the request with all names resolved; reads no values."""
    held = _held(factors)
    along = tuple(str(dim) for dim in held.dims)
    dim = str(held.attrs["solve_dim"])
    found = [bands_of(opened, {"rhs": name}, dim)[0] for name in request.names]
    for band in found:
        array = opened.dataset[band.name]
        for name in along:
            size = int(array.sizes.get(name, 0))
            if size != held.sizes[name]:
                got = f"{size} points" if name in array.dims else "no such dimension"
                raise FieldError(
                    f"Variable '{band.name}' (rhs) must have {held.sizes[name]} points along"
                    f" '{name}', as the factors do, got {got}."
                )
        if array.dtype.name != held.dtype.name:
            raise FieldError(
                f"Variable '{band.name}' (rhs) must be {held.dtype.name}, as the factors are, got"
                f" {array.dtype.name}.",
                hint=hint_of_conversion(array),
            )
    sizes = {d: int(opened.dataset.sizes[d]) for band in found for d in band.dims}
    periodic = bool(held.attrs["solve_periodic"])
    dtype = held.dtype.name
    return CheckedSolve(request, opened, factors, along, dim, periodic, tuple(found), sizes, dtype)


def _held(factors: Opened) -> xr.DataArray:
    """Return the variable that says what the factors are of."""
    name = f"{PREFIX}reciprocal"
    known = ("solve_dim", "solve_periodic")
    if name in factors.dataset and all(key in factors.dataset[name].attrs for key in known):
        return factors.dataset[name]
    raise FieldError(
        f"The factors must be a result of 'factor', got a dataset without '{name}' or without its"
        " attributes.",
        hint="Make them with he.factor(...).",
    )


def factored_job(
    checked: CheckedSolve, pool: Pool, target: str, mode: str = "streamed"
) -> Blockwise:
    """Return the job: a pass for each right-hand side. Raises `CapacityError`."""
    request, sizes, names = checked.request, checked.sizes, [band.name for band in checked.rhs]
    check_wanted(sizes, checked.dim, request.chunks)
    size, plain = _bytes_on_device(checked.dtype, sizes), _plain(request, mode)
    on_device = stays(checked.opened, names, pool, target, size, plain=plain)
    if on_device:
        cuts = {band.name: _whole(checked, band) for band in checked.rhs}
    else:
        cuts = {band.name: _cut_for(checked, band, pool, target) for band in checked.rhs}

    read = [*FACTORS, "status", *(OF_CORNERS if checked.periodic else ())]

    def stages(source: Source, sink: Sink, folder: Path | None) -> Iterator[Stage]:
        place = (folder or Path()) / "factors"
        with ExitStack() as stack:
            held = [PREFIX + name for name in read]
            factors: Source = readable(checked.factors, held, pool, stack, place)
            if on_device:
                factors = BroughtToDevice(checked.factors.dataset, brought)
            for band in checked.rhs:
                work = FactoredWork(
                    factors=factors,
                    along=checked.along,
                    rhs=band,
                    dim=checked.dim,
                    source=source,
                    sink=sink,
                    target=target,
                    periodic=checked.periodic,
                    name=request.names[band.name],
                    status=f"{request.names[band.name]}_status",
                    on_device=on_device,
                )
                yield Stage(work, cuts[band.name].blocks)

    listed = ", ".join(f"'{name}'" for name in names)
    job = Blockwise(
        opened=checked.opened,
        sizes=sizes,
        reads=tuple(names),
        outputs=tuple(
            output for band in checked.rhs for output in _solved(checked, band, cuts[band.name])
        ),
        blocks=cuts[checked.rhs[0].name].blocks,
        work=None,
        what=f"tridiagonal systems of {listed} along '{checked.dim}', with factors",
        target=target,
        projected=max(cut.projected for cut in cuts.values()),
        output=request.output,
        operations=checked.operations,
        passes=len(checked.rhs),
        stages=stages,
        whole=on_device,
        on_device=on_device,
    )
    return with_note(job, names)


def _plain(request: FactorRequest | SolveRequest, mode: str) -> bool:
    return mode == "auto" and request.output is None and not request.chunks


def _bytes_on_device(dtype: str, sizes: Mapping[str, int]) -> int:
    return _ON_DEVICE * math.prod(sizes.values()) * np.dtype(dtype).itemsize


def _whole(checked: CheckedSolve, band: Band) -> Cut:
    """Return a right-hand side as one block."""
    sizes = {dim: checked.sizes[dim] for dim in band.dims}
    return one_block(sizes, _bytes_on_device(checked.dtype, sizes))


def _cut_for(checked: CheckedSolve, band: Band, pool: Pool, target: str) -> Cut:
    """Return blocks of a right-hand side, which read its factors as well."""
    held = [str(name) for name in checked.factors.dataset.data_vars]
    factors = reading_of(checked.factors, (name for name in held if name.startswith(PREFIX)))
    own = reading_of(checked.opened, [band.name])
    reading = Reading((*own.variables, *factors.variables))
    return _cut(checked.opened, band, checked.dim, checked.request, pool, target, reading)


def _solved(checked: CheckedSolve, band: Band, cut: Cut) -> tuple[Output, Output]:
    """Return what is made of a right-hand side."""
    name, own = checked.request.names[band.name], {d: checked.sizes[d] for d in band.dims}
    block = dict(zip(own, cut.block, strict=True))
    over = tuple(dim for dim in own if dim != checked.dim)
    return (
        Output.of_blocks(name, band.dims, checked.dtype, block, own),
        Output.of_blocks(f"{name}_status", over, "uint8", block, own, status_attributes()),
    )


def _cut(
    opened: Opened,
    band: Band,
    dim: str,
    request: FactorRequest | SolveRequest,
    pool: Pool,
    target: str,
    reading: Reading,
) -> Cut:
    """Return blocks of whole systems of a variable; `reading` is what a block reads."""
    sizes = {name: int(opened.dataset.sizes[name]) for name in band.dims}
    itemsize = opened.dataset[band.name].dtype.itemsize
    row = sizes[dim] * itemsize
    held = 0 if request.output else math.prod(sizes.values()) * itemsize
    room = batch_memory(pool, target, _HELD * row, _ON_DEVICE * row, held)
    chunks = {name: size for name, size in request.chunks.items() if name in sizes}
    return cut_batch(sizes, dim, chunks, chunks_in(opened, band.name), pool, room, reading)
