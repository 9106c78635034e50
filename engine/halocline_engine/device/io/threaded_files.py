"""Files that threads of the system read to a device, and write from there: see `copy_threads`.

Values go through small page-locked buffers, which stay in the caches of the cores, and nothing of
Python is needed but to ask. Some threads read first and others write first, so that neither waits
for the other; idle threads steal work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from halocline_engine.device.cupy_types import Event, Stream, cupy
from halocline_engine.device.io.copy_threads import Batch, CopyThreads
from halocline_engine.device.io.files import Span
from halocline_engine.device.launch.calls import system_calls
from halocline_engine.device.memory.zero_copy import PinnedRows

__all__ = ["ThreadedFiles"]

#: Bytes that a thread reads at a time.
_PIECE = 8 << 20

#: Seconds between two looks at whether copies are done, for which a thread waits without Python.
_LOOK = 10.0


class ThreadedFiles:
    """So many threads that read first, and so many that write first: `files.Files`.

    The device is the one that is current where this is made. Raises `DeviceError` where there is no
    driver.
    """

    def __init__(self, reading: int, writing: int) -> None:
        calls = system_calls()
        self._device = cupy().cuda.runtime.getDevice()
        self._sending, self._fetching = (cupy().cuda.Stream(non_blocking=True) for _ in "io")
        self._readers = CopyThreads(reading, calls, out=False, name="halocline-read")
        self._writers = CopyThreads(
            writing, calls, out=True, name="halocline-write", beside=self._readers
        )

    def read(self, spans: Sequence[Span]) -> bool:
        """Fill bytes of the device; see `Files`."""
        parts = [part for span in spans for part in _parts_of(span)]
        if not parts:
            return True
        sent = self._event()
        batch = self._put(self._readers, parts, self._sending, 0, sent)
        try:
            _wait(batch)
        except OSError:
            # Whoever reads it otherwise tells what is wrong with it.
            return False
        finally:
            # Also where something failed: what was queued before may still be under way.
            sent.synchronize()
        return not batch.missing

    def write(self, spans: Sequence[Span], size: int) -> None:
        """Store bytes of the device; see `Files`. A file has one thread."""
        if spans:
            _wait(self._put(self._writers, spans, self._fetching, size, None))

    def close(self) -> None:
        """End the threads; see `Files`."""
        self._readers.close()
        self._writers.close()

    def _put(
        self,
        copy_threads: CopyThreads,
        spans: Sequence[Span],
        stream: Stream,
        size: int,
        then: Event | None,
    ) -> Batch:
        cupy().cuda.runtime.setDevice(self._device)
        copies = [
            (_rows_of(span, size), span.values.data.ptr, span.values.nbytes) for span in spans
        ]
        batch = copy_threads.put(copies, stream, self._event(), then)
        for one in (self._readers, self._writers):
            one.start()
        return batch

    def _event(self) -> Event:
        """Return a new event, which is complete until it is recorded."""
        cupy().cuda.runtime.setDevice(self._device)
        return cupy().cuda.Event(disable_timing=True)


def _parts_of(span: Span) -> Iterator[Span]:
    """Yield the parts of a span that threads read at a time."""
    if span.values.nbytes <= _PIECE:
        yield span
        return
    for begin in range(0, span.values.nbytes, _PIECE):
        yield Span(span.path, span.offset + begin, span.values[begin : begin + _PIECE])


def _rows_of(span: Span, size: int) -> PinnedRows:
    width = span.values.nbytes
    return PinnedRows(1, width, span.offset, width, path=span.path, size=size)


def _wait(batch: Batch) -> None:
    while not batch.done():
        with suppress(TimeoutError):
            batch.result(_LOOK)
    batch.result(_LOOK)
