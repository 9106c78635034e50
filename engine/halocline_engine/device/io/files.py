"""Files that are read into memory of a device, and written from there, by kvikio or `copy_threads`.

kvikio goes from file to device without a stop in memory of the host, where the system has GPUDirect
storage and kvikio is installed. Elsewhere it would copy through small buffers as copy threads do,
but all its threads share one queue, and the caller waits for the interpreter between pieces.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

from halocline_engine.device.cupy_types import cupy

__all__ = ["Files", "KvikioFiles", "Span", "kvikio_files", "parts_of"]

#: Bytes of a page-locked buffer that a thread copies through, and of what it reads at a time.
_BUFFER = 4 << 20
_PIECE = 8 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """Bytes of a file from `offset` on, and the bytes [n] of the device that belong there."""

    path: str | Path
    offset: int
    values: Any


class Files(Protocol):
    """What copies between files and memory that a device computes in; any thread may use it."""

    def read(self, spans: Sequence[Span]) -> bool:
        """Fill bytes of the device; False where a file is not there, or ends before.

        When this returns, nothing is under way any more.
        """
        ...

    def write(self, spans: Sequence[Span], size: int) -> None:
        """Store bytes of the device in files that have `size` bytes, zeros where none were.

        Raises `OSError`; folders above the files are there. When this returns, or raises, nothing
        is under way any more.
        """
        ...

    def close(self) -> None:
        """End the use of these files, of which none is open any more."""
        ...


class _Future(Protocol):
    def get(self) -> int: ...


#: Asks for bytes: (memory, size, offset in the file, bytes of a task).
_Ask: TypeAlias = Callable[[Any, int, int, int], _Future]


class _File(Protocol):
    @property
    def pread(self) -> _Ask: ...

    @property
    def pwrite(self) -> _Ask: ...


class _Defaults(Protocol):
    def is_compat_mode_preferred(self) -> bool: ...

    def set(self, config: dict[str, int], /) -> AbstractContextManager[None]: ...


class _Kvikio(Protocol):
    """What is used of kvikio, which has no type information."""

    defaults: _Defaults

    def CuFile(self, file: str | Path, flags: str) -> AbstractContextManager[_File]: ...


def kvikio_files(reading: int, writing: int, *, direct: bool = True) -> KvikioFiles | None:
    """Return kvikio for the current device; None where it is not installed.

    So many of its threads read, and so many write, at a time. With `direct`, None also where it
    would go through memory of the host.
    """
    try:
        import_module("kvikio.defaults")
        kvikio = cast("_Kvikio", import_module("kvikio"))
    except (ImportError, OSError):
        return None
    if direct and kvikio.defaults.is_compat_mode_preferred():
        return None
    return KvikioFiles(kvikio, reading, writing)


@dataclass(slots=True, eq=False)
class _Open:
    """A file, and how many of its spans are not copied yet."""

    file: AbstractContextManager[_File]
    left: int

    def done(self, count: int = 1) -> None:
        """Close the file after the last span."""
        self.left -= count
        if not self.left:
            self.file.__exit__(None, None, None)


class _Queue:
    """What one caller has under way: beside what others have, no more than there are turns."""

    def __init__(self, turns: threading.Semaphore) -> None:
        self._turns = turns
        self._waits: deque[tuple[_Future, Span, _Open]] = deque()

    def add(self, file: AbstractContextManager[_File], spans: Sequence[Span], flags: str) -> None:
        """Ask for all spans of a file, each when there is a turn."""
        there = file.__enter__()
        ask = there.pread if flags == "r" else there.pwrite
        opened = _Open(file, len(spans))
        for number, span in enumerate(spans):
            try:
                self._take_turn()
                self._ask(ask, span, opened)
            except BaseException:
                opened.done(len(spans) - number)
                raise

    def end(self) -> None:
        """Wait for all; raises the first error of them."""
        errors: list[Exception] = []
        while self._waits:
            try:
                self._next()
            except (OSError, RuntimeError) as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _take_turn(self) -> None:
        # Who has something under way waits for that first, so that someone always goes on.
        while not self._turns.acquire(blocking=not self._waits):
            self._next()

    def _ask(self, ask: _Ask, span: Span, opened: _Open) -> None:
        try:
            size = span.values.nbytes
            self._waits.append((ask(span.values, size, span.offset, size), span, opened))
        except BaseException:
            self._turns.release()
            raise

    def _next(self) -> None:
        future, span, opened = self._waits.popleft()
        try:
            done = future.get()
        finally:
            self._turns.release()
            opened.done()
        if done != span.values.nbytes:
            said = f"only {done} of {span.values.nbytes} bytes were copied"
            raise OSError(errno.EIO, said, str(span.path))


class KvikioFiles:
    """kvikio, for the device that is current where this is made."""

    def __init__(self, kvikio: _Kvikio, reading: int, writing: int) -> None:
        self._kvikio = kvikio
        self._device = cupy().cuda.runtime.getDevice()
        self._reading = threading.Semaphore(reading)
        self._writing = threading.Semaphore(writing)
        # What the next pass reads is in the system's cache, as if any other had written it.
        chosen = {"bounce_buffer_size": _BUFFER, "auto_direct_io_write": False}
        self._chosen = kvikio.defaults.set({**chosen, "num_threads": reading + writing})

    def close(self) -> None:
        """Let kvikio be as it was; see `Files`."""
        self._chosen.__exit__(None, None, None)

    def read(self, spans: Sequence[Span]) -> bool:
        """Fill bytes of the device; see `Files`."""
        if not all(map(_is_there, spans)):
            return False
        try:
            self._copy([part for span in spans for part in parts_of(span)], self._reading, "r")
        except (OSError, RuntimeError):
            # Whoever reads it otherwise tells what is wrong with it.
            return False
        return True

    def write(self, spans: Sequence[Span], size: int) -> None:
        """Store bytes of the device; see `Files`. A file has one thread."""
        for span in spans:
            # Made here, as kvikio has no error of the system for what it cannot open.
            file = os.open(span.path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                os.ftruncate(file, size)
            finally:
                os.close(file)
        try:
            self._copy(spans, self._writing, "r+")
        except RuntimeError as error:
            raise _of_system(error) from error

    def _copy(self, spans: Sequence[Span], turns: threading.Semaphore, flags: str) -> None:
        """Copy spans, those of a file one after the other; nothing is under way at the end."""
        cupy().cuda.runtime.setDevice(self._device)
        queue = _Queue(turns)
        try:
            for path, several in groupby(spans, key=lambda span: span.path):
                queue.add(self._kvikio.CuFile(path, flags), list(several), flags)
        finally:
            queue.end()


def _is_there(span: Span) -> bool:
    try:
        return os.stat(span.path).st_size >= span.offset + span.values.nbytes
    except FileNotFoundError:
        return False


def parts_of(span: Span) -> Iterator[Span]:
    """Yield the parts of a span that threads read at a time."""
    if span.values.nbytes <= _PIECE:
        yield span
        return
    for begin in range(0, span.values.nbytes, _PIECE):
        yield Span(span.path, span.offset + begin, span.values[begin : begin + _PIECE])


def _of_system(error: RuntimeError) -> OSError:
    """Return the error of the system that kvikio has put into words."""
    said = str(error)
    known = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    found = next((code for code in known if os.strerror(code) in said), errno.EIO)
    return OSError(found, said)
