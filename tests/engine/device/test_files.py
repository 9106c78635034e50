"""What goes to kvikio and comes back, on a stand-in with threads and memory of this process."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock, patch

import numpy as np
import pytest

from halocline_engine.device.io import files
from halocline_engine.device.io.files import KvikioFiles, Span


@dataclass
class Answer:
    """What kvikio returns at once: `get` waits, and nothing ends before it is called."""

    future: Future[int]
    asked: threading.Event

    def get(self) -> int:
        self.asked.set()
        return self.future.result()


class Kvikio:
    """Copies in threads; what `fails` says of a call is raised in the words of kvikio."""

    def __init__(self, fails: Callable[[int], str | None] = lambda _: None, short: int = 0) -> None:
        self.defaults = MagicMock()
        self.threads = ThreadPoolExecutor(8)
        self.most = self.calls = self.open = 0
        self._now = 0
        self._fails, self._short = fails, short
        self._lock = threading.Lock()

    @contextmanager
    def CuFile(self, path: Path, flags: str) -> Generator[Any]:
        file = os.open(path, os.O_RDWR if flags == "r+" else os.O_RDONLY)
        self.open += 1

        def pread(into: Any, size: int, offset: int, task: int) -> Answer:
            assert task == size == into.nbytes
            return self._later(lambda: os.preadv(file, [into.data], offset))

        def pwrite(values: Any, size: int, offset: int, task: int) -> Answer:
            assert task == size == values.nbytes
            return self._later(lambda: os.pwrite(file, values[: size - self._short].data, offset))

        try:
            yield SimpleNamespace(pread=pread, pwrite=pwrite)
        finally:
            self.open -= 1
            os.close(file)

    def _later(self, copy: Callable[[], int]) -> Answer:
        with self._lock:
            number = self.calls
            self.calls += 1
            self._now += 1
            self.most = max(self.most, self._now)

        asked = threading.Event()

        def work() -> int:
            assert asked.wait(20)
            with self._lock:
                self._now -= 1
            said = self._fails(number)
            if said:
                raise RuntimeError(said)
            return copy()

        return Answer(self.threads.submit(work), asked)


@pytest.fixture(autouse=True)
def _device() -> Iterator[None]:
    runtime = SimpleNamespace(getDevice=lambda: 3, setDevice=Mock())
    with patch.object(
        files, "cupy", return_value=SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    ):
        yield


def files_of(kvikio: Any, reading: int, writing: int) -> KvikioFiles:
    return KvikioFiles(kvikio, reading, writing)


def test_bytes_go_to_files_of_their_size_and_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces of several files at a time, as many as there are turns."""
    monkeypatch.setattr(files, "_PIECE", 7)
    kvikio = Kvikio()
    device = files_of(kvikio, 3, 2)
    chosen = kvikio.defaults.set.call_args.args[0]
    assert chosen["num_threads"] == 5
    values = np.arange(100, dtype=np.uint8)
    paths = [tmp_path / str(n) for n in range(4)]
    device.write([Span(path, 4, values[20 * n :][:10]) for n, path in enumerate(paths)], 20)
    assert [path.read_bytes()[4:14] for path in paths] == [
        values[20 * n :][:10].tobytes() for n in range(4)
    ]
    assert all(path.read_bytes()[:4] + path.read_bytes()[14:] == bytes(10) for path in paths)
    assert (kvikio.most, kvikio.calls, kvikio.open) == (2, 4, 0)
    into = np.zeros(48, np.uint8)
    assert device.read([Span(path, 4, into[12 * n :][:12]) for n, path in enumerate(paths)])
    assert into.reshape(4, 12)[:, :10].tolist() == values[:80].reshape(4, 20)[:, :10].tolist()
    assert (kvikio.most, kvikio.calls, kvikio.open) == (3, 12, 0)
    device.close()
    kvikio.defaults.set.return_value.__exit__.assert_called_once()


def test_several_callers_share_the_turns(tmp_path: Path) -> None:
    kvikio = Kvikio()
    device = files_of(kvikio, 1, 4)
    values = np.arange(200, dtype=np.uint8)

    def store(caller: int) -> None:
        spans = [Span(tmp_path / f"{caller}.{n}", 0, values[n : n + 50]) for n in range(9)]
        device.write(spans, 50)

    with ThreadPoolExecutor(3) as callers:
        list(callers.map(store, range(3)))
    assert kvikio.most <= 4
    for caller in range(3):
        for n in range(9):
            assert (tmp_path / f"{caller}.{n}").read_bytes() == values[n : n + 50].tobytes()


def test_what_is_not_there_or_too_short_or_broken_is_not_read(tmp_path: Path) -> None:
    path, into = tmp_path / "chunk", np.zeros(6, np.uint8)
    assert not files_of(Kvikio(), 2, 2).read([Span(path, 0, into)])
    path.write_bytes(bytes(8))
    assert files_of(Kvikio(), 2, 2).read([Span(path, 2, into)])
    assert not files_of(Kvikio(), 2, 2).read([Span(path, 0, into), Span(path, 3, into)])
    broken = Kvikio(lambda number: "POSIX error on pread: EOF" if number == 1 else None)
    assert not files_of(broken, 2, 2).read([Span(path, 0, into)] * 5)
    # What was under way has ended, and everything can be had again.
    assert (broken.open, broken.calls) == (0, 3)
    assert files_of(broken, 2, 2).read([Span(path, 0, into)] * 5)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_what_a_disk_says_is_said(tmp_path: Path, code: int) -> None:
    said = f"KvikIO failure at: a.hpp:1: POSIX error on pwrite: {os.strerror(code)}"
    kvikio = Kvikio(lambda number: said if number in (2, 3) else None)
    device, values = files_of(kvikio, 2, 3), np.zeros(6, np.uint8)
    spans = [Span(tmp_path / str(n), 0, values) for n in range(9)]
    with pytest.raises(OSError, match="POSIX error on pwrite") as caught:
        device.write(spans, 6)
    assert caught.value.errno == code
    assert kvikio.open == 0
    device.write(spans, 6)
    assert kvikio.most <= 3


def test_bytes_that_are_left_over_are_an_error(tmp_path: Path) -> None:
    device = files_of(Kvikio(short=1), 1, 1)
    with pytest.raises(OSError, match="only 5 of 6 bytes were copied"):
        device.write([Span(tmp_path / "chunk", 0, np.zeros(6, np.uint8))], 6)


def test_a_folder_that_is_not_there_is_the_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files_of(Kvikio(), 1, 1).write([Span(tmp_path / "no" / "chunk", 0, np.zeros(6))], 6)
