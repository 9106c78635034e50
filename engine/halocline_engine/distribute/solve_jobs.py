"""From the arguments of a solve to a job: names and types are checked, blocks are cut."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from halocline_engine.datasets.match import near
from halocline_engine.datasets.ragged import Ragged, ragged_of
from halocline_engine.datasets.sink import Sink
from halocline_engine.datasets.source import Opened, Source
from halocline_engine.distribute.blockwise import Blockwise, Output
from halocline_engine.distribute.partition import Block, Span
from halocline_engine.distribute.pool import Pool
from halocline_engine.distribute.solving import (
    Band,
    Cut,
    TridiagonalWork,
    chunks_within,
    cut_batch,
    room_for,
)
from halocline_engine.distribute.tree_solving import TreeWork, pieces_of
from halocline_engine.errors import ArgumentError, CapacityError, FieldError
from halocline_engine.kernels.status import status_attributes
from halocline_engine.kernels.tridiagonal.problem import rows_of_periodic

__all__ = [
    "CheckedTree",
    "CheckedTridiagonal",
    "TreeRequest",
    "TridiagonalRequest",
    "check_tree",
    "check_tridiagonal",
    "tree_job",
    "tridiagonal_job",
]

_KINDS = ("float32", "float64")
# Arrays of a block that a process holds: as read, put in order, and solved; and on a device.
_HELD = 12
_ON_DEVICE = 8
# Bytes of a node beside those: parents, orders and places.
_NODE = 96
# Nodes of a chunk of a ragged result, and cells of a block that need no cutting, at most.
_NODES_A_CHUNK = 1 << 16
_NODES_A_BLOCK = 1 << 20
_TASKS_A_WORKER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TridiagonalRequest:
    """What a caller asks for; `variables` are lower, diagonal, upper and rhs."""

    variables: tuple[str, str, str, str]
    dim: str
    periodic: bool
    residual: bool
    name: str
    chunks: Mapping[str, int]
    output: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRequest:
    """What a caller asks for; `variables` are diagonal, upper and rhs."""

    variables: tuple[str, str, str]
    parent: str
    row_size: str
    name: str
    chunks: Mapping[str, int]
    output: Path | None


@dataclass(frozen=True, slots=True, eq=False)
class CheckedTridiagonal:
    """A request that has sense; `sizes` are those of the dimensions of rhs, in their order."""

    request: TridiagonalRequest
    opened: Opened
    bands: tuple[Band, Band, Band, Band]
    sizes: Mapping[str, int]
    dtype: str


@dataclass(frozen=True, slots=True, eq=False)
class CheckedTree:
    """A request that has sense; `sizes` are those of the dimensions of rhs, in their order."""

    request: TreeRequest
    opened: Opened
    bands: tuple[Band, Band, Band]
    ragged: Ragged
    sizes: Mapping[str, int]
    dtype: str

    @property
    def others(self) -> tuple[str, ...]:
        """The dimensions of rhs but that of the nodes."""
        return tuple(dim for dim in self.sizes if dim != self.ragged.samples)


def check_tridiagonal(request: TridiagonalRequest, opened: Opened) -> CheckedTridiagonal:
    """Return the request with all names resolved; reads no values."""
    arguments = zip(("lower", "diagonal", "upper", "rhs"), request.variables, strict=True)
    found = _bands(opened, dict[str, str](arguments), request.dim)
    sizes = {dim: int(opened.dataset.sizes[dim]) for dim in found[-1].dims}
    if not sizes[request.dim]:
        raise FieldError(f"Dimension '{request.dim}' has no rows, expected at least one.")
    if request.periodic:
        rows_of_periodic(sizes[request.dim])
    _check_name(request.name, opened)
    dtype = opened.dataset[found[-1].name].dtype.name
    bands = (found[0], found[1], found[2], found[3])
    return CheckedTridiagonal(request, opened, bands, sizes, dtype)


def check_tree(request: TreeRequest, opened: Opened) -> CheckedTree:
    """Return the request with all names resolved; reads the count variable only."""
    ragged = ragged_of(opened.dataset, request.row_size)
    arguments = zip(("diagonal", "upper", "rhs"), request.variables, strict=True)
    found = _bands(opened, dict[str, str](arguments), ragged.samples)
    parent = _variable(opened, "parent", request.parent)
    if parent.dims != (ragged.samples,) or parent.dtype.kind not in "iu":
        raise FieldError(
            f"Variable '{request.parent}' must hold whole numbers along '{ragged.samples}' only, as"
            f" the parents of all nodes, got {parent.dtype.name} along {_names(parent.dims)}."
        )
    sizes = {dim: int(opened.dataset.sizes[dim]) for dim in found[-1].dims}
    if ragged.rows in sizes:
        raise FieldError(
            f"Variable '{found[-1].name}' has the dimension '{ragged.rows}', which is that of the"
            f" cells, beside '{ragged.samples}', that of their nodes.",
            hint="Nodes of all cells lie one behind the other.",
        )
    _check_name(request.name, opened)
    dtype = opened.dataset[found[-1].name].dtype.name
    return CheckedTree(request, opened, (found[0], found[1], found[2]), ragged, sizes, dtype)


def tridiagonal_job(checked: CheckedTridiagonal, pool: Pool, target: str) -> Blockwise:
    """Return the job: blocks of whole systems that fit. Raises `CapacityError` where none does."""
    request, sizes, dim = checked.request, checked.sizes, checked.request.dim
    dims = tuple(sizes)
    itemsize = np.dtype(checked.dtype).itemsize
    row = sizes[dim] * itemsize
    held = 0 if request.output else math.prod(sizes.values()) * itemsize
    room = room_for(pool, target, _HELD * row, _ON_DEVICE * row, held)
    cut = cut_batch(sizes, dim, request.chunks, _chunks(checked), pool, room)
    inside = math.prod(sizes[d] for d in dims[dims.index(dim) + 1 :])

    def work(source: Source, sink: Sink) -> TridiagonalWork:
        return TridiagonalWork(
            bands=checked.bands,
            dims=dims,
            dim=dim,
            source=source,
            sink=sink,
            target=target,
            contiguous=inside == 1,
            periodic=request.periodic,
            name=request.name,
            status=f"{request.name}_status",
            residual=f"{request.name}_residual" if request.residual else "",
        )

    return Blockwise(
        opened=checked.opened,
        sizes=sizes,
        reads=request.variables,
        outputs=_outputs(checked, cut),
        blocks=cut.blocks,
        work=work,
        what=f"tridiagonal systems of '{checked.bands[3].name}' along '{dim}'",
        target=target,
        projected=cut.projected,
        output=request.output,
    )


def _outputs(checked: CheckedTridiagonal, cut: Cut) -> tuple[Output, ...]:
    sizes, request = checked.sizes, checked.request
    block = dict(zip(sizes, cut.block, strict=True))
    others = tuple(dim for dim in sizes if dim != request.dim)

    def output(suffix: str, over: tuple[str, ...], kind: str, **attributes: Any) -> Output:
        chunks = chunks_within(over, block, sizes, np.dtype(kind).itemsize)
        return Output(f"{request.name}{suffix}", over, kind, chunks, attributes)

    made = [output("", tuple(sizes), checked.dtype)]
    made.append(output("_status", others, "uint8", **status_attributes()))
    if request.residual:
        about = "backward error of a system's solution"
        made.append(output("_residual", others, "float64", long_name=about))
    return tuple(made)


def _chunks(checked: CheckedTridiagonal) -> dict[str, int]:
    """Return the source's chunks of the right-hand side along its dimensions."""
    encoding: Mapping[str, Any] = checked.opened.dataset[checked.bands[3].name].encoding
    chunks: Sequence[int] = encoding.get("chunks") or encoding.get("chunksizes") or ()
    if len(chunks) != len(checked.sizes):
        return {}
    return dict(zip(checked.sizes, chunks, strict=True))


