"""A matrix product of two variables as a job: tiles, panels for the memory there is, and a result.

In this process one stream of panels goes over the whole product; on workers each task is some
panels of one column. The tiles of both are the same, and so are the bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import xarray as xr

from halocline_engine.backends.targets import TARGETS
from halocline_engine.datasets.stores.sink import Sink, ZarrSink
from halocline_engine.datasets.stores.source import Opened, Source, ZarrStore
from halocline_engine.device.memory.zero_copy import ring_bytes
from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.grid.partition import Block, Span
from halocline_engine.distribute.jobs.blocking import TASKS_PER_WORKER
from halocline_engine.distribute.jobs.execute import Blockwise, Output, run_blockwise
from halocline_engine.distribute.jobs.reading import chunked
from halocline_engine.distribute.products.reading import (
    PIECE,
    Made,
    Operand,
    largest_piece,
    plain_files,
    reach_of,
)
from halocline_engine.distribute.products.tiling import (
    Panel,
    Panels,
    Product,
    ProductCut,
    cut_product,
    panels_within,
)
from halocline_engine.distribute.products.work import ProductWork, RunningStream, tile_threads
from halocline_engine.distribute.tasks.cancel import CancelToken
from halocline_engine.distribute.tasks.events import Event, OnEvent, Planned
from halocline_engine.errors import ArgumentError, CapacityError, InternalError
from halocline_engine.kernels.matmul.problem import CUTS
from halocline_engine.kernels.matmul.workspace import total_type

__all__ = ["ProductRequest", "check_chunks", "run_product"]

#: Bytes of a chunk of the result, at most if it can be divided so far; a file is made of one piece,
#: by one thread, and the last tile of a product shall keep all threads busy.
_CHUNK = 8 << 20
#: Bytes that are read and written for which compiled loops make up for the time to compile them.
_LARGE = 1 << 30
#: A chunk may be one of so many parts of a side.
_PRIMES = (2, 3, 5, 7, 11, 13)
#: Products of tiles that one panel may be, on a device, where reading can take as long as they do.
_FEW = 256
#: Dimensions of a variable whose chunks are used directly.
_MATRIX = 2
# A piece that is decoded, one that is put in order, and the buffer that it is copied to.
_HELD = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProductRequest:
    """A product on a dataset; `frame` is the result without its variable, `what` is done.

    `chunks` are sizes of panels along dimensions of the result that the caller gives.
    """

    opened: Opened
    product: Product
    left: Operand
    right: Operand
    name: str
    frame: xr.Dataset
    chunks: Mapping[str, int]
    output: Path | None
    what: str


def run_product(
    request: ProductRequest,
    pool: Pool,
    target: str,
    on_event: OnEvent,
    cancelled: CancelToken | None,
) -> xr.Dataset:
    """Multiply, and return the result in memory or opened lazily.

    Raises `ArgumentError`, `CapacityError` or `OutputError` before anything is read or written.
    """
    cut = cut_product(request.product, CUTS[target])
    made = _made(request, cut)
    in_store = request.output is not None or (pool.remote and not pool.reaches_memory)
    direct = _direct(request, made, stored=in_store)
    piece = _largest(request, cut, made, direct)
    copies_rows = TARGETS[target].on_device and _is_large(request, cut)
    memory = _free(request, pool)
    aside = _Aside(piece, _decoding(request, cut, direct), copies_rows)
    threads = aside.threads(memory, target)
    panels, projected = _panels(request, cut, aside.bytes(threads), memory, pool, target)
    blocks = _blocks(panels, pool)

    def work(source: Source, sink: Sink | None) -> ProductWork:
        _check_plain(made, sink, direct=direct[2])
        return ProductWork(
            product=request.product,
            panels=panels,
            left=request.left,
            right=request.right,
            made=made,
            direct=direct,
            piece=piece,
            threads=threads,
            source=source,
            sink=sink,
            target=target,
            copies_rows=copies_rows,
        )

    job = _job(request, made, work, blocks, target, projected)
    reason = _reason(request, panels)
    if pool.remote:
        return run_blockwise(job, pool, on_event, cancelled, reason)
    with ExitStack() as stack:
        begun: list[RunningStream] = []

        def told(event: Event) -> None:
            on_event(event)
            if isinstance(event, Planned):
                # From here on, while the place of the result is made.
                started = work(request.opened.source, None).started(blocks, cancelled)
                begun.append(RunningStream(stack.enter_context(started), stack))

        def going_on(source: Source, sink: Sink) -> ProductWork:
            return replace(work(source, sink), begun=begun[0])

        return run_blockwise(replace(job, work=going_on), pool, told, cancelled, reason)


@dataclass(frozen=True, slots=True)
class _Aside:
    """Bytes on their way to and from tiles: pieces, and what decoding them takes.

    `rings` says that rows are copied through buffers of their own.
    """

    piece: int
    decoding: int
    rings: bool

    def bytes(self, threads: int) -> int:
        """Return the bytes that it takes where so many threads read, and as many write."""
        pieces = _HELD * (2 * threads + 2) * self.piece + threads * self.decoding
        return pieces + (ring_bytes(threads) if self.rings else 0)

    def threads(self, memory: int, target: str) -> int:
        """Return how many threads read, so that half of the memory is left for panels."""
        counts = range(tile_threads(target), 1, -1)
        return next((count for count in counts if self.bytes(count) <= memory // 2), 1)


def _panels(
    request: ProductRequest,
    cut: ProductCut,
    aside: int,
    memory: int,
    pool: Pool,
    target: str,
) -> tuple[Panels, int]:
    """Return the panels, and the bytes that all processes need at once; raises `CapacityError`.

    `memory` is what a stream may take, `aside` what it needs of it for what is on its way to and
    from tiles.
    """
    streams = _streams(pool)
    item = np.dtype(request.left.dtype).itemsize
    total = total_type(target, request.left.dtype).itemsize
    few = _few(pool, target)
    if aside > memory:
        raise CapacityError(
            f"Pieces of tiles and the chunks that are decoded for them need {aside} bytes of"
            f" memory, but {memory} are free for them.",
            hint="Store the dataset in smaller chunks, or use workers with more memory.",
            needed=aside,
            available=memory,
        )
    device = pool.device_memory(target)
    if device is None:
        panels = panels_within(cut, item, total, memory - aside, request.chunks, few=few)
        return panels, pool.workers * streams * (panels.nbytes + aside)
    pinned = device // streams
    panels = panels_within(cut, item, total, pinned, request.chunks, where="device memory", few=few)
    return panels, pool.workers * streams * (panels.nbytes + aside)


def _few(pool: Pool, target: str) -> int:
    return _FEW if TARGETS[target].on_device and not pool.remote else 0


def _streams(pool: Pool) -> int:
    return pool.threads if pool.remote else 1


def _free(request: ProductRequest, pool: Pool) -> int:
    """Return the memory that a stream may take, beside a result that stays in this process.

    Raises `CapacityError`.
    """
    item = np.dtype(request.left.dtype).itemsize
    product = request.product
    stays = not pool.remote and request.output is None
    held = math.prod(product.sizes[dim] for dim in product.dims) * item if stays else 0
    granted = pool.memory
    if held > granted:
        raise CapacityError(
            f"The product needs {held} bytes of memory as a result of this process, but it may"
            f" take {granted}.",
            hint="Give an 'output', so that it is written to a store.",
            needed=held,
            available=granted,
        )
    return (granted - held) // _streams(pool)


def _largest(
    request: ProductRequest, cut: ProductCut, made: Made, direct: tuple[bool, bool, bool]
) -> int:
    """Return the bytes of the largest piece of any tile."""
    sizes = _tile_sizes(cut)
    item = np.dtype(made.dtype).itemsize
    parts = [
        (one.order, dict(zip(one.own, one.chunks, strict=False)))
        for one in (request.left, request.right)
    ]
    parts.append((made.order, dict(zip(made.dims, made.chunks, strict=True))))
    largest = max(
        largest_piece(order, chunks, sizes, item, direct=directly)
        for (order, chunks), directly in zip(parts, direct, strict=True)
    )
    return min(largest, max(cut.left, cut.right, cut.total) * item)


def _decoding(request: ProductRequest, cut: ProductCut, direct: tuple[bool, bool, bool]) -> int:
    """Return what reading a piece of an operand takes, beside its values."""
    sizes = _tile_sizes(cut)
    found = [0]
    for one, directly in zip((request.left, request.right), direct, strict=False):
        chunks = dict(zip(one.own, one.chunks, strict=False))
        item = np.dtype(one.dtype).itemsize
        if directly:  # files of chunks are mapped
            found.append(math.prod(one.chunks) * item)
        else:
            reach = reach_of(one.order, chunks, sizes, item)
            found.append(chunked(request.opened, one.name).bytes(reach))
    return max(found)


def _tile_sizes(cut: ProductCut) -> dict[str, int]:
    """Return the sizes of tiles along all dimensions."""
    tiles = (cut.batch, cut.rows, cut.columns, cut.inner)
    return {dim: step for some in tiles for dim, step in zip(some.dims, some.steps, strict=True)}


def _direct(request: ProductRequest, made: Made, *, stored: bool) -> tuple[bool, bool, bool]:
    """Return for left, right and the result whether files of chunks are used."""
    source = request.opened.source
    small = math.prod(made.chunks) * np.dtype(made.dtype).itemsize <= min(_CHUNK, PIECE)
    plain = len(made.dims) == _MATRIX and made.dims == made.order and small
    return (
        _read_directly(request.left, source),
        _read_directly(request.right, source),
        stored and plain,
    )


def _made(request: ProductRequest, cut: ProductCut) -> Made:
    """Return the variable that is made, in chunks of which none lies in two tiles."""
    product, dtype = request.product, request.left.dtype
    steps: dict[str, int] = {}
    for tiles in (cut.batch, cut.rows, cut.columns):
        steps |= dict(zip(tiles.dims, tiles.steps, strict=True))
    chunks = {dim: steps[dim] for dim in product.dims}
    item = np.dtype(dtype).itemsize
    while math.prod(chunks.values()) * item > _CHUNK:
        sides = sorted(chunks, key=lambda dim: -chunks[dim])
        found = next(((d, p) for d in sides for p in _PRIMES if chunks[d] % p == 0), None)
        if found is None:
            break
        chunks[found[0]] //= found[1]
    order = (*product.batch, *product.rows, *product.columns)
    return Made(request.name, product.dims, order, tuple(chunks.values()), dtype)


def _blocks(panels: Panels, pool: Pool) -> tuple[Block, ...]:
    """Return the blocks: a panel each, or on workers some panels of a column."""
    one = Span(0, 1)
    members, down, across = panels.counts
    at_once = 1
    if pool.remote:
        tasks = TASKS_PER_WORKER * pool.workers
        at_once = max(1, -(-down // max(1, -(-tasks // max(1, members * across)))))
    places = [place for place in panels.order() if place[1] % at_once == 0]
    return tuple(
        Block(
            number,
            (one, one, one),
            (
                Span(member, member + 1),
                Span(row, min(down, row + at_once)),
                Span(column, column + 1),
            ),
        )
        for number, (member, row, column) in enumerate(places)
    )


def _job(
    request: ProductRequest,
    made: Made,
    work: Callable[[Source, Sink], ProductWork],
    blocks: tuple[Block, ...],
    target: str,
    projected: int,
) -> Blockwise:
    sizes = request.product.sizes
    return Blockwise(
        opened=request.opened,
        sizes={dim: sizes[dim] for dim in request.product.dims},
        reads=(request.left.name, request.right.name),
        outputs=(Output(made.name, made.dims, made.dtype, made.chunks, compressed=False),),
        blocks=blocks,
        work=work,
        what=request.what,
        target=target,
        projected=projected,
        output=request.output,
        frame=request.frame,
        operations=2 * math.prod(sizes.values()),
    )


def _is_large(request: ProductRequest, cut: ProductCut) -> bool:
    """Whether operands and result have so many bytes that loops are worth compiling."""
    counts = cut.batch.total, cut.rows.total, cut.columns.total, cut.inner.total
    batch, rows, columns, inner = counts
    elements = rows * inner * cut.left + inner * columns * cut.right + rows * columns * cut.total
    return batch * elements * np.dtype(request.left.dtype).itemsize >= _LARGE


def _read_directly(operand: Operand, source: Source) -> bool:
    """Whether files of chunks are read, which only saves something where tiles lie as they do."""
    if not isinstance(source, ZarrStore) or operand.own != operand.order or not operand.plain:
        return False
    return _in_files(source.path, source.stamp, operand.name, operand.chunks, operand.dtype)


def _check_plain(made: Made, sink: Sink | None, *, direct: bool) -> None:
    """Raise `InternalError` where the store that was made is not as it was planned."""
    if not direct or not isinstance(sink, ZarrSink):
        return
    if not _in_files(sink.path, "", made.name, made.chunks, made.dtype):
        raise InternalError(f"The store of '{made.name}' was not made for plain chunks.")


def _in_files(path: str, stamp: str, name: str, chunks: tuple[int, ...], dtype: str) -> bool:
    files = plain_files(path, stamp, name, dtype)
    return files is not None and files.stored.chunks == chunks


def _reason(request: ProductRequest, panels: Panels) -> str:
    """Say how the product is done, and what is read for it if one process does all of it."""
    item = np.dtype(request.left.dtype).itemsize
    places: list[Panel] = [panels.panel(place) for place in panels.order()]
    left, right = panels.fetches(places)
    read = (left * panels.cut.left + right * panels.cut.right) * item
    if panels.last:
        kept = "all tiles of the product stay while those of left and right pass"
    elif panels.resident:
        wide = f"{panels.width} of {panels.cut.columns.total} columns of right"
        kept = f"{wide} stay while tiles of left pass"
    else:
        size = f"{panels.height} x {panels.width} tiles"
        kept = f"{size} of the product stay while those of left and right pass"
    return f"{kept}, {read} bytes are read at most"


def check_chunks(product: Product, chunks: Mapping[str, int]) -> None:
    """Raise `ArgumentError` for chunks along other dimensions than those of the result."""
    for name in chunks:
        if name == product.inner:
            raise ArgumentError(
                f"Dimension '{name}' is summed over in fixed pieces, but 'chunks' names it.",
                hint="Leave it out; a store that is chunked along it will do.",
            )
        if name not in product.dims:
            known = ", ".join(repr(dim) for dim in product.dims)
            raise ArgumentError(
                f"Argument 'chunks' must name dimensions of the product, got '{name}'.",
                hint=f"There are {known}." if known else "There is none.",
            )
