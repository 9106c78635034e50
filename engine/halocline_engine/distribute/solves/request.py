"""From the arguments of a solve to a job: names and types are checked, blocks are cut."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from halocline_engine.analysis.named import near
from halocline_engine.arguments import text
from halocline_engine.datasets.formats.ragged import Ragged, ragged_of
from halocline_engine.datasets.stores.sink import Sink
from halocline_engine.datasets.stores.source import Opened, Source, array_in
from halocline_engine.datasets.variables import hint_of_conversion, stored_chunks, variable_of
from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.grid.partition import Block, Span
from halocline_engine.distribute.jobs.blocking import (
    TASKS_PER_WORKER,
    Cut,
    batch_memory,
    check_reading,
    check_wanted,
    cut_batch,
)
from halocline_engine.distribute.jobs.execute import Blockwise, Output
from halocline_engine.distribute.jobs.reading import reading_of
from halocline_engine.distribute.solves.banded import Band, BandedWork, Systems
from halocline_engine.distribute.solves.on_device import one_block, stays
from halocline_engine.distribute.solves.tree import TreeWork, pieces_of
from halocline_engine.errors import ArgumentError, CapacityError, FieldError
from halocline_engine.kernels.operations import (
    CORRECTING,
    FACTORING,
    PENTADIAGONAL,
    SOLVING,
    TREE,
)
from halocline_engine.kernels.status import status_attributes
from halocline_engine.kernels.tridiagonal.pieces import PIECE
from halocline_engine.kernels.tridiagonal.problem import rows_of_periodic

__all__ = [
    "BandedRequest",
    "CheckedBanded",
    "CheckedTree",
    "TreeRequest",
    "banded_job",
    "bands_of",
    "check_banded",
    "check_tree",
    "chunks_in",
    "chunks_of",
    "job_on_device",
    "outputs_of",
    "sizes_of",
    "systems_of",
    "tree_job",
]

_Systems = TypeVar("_Systems", bound=Systems)

_KINDS = ("float32", "float64")
_TRIDIAGONAL = 4
# What the variables of a request are, by their number.
_ARGUMENTS: Mapping[int, tuple[str, ...]] = {
    4: ("lower", "diagonal", "upper", "rhs"),
    6: ("second_lower", "lower", "diagonal", "upper", "second_upper", "rhs"),
}
# Arrays of a block that a process holds: as read, put in order, and solved; and on a device.
_HELD = 12
_ON_DEVICE = 8
# Bytes of an array of a block that has all systems, which is cancelled at its end only.
_AT_ONCE = 1 << 30
# Bytes of a node beside those: parents, orders and places.
_NODE = 96
# Nodes of a chunk of a ragged result, and cells of a block that need no cutting, at most.
_NODES_A_CHUNK = 1 << 16
_NODES_A_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BandedRequest:
    """Request of a caller.

    `variables` are the bands of tridiagonal or pentadiagonal systems from the lowest to the
    highest, and rhs.
    """

    variables: tuple[str, ...]
    dim: str
    periodic: bool
    pivoting: bool
    residual: bool
    name: str
    chunks: Mapping[str, int]
    output: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRequest:
    """Request of a caller; `variables` are diagonal, upper and rhs."""

    variables: tuple[str, str, str]
    parent: str
    row_size: str
    name: str
    chunks: Mapping[str, int]
    output: Path | None


@dataclass(frozen=True, slots=True, eq=False)
class CheckedBanded:
    """A validated request; `sizes` are those of the dimensions of rhs, in their order."""

    request: BandedRequest
    opened: Opened
    bands: tuple[Band, ...]
    sizes: Mapping[str, int]
    dtype: str

    @property
    def operations(self) -> int:
        """Floating-point operations of elimination without pivoting, of inner rows."""
        a_row = {"pentadiagonal": PENTADIAGONAL, "tridiagonal": FACTORING + SOLVING}[self.kind]
        corners = SOLVING + CORRECTING if self.request.periodic else 0
        return (a_row + corners) * math.prod(self.sizes.values())

    @property
    def kind(self) -> str:
        """Name of the systems."""
        return "tridiagonal" if len(self.bands) == _TRIDIAGONAL else "pentadiagonal"


@dataclass(frozen=True, slots=True, eq=False)
class CheckedTree:
    """A validated request; `sizes` are those of the dimensions of rhs, in their order."""

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


def check_banded(request: BandedRequest, opened: Opened) -> CheckedBanded:
    """Return the request with all names resolved; reads no values."""
    arguments = zip(_ARGUMENTS[len(request.variables)], request.variables, strict=True)
    found = bands_of(opened, dict[str, str](arguments), request.dim)
    sizes = sizes_of(opened, found[-1], request.dim, periodic=request.periodic)
    dtype = opened.dataset[found[-1].name].dtype.name
    check_wanted(sizes, request.dim, {**request.chunks, request.dim: sizes[request.dim]})
    return CheckedBanded(request, opened, tuple(found), sizes, dtype)


def sizes_of(opened: Opened, band: Band, dim: str, *, periodic: bool) -> dict[str, int]:
    """Return the sizes of a variable of systems along `dim`; raises where these have few rows."""
    sizes = {name: int(opened.dataset.sizes[name]) for name in band.dims}
    if not sizes[dim]:
        raise FieldError(f"Dimension '{dim}' has no rows, expected at least one.")
    if periodic:
        rows_of_periodic(sizes[dim])
    return sizes


def check_tree(request: TreeRequest, opened: Opened) -> CheckedTree:
    """Return the request with all names resolved; reads the count variable only."""
    ragged = ragged_of(opened.dataset, request.row_size)
    arguments = zip(("diagonal", "upper", "rhs"), request.variables, strict=True)
    found = bands_of(opened, dict[str, str](arguments), ragged.samples)
    parent = _variable(opened, "parent", request.parent)
    if parent.dims != (ragged.samples,) or parent.dtype.kind not in "iu":
        raise FieldError(
            f"Variable '{request.parent}' must hold whole numbers along '{ragged.samples}' only, as"
            f" the parents of all nodes, got {parent.dtype.name} along {_names(parent.dims)}."
        )
    sizes = {dim: int(opened.dataset.sizes[dim]) for dim in found[-1].dims}
    if ragged.rows in sizes:
        raise FieldError(
            f"Variable '{found[-1].name}' must have the dimension '{ragged.samples}' of the nodes"
            f" without '{ragged.rows}' of the cells, got both.",
            hint="Store the nodes of all cells along one dimension.",
        )
    dtype = opened.dataset[found[-1].name].dtype.name
    return CheckedTree(request, opened, (found[0], found[1], found[2]), ragged, sizes, dtype)


def banded_job(checked: CheckedBanded, pool: Pool, target: str, *, held: int = _HELD) -> Blockwise:
    """Return the job: blocks of whole systems that fit. Raises `CapacityError` where none does.

    `held` arrays of a block are in memory at once.
    """
    request, sizes, dim = checked.request, checked.sizes, checked.request.dim
    itemsize = np.dtype(checked.dtype).itemsize
    row = sizes[dim] * itemsize
    result = 0 if request.output else math.prod(sizes.values()) * itemsize
    room = batch_memory(pool, target, held * row, _ON_DEVICE * row, result)
    whole = math.prod(sizes.values()) * itemsize
    if _lies_scattered(checked, pool) and whole <= min(_AT_ONCE, room.most * row):
        return _of_whole_systems(checked, target, one_block(sizes, held * whole), whole=True)
    reading = reading_of(checked.opened, request.variables)
    cut = cut_batch(sizes, dim, request.chunks, chunks_of(checked), pool, room, reading)
    return _of_whole_systems(checked, target, cut)


def _lies_scattered(checked: CheckedBanded, pool: Pool) -> bool:
    """Say whether a part of the systems would have to be copied together, but all of them not.

    Pentadiagonal ones gain little by it, and take long for a job that is cancelled between blocks.
    """
    request, source = checked.request, checked.opened.source
    if pool.remote or request.output is not None or request.chunks:
        return False
    if checked.kind != "tridiagonal":
        return False
    first = next(iter(checked.sizes)) == request.dim
    return first and all(array_in(source, name) is not None for name in request.variables)


def job_on_device(checked: CheckedBanded, pool: Pool, target: str) -> Blockwise | None:
    """Return the job of systems that stay on the device of this process; None if they do not."""
    request = checked.request
    size = _ON_DEVICE * math.prod(checked.sizes.values()) * np.dtype(checked.dtype).itemsize
    # The host puts periodic systems in another order for pivoting.
    folded = request.pivoting and request.periodic
    plain = request.output is None and not request.chunks and not folded
    if not stays(checked.opened, request.variables, pool, target, size, plain=plain):
        return None
    cut = one_block(checked.sizes, size)
    return _of_whole_systems(checked, target, cut, whole=True, on_device=True)


def _of_whole_systems(
    checked: CheckedBanded, target: str, cut: Cut, *, whole: bool = False, on_device: bool = False
) -> Blockwise:
    request, sizes, dim = checked.request, checked.sizes, checked.request.dim

    def work(source: Source, sink: Sink) -> BandedWork:
        how = {"pivoting": request.pivoting, "piece": PIECE, "on_device": on_device}
        return systems_of(BandedWork, checked, source, sink, target, **how)

    return Blockwise(
        opened=checked.opened,
        sizes=sizes,
        reads=request.variables,
        outputs=outputs_of(checked, {}, dict(zip(sizes, cut.block, strict=True))),
        blocks=cut.blocks,
        work=work,
        what=f"{checked.kind} systems of '{checked.bands[-1].name}' along '{dim}'",
        target=target,
        projected=cut.projected,
        output=request.output,
        operations=checked.operations,
        whole=whole,
        on_device=on_device,
    )


def systems_of(
    kind: Callable[..., _Systems],
    checked: CheckedBanded,
    source: Source,
    sink: Sink,
    target: str,
    **how: Any,
) -> _Systems:
    """Return the systems of a request, read and written there; `how` is what their kind adds."""
    request, dims = checked.request, tuple(checked.sizes)
    inside = math.prod(checked.sizes[name] for name in dims[dims.index(request.dim) + 1 :])
    return kind(
        bands=checked.bands,
        dims=dims,
        dim=request.dim,
        source=source,
        sink=sink,
        target=target,
        contiguous=inside == 1,
        periodic=request.periodic,
        name=request.name,
        status=f"{request.name}_status",
        residual=f"{request.name}_residual" if request.residual else "",
        **how,
    )


def outputs_of(
    checked: CheckedBanded,
    blocks: Mapping[str, Mapping[str, int]],
    block: Mapping[str, int],
) -> tuple[Output, ...]:
    """Return what is made; `block` has the sizes of what writes it, or `blocks` for some of it."""
    sizes, request = checked.sizes, checked.request
    others = tuple(dim for dim in sizes if dim != request.dim)

    def output(suffix: str, over: tuple[str, ...], kind: str, **attributes: Any) -> Output:
        name = f"{request.name}{suffix}"
        return Output.of_blocks(name, over, kind, blocks.get(name, block), sizes, attributes)

    made = [output("", tuple(sizes), checked.dtype)]
    made.append(output("_status", others, "uint8", **status_attributes()))
    if request.residual:
        about = "backward error of a system's solution"
        made.append(output("_residual", others, "float64", long_name=about))
    return tuple(made)


def chunks_of(checked: CheckedBanded) -> dict[str, int]:
    """Return the chunks of the right-hand side along its dimensions, where it has some."""
    return chunks_in(checked.opened, checked.bands[-1].name)


def chunks_in(opened: Opened, name: str) -> dict[str, int]:
    """Return the chunks of a variable along its dimensions, where it has some."""
    array = opened.dataset[name]
    chunks = stored_chunks(array)
    if array.chunks is not None:
        chunks = tuple(max(parts) for parts in array.chunks)
    return dict(zip(map(str, array.dims), chunks, strict=False))


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
    taken = most * _node_bytes(checked) + _tree_reading(checked, most)
    check_reading(taken, pool.memory // pool.threads)

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
        operations=TREE * math.prod(checked.sizes.values()),
        projected=min(pool.workers * pool.threads, len(blocks)) * taken,
        output=request.output,
    )


def _tree_reading(checked: CheckedTree, nodes: int) -> int:
    names = (*checked.request.variables, checked.request.parent)
    return reading_of(checked.opened, names).bytes({checked.ragged.samples: nodes})


def _small(sizes: Mapping[str, int], along: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(max(1, min(size, along[dim])) for dim, size in sizes.items())


def _node_bytes(checked: CheckedTree) -> int:
    points = math.prod(checked.sizes[dim] for dim in checked.others)
    return _NODE + 5 * points * np.dtype(checked.dtype).itemsize + 64


def _cells(checked: CheckedTree, pool: Pool) -> int:
    """Return how many cells a block has."""
    sizes, samples = checked.ragged.sizes, checked.ragged.samples
    count, total = max(1, len(sizes)), int(sizes.sum())
    for name in checked.request.chunks:
        if name != checked.ragged.rows:
            raise ArgumentError(
                f"Argument 'chunks' must give a number of cells, by '{checked.ragged.rows}', got"
                f" '{name}'.",
                hint=f"The nodes along '{samples}' go with their cells." if name == samples else "",
            )
    mean = max(1.0, total / count)
    share = -(-count // (TASKS_PER_WORKER * pool.workers))
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


def bands_of(opened: Opened, arguments: Mapping[str, str], dim: str) -> list[Band]:
    """Return the variables; the last one, such as the right-hand side, has the dimensions of all.

    Raises `FieldError` where they do not fit together.
    """
    text("dim", dim, "the name of a dimension")
    arrays = {name: _variable(opened, name, variable) for name, variable in arguments.items()}
    last = list(arguments)[-1]
    whole = "right-hand side" if last == "rhs" else last
    rhs = arrays[last]
    for name, array in arrays.items():
        variable, dims = arguments[name], tuple(str(d) for d in array.dims)
        if dim not in dims:
            raise FieldError(
                f"Variable '{variable}' ({name}) must have the dimension '{dim}', got"
                f" {_names(dims)}.",
                hint="It is the dimension of the rows.",
            )
        beyond = [d for d in dims if d not in rhs.dims]
        if beyond:
            raise FieldError(
                f"Variable '{variable}' ({name}) has the dimension '{beyond[0]}', which the"
                f" {whole} '{arguments[last]}' does not have.",
                hint=f"It has {_names(tuple(str(d) for d in rhs.dims))}.",
            )
        if rhs.dtype.name not in _KINDS:
            raise FieldError(
                f"Variable '{arguments[last]}' ({last}) must be float32 or float64, got"
                f" {rhs.dtype.name}.",
                hint=hint_of_conversion(rhs),
            )
        if array.dtype.name != rhs.dtype.name:
            raise FieldError(
                f"Variable '{variable}' ({name}) must be float32 or float64, as"
                f" '{arguments[last]}' is ({rhs.dtype.name}), got {array.dtype.name}.",
                hint=hint_of_conversion(array),
            )
    return [Band(arguments[n], tuple(str(d) for d in a.dims)) for n, a in arrays.items()]


def _variable(opened: Opened, argument: str, name: str) -> Any:
    text(argument, name, "the name of a variable")
    if name not in opened.dataset.variables:
        raise FieldError(
            f"Variable '{name}' (argument '{argument}') is not in the dataset.",
            hint=near(name, [str(known) for known in opened.dataset.variables]),
        )
    return variable_of(opened.dataset, name)


def _names(dims: Sequence[object]) -> str:
    return ", ".join(f"'{dim}'" for dim in dims) or "no dimension"
