"""Exchanges of halos on a CUDA device. Nothing here waits; all is queued on the current stream."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from halocline_engine.kernels.halo.problem import Box
from halocline_engine.kernels.machine import Library

__all__ = ["HaloKernels"]

_FILE = Path(__file__).with_name("exchange.cu")
_THREADS = 256
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

    def send(self, boxes: Sequence[Box], table: int, links: int, state: int, ended: int) -> None:
        """Queue what stores cells of arrays into buffers of other ranks.

        The others are addresses: of the boxes and links as `packed_boxes` and `packed_links` give
        them, of `STATE_WORDS` numbers that are 0 before the first exchange, and of a number that is
        not 0 from the moment that nobody shall wait any more. Each exchange has the same number of
        boxes on each link.
        """
        self._launch("send_halos", boxes, (table, links, state, ended))

    def receive(self, boxes: Sequence[Box], table: int, links: int, state: int, ended: int) -> None:
        """Queue what takes cells out of buffers of this rank into its arrays; see `send`."""
        self._launch("receive_halos", boxes, (table, links, state, ended))

    def _launch(self, name: str, boxes: Sequence[Box], addresses: tuple[int, ...]) -> None:
        if not boxes:
            return
        most = max(box.cells for box in boxes)
        grid = (min(_MOST, max(1, -(-most // (4 * _THREADS)))), len(boxes), 1)
        kernels = self._library.file(_FILE, {"LIMIT": f"{self._limit}ll", "LAG": _LAG})
        arguments = tuple(np.uint64(one) for one in addresses)
        kernels.launch(name, grid, (_THREADS, 1, 1), arguments)
