"""Solves of arrays of CuPy, which stay on the device of this process: one block has all systems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from halocline_engine.backends.targets import TARGETS
from halocline_engine.datasets.stores.source import InMemory, Opened
from halocline_engine.datasets.untyped import is_on_device
from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.grid.partition import Block, Span
from halocline_engine.distribute.jobs.blocking import Cut
from halocline_engine.distribute.jobs.execute import Blockwise

__all__ = ["any_on_device", "one_block", "stays", "with_note"]

_COPIED = "arrays of the device are copied by way of the host"


def any_on_device(opened: Opened, names: Iterable[str]) -> bool:
    """Say whether a variable is an array of the device."""
    here = isinstance(opened.source, InMemory)
    return here and any(is_on_device(opened.dataset, name) for name in names)


def stays(
    opened: Opened, names: Iterable[str], pool: Pool, target: str, size: int, *, plain: bool
) -> bool:
    """Say whether variables are read, and results made, on the device.

    So it is where some of them are there, `size` bytes fit, and nothing else is asked for (`plain`:
    neither an output, nor chunks, nor another mode).
    """
    if not plain or pool.remote or not TARGETS[target].on_device:
        return False
    return any_on_device(opened, names) and size <= (pool.device_memory(target) or 0)


def one_block(sizes: Mapping[str, int], size: int) -> Cut:
    """Return all systems as one block, which takes so many bytes."""
    one = Span(0, 1)
    block = Block(0, (one, one, one), tuple(Span(0, n) for n in sizes.values()))
    return Cut(tuple(sizes.values()), (block,), size)


def with_note(job: Blockwise, names: Iterable[str]) -> Blockwise:
    """Return a job that says so where it copies arrays of the device."""
    if job.on_device or not any_on_device(job.opened, names):
        return job
    return replace(job, note=f"{job.note}; {_COPIED}" if job.note else _COPIED)
