"""The queues of a pipeline, on a fake device whose pool runs out of memory."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from halocline_engine.device import queues
from halocline_engine.errors import CapacityError


class Pool:
    """A pool that gives what it has to the device again where it has no room."""

    def __init__(self, room: int) -> None:
        self.room, self.held = room, 0

    def total_bytes(self) -> int:
        return self.held

    def malloc(self, size: int) -> int:
        self.held = self.held + size if self.held + size <= self.room else size
        return size


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[int], Any]]:
    """Have allocators as they become those of a thread."""
    found: list[Callable[[int], Any]] = []

    @contextmanager
    def using(allocator: Callable[[int], Any]) -> Generator[None]:
        found.append(allocator)
        yield

    cuda = SimpleNamespace(
        MemoryPool=lambda: Pool(100),
        Stream=Mock(return_value=nullcontext()),
        runtime=Mock(),
        using_allocator=using,
    )
    monkeypatch.setattr(queues, "cupy", lambda: SimpleNamespace(cuda=cuda))
    return found


def test_what_recorded_work_uses_again_is_never_given_away(
    used: list[Callable[[int], Any]],
) -> None:
    queue = queues.DeviceQueue(0)
    queue.put(lambda: None)
    queue.put(lambda: None)
    assert used[0] == used[1]
    assert [used[0](60), used[0](40)] == [60, 40]
    with pytest.raises(CapacityError) as caught:
        used[0](50)
    assert str(caught.value) == (
        "The device had no room for 50 bytes more of what a program makes on the way."
        " Use smaller blocks."
    )
