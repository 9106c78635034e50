"""Where workers read datasets of this process, and where they leave results for it.

Workers that reach its memory read arrays where they lie, and write results into new ones. For
others both are stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from halocline_engine.datasets.memory.reached import reach_variables
from halocline_engine.datasets.memory.shared import can_share
from halocline_engine.datasets.stores.source import InMemory, Opened, Source, spool
from halocline_engine.distribute.executors.base import Pool

__all__ = ["reaches", "readable"]


def reaches(pool: Pool, size: int) -> bool:
    """Whether workers use the memory of this process, in which so many bytes may be needed."""
    return pool.remote and pool.same_host and can_share(size) and pool.reaches_memory


def readable(
    opened: Opened, names: Sequence[str], pool: Pool, stack: ExitStack, folder: Path
) -> Source:
    """Return where the processes of a pool read variables, until the stack ends.

    Those of this process that others do not reach are written to a new folder.
    """
    if not pool.remote or not isinstance(opened.source, InMemory):
        return opened.source
    if reaches(pool, sum(int(opened.dataset[name].nbytes) for name in dict.fromkeys(names))):
        return reach_variables(opened.dataset, names, stack)
    return spool(opened.dataset, names, folder)
