"""Events of a run: frozen, in the order in which they happen.

`Planned`, for stencils `Compiled`, then perhaps `Resumed`, then for each pass its `BlockFinished`s
and a `PassFinished`, and at the end `Worked`s and `Finished`. Where blocks stay in memory there are
no passes, but `StepsFinished` and `Checkpointed`; after the loss of a worker `Resumed` comes again.
Solves whose rows stay in memory tell their passes, and after a loss begin again. Snapshots are told
in both modes, as `SnapshotWritten`. `WorkerStalled` may come at any time. A run that fails raises
and tells no more.
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
        """Return the fields, with `kind` and `progress`, as JSON knows them."""
        fields: dict[str, _Json] = asdict(cast(Any, self))
        return {"kind": self.kind, "progress": self.progress, **fields}

    @property
    def progress(self) -> float:
        """Share of the work that is done, from 0 to 1; 0 where an event says no more."""
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
    """The work is cut up and fits; nothing has been computed.

    `mode` is how it runs and `reason` why. `blocks` are those of one pass; each of the `passes`
    makes `steps_per_pass` of the `steps` (the last one perhaps fewer). `projected_bytes` is the
    memory that all workers together will need at once.

    `order` is how `rows` rows of `length` blocks follow each other: in rows, or in columns that are
    `width` blocks wide. `cache_bytes` are the decoded chunks that a worker keeps; with them
    `predicted_fetches` chunks of stores are fetched in all passes (None: not predicted), of which
    the source of the first pass has `chunks`.

    `halo` has for each dimension with a stencil how far one step reads below and above a point, and
    `block` the sizes of a block, both only where blocks have neighbours. `input_bytes` and
    `result_bytes` are the sizes of what is read and made.

    `transport` is how halos shall go from worker to worker; see `StepsFinished`, which tells how
    they do. `unfused` says why each step is a pass through memory of its own, and nothing where
    several may be one. `predicted_rate` is about how many cells are computed a second, over all
    workers and steps, if each step is such a pass: the memory is the limit. It is 0 where nothing
    is predicted.
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
        """Return the fields, with what there is by dimension as an object."""
        halo = {dim: [below, above] for dim, below, above in self.halo}
        return {**_Event.to_json(self), "halo": halo, "block": dict(self.block)}


@dataclass(frozen=True, slots=True)
class Compiled(_Event):
    """The program is compiled: its `schedule` and the `code` for the `target`, as text."""

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
    """The program is valid, but may not mean what was meant at a place of its text."""

    kind: ClassVar[str] = "warned"

    message: str
    hint: str
    rule: str
    line: int
    column: int
    excerpt: str


@dataclass(frozen=True, slots=True)
class Resumed(_Stepping):
    """An earlier run of the same job got as far as `steps_done` of `steps`; it goes on there."""

    kind: ClassVar[str] = "resumed"


@dataclass(frozen=True, slots=True)
class BlockFinished(_Event):
    """A block of a pass is computed and written: `done` of `total` in this pass.

    `pass_index` counts from 0; `seconds` is how long the block took on its `worker`, of which so
    many went into `reading`, `sending` to a device, `compiling`, `computing`, `fetching` from
    there and `writing`, where that is known.
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
    """All blocks of a pass are written; a killed run can go on from here."""

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
    """Blocks that stay in memory have made `steps_done` of `steps` steps, in `seconds` so far.

    `transport` is how halos go from worker to worker: "peer memory" where devices store into each
    other's, "messages" between processes, "none" where one worker has all blocks. Of `seconds`, the
    first rank has spent `halos` on exchanges that its host made.
    """

    kind: ClassVar[str] = "steps-finished"

    seconds: float
    transport: str = "none"
    halos: float = 0.0


@dataclass(frozen=True, slots=True)
class Checkpointed(_Stepping):
    """The fields after `steps_done` of `steps` steps are on disk; a lost run can go on from here.

    `seconds` is how long writing took, while the steps went on.
    """

    kind: ClassVar[str] = "checkpointed"

    seconds: float


@dataclass(frozen=True, slots=True)
class SnapshotWritten(_Stepping):
    """The results after `steps_done` of `steps` steps are complete.

    `seconds` is how long writing took, while the steps went on. With a workspace a lost run can go
    on from here.
    """

    kind: ClassVar[str] = "snapshot-written"

    seconds: float


@dataclass(frozen=True, slots=True)
class Measured(_Stepping):
    """The step before `steps_done` changed a field by `change`; below `below` the run ends."""

    kind: ClassVar[str] = "measured"

    change: float
    below: float


@dataclass(frozen=True, slots=True)
class WorkerStalled(_Event):
    """A worker of a cluster gets nothing done, in words as the `message`; the run goes on.

    Its `state` is "silent" where it has sent no sign for so many `seconds`, "paused" where Dask
    lets it begin nothing, as it takes too much memory, and "gone" where its process has ended.
    """

    kind: ClassVar[str] = "worker-stalled"

    worker: str
    state: str
    seconds: float
    message: str


@dataclass(frozen=True, slots=True)
class Worked(_Event):
    """What a worker did of the whole run; told of each one, before the end.

    Its kernels computed `blocks` in `computing` seconds. Meanwhile at least `bytes` had to move
    between them and memory: each field that a step reads, once, and each that it writes. The
    `operations` are those of floating-point numbers; 0 where they are not counted.

    `rank` is its number where blocks stay in memory; then each of the `intervals` has when it began
    and ended, in seconds since the rank began, and the seconds in it of reading, sending,
    compiling, computing, halos, fetching and writing. See `Spent` for what those are.
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
    """What the machine of a worker can do, as measured there: in a second, so much at most.

    A copy of arrays that are larger than caches reads and writes `copy_rate` bytes. A product of
    matrices in float64 makes `operation_rate` operations; 0 where it was not measured.
    """

    kind: ClassVar[str] = "ceilings"

    worker: str
    target: str
    copy_rate: float
    operation_rate: float

    @property
    def progress(self) -> float:
        """It is measured when everything is done."""
        return 1.0


@dataclass(frozen=True, slots=True)
class Finished(Counts, _Event):
    """The result is there; chunks are counted as `fetches` where blocks share them."""

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

#: Takes the events of a run as they happen.
OnEvent: TypeAlias = Callable[[Event], None]

_OfRank: TypeAlias = PassFinished | StepsFinished | Checkpointed | SnapshotWritten | Measured
_OF_RANKS: Mapping[str, type[_OfRank]] = MappingProxyType(
    {
        one.kind: one
        for one in (PassFinished, StepsFinished, Checkpointed, SnapshotWritten, Measured)
    }
)


def event_of_rank(record: Mapping[str, Any]) -> Event:
    """Return the event that a rank sent as `to_json`.

    >>> event_of_rank(Checkpointed(2, 4, 0.5).to_json())
    Checkpointed(steps_done=2, steps=4, seconds=0.5)
    """
    values = {name: value for name, value in record.items() if name not in ("kind", "progress")}
    return _OF_RANKS[record["kind"]](**values)
