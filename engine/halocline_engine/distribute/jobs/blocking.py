"""The blocks of a batch: how many systems fit, and how the batch is cut."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from halocline_engine.datasets.stores.source import Region
from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.grid.partition import Block, Span, partition
from halocline_engine.distribute.jobs.reading import Reading
from halocline_engine.errors import ArgumentError, CapacityError

__all__ = [
    "LARGE_TASK",
    "SMALL_TASK",
    "TASKS_PER_WORKER",
    "BatchMemory",
    "Cut",
    "batch_memory",
    "check_reading",
    "check_wanted",
    "chunks_within",
    "cut_batch",
    "region_of",
]

#: Bytes of a block at most, so that progress shows and memory stays small.
LARGE_TASK = 256 << 20

#: Less than this is not worth another block.
SMALL_TASK = 4 << 20

#: Blocks that a worker has to do, at least.
TASKS_PER_WORKER = 4

# Bytes of a chunk of the result, at most.
_CHUNK = 16 << 20


@dataclass(frozen=True, slots=True)
class Cut:
    """A batch cut up: the size of a block along each dimension, the blocks, and bytes in all."""

    block: tuple[int, ...]
    blocks: tuple[Block, ...]
    projected: int


@dataclass(frozen=True, slots=True)
class BatchMemory:
    """Limits of the systems, `bytes_each`, in a block: `most` fit, and `usual` are enough.

    `memory` are the bytes for a block, and what reading it takes.
    """

    bytes_each: int
    most: int
    usual: int
    memory: int


def region_of(dims: Sequence[str], spans: Mapping[str, Span]) -> Region:
    """Return where a block's values are in a variable with these dimensions."""
    return tuple(slice(spans[dim].start, spans[dim].stop) for dim in dims)


def batch_memory(
    pool: Pool, target: str, host: int, device: int, held: int, what: str = "One system"
) -> BatchMemory:
    """Return how many systems a block may have, at least one; `what` names a system.

    A system takes `host` bytes of a process and, where there is one, `device` bytes of a device;
    `held` bytes of this process are taken already. Raises `CapacityError` where one does not fit.
    """
    memory = max(0, pool.memory - (0 if pool.remote else held)) // pool.threads
    if host > memory:
        raise CapacityError(
            f"{what} needs {host} bytes of memory, but {memory} are free for a block.",
            hint="Use workers with more memory.",
            needed=host,
            available=memory,
        )
    most = memory // host
    on_device = pool.device_memory(target)
    if on_device is not None:
        if device > on_device:
            raise CapacityError(
                f"{what} needs {device} bytes of device memory, but {on_device} are there.",
                hint="Use target='cpu'.",
                needed=device,
                available=on_device,
            )
        most = min(most, on_device // device)
    return BatchMemory(host, most, max(1, min(most, LARGE_TASK // host)), memory)


def cut_batch(
    sizes: Mapping[str, int],
    dim: str,
    wanted: Mapping[str, int],
    chunks: Mapping[str, int],
    pool: Pool,
    room: BatchMemory,
    reading: Reading,
) -> Cut:
    """Cut a batch into blocks of whole systems.

    `wanted` are sizes that the caller gives, `chunks` those of the source. The slowest dimensions
    are cut first, so that neighbouring systems stay together. Raises `CapacityError` where blocks
    of the wanted sizes do not fit, or the chunks that are decoded for them.
    """
    check_wanted(sizes, dim, wanted)
    batch = [d for d in sizes if d != dim]
    block = {d: min(max(1, sizes[d]), wanted.get(d, sizes[d]) or 1) for d in batch}
    total = math.prod(sizes[d] for d in batch)
    share = -(-total // (TASKS_PER_WORKER * pool.workers))
    goal = min(room.usual, max(share, SMALL_TASK // room.bytes_each, 1))

    def taken() -> int:
        return math.prod(block.values()) * room.bytes_each + reading.bytes(block)

    while math.prod(block.values()) > goal or taken() > room.memory:
        free = [d for d in batch if block[d] > 1 and d not in wanted]
        if not free:
            break
        half = -(-block[free[0]] // 2)
        step = chunks.get(free[0], 1)
        block[free[0]] = min(-(-half // step) * step, block[free[0]] - 1) if half > step else half
    systems = math.prod(block.values())
    if systems > room.most:
        raise CapacityError(
            f"A block of {systems} systems needs {systems * room.bytes_each} bytes, but"
            f" {room.most * room.bytes_each} are free for it.",
            hint="Give smaller 'chunks', or leave them out.",
            needed=systems * room.bytes_each,
            available=room.most * room.bytes_each,
        )
    check_reading(taken(), room.memory)
    whole = tuple(sizes[d] if d == dim else block[d] for d in sizes)
    blocks = partition((1, 1, 1), tuple(sizes.values()), (1, 1, 1), tuple(max(1, n) for n in whole))
    at_once = min(pool.workers * pool.threads, len(blocks))
    return Cut(whole, blocks, at_once * taken())


def check_reading(needed: int, available: int) -> None:
    """Raise `CapacityError` where a block and the chunks that are decoded for it do not fit."""
    if needed > available:
        raise CapacityError(
            f"The smallest block and the chunks that are decoded for it need {needed} bytes of"
            f" memory, but {available} are free for them.",
            hint="Store the dataset in smaller chunks, give smaller 'chunks', or use workers with"
            " more memory.",
            needed=needed,
            available=available,
        )


def chunks_within(
    dims: Sequence[str], cut: Mapping[str, int], sizes: Mapping[str, int], itemsize: int
) -> tuple[int, ...]:
    """Return chunk sizes of a result such that no chunk lies in two blocks.

    Where a block has all of a dimension, it is cut until chunks are small.
    """
    chunks = {dim: max(1, min(cut[dim], sizes[dim])) for dim in dims}
    for dim in dims:
        while math.prod(chunks.values()) * itemsize > _CHUNK and chunks[dim] > 1:
            if cut[dim] < sizes[dim]:
                break
            chunks[dim] = -(-chunks[dim] // 2)
    return tuple(chunks.values())


def check_wanted(sizes: Mapping[str, int], dim: str, wanted: Mapping[str, int]) -> None:
    """Raise `ArgumentError` where chunks are asked for that make no blocks of whole systems."""
    for name, size in wanted.items():
        if name not in sizes:
            known = ", ".join(repr(d) for d in sizes if d != dim)
            raise ArgumentError(
                f"Argument 'chunks' must name dimensions of the systems, got '{name}'.",
                hint=f"There are {known}." if known else "There is one system only.",
            )
        if name == dim and size < sizes[dim]:
            raise ArgumentError(
                f"Dimension '{dim}' is that of the rows, and a block has all of them, but 'chunks'"
                f" gives it {size} of {sizes[dim]}.",
                hint="Leave it out; a store that is chunked along it will do.",
            )
