"""Execution of a job: the arguments that all functions on datasets share."""

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict, TypeVar
from warnings import warn

import xarray as xr

from halocline_engine.arguments import (
    MODES,
    check_flags,
    check_functions,
    check_mode,
    place_of,
    sizes_by_name,
)
from halocline_engine.backends.registry import resolve
from halocline_engine.datasets.storing.outputs import check_output_path
from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.executors.select import (
    Cluster,
    check_threads,
    expect_workers,
    new_pool,
    running_pool,
)
from halocline_engine.distribute.jobs.execute import Blockwise, run_blockwise
from halocline_engine.distribute.tasks.events import Event, Warned
from halocline_engine.distribute.tasks.options import Options, options_of
from halocline_engine.errors import OutputError
from halocline_engine.program_warning import ProgramWarning
from halocline_engine.progress.display import Display, displayed, is_watched
from halocline_engine.signatures import Default

if TYPE_CHECKING:
    from distributed import Client


__all__ = ["CheckPassed", "Checking", "Execution", "ExecutionArguments", "JobOf", "Planning"]

_Checked = TypeVar("_Checked")

#: Makes a job for a pool and a target.
JobOf = Callable[[Pool, str], Blockwise]
#: Seconds that a job takes before its progress is displayed, unless that is asked for.
_DISPLAYED_AFTER = 0.5


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
        of several workers, and `sequence`, whose variables stay.
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
    progress : bool, optional
        Whether to display steps or blocks, rate, time left and what is awaited. By default a job
        that takes more than half a second does where a person looks: in a terminal or a notebook.
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
    progress: Annotated[bool | None, Default(None)]
    cancelled: Annotated[Callable[[], bool] | None, Default(None)]
    options: Annotated[Options | None, Default(None)]


@dataclass(frozen=True, slots=True)
class Planning:
    """A `cluster` on which nothing runs: it takes the job that a function makes for this pool."""

    on: Pool
    target: str
    jobs: list[Blockwise] = field(default_factory=list[Blockwise])


@dataclass(slots=True)
class _Displayed:
    """Display of a running job, or None where nobody looks."""

    display: Display | None = None


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
    progress: bool | None
    cancelled: Callable[[], bool] | None
    options: Options | None
    modes: Sequence[str] = MODES
    _displayed: _Displayed = field(default_factory=_Displayed, init=False)

    def __post_init__(self) -> None:
        """Check what needs no dataset."""
        check_mode(self.mode, self.modes)
        check_functions(self.on_event, self.cancelled)
        if self.progress is not None:
            check_flags(progress=self.progress)
        options_of(self.options)
        if self.place is not None and not os.path.exists(self.place):  # else it may be the input
            check_output_path(self.place, OutputError)

    @property
    def block_sizes(self) -> dict[str, int]:
        """Block sizes by dimension."""
        return sizes_by_name("chunks", self.chunks)

    @property
    def place(self) -> Path | None:
        """Path of the result."""
        return place_of("output", self.output)

    def tell(self, event: Event) -> None:
        """Give an event to the display and to the caller."""
        if self._displayed.display is not None:
            self._displayed.display.show(event.kind, event.to_json())
        if self.on_event is not None:
            self.on_event(event)

    def wait_for(self, what: str) -> None:
        """Display what is awaited from now on."""
        if self._displayed.display is not None:
            self._displayed.display.wait_for(what)

    @contextmanager
    def _displaying(self) -> Generator[None]:
        """Display the progress of the job where that is wanted, while the context lasts."""
        is_wanted = is_watched() if self.progress is None else self.progress
        if not is_wanted:
            yield
            return
        delay = _DISPLAYED_AFTER if self.progress is None else 0.0
        with displayed("halocline", delay=delay) as self._displayed.display:
            yield

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
        """The cluster that computes; None where this process does, or nothing runs."""
        return None if isinstance(self.cluster, Planning | Checking) else self.cluster

    def connect(self, stack: ExitStack) -> tuple[Pool | None, str]:
        """Return the pool of a scheduler that runs already, if any, and the target's name there.

        Progress is displayed from here on, until the stack ends.
        """
        if isinstance(self.cluster, Planning):
            return self.cluster.on, self.cluster.target
        if not isinstance(self.cluster, Checking):
            stack.enter_context(self._displaying())
        if isinstance(self.cluster, str):
            self.wait_for(f"connecting to '{self.cluster}'")
        existing = running_pool(self.workers, stack)
        return existing, resolve(self.target) if existing is None else existing.resolve(self.target)

    def pool_of(self, existing: Pool | None, target: str, stack: ExitStack) -> Pool:
        """Return the pool that runs already, or one that ends with the stack."""
        options = options_of(self.options)
        if existing is not None:
            return existing.granted(options)
        if isinstance(self.cluster, Integral):
            self.wait_for(f"starting {self.cluster} worker processes")
        return new_pool(self.workers, target, stack, options).granted(options)

    @contextmanager
    def pool(self, *, of_stages: bool = False) -> Generator[tuple[Pool, str]]:
        """Open the pool, and name the target on it; what is started ends with the context.

        A check ends here, or with `of_stages` in `run`: stages are checked as they are planned.
        """
        if isinstance(self.cluster, Planning):
            yield self.cluster.on, self.cluster.target
            return
        if not of_stages:
            self.passed(None)
        check_threads(options_of(self.options), self.workers)
        self.expect_workers()
        with ExitStack() as stack:
            existing, target = self.connect(stack)
            yield self.pool_of(existing, target, stack), target

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
