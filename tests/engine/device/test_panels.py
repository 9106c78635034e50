"""Products through device memory, on queues that run as late, or as oddly, as a device may."""

from __future__ import annotations

import ctypes
import errno
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr
from fake_cupy import FakeArray, FakePinned, FakePointer

import halocline_engine as he
from halocline_engine.device import panels
from halocline_engine.device.io import copy_threads
from halocline_engine.device.launch.calls import calls_with
from halocline_engine.device.memory.zero_copy import PinnedRows
from halocline_engine.distribute.executors import select
from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.products import job
from halocline_engine.distribute.products import rows as matmul_rows
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.errors import CapacityError, DeviceError, OutputError
from halocline_engine.kernels.matmul.problem import CutSizes


@dataclass
class Queue:
    """Work in order; an entry is a function, or an event that must have happened."""

    device: Queues
    waiting: list[Callable[[], None] | Mark] = field(default_factory=list[Any])
    added: int = 0
    done: int = 0
    ptr: int = 0

    def add(self, entry: Callable[[], None] | Mark) -> None:
        with self.device.lock:
            self.waiting.append(entry)
            self.added += 1
            self.device.go_on()

    def wait_event(self, event: Event) -> None:
        self.add(Mark(event.queue, event.place))

    def step(self) -> bool:
        """Do the first entry, unless it waits for another queue."""
        if not self.waiting:
            return False
        first = self.waiting[0]
        if isinstance(first, Mark):
            if not first.passed:
                return False
        else:
            first()
        self.waiting.pop(0)
        self.done += 1
        return True

    def run_to(self, place: int) -> None:
        """Do what is before a place, and whatever that waits for, but nothing else."""
        while self.done < place:
            first = self.waiting[0]
            if isinstance(first, Mark) and first.queue is not None:
                first.queue.run_to(first.place)
            assert self.step()

    def synchronize(self) -> None:
        with self.device.lock:
            self.run_to(self.added)

    def __enter__(self) -> Queue:
        self.device.current.append(self)
        return self

    def __exit__(self, *details: object) -> None:
        self.device.current.pop()


@dataclass(frozen=True)
class Mark:
    queue: Queue | None
    place: int

    @property
    def passed(self) -> bool:
        return self.queue is None or self.queue.done >= self.place


@dataclass
class Event:
    device: Queues
    queue: Queue | None = None
    place: int = 0
    number: int = 0

    @property
    def ptr(self) -> int:
        return self.number

    def record(self, queue: Queue) -> None:
        with self.device.lock:
            self.queue, self.place = queue, queue.added

    def synchronize(self) -> None:
        with self.device.lock:
            if self.queue is not None:
                self.queue.run_to(self.place)


