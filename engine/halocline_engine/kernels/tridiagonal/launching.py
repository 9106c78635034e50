"""Which kernel solves a batch, with which constants, threads and memory: arithmetic, no device.

The choice depends on the rows, their type and whether they are contiguous, never on how many
systems there are: so a batch may be cut anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

__all__ = [
    "LANES",
    "MOST_ROWS_A_LANE",
    "Layout",
    "Plan",
    "plan_contiguous",
    "plan_factored",
    "plan_thomas",
    "tile_rows",
]

LANES = 32
MOST_ROWS_A_LANE = 16
#: Threads of a block whose systems do not fit on the chip.
_IN_MEMORY = 128
# Rows of coefficients ahead of the sweep; more float64 ones do not fit into registers.
_DEPTH: Mapping[str, int] = {"float32": 16, "float64": 8}
# Rows of a lane in tiles of long systems, for the same reason.
_TILE: Mapping[str, int] = {"float32": 16, "float64": 12}
_WARPS = 4


@dataclass(frozen=True, slots=True)
class Layout:
    """A batch: its sizes, NumPy's name of its type, and whether its systems are periodic."""

    outer: int
    rows: int
    inner: int
    dtype: str
    periodic: bool = False

    @property
    def systems(self) -> int:
        """How many systems."""
        return self.outer * self.inner

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return np.dtype(self.dtype).itemsize

    @property
    def real(self) -> str:
        """The type in CUDA C++."""
        return "double" if self.dtype == "float64" else "float"


@dataclass(frozen=True, slots=True)
class Plan:
    """How a kernel is compiled and launched; `shared` are bytes a block."""

    constants: tuple[tuple[str, int | str], ...]
    threads: int
    shared: int
    on_chip: bool = True


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


def plan_contiguous(layout: Layout, mode: int, warps: int = _WARPS) -> Plan:
    """Return how contiguous systems are solved by a warp each; see `contiguous.cu`.

    >>> dict(plan_contiguous(Layout(9, 80, 1, "float32"), 0).constants)["R"]
    3
    """
    rows = _TILE[layout.dtype] if mode else -(-layout.rows // LANES)
    pitch = rows + 1 - rows % 2
    constants = {
        "REAL": layout.real,
        "R": rows,
        "WARPS": warps,
        "THREADS": warps * LANES,
        "PERIODIC": int(layout.periodic),
        "MODE": mode,
    }
    shared = warps * LANES * pitch * layout.itemsize
    return Plan(tuple(constants.items()), warps * LANES, shared)


def tile_rows(dtype: str) -> int:
    """Return the rows of a tile of a long contiguous system."""
    return LANES * _TILE[dtype]


def plan_factored(
    layout: Layout, most_shared: int, *, shared: bool, threads: int | None = None
) -> Plan:
    """Return how systems are solved by a thread each whose coefficients are eliminated already.

    Where one matrix is `shared` by all systems, it lies on the chip as well, if it fits there.

    >>> plan_factored(Layout(1, 80, 1 << 20, "float64"), 227 * 1024, shared=True).shared
    42880
    """
    fixed = 3 * layout.rows * layout.itemsize if shared else 0
    fits = fixed <= most_shared
    fixed = fixed if fits else 0
    plan = plan_thomas(layout, most_shared, kept=1, fixed=fixed, threads=threads)
    constants = {**dict(plan.constants), "SHARED": int(shared), "FITS": int(fits)}
    return Plan(tuple(constants.items()), plan.threads, plan.shared, plan.on_chip)
