"""Checks of users' programs in a few processes with limits, so that they cannot block the API.

One owner may occupy all but one process. The next turn goes to the waiting owner with the fewest
turns, then to the least recently served one. A process that exceeds a limit is replaced.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, cast

import structlog

from halocline_service.api.checking.fitting import Datasets
from halocline_service.api.checking.inputs import JsonObject
from halocline_service.api.problems import ProblemError

__all__ = ["COMMAND", "CheckProcesses", "Turns"]

_log = structlog.get_logger()

#: Command of a process for checks; its arguments are limits in seconds and bytes.
COMMAND = (sys.executable, "-m", "halocline_service.api.checking.child")
_LONGEST_LINE = 64 * 2**20
_PATIENCE = 6.0  # factor from processor time to wall time, on a busy machine
_STARTING = 120.0  # seconds until a process has loaded its modules
_PAUSE = 1.0  # seconds before another attempt to start a process, and for one to end by itself


class CheckProcesses:
    """Pool of processes for checks, as an asynchronous context manager that ends them."""

    def __init__(
        self, count: int, *, seconds: float, memory: int, command: Sequence[str] = COMMAND
    ) -> None:
        self._count = count
        self._seconds = seconds
        self._command = (*command, f"{seconds:g}", str(memory))
        self._idle: asyncio.Queue[_CheckProcess] = asyncio.Queue()
        self._all: set[_CheckProcess] = set()
        self._replacements: set[asyncio.Task[int]] = set()
        self._turns = Turns(count)
        self._is_closing = False

    async def __aenter__(self) -> Self:
        """Start the processes."""
        for _ in range(self._count):
            self._idle.put_nowait(await self._started())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the processes."""
        self._is_closing = True
        await asyncio.gather(*self._replacements)
        for checker in tuple(self._all):
            await checker.end()

    async def __call__(
        self, owner: str, process: str, inputs: Mapping[str, Any], *, facts: bool = False
    ) -> JsonObject:
        """Return the outcome of `checked`. Raises a problem if a limit is exceeded."""
        request = {"process": process, "inputs": inputs, "facts": facts}
        return await self._within_limits(owner, request)

    async def describe(self, owner: str, path: str, largest_chunk: int) -> JsonObject:
        """Return the outcome of `describe_dataset`. Raises a problem if a limit is exceeded."""
        request = {"dataset": path, "largest_chunk": largest_chunk}
        return await self._within_limits(owner, request)

    async def _within_limits(self, owner: str, request: Mapping[str, Any]) -> JsonObject:
        outcome = await self._asked(owner, request)
        if "limit" in outcome:
            raise _too_hard(str(outcome["limit"]), self._seconds)
        if "fault" in outcome:
            raise RuntimeError("A check failed; the log of its process has the details.")
        return outcome

    async def fit(
        self, owner: str, process: str, inputs: Mapping[str, Any], datasets: Datasets
    ) -> JsonObject:
        """Return the outcome of `fitted`, empty if a limit is exceeded.

        The job itself has other limits, and reports the problem later.
        """
        request = {"process": process, "inputs": inputs, "datasets": datasets}
        outcome = await self._asked(owner, request)
        return outcome if "problem" in outcome else {}

    async def _asked(self, owner: str, request: Mapping[str, Any]) -> JsonObject:
        line = json.dumps(request).encode() + b"\n"
        await self._turns.take(owner)
        try:
            return await self._answered(line)
        finally:
            self._turns.give_back(owner)

    async def _answered(self, line: bytes) -> JsonObject:
        """Return the outcome; if the process ends for another reason, retry with a second one."""
        status = 0
        for _ in range(2):
            checker, outcome = await self._idle.get(), None
            try:
                outcome = await checker.ask(line, self._seconds * _PATIENCE)
            finally:  # also after cancellation
                replacement = None if outcome is not None else self._replace(checker)
            if replacement is None:
                assert outcome is not None
                self._idle.put_nowait(checker)
                return outcome
            status = await asyncio.shield(replacement)
            if checker.is_late or status == -signal.SIGXCPU:
                return {"limit": "time"}
            _log.warning("check process ended", status=status)
        return {"limit": f"signal {-status}" if status < 0 else f"status {status}"}

    def _replace(self, checker: _CheckProcess) -> asyncio.Task[int]:
        """End a process and start another; return the status of the first."""
        task = asyncio.ensure_future(self._replaced(checker))
        self._replacements.add(task)
        task.add_done_callback(self._replacements.discard)
        return task

    async def _replaced(self, checker: _CheckProcess) -> int:
        self._all.discard(checker)
        status = await checker.end()
        while not self._is_closing:
            try:
                self._idle.put_nowait(await self._started())
            except OSError as error:  # the machine cannot start a process now
                _log.warning("check process not started", error=str(error))
                await asyncio.sleep(_PAUSE)
            else:
                break
        return status

    async def _started(self) -> _CheckProcess:
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
            limit=_LONGEST_LINE,
        )
        checker = _CheckProcess(process)
        self._all.add(checker)
        return checker


