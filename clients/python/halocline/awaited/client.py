"""`AsyncClient`: the methods of `Client` as coroutines."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, cast

import httpx2

from halocline.awaited.calls import Awaiting, awaited
from halocline.awaited.job import AsyncJob, accepted, several
from halocline.client import Client
from halocline.errors import ArgumentError, HaloclineError
from halocline.inputs.arguments import limited
from halocline.processes.methods import Methods
from halocline.transfer.uploads import Uploads
from halocline_engine.signatures import with_answers

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["AsyncClient", "AsyncOutcome", "AsyncUploads"]

#: Maximum number of threads of a client, which start when needed.
_THREADS = 256


@with_answers
class AsyncUploads(Awaiting):
    """Uploads of a service, as `client.uploads`; the coroutines of `Uploads`."""

    def __init__(self, uploads: Uploads, threads: ThreadPoolExecutor) -> None:
        self._wrapped, self._threads = uploads, threads

    list = awaited(Uploads.list)
    remove = awaited(Uploads.remove)


@dataclass(frozen=True)
class AsyncOutcome:
    """Outcome of the job of one dataset; see `Outcome`.

    Attributes
    ----------
    job : AsyncJob or None
        The job; None if it was not accepted.
    error : Exception or None
        Reason for a missing result: an error of Halocline, or of the caller's function.

    """

    job: AsyncJob | None
    error: Exception | None

    async def result(self) -> xr.Dataset:
        """Open the result, or raise the error."""
        if self.error is not None:
            raise self.error
        assert self.job is not None
        return await self.job.result(progress=False)


@with_answers
class AsyncClient(Methods, Awaiting):
    """A connection to one service for `asyncio`: `Client` with coroutines as methods.

    Use it in an `async with` block, or await `close`; its jobs need it as long as they are used.

    Parameters
    ----------
    url : str, optional
        Address of the service, as `Client` takes it.
    key : str, optional
        API key, as `Client` takes it.
    transport : httpx2.BaseTransport, optional
        Replaces the network, for tests.

    Examples
    --------
    >>> import asyncio
    >>> import halocline as hc
    >>> async def matrix():
    ...     async with hc.AsyncClient(client.url) as service:
    ...         job = await service.matmul(dataset, left="left", right="right", dim="k")
    ...         return (await job.result())["product"].max().item()
    >>> asyncio.run(matrix())
    43.0

    """

    _written = "client"

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self._wrapped = self._client = Client(url, key, transport)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="halocline-client")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<halocline.AsyncClient of {self.url}>"

    @property
    def url(self) -> str:
        """The address of the service."""
        return self._client.url

    async def close(self) -> None:
        """Close the connections; jobs continue."""
        await self._run(self._client.close)
        self._threads.shutdown(wait=False, cancel_futures=True)

    stencil = accepted(Client.stencil)
    column = accepted(Client.column)
    sequence = accepted(Client.sequence)
    tridiagonal = accepted(Client.tridiagonal)
    pentadiagonal = accepted(Client.pentadiagonal)
    factor = accepted(Client.factor)
    solve = accepted(Client.solve)
    tree = accepted(Client.tree)
    gather = accepted(Client.gather)
    scatter = accepted(Client.scatter)
    regrid = accepted(Client.regrid)
    neighbours = accepted(Client.neighbours)
    matmul = accepted(Client.matmul)
    reduce = accepted(Client.reduce)
    submit = accepted(Client.submit)
    job = accepted(Client.job)
    jobs = several(Client.jobs)
    documents = awaited(Client.documents)
    execute = awaited(Client.execute)
    upload = awaited(Client.upload)
    datasets = awaited(Client.datasets)

    @property
    def uploads(self) -> AsyncUploads:
        """Uploads of the service: ``await client.uploads.list()``."""
        return AsyncUploads(self._client.uploads, self._threads)

    async def map(
        self,
        submit: Callable[[Any], Awaitable[AsyncJob]],
        datasets: Iterable[Any],
        *,
        at_once: int = 4,
    ) -> AsyncIterator[AsyncOutcome]:
        """Run one job for each dataset, some at a time, and yield outcomes; see `Client.map`."""
        most = limited("at_once", at_once)
        waiting: deque[asyncio.Task[AsyncOutcome]] = deque()
        try:
            for dataset in datasets:
                waiting.append(asyncio.create_task(_outcome(submit, dataset)))
                while len(waiting) >= most:
                    yield await waiting.popleft()
            while waiting:
                yield await waiting.popleft()
        finally:
            for task in waiting:
                task.cancel()


async def _outcome(submit: Callable[[Any], Awaitable[AsyncJob]], dataset: Any) -> AsyncOutcome:
    try:
        job = cast("object", await submit(dataset))
    except Exception as error:  # of any type, as the other jobs continue
        return AsyncOutcome(None, error)
    if not isinstance(job, AsyncJob):
        message = f"Argument 'submit' must return a job, got '{type(job).__name__}'."
        hint = "Return the job, such as that of client.stencil(program, dataset)."
        return AsyncOutcome(None, ArgumentError(message, hint=hint))
    try:
        await job.result_url()
    except HaloclineError as error:
        return AsyncOutcome(job, error)
    return AsyncOutcome(job, None)
