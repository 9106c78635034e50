"""What a run demands, and what processes supply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.grid.geometry import Layout
from halocline_engine.distribute.stencils.memory import Temporaries
from halocline_engine.distribute.stencils.request import Checked, temporaries_of

__all__ = ["Demand", "Supply"]


@dataclass(frozen=True, slots=True)
class Demand:
    """The work to be done.

    `lines` are the axes of the whole data; `block` are the sizes that the caller wants, by
    dimension; `in_memory` says that passes hand over arrays and not stores. `order` is how blocks
    shall follow each other; `stored` says that the source is a store, whose chunks may be kept in
    a cache of `cache` bytes (None: as many as are of use and fit). With `slots`, so many blocks are
    at once on their way through a device. With `every` there are results after so many steps, too.
    Fields that stay in memory are `copied` meanwhile, where there are snapshots or checkpoints.
    Those that lie `on_device` before and afterwards take nothing of the host. No more than
    `alike` steps read the same records of forcing, and the fields `ahead` are read before they are
    needed. Diagnostics take so many bytes a cell, `diagnosed`, of the host.
    """

    layout: Layout
    temporaries: Temporaries
    steps: int
    target: str
    block: Mapping[str, int]
    steps_per_pass: int | None
    in_memory: bool
    order: str = "auto"
    stored: bool = False
    cache: int | None = None
    slots: int = 0
    every: int | None = None
    copied: bool = True
    on_device: bool = False
    alike: int | None = None
    ahead: frozenset[str] = frozenset()
    diagnosed: int = 0

    @classmethod
    def of(cls, checked: Checked, *, steps_per_pass: int | None, in_memory: bool) -> Demand:
        """Return that of a request, without what says how blocks follow each other."""
        request, compiled, forcing = checked.request, checked.compiled, checked.forcing
        return cls(
            layout=checked.layout,
            temporaries=temporaries_of(compiled),
            steps=request.steps,
            target=compiled.target,
            block=request.chunks,
            steps_per_pass=steps_per_pass,
            in_memory=in_memory,
            every=request.every,
            alike=forcing.longest(request.steps) if forcing.changes else None,
            ahead=forcing.names if forcing.changes else frozenset(),
            diagnosed=0 if checked.diagnosis is None else checked.diagnosis.cell_bytes,
        )

    @property
    def longest(self) -> int:
        """Largest number of steps between two results within one window of records."""
        return min(self.steps, self.every or self.steps, self.alike or self.steps)

    def passes_of(self, steps: int) -> int:
        """Return how many passes of up to so many steps are made."""
        whole, rest = divmod(self.steps, self.longest)
        return whole * -(-self.longest // steps) + -(-rest // steps)


@dataclass(frozen=True, slots=True)
class Supply:
    """Resources: processes, blocks at hand in each, bytes for them, bytes of a device.

    `device` is None where the target computes in the memory of the process. `remote` says that the
    processes are others than this one, and `same_host` that they are on its host. `direct_io` says
    that plain files shall go straight to the device and back, which needs room for them there, and
    `buffers` bytes of the process; `device_decoding` are the bytes there that decoding chunks
    takes, 0 where the host does that.
    """

    workers: int
    threads: int
    memory: int
    device: int | None = None
    remote: bool = False
    direct_io: bool = False
    buffers: int = 0
    device_decoding: int = 0
    same_host: bool = False

    @classmethod
    def of(cls, pool: Pool, target: str) -> Supply:
        """Return what the processes of a pool have for a target."""
        return cls(
            workers=pool.workers,
            threads=pool.threads,
            memory=pool.memory,
            device=pool.device_memory(target),
            remote=pool.remote,
            same_host=pool.same_host,
        )
