"""Which pool runs a job: this process, new processes on this machine, or an existing cluster."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from halocline_engine.backends.registry import resolve
from halocline_engine.distribute.pool import LocalPool, Pool
from halocline_engine.errors import ArgumentError

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["open_pool"]


def open_pool(
    cluster: int | str | Client | None, target: str, stack: ExitStack
) -> tuple[Pool, str]:
    """Return a pool and the name of the target on it; what is started ends with the stack.

    `cluster` is None for this process, a number of processes to start on this machine, the address
    of a Dask scheduler, or a client of one.
    """
    if cluster is None:
        return LocalPool(), resolve(target)
    if isinstance(cluster, int):
        if isinstance(cluster, bool) or cluster < 1:
            raise ArgumentError(
                f"Argument 'cluster' must be a whole number from 1, got {cluster!r}."
            )
        from halocline_engine.distribute.cluster import start

        chosen = resolve(target)
        return stack.enter_context(start(cluster, chosen)), chosen
    from halocline_engine.distribute.cluster import connect

    pool = stack.enter_context(connect(cluster))
    return pool, pool.resolve(target)
