"""Targets by name, and the meaning of "auto" on this machine."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import cast

from halocline_engine.arguments import text
from halocline_engine.backends.base import Backend
from halocline_engine.backends.targets import DEVICE_TARGET, HOST_TARGET, TARGETS
from halocline_engine.device import probe
from halocline_engine.errors import ArgumentError

__all__ = ["AUTO", "find", "named", "resolve"]

AUTO = "auto"


def resolve(target: str) -> str:
    """Return the name of a target: "auto" is cuda where there is a device, and cpu elsewhere.

    Raises `ArgumentError` for a name that is unknown.
    """
    target = named(target)
    if target == AUTO:
        return DEVICE_TARGET if probe.device_count() > 0 else HOST_TARGET
    if target not in TARGETS:
        near = get_close_matches(target, (AUTO, *TARGETS), n=1)
        meant = f"Did you mean '{near[0]}'? " if near else ""
        names = ", ".join(f"'{name}'" for name in (AUTO, *TARGETS))
        raise ArgumentError(
            f"Target '{target}' is unknown.", hint=f"{meant}The targets are {names}."
        )
    return target


def named(target: str) -> str:
    """Return a target as its own name: "gpu" is another one of cuda."""
    return DEVICE_TARGET if text("target", target, "the name of a target") == "gpu" else target


def find(target: str) -> Backend:
    """Return the backend of a target; only then are its libraries imported."""
    module, _, name = TARGETS[resolve(target)].backend.partition(":")
    return cast("Backend", getattr(import_module(module), name)())
