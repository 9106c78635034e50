"""Choice of the kernel for a batch: constants, threads, memory; arithmetic, no device.

The choice depends on the rows, their type and whether they are contiguous, never on how many
systems there are: so a batch may be cut anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

__all__ = [
    "LANES",
    "MOST_ROWS_A_LANE",
    "Layout",
    "Plan",
    "plan_contiguous",
    "plan_factored",
    "plan_interleaved",
    "plan_split",
    "plan_thomas",
    "plan_windows",
    "window_rows",
]

LANES = 32
# Plans that are not made again where the same sizes come back, as they do from step to step.
_REMEMBERED = 256
MOST_ROWS_A_LANE = 16
# Threads of a block that looks at all of a long system, at most; as many as it has windows do.
_JUDGES = 1024
#: Threads of a block whose systems do not fit on the chip.
_IN_MEMORY = 128
# Rows of coefficients ahead of the sweep; more float64 ones do not fit into registers.
_DEPTH: Mapping[str, int] = {"float32": 16, "float64": 8}
# Warps of a block, which do not wait for each other, and rows of a lane of contiguous systems. More
# lanes do with fewer registers, fewer lanes with less arithmetic.
_WARPS = 2
_ROWS_A_LANE: Mapping[str, int] = {"float32": 25, "float64": 17}
# Interleaved systems of more rows than the first number leave one thread each too little room.
_FEW_ROWS = 48
_MOST_SPLIT = 512
# Pairs of more rows than that leave room for few of them in a block.
_PAIRED_WIDE = 128
# Four blocks with pieces of more rows than that leave the cache too little.
_PAIRED_FEW = 18
# Right-hand sides in flight where the coefficients are eliminated already, and bytes of a system
# that fits into a thread's registers.
_FACTORED_DEPTH = 20
_UNROLLED = 640


@dataclass(frozen=True, slots=True)
class Layout:
    """A batch: its sizes, NumPy's name of its type, and whether its systems are periodic."""

    outer: int
    rows: int
    inner: int
    dtype: str
    periodic: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """Sizes of an array [outer, row, inner]."""
        return self.outer, self.rows, self.inner

    @property
    def systems(self) -> int:
        """How many systems."""
        return self.outer * self.inner

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return np.dtype(self.dtype).itemsize

    @property
    def numbers(self) -> tuple[np.int64, np.int32]:
        """The systems and `inner`, as kernels take them."""
        return np.int64(self.systems), np.int32(self.inner)

    @property
    def real(self) -> str:
        """The type in CUDA C++."""
        return "double" if self.dtype == "float64" else "float"


@dataclass(frozen=True, slots=True)
class _Window:
    """Rows of a lane, rows at each end that are not kept, and what may couple them to the rest."""

    own: int
    guard: int
    slight: str


