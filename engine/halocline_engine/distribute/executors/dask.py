"""Processes of a Dask cluster as a pool: the only place that knows `distributed`.

A block is one task, or a run of blocks where they overlap on each worker. Tasks go out as earlier
ones come back, a few to each worker, so that neither the scheduler nor the workers ever hold many.
A task whose worker dies is run again elsewhere, which is safe as it writes the same bytes to the
same regions.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import uuid
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from importlib import import_module
from itertools import islice
from typing import Any, cast

import distributed
from dask import config as dask_config
from distributed.system import MEMORY_LIMIT

from halocline_engine.backends.registry import AUTO, named, resolve
from halocline_engine.backends.targets import DEVICE_TARGET, HOST_TARGET, TARGETS
from halocline_engine.control.stoppage import ending_stopped
from halocline_engine.device.memory.idle import DEVICE_USE
from halocline_engine.device.probe import device_count
from halocline_engine.distribute.communicators.addresses import check_address
from halocline_engine.distribute.communicators.base import RankWork
from halocline_engine.distribute.executors.base import POLL, Done, T
from halocline_engine.distribute.executors.futures import fetched, is_of_files, settle
from halocline_engine.distribute.executors.local import host_memory, usable_device_memory
from halocline_engine.distribute.executors.ranks import run_on_workers
from halocline_engine.distribute.executors.reach import Reach
from halocline_engine.distribute.executors.template import (
    LOADED,
    LOADED_DEVICE,
    end_if_new,
    start_template,
)
from halocline_engine.distribute.executors.workers import AT_HAND, Workers
from halocline_engine.distribute.grid.partition import Block, shares
from halocline_engine.distribute.tasks.cancel import (
    CancelToken,
    cancel_run,
    is_run_cancelled,
    raise_if_cancelled,
)
from halocline_engine.distribute.tasks.events import Event
from halocline_engine.distribute.tasks.model import BlockWork, Report, RunWork, compute_blocks
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.errors import (
    ArgumentError,
    ClusterError,
    DeviceError,
    HaloclineError,
)
from halocline_engine.processors import usable_processors

__all__ = [
    "ClusterPool",
    "connect",
    "local_gpu_cluster",
    "open_client",
    "start",
    "worker_processes",
]

_dd: Any = cast(Any, distributed)

# Dask pauses a worker of others at 80 % of its limit.
_SHARE = 0.75
_LEAST_SHARE = 0.05
_CONNECT_SECONDS = 15
_TELL_SECONDS = 5.0
_END_SECONDS = 5.0
# Processes of this machine talk to each other only, on ports that the system chooses.
_PRIVATE = {"host": "127.0.0.1", "dashboard": False, "dashboard_address": "127.0.0.1:0"}
_ROUTES = {
    f"distributed.{role}.http.routes": ["distributed.http.health"]
    for role in ("scheduler", "worker")
}
_BEFORE = "distributed.nanny.pre-spawn-environ"
_METHOD = "distributed.worker.multiprocessing-method"
# Workers that wait sample their own threads a hundred times a second, for pages that there are
# none of here, and wake up fifty times to find that they were not held up.
_QUIET = {"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "500ms"}
# Workers keep no results, so that a pause would free nothing.
_UNPAUSED = {f"distributed.worker.memory.{each}": False for each in ("target", "spill", "pause")}


class ClusterPool:
    """The workers of a scheduler that `client` is connected to.

    Where a target needs a device, only those that have one.
    """

    remote = True

    def __init__(self, client: Any) -> None:
        self.client = client
        self._chosen = Workers(client)
        self._reach = Reach(self.each)
        self.options = Options()

    def granted(self, options: Options) -> ClusterPool:
        """Return the same workers with less memory."""
        found = copy(self)
        found.options = options
        return found

    @property
    def workers(self) -> int:
        """Number of processes at present."""
        return len(self._chosen.now())

    @property
    def threads(self) -> int:
        """Number of blocks at hand in a process."""
        return max(1, min(AT_HAND, *(int(w["nthreads"]) for w in self._chosen.now().values())))

    @property
    def workers_per_host(self) -> int:
        """Number of workers on the machine that has most of them."""
        return max(Counter(worker["host"] for worker in self._chosen.now().values()).values())

    @property
    def same_host(self) -> bool:
        """Whether all workers talk to each other on the loopback of this machine."""
        return all(str(worker["host"]).startswith("127.") for worker in self._chosen.now().values())

    @property
    def reaches_memory(self) -> bool:
        """Whether all workers read and write the memory of this process."""
        return self.same_host and self._reach.by(self._chosen.now())

    @property
    def memory(self) -> int:
        """Bytes that the blocks of one process may take, by the smallest worker."""
        workers = self._chosen.now()
        return self.options.granted(min(_free(w, len(workers)) for w in workers.values()))

    def resolve(self, target: str) -> str:
        """Return the name of a target: "auto" is cuda where any worker has a device.

        For cuda, workers without a device are left out from then on.
        """
        target = named(target)
        chosen = resolve(target) if target != AUTO else HOST_TARGET
        if target not in (AUTO, DEVICE_TARGET):
            return chosen
        counts = self._ask(device_count)
        with_device = [address for address, count in counts.items() if count]
        if with_device:
            self._chosen = self._chosen.among(with_device)
            return DEVICE_TARGET
        if target == DEVICE_TARGET:
            raise DeviceError(
                "No worker of the cluster has a CUDA device.", hint="Use target='cpu'."
            )
        return HOST_TARGET

    def device_memory(self, target: str) -> int | None:
        """Return the bytes that blocks may take on the smallest device of the workers."""
        if not TARGETS[target].on_device:
            return None
        smallest = min(self._ask(usable_device_memory, target).values())
        return self.options.granted_on_device(smallest)

    def run(
        self, work: BlockWork, blocks: Sequence[Block], cancelled: CancelToken | None
    ) -> Iterator[Event | Done]:
        """Compute blocks on the workers."""
        whole = shares(blocks, work.runs) if isinstance(work, RunWork) else [(b,) for b in blocks]
        left = iter(whole)
        back: queue.SimpleQueue[Any] = queue.SimpleQueue()
        running: set[Any] = set()
        run = uuid.uuid4().hex
        try:
            while True:
                workers = len(self._chosen.look())
                for some in islice(left, max(0, AT_HAND * workers - len(running))):
                    future = self._submit(_somewhere, run, work, some)
                    running.add(future)
                    future.add_done_callback(back.put)
                if workers and not running:
                    return
                raise_if_cancelled(cancelled)
                yield from self._chosen.notices()
                with contextlib.suppress(queue.Empty):
                    future = back.get(timeout=POLL)
                    running.discard(future)
                    reports, worker = self._result(future)
                    yield from (Done(report, worker) for report in reports)
        finally:
            if running:
                self.everywhere(partial(cancel_run, run))
            settle(self.client, self._chosen, running)

    def run_ranks(
        self, work: RankWork, ranks: int, cancelled: CancelToken | None
    ) -> Iterator[Event | Done]:
        """Run the ranks of a job, one on each of some workers."""
        return run_on_workers(self.client, self._chosen, work, ranks, cancelled)

    def everywhere(self, function: Callable[[], None]) -> None:
        """Call a function once on every worker that answers; wait for none, as one may be gone."""
        told = {"wait": False, "on_error": "ignore", "callback_timeout": _TELL_SECONDS}
        with contextlib.suppress(Exception):
            self.client.run(_call, function, workers=list(self._chosen.look()), **told)

    def each(self, function: Callable[..., T], *arguments: object) -> Mapping[str, T]:
        """Return what a function returns on each worker, beside what workers compute."""
        told = {"on_error": "ignore", "callback_timeout": _TELL_SECONDS}
        try:
            return self.client.run(function, *arguments, workers=list(self._chosen.look()), **told)
        except (OSError, TimeoutError, RuntimeError):
            return {}

    def _submit(self, function: Any, *arguments: Any) -> Any:
        """Send work to the workers that may be used, and leave the choice to the scheduler.

        Workers are named by what they offer where that tells them apart: an address is a trap, as a
        worker that is started again has another one, and Dask lets work wait for the old one, even
        if others may do it and all of them were gone for a moment.
        """
        return self.client.submit(function, *arguments, pure=False, **self._chosen.demand())

    def _ask(self, function: Any, *arguments: Any) -> dict[str, Any]:
        """Run a function once on every worker, and leave out those that go meanwhile."""
        back: queue.SimpleQueue[Any] = queue.SimpleQueue()
        waiting: dict[Any, str] = {}
        for address in self._chosen.now():
            future = self.client.submit(function, *arguments, pure=False, workers=[address])
            waiting[future] = address
            future.add_done_callback(back.put)
        answers: dict[str, Any] = {}
        while waiting:
            with contextlib.suppress(queue.Empty):
                future = back.get(timeout=POLL)
                answers[waiting.pop(future)] = self._result(future)
            there = self._chosen.look()
            waiting = {future: address for future, address in waiting.items() if address in there}
        if not answers:
            raise ClusterError(
                "The workers of the cluster were lost while they were queried.",
                hint="Run the job again.",
            )
        return answers

    def _result(self, future: Any) -> Any:
        try:
            return fetched(future, self._chosen.look)
        except HaloclineError:
            raise
        except _dd.KilledWorker as error:
            raise DeviceError(
                "Several workers died, one after the other, while they computed the same block.",
                hint="They may lack memory: give smaller 'chunks'.",
            ) from error
        except (_dd.CancelledError, OSError) as error:
            if is_of_files(error):
                raise
            raise ClusterError(
                f"The cluster was lost during the run: {type(error).__name__}: {error}.",
                hint="Start it again, and run the job with the same workspace.",
            ) from error


async def _call(function: Callable[[], None]) -> None:
    """Call a function; only of what is a coroutine Dask does not wait for the end."""
    function()


def _somewhere(run: str, work: BlockWork, blocks: Sequence[Block]) -> tuple[Sequence[Report], str]:
    """Compute some blocks of a run, and say on which worker.

    They end early where the run was cancelled, and where the scheduler no longer wants the task, as
    when the process of the run was killed.
    """
    worker = _dd.get_worker()
    tasks, key = worker.state.tasks, worker.get_current_task()

    def is_unwanted() -> bool:
        task = tasks.get(key)
        return task is None or task.state == "cancelled" or is_run_cancelled(run)

    with DEVICE_USE:
        return compute_blocks(work, blocks, is_unwanted), str(worker.address)


@contextlib.contextmanager
def connect(cluster: object) -> Generator[ClusterPool]:
    """Use a cluster that runs already: the address of its scheduler, or a client of it."""
    if isinstance(cluster, distributed.Client):
        yield ClusterPool(cluster)
        return
    if not isinstance(cluster, str):
        raise ArgumentError(
            "Argument 'cluster' must be a number of worker processes, the address of a Dask"
            f" scheduler or a distributed.Client, got the {type(cluster).__name__} {cluster!r}."
        )
    check_address(cluster)
    with open_client(cluster) as client:
        yield ClusterPool(client)


def open_client(scheduler: str) -> Any:
    """Connect to a scheduler at an address. Raises `ClusterError` where it does not answer."""
    try:
        return _Client(scheduler, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise ClusterError(
            f"The scheduler '{scheduler}' cannot be reached: {error}.",
            hint="Check its address, and that it runs.",
        ) from error
    except Exception as error:  # a peer that speaks something else is read as if it were Dask
        raise ClusterError(
            f"The scheduler '{scheduler}' was expected, but what answers there is none or has other"
            f" certificates: {type(error).__name__}: {error}.",
            hint="Check its address. For 'tls://', pass a distributed.Client that has the"
            " certificates.",
        ) from error


class _Client(_dd.Client):
    """A client that closes itself where it does not start: Dask's waits 30 s for that at exit."""

    def start(self, **options: Any) -> None:
        """Connect, or leave nothing behind."""
        parent: Any = super()
        try:
            parent.start(**options)
        except BaseException:
            with contextlib.suppress(Exception):
                self.close(timeout=1)
            raise


