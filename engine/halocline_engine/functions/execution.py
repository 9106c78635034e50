"""Execution of a job: the arguments that all functions on datasets share."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from warnings import warn

import xarray as xr

from halocline_engine.arguments import MODES, check_functions, check_mode
from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.executors.select import open_pool
from halocline_engine.distribute.jobs.execute import Blockwise, run_blockwise
from halocline_engine.distribute.tasks.events import Event, OnEvent, Warned
from halocline_engine.distribute.tasks.options import Options, options_of
from halocline_engine.program_warning import ProgramWarning

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["Execution", "JobOf"]

#: Makes a job for a pool and a target.
JobOf = Callable[[Pool, str], Blockwise]


@dataclass(frozen=True, slots=True)
class Execution:
    """Where a job is computed, by what, and whom it tells; see `parameters`.

    Raises `ArgumentError` for values that none of these can have.
    """

    target: str
    mode: str
    cluster: int | str | Client | None
    on_event: Callable[[Event], None] | None
    cancelled: Callable[[], bool] | None
    options: Options | None
    modes: Sequence[str] = MODES

    def __post_init__(self) -> None:
        """Check what needs no dataset."""
        check_mode(self.mode, self.modes)
        check_functions(self.on_event, self.cancelled)
        options_of(self.options)

    @property
    def tell(self) -> OnEvent:
        """What takes the events."""
        return self.on_event or _discard

    def warn(self, warning: ProgramWarning) -> None:
        """Warn the caller of `run`, and whoever takes the events."""
        warn(warning, stacklevel=3)
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

    @contextmanager
    def pool(self) -> Generator[tuple[Pool, str]]:
        """Open the pool, and name the target on it; what is started ends with the context."""
        with ExitStack() as stack:
            yield open_pool(self.cluster, self.target, stack, self.options)

    def run(self, job: Blockwise, pool: Pool, reason: str) -> xr.Dataset:
        """Run a job on a pool; `reason` says why it has its passes."""
        return run_blockwise(job, pool, self.tell, self.cancelled, reason)

    def run_once(self, job_of: JobOf, reason: str) -> xr.Dataset:
        """Open the pool and run the job that is made for it."""
        with self.pool() as (pool, target):
            return self.run(job_of(pool, target), pool, reason)


def _discard(event: Event) -> None:
    """Discard the event."""
