"""Jobs that put other dimensions in the place of some: gathers, scatters, sparse products.

Each variable is read in blocks along the dimensions that are left, its batch; a block has all
of the dimensions that change. What an operation does with one member of the batch does not depend
on the others, so neither does the result depend on the blocks.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.backends.transfers import transfers_on
from halocline_engine.datasets.stores.sink import Sink
from halocline_engine.datasets.stores.source import Opened, Source
from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.grid.partition import Block, Span, partition
from halocline_engine.distribute.jobs.blocking import (
    LARGE_TASK,
    SMALL_TASK,
    TASKS_PER_WORKER,
    check_reading,
    region_of,
)
from halocline_engine.distribute.jobs.execute import Blockwise, Output
from halocline_engine.distribute.jobs.reading import reading_of
from halocline_engine.distribute.tasks.cancel import CancelToken
from halocline_engine.distribute.tasks.model import Report, Task
from halocline_engine.errors import ArgumentError, CapacityError
from halocline_engine.kernels.indirect.plan import IndexPlan
from halocline_engine.kernels.indirect.problem import Direction, Duplicates
from halocline_engine.kernels.indirect.sparse import Form, Missing, Sparse

if TYPE_CHECKING:
    pass

__all__ = [
    "Change",
    "Moving",
    "Multiplying",
    "Operation",
    "Request",
    "change_job",
    "check_memory",
    "check_storable",
]

#: Arrays of a block that a process holds: as read, put in order, and what becomes of it.
_HELD = 3


class Operation(Protocol):
    """Operation on arrays indexed [batch, element, value]; it can be pickled."""

    @property
    def nbytes(self) -> int:
        """Bytes that it holds itself."""
        ...

    @property
    def operations(self) -> int:
        """Floating-point operations for one member of the batch and one value."""
        ...

    def apply(self, values: NDArray[Any], target: str) -> NDArray[Any]:
        """Return an array with the same batch; `values` is dense."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Moving:
    """A gather or a scatter; `fill` stands where nothing is moved."""

    plan: IndexPlan
    fill: Any

    @property
    def nbytes(self) -> int:
        """Bytes of the plan."""
        return self.plan.nbytes

    @property
    def operations(self) -> int:
        """An addition for each element of a scatter that adds."""
        return self.plan.facts.count if self.plan.duplicates is Duplicates.SUM else 0

    def apply(self, values: NDArray[Any], target: str) -> NDArray[Any]:
        """Return the elements where they are to be."""
        gather = self.plan.direction is Direction.GATHER
        elements = self.plan.facts.count if gather else self.plan.size
        shape = (values.shape[0], elements, values.shape[2])
        out = np.full(shape, self.fill, values.dtype)
        if 0 not in values.shape:
            transfers_on(target).apply(self.plan, values, out)
        return out


@dataclass(frozen=True, slots=True, eq=False)
class Multiplying:
    """A product with a sparse matrix; there is one value an element."""

    matrix: Sparse
    form: Form
    missing: Missing
    least: float

    @property
    def nbytes(self) -> int:
        """Bytes of the matrix."""
        parts = (self.matrix.starts, self.matrix.columns, self.matrix.weights)
        return sum(int(part.nbytes) for part in parts)

    @property
    def operations(self) -> int:
        """A product and a sum for each weight."""
        return 2 * len(self.matrix.weights)

    def apply(self, values: NDArray[Any], target: str) -> NDArray[Any]:
        """Return a row for each row of the matrix."""
        field = values[:, :, 0]
        product = transfers_on(target).product
        return product(self.matrix, field, self.form, self.missing, self.least)[:, :, np.newaxis]


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """Change of a variable, or of several with the same dimensions.

    `own` are their dimensions in their own order; `batch`, `taken` and `values` the same in the
    order of the work. In the result, `made` stand for those taken, and `dims` is the order. The
    elements of several variables follow each other.
    """

    variables: tuple[str, ...]
    result: str
    dtype: str
    own: tuple[str, ...]
    batch: tuple[str, ...]
    taken: tuple[str, ...]
    values: tuple[str, ...]
    made: tuple[str, ...]
    dims: tuple[str, ...]
    operation: Operation
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Request:
    """All changes of a dataset.

    `sizes` are those of the dimensions of all results, `frame` is the result without its
    variables, `chunks` are sizes of blocks that the caller gives, `what` is done.
    """

    opened: Opened
    changes: tuple[Change, ...]
    sizes: Mapping[str, int]
    frame: xr.Dataset
    chunks: Mapping[str, int]
    output: Path | None
    what: str

    def __post_init__(self) -> None:
        """Raise `ArgumentError` for chunks along other dimensions than those of blocks."""
        _check_chunks(self)


