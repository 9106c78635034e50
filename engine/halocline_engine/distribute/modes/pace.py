"""Duration of one step in each mode, by what it takes to move the fields to a target and back.

A step reads and writes its fields once, so moving them is most of it, and blocks that stay in
memory are never used again. The constants are those of an H200 with 16 cores, and of two cores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from halocline_engine.backends.targets import TARGETS
from halocline_engine.datasets.stores.source import InMemory
from halocline_engine.distribute.jobs.outputs import field_bytes
from halocline_engine.distribute.modes.plan_events import device_inputs
from halocline_engine.distribute.stencils.demand import Supply
from halocline_engine.distribute.stencils.request import Checked

__all__ = ["is_resident_faster"]


@dataclass(frozen=True, slots=True)
class _Moving:
    """Nanoseconds that a byte takes from or to where it lies, in each mode."""

    streamed: float
    resident: float


#: Where a target has memory of its own: arrays on the device, arrays of the host, stores. Streamed
#: blocks lock the pages of arrays, and are read from stores, and written there, by many threads.
_TO_DEVICE = {
    "device": _Moving(0.005, 0.002),
    "memory": _Moving(0.15, 0.06),
    "store": _Moving(0.1, 0.7),
}
#: Where it computes in the memory of the process: streamed blocks are still in its caches.
_ON_HOST = {"device": _Moving(0.6, 0.7), "memory": _Moving(0.3, 0.4), "store": _Moving(0.6, 1.0)}
#: Seconds that a block which stays takes beside its bytes: arrays, graphs, ranks.
_BLOCK = 1e-3


def is_resident_faster(checked: Checked, supply: Supply) -> bool:
    """Whether one step takes less time on blocks that stay in memory than on streamed ones."""
    grid, uses, request = checked.match.grid, checked.match.uses, checked.request
    rates = _TO_DEVICE if TARGETS[checked.compiled.target].on_device else _ON_HOST
    here = "device" if device_inputs(checked) and not supply.remote else "memory"
    read = rates[here if isinstance(checked.opened.source, InMemory) else "store"]
    written = rates[here if request.output is None else "store"]
    loaded = field_bytes([use for use in uses if use.loaded], grid)
    result = field_bytes([use for use in uses if use.result], grid)
    streamed = loaded * read.streamed + result * written.streamed
    resident = loaded * read.resident + result * written.resident
    blocks = -(-math.prod(grid.extra_sizes) // supply.workers)
    return resident * 1e-9 + blocks * _BLOCK < streamed * 1e-9
