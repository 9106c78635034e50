"""How much memory a benchmark takes on the host and on the device, looked at from time to time."""

from __future__ import annotations

import threading
from typing import Any, cast

import psutil

from halocline_engine.device.cupy_types import cupy

__all__ = ["Watch"]


class Watch:
    """The most memory that this process and the device have in use while it is open."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Watch:
        self.before = self.now()
        self.peak = self.before
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._end.set()
        self._thread.join()

    def now(self) -> tuple[int, int]:
        host = psutil.Process().memory_info().rss
        if self._target != "cuda":
            return host, 0
        free, total = cast(Any, cupy()).cuda.runtime.memGetInfo()
        return host, total - free

    def _run(self) -> None:
        while not self._end.wait(0.01):
            host, device = self.now()
            self.peak = (max(host, self.peak[0]), max(device, self.peak[1]))
