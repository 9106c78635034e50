"""Every store, with a clock that is set and one that is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.stores import Clock

from halocline_service.store.base import (
    Store,
)
from halocline_service.store.memory.store import memory_store
from halocline_service.store.sql.migrate import upgrade
from halocline_service.store.sql.store import open_store


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ticks() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock, ticks: Clock
) -> Iterator[Store]:
    if request.param == "memory":
        made = memory_store(clock=clock, ticks=ticks)
    elif request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'test.sqlite3'}"
        upgrade(url)
        made = open_store(url, clock=clock, ticks=ticks)
    else:
        made = open_store(request.getfixturevalue("postgres"), clock=clock, ticks=ticks)
    yield made
    made.close()
