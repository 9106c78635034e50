"""Processes of a Dask cluster as a pool: the only place that knows `distributed`.

A block is one task, or a run of blocks where they overlap on each worker. Tasks go out as earlier
ones come back, a few to each worker, so that neither the scheduler nor the workers ever hold many.
A task whose worker dies is run again elsewhere, which is safe as it writes the same bytes to the
same regions.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

import distributed
from distributed.comm.core import CommClosedError
from distributed.system import MEMORY_LIMIT

from halocline_engine.backends.registry import AUTO, resolve
from halocline_engine.device.probe import device_count
from halocline_engine.distribute.partition import Block
from halocline_engine.distribute.pool import (
    POLL,
    Done,
    host_memory,
    usable_device_memory,
)
from halocline_engine.distribute.steps import Asked
from halocline_engine.distribute.task import BlockWork, Report, RunWork
from halocline_engine.distribute.visiting import shares
from halocline_engine.errors import ArgumentError, CancelledError, DeviceError, HaloclineError

__all__ = ["ClusterPool", "connect", "local_gpu_cluster", "start"]

_dd: Any = cast(Any, distributed)

# One block computes while another one is read or written.
_AT_HAND = 2
# The resource that workers with a device offer.
_DEVICE = "GPU"
# Dask pauses a worker at 80 % of its limit.
_SHARE = 0.75
_CONNECT_SECONDS = 20
_REFRESH_SECONDS = 1.0
_SETTLE_SECONDS = 300
# Processes of this machine talk to each other only, on ports that the system chooses.
_PRIVATE = {"host": "127.0.0.1", "dashboard": False, "dashboard_address": "127.0.0.1:0"}


class ClusterPool:
    """The workers of a scheduler that `client` is connected to.

    Where a target needs a device, only those that have one.
    """

    remote = True

    def __init__(self, client: Any) -> None:
        self.client = client
        self._chosen = _Workers(client, None)

    @property
    def workers(self) -> int:
        """How many processes there are now."""
        return len(self._chosen.now())

    @property
    def threads(self) -> int:
        """How many blocks a process has at hand at once."""
        return max(1, min(_AT_HAND, *(int(w["nthreads"]) for w in self._chosen.now().values())))

    @property
    def beside(self) -> int:
        """How many workers are on the machine that has most of them."""
        return max(Counter(worker["host"] for worker in self._chosen.now().values()).values())

    @property
    def memory(self) -> int:
        """Bytes that the blocks of one process may take, by the smallest worker."""
        workers = self._chosen.now()
        return min(_free(worker, len(workers)) for worker in workers.values())

    def resolve(self, target: str) -> str:
        """Return the name of a target: "auto" is cuda where any worker has a device.

        For cuda, workers without a device are left out from then on.
        """
        chosen = resolve(target) if target != AUTO else "cpu"
        if target not in (AUTO, "cuda"):
            return chosen
        counts = self._ask(device_count)
        with_device = frozenset(address for address, count in counts.items() if count)
        if with_device:
            self._chosen = self._chosen.among(with_device)
            return "cuda"
        if target == "cuda":
            raise DeviceError(
                "No worker of the cluster has a CUDA device.", hint="Use target='cpu'."
            )
        return "cpu"

    def device_memory(self, target: str) -> int | None:
        """Return the bytes that blocks may take on the smallest device of the workers."""
        if target != "cuda":
            return None
        return min(self._ask(usable_device_memory, target).values())

    def run(self, work: BlockWork, blocks: Sequence[Block], asked: Asked | None) -> Iterator[Done]:
        """Compute blocks on the workers."""
        whole = shares(blocks, work.runs) if isinstance(work, RunWork) else [(b,) for b in blocks]
        left = iter(whole)
        back: queue.SimpleQueue[Any] = queue.SimpleQueue()
        running: set[Any] = set()
        try:
            while True:
                for some in islice(left, max(0, _AT_HAND * self.workers - len(running))):
                    future = self._submit(_somewhere, work, some)
                    running.add(future)
                    future.add_done_callback(back.put)
                if not running:
                    return
                if asked is not None and asked():
                    raise CancelledError("The run was cancelled.")
                with contextlib.suppress(queue.Empty):
                    future = back.get(timeout=POLL)
                    running.discard(future)
                    reports, worker = self._result(future)
                    yield from (Done(report, worker) for report in reports)
        finally:
            if running and isinstance(work, RunWork):
                self.everywhere(work.stop)
            self._settle(running)

    def everywhere(self, function: Callable[[], None]) -> None:
        """Call a function once on every worker that answers; wait for none, as one may be gone."""
        with contextlib.suppress(Exception):
            self.client.run(_call, function, wait=False, on_error="ignore")

    def _submit(self, function: Any, *arguments: Any) -> Any:
        """Send work to the workers that may be used, and leave the choice to the scheduler.

        Workers are named by what they offer where that tells them apart: an address is a trap, as a
        worker that is started again has another one, and Dask lets work wait for the old one, even
        if others may do it and all of them were gone for a moment.
        """
        return self.client.submit(function, *arguments, pure=False, **self._chosen.demand())

    def _ask(self, function: Any, *arguments: Any) -> dict[str, Any]:
        """Run a function once on every worker."""
        futures = {
            address: self.client.submit(function, *arguments, pure=False, workers=[address])
            for address in self._chosen.now()
        }
        return {address: self._result(future) for address, future in futures.items()}

    def _result(self, future: Any) -> Any:
        try:
            return future.result()
        except HaloclineError:
            raise
        except _dd.KilledWorker as error:
            raise DeviceError(
                "Several workers died, one after the other, while they computed the same block.",
                hint="They may lack memory: give smaller 'chunks'.",
            ) from error
        except (_dd.CancelledError, OSError) as error:
            if _of_files(error):
                raise
            raise DeviceError(
                f"The cluster was lost during the run: {type(error).__name__}: {error}.",
                hint="Start it again, and run the job with the same workspace.",
            ) from error

    def _settle(self, running: Iterable[Any]) -> None:
        """Wait until nothing that was sent out is being written any more."""
        until = time.monotonic() + _SETTLE_SECONDS
        for future in running:
            with contextlib.suppress(Exception):
                future.exception(timeout=max(POLL, until - time.monotonic()))


def _of_files(error: BaseException) -> bool:
    """Whether an error is of the work's files: those of connections have no number, or a kind."""
    lost = (ConnectionError, TimeoutError, CommClosedError)
    return isinstance(error, OSError) and error.errno is not None and not isinstance(error, lost)


