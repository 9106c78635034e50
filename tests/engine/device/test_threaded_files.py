"""Files that threads of the system copy, where memory of this process is the device."""

from __future__ import annotations

import ctypes
import itertools
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from halocline_engine.device.io import copy_threads, threaded_files
from halocline_engine.device.io.files import Span
from halocline_engine.device.io.threaded_files import ThreadedFiles
from halocline_engine.device.launch.calls import calls_with
from halocline_engine.errors import DeviceError

_LONG = ctypes.c_int64


class Bytes:
    """Bytes [n] of what stands for a device."""

    def __init__(self, values: Any) -> None:
        self.array = values
        self.nbytes = int(values.nbytes)
        self.data = SimpleNamespace(ptr=int(values.__array_interface__["data"][0]))

    def __getitem__(self, part: slice) -> Bytes:
        return Bytes(self.array[part])


class Driver:
    """Copies at once; refuses from the call on that `refuses` says."""

    def __init__(self) -> None:
        self.refuses = 10**9
        self.copied = 0
        self.together: threading.Barrier | None = None
        kinds = [ctypes.CFUNCTYPE(ctypes.c_int, _LONG, _LONG) for _ in range(2)]
        one = ctypes.CFUNCTYPE(ctypes.c_int, _LONG)
        self.log: list[tuple[str, int]] = []
        self.functions = [kinds[0](self._copy), kinds[1](self._record), one(self._wait)]

    def _record(self, event: int, _stream: int) -> int:
        self.log.append(("record", event))
        return 0

    def _wait(self, event: int) -> int:
        self.log.append(("wait", event))
        return 0

    def _copy(self, place: int, _stream: int) -> int:
        numbers = (_LONG * 16).from_address(place)
        if self.together is not None:
            self.together.wait(10)
        self.copied += 1
        self.log.append(
            ("fetch" if numbers[2] == 2 else "send", numbers[10 if numbers[9] == 1 else 3])
        )
        if self.copied > self.refuses:
            return 700
        there = numbers[10] if numbers[9] == 1 else numbers[11]
        here = numbers[3] if numbers[2] == 1 else numbers[4]
        assert numbers[15] == 1
        ctypes.memmove(there, here, numbers[14])
        return 0


def pinned(size: int) -> Any:
    values = np.zeros(size, np.uint8)
    return SimpleNamespace(ptr=int(values.__array_interface__["data"][0]), values=values)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    found = Driver()
    numbers = itertools.count(1)

    def event(**_options: bool) -> Any:
        return SimpleNamespace(ptr=next(numbers), synchronize=Mock())

    cuda = SimpleNamespace(
        runtime=SimpleNamespace(getDevice=lambda: 0, setDevice=Mock()),
        Event=event,
        Stream=Mock(return_value=SimpleNamespace(ptr=5)),
        alloc_pinned_memory=pinned,
    )
    for module in (copy_threads, threaded_files):
        monkeypatch.setattr(module, "cupy", Mock(return_value=SimpleNamespace(cuda=cuda)))
    calls = Mock(return_value=calls_with(found.functions))
    monkeypatch.setattr(threaded_files, "system_calls", calls)
    monkeypatch.setattr(threaded_files, "_PIECE", 70_000)
    return found


def test_bytes_go_to_files_of_their_size_and_back(driver: Driver, tmp_path: Path) -> None:
    device = ThreadedFiles(2, 3)
    values = np.random.default_rng(1).integers(0, 255, 900_000, np.uint8)
    paths = [tmp_path / str(n) for n in range(4)]
    places = [slice(200_000 * n, 200_000 * n + 100_001) for n in range(4)]
    device.write(
        [Span(path, 4, Bytes(values[at])) for path, at in zip(paths, places, strict=True)], 100_020
    )
    for path, at in zip(paths, places, strict=True):
        assert path.read_bytes() == bytes(4) + values[at].tobytes() + bytes(15)
    into = np.zeros(400_004, np.uint8)
    spans = [Span(path, 4, Bytes(into[100_001 * n :][:100_001])) for n, path in enumerate(paths)]
    assert device.read(spans)
    assert into.tobytes() == b"".join(values[at].tobytes() for at in places)
    assert device.read([])
    device.write([], 10)
    device.close()


