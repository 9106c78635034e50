"""Addresses of Dask schedulers, checked before Dask tries them for a quarter of a minute."""

from __future__ import annotations

import contextlib
import socket

from halocline_engine.errors import ArgumentError, ClusterError

__all__ = ["check_address"]

_ANSWER_SECONDS = 5.0
_OVER_TCP = ("tcp", "tls", "ws", "wss")
_SCHEMES = (*_OVER_TCP, "ucx", "inproc")


def check_address(scheduler: str) -> None:
    """Raise unless a text is the address of a scheduler, and something listens there.

    Raises `ArgumentError` for other texts, and `ClusterError` where nothing listens.
    """
    scheme, _, place = scheduler.rpartition("://")
    if scheme not in ("", *_SCHEMES):
        raise _no_address(scheduler)
    if scheme not in ("", *_OVER_TCP):
        return
    host, colon, port = place.rstrip("/").rpartition(":")
    if not (host and colon and port.isdecimal() and 0 < int(port) < 2**16):
        raise _no_address(scheduler)
    try:
        with contextlib.closing(
            socket.create_connection((host.strip("[]"), int(port)), _ANSWER_SECONDS)
        ):
            pass
    except (OSError, UnicodeError) as error:  # names that are no names fail as text
        reason = getattr(error, "strerror", None) or error
        raise ClusterError(
            f"No scheduler answers at '{scheduler}': {reason}.",
            hint="Start one with 'dask scheduler', or check the address. A number starts workers"
            " on this machine: cluster=2.",
        ) from error


def _no_address(scheduler: str) -> ArgumentError:
    return ArgumentError(
        f"Argument 'cluster' must be the address of a scheduler with its port, got '{scheduler}'.",
        hint="Write it as 'tcp://host:8786' or 'tls://host:8786'. A number starts workers on this"
        " machine: cluster=2.",
    )
