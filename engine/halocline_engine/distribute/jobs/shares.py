"""The share of each worker in a run: bytes, operations and seconds of its kernels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field

from halocline_engine.analysis.work import work_of
from halocline_engine.datasets.grids.match import Grid
from halocline_engine.distribute.grid.partition import Block
from halocline_engine.distribute.tasks.events import Worked
from halocline_engine.distribute.tasks.model import Report
from halocline_engine.distribute.tasks.spent import Interval, Spent
from halocline_engine.ir.nodes import Program

__all__ = ["Shares", "StepWork", "step_work"]


@dataclass(frozen=True, slots=True)
class StepWork:
    """What a step of a program must move, in bytes, and compute, over all `cells` of a grid."""

    bytes: int
    operations: int
    cells: int


def step_work(program: Program, grid: Grid) -> StepWork:
    """Return the work of a step; dimensions that the program does not use repeat it."""
    work, points = work_of(program, grid.sizes), math.prod(grid.extra_sizes)
    cells = points * math.prod(grid.sizes)
    return StepWork(points * work.bytes, points * work.operations.total(), cells)


@dataclass(slots=True)
class _Share:
    """What one worker did so far; `cells` count again in each step."""

    blocks: int = 0
    cells: int = 0
    moved: int = 0
    spent: Spent = field(default_factory=Spent)
    intervals: tuple[Interval, ...] = ()


@dataclass(slots=True)
class Shares:
    """What all workers did so far, of steps of which each is `step`.

    Where it is None, kernels move what their blocks read and write, and who moved more of that made
    more of the `operations` of the whole.
    """

    target: str = ""
    step: StepWork | None = None
    operations: int = 0
    _shares: dict[tuple[str, int | None], _Share] = field(
        default_factory=dict["tuple[str, int | None]", _Share]
    )

    def add(
        self,
        worker: str,
        report: Report,
        blocks: Sequence[Block],
        steps: int,
        *,
        rank: int | None = None,
    ) -> None:
        """Count a block, or all of a rank, whose cells made so many steps."""
        share = self._shares.setdefault((worker, rank), _Share())
        share.blocks += len(blocks)
        share.cells += steps * sum(
            math.prod(span.size for span in (*one.box, *one.extra)) for one in blocks
        )
        share.moved += report.bytes_read + report.bytes_written
        share.spent += report.spent
        share.intervals = report.intervals

    def told(self) -> Iterator[Worked]:
        """Yield an event for each worker."""
        for (worker, rank), share in self._shares.items():
            moved, operations = self._work(share)
            yield Worked(
                worker=worker,
                target=self.target,
                blocks=share.blocks,
                bytes=moved,
                operations=operations,
                **asdict(share.spent),
                rank=rank,
                intervals=tuple(one.numbers() for one in share.intervals),
            )

    def _work(self, share: _Share) -> tuple[int, int]:
        """Return the bytes and the operations of a worker."""
        if self.step is not None:
            part = share.cells / self.step.cells
            return round(part * self.step.bytes), round(part * self.step.operations)
        total = sum(one.moved for one in self._shares.values())
        return share.moved, round(self.operations * share.moved / total) if total else 0
