"""Exchanges of halos on a CUDA device. Nothing here waits; all is queued on the current stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from halocline_engine.kernels.halo.problem import Box
from halocline_engine.kernels.machine import Library

__all__ = ["HaloKernels"]

_FILE = Path(__file__).with_name("exchange.cu")
_THREADS = 256
#: Words that a thread moves at once.
_AT_ONCE = 4
#: Blocks of threads that share a box at most: those that wait must leave room for others.
_MOST = 16
#: Looks at a counter, of about a microsecond each, until the other rank is taken for lost: it may
#: have to wait for a slow disk. Where one is known to be gone, waits end at once.
_LIMIT = 1_200_000_000
#: Halves of a buffer.
_LAG = 2


class HaloKernels:
    """The kernels of a machine."""

    def __init__(self, library: Library, limit: int = _LIMIT) -> None:
        self._library, self._limit = library, limit

    def exchange(
        self,
        sent: Sequence[Box],
        received: Sequence[Box],
        addresses: tuple[int, int, int, int],
        *,
        follows: bool = False,
    ) -> Callable[[], None]:
        """Return what queues an exchange: one kernel sends boxes and receives others.

        `addresses` are those of all boxes, sent ones first, and of the links, as `packed_boxes` and
        `packed_links` give them; of twice `STATE_WORDS` numbers that are 0 before the first
        exchange; and of a number that is not 0 from the moment that nobody shall wait any more.
        Each exchange has the same number of boxes on each link. With `follows`, the kernel comes to
        the processors before the one in front of it is complete, and waits there.
        """
        boxes = (*sent, *received)
        if not boxes:
            return _nothing
        most = max(box.cells for box in boxes)
        grid = (min(_MOST, max(1, -(-most // (_AT_ONCE * _THREADS)))), len(boxes), 1)
        kernels = self._library.file(_FILE, {"LIMIT": f"{self._limit}ll", "LAG": _LAG})
        arguments = (*(np.uint64(one) for one in addresses), np.uint32(len(sent)))
        return kernels.ready("exchange_halos", grid, (_THREADS, 1, 1), arguments, follows=follows)


def _nothing() -> None:
    """Queue nothing."""
