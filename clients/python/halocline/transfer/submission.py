"""Sending a job whose datasets are sent first, where they are here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast
from urllib.parse import quote

from halocline.connection import Connection
from halocline.errors import DatasetError

__all__ = ["Reference", "execute"]

#: Sends a dataset where that is needed, and returns how the service knows it.
Reference: TypeAlias = Callable[[], str]

_TRIES = 5


def execute(connection: Connection, process: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Start a process and return its first status document; inputs may be a `Reference`.

    What was sent for a job goes with the last job that reads it, which may be removed just before
    the new one comes; then it is sent again.
    """
    path, headers = f"/processes/{quote(process, safe='')}/execution", {"Prefer": "respond-async"}
    for left in reversed(range(_TRIES)):
        sent = {
            name: cast("Reference", value)() if callable(value) else value
            for name, value in inputs.items()
        }
        own = {sent[name] for name, value in inputs.items() if callable(value)}
        try:
            return connection.post(path, {"inputs": sent}, headers, needs=("jobID", "status"))
        except DatasetError as error:
            if left == 0 or error.problem.get("missing") not in own:
                raise
    raise AssertionError("unreachable")