class _Workers:
    """The workers that may be used, looked up again from time to time as they come and go."""

    def __init__(self, client: Any, only: frozenset[str] | None, offer: str = "") -> None:
        self.client = client
        self._only = only
        self._offer = offer
        self._found: Mapping[str, Any] = {}
        self._looked = 0.0

    def now(self) -> Mapping[str, Any]:
        """Return the workers by address; raises `DeviceError` where there is none for long."""
        if time.monotonic() - self._looked < _REFRESH_SECONDS and self._found:
            return self._found
        until = time.monotonic() + _CONNECT_SECONDS
        while True:
            everyone = self.client.scheduler_info(n_workers=-1)["workers"]
            self._found = {
                address: facts for address, facts in everyone.items() if self._fits(address, facts)
            }
            self._looked = time.monotonic()
            if self._found:
                return self._found
            if self._looked > until:
                raise DeviceError(
                    "The cluster has no worker that can be used.",
                    hint="Start some workers.",
                )
            time.sleep(POLL)

    def among(self, addresses: frozenset[str]) -> _Workers:
        """Choose those of some addresses; by the resource that they alone offer, if they do."""
        offering = frozenset(
            a for a, facts in self.now().items() if facts.get("resources", {}).get(_DEVICE)
        )
        return _Workers(self.client, addresses, _DEVICE if offering == addresses else "")

    def demand(self) -> dict[str, Any]:
        """Return what `Client.submit` is told, so that these workers get the work."""
        if self._offer:
            return {"resources": {self._offer: 1 / _AT_HAND}}
        return {} if self._only is None else {"workers": sorted(self.now())}

    def _fits(self, address: str, facts: Mapping[str, Any]) -> bool:
        if self._offer:
            return bool(facts.get("resources", {}).get(self._offer))
        return self._only is None or address in self._only


async def _call(function: Callable[[], None]) -> None:
    """Call a function; only of what is a coroutine Dask does not wait for the end."""
    function()


def _somewhere(work: BlockWork, blocks: Sequence[Block]) -> tuple[Sequence[Report], str]:
    """Compute some blocks, and say on which worker."""
    together = work.together(blocks) if isinstance(work, RunWork) else [work.run(b) for b in blocks]
    return together, str(_dd.get_worker().address)


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
    try:
        client = _dd.Client(cluster, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise DeviceError(
            f"The scheduler '{cluster}' cannot be reached: {error}.",
            hint="Check its address.",
        ) from error
    with client:
        yield ClusterPool(client)


@contextlib.contextmanager
def start(workers: int, target: str) -> Generator[ClusterPool]:
    """Start worker processes on this machine, and end them afterwards."""
    if target == "cuda":
        cluster = local_gpu_cluster(workers)
    else:
        threads = str(max(1, len(os.sched_getaffinity(0)) // workers))
        cluster = _processes([_thread_environment(threads)] * workers)
    with cluster, _dd.Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(workers, timeout=120)
        yield ClusterPool(client)


def local_gpu_cluster(workers: int | None = None) -> Any:
    """Return a cluster with one worker process for each device of this machine, pinned to it.

    `workers` None takes all devices. Each worker has the Dask resource GPU=1.
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
    environments = [
        {"CUDA_VISIBLE_DEVICES": name, **_thread_environment("1")} for name in names[:wanted]
    ]
    return _processes(environments, resources={"GPU": 1})


def _thread_environment(threads: str) -> dict[str, str]:
    return {"NUMBA_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}


def _processes(environments: Sequence[Mapping[str, str]], **options: Any) -> Any:
    """Return a cluster of this machine with one worker process for each environment."""
    share = int(MEMORY_LIMIT * 0.9) // len(environments)
    common = {
        "nthreads": _AT_HAND,
        "memory_limit": share,
        **_PRIVATE,
        "silence_logs": logging.ERROR,
        **options,
    }
    return _dd.SpecCluster(
        scheduler={
            "cls": _dd.Scheduler,
            "options": {**_PRIVATE, "port": 0},
        },
        workers={
            index: {"cls": _dd.Nanny, "options": {**common, "env": dict(environment)}}
            for index, environment in enumerate(environments)
        },
        silence_logs=logging.ERROR,
    )


def _free(worker: Mapping[str, Any], workers: int) -> int:
    """Return the bytes that a worker may still take."""
    limit = int(worker.get("memory_limit") or 0) or host_memory() // workers
    used = int(worker.get("metrics", {}).get("memory", 0))
    return max(0, int(limit * _SHARE) - used)
