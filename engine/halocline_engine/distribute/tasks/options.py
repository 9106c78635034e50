"""Choices that a run makes by itself, and its caller may make otherwise."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from halocline_engine.errors import ArgumentError
from halocline_engine.program import Compiled
from halocline_engine.schedule.size import check_size

__all__ = ["Options", "check_compiled", "options_of"]

#: Of the options that are whole numbers, the least one.
_LEAST = {
    "steps_per_pass": 1,
    "memory": 1,
    "device_memory": 1,
    "cache": 0,
    "threads": 1,
    "slots": 0,
    "program_size": 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None leaves a choice to the plan. Raises `ArgumentError` where a number has no sense.

    `steps_per_pass` is how many steps a pass fuses; `memory` the bytes that the blocks of one
    process may take, and `device_memory` those on its device, and `share` what part they may take
    of what is there, for runs that share it with others; `cache` the bytes of decoded chunks
    that a process keeps, 0 for none; `threads` how many blocks this process has at hand, which
    products and clusters refuse.
    `slots` is how many blocks overlap in a pipeline through the device of a process, 0 for none;
    `compressed` False stores results as plain numbers. `filed` says whether plain files go straight
    between a store and a device, as those of a gigabyte and more do where there is room. `unpacked`
    says whether compressed chunks are decoded on a device, which needs nvCOMP: those of LZ4, which
    are checked there before, if it is left out; with True those of Zstandard too. They must be
    known to be whole then, as a damaged one may be read as anything, or stop the device for this
    process. `program_size` is the largest program that is compiled, in terms: nodes of expressions
    and assignments, and 40 for a branch, 100 for a loop over an interval, 10 for each array in it.
    """

    steps_per_pass: int | None = None
    memory: int | None = None
    device_memory: int | None = None
    share: float = 1.0
    cache: int | None = None
    threads: int | None = None
    slots: int | None = None
    compressed: bool = True
    filed: bool | None = None
    unpacked: bool | None = None
    program_size: int | None = None

    def __post_init__(self) -> None:
        """Refuse what is no whole number, or too small, and what is neither True nor False."""
        for name, least in _LEAST.items():
            given: Any = getattr(self, name)
            whole = isinstance(given, (int, np.integer)) and not isinstance(given, bool)
            if given is not None and not (whole and given >= least):
                raise ArgumentError(
                    f"Option '{name}' must be a whole number from {least}, got {given!r}.",
                    hint="Leave it out.",
                )
        part: Any = self.share
        if not isinstance(part, (int, float, np.number)) or not 0 < part <= 1:
            raise ArgumentError(
                f"Option 'share' must be a number above 0 and up to 1, got {part!r}.",
                hint="Leave it out.",
            )
        for name in ("compressed", "filed", "unpacked"):
            given = getattr(self, name)
            if not (isinstance(given, bool) or (given is None and name != "compressed")):
                raise ArgumentError(
                    f"Option '{name}' must be True or False, got {given!r}.", hint="Leave it out."
                )


def options_of(given: object) -> Options:
    """Return the argument `options`; raises `ArgumentError` where it is something else."""
    if given is None:
        return Options()
    if not isinstance(given, Options):
        raise ArgumentError(
            f"Argument 'options' must be Options, got the {type(given).__name__}"
            f" {reprlib.repr(given)}.",
            hint="Write for example options=Options(memory=2**30).",
        )
    return given


def check_compiled(compiled: Compiled, options: Options) -> None:
    """Raise `CapacityError` where a program is larger than what may be compiled."""
    if options.program_size is not None and compiled.target != "reference":
        check_size(compiled.schedule, options.program_size)
