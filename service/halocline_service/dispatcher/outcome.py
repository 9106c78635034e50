"""Outcome of an attempt, and its consequence for the job."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import TypeAlias

from halocline_engine.errors import (
    CancelledError,
    ClusterError,
    DeviceError,
    HaloclineError,
    InternalError,
)
from halocline_service.dispatcher.attempts.wire import ClusterLost
from halocline_service.jobs.errors import error_fields
from halocline_service.jobs.job import JsonObject
from halocline_service.store.base import StoreAway

__all__ = ["Away", "Crashed", "Failed", "Lost", "Outcome", "Stopped", "Succeeded", "outcome_of"]


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The outputs are there: values, and folders of Zarr stores under the job's folder."""

    outputs: JsonObject


@dataclass(frozen=True, slots=True)
class Failed:
    """It failed, and would fail again."""

    error: JsonObject


@dataclass(frozen=True, slots=True)
class Crashed:
    """A device or a worker failed under it; another attempt may succeed, and some are made."""

    error: JsonObject


@dataclass(frozen=True, slots=True)
class Lost:
    """Loss of the cluster or of a disk; the job itself did nothing wrong."""

    error: JsonObject


@dataclass(frozen=True, slots=True)
class Stopped:
    """It was asked to stop, and did."""


@dataclass(frozen=True, slots=True)
class Away:
    """The database did not answer when it was needed; the job itself has nothing to do with it."""


# Of a file system that is away, or a process that has too much open; never of a file that a job
# named wrongly.
_OF_DISKS = frozenset(
    {
        *(errno.EIO, errno.ETIMEDOUT, errno.ESTALE, errno.ENXIO, errno.ENODEV, errno.EREMOTEIO),
        *(errno.ENOTCONN, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENOLINK, errno.EROFS),
        *(errno.EAGAIN, errno.EBUSY, errno.EMFILE, errno.ENFILE),
    }
)

Outcome: TypeAlias = Succeeded | Failed | Crashed | Lost | Stopped | Away


def outcome_of(error: Exception) -> Outcome:
    """Classify what an attempt raised; what is not known is an internal error."""
    match error:
        case CancelledError():
            return Stopped()
        case StoreAway():
            return Away()
        case _ if (disk := _disk_of(error)) is not None:
            said = os.strerror(disk)
            return Lost(_fields("device", f"A disk of the service does not answer: {said}."))
        case ClusterError():
            return Lost(error_fields(error))
        case DeviceError():
            return Crashed(error_fields(error))
        case HaloclineError():
            return Failed(error_fields(error))
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return Failed(_fields("output", "The result cannot be written: the disk is full."))
        case MemoryError():
            return Failed(_fields("capacity", "The work does not fit into memory."))
        case ClusterLost():
            return Lost(_fields("device", str(error)))
        case ConnectionError() | TimeoutError():
            return Lost(_fields("device", "The connection to the workers was lost."))
        case _ if type(error).__module__.partition(".")[0] == "distributed":
            return Lost(_fields("device", "The workers were lost."))
        case _:
            message = "Halocline met an error that it did not expect."
            hint = "The log of the dispatcher has the details; please report it with the program."
            return Failed(error_fields(InternalError(message, hint=hint)))


def _disk_of(error: BaseException | None) -> int | None:
    """Give the number of an error of a disk, also where another was raised from it."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _OF_DISKS:
            return error.errno
        error = error.__cause__
    return None


def _fields(code: str, message: str) -> JsonObject:
    return {"code": code, "message": message, "hint": ""}
