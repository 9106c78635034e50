"""A process that makes attempts, seen from its dispatcher."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Sequence
from typing import Any, BinaryIO, cast

from halocline_engine.control.stoppage import is_stopped
from halocline_service.dispatcher.attempts.memory import resident
from halocline_service.dispatcher.attempts.setup import Setup
from halocline_service.dispatcher.attempts.wire import LONGEST_LINE, line_of, message_of
from halocline_service.jobs.job import JsonObject

__all__ = ["AttemptProcess"]

_REAP_SECONDS = 10.0


class AttemptProcess:
    """Started by the thread that makes it, and ended with it: one that lasts must make it.

    Its group is its own, so that signals of a terminal do not reach it, and what it has started
    ends with it.
    """

    def __init__(self, command: Sequence[str], setup: Setup) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self._ready = threading.Event()
        self._messages: queue.SimpleQueue[JsonObject | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        self.send({"setup": setup.to_json()})

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    @property
    def is_ready(self) -> bool:
        """Whether it has loaded what takes long."""
        return self._ready.is_set()

    @property
    def resident(self) -> int:
        """The bytes of memory that it takes."""
        return resident(self._process.pid)

    @property
    def is_stopped(self) -> bool:
        """Whether a signal has stopped it."""
        return is_stopped(self._process.pid)

    def send(self, message: JsonObject) -> None:
        """Tell it something; one that has ended hears nothing."""
        pipe = cast("BinaryIO", self._process.stdin)
        with contextlib.suppress(OSError, ValueError):
            pipe.write(line_of(message))
            pipe.flush()

    def receive(self, seconds: float) -> JsonObject | None:
        """Wait for what it tells: a message, or None where it ended. Raises `queue.Empty`."""
        return self._messages.get(timeout=seconds)

    def kill(self) -> int:
        """End it and what it has started, and give its status."""
        with contextlib.suppress(ProcessLookupError):
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait(_REAP_SECONDS)
        with contextlib.suppress(OSError):
            cast("BinaryIO", self._process.stdin).close()
        return code

    def _read(self) -> None:
        with cast("BinaryIO", self._process.stdout) as pipe:
            while True:
                message = _message(pipe.readline(LONGEST_LINE))
                if message is not None and "ready" in message:
                    self._ready.set()
                    continue
                self._messages.put(message)
                if message is None:
                    return


def _message(line: bytes) -> dict[str, Any] | None:
    """Read a message; what is none, or too long, is taken for the end."""
    try:
        return message_of(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
