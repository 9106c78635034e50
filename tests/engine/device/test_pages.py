"""Pages of arrays that are locked where they lie: shared, refused, and given back."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from halocline_engine.device.memory import locking as module
from halocline_engine.device.memory.locking import DeviceLocking, LockError, Pages

PAGE = 4096


class Watched:
    """Counts pages as a device does: locking one twice, or giving back another, is wrong."""

    def __init__(self, refuses: int | None = None) -> None:
        self.locked: dict[int, int] = {}
        self.calls: list[tuple[int, bool]] = []
        self._refuses = refuses

    def lock(self, address: int, size: int, *, writes: bool) -> None:
        if self._refuses is not None and len(self.calls) >= self._refuses:
            raise LockError("no more")
        assert address % PAGE == size % PAGE == 0 < size
        assert all(
            address >= start + there or address + size <= start
            for start, there in self.locked.items()
        )
        self.locked[address] = size
        self.calls.append((size, writes))

    def unlock(self, address: int) -> None:
        del self.locked[address]


def paged(pages: int) -> NDArray[np.uint8]:
    """Return an array that begins with a page."""
    values = np.zeros((pages + 1) * PAGE, np.uint8)
    first = -at(values) % PAGE
    return values[first : first + pages * PAGE]


def at(values: NDArray[Any]) -> int:
    return values.__array_interface__["data"][0]


def test_neighbours_share_pages() -> None:
    """Each page is locked once, until the end; what was locked apart is told of."""
    whole = paged(8)
    watched = Watched()
    pages = Pages(watched)
    assert pages.lock(whole[100:5000]) == ()
    assert pages.lock(whole[4900:13_000]) == (at(whole) + 2 * PAGE,)
    assert pages.lock(whole[4095:9000]) == (at(whole) + 2 * PAGE,)
    assert pages.lock(whole[2 * PAGE : 3 * PAGE]) == ()
    assert sorted(watched.locked.values()) == [2 * PAGE, 2 * PAGE]
    assert pages.locked == 4 * PAGE
    pages.close()
    pages.close()
    assert not watched.locked
    assert pages.locked == 0
    assert pages.lock(whole[::3]) == ()
    assert pages.locked == 8 * PAGE


def test_gaps_between_what_is_locked_are_filled() -> None:
    whole = paged(9)
    pages = Pages(Watched())
    for first in (2, 6):
        assert pages.lock(whole[first * PAGE : (first + 1) * PAGE]) == ()
    edges = [at(whole) + first * PAGE for first in (2, 3, 6, 7)]
    assert pages.lock(whole) == tuple(edges)


def test_what_is_read_is_not_written() -> None:
    whole = paged(4)
    watched = Watched()
    pages = Pages(watched)
    assert pages.lock(whole[:PAGE]) == ()
    assert pages.lock(whole, writes=True) is None
    assert pages.refused is None
    assert pages.lock(whole[PAGE:], writes=True) == ()
    assert pages.lock(whole) == (at(whole) + PAGE,)
    assert [writes for _, writes in watched.calls] == [False, True]


def test_what_is_refused_once_is_not_tried_again() -> None:
    whole = paged(20)
    watched = Watched(refuses=3)
    pages = Pages(watched)
    for first in (6, 12):
        assert pages.lock(whole[first * PAGE : (first + 1) * PAGE]) == ()
    # Of the three parts around them one is locked before the next one is refused.
    assert pages.lock(whole) is None
    assert pages.refused == "no more"
    assert pages.lock(whole[:10]) is None
    assert len(watched.locked) == 3
    pages.close()
    assert not watched.locked
    assert Pages(Watched()).lock(whole[:0]) is None


def test_what_cannot_be_unlocked_keeps_nothing_else_locked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = paged(6)
    watched = Watched()
    pages = Pages(watched)
    for first in (0, 2, 4):
        assert pages.lock(whole[first * PAGE : (first + 1) * PAGE]) == ()
    unlock = watched.unlock

    def failing(address: int) -> None:
        unlock(address)
        if address == at(whole) + 2 * PAGE:
            raise RuntimeError("the device is lost")

    monkeypatch.setattr(watched, "unlock", failing)
    with pytest.raises(RuntimeError, match="the device is lost"):
        pages.close()
    assert not watched.locked
    assert pages.locked == 0
    pages.close()


def test_threads_lock_each_page_once() -> None:
    whole = paged(64)
    watched = Watched()
    pages = Pages(watched)

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(20):
            start = chance.randrange(whole.size - 1)
            stop = min(whole.size, start + chance.randrange(1, 3 * PAGE))
            cuts = pages.lock(whole[start:stop])
            assert cuts is not None
            assert all(at(whole) + start < cut < at(whole) + stop for cut in cuts)

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(6)))
    assert sum(watched.locked.values()) == pages.locked
    pages.close()
    assert not watched.locked


@pytest.mark.parametrize(("known", "flags"), [(1, 8), (0, 0)])
def test_a_device_locks_to_read_where_it_can(
    known: int, flags: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[Any, ...]] = []

    class FailureError(Exception):
        pass

    def register(*arguments: int) -> None:
        calls.append(arguments)
        if arguments[1] == 3:
            raise FailureError("cudaErrorInvalidValue")

    def attribute(number: int, device: int) -> int:
        return known if (number, device) == (113, 2) else 9

    def set_device(device: int) -> None:
        calls.append(("device", device))

    def unregister(address: int) -> None:
        calls.append(("gone", address))

    runtime = SimpleNamespace(
        CUDARuntimeError=FailureError,
        getDevice=lambda: 2,
        setDevice=set_device,
        deviceGetAttribute=attribute,
        hostRegister=register,
        hostUnregister=unregister,
    )
    cuda = SimpleNamespace(runtime=runtime)
    monkeypatch.setattr(module, "cupy", lambda: SimpleNamespace(cuda=cuda))
    locking = DeviceLocking()
    locking.lock(8, 16, writes=False)
    locking.lock(32, 16, writes=True)
    locking.unlock(8)
    with pytest.raises(LockError, match=r"^cudaErrorInvalidValue$"):
        locking.lock(0, 3, writes=True)
    assert [call for call in calls if call != ("device", 2)] == [
        (8, 16, flags),
        (32, 16, 0),
        ("gone", 8),
        (0, 3, 0),
    ]
    assert calls.count(("device", 2)) == 4
