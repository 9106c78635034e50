"""Choice of the pool: this process, new processes on this machine, or a cluster."""

from __future__ import annotations

from contextlib import ExitStack
from numbers import Integral
from typing import TYPE_CHECKING, TypeAlias

from halocline_engine.arguments import whole
from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.executors.local import LocalPool, return_freed_memory
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.errors import ArgumentError

if TYPE_CHECKING:
    from distributed import Client

    from halocline_engine.distribute.executors.dask import ClusterPool

__all__ = [
    "Cluster",
    "check_threads",
    "expect_workers",
    "local_pool",
    "new_pool",
    "running_pool",
]

#: Where blocks are computed: this process, as many new ones, or those of a scheduler.
Cluster: TypeAlias = "int | str | Client | None"


def running_pool(cluster: Cluster, stack: ExitStack) -> ClusterPool | None:
    """Return the pool of a scheduler that runs already; None where none was named."""
    if cluster is None or isinstance(cluster, Integral):
        return None
    from halocline_engine.distribute.executors.dask import connect

    return stack.enter_context(connect(cluster))


def expect_workers(cluster: Cluster, target: str) -> None:
    """Begin with what takes longest where a call will have new processes on this machine."""
    if isinstance(cluster, Integral):
        from halocline_engine.distribute.executors.template import start_template_early

        start_template_early(target)


def new_pool(cluster: Cluster, target: str, stack: ExitStack, options: Options) -> Pool:
    """Return this process, or new processes on this machine; the latter end with the stack."""
    if not isinstance(cluster, Integral):
        return local_pool(options)
    from halocline_engine.distribute.executors.reuse import reused

    return stack.enter_context(reused(whole("cluster", cluster, 1), target))


def local_pool(options: Options) -> LocalPool:
    """Return this process, with as many blocks at hand as the options say."""
    if options.limits_memory:
        return_freed_memory()
    return LocalPool() if options.threads is None else LocalPool(threads=options.threads)


def check_threads(options: Options, cluster: object) -> None:
    """Raise `ArgumentError` where blocks of this process are counted, but a cluster has them."""
    if options.threads is not None and cluster is not None:
        raise ArgumentError(
            f"Option 'threads' is how many blocks this process has at hand, got {options.threads},"
            " but a cluster computes them.",
            hint="Leave it out; the workers' own threads count.",
        )
