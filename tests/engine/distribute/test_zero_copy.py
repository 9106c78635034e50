"""Arrays that a pipeline uses where they lie: the same bytes, and nothing stays locked."""

from __future__ import annotations

import random
import threading
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
import xarray as xr
from numpy.lib.array_utils import byte_bounds

from halocline_engine.backends.base import HostArray
from halocline_engine.datasets.grids.match import FieldUse, Grid, Role
from halocline_engine.device.memory import locking as pages
from halocline_engine.device.memory.locking import HostLocking, LockError
from halocline_engine.distribute.grid.partition import Block, Box, Span
from halocline_engine.distribute.pipeline.host_queues import HostQueues
from halocline_engine.distribute.tasks.events import Event, Finished
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.distribute.transports import zero_copy
from halocline_engine.errors import CancelledError
from halocline_engine.functions.run import run
from halocline_engine.ir.types import Axis

STAR = """
def star(u: Field[np.float32], m: Field[IJ, bool], v: Field[np.float32]):
    with computation(PARALLEL), interval(...):
        v = 0.25 * (u[1, 0, 0] + u[-2, 0, 0] + u[0, 1, 0] + u[0, -1, 0]) if m else u
"""


class Counted(HostLocking):
    """Counts what is locked; refuses from some call on."""

    def __init__(self) -> None:
        self.refuses: int | None = None
        self.calls = self.writes = self.now = 0
        self._lock = threading.Lock()

    def lock(self, address: int, size: int, *, writes: bool) -> None:
        with self._lock:
            self.calls += 1
            if self.refuses is not None and self.calls > self.refuses:
                raise LockError("no more")
            self.writes += writes
            self.now += 1

    def unlock(self, address: int) -> None:
        with self._lock:
            self.now -= 1


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Generator[Counted]:
    """Let pipelines of the host lend, with small pages."""
    found = Counted()

    def locking(_queues: HostQueues) -> Counted:
        return found

    monkeypatch.setattr(HostQueues, "locking", locking)
    monkeypatch.setattr(zero_copy, "_SMALL", 1)
    monkeypatch.setattr(pages, "_PAGE", 64)
    yield found
    assert found.now == 0


def made(*order: str) -> xr.Dataset:
    """Return a field and a mask, which is a part of an array whose rows are longer."""
    sizes = {"time": 2, "z": 3, "y": 23, "x": 10}
    values = np.random.default_rng(1).normal(size=[sizes[dim] for dim in order]).astype("float32")
    data = xr.Dataset({"u": (order, values)})
    data["m"] = (("y", "x"), (np.random.default_rng(1).random((23, 14)) > 0.4)[:, 1:11])
    return data


def starred(data: xr.Dataset, slots: int, **arguments: Any) -> tuple[bytes, Finished]:
    """Run three passes, of two steps each but the last one; what is in between is in memory."""
    events: list[Event] = []
    how: dict[str, Any] = {"steps": 5, "feedback": {"v": "u"}, "target": "reference"}
    how |= {"boundary": {"x": "periodic", "y": "periodic"}, "chunks": {"y": 7}}
    how |= {"axes": {"I": "x", "J": "y", "K": "z"}}
    how |= {"options": Options(pipeline_depth=slots, steps_per_pass=2)}
    got = run(STAR, data, on_event=events.append, **{**how, **arguments})
    finished = events[-1]
    assert isinstance(finished, Finished)
    return got["v"].values.tobytes(), finished


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("order", [("z", "x", "time", "y"), ("time", "z", "y", "x")])
def test_arrays_are_sent_from_and_fetched_to_where_they_lie(
    order: tuple[str, ...], slots: int, counted: Counted
) -> None:
    """Arrays in an order in which rows lie together, and in one in which they do not."""
    data = made(*order)
    before = data.copy(deep=True)
    expected, plain = starred(data, 0)
    got, finished = starred(data, slots)
    assert got == expected
    assert plain.bytes_zero_copy == 0
    if order[-1] == "x":
        assert finished.bytes_zero_copy == finished.bytes_read + finished.bytes_written
    else:
        # Only the mask is.
        assert 0 < finished.bytes_zero_copy < data["u"].nbytes
    assert (counted.writes > 0) == (order[-1] == "x")
    assert data.identical(before)


@pytest.mark.parametrize("lasts", [0, 1, 2, 5])
def test_where_locking_is_refused_values_go_through_buffers(lasts: int, counted: Counted) -> None:
    data = made("time", "z", "y", "x")
    expected, _ = starred(data, 0)
    counted.refuses = lasts
    got, finished = starred(data, 3)
    assert got == expected
    assert counted.calls == lasts + 1
    assert (finished.bytes_zero_copy > 0) == (lasts > 1)
    assert finished.bytes_zero_copy < finished.bytes_read


@pytest.mark.parametrize("fails", ["send", "fetch"])
def test_what_fails_leaves_nothing_locked(
    fails: str, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [0]
    plain = getattr(HostQueues, fails)

    def failing(self: HostQueues, one: HostArray, other: HostArray) -> None:
        calls[0] += 1
        if calls[0] == 15:
            raise ValueError("The copy failed.")
        plain(self, one, other)

    monkeypatch.setattr(HostQueues, fails, failing)
    with pytest.raises(ValueError, match=r"^The copy failed\.$"):
        starred(made("time", "z", "y", "x"), 3)
    assert counted.calls > 0
    assert counted.now == 0


def test_a_run_that_is_cancelled_leaves_nothing_locked(counted: Counted) -> None:
    with pytest.raises(CancelledError):
        starred(made("time", "z", "y", "x"), 3, cancelled=lambda: counted.calls > 3)
    assert counted.calls > 3
    assert counted.now == 0


def test_no_part_goes_beyond_a_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is cut, parts make up the box, and each lies between two cuts."""
    monkeypatch.setattr(zero_copy, "_SMALL", 1)
    chance = random.Random(4)
    grid = Grid(("x", "y", "z"), (7, 6, 5), (), ())
    use = FieldUse("u", "u", tuple(Axis), "float32", ("z", "y", "x"), Role.INPUT)
    for _ in range(60):
        whole = np.random.default_rng(chance.randrange(99)).random((5, 7, 9), np.float32)
        values = whole[:, 1:, 2:]
        low, high = byte_bounds(whole)
        cuts = sorted(4 * chance.randrange(low // 4, high // 4) for _ in range(chance.randrange(6)))
        box: Box = (Span(-2, 6), Span(1, 1 + chance.randrange(1, 6)), Span(chance.randrange(4), 5))

        class Cutting(pages.Pages):
            def lock(self, values: Any, *, writes: bool = False) -> tuple[int, ...]:
                return tuple(cuts)  # noqa: B023 - used before the next round

        pin = zero_copy.pin_parts(values, use, grid, Cutting(HostLocking()), writes=False)
        pinned = pin(Block(0, box, ()), box)
        i, j, k = (span.size for span in box)
        got = np.full((i, j, k), np.nan, np.float32)
        for part in pinned or ():
            first, last = byte_bounds(part.values)
            assert not any(first < cut < last for cut in cuts)
            assert np.isnan(got[part.there]).all()
            got[part.there] = part.values
        columns = np.arange(-2, 6) % 7
        expected = values.T[columns, box[1].start : box[1].stop, box[2].start :]
        assert (got.tobytes() == expected.astype(np.float32).tobytes("C")) or pinned is None
        assert pinned is not None
