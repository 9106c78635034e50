"""The pass loop: runs the blocks of one pass after the other, and reports what becomes of them."""

from __future__ import annotations

import bisect
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from halocline_engine.distribute.executors.base import Done, Pool
from halocline_engine.distribute.grid.partition import Block
from halocline_engine.distribute.jobs.shares import Shares
from halocline_engine.distribute.tasks.cancel import CancelToken
from halocline_engine.distribute.tasks.events import (
    BlockFinished,
    Finished,
    OnEvent,
    PassFinished,
)
from halocline_engine.distribute.tasks.model import BlockWork, Report

__all__ = ["Passes", "is_snapshot", "pass_ends"]

_SUMMED = ("bytes_read", "bytes_written", "fetches", "bytes_zero_copy", "bytes_direct_io")


@dataclass(slots=True)
class Passes:
    """The passes of a run: `total` of them, of which `done` are complete.

    `steps` is how many steps the run makes in all, and `steps_done` those of complete passes;
    `shares` counts what workers do.
    """

    pool: Pool
    on_event: OnEvent
    cancelled: CancelToken | None
    total: int
    steps: int = 1
    done: int = 0
    steps_done: int = 0
    shares: Shares = field(default_factory=Shares)
    started: float = field(default_factory=time.perf_counter)
    _sums: Counter[str] = field(default_factory=Counter[str])
    _peak_bytes: int = 0

    def run(
        self,
        work: BlockWork,
        blocks: Sequence[Block],
        *,
        steps: int = 0,
        since: float | None = None,
    ) -> None:
        """Run the blocks of the next pass, which makes `steps` steps; raises what a block raises.

        The pass is timed from `since` on `time.perf_counter`, or from now.
        """
        begun = time.perf_counter() if since is None else since
        count = 0
        for finished in self.pool.run(work, blocks, self.cancelled):
            if not isinstance(finished, Done):
                self.on_event(finished)
                continue
            count += 1
            report, spent = finished.report, finished.report.spent
            self.add(report)
            self.shares.add(finished.worker, report, blocks[report.index : report.index + 1], steps)
            self.on_event(
                BlockFinished(
                    pass_index=self.done,
                    passes=self.total,
                    done=count,
                    total=len(blocks),
                    seconds=report.seconds,
                    worker=finished.worker,
                    reading=spent.reading,
                    computing=spent.computing,
                    writing=spent.writing,
                    sending=spent.sending,
                    compiling=spent.compiling,
                    fetching=spent.fetching,
                )
            )
        self.steps_done += steps
        self.on_event(
            PassFinished(
                pass_index=self.done,
                passes=self.total,
                steps_done=self.steps_done,
                steps=self.steps,
                seconds=time.perf_counter() - begun,
            )
        )
        self.done += 1

    def add(self, report: Report) -> None:
        """Count what was moved."""
        self._sums.update({name: getattr(report, name) for name in _SUMMED})
        self._peak_bytes = max(self._peak_bytes, report.peak_bytes)

    def end(self) -> Finished:
        """Tell what workers did, and return the event of the end, with the sums over all blocks."""
        for one in self.shares.told():
            self.on_event(one)
        seconds = time.perf_counter() - self.started
        sums = {name: self._sums[name] for name in _SUMMED}
        return Finished(seconds=seconds, peak_bytes=self._peak_bytes, **sums)


def pass_ends(
    done: int, steps: int, per_pass: int, every: int | None, cuts: Sequence[int] = ()
) -> Iterator[int]:
    """Yield after how many steps each pass ends; all snapshots and cuts, in order, are among them.

    >>> list(pass_ends(0, 10, 3, 4)), list(pass_ends(0, 10, 4, None, (3, 5)))
    ([3, 4, 7, 8, 10], [3, 5, 9, 10])
    """
    while done < steps:
        snapshot = steps if every is None else (done // every + 1) * every
        at = bisect.bisect_right(cuts, done)
        cut = cuts[at] if at < len(cuts) else steps
        done = min(steps, done + per_pass, snapshot, cut)
        yield done


def is_snapshot(steps_done: int, every: int | None) -> bool:
    """Say whether results are kept after so many steps."""
    return every is not None and steps_done % every == 0