class Queues:
    """What stands for CuPy; `eager` is how likely a queue goes on whenever something is added."""

    def __init__(self, eager: float) -> None:
        self.lock = threading.RLock()
        self.current: list[Queue] = []
        self.all: list[Queue] = []
        self.events: list[Event] = []
        self.refused = 0
        self.reserved = 0
        self._eager, self._random = eager, random.Random(3)
        runtime = SimpleNamespace(
            memcpyHostToDevice=1,
            memcpyDeviceToHost=2,
            getDevice=lambda: 0,
            setDevice=lambda _device: None,  # pyright: ignore[reportUnknownLambdaType] # of CuPy
            memcpy2DAsync=self._copy,
            memsetAsync=self._set,
        )
        self.cuda = SimpleNamespace(
            runtime=runtime, Stream=self._stream, Event=self._event, alloc_pinned_memory=_pinned
        )

    def go_on(self) -> None:
        while self._random.random() < self._eager:
            self._random.choice(self.all).step()

    def reserve(self, size: int) -> FakePointer:
        self.reserved += size
        return FakePointer(np.full(size, 0xFF, np.uint8))

    def ndarray(self, shape: Any, dtype: Any, memptr: FakePointer, strides: Any) -> FakeArray:
        return FakeArray(np.ndarray(shape, dtype, memptr.owner.data, memptr.offset, strides))

    def gemm(
        self, transa: str, transb: str, a: Any, b: Any, out: Any, alpha: float, beta: float
    ) -> None:
        left, right = (
            one.array.T if turn == "T" else one.array for one, turn in ((a, transa), (b, transb))
        )
        assert alpha == 1.0

        def work() -> None:
            product = left @ right
            out.array[...] = product if beta == 0.0 else product + out.array

        self.current[-1].add(work)

    def _stream(self, *, non_blocking: bool) -> Queue:
        assert non_blocking
        self.all.append(Queue(self, ptr=len(self.all)))
        return self.all[-1]

    def _event(self, *, disable_timing: bool, block: bool = False) -> Event:
        assert disable_timing
        self.events.append(Event(self, number=len(self.events)))
        return self.events[-1]

    def _copy(
        self, to: int, tp: int, of: int, fp: int, width: int, rows: int, kind: int, stream: int
    ) -> None:
        assert kind in (1, 2)

        def move() -> None:
            for row in range(rows):
                ctypes.memmove(to + row * tp, of + row * fp, width)

        self.all[stream].add(move)

    def driver(self) -> list[Any]:
        """Return what stands for three functions of the driver, to be called from C."""
        whole = ctypes.c_int64
        kinds = (ctypes.POINTER(whole), whole), (whole, whole), (whole,)
        works = self._move, self._record, self._wait
        return [
            ctypes.CFUNCTYPE(ctypes.c_int, *kind)(work)
            for kind, work in zip(kinds, works, strict=True)
        ]

    def _move(self, numbers: Any, stream: int) -> int:
        if self.refused:
            return self.refused
        one = list(numbers[:16])
        kind = 1 if one[2] == 1 else 2
        assert (one[2], one[9]) == ((1, 2) if kind == 1 else (2, 1))
        there, here = (one[10 if one[9] == 1 else 11], one[3 if one[2] == 1 else 4])
        self._copy(there, one[13], here, one[6], one[14], one[15], kind, stream)
        return 0

    def _record(self, event: int, stream: int) -> int:
        self.events[event].record(self.all[stream])
        return 0

    def _wait(self, event: int) -> int:
        self.events[event].synchronize()
        return 0

    def _set(self, pointer: int, value: int, size: int, stream: int) -> None:
        self.all[stream].add(lambda: cast("None", ctypes.memset(pointer, value, size)))


def _pinned(size: int) -> FakePinned:
    return np.full(size, 0xFF, np.uint8).view(FakePinned)


class DevicePool(LocalPool):
    def device_memory(self, target: str) -> int | None:
        return self.options.granted_on_device(10**9 if target == "cuda" else None)


@pytest.fixture(params=[0.0, 0.4, 0.8])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queues]:
    queues = Queues(request.param)
    monkeypatch.setattr(panels, "cupy", lambda: queues)
    monkeypatch.setattr(panels, "cublas", lambda: queues)
    monkeypatch.setattr(panels, "reserve", queues.reserve)
    monkeypatch.setattr(select, "LocalPool", DevicePool)
    monkeypatch.setattr("halocline_engine.functions.execution.resolve", str)
    monkeypatch.setattr(job, "CUTS", {"cuda": CutSizes(outer=16, inner=8, unit=4)})
    yield queues
    assert all(not queue.waiting for queue in queues.all)


@dataclass
class Lending:
    """Loops that copy on some queues, through buffers of a few rows, with `calls`."""

    device: Queues
    calls: Any


@pytest.fixture
def lent(device: Queues, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lending]:
    driver = device.driver()
    calls = calls_with(driver)

    def a_crew(threads: int, *, out: bool) -> copy_threads.CopyThreads:
        return copy_threads.CopyThreads(2, calls, 200, out=out, name=f"{threads} threads")

    monkeypatch.setattr(copy_threads, "cupy", lambda: device)
    monkeypatch.setattr(copy_threads, "_ROOM", 3)
    monkeypatch.setattr(panels, "_copy_threads", a_crew)
    monkeypatch.setattr(job, "_LARGE", 0)
    monkeypatch.setattr(matmul_rows, "_SHORT", 1)
    yield Lending(device, calls)
    assert driver


def drawn() -> xr.Dataset:
    rng = np.random.default_rng(8)
    shapes = {
        "a": ("m", "k"),
        "b": ("k", "n"),
        "u": ("k", "m"),
        "v": ("t", "m", "k"),
        "w": ("t", "k"),
    }
    sizes = {"m": 50, "k": 37, "n": 45, "t": 3}
    return xr.Dataset(
        {name: (dims, rng.normal(size=[sizes[d] for d in dims])) for name, dims in shapes.items()}
    )