@contextlib.contextmanager
def start(workers: int, target: str) -> Generator[ClusterPool]:
    """Start worker processes on this machine, and end them afterwards."""
    on_device = TARGETS[target].on_device
    method = start_template(_before_fork(), LOADED_DEVICE if on_device else LOADED)
    if on_device:
        cluster = local_gpu_cluster(workers, method, preload=[LOADED_DEVICE])
    else:
        import_module(LOADED)  # this process needs most of it too, and has it at the same time
        threads = str(max(1, usable_processors() // workers))
        environments = [_thread_environment(threads)] * workers
        cluster = worker_processes(environments, method, preload=[LOADED])
    running = ending_stopped(cluster.worker_pids)
    connected = cast("Any", _Client)
    with cluster, connected(cluster, set_as_default=False) as client, running:
        client.wait_for_workers(workers, timeout=120)
        yield ClusterPool(client)


def local_gpu_cluster(workers: int | None = None, method: str = "spawn", **options: Any) -> Any:
    """Return a cluster with one worker process for each device of this machine, pinned to it.

    `workers` None takes all devices. Each worker has the Dask resource GPU=1. `method` and further
    options are those of `worker_processes`.
    """
    devices = device_count()
    wanted = devices if workers is None else workers
    if not 1 <= wanted <= devices:
        raise DeviceError(
            f"There are {devices} CUDA devices, but {wanted} workers need one each.",
            hint="Use fewer workers, or target='cpu'.",
        )
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    names = visible.split(",") if visible else [str(index) for index in range(devices)]
    # Each sees all of them, its own first, so that it can open the memory of the others.
    environments = [
        {"CUDA_VISIBLE_DEVICES": ",".join([*names[at:], *names[:at]]), **_thread_environment("1")}
        for at in range(wanted)
    ]
    return worker_processes(environments, method, resources={"GPU": 1}, **options)


def _thread_environment(threads: str) -> dict[str, str]:
    return {"NUMBA_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}


def _before_fork() -> Mapping[str, str]:
    """Return what Dask tells new processes before they load anything."""
    told: Mapping[str, object] = cast("Any", dask_config).get(_BEFORE)
    return {name: str(value) for name, value in told.items()}


def worker_processes(
    environments: Sequence[Mapping[str, str]], method: str = "spawn", **options: Any
) -> Any:
    """Return a cluster of this machine with one worker process for each environment.

    `method` is how `multiprocessing` starts them; those that take the place of others are spawned.
    """
    share = int(MEMORY_LIMIT * 0.9) // len(environments)
    # Whoever reaches one of them can have it run anything, and other users reach loopback as well.
    ours = {**_PRIVATE, "protocol": "tls", "security": _dd.Security.temporary()}
    common = {
        "nthreads": AT_HAND,
        "memory_limit": share,
        **ours,
        "silence_logs": logging.ERROR,
        **options,
    }
    end_if_new()
    try:
        with dask_config.set({**_ROUTES, **_QUIET, **_UNPAUSED, _METHOD: method}):
            return _Processes(
                scheduler={"cls": _dd.Scheduler, "options": {**ours, "port": 0}},
                workers={
                    index: {"cls": _dd.Nanny, "options": {**common, "env": dict(environment)}}
                    for index, environment in enumerate(environments)
                },
                security=ours["security"],
                silence_logs=logging.CRITICAL,
            )
    except RuntimeError as error:
        raise ClusterError(
            f"The {len(environments)} worker processes did not start: {error}",
            hint="New processes run the script again that starts them: put what it does under"
            " if __name__ == '__main__':, or start a cluster before and name its address.",
        ) from None


class _Processes(_dd.SpecCluster):
    """Processes that are replaced when they end, however long that takes and however often.

    Dask would give a process up that is away 15 seconds after it ended: one that takes longer to
    start again, or that ended again just then.
    """

    def __init__(self, **options: Any) -> None:
        parent: Any = super()
        try:
            parent.__init__(**options)
        except KeyboardInterrupt:  # Dask forgets those that have not started yet
            with contextlib.suppress(Exception):
                cast("Any", self).sync(self._end)
                cast("Any", self).close(timeout=_END_SECONDS)
            raise

    async def _end(self) -> None:
        created: list[Any] = [*cast("Any", self)._created]  # noqa: SLF001 - an attribute of its own
        ended = (nanny.close(timeout=_END_SECONDS) for nanny in created)
        await asyncio.gather(*ended, return_exceptions=True)

    def worker_pids(self) -> list[int]:
        """Return the numbers of the processes that run now."""
        nannies: list[Any] = [*cast("Any", self).workers.values()]
        return [nanny.pid for nanny in nannies if nanny.pid]

    def _update_worker_status(self, op: str, msg: Any) -> None:
        super(_dd.SpecCluster, self)._update_worker_status(op, msg)


def _free(worker: Mapping[str, Any], workers: int) -> int:
    """Return the bytes that a worker may still take.

    One that has kept much of earlier work may take a little nevertheless: else it would refuse
    everything for ever, as nobody would start it anew.
    """
    limit = int(worker.get("memory_limit") or 0) or host_memory() // workers
    used = int(worker.get("metrics", {}).get("memory", 0))
    return max(int(limit * _LEAST_SHARE), int(limit * _SHARE) - used)
