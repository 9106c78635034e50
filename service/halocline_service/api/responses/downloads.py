"""Export of results to files upon request: NetCDF and CSV.

A separate process writes them, within limits of time and memory. They are kept beside the result
for a day. Concurrent requests for the same file wait for the same process.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

from halocline_service.api.checking.processes import Turns
from halocline_service.api.problems import ProblemError
from halocline_service.settings import Settings

__all__ = ["COMMAND", "FileProcesses"]

_log = structlog.get_logger()

#: Command of a process for files; the request is its last argument.
COMMAND = (sys.executable, "-m", "halocline_service.exports.child")
_AT_ONCE = 2
_LARGE = "Read the Zarr store: 'xarray.open_zarr' opens it lazily."
_TOO_MUCH = "Write it as a Zarr store of smaller parts, and send that."


class FileProcesses:
    """Processes that export results and check files of uploads, a few at a time."""

    def __init__(self, settings: Settings, command: Sequence[str] = COMMAND) -> None:
        self._settings = settings
        self._command = command
        self._turns = Turns(_AT_ONCE)
        self._making: dict[Path, asyncio.Task[dict[str, Any]]] = {}

    async def make(self, owner: str, store: Path, form: str, path: Path) -> None:
        """Export the result in a Zarr store, unless the file exists. Raises `ProblemError`."""
        if path.exists():
            return
        task = self._making.get(path)
        if task is None:
            asked = {
                "kind": "export",
                "store": str(store),
                "form": form,
                "file": str(path),
                "most": self._settings.download_bytes,
                "headroom": self._settings.disk_headroom_bytes,
            }
            task = asyncio.ensure_future(self._outcome(owner, asked))
            self._making[path] = task
            task.add_done_callback(lambda _: self._making.pop(path, None))
        # Other requests may wait for the same file after this one is cancelled.
        _raise_for(await asyncio.shield(task), "make", _LARGE)
        if not path.exists():
            raise ProblemError("gone", "The result was removed while its file was written.")

    async def check(self, owner: str, path: Path, upload_id: str) -> None:
        """Check the NetCDF file of an upload. Raises `ProblemError` if it is invalid."""
        outcome = await self._outcome(owner, {"kind": "check", "file": str(path)})
        for place in (str(path), path.name):
            outcome = {
                name: text.replace(place, f"upload:{upload_id}") if isinstance(text, str) else text
                for name, text in outcome.items()
            }
        _raise_for(outcome, "read", _TOO_MUCH)

    async def _outcome(self, owner: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        await self._turns.take(owner)
        try:
            return await self._asked(asked)
        finally:
            self._turns.give_back(owner)

    async def _asked(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        memory = self._settings.check_memory_bytes
        process = await asyncio.create_subprocess_exec(
            *self._command,
            json.dumps({**asked, "memory": memory}),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._settings.download_seconds):
                answer, _ = await process.communicate()
        except TimeoutError:
            return {"limit": f"more than {self._settings.download_seconds:g} seconds"}
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.communicate()
        with suppress(ValueError):
            outcome: dict[str, Any] = json.loads(answer)
            if outcome.get("limit") == "memory":
                return {"limit": f"more than {memory} bytes of memory"}
            return outcome
        _log.error("file process ended", status=process.returncode, kind=asked["kind"])
        return {"status": process.returncode}


def _raise_for(outcome: Mapping[str, Any], verb: str, hint: str) -> None:
    if "limit" in outcome:
        doing = {"make": "Making", "read": "Reading"}[verb]
        raise ProblemError("capacity", f"{doing} the file took {outcome['limit']}.", hint=hint)
    if "status" in outcome:
        status = outcome["status"]
        detail = f"The process that should {verb} the file ended by status {status}."
        raise ProblemError("capacity", detail, hint=hint)
    if outcome:
        raise ProblemError(outcome["code"], outcome["detail"], hint=outcome["hint"])