@dataclass(frozen=True, slots=True, eq=False)
class _ChangeWork:
    """Work of a worker on a block: its first span is the number of the change."""

    changes: tuple[Change, ...]
    sizes: Mapping[str, int]
    source: Source
    sink: Sink
    target: str

    def run(self, block: Block, cancelled: CancelToken | None = None) -> Report:
        """Read, change and write a block."""
        task = Task(block, cancelled)
        change = self.changes[block.extra[0].start]
        spans = dict(zip(change.batch, block.extra[1:], strict=True))
        region = tuple(
            slice(spans[dim].start, spans[dim].stop) if dim in spans else slice(None)
            for dim in change.own
        )
        read = [task.read(self.source, name, region) for name in change.variables]
        lengths = dict(zip(change.own, read[0].shape, strict=True))
        with task.computing():
            values = [_ordered(change, array) for array in read]
            together = values[0] if len(values) == 1 else np.concatenate(values, axis=1)
            found = change.operation.apply(together, self.target)
        made = (*change.batch, *change.made, *change.values)
        whole = found.reshape([lengths[d] if d in spans else self.sizes[d] for d in made])
        spans |= {dim: Span(0, self.sizes[dim]) for dim in change.dims if dim not in spans}
        result = whole.transpose([made.index(dim) for dim in change.dims])
        task.write(self.sink, change.result, region_of(change.dims, spans), result)
        return task.report()


def _ordered(change: Change, array: NDArray[Any]) -> NDArray[Any]:
    """Return values indexed [batch, element, value], dense."""
    lengths = dict(zip(change.own, array.shape, strict=True))
    parts = (change.batch, change.taken, change.values)
    turned = array.transpose([change.own.index(dim) for part in parts for dim in part])
    shape = [math.prod(lengths[dim] for dim in part) for part in parts]
    return np.ascontiguousarray(turned).reshape(shape)


def check_memory(what: str, needed: int) -> None:
    """Raise `CapacityError` where this process cannot hold what it must have whole."""
    available = LocalPool().memory
    if needed > available:
        raise CapacityError(
            f"The {what} need about {needed} bytes of memory, but {available} are free.",
            hint="Use fewer of them at a time.",
            needed=needed,
            available=available,
        )


def change_job(request: Request, pool: Pool, target: str) -> Blockwise:
    """Return the job, in blocks that fit.

    Raises `CapacityError` where one member does not, and `OutputError` for a type that the output
    cannot hold.
    """
    for change in request.changes:
        check_storable(change.dtype, change.variables[0], request.output)
    blocks: list[Block] = []
    outputs: list[Output] = []
    largest = 0
    for number, change in enumerate(request.changes):
        size, taken = _block(request, change, pool)
        spans = _spans(request, change, size)
        one = Span(0, 1)
        for extra in spans:
            lead = Span(number, number + 1)
            blocks.append(Block(len(blocks), (one, one, one), (lead, *extra)))
        cut = {dim: size.get(dim, request.sizes[dim]) for dim in change.dims}
        made = (change.result, change.dims, change.dtype, cut, request.sizes)
        outputs.append(Output.of_blocks(*made, change.attributes))
        largest = max(largest, change.operation.nbytes + taken)

    def work(source: Source, sink: Sink) -> _ChangeWork:
        return _ChangeWork(request.changes, dict(request.sizes), source, sink, target)

    used = {dim for change in request.changes for dim in change.dims}
    return Blockwise(
        opened=request.opened,
        sizes={dim: size for dim, size in request.sizes.items() if dim in used},
        reads=tuple(name for change in request.changes for name in change.variables),
        outputs=tuple(outputs),
        blocks=tuple(blocks),
        work=work,
        what=request.what,
        target=target,
        projected=min(len(blocks), pool.workers * pool.threads) * largest,
        output=request.output,
        frame=request.frame,
        operations=sum(_operations(request, change) for change in request.changes),
    )


