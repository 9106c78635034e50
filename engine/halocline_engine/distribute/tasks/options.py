"""Options of a job: limits, and overrides of the plan."""

from __future__ import annotations

import reprlib
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from halocline_engine.arguments import plain_number
from halocline_engine.backends.compiled import Compiled
from halocline_engine.backends.targets import TARGETS
from halocline_engine.errors import ArgumentError
from halocline_engine.schedule.size import check_size
from halocline_engine.signatures import with_answers

__all__ = ["ORDERS", "Options", "check_compiled", "options_of"]

#: Orders of the blocks of a stencil.
ORDERS = ("auto", "row", "column", "zigzag")

#: Minimum of each option that is a whole number.
_LEAST = {
    "steps_per_pass": 1,
    "memory_limit": 1,
    "device_memory_limit": 1,
    "chunk_cache": 0,
    "threads": 1,
    "pipeline_depth": 0,
    "program_size": 1,
    "checkpoint_steps": 1,
}
#: Options that are bytes, which may be text.
_SIZES = ("memory_limit", "device_memory_limit", "chunk_cache")


@with_answers
@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Limits and choices of a run. None leaves a choice to the plan.

    Parameters
    ----------
    steps_per_pass : int, optional
        Number of steps in each pass over the dataset, or between two exchanges of halos if blocks
        stay in memory.
    memory_limit : int or str, optional
        Maximum memory of the blocks of one process, in bytes or as in '4 GiB'.
    device_memory_limit : int or str, optional
        Maximum memory of the blocks of one process on its device, in bytes or as in '4 GiB'.
    memory_fraction : float, default: 1.0
        Fraction of the free memory that the job may use.
    chunk_cache : int or str, optional
        Size of the cache of decoded chunks of one process, in bytes or as in '512 MiB'. 0 disables
        it.
    order : {'auto', 'row', 'column', 'zigzag'}, default: 'auto'
        Order of the blocks of a stencil. 'auto' uses columns as wide as the cache of decoded chunks
        allows.
    threads : int, optional
        Number of blocks that this process computes at a time. Not for products and clusters.
    pipeline_depth : int, optional
        Number of blocks in flight between host and device. 0 disables the pipeline.
    compressed : bool, default: True
        Whether results are compressed.
    direct_io : bool, optional
        Whether uncompressed files are copied directly between a store and a device. By default only
        arrays of a gigabyte and more, if there is enough memory.
    device_decoding : bool, optional
        Whether compressed chunks are decoded on the device, with nvCOMP. By default only LZ4, whose
        streams are checked first. True adds Zstandard: use it for intact stores only, as a corrupt
        chunk may give wrong values or make the device unusable for this process.
    checkpoint_steps : int, optional
        Number of steps between checkpoints, if blocks stay in memory and there is a workspace.
    checkpoint_seconds : float, optional
        Seconds between checkpoints. By default 10, or more for large checkpoints.
    program_size : int, optional
        Maximum size of a compiled program, in terms: one for each node of an expression and each
        assignment, 40 for a branch, 100 for a loop over an interval, 10 for each array in it.

    Raises
    ------
    ArgumentError
        A number is out of range, or a switch is not a bool.

    Examples
    --------
    >>> import halocline_engine as he
    >>> he.Options(memory_limit=2**30, compressed=False).memory_limit
    1073741824
    >>> he.Options(memory_limit="4 GB").memory_limit
    4000000000

    """

    steps_per_pass: int | None = None
    memory_limit: int | str | None = None
    device_memory_limit: int | str | None = None
    memory_fraction: float = 1.0
    chunk_cache: int | str | None = None
    order: str = "auto"
    threads: int | None = None
    pipeline_depth: int | None = None
    compressed: bool = True
    direct_io: bool | None = None
    device_decoding: bool | None = None
    program_size: int | None = None
    checkpoint_steps: int | None = None
    checkpoint_seconds: float | None = None

    @property
    def limits_memory(self) -> bool:
        """Whether the use of memory is limited."""
        limits = (self.memory_limit, self.device_memory_limit)
        return limits != (None, None) or self.memory_fraction < 1

    @property
    def cache_bytes(self) -> int | None:
        """Size of the cache of decoded chunks."""
        return None if self.chunk_cache is None else int(self.chunk_cache)

    def granted(self, free: int) -> int:
        """Return the bytes for the blocks of a process with so much free memory."""
        most = free if self.memory_limit is None else int(self.memory_limit)
        return min(int(free * self.memory_fraction), most)

    def granted_on_device(self, free: int | None) -> int | None:
        """Return the bytes for blocks on a device with so much free memory; None without one."""
        if free is None:
            return None
        most = free if self.device_memory_limit is None else int(self.device_memory_limit)
        return min(int(free * self.memory_fraction), most)

    def __post_init__(self) -> None:
        """Check the values, and convert numbers to Python's."""
        for name, least in _LEAST.items():
            given = getattr(self, name)
            number = plain_number(_bytes_of(given) if name in _SIZES else given)
            if given is None or (type(number) is int and number >= least):
                object.__setattr__(self, name, number)
            else:
                raise ArgumentError(
                    f"Option '{name}' must be a whole number from {least}, got {given!r}.",
                    hint="Write bytes, or text such as '4 GiB'."
                    if name in _SIZES
                    else "Leave it out.",
                )
        fraction = plain_number(self.memory_fraction)
        if fraction is None or not 0 < fraction <= 1:
            raise ArgumentError(
                "Option 'memory_fraction' must be a number above 0 and up to 1, got"
                f" {self.memory_fraction!r}.",
                hint="Leave it out.",
            )
        object.__setattr__(self, "memory_fraction", fraction)
        if self.order not in ORDERS:
            raise ArgumentError(
                f"Option 'order' must be {', '.join(map(repr, ORDERS[:-1]))} or {ORDERS[-1]!r}, got"
                f" {self.order!r}.",
                hint="Leave it out.",
            )
        seconds = self.checkpoint_seconds
        number = plain_number(seconds)
        if seconds is not None and (number is None or isinstance(number, bool) or number <= 0):
            raise ArgumentError(
                f"Option 'checkpoint_seconds' must be a number above 0, got {seconds!r}.",
                hint="Leave it out.",
            )
        object.__setattr__(self, "checkpoint_seconds", number)
        for name in ("compressed", "direct_io", "device_decoding"):
            given = getattr(self, name)
            if not (isinstance(given, bool) or (given is None and name != "compressed")):
                raise ArgumentError(
                    f"Option '{name}' must be True or False, got {given!r}.", hint="Leave it out."
                )


def options_of(given: object) -> Options:
    """Return the argument `options`; raises `ArgumentError` if it has the wrong type."""
    if given is None:
        return Options()
    if not isinstance(given, Options):
        raise ArgumentError(
            f"Argument 'options' must be Options, got the {type(given).__name__}"
            f" {reprlib.repr(given)}.",
            hint="Write for example options=Options(memory_limit=2**30).",
        )
    return given


def check_compiled(compiled: Compiled, options: Options) -> None:
    """Raise `CapacityError` if a program exceeds the limit of its size."""
    if options.program_size is not None and TARGETS[compiled.target].compiles:
        check_size(compiled.schedule, options.program_size)


def _bytes_of(given: object) -> object:
    """Return the bytes of a text such as '4 GiB', as Dask reads it; anything else stays."""
    if not isinstance(given, str) or given.strip()[:1] not in tuple("0123456789."):
        return given
    from dask.utils import parse_bytes

    with suppress(ValueError, OverflowError):
        return int(cast("Any", parse_bytes)(given))
    return given
