"""`AsyncClient` does what `Client` does: the same scenarios on both."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import pytest
import xarray as xr
from deadlines import until

from halocline import AsyncClient, AsyncJob, Client, Job
from halocline.awaited.client import AsyncOutcome, AsyncUploads
from halocline.errors import (
    ArgumentError,
    AxisError,
    JobFailed,
    NotFoundError,
    ProgramError,
    WaitTimeout,
)
from halocline.processes.many import Outcome
from halocline.transfer.uploads import Uploads

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

Scenario: TypeAlias = Callable[[Any], Awaitable[object]]

TEXT = """
def double(t: Field[float], out: Field[float], factor: float):
    with computation(PARALLEL), interval(...):
        out = factor * t
"""
PAIRS = [
    (Client, AsyncClient),
    (Job, AsyncJob),
    (Uploads, AsyncUploads),
    (Outcome, AsyncOutcome),
]


def sea() -> xr.Dataset:
    return xr.Dataset({"t": (("y", "x"), np.arange(12.0).reshape(3, 4))})


async def told(value: Any) -> Any:
    """Give what a client gives, which may have to be awaited, or called."""
    found = value() if inspect.ismethod(value) else value
    return await found if inspect.isawaitable(found) else found


async def each(values: Any) -> AsyncIterator[Any]:
    if isinstance(values, Iterable):
        for value in cast("Iterable[Any]", values):
            yield value
    else:
        async for value in values:
            yield value


@pytest.fixture(params=["sync", "async"])
def play(request: pytest.FixtureRequest, service: str) -> Callable[[Scenario], None]:
    """Play a scenario with one of both clients."""

    async def waited(scenario: Scenario) -> None:
        async with AsyncClient(service) as client:
            await scenario(client)

    def run(scenario: Scenario) -> None:
        if request.param == "async":
            asyncio.run(waited(scenario))
            return
        with Client(service) as client:
            asyncio.run(scenario(client))  # pyright: ignore[reportArgumentType] - coroutines

    return run


@pytest.mark.parametrize(("plain", "awaited"), PAIRS)
def test_both_have_the_same_methods(plain: type, awaited: type) -> None:
    def public(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert public(plain) - {"events_after"} == public(awaited)
    for name in public(awaited):
        one, other = getattr(plain, name), getattr(awaited, name)
        if callable(one):
            ours = [p.replace(annotation=p.empty) for p in parameters(one)]
            assert [p.replace(annotation=p.empty) for p in parameters(other)] == ours, name
        elif callable(other):
            assert inspect.iscoroutinefunction(other), name
        assert (other.__doc__ or "").strip(), name


def parameters(function: Any) -> list[inspect.Parameter]:
    return [*inspect.signature(function).parameters.values()][1:]


def test_a_job_is_submitted_and_its_result_read(
    play: Callable[[Scenario], None], tmp_path: Path
) -> None:
    async def scenario(client: Any) -> None:
        job = await told(
            client.stencil(TEXT, sea(), scalars={"factor": 3.0}, target="reference", labels=["a"])
        )
        assert await told(job.wait(timeout=60)) == "successful"
        result = await told(job.result(progress=False))
        assert result["out"].values.tolist() == (3.0 * sea()["t"]).values.tolist()
        kinds = [event.kind async for event in each(job.events())]
        assert kinds[0] == "status"
        assert kinds.count("finished") == 1
        assert (await told(job.process), await told(job.labels)) == ("stencil", ["a"])
        assert (await told(job.inputs))["scalars"] == {"factor": 3.0}
        assert (await told(job.status), await told(job.progress)) == ("successful", 1.0)
        assert (await told(job.plan())).blocks == 1
        place = await told(job.download(tmp_path / "result.zarr", progress=False))
        assert (place / "zarr.json").exists()
        again = await told(job.clone(scalars={"factor": 2.0}, dry_run=True))
        assert (await told(again.plan())).result_bytes == 96
        assert job in await told(client.jobs(limit=5))
        assert await told(client.job(job.id)) == job
        chained = await told(
            client.stencil(
                TEXT,
                job,
                fields={"t": "out", "out": "more"},
                scalars={"factor": 2.0},
                target="reference",
            )
        )
        assert (await told(chained.result(progress=False)))["more"].values.max() == 66.0
        await told(job.remove())
        with pytest.raises(NotFoundError):
            await told(client.job(job.id))

    play(scenario)


def test_errors_are_the_same(play: Callable[[Scenario], None]) -> None:
    async def scenario(client: Any) -> None:
        with pytest.raises(ProgramError, match="rat"):
            await told(client.stencil(TEXT.replace("factor * t", "rat * t"), sea()))
        with pytest.raises(ArgumentError, match="steps"):
            await told(client.stencil(TEXT, sea(), steps="two"))
        with pytest.raises(ArgumentError, match="Did you mean 'steps'"):
            await told(client.stencil(TEXT, sea(), step=2))
        job = await told(client.submit("echo", {"pause": 30}))
        with pytest.raises(WaitTimeout):
            await told(job.wait(timeout=0.5))
        assert await told(job.cancel()) == "dismissed"  # so it had not ended
        with pytest.raises(AxisError):
            await told(client.stencil(TEXT, sea(), scalars={"factor": 1.0}, axes={"I": "lon"}))
        wrong = xr.Dataset({"t": ("x", [1.0, 2.0]), "at": ("n", [0, 7])})
        failed = await told(client.gather(wrong, source="t", index="at", dim="x"))
        with pytest.raises(JobFailed):
            await told(failed.result(progress=False))

    play(scenario)


def test_many_datasets(play: Callable[[Scenario], None]) -> None:
    async def scenario(client: Any) -> None:
        def submit(dataset: Any) -> Any:
            return client.stencil(TEXT, dataset, scalars={"factor": 2.0}, target="reference")

        outcomes = client.map(submit, [sea(), "absent.nc", sea() + 1.0], at_once=2)
        found = [outcome async for outcome in each(outcomes)]
        assert [type(outcome.error).__name__ for outcome in found] == [
            *("NoneType", "DatasetError", "NoneType")
        ]
        last = await told(found[2].result())
        assert last["out"].values.max() == 24.0

    play(scenario)


def test_uploads(play: Callable[[Scenario], None]) -> None:
    async def scenario(client: Any) -> None:
        named = await told(client.upload(sea() * 7.0))
        listed = await told(client.uploads.list())
        assert named in [document["reference"] for document in listed]
        await told(client.uploads.remove(named))

    play(scenario)


def test_jobs_are_waited_for_at_the_same_time(service: str) -> None:
    """Jobs end in the other order than they are waited for, and each wait ends with its job."""

    async def scenario() -> None:
        async with AsyncClient(service) as client:
            jobs = await asyncio.gather(*(client.submit("echo", {"pause": 60}) for _ in range(20)))
            waits = [asyncio.create_task(job.wait(timeout=250)) for job in jobs]
            for number, job in reversed(list(enumerate(jobs))):
                assert await job.cancel() == "dismissed"
                assert await waits[number] == "dismissed"
                assert not any(wait.done() for wait in waits[:number])
            assert await (await client.submit("echo", {})).wait() == "successful"

    asyncio.run(scenario())


def test_a_wait_that_is_cancelled_lets_go(service: str) -> None:
    async def scenario() -> None:
        async with AsyncClient(service) as client:
            job = await client.submit("echo", {"pause": 60})
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(job.wait(), 0.5)
            assert await job.cancel() == "dismissed"

    asyncio.run(scenario())
    until(lambda: not _threads())


def _threads() -> list[str]:
    named = (thread.name for thread in threading.enumerate())
    return [name for name in named if name.startswith("halocline-client")]