def tree_job(checked: CheckedTree, pool: Pool, target: str) -> Blockwise:
    """Return the job: blocks of whole cells that fit. Raises `CapacityError` where none does."""
    request, ragged = checked.request, checked.ragged
    cells, count = _cells(checked, pool), len(ragged.sizes)
    chunk = min(_NODES_A_CHUNK, max(1, int(ragged.sizes.sum())))
    pieces = pieces_of(ragged.offsets, cells, chunk)
    others = checked.others
    around = tuple(Span(0, checked.sizes[dim]) for dim in others)
    one = Span(0, 1)
    blocks = tuple(
        Block(index, (one, one, one), (piece.own, *around)) for index, piece in enumerate(pieces)
    )
    most = max((piece.nodes.size for piece in pieces), default=0)

    def work(source: Source, sink: Sink) -> TreeWork:
        return TreeWork(
            pieces=pieces,
            bands=checked.bands,
            parent=request.parent,
            row_size=request.row_size,
            rows=ragged.rows,
            samples=ragged.samples,
            dims=tuple(checked.sizes),
            source=source,
            sink=sink,
            target=target,
            name=request.name,
            status=f"{request.name}_status",
        )

    along = {**dict.fromkeys(others, 1), ragged.samples: chunk, ragged.rows: cells}
    whole = {**checked.sizes, ragged.rows: count}
    over = (*others, ragged.rows)
    return Blockwise(
        opened=checked.opened,
        sizes=whole,
        reads=(*request.variables, request.parent, request.row_size),
        outputs=(
            Output(request.name, tuple(checked.sizes), checked.dtype, _small(checked.sizes, along)),
            Output(
                f"{request.name}_status",
                over,
                "uint8",
                _small({d: whole[d] for d in over}, along),
                status_attributes(),
            ),
        ),
        blocks=blocks,
        work=work,
        what=f"systems on trees of '{checked.bands[2].name}'",
        target=target,
        projected=min(pool.workers * pool.threads, len(blocks)) * most * _node_bytes(checked),
        output=request.output,
    )


