"""Starts the processes of one machine, watches them, and stops them all."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Child", "Gone", "Supervisor"]

_TICK = 0.1
_GRACE_SECONDS = 25.0
_MOST_RESTARTS = 5
_RESTART_WINDOW = 60.0
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Child:
    """A process to run; those of the highest `rank` are stopped first, together."""

    name: str
    command: Sequence[str]
    rank: int = 0
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


class Gone(Exception):
    """A process ended that should not have; the message says which and how."""


@dataclass(slots=True)
class _Running:
    child: Child
    process: subprocess.Popen[bytes]
    starts: deque[float] = field(default_factory=deque[float])


class Supervisor:
    """Used as `with Supervisor() as supervisor`: leaving it stops every child."""

    def __init__(self) -> None:
        self._children: list[_Running] = []
        self._asked = False

    def __enter__(self) -> Supervisor:
        """Take over the signals that ask for the end."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all children, rank by rank."""
        for rank in sorted({running.child.rank for running in self._children}, reverse=True):
            _stop([running.process for running in self._children if running.child.rank == rank])

    def _ask(self, _number: int, _frame: object) -> None:
        self._asked = True

    def start(self, child: Child) -> None:
        """Start a process; it ends when we do, however we end."""
        running = _Running(child, _spawn(child))
        running.starts.append(time.monotonic())
        self._children.append(running)

    def wait_for(self, what: str, ready: Callable[[], bool], *, seconds: float) -> bool:
        """Wait until something is ready; False if the end was asked for.

        Raises `Gone` where a child ends first, or it takes too long.
        """
        deadline = time.monotonic() + seconds
        while not self._asked:
            if ready():
                return True
            for running in self._children:
                code = running.process.poll()
                if code is not None:
                    raise Gone(f"{running.child.name} ended {_how(code)} before {what} was ready.")
            if time.monotonic() > deadline:
                raise Gone(f"{what} was not ready after {seconds:g} seconds.")
            time.sleep(_TICK)
        return False

    def watch(self) -> None:
        """Start again what ends, until the end is asked for.

        Raises `Gone` where a child ends again and again.
        """
        while not self._asked:
            for running in self._children:
                code = running.process.poll()
                if code is not None:
                    self._restart(running, code)
            time.sleep(_TICK)

    def _restart(self, running: _Running, code: int) -> None:
        now = time.monotonic()
        running.starts.append(now)
        while running.starts[0] < now - _RESTART_WINDOW:
            running.starts.popleft()
        if len(running.starts) > _MOST_RESTARTS:
            raise Gone(
                f"{running.child.name} ended {_how(code)}, "
                f"{_MOST_RESTARTS} times within {_RESTART_WINDOW:g} seconds."
            )
        sys.stderr.write(f"{running.child.name} ended {_how(code)}; started again.\n")
        running.process = _spawn(running.child)


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + _GRACE_SECONDS
    for process in processes:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _how(code: int) -> str:
    return f"by signal {-code}" if code < 0 else f"with status {code}"


def _spawn(child: Child) -> subprocess.Popen[bytes]:
    # An own session: Ctrl-C reaches the supervisor only, which then stops the others in order.
    return subprocess.Popen(
        child.command,
        env={**os.environ, **child.environment},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_die_with_parent,  # noqa: PLW1509  there are no other threads here
    )


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
