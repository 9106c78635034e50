"""The figures of a run out of core, and the table of them: for `gpu_out_of_core`."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, cast

import psutil

from halocline_engine.device.door import cupy
from halocline_engine.distribute.pipeline import Stage


@dataclass
class Figure:
    """A run; times in seconds, sizes in bytes."""

    steps: int
    rows: int
    slots: int
    blocks: int
    dataset: int
    granted: int
    way: str = "buffers"
    threads: tuple[int, int] = (0, 0)
    filed: int = 0
    first: bool = False
    alone: dict[str, float] = field(default_factory=dict[str, float])
    alone_with_all_threads: dict[str, float] = field(default_factory=dict[str, float])
    wall: float = 0.0
    core_seconds: float = 0.0
    whole_run: float = 0.0
    slowest: str = ""
    locked: int = 0
    unlocking: float = 0.0
    wall_to_slowest: float = 0.0
    wall_to_slowest_with_all_threads: float = 0.0
    sent: int = 0
    pinned_rate: float = 0.0
    send_to_pinned: float = 0.0
    achieved_to_pinned: float = 0.0
    projected: int = 0
    host_peak: int = 0
    device_peak: int = 0


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
        while not self._end.wait(0.02):
            host, device = self.now()
            self.peak = (max(host, self.peak[0]), max(device, self.peak[1]))


def line(figure: Figure) -> str:
    """Return a row of the table."""
    alone = " | ".join(f"{figure.alone[stage.name.lower()]:.3f}" for stage in Stage)
    every = " | ".join(f"{seconds:.3f}" for seconds in figure.alone_with_all_threads.values())
    return (
        f"| {figure.steps} | {figure.rows} | {figure.slots} | {figure.blocks} | {figure.way} |"
        f" {figure.threads[0]} + {figure.threads[1]} | {alone} |"
        f" {figure.wall:.3f} | {figure.core_seconds:.1f} | {figure.slowest} |"
        f" {figure.wall_to_slowest:.3f} | {every} |"
        f" {figure.wall_to_slowest_with_all_threads:.3f} |"
        f" {figure.pinned_rate / 1e9:.1f} |"
        f" {figure.send_to_pinned:.3f} | {figure.achieved_to_pinned:.3f} |"
        f" {figure.host_peak / 1e9:.2f} | {figure.device_peak / 1e9:.2f} |"
        f" {figure.projected / 1e9:.2f} | {figure.whole_run:.1f} |"
    )


HEAD = (
    "| steps | rows | slots | blocks | way | threads | read | send | compute | fetch | write |"
    " wall | core s | slowest | wall / slowest | all read | all write | of all |"
    " pinned GB/s | send / pinned | achieved | host GB | device GB |"
    " projected GB | whole run |"
)
