"""When the stages of a pipeline begin and end, in milliseconds: for `gpu_out_of_core`."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from halocline_engine.distribute.pipeline import stages as pipeline_stages
from halocline_engine.distribute.pipeline.schedule import Stage
from halocline_engine.distribute.pipeline.stages import PipelineStages


@dataclass
class Timeline:
    """Moments of a run, in seconds since its call: named ones, and (begin, end) of each stage.

    Stages of the device are begun and ended when they are queued; an item is written from the
    moment on at which it was fetched.
    """

    began: float = field(default_factory=time.perf_counter)
    moments: dict[str, float] = field(default_factory=dict[str, float])
    stages: dict[str, dict[int, tuple[float, float]]] = field(
        default_factory=lambda: {stage.name.lower(): {} for stage in Stage}
    )

    def now(self) -> float:
        """Return the seconds since the call."""
        return time.perf_counter() - self.began

    def mark(self, name: str) -> None:
        """Note a moment, the first time that it comes."""
        self.moments.setdefault(name, self.now())

    def stage(self, name: str, item: int, work: Callable[[int, int], None], slot: int) -> None:
        """Do a stage of an item, and note when."""
        begun = self.now()
        work(item, slot)
        self.stages[name][item] = (begun, self.now())

    def summary(self) -> str:
        """Return the moments in their order, and the first and last items of each stage."""
        named = dict(self.moments)
        for name, found in self.stages.items():
            if found:
                named[f"first {name} asked"] = min(begin for begin, _ in found.values())
                named[f"first {name} done"] = min(end for _, end in found.values())
                named[f"last {name} asked"] = max(begin for begin, _ in found.values())
                named[f"last {name} done"] = max(end for _, end in found.values())
        order = sorted(named.items(), key=lambda one: one[1])
        return ", ".join(f"{name} {1e3 * at:.1f}" for name, at in order)

    def items(self, numbers: Sequence[int]) -> str:
        """Return a line for each of some items: when each of its stages began and ended."""
        lines: list[str] = []
        for item in numbers:
            parts = [
                f"{name} {1e3 * found[item][0]:.1f}-{1e3 * found[item][1]:.1f}"
                for name, found in self.stages.items()
                if item in found
            ]
            lines.append(f"  item {item}: " + ", ".join(parts))
        return "\n".join(lines)


@contextmanager
def watched(timeline: Timeline) -> Generator[None]:
    """Let the pipelines that begin meanwhile note when their stages do."""
    known: Any = pipeline_stages
    plain = known.PipelineStages

    class Timed(PipelineStages):
        def __init__(self, *arguments: Any) -> None:
            timeline.mark("cut into items")
            super().__init__(*arguments)
            timeline.mark("made ready")

        def read(self, item: int, slot: int) -> None:
            timeline.stage("read", item, super().read, slot)

        def send(self, item: int, slot: int) -> None:
            timeline.stage("send", item, super().send, slot)

        def compute(self, item: int, slot: int) -> None:
            timeline.stage("compute", item, super().compute, slot)

        def fetch(self, item: int, slot: int) -> None:
            timeline.stage("fetch", item, super().fetch, slot)

        def write(self, item: int, slot: int) -> None:
            timeline.stage("write", item, super().write, slot)

        def close(self) -> None:
            timeline.mark("all joined")
            super().close()
            timeline.mark("closed")

    known.PipelineStages = Timed
    try:
        yield
    finally:
        known.PipelineStages = plain
