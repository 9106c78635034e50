"""Execution of a job: the arguments that all functions on datasets share."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict, TypeVar
from warnings import warn

import xarray as xr

from halocline_engine.arguments import MODES, check_functions, check_mode, place_of, sizes_by_name
from halocline_engine.datasets.storing.outputs import check_output_path
from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.executors.select import (
    Cluster,
    expect_workers,
    open_pool,
    running_pool,
)
from halocline_engine.distribute.jobs.execute import Blockwise, run_blockwise
from halocline_engine.distribute.tasks.events import Event, OnEvent, Warned
from halocline_engine.distribute.tasks.options import Options, options_of
from halocline_engine.errors import OutputError
from halocline_engine.program_warning import ProgramWarning
from halocline_engine.signatures import Default

if TYPE_CHECKING:
    from distributed import Client

    from halocline_engine.distribute.executors.dask import ClusterPool

__all__ = ["CheckPassed", "Checking", "Execution", "ExecutionArguments", "JobOf", "Planning"]

_Checked = TypeVar("_Checked")

#: Makes a job for a pool and a target.
JobOf = Callable[[Pool, str], Blockwise]


class ExecutionArguments(TypedDict, total=False):
    """Target, place and observers of a computation on a dataset.

    Parameters
    ----------
    target : {'auto', 'cuda', 'cpu', 'reference'}, default: 'auto'
        What computes: generated CUDA, compiled loops on the processor, or NumPy. 'auto' is 'cuda'
        where there is a GPU, otherwise 'cpu'; 'gpu' means 'cuda'.
    mode : {'auto', 'streamed'}, default: 'auto'
        How blocks pass through memory. 'streamed' reads, computes and writes them pass by pass;
        'auto' chooses it. `run` has 'resident' besides: blocks stay in memory and exchange halos;
        its 'auto' chooses that for several steps on blocks that fit, and for one that it makes
        faster. So has `tridiagonal`, where the rows of a system stay in the memory of devices, or
        of several workers.
    chunks : mapping of str to int, optional
        Block sizes by dimension. By default they follow from the memory that is free.
    cluster : int, str or distributed.Client, optional
        Number of worker processes to start on this machine, address of a Dask scheduler, or a
        client of one. By default this process computes. Workers on other machines must see the same
        paths.
    output : path, optional
        Path of the result, which is written block by block and appears complete or not at all: a
        NetCDF-4 file if the name ends in '.nc', otherwise a Zarr store. By default the result is in
        memory.
    on_event : callable, optional
        Called with each event of `halocline_engine.distribute.tasks.events`.
    cancelled : callable, optional
        Called repeatedly without arguments. Once it returns True, the job stops and raises
        `CancelledError`.
    options : Options, optional
        Memory limits, and choices that otherwise follow from the plan.

    """

    target: Annotated[str, Default("auto")]
    mode: Annotated[str, Default("auto")]
    chunks: Annotated[Mapping[str, int] | None, Default(None)]
    cluster: Annotated["int | str | Client | None", Default(None)]
    output: Annotated[str | Path | None, Default(None)]
    on_event: Annotated["Callable[[Event], None] | None", Default(None)]
    cancelled: Annotated[Callable[[], bool] | None, Default(None)]
    options: Annotated[Options | None, Default(None)]


@dataclass(frozen=True, slots=True)
class Planning:
    """A `cluster` on which nothing runs: it takes the job that a function makes for this pool."""

    on: Pool
    target: str
    jobs: list[Blockwise] = field(default_factory=list[Blockwise])


@dataclass(frozen=True, slots=True)
class Checking:
    """A `cluster` on which nothing runs: a call ends with `CheckPassed` once all is checked."""


class CheckPassed(Exception):
    """Leaves a function whose arguments fit the dataset."""


@dataclass(frozen=True, slots=True)
class Execution:
    """The execution arguments of a call, checked; see `ExecutionArguments`.

    Raises `ArgumentError` for values that none of these can have.
    """

    target: str
    mode: str
    chunks: Mapping[str, int] | None
    cluster: "int | str | Client | Planning | Checking | None"
    output: str | Path | None
    on_event: Callable[[Event], None] | None
    cancelled: Callable[[], bool] | None
    options: Options | None
    modes: Sequence[str] = MODES

    def __post_init__(self) -> None:
        """Check what needs no dataset."""
        check_mode(self.mode, self.modes)
        check_functions(self.on_event, self.cancelled)
        options_of(self.options)
        if self.place is not None and not self.place.exists():  # else it may be the input
            check_output_path(self.place, OutputError)

    @property
    def block_sizes(self) -> dict[str, int]:
        """Block sizes by dimension."""
        return sizes_by_name("chunks", self.chunks)

    @property
    def place(self) -> Path | None:
        """Path of the result."""
        return place_of("output", self.output)

    @property
    def tell(self) -> OnEvent:
        """Receiver of the events."""
        return self.on_event or _discard

    def warn(self, warning: ProgramWarning) -> None:
        """Warn the caller of `run`, and whoever takes the events."""
        warn(warning, stacklevel=4)  # past `run` and the check of its call
        self.tell(
            Warned(
                warning.message,
                warning.hint,
                warning.rule,
                warning.line,
                warning.column,
                warning.excerpt,
            )
        )

    def expect_workers(self) -> None:
        """Begin with what new processes wait for, if the call has some."""
        if not isinstance(self.cluster, Planning | Checking):
            expect_workers(self.cluster, self.target)

    def passed(self, checked: _Checked) -> _Checked:
        """Return what was checked; raises `CheckPassed` in a call that only checks."""
        if isinstance(self.cluster, Checking):
            raise CheckPassed
        return checked

    @property
    def workers(self) -> Cluster:
        """What computes in a call that neither plans nor checks."""
        return None if isinstance(self.cluster, Planning | Checking) else self.cluster

    def running_pool(self, stack: ExitStack) -> "ClusterPool | None":
        """Return the pool of workers that run already, if the call names some."""
        return running_pool(self.workers, stack)

    @contextmanager
    def pool(self, *, of_stages: bool = False) -> Generator[tuple[Pool, str]]:
        """Open the pool, and name the target on it; what is started ends with the context.

        A check ends here, or with `of_stages` in `run`: stages are checked as they are planned.
        """
        if isinstance(self.cluster, Planning):
            yield self.cluster.on, self.cluster.target
            return
        if isinstance(self.cluster, Checking) and of_stages:
            with ExitStack() as stack:
                yield open_pool(None, self.target, stack, self.options)
            return
        self.passed(None)
        self.expect_workers()
        with ExitStack() as stack:
            yield open_pool(self.workers, self.target, stack, self.options)

    def run(self, job: Blockwise, pool: Pool, reason: str) -> xr.Dataset:
        """Run a job on a pool; `reason` says why it has its passes."""
        self.passed(job)
        if isinstance(self.cluster, Planning):
            self.cluster.jobs.append(job)
            return xr.Dataset()
        return run_blockwise(job, pool, self.tell, self.cancelled, reason)

    def run_job(self, job_of: JobOf, reason: str, several: str = "") -> xr.Dataset:
        """Open the pool and run the job that is made for it.

        `reason` says why it has one pass, `several` why it has more.
        """
        with self.pool() as (pool, target):
            job = job_of(pool, target)
            return self.run(job, pool, reason if job.passes == 1 else several)


def _discard(event: Event) -> None:
    """Discard the event."""
