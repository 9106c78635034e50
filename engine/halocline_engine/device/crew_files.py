"""Files that threads of the system read to a device, and write from there: see `crew`.

Values go through small page-locked buffers, which stay in the caches of the cores, and nothing of
Python is needed but to ask. Those that read and those that write are threads of their own, so that
neither waits for the other.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress

from halocline_engine.device.calls import system_calls
from halocline_engine.device.crew import Batch, Crew
from halocline_engine.device.door import Event, Stream, cupy
from halocline_engine.device.files import Files, Span, kvikio_files, parts_of
from halocline_engine.device.lent import Lent
from halocline_engine.errors import DeviceError

__all__ = ["CrewFiles", "device_files"]

#: Seconds between two looks at whether copies are done, for which a thread waits without Python.
_LOOK = 10.0


def device_files(reading: int, writing: int) -> Files:
    """Return what copies between files and the current device, with so many threads each way.

    kvikio where it goes without a stop in memory of the host, and a crew everywhere else.
    """
    return kvikio_files(reading, writing) or CrewFiles(reading, writing)


class CrewFiles:
    """So many threads that read, and so many that write: `files.Files`.

    The device is the one that is current where this is made. Raises `DeviceError` where there is no
    driver.
    """

    def __init__(self, reading: int, writing: int) -> None:
        calls = system_calls()
        self._device = cupy().cuda.runtime.getDevice()
        self._sending, self._fetching = (cupy().cuda.Stream(non_blocking=True) for _ in "io")
        self._readers = Crew(reading, calls, out=False, name="halocline-read")
        self._writers = Crew(writing, calls, out=True, name="halocline-write")
        self._helpers = Crew(reading, calls, out=True, name="halocline-help", instead=self._readers)
        # How many calls read, and how many have helpers; never both, as they share buffers.
        self._change = threading.Condition()
        self._reading = self._helped = 0
        self._resting = False

    def rest(self) -> None:
        """Let those who read help to write; see `Files`."""
        with self._change:
            self._resting = True

    def read(self, spans: Sequence[Span]) -> bool:
        """Fill bytes of the device; see `Files`."""
        parts = [part for span in spans for part in parts_of(span)]
        if not parts:
            return True
        with self._change:
            self._resting = False
            self._change.wait_for(lambda: not self._helped)
            self._reading += 1
        try:
            return self._read(parts)
        finally:
            with self._change:
                self._reading -= 1

    def _read(self, parts: Sequence[Span]) -> bool:
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
        if not spans:
            return
        with self._change:
            helped = self._resting and not self._reading
            self._helped += helped
        try:
            self._write(spans, size, helped=helped)
        finally:
            with self._change:
                self._helped -= helped
                self._change.notify_all()

    def _write(self, spans: Sequence[Span], size: int, *, helped: bool) -> None:
        """Let files be written by those who write, and some by those who help."""
        more = len(self._helpers.threads) if helped else 0
        every = len(self._writers.threads) + more
        # So many of all, one here and one there.
        theirs = [at * more % every < more for at in range(len(spans))]
        batches: list[Batch] = []
        for crew, own in ((self._writers, False), (self._helpers, True)):
            some = [span for span, one in zip(spans, theirs, strict=True) if one == own]
            if some:
                batches.append(self._put(crew, some, self._fetching, size, None))
        # All of them, before one of them tells what went wrong.
        for batch in batches:
            _wait_done(batch)
        for batch in batches:
            batch.result(_LOOK)

    def close(self) -> None:
        """End the threads; see `Files`."""
        self._readers.close()
        self._writers.close()
        self._helpers.close()

    def _put(
        self, crew: Crew, spans: Sequence[Span], stream: Stream, size: int, then: Event | None
    ) -> Batch:
        cupy().cuda.runtime.setDevice(self._device)
        copies = [(_lent(span, size), span.values.data.ptr, span.values.nbytes) for span in spans]
        return crew.put(copies, stream, self._event(), then)

    def _event(self) -> Event:
        """Return a new event, which is complete until it is recorded."""
        cupy().cuda.runtime.setDevice(self._device)
        return cupy().cuda.Event(disable_timing=True)


def _lent(span: Span, size: int) -> Lent:
    width = span.values.nbytes
    return Lent(1, width, span.offset, width, path=span.path, size=size)


def _wait(batch: Batch) -> None:
    _wait_done(batch)
    batch.result(_LOOK)


def _wait_done(batch: Batch) -> None:
    while not batch.done():
        with suppress(TimeoutError, OSError, DeviceError):
            batch.result(_LOOK)
