"""Gathers, scatters and sparse products on the targets that users name."""

from __future__ import annotations

import functools
from typing import Any, cast

import numba

from halocline_engine.backends.registry import resolve
from halocline_engine.kernels.indirect.apply import Device, Host, Target
from halocline_engine.kernels.machine import most_shared

__all__ = ["transfers_on"]


def transfers_on(target: str) -> Target:
    """Return what moves elements on a target, "auto" among them.

    Raises `ArgumentError` for a name that is unknown and `DeviceError` where there is no device.
    """
    match resolve(target):
        case "cuda":
            from halocline_engine.device.probe import device_number

            return _device(device_number())
        case "cpu":
            return Host(int(cast("Any", numba).get_num_threads()))
        case _:
            return Host(0)


@functools.lru_cache(maxsize=8)
def _device(index: int) -> Device:
    """Return the current device, with the kernels that were compiled for it."""
    from halocline_engine.device.machine import current_machine

    machine = current_machine()
    assert machine.facts.index == index
    return Device(machine, shared=most_shared(machine.facts.capability))
