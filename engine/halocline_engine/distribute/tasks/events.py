"""Events of a run: frozen dataclasses, in chronological order.

`Planned`, for stencils `Compiled`, possibly `Resumed`, then for each pass `BlockFinished` for every
block and `PassFinished`, and at the end `Worked` for every worker and `Finished`. A resident run
has `StepsFinished` and `Checkpointed` instead of passes, and `Resumed` again after the loss of a
worker. Resident solves have passes, and restart after a loss. `SnapshotWritten` occurs in both
modes, and `WorkerStalled` at any time. A failed run raises, without further events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias, cast

from halocline_engine.distribute.tasks.spent import Counts

__all__ = [
    "BlockFinished",
    "Ceilings",
    "Checkpointed",
    "Compiled",
    "Event",
    "Finished",
    "Measured",
    "OnEvent",
    "PassFinished",
    "Planned",
    "Resumed",
    "SnapshotWritten",
    "StepsFinished",
    "Warned",
    "Worked",
    "WorkerStalled",
    "event_of_rank",
]

_Json: TypeAlias = (
    str | int | float | dict[str, int] | dict[str, list[int]] | tuple[tuple[float, ...], ...] | None
)


class _Event:
    """Common base of events: a kind and a form for JSON."""

    __slots__ = ()
    kind: ClassVar[str]

    def to_json(self) -> dict[str, _Json]:
        """Return the fields, with `kind` and `progress`, as JSON."""
        fields: dict[str, _Json] = asdict(cast(Any, self))
        return {"kind": self.kind, "progress": self.progress, **fields}

    @property
    def progress(self) -> float:
        """Share of the work done, from 0 to 1; 0 if the event does not change it."""
        return 0.0


@dataclass(frozen=True, slots=True)
class _Stepping(_Event):
    """Common base of events after `steps_done` of `steps` steps."""

    steps_done: int
    steps: int

    @property
    def progress(self) -> float:
        """The share of all steps."""
        return self.steps_done / self.steps


@dataclass(frozen=True, slots=True)
class Planned(_Event):
    """The job is planned and fits into memory; nothing has been computed.

    `mode` is the mode of the run, `reason` the reason for it. `blocks` is the number of blocks in
    a pass; each of the `passes` makes `steps_per_pass` of the `steps` (the last one possibly
    fewer). `projected_bytes` is the memory that all workers together need at once.

    `order` is the order of `rows` rows of `length` blocks: by rows, or by columns of `width`
    blocks. `cache_bytes` is the size of a worker's cache of decoded chunks; with it,
    `predicted_fetches` chunks of stores are fetched in all passes (None if not predicted). The
    source of the first pass has `chunks`.

    `halo` is the distance that one step reads below and above a point, by dimension, and `block`
    the size of a block; both are empty unless blocks have neighbours. `input_bytes` and
    `result_bytes` are the sizes of the inputs and the result.

    `transport` is the planned transport of halos between workers; `StepsFinished` has the actual
    one. `unfused` is the reason for a pass through memory in each step, or empty if steps are
    fused. `predicted_rate` is the expected number of cells per second, over all workers and steps,
    if the memory bandwidth is the limit; 0 if not predicted.
    """

    kind: ClassVar[str] = "planned"

    mode: str
    reason: str
    target: str
    workers: int
    blocks: int
    passes: int
    steps: int
    steps_per_pass: int
    projected_bytes: int
    order: str = "row"
    width: int = 1
    cache_bytes: int = 0
    chunks: int = 0
    predicted_fetches: int | None = 0
    rows: int = 1
    length: int = 1
    halo: tuple[tuple[str, int, int], ...] = ()
    block: tuple[tuple[str, int], ...] = ()
    input_bytes: int = 0
    result_bytes: int = 0
    transport: str = "none"
    unfused: str = ""
    predicted_rate: float = 0.0

    def to_json(self) -> dict[str, _Json]:
        """Return the fields as JSON, with sizes by dimension as objects."""
        halo = {dim: [below, above] for dim, below, above in self.halo}
        return {**_Event.to_json(self), "halo": halo, "block": dict(self.block)}


@dataclass(frozen=True, slots=True)
class Compiled(_Event):
    """The program is compiled; `schedule` and `code` for the `target` are text."""

    kind: ClassVar[str] = "compiled"

    name: str
    target: str
    schedule: str
    code: str

    @property
    def progress(self) -> float:
        """Nothing is done yet."""
        return 0.0


@dataclass(frozen=True, slots=True)
class Warned(_Event):
    """The program is valid, but one place of its text is a likely mistake."""

    kind: ClassVar[str] = "warned"

    message: str
    hint: str
    rule: str
    line: int
    column: int
    excerpt: str


@dataclass(frozen=True, slots=True)
class Resumed(_Stepping):
    """The run continues an earlier one of the same job, after `steps_done` of `steps`."""

    kind: ClassVar[str] = "resumed"


@dataclass(frozen=True, slots=True)
class BlockFinished(_Event):
    """A block of a pass is computed and written: `done` of `total` in this pass.

    `pass_index` counts from 0. `seconds` is the time of the block on its `worker`, with the parts
    for `reading`, `sending` to a device, `compiling`, `computing`, `fetching` from the device and
    `writing` if known.
    """

    kind: ClassVar[str] = "block-finished"

    pass_index: int
    passes: int
    done: int
    total: int
    seconds: float
    worker: str
    reading: float = 0.0
    computing: float = 0.0
    writing: float = 0.0
    sending: float = 0.0
    compiling: float = 0.0
    fetching: float = 0.0

    @property
    def progress(self) -> float:
        """The share of all blocks of all passes."""
        return (self.pass_index + self.done / self.total) / self.passes


@dataclass(frozen=True, slots=True)
class PassFinished(_Event):
    """All blocks of a pass are written; an interrupted run can resume from here."""

    kind: ClassVar[str] = "pass-finished"

    pass_index: int
    passes: int
    steps_done: int
    steps: int
    seconds: float

    @property
    def progress(self) -> float:
        """The share of all passes."""
        return (self.pass_index + 1) / self.passes


@dataclass(frozen=True, slots=True)
class StepsFinished(_Stepping):
    """Resident blocks have made `steps_done` of `steps` steps, in `seconds` so far.

    `transport` is the transport of halos between workers: "peer memory" if devices store into the
    memory of each other, "messages" between processes, "none" for one worker. `halos` is the part
    of `seconds` that the host of the first rank spent on exchanges.
    """

    kind: ClassVar[str] = "steps-finished"

    seconds: float
    transport: str = "none"
    halos: float = 0.0


@dataclass(frozen=True, slots=True)
class Checkpointed(_Stepping):
    """The fields after `steps_done` of `steps` steps are on disk; a lost run can resume from here.

    `seconds` is the time of writing, concurrently with further steps.
    """

    kind: ClassVar[str] = "checkpointed"

    seconds: float


@dataclass(frozen=True, slots=True)
class SnapshotWritten(_Stepping):
    """The results after `steps_done` of `steps` steps are complete.

    `seconds` is the time of writing, concurrently with further steps. With a workspace, a lost run
    can resume from here.
    """

    kind: ClassVar[str] = "snapshot-written"

    seconds: float


@dataclass(frozen=True, slots=True)
class Measured(_Stepping):
    """The last of `steps_done` steps changed a field by `change`; the run ends below `below`."""

    kind: ClassVar[str] = "measured"

    change: float
    below: float


@dataclass(frozen=True, slots=True)
class WorkerStalled(_Event):
    """A worker of a cluster makes no progress, as the `message` explains; the run continues.

    Its `state` is "silent" if its last heartbeat was `seconds` ago, "paused" if Dask starts no
    tasks on it for lack of memory, and "gone" if its process has ended.
    """

    kind: ClassVar[str] = "worker-stalled"

    worker: str
    state: str
    seconds: float
    message: str


@dataclass(frozen=True, slots=True)
class Worked(_Event):
    """Share of one worker in the whole run, reported before the end.

    Its kernels computed `blocks` in `computing` seconds. `bytes` is the minimum traffic between
    kernels and memory: each field read or written by a step, once. `operations` is the number of
    floating-point operations, 0 if not counted.

    `rank` is the number of the worker in a resident run. Each of its `intervals` then has its start
    and end, in seconds since the rank began, and the seconds of reading, sending, compiling,
    computing, halos, fetching and writing; see `Spent`.
    """

    kind: ClassVar[str] = "worked"

    worker: str
    target: str
    blocks: int
    bytes: int
    operations: int
    reading: float
    sending: float
    compiling: float
    computing: float
    halos: float
    fetching: float
    writing: float
    rank: int | None = None
    intervals: tuple[tuple[float, ...], ...] = ()

    @property
    def progress(self) -> float:
        """Everything is done."""
        return 1.0


@dataclass(frozen=True, slots=True)
class Ceilings(_Event):
    """Peak rates of a worker's machine, as measured there.

    `copy_rate` is the bytes per second that a copy of arrays larger than the caches reads and
    writes, `operation_rate` the operations per second of a matrix product in float64, or 0 if not
    measured.
    """

    kind: ClassVar[str] = "ceilings"

    worker: str
    target: str
    copy_rate: float
    operation_rate: float

    @property
    def progress(self) -> float:
        """Everything is done."""
        return 1.0


@dataclass(frozen=True, slots=True)
class Finished(Counts, _Event):
    """The result is complete; `fetches` counts chunks that blocks share."""

    kind: ClassVar[str] = "finished"

    @property
    def progress(self) -> float:
        """Everything is done."""
        return 1.0


Event: TypeAlias = (
    Warned
    | Compiled
    | Planned
    | Resumed
    | BlockFinished
    | PassFinished
    | StepsFinished
    | Checkpointed
    | SnapshotWritten
    | Measured
    | WorkerStalled
    | Worked
    | Ceilings
    | Finished
)

#: Callback for the events of a run.
OnEvent: TypeAlias = Callable[[Event], None]

_OfRank: TypeAlias = PassFinished | StepsFinished | Checkpointed | SnapshotWritten | Measured
_OF_RANKS: Mapping[str, type[_OfRank]] = MappingProxyType(
    {
        one.kind: one
        for one in (PassFinished, StepsFinished, Checkpointed, SnapshotWritten, Measured)
    }
)


def event_of_rank(record: Mapping[str, Any]) -> Event:
    """Return the event of a rank from its JSON form.

    >>> event_of_rank(Checkpointed(2, 4, 0.5).to_json())
    Checkpointed(steps_done=2, steps=4, seconds=0.5)
    """
    values = {name: value for name, value in record.items() if name not in ("kind", "progress")}
    return _OF_RANKS[record["kind"]](**values)
