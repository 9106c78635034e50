"""Random transfers and what they do, byte by byte, with guard bands around all that is written."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from halocline_engine.kernels.indirect.cuda import Ends, variant_for
from halocline_engine.kernels.indirect.emit import Variant
from halocline_engine.kernels.indirect.problem import Direction, Transfer

__all__ = ["Draw", "Placed", "arrays", "draws", "ends_of", "expected", "variant_of"]

#: Bytes around an array that must keep their value.
GUARD = 256
PER_SEED = 26


@dataclass(frozen=True)
class Draw:
    """One transfer; `offset` counts alignments by which both arrays are moved."""

    transfer: Transfer
    index: NDArray[np.signedinteger]
    others: int
    offset: int
    batch: int
    masked: bool
    wide: bool
    flight: int
    threads: int


def drawn(rng: random.Random) -> Draw:
    alignment = rng.choice((4, 8, 16))
    size = max(alignment, round(4 * 2 ** rng.uniform(0, 10)) // alignment * alignment)
    elements = rng.randint(1, 32 if size > 256 else 300)
    direction = rng.choice(list(Direction))
    masked = rng.random() < 0.4
    others = rng.randint(elements, 2 * elements) + 1
    numbers = np.random.default_rng(rng.randrange(2**31))
    if direction is Direction.GATHER:
        index = numbers.integers(0, others, elements)
    else:
        index = numbers.permutation(others)[:elements]
    if masked:
        index[numbers.random(elements) < 0.3] = -1
    return Draw(
        transfer=Transfer(direction, alignment, size, elements),
        index=index.astype(rng.choice((np.int32, np.int64))),
        others=others,
        offset=rng.randint(0, 3),
        batch=rng.choice((1, 1, 2, 3)),
        masked=masked,
        wide=rng.random() < 0.5,
        flight=rng.choice((1, 2, 4, 8)),
        threads=32 * rng.randint(1, 8),
    )


def draws(seed: int) -> list[Draw]:
    rng = random.Random(seed)
    return [drawn(rng) for _ in range(PER_SEED)]


@dataclass(frozen=True)
class Placed:
    """An array indexed [batch, element, byte] in the middle of memory that must not change."""

    room: NDArray[np.uint8]
    array: NDArray[np.uint8]

    @property
    def start(self) -> int:
        """Where in the room the array begins."""
        return self.array.ctypes.data - self.room.ctypes.data


def placed(shape: tuple[int, int, int], draw: Draw, seed: int) -> Placed:
    """Return an array of random bytes at the draw's offset; members of a batch lie apart."""
    batch, elements, size = shape
    step = elements * size + 16 * 5
    room = np.random.default_rng(seed).integers(0, 256, batch * step + 2 * GUARD + 16).astype("u1")
    start = GUARD + -(room.ctypes.data + GUARD) % 16 + draw.offset * draw.transfer.alignment
    array = np.ndarray(shape, np.uint8, room.data, start, (step, size, 1))
    return Placed(room, array)


def ends_of(
    draw: Draw, source: Placed, target: Placed, at: tuple[int, int, int] | None = None
) -> Ends:
    """Return the ends; `at` are addresses of copies of both rooms and of the index elsewhere."""
    first, second, index = at or (
        source.room.ctypes.data,
        target.room.ctypes.data,
        draw.index.ctypes.data,
    )
    gather = draw.transfer.direction is Direction.GATHER
    return Ends(
        source=first + source.start,
        target=second + target.start,
        source_elements=source.array.shape[1],
        target_elements=target.array.shape[1],
        take=index if gather else 0,
        put=0 if gather else index,
        index_bits=8 * draw.index.itemsize,
        masked=draw.masked,
        batch=draw.batch,
        source_step=source.array.strides[0],
        target_step=target.array.strides[0],
    )


def arrays(draw: Draw) -> tuple[Placed, Placed]:
    size, elements = draw.transfer.element_bytes, draw.transfer.elements
    gather = draw.transfer.direction is Direction.GATHER
    counts = (draw.others, elements) if gather else (elements, draw.others)
    return (
        placed((draw.batch, counts[0], size), draw, 1),
        placed((draw.batch, counts[1], size), draw, 2),
    )


def variant_of(draw: Draw, ends: Ends) -> Variant:
    variant = variant_for(draw.transfer, ends)
    return replace(variant, flight=draw.flight, threads=draw.threads, wide=draw.wide)


def expected(draw: Draw) -> NDArray[np.uint8]:
    """Return the whole room of the target, element by element as the transfer is defined."""
    source, target = arrays(draw)
    gather = draw.transfer.direction is Direction.GATHER
    for place, other in enumerate(draw.index.tolist()):
        if other >= 0:
            read, written = (other, place) if gather else (place, other)
            target.array[:, written] = source.array[:, read]
    return target.room
