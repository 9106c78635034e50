"""Signs of life of a worker: its event loop gives them, and nobody waits for them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator

import pytest

from halocline_service import lifetime
from halocline_service.lifetime import SIGN_VARIABLE, dask_setup, open_pipe, take_signs


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Generator[tuple[int, int]]:
    mine, theirs = open_pipe()
    monkeypatch.setenv(SIGN_VARIABLE, str(theirs))
    monkeypatch.setattr(lifetime, "_MILLISECONDS", 1)
    yield mine, theirs
    os.close(mine)
    os.close(theirs)


def test_a_loop_that_runs_gives_signs(pipe: tuple[int, int]) -> None:
    mine, _ = pipe
    assert not take_signs(mine)

    async def work() -> None:
        dask_setup(None)
        for _ in range(3):
            while not take_signs(mine):
                await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(work(), 30))


def test_a_supervisor_that_does_not_listen_holds_nobody(pipe: tuple[int, int]) -> None:
    _, theirs = pipe
    with pytest.raises(BlockingIOError):
        _ = [os.write(theirs, b"." * 4096) for _ in range(10**6)]

    async def work() -> None:
        dask_setup(None)
        await asyncio.sleep(0.02)

    asyncio.run(work())


def test_a_worker_without_a_supervisor_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SIGN_VARIABLE, raising=False)
    dask_setup(None)