def test_threads_that_have_nothing_to_do_help_the_others(driver: Driver, tmp_path: Path) -> None:
    """Each copy waits for another one that is made at the same time: one way has one thread."""
    device, values = ThreadedFiles(1, 1), np.arange(4, dtype=np.uint8)
    driver.together = threading.Barrier(2)
    paths = [tmp_path / str(n) for n in range(4)]
    ends = [slice(n, n + 1) for n in range(4)]
    device.write([Span(p, 0, Bytes(values[at])) for p, at in zip(paths, ends, strict=True)], 1)
    into = np.zeros(4, np.uint8)
    assert device.read([Span(p, 0, Bytes(into[at])) for p, at in zip(paths, ends, strict=True)])
    assert into.tolist() == values.tolist()
    device.close()


def test_a_buffer_is_filled_by_the_device_when_what_it_sent_is_sent(
    driver: Driver, tmp_path: Path
) -> None:
    """Whoever helps uses the same buffers both ways."""
    device, values = ThreadedFiles(1, 1), np.arange(8, dtype=np.uint8)
    driver.together = threading.Barrier(2)
    paths = [tmp_path / str(n) for n in range(2)]
    for path in paths:
        path.write_bytes(bytes(4))
    assert device.read([Span(p, 0, Bytes(values[:4])) for p in paths])
    device.write([Span(p, 0, Bytes(values[4:])) for p in paths], 4)
    device.close()
    sent = {buffer for what, buffer in driver.log if what == "send"}
    fetched = [at for at, (what, _) in enumerate(driver.log) if what == "fetch"]
    assert sent == {driver.log[at][1] for at in fetched}
    before = driver.log[: fetched[0]]
    # Events of buffers are those that are waited for before they are recorded.
    marks = {n: at for at, (what, n) in enumerate(before) if what == "record"}
    rings = [n for n, at in marks.items() if ("wait", n) in before[:at]]
    assert len(rings) == len(sent) == 2
    assert all(("wait", n) in before[marks[n] :] for n in rings)


def test_what_is_not_there_or_too_short_is_not_read(driver: Driver, tmp_path: Path) -> None:
    device, path, into = ThreadedFiles(2, 2), tmp_path / "chunk", Bytes(np.zeros(6, np.uint8))
    assert not device.read([Span(path, 0, into)])
    path.write_bytes(bytes(8))
    assert device.read([Span(path, 2, into)])
    assert not device.read([Span(path, 0, into), Span(path, 3, into)])
    assert not device.read([Span(tmp_path, 0, into)])
    assert device.read([Span(path, 0, into)])
    device.close()


def test_what_the_system_says_is_said(driver: Driver, tmp_path: Path) -> None:
    device, values = ThreadedFiles(1, 2), Bytes(np.zeros(6, np.uint8))
    with pytest.raises(FileNotFoundError, match="chunk"):
        device.write([Span(tmp_path / "no" / "chunk", 0, values)], 6)
    if Path("/dev/full").exists():
        with pytest.raises(OSError, match=r"No space left|Invalid argument"):
            device.write([Span(Path("/dev/full"), 0, values)], 0)
    device.write([Span(tmp_path / "chunk", 0, values)], 6)
    device.close()


def test_what_the_driver_refuses_is_an_error_of_the_device(driver: Driver, tmp_path: Path) -> None:
    device, path = ThreadedFiles(2, 2), tmp_path / "chunk"
    path.write_bytes(bytes(300_000))
    values = Bytes(np.zeros(300_000, np.uint8))
    driver.refuses = 1
    with pytest.raises(DeviceError, match=r"^The driver refused a copy of \d+ bytes, error 700\."):
        device.read([Span(path, 0, values)])
    with pytest.raises(DeviceError, match=r"^The driver refused a copy of \d+ bytes, error 700\."):
        device.write([Span(path, 0, values)], 300_000)
    device.close()