# What is kept begins at multiples of 128 bytes; what is slight is far less than a rounding error.
_WINDOWS: Mapping[str, _Window] = {
    "float32": _Window(20, 64, "0x1p-30f"),
    "float64": _Window(14, 64, "0x1p-60"),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """How a kernel is compiled and launched.

    `shared` are bytes of a block, `pieces` the threads of a system; `systems` are those of a block
    where a thread has several.
    """

    constants: tuple[tuple[str, int | str], ...]
    threads: int
    shared: int
    on_chip: bool = True
    pieces: int = 1
    systems: int = 0


def plan_thomas(
    layout: Layout,
    most_shared: int,
    *,
    kept: int | None = None,
    fixed: int = 0,
    threads: int | None = None,
    depth: int | None = None,
) -> Plan:
    """Return how systems are solved by a thread each.

    `kept` elements a row stay on the chip where they fit (default: what Thomas's algorithm keeps),
    beside `fixed` bytes a block; `threads` of a block are chosen so that most of them run at once.

    >>> plan_thomas(Layout(1, 80, 1 << 20, "float64"), 227 * 1024).threads
    32
    """
    per_row = (3 if layout.periodic else 2) if kept is None else kept
    a_thread = per_row * layout.rows * layout.itemsize

    def block(count: int) -> int:
        return a_thread * count + fixed

    fitting = [n for n in (32, 64, 96, 128) if block(n) <= most_shared]
    on_chip = bool(fitting) if threads is None else block(threads) <= most_shared
    if threads is None:
        threads = _IN_MEMORY
        if fitting:
            threads = max(fitting, key=lambda n: (most_shared // (block(n) + 1024) * n, -n))
    constants = {
        "REAL": layout.real,
        "ROWS": layout.rows,
        "DEPTH": depth or _DEPTH[layout.dtype],
        "THREADS": threads,
        "ON_CHIP": int(on_chip),
        "PERIODIC": int(layout.periodic),
    }
    shared = block(threads) if on_chip else fixed
    return Plan(tuple(constants.items()), threads, shared, on_chip)


@lru_cache(_REMEMBERED)
def plan_interleaved(layout: Layout, most_shared: int, *, paired: bool = False) -> Plan:
    """Return how interleaved systems are solved: by a thread or by several of them each.

    `paired`: whether all arrays begin at multiples of two elements, and `inner` is one. That does
    not change the bits.

    >>> plan_interleaved(Layout(1, 20, 1 << 20, "float64"), 227 * 1024).pieces
    1
    >>> plan_interleaved(Layout(1, 512, 1 << 20, "float32"), 227 * 1024).pieces
    32
    """
    alone = None if layout.periodic else plan_split(layout)
    # Whether there are pairs must not decide which kernel it is, as that changes bits.
    if alone is None or alone.shared > most_shared:
        return plan_thomas(layout, most_shared)
    plan = plan_split(layout, paired=paired)
    return alone if plan is None or plan.shared > most_shared else plan


def plan_split(layout: Layout, *, paired: bool = False) -> Plan | None:
    """Return how interleaved systems are solved by several threads each; see `split.cu`.

    None where they have few rows, which one thread does better, or more than fit on a chip. Where
    systems can be `paired`, a thread has two of float32, which takes fewer instructions.

    >>> plan_split(Layout(1, 80, 1 << 20, "float64")).pieces
    5
    """
    if not _FEW_ROWS < layout.rows <= _MOST_SPLIT:
        return None
    pieces = _pieces(layout.rows, layout.dtype)
    rows = -(-layout.rows // pieces)
    neighbours = 2 if paired and layout.dtype == "float32" else 1
    width, at_once, held = _split_shape(layout, pieces, neighbours)
    threads = pieces * width // neighbours
    staged = max(0, rows - held)
    constants = {
        "REAL": layout.real,
        "ROWS": layout.rows,
        "PIECES": pieces,
        "LANES": 1 << (pieces - 1).bit_length(),
        "ROWS_A_PIECE": rows,
        "STAGED": staged,
        "WIDTH": width,
        "NEIGHBOURS": neighbours,
        "THREADS": threads,
        "BLOCKS": at_once,
    }
    table = -(-6 * pieces * (width | 1) // 4) * 4 * layout.itemsize
    rooms = staged * 4 * threads * neighbours * layout.itemsize
    shared = table + -(-width // 4) * 16 + rooms
    return Plan(tuple(constants.items()), threads, shared, pieces=pieces, systems=width)


def _split_shape(layout: Layout, pieces: int, neighbours: int) -> tuple[int, int, int]:
    """Return a block's systems, how many blocks run at once, and the rows in a thread's registers.

    The others are in shared memory, which is short: what blocks take of it, the cache does not
    have, which loads on their way need.
    """
    if neighbours == 2:
        width = 64 if layout.rows <= _PAIRED_WIDE else 32
        threads = pieces * width // neighbours
        if threads <= 128 and -(-layout.rows // pieces) > _PAIRED_FEW:
            return width, 3, 15
        return width, 512 // threads, 10
    if layout.dtype == "float64":
        width = 64 if pieces == 4 else 32 if pieces < 32 else 16
        return width, max(1, 512 // (pieces * width)), 10
    width = 64 if pieces == 4 else 32
    threads = pieces * width
    return (width, 1024 // threads, 8) if threads > 256 else (width, 768 // threads, 10)


def _pieces(rows: int, dtype: str) -> int:
    """Return the threads of a system: as few as have few enough rows each."""
    if dtype == "float32":
        return next(
            n for n, most in ((4, 100), (8, 200), (16, 256), (32, _MOST_SPLIT)) if rows <= most
        )
    if rows <= 128:
        return max(4, -(-rows // 16))
    return 16 if rows <= 256 else 32


@lru_cache(_REMEMBERED)
def plan_contiguous(layout: Layout, *, aligned: bool = True, warps: int = _WARPS) -> Plan:
    """Return how contiguous systems of at most 512 rows are solved; see `contiguous.cu`.

    `aligned`: whether all arrays begin at a multiple of 16 bytes.

    >>> dict(plan_contiguous(Layout(9, 80, 1, "float64")).constants)["LANES"]
    8
    """
    rows, size = layout.rows, layout.itemsize
    lanes = next(n for n in (4, 8, 16, 32) if n * _ROWS_A_LANE[layout.dtype] >= rows or n == 32)
    own, vector = _lane(rows, lanes, size)
    chunk = 16 // size
    # Systems that begin at multiples of 16 bytes may lie apart, so that banks do not collide.
    pitch = lanes * own if rows % chunk == 0 and lanes < LANES else rows
    systems = LANES // lanes
    constants = {
        "REAL": layout.real,
        "ROWS": rows,
        "LANES": lanes,
        "ROWS_A_LANE": own,
        "PITCH": pitch,
        "VECTOR": vector,
        "COPIED": chunk if aligned and systems * rows % chunk == 0 else 1,
        "PERIODIC": int(layout.periodic),
        "THREADS": warps * LANES,
    }
    # The last lane reads, and does not use, what is behind its rows.
    shared = (warps * 4 * systems * pitch + max(0, lanes * own - pitch)) * size
    return Plan(tuple(constants.items()), warps * LANES, shared, pieces=lanes)


def _lane(rows: int, lanes: int, size: int) -> tuple[int, int]:
    """Return the rows of a lane and how many it reads at once.

    Lanes read from different banks where one's rows begin an odd number of such reads behind those
    of the lane before; reads of 16 bytes are worth a row more, and so is that no lane goes beyond
    the end.
    """
    least = -(-rows // lanes)
    found: list[tuple[float, int, int]] = []
    for vector in (16 // size, 8 // size, 1):
        if rows % vector == 0:
            reads = -(-least // vector)
            own = (reads + 1 - reads % 2) * vector
            wasted = 0 if lanes * own == rows else 0.6
            found.append((own + (1 if size == 8 else 1.5) / vector + wasted, own, vector))
    return min(found)[1:]


@lru_cache(_REMEMBERED)
def plan_windows(layout: Layout, *, aligned: bool = True) -> tuple[Plan, Plan]:
    """Return how long contiguous systems are solved, a warp for a window of rows; see `long.cu`.

    The second plan is that of a block that looks at a whole system. `aligned`: whether all systems
    begin at a multiple of 16 bytes.

    >>> [plan_windows(Layout(9, rows, 1, "float64"))[1].threads for rows in (1024, 1 << 20)]
    [32, 1024]
    """
    window = _WINDOWS[layout.dtype]
    chunk = 16 // layout.itemsize
    windows = -(-layout.rows // window_rows(layout.dtype)[1])
    judges = min(_JUDGES, max(LANES, 1 << (windows - 1).bit_length()))
    constants = {
        "REAL": layout.real,
        "ROWS_A_LANE": window.own,
        "GUARD": window.guard,
        "VECTOR": chunk,
        "COPIED": chunk if aligned else 1,
        "SLIGHT": window.slight,
        "THREADS": _WARPS * LANES,
        "JUDGES": judges,
    }
    shared = _WARPS * 4 * LANES * window.own * layout.itemsize
    plan = Plan(tuple(constants.items()), _WARPS * LANES, shared, pieces=LANES)
    return plan, Plan(plan.constants, judges, 3 * judges * layout.itemsize)


def window_rows(dtype: str) -> tuple[int, int]:
    """Return the rows of a window of a long system, and how many of them are kept.

    >>> window_rows("float64")
    (448, 320)
    """
    window = _WINDOWS[dtype]
    return LANES * window.own, LANES * window.own - 2 * window.guard


@lru_cache(_REMEMBERED)
def plan_factored(
    layout: Layout, most_shared: int, *, shared: bool, threads: int | None = None
) -> Plan:
    """Return how systems are solved by a thread each whose coefficients are eliminated already.

    Where one matrix is `shared` by all systems, it lies on the chip as well, if it fits there; then
    short systems are in registers.

    >>> plan_factored(Layout(1, 80, 1 << 20, "float64"), 227 * 1024, shared=True).shared
    1920
    """
    fixed = 3 * layout.rows * layout.itemsize if shared else 0
    fits = fixed <= most_shared
    fixed = fixed if fits else 0
    unrolled = shared and layout.rows * layout.itemsize <= _UNROLLED
    if unrolled and threads is None:
        threads = 64
    depth = _FACTORED_DEPTH
    plan = plan_thomas(layout, most_shared, kept=1, fixed=fixed, threads=threads, depth=depth)
    constants = {**dict(plan.constants), "SHARED": int(shared), "FITS": int(fits)}
    constants["UNROLLED"] = int(unrolled)
    used = fixed if unrolled else plan.shared
    return Plan(tuple(constants.items()), plan.threads, used, plan.on_chip)