def _small(sizes: Mapping[str, int], along: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(max(1, min(size, along[dim])) for dim, size in sizes.items())


def _node_bytes(checked: CheckedTree) -> int:
    points = math.prod(checked.sizes[dim] for dim in checked.others)
    return _NODE + 5 * points * np.dtype(checked.dtype).itemsize + 64


def _cells(checked: CheckedTree, pool: Pool) -> int:
    """Return how many cells a block has."""
    sizes, samples = checked.ragged.sizes, checked.ragged.samples
    count, total = max(1, len(sizes)), int(sizes.sum())
    for name, size in checked.request.chunks.items():
        if name != checked.ragged.rows:
            raise ArgumentError(
                f"Argument 'chunks' must give a number of cells, by '{checked.ragged.rows}', got"
                f" '{name}'.",
                hint=f"The nodes along '{samples}' go with their cells." if name == samples else "",
            )
        if size < 1:
            raise ArgumentError(f"Argument 'chunks' must be at least 1 along '{name}', got {size}.")
    mean = max(1.0, total / count)
    share = -(-count // (_TASKS_A_WORKER * pool.workers))
    usual = max(1, min(int(_NODES_A_BLOCK / mean), max(share, int(_NODES_A_CHUNK / mean))))
    cells = min(count, checked.request.chunks.get(checked.ragged.rows, usual))
    offsets = checked.ragged.offsets
    starts = np.arange(0, len(sizes), cells)
    ends = np.minimum(starts + cells, len(sizes))
    largest = int((offsets[ends] - offsets[starts]).max(initial=0))
    needed = (largest + min(_NODES_A_CHUNK, total)) * _node_bytes(checked)
    available = pool.memory // pool.threads
    if needed > available:
        raise CapacityError(
            f"A block of {cells} cells needs up to {needed} bytes, but {available} are free for"
            " it.",
            hint="Give fewer cells: chunks={" + f"'{checked.ragged.rows}': ..." + "}.",
            needed=needed,
            available=available,
        )
    return cells


def _bands(opened: Opened, arguments: Mapping[str, str], dim: str) -> list[Band]:
    """Return the variables; the last one is the right-hand side, whose dimensions hold all."""
    arrays = {name: _variable(opened, name, variable) for name, variable in arguments.items()}
    rhs = arrays["rhs"]
    for name, array in arrays.items():
        variable, dims = arguments[name], tuple(str(d) for d in array.dims)
        if dim not in dims:
            raise FieldError(
                f"Variable '{variable}' ({name}) must have the dimension '{dim}', got"
                f" {_names(dims)}.",
                hint="That is the one along which the equations couple.",
            )
        beyond = [d for d in dims if d not in rhs.dims]
        if beyond:
            raise FieldError(
                f"Variable '{variable}' ({name}) has the dimension '{beyond[0]}', which the"
                f" right-hand side '{arguments['rhs']}' does not have.",
                hint=f"It has {_names(tuple(str(d) for d in rhs.dims))}.",
            )
        if array.dtype.name not in _KINDS or array.dtype != rhs.dtype:
            raise FieldError(
                f"Variable '{variable}' ({name}) must be float32 or float64, as"
                f" '{arguments['rhs']}' is ({rhs.dtype.name}), got {array.dtype.name}.",
                hint="Convert it with astype.",
            )
    return [Band(arguments[n], tuple(str(d) for d in a.dims)) for n, a in arrays.items()]


def _variable(opened: Opened, argument: str, name: str) -> Any:
    if name not in opened.dataset.variables:
        raise FieldError(
            f"There is no variable '{name}', which '{argument}' names.",
            hint=near(name, [str(known) for known in opened.dataset.variables]),
        )
    return opened.dataset[name]


def _check_name(name: str, opened: Opened) -> None:
    if not name or name in opened.dataset.coords or name in opened.dataset.sizes:
        raise ArgumentError(
            f"Argument 'name' must be a new name for the solution, got {name!r}.",
            hint="It must not be that of a coordinate or a dimension.",
        )


def _names(dims: Sequence[object]) -> str:
    return ", ".join(f"'{dim}'" for dim in dims) or "no dimension"
