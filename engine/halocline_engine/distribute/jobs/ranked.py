"""Jobs whose data stay in the memory of ranks, instead of passing through it block by block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from halocline_engine.datasets.stores.sink import Sink
from halocline_engine.datasets.stores.source import Source
from halocline_engine.distribute.communicators.base import RankWork
from halocline_engine.distribute.executors.base import Done
from halocline_engine.distribute.jobs.losses import Losses, without_losses
from halocline_engine.distribute.jobs.passes import Passes

__all__ = ["Ranked", "run_ranked"]


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """How a job runs on ranks, `reason` why, and `transport` how they exchange what they need.

    There are so many `ranks`, and as many as `left` says where one was lost: it raises
    `ClusterError` where they would be too few. `work` makes what they do from where they read and
    write, and their number.
    """

    reason: str
    transport: str
    ranks: int
    left: Callable[[], int]
    work: Callable[[Source, Sink, int], RankWork]


def run_ranked(ranked: Ranked, passes: Passes, source: Source, sink: Sink) -> None:
    """Run all ranks until none of them is lost, and count what they moved."""
    ranks = ranked.ranks

    def attempt() -> list[Done]:
        done: list[Done] = []
        work = ranked.work(source, sink, ranks)
        for one in passes.pool.run_ranks(work, ranks, passes.cancelled):
            if isinstance(one, Done):
                done.append(one)
            else:
                passes.on_event(one)
        return done

    def again() -> None:
        nonlocal ranks
        ranks = ranked.left()

    losses = Losses("all rows were solved")
    for one in without_losses(attempt, again, losses, passes.cancelled):
        passes.add(one.report)
        passes.shares.add(one.worker, one.report, (), 0, rank=one.report.index)