class _CheckProcess:
    """One process; `is_late` is True if it did not answer in time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._is_ready = False
        self.is_late = False

    async def ask(self, line: bytes, seconds: float) -> JsonObject | None:
        """Return the answer to a request, None if the process failed or is late."""
        reader = cast("asyncio.StreamReader", self._process.stdout)
        writer = cast("asyncio.StreamWriter", self._process.stdin)
        try:
            if not self._is_ready:
                async with asyncio.timeout(_STARTING):
                    await reader.readline()
                self._is_ready = True
            async with asyncio.timeout(seconds):
                writer.write(line)
                await writer.drain()
                answer = await reader.readline()
        except TimeoutError:
            self.is_late = self._is_ready
            return None
        except (OSError, ValueError):  # it ended, or the line is too long
            return None
        return cast("JsonObject", json.loads(answer)) if answer.endswith(b"\n") else None

    async def end(self) -> int:
        """End the process, with some time to end by itself, and return its status."""
        if self._process.stdout is not None and self._process.stdout.at_eof():
            with suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE):
                    await self._process.wait()
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.communicate()  # closes its pipes as well
        return cast("int", self._process.returncode)


class Turns:
    """Fair turns of owners for a number of processes."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._most = max(1, count - 1)  # of one owner
        self._has: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # least recently served first

    async def take(self, owner: str) -> None:
        """Wait for a turn, and take it."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        self._serve()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(owner)
            raise

    def give_back(self, owner: str) -> None:
        """End a turn."""
        self._free += 1
        self._has[owner] -= 1
        if not self._has[owner]:
            del self._has[owner]
        self._serve()

    def _serve(self) -> None:
        """Give free turns to waiting owners."""
        while self._free and (owner := self._next()) is not None:
            waiting = self._waiting.pop(owner)
            turn = waiting.popleft()
            if waiting:
                self._waiting[owner] = waiting  # now the last one
            if not turn.done():  # otherwise cancelled
                self._free -= 1
                self._has[owner] += 1
                turn.set_result(None)

    def _next(self) -> str | None:
        allowed = [owner for owner in self._waiting if self._has[owner] < self._most]
        return min(allowed, key=lambda owner: self._has[owner], default=None)


_HINT = "Make the program smaller, or split it into several."


def _too_hard(limit: str, seconds: float) -> ProblemError:
    """Return the problem of a check that exceeded a limit."""
    reasons = {
        "time": f"took more than the allowed {seconds:g} seconds of processor time",
        "memory": "took more than the allowed memory",
        "depth": "met terms that are nested too deeply",
    }
    reason = reasons.get(limit, f"ended its process by {limit}")
    return ProblemError("capacity", f"The check of the request {reason}.", hint=_HINT)
