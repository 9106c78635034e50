"""`AsyncJob`: the methods of `Job` as coroutines.

A wait occupies a thread for at most some seconds at a time, so that a cancelled wait ends soon.
"""

from __future__ import annotations

import functools
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from halocline.awaited.calls import Awaiting, awaited
from halocline.downloads import check_output
from halocline.errors import WaitTimeout
from halocline.events import ENDED, Event, Status
from halocline.inputs.arguments import place, seconds
from halocline.job import Job
from halocline.plan import Plan
from halocline.progress import check_progress, display_of
from halocline_engine.signatures import with_answers

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["AsyncJob", "accepted", "several"]

_P = ParamSpec("_P")

#: Seconds after which a thread returns to the event loop, where the wait may be cancelled.
_HELD = 15.0


def accepted(
    method: Callable[Concatenate[Any, _P], Job],
) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, AsyncJob]]:
    """Return a coroutine method that returns an `AsyncJob` in place of a `Job`."""
    given = awaited(method)

    @functools.wraps(method)
    async def call(self: Awaiting, /, *args: _P.args, **kwargs: _P.kwargs) -> AsyncJob:
        return AsyncJob(await given(self, *args, **kwargs), self._threads)  # pyright: ignore[reportPrivateUsage] - its own

    return call


def several(
    method: Callable[Concatenate[Any, _P], list[Job]],
) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, list[AsyncJob]]]:
    """Return a coroutine method that returns a list of `AsyncJob` in place of `Job`."""
    given = awaited(method)

    @functools.wraps(method)
    async def call(self: Awaiting, /, *args: _P.args, **kwargs: _P.kwargs) -> list[AsyncJob]:
        jobs = await given(self, *args, **kwargs)
        return [AsyncJob(job, self._threads) for job in jobs]  # pyright: ignore[reportPrivateUsage] - its own

    return call


@with_answers
class AsyncJob(Awaiting):
    """A job of an `AsyncClient`: `Job` with coroutines as methods.

    Properties of `Job` that query the service are coroutines too: ``await job.status()``.
    """

    def __init__(self, job: Job, threads: ThreadPoolExecutor) -> None:
        self._wrapped = self._job = job
        self._threads = threads

    def __repr__(self) -> str:
        return f"<halocline.AsyncJob {self.id} at {self.url}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncJob) and other._job == self._job

    def __hash__(self) -> int:
        return hash(self._job)

    @property
    def id(self) -> str:
        """Id of the job."""
        return self._job.id

    @property
    def url(self) -> str:
        """Address of the service."""
        return self._job.url

    document = awaited(Job.document)
    log = awaited(Job.log)
    picture = awaited(Job.picture)
    cancel = awaited(Job.cancel)
    remove = awaited(Job.remove)
    clone = accepted(Job.clone)

    async def process(self) -> str:
        """Return the name of the process; see `Job.process`."""
        return await self._run(lambda: self._job.process)

    async def inputs(self) -> dict[str, Any]:
        """Return the inputs of the job as JSON; see `Job.inputs`."""
        return await self._run(lambda: self._job.inputs)

    async def name(self) -> str | None:
        """Return the name of the job."""
        return await self._run(lambda: self._job.name)

    async def labels(self) -> list[str]:
        """Return the labels of the job."""
        return await self._run(lambda: self._job.labels)

    async def status(self) -> Status:
        """Return the current state: accepted, running, successful, failed or dismissed."""
        return await self._run(lambda: self._job.status)

    async def progress(self) -> float:
        """Return the fraction that is done, from 0 to 1."""
        return await self._run(lambda: self._job.progress)

    async def events(self, timeout: float | None = None) -> AsyncIterator[Event]:
        """Yield the events of the job, from the first one until it has ended; see `Job.events`."""
        limit = seconds("timeout", timeout)
        deadline = None if limit is None else time.monotonic() + limit
        last = ""
        while True:
            held = _HELD if deadline is None else min(_HELD, deadline - time.monotonic())
            following = self._job.events_after(last, max(0.0, held))
            try:
                while (event := await self._run(next, following, None)) is not None:
                    last = event.id or last
                    yield event
            except WaitTimeout:
                if deadline is not None and time.monotonic() >= deadline:
                    raise
            else:
                return

    async def wait(self, timeout: float | None = None, *, progress: bool | None = False) -> Status:
        """Wait until the job has ended; see `Job.wait`."""
        with display_of(self.id, progress) as display:
            async for event in self.events(timeout):
                display(event)
        return await self.status()

    async def result(
        self, timeout: float | None = None, *, progress: bool | None = None
    ) -> xr.Dataset:
        """Wait, and open the result; values are read later, in the thread that uses them."""
        await self._ended(timeout, progress)
        return await self._run(self._job.result, progress=False)

    async def download(
        self, path: str | Path, timeout: float | None = None, *, progress: bool | None = None
    ) -> Path:
        """Wait, and download the result to a file or a folder; see `Job.download`."""
        place("path", path)
        check_output(path)
        await self._ended(timeout, progress)
        return await self._run(self._job.download, path, progress=False)

    async def result_url(
        self, timeout: float | None = None, *, progress: bool | None = False
    ) -> str:
        """Wait, and return the address of the Zarr store of the result; see `Job.result_url`."""
        await self._ended(timeout, progress)
        return await self._run(self._job.result_url)

    async def plan(self, timeout: float | None = None) -> Plan:
        """Return the plan of the job, once there is one; see `Job.plan`."""
        if (await self.document()).get("processID") == "plan":
            await self._ended(timeout, progress=False)
        return await self._run(self._job.plan)

    async def _ended(self, timeout: float | None, progress: bool | None) -> None:
        """Wait until the job has ended, if it has not."""
        seconds("timeout", timeout)
        check_progress(progress)
        if await self.status() not in ENDED:
            await self.wait(timeout, progress=progress)