def multiplied(dataset: xr.Dataset | Path, left: str, right: str, **options: Any) -> Any:
    found = he.matmul(dataset, left=left, right=right, dim="k", target="cuda", **options)
    return found["product"].values


@pytest.mark.parametrize("names", ["ab", "ub", "vb", "vw"])
def test_copies_and_products_wait_for_each_other(names: str, device: Queues) -> None:
    dataset = drawn()
    left, right = names
    wanted = cast("Any", xr).dot(dataset[left], dataset[right], dim="k").values
    for memory in (30_000, 60_000, 10**8):
        device.reserved = 0
        granted = Options(device_memory_limit=memory)
        found = multiplied(dataset, left, right, options=granted)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
        assert device.reserved <= memory


def test_memory_and_stores_change_no_bit(device: Queues, tmp_path: Path) -> None:
    dataset = drawn()[["a", "b"]]
    whole = multiplied(dataset, "a", "b")
    encoding = {name: {"chunks": (12, 10), "compressors": ()} for name in "ab"}
    cast("Any", dataset).to_zarr(tmp_path / "in", encoding=encoding, consolidated=False)
    for number, memory in enumerate((12_300, 30_000, 10**8)):
        out = tmp_path / f"out{number}"
        granted = Options(device_memory_limit=memory)
        found = multiplied(tmp_path / "in", "a", "b", output=out, options=granted)
        np.testing.assert_array_equal(found, whole)


@pytest.mark.parametrize(
    ("names", "device"), [("ab", 0.0), ("ub", 0.4), ("vb", 0.8)], indirect=["device"]
)
def test_loops_give_the_same_bits(names: str, lent: Lending, tmp_path: Path) -> None:
    dataset = drawn()[list(names)]
    left, right = names
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(job, "_LARGE", 1 << 40)
        wanted = multiplied(dataset, left, right)
    np.testing.assert_array_equal(multiplied(dataset, left, right), wanted)
    sizes = {"m": 12, "k": 10, "n": 11, "t": 2}
    encoding = {
        name: {"chunks": [sizes[str(d)] for d in dataset[name].dims], "compressors": ()}
        for name in names
    }
    cast("Any", dataset).to_zarr(tmp_path / "in", encoding=encoding, consolidated=False)
    out = tmp_path / "out"
    granted = Options(device_memory_limit=30_000)
    found = multiplied(tmp_path / "in", left, right, output=out, options=granted)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("device", [0.0, 0.8], indirect=True)
def test_threads_end_by_themselves_when_nothing_more_is_to_be_copied(
    lent: Lending, monkeypatch: pytest.MonkeyPatch
) -> None:
    crews: list[copy_threads.CopyThreads] = []
    closed = copy_threads.CopyThreads.close

    def close(one: copy_threads.CopyThreads) -> None:
        for thread in one.threads:
            thread.join(10)
        crews.append(one)
        assert not any(thread.is_alive() for thread in one.threads)
        closed(one)

    monkeypatch.setattr(copy_threads.CopyThreads, "close", close)
    dataset = drawn()[["a", "b"]]
    wanted = cast("Any", xr).dot(dataset["a"], dataset["b"], dim="k").values
    found = multiplied(dataset, "a", "b", options=Options(device_memory_limit=30_000))
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    assert len(crews) == 2
    assert lent.calls is not None


@pytest.mark.parametrize("device", [0.0], indirect=True)
def test_threads_end_when_the_device_has_read_what_they_sent(device: Queues, lent: Lending) -> None:
    """Their buffers go with them, and others may have that memory then."""
    values, got = np.arange(90.0), np.zeros(90)
    rows = PinnedRows(1, values.nbytes, values.ctypes.data, values.nbytes, keeps=values)
    stream = device.cuda.Stream(non_blocking=True)
    senders = copy_threads.CopyThreads(2, lent.calls, 200, out=False, name="sends")
    batch = senders.put([(rows, got.ctypes.data, got.nbytes)], stream, cast("Any", Event(device)))
    senders.finish()
    for thread in senders.threads:
        thread.join(10)
        assert not thread.is_alive()
    assert batch.result(1) == values.nbytes
    np.testing.assert_array_equal(got, values)
    assert not stream.waiting


