"""How an attempt at a job ended, and what that means for the job."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import TypeAlias

from halocline_engine.errors import CancelledError, DeviceError, HaloclineError, InternalError
from halocline_service.jobs.errors import error_fields
from halocline_service.jobs.job import JsonObject
from halocline_service.store.base import StoreAway

__all__ = ["Away", "Failed", "Lost", "Outcome", "Stopped", "Succeeded", "outcome_of"]


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The outputs are there: values, and folders of Zarr stores under the job's folder."""

    outputs: JsonObject


@dataclass(frozen=True, slots=True)
class Failed:
    """It failed, and would fail again."""

    error: JsonObject


@dataclass(frozen=True, slots=True)
class Lost:
    """A device, a worker or a connection failed; another attempt may succeed."""

    error: JsonObject


@dataclass(frozen=True, slots=True)
class Stopped:
    """It was asked to stop, and did."""


@dataclass(frozen=True, slots=True)
class Away:
    """The database did not answer when it was needed; the job itself has nothing to do with it."""


Outcome: TypeAlias = Succeeded | Failed | Lost | Stopped | Away


def outcome_of(error: Exception) -> Outcome:
    """Classify what an attempt raised; what is not known is an internal error."""
    match error:
        case CancelledError():
            return Stopped()
        case StoreAway():
            return Away()
        case DeviceError():
            return Lost(error_fields(error))
        case HaloclineError():
            return Failed(error_fields(error))
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return Failed(_fields("output", "The result cannot be written: the disk is full."))
        case MemoryError():
            return Failed(_fields("capacity", "The work does not fit into memory."))
        case ConnectionError() | TimeoutError():
            return Lost(_fields("device", "The connection to the workers was lost."))
        case _ if type(error).__module__.partition(".")[0] == "distributed":
            return Lost(_fields("device", "The workers were lost."))
        case _:
            message = "Halocline met an error that it did not expect."
            hint = "The log of the dispatcher has the details; please report it with the program."
            return Failed(error_fields(InternalError(message, hint=hint)))


def _fields(code: str, message: str) -> JsonObject:
    return {"code": code, "message": message, "hint": ""}
