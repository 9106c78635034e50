"""The fields of a rank's blocks, in the memory of its target for as long as the job takes."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.base import Executable, Repetition, repetition
from halocline_engine.backends.targets import TARGETS
from halocline_engine.datasets.stores.sink import Sink
from halocline_engine.datasets.stores.source import Source
from halocline_engine.distribute.blocks.steps import BlockFields, BlockSteps
from halocline_engine.distribute.blocks.work import executable_of
from halocline_engine.distribute.communicators.base import Communicator, agree
from halocline_engine.distribute.exchanges.halos import Halos, ResidentBlock
from halocline_engine.distribute.grid.exchange import exchange, wrapped_lines
from halocline_engine.distribute.grid.geometry import Geometry, geometry
from halocline_engine.distribute.grid.partition import Block
from halocline_engine.distribute.resident.bundles import Bundle, Bundles
from halocline_engine.distribute.resident.model import RankJob
from halocline_engine.distribute.resident.values import BlockRecords, load_field, save_field
from halocline_engine.distribute.tasks.model import COMPUTE
from halocline_engine.distribute.tasks.spent import Stopwatch

__all__ = ["RankFields"]

#: Bundles that are made one by one before others are repeated: each field has had each of its
#: arrays, and code for all of them is there.
_EAGER = 2


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two bundles, after which each field has the array that it had before."""

    bundles: Sequence[Bundle]
    repeat: Repetition


