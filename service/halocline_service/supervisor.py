"""Starts the processes of one machine, watches them, and stops them all."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import psutil

from halocline_engine.control.stoppage import STOPPED_SECONDS, Stoppage, is_stopped
from halocline_service.lifetime import SIGN_VARIABLE, end_with, open_pipe, take_signs

__all__ = ["HUNG_SECONDS", "MARGIN", "Child", "Gone", "Supervisor", "limit_memory"]

_TICK = 0.1
_GRACE_SECONDS = 25.0
_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0
# One that ran for so long had started well: what it ended by is new.
_WELL_SECONDS = 60.0
#: Seconds without a sign of life after which a process hangs; compiling takes its loop's turns.
HUNG_SECONDS = 300.0
#: Bytes beyond its limit that a process may take between two looks.
MARGIN = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Child:
    """A process to run; those of the highest `rank` are stopped first, together.

    Where it takes more than `memory` bytes, or a signal has stopped it for `STOPPED_SECONDS`, it is
    ended and started again; where `bounded`, the system grants it no more memory than `MARGIN`
    beyond that. So is one that should give signs of life (see `lifetime`), but has given none for
    `HUNG_SECONDS`. A child that is `vital` must not end before all are there.
    """

    name: str
    command: Sequence[str]
    rank: int = 0
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    memory: int | None = None
    bounded: bool = True
    vital: bool = True
    gives_signs: bool = False


class Gone(Exception):
    """A process ended that should not have; the message says which and how."""


@dataclass(slots=True)
class _Running:
    child: Child
    process: subprocess.Popen[bytes]
    started: float
    failures: int = 0
    again: float | None = None
    over: bool = False
    signs: int | None = None
    stoppage: Stoppage = field(default_factory=Stoppage)
    silence: Stoppage = field(default_factory=Stoppage)


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
        for running in self._children:
            if running.signs is not None:
                os.close(running.signs)

    def _ask(self, _number: int, _frame: object) -> None:
        self._asked = True

    def start(self, child: Child) -> None:
        """Start a process; it ends when we do, however we end."""
        process, signs = _spawn(child)
        self._children.append(_Running(child, process, time.monotonic(), signs=signs))

    def wait_for(self, what: str, ready: Callable[[], bool], *, seconds: float) -> bool:
        """Wait until something is ready; False if the end was asked for.

        Raises `Gone` where a vital child ends first, or it takes too long.
        """
        deadline = time.monotonic() + seconds
        while not self._asked:
            if ready():
                return True
            for running in self._children:
                code = running.process.poll()
                if code is not None and running.child.vital:
                    raise Gone(f"{running.child.name} ended {_how(code)} before {what} was ready.")
                self._look_after(running)
            if time.monotonic() > deadline:
                raise Gone(f"{what} was not ready after {seconds:g} seconds.")
            time.sleep(_TICK)
        return False

    def watch(self) -> None:
        """Start again what ends, and end what takes too much, until the end is asked for.

        One that ends again and again is waited for longer each time; the others stay.
        """
        while not self._asked:
            for running in self._children:
                self._look_after(running)
            time.sleep(_TICK)

    def _look_after(self, running: _Running) -> None:
        now = time.monotonic()
        if running.again is not None:
            if now >= running.again:
                _start_again(running, now)
            return
        code = running.process.poll()
        if code is None:
            if not running.over and (reason := _reason_to_end(running, now)):
                running.over = True
                running.process.kill()
                _say(f"{running.child.name} {reason}, and was ended.")
            return
        if now - running.started >= _WELL_SECONDS:
            running.failures = 0
        wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2**running.failures)
        running.failures = min(running.failures + 1, 10)
        running.again = now + wait
        _say(f"{running.child.name} ended {_how(code)}; it is started again in {wait:g} seconds.")


def limit_memory(limit: int) -> None:
    """Have the system grant this process no more than `MARGIN` beyond a limit.

    Its own processes may ask for more.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    granted = limit + MARGIN
    if hard == resource.RLIM_INFINITY or granted < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (granted, hard))


def _start_again(running: _Running, now: float) -> None:
    if running.signs is not None:
        os.close(running.signs)
    running.process, running.signs = _spawn(running.child)
    running.started, running.again, running.over = now, None, False
    running.stoppage, running.silence = Stoppage(), Stoppage()


def _reason_to_end(running: _Running, now: float) -> str:
    """Return why a process must be ended; empty where it may go on."""
    pid, limit = running.process.pid, running.child.memory
    if running.stoppage.is_over(now, stopped=is_stopped(pid)):
        return f"was stopped by a signal for {STOPPED_SECONDS:g} seconds"
    if running.signs is not None:
        is_silent = not take_signs(running.signs)
        if running.silence.is_over(now, stopped=is_silent, most=HUNG_SECONDS):
            return f"hung, with no sign of life for {HUNG_SECONDS:g} seconds"
    if limit is None:
        return ""
    try:
        memory = psutil.Process(pid).memory_info()
    except psutil.Error:
        return ""
    # Pages of files that are mapped can be had back at any time.
    taken = memory.rss - memory.shared
    if taken <= limit:
        return ""
    return f"took {taken / 2**20:.0f} MiB of memory, more than its {limit / 2**20:.0f}"


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


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


def _spawn(child: Child) -> tuple[subprocess.Popen[bytes], int | None]:
    """Start a process; return it, and the pipe from which to take its signs of life."""
    parent = os.getpid()
    mine, theirs = open_pipe() if child.gives_signs else (None, None)
    passed = () if theirs is None else (theirs,)

    def before() -> None:
        end_with(parent)
        if child.memory is not None and child.bounded:
            limit_memory(child.memory)

    # An own session: Ctrl-C reaches the supervisor only, which then stops the others in order.
    process = subprocess.Popen(
        child.command,
        env={**os.environ, **child.environment, SIGN_VARIABLE: "".join(map(str, passed))},
        pass_fds=passed,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=before,  # noqa: PLW1509  there are no other threads here
    )
    if theirs is not None:
        os.close(theirs)
    return process, mine