def _operations(request: Request, change: Change) -> int:
    lengths = _lengths(request, change)
    times = math.prod(lengths[dim] for dim in (*change.batch, *change.values))
    return times * change.operation.operations


def check_storable(dtype: str, name: str, output: Path | None) -> None:
    """Raise `ArgumentError` where values have no plain form in a store."""
    if output is not None and np.dtype(dtype).kind not in "biufc":
        raise ArgumentError(
            f"Values of type '{np.dtype(dtype)}' cannot be written to a store block by block, but"
            f" '{name}' has them.",
            hint="Leave 'output' out and store the result, or convert them.",
        )


def _check_chunks(request: Request) -> None:
    batch = dict.fromkeys(itertools.chain(*(change.batch for change in request.changes)))
    for name in request.chunks:
        if name not in batch:
            known = ", ".join(repr(dim) for dim in batch)
            raise ArgumentError(
                f"Argument 'chunks' must name unchanged dimensions, got '{name}'.",
                hint=f"There are {known}." if known else "There is none.",
            )


def _block(request: Request, change: Change, pool: Pool) -> tuple[dict[str, int], int]:
    """Return the size of blocks along the batch, and the bytes of one while it is worked on.

    The slowest dimensions are cut first. Raises `CapacityError`.
    """
    lengths = _lengths(request, change)
    item = np.dtype(change.dtype).itemsize
    element = [lengths[dim] for dim in (*change.taken, *change.values)]
    read = len(change.variables) * math.prod(element)
    written = math.prod(request.sizes[dim] for dim in (*change.made, *change.values))
    bytes_each = max(1, _HELD * item * (read + written))
    memory = pool.memory // pool.threads - change.operation.nbytes
    block = {dim: max(1, lengths[dim]) for dim in change.batch}
    block |= {dim: min(request.chunks[dim], block[dim]) for dim in block if dim in request.chunks}
    total = math.prod(max(1, lengths[dim]) for dim in change.batch)
    share = -(-total // (TASKS_PER_WORKER * pool.workers))
    usual = min(memory, LARGE_TASK) // bytes_each
    goal = max(1, min(usual, max(share, SMALL_TASK // bytes_each)))
    reading = reading_of(request.opened, change.variables)

    def taken() -> int:
        return math.prod(block.values()) * bytes_each + reading.bytes(block)

    while math.prod(block.values()) > goal or taken() > memory:
        free = [dim for dim in block if block[dim] > 1 and dim not in request.chunks]
        if not free:
            break
        block[free[0]] = -(-block[free[0]] // 2)
    needed = math.prod(block.values()) * bytes_each
    if needed > memory:
        raise CapacityError(
            f"A block of '{change.variables[0]}' needs {needed} bytes of memory, but"
            f" {max(0, memory)} are free for it.",
            hint="Give smaller 'chunks', or use workers with more memory.",
            needed=needed,
            available=max(0, memory),
        )
    check_reading(taken(), memory)
    return block, taken()


def _spans(
    request: Request, change: Change, block: Mapping[str, int]
) -> Sequence[tuple[Span, ...]]:
    lengths = _lengths(request, change)
    sizes = tuple(lengths[dim] for dim in change.batch)
    cut = partition((1, 1, 1), sizes, (1, 1, 1), tuple(block.values()))
    return [one.extra for one in cut]


def _lengths(request: Request, change: Change) -> dict[str, int]:
    array = request.opened.dataset[change.variables[0]]
    return {str(dim): int(size) for dim, size in array.sizes.items()}