@pytest.mark.usefixtures("lent")
@pytest.mark.parametrize("device", [0.0, 0.8], indirect=True)
def test_the_last_row_is_done_tile_by_tile_where_the_products_places_hold_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dataset, made = drawn()[["a", "b"]], list[int]()
    split = panels.DeviceWorkspace.split

    def counted(workspace: panels.DeviceWorkspace, total: Any, elements: int) -> list[Any]:
        made.append(elements)
        return split(workspace, total, elements)

    monkeypatch.setattr(panels.DeviceWorkspace, "split", counted)
    wanted = multiplied(dataset, "a", "b")
    assert not made
    # There are places for four of the five tiles of a row of left.
    found = multiplied(dataset, "a", "b", options=Options(device_memory_limit=38_200))
    np.testing.assert_array_equal(found, wanted)
    assert made == [16 * 8]


def in_chunks(dataset: xr.Dataset, path: Path) -> Path:
    encoding = {name: {"chunks": (12, 10), "compressors": ()} for name in "ab"}
    cast("Any", dataset).to_zarr(path, encoding=encoding, consolidated=False)
    return path


@pytest.mark.usefixtures("lent")
@pytest.mark.parametrize("device", [0.4], indirect=True)
def test_chunks_that_are_not_there_are_read_another_way(tmp_path: Path) -> None:
    dataset = drawn()[["a", "b"]]
    store = in_chunks(dataset, tmp_path / "in")
    (store / "a" / "c" / "1" / "2").unlink()
    holed = dataset.a.values.copy()
    holed[12:24, 20:30] = np.nan
    wanted = multiplied(dataset.assign(a=(("m", "k"), holed)), "a", "b")
    found = multiplied(store, "a", "b")
    np.testing.assert_array_equal(found, wanted)
    assert np.isnan(found[12:24]).all()
    assert np.isfinite(found[24:]).all()


@pytest.mark.parametrize("device", [0.4], indirect=True)
def test_what_a_driver_refuses_is_told(lent: Lending) -> None:
    lent.device.refused = 700
    with pytest.raises(DeviceError, match=r"refused a copy of \d+ bytes, error 700\."):
        multiplied(drawn(), "a", "b")


@pytest.mark.parametrize("device", [0.4], indirect=True)
def test_a_system_is_asked_again_or_tells_that_the_disk_is_full(
    lent: Lending, tmp_path: Path
) -> None:
    store = in_chunks(drawn()[["a", "b"]], tmp_path / "in")
    wanted = multiplied(drawn(), "a", "b")
    tells, write = [errno.EINTR, 0, errno.ENOSPC], ctypes.CDLL(None).pwrite

    def pwrite(file: int, buffer: int, size: int, offset: int) -> int:
        number = tells.pop(0) if tells else 0
        if not number:
            return int(write(file, ctypes.c_void_p(buffer), ctypes.c_size_t(size), offset))
        place = ctypes.CDLL(None)["__errno_location"]
        place.restype = ctypes.POINTER(ctypes.c_int)
        place()[0] = number
        return -1

    whole = ctypes.c_int64
    asked = ctypes.CFUNCTYPE(whole, ctypes.c_int, whole, whole, whole)(pwrite)
    lent.calls[4] = cast("int", ctypes.cast(asked, ctypes.c_void_p).value)
    with pytest.raises(OutputError, match=r"/product' stopped because the disk is full\."):
        multiplied(store, "a", "b", output=tmp_path / "full")
    assert not (tmp_path / "full").exists()
    tells[:] = [errno.EINTR] * 3
    np.testing.assert_array_equal(multiplied(store, "a", "b", output=tmp_path / "out"), wanted)
    assert not tells


def test_less_than_a_tile_of_each_is_refused(device: Queues) -> None:
    with pytest.raises(CapacityError, match="bytes of device memory, but 5000 are free for it"):
        multiplied(drawn(), "a", "b", options=Options(device_memory_limit=5000))
    # The result of this process takes its part.
    held = 50 * 45 * 8
    with pytest.raises(CapacityError, match="need 24576 bytes of memory, but 100 are free"):
        multiplied(drawn(), "a", "b", options=Options(memory_limit=held + 100))


def test_an_empty_sum_is_zero(device: Queues) -> None:
    dataset = drawn().isel(k=slice(0))
    np.testing.assert_array_equal(multiplied(dataset, "a", "b"), np.zeros((50, 45)))