class RankFields:
    """The blocks of one rank: load, make steps, save.

    `watch` measures exchanges of halos. A device does what is queued whenever it comes to it, so
    there they are part of the steps.
    """

    def __init__(self, job: RankJob, communicator: Communicator, watch: Stopwatch) -> None:
        self._job, self._communicator = job, communicator
        self._executable = executable_of(job.code)
        blocks = [block for some in job.blocks for block in some]
        cells = {block.index: geometry(job.layout, block, job.bundle) for block in blocks}
        mine = job.blocks[communicator.rank]
        self._blocks = {block.index: block for block in mine}
        self._resident = {
            block.index: _resident(job, block, cells[block.index], self._executable)
            for block in mine
        }
        self._wraps = wrapped_lines(job.layout, blocks)
        rank_of = {block.index: rank for rank, some in enumerate(job.blocks) for block in some}
        self._halos = Halos(
            exchange(job.layout, blocks, cells),
            rank_of,
            self._resident,
            self._wraps,
            self._executable,
            communicator,
            None if TARGETS[job.target].on_device else watch,
        )
        if TARGETS[job.target].on_device and communicator.size > 1:
            self._halos.connect()
        self._bundles = Bundles(
            job.layout, self._executable, self._resident, self._halos, job.bundle
        )
        self._pairs: dict[tuple[str, ...], _Pair] = {}
        self._made = self._exchanges = 0
        self._due = False  # what was read includes the halos
        self._steps_done = job.done
        self.records = BlockRecords(job, self.blocks, self._wraps)

    @property
    def transport(self) -> str:
        """How halos go from rank to rank."""
        return self._halos.transport

    def close(self, *, complete: bool) -> None:
        """Give back what other ranks share; where all is `complete`, they are waited for."""
        self._halos.end()
        self.records.close()
        if complete and self._communicator.size > 1:
            agree(self._communicator, ("ended", 0), here=True)
        self._halos.close()

    def load(self, sources: Sequence[tuple[str, Source, str]]) -> int:
        """Read all blocks of fields, each from a source under a name; return how many bytes."""
        count = 0
        for index, block in self._blocks.items():
            fields = self._resident[index].fields
            for name, source, variable in self.records.sources(sources):
                self._communicator.check()
                count += load_field(self._job, fields, block, self._wraps, name, source, variable)
        return count

    def advance(self, count: int, *, last_alone: bool = False) -> None:
        """Make so many steps, on all blocks; the last one by itself if its change is asked for."""
        while count:
            self.records.hold(self._steps_done)
            alike = self._job.forcing.next_change(self._steps_done) - self._steps_done
            part = int(min(count, alike))
            count -= part
            self._advance(part, last_alone=last_alone and not count)
            self._steps_done += part
        self._halos.check()

    def _advance(self, count: int, *, last_alone: bool) -> None:
        """Make steps within one window of records."""
        whole, rest = divmod(count - last_alone, self._job.bundle)
        while whole and self._made < _EAGER:
            self._bundle(self._job.bundle)
            whole -= 1
        if whole >= _EAGER and not self._job.layout.varying:
            self._repeat(whole // 2)
            whole %= 2
        for _ in range(whole):
            self._bundle(self._job.bundle)
        if rest:
            self._bundle(rest)
        if last_alone:
            self._bundle(1)

    @property
    def blocks(self) -> list[tuple[Block, ResidentBlock]]:
        """The blocks of this rank, and their fields."""
        return [(block, self._resident[index]) for index, block in self._blocks.items()]

    def own(self, name: str) -> list[tuple[Block, NDArray[Any]]]:
        """Return the blocks' own cells of a field by now, in arrays that stay as they are."""
        found: list[tuple[Block, NDArray[Any]]] = []
        for index, resident in self._resident.items():
            array = resident.steps.arrays[name]
            values = np.array(resident.fields.download(array, name), order="K")
            found.append((self._blocks[index], values))
        return found

    def save(self, sink: Sink) -> int:
        """Write the blocks' own cells of the results; return how many bytes."""
        count = 0
        for index, resident in self._resident.items():
            arrays = resident.steps.arrays
            for name, source in self._job.saved:
                self._communicator.check()
                found = (resident.fields, self._blocks[index])
                count += save_field(self._job, sink, *found, name, source, arrays[source])
        return count

    def _bundle(self, steps: int) -> None:
        """Exchange halos, if that is due, and make so many steps, up to a whole bundle."""
        self._check()
        self._exchange()
        with _computing(self._job.target):
            self._bundles.make(steps)
        self._made += 1
        self._due = True

    def _exchange(self) -> None:
        """Exchange halos, if blocks have made steps since the last time."""
        if self._due:
            self._halos.prepared()(self._exchanges)
            self._exchanges += 1
            self._due = False

    def _repeat(self, pairs: int) -> None:
        """Make pairs of whole bundles, after which every field has the array that it had before.

        Halos are exchanged after each one, for the next.
        """
        self._exchange()
        pair = self._pair()
        if self._halos.queued:
            with _computing(self._job.target):
                pair.repeat(pairs, self._check)
            return
        for _ in range(pairs):
            for bundle in pair.bundles:
                self._check()
                with _computing(self._job.target):
                    bundle.compute()
                bundle.exchange(self._exchanges)
                self._exchanges += 1

    def _pair(self) -> _Pair:
        """Return two bundles, the first of which begins with the arrays that fields have now."""
        state = self._halos.state
        found = self._pairs.get(state)
        if found is None:
            bundles = [self._bundles.recorded(other=other) for other in (False, True)]

            def both() -> None:
                for bundle in bundles:
                    bundle.queue()

            found = self._pairs[state] = _Pair(bundles, repetition(self._executable, both))
        return found

    def _check(self) -> None:
        """Raise where the job is to end; then nothing waits for other ranks any more."""
        try:
            self._communicator.check()
        except BaseException:
            self._halos.end()
            raise


def _resident(job: RankJob, block: Block, cells: Geometry, executable: Executable) -> ResidentBlock:
    """Return new arrays for a block, and the steps on them."""
    fields, extra = BlockFields.of(job.layout, cells, executable), job.layout.grid.extra
    return ResidentBlock(
        fields, BlockSteps(fields, job.scalars.at(extra, block, (0,) * len(extra)))
    )


@contextmanager
def _computing(target: str) -> Generator[None]:
    """Have the threads of this process for oneself; a device is shared by streams."""
    if TARGETS[target].on_device:
        yield
    else:
        with COMPUTE:
            yield
