"""Resources of this machine, found without a GPU library, and commands of its workers."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from halocline_service.identity import Identity, read_identity
from halocline_service.settings import Settings

__all__ = [
    "address_towards",
    "answers",
    "cluster_environment",
    "cores",
    "default_workers",
    "free_port",
    "gpu_count",
    "host_and_port",
    "is_listening",
    "join_cluster",
    "memory",
    "scheduler_command",
    "worker_command",
    "worker_environment",
    "worker_memory",
]

_CORES_PER_WORKER = 2
_SHARE = 0.9
_BLOCKS_AT_HAND = 2  # of each job: one is computed while another is read or written
_ANSWER_SECONDS = 4.0
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

# A worker that compiles on a busy machine is silent for long and healthy. So silence alone loses no
# worker soon: a process that ends closes its connections, one that is stopped is ended by its
# supervisor, and a machine that is gone no longer acknowledges packets, which needs no process.
_DASK = {
    "DASK_LOGGING__DISTRIBUTED": "warning",
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "300s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "12s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "30s",
    # Workers keep no results, so a pause would free nothing; the supervisor bounds their memory.
    **{
        f"DASK_DISTRIBUTED__WORKER__MEMORY__{each}": "False"
        for each in ("TARGET", "SPILL", "PAUSE")
    },
    "DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES": "['distributed.http.health']",
    "DASK_DISTRIBUTED__WORKER__HTTP__ROUTES": "['distributed.http.health']",
}


def cluster_environment(identity: Identity) -> dict[str, str]:
    """Give what the environment of every process of the cluster has besides ours."""
    return {**_DASK, **identity.environment()}


def join_cluster(settings: Settings) -> None:
    """Have Dask show the cluster's certificate here, and in processes that this one starts.

    Dask reads it when it is loaded. Raises `IdentityError`.
    """
    if settings.scheduler is not None and settings.scheduler.startswith("tls://"):
        identity = read_identity(settings.identity_file, settings.tls_trusted)
        os.environ.update(cluster_environment(identity))


def memory() -> int:
    """Give the bytes of memory that the processes of this machine may take together."""
    found = [psutil.virtual_memory().total]
    for path in map(Path, _CGROUPS):
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            found.append(int(text))
    return min(found)


def worker_memory(beside: int) -> int:
    """Give the bytes that one of `beside` workers may take."""
    return int(memory() * _SHARE) // beside


def cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_workers() -> int:
    """Give the number of CPU workers: each has two cores, or there is one."""
    return max(1, cores() // _CORES_PER_WORKER)


def gpu_count() -> int:
    """Count NVIDIA GPUs that this process may use, by asking `nvidia-smi`."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return 0
    try:
        listed = subprocess.run(
            [program, "--list-gpus"], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    found = sum(line.startswith("GPU ") for line in listed.stdout.splitlines())
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return (
        found if visible is None else min(found, len([part for part in visible.split(",") if part]))
    )


def free_port(host: str) -> int:
    """Find a port that nothing listens on now."""
    with socket.create_server((host, 0)) as server:
        return int(server.getsockname()[1])


def is_listening(host: str, port: int) -> bool:
    """Say whether something accepts connections."""
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def host_and_port(address: str) -> tuple[str, int]:
    """Split the address of a scheduler. Raises `ValueError` where it has no host or no port."""
    parts = urlsplit(address)
    if parts.scheme not in ("tls", "tcp") or not parts.hostname or not parts.port:
        raise ValueError(
            f"The address of a scheduler must be like 'tls://host:8786', got '{address}'."
        )
    return parts.hostname, parts.port


def address_towards(host: str) -> str:
    """Give the address of this machine by which it reaches another one; nothing is sent."""
    family, kind, _, _, there = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(there)
        return str(probe.getsockname()[0])


def answers(host: str, port: int, identity: Identity) -> bool:
    """Say whether a process of our cluster answers: it trusts us, and we trust it."""
    try:
        with (
            socket.create_connection((host, port), timeout=_ANSWER_SECONDS) as plain,
            identity.context().wrap_socket(plain) as secured,
        ):
            return bool(secured.recv(1))  # Dask speaks first, to those whom it trusts
    except (OSError, ssl.SSLError):
        return False


def scheduler_command(host: str, port: int) -> list[str]:
    """Give the command of a scheduler. Its status page stays on this machine."""
    return [
        *(sys.executable, "-m", "distributed.cli.dask_scheduler"),
        *("--protocol", "tls", "--host", host, "--port", str(port)),
        *("--no-dashboard", "--dashboard-address", "127.0.0.1:0"),
        *("--preload", "halocline_service.logs"),
    ]


def worker_command(
    scheduler: str,
    *,
    memory: int,
    jobs: int,
    folder: Path,
    gpu: bool,
    host: str | None = None,
) -> list[str]:
    """Give the command of one worker process, which has the blocks of some jobs at hand.

    It is named by its address, which no other worker of the scheduler has.
    """
    command = [
        *(sys.executable, "-m", "distributed.cli.dask_worker", scheduler),
        *(
            "--no-nanny",
            "--nthreads",
            str(_BLOCKS_AT_HAND * jobs),
            "--memory-limit",
            str(memory),
        ),
        *("--no-dashboard", "--dashboard-address", "127.0.0.1:0"),
        *("--death-timeout", "60", "--preload", "halocline_service.lifetime"),
        *("--preload", "halocline_service.logs"),
        *("--local-directory", str(folder)),
    ]
    if host is not None:
        command += ["--host", host]
    return [*command, "--resources", "GPU=1"] if gpu else command


def worker_environment(
    cluster: Mapping[str, str], *, gpu: int | None, threads: int
) -> dict[str, str]:
    """Give what a worker's environment has besides ours: its cluster, its device, its threads."""
    pinned = "" if gpu is None else _device(gpu)
    return {
        **cluster,
        "CUDA_VISIBLE_DEVICES": pinned,
        "NUMBA_NUM_THREADS": str(threads),
        "OMP_NUM_THREADS": str(threads),
    }


def _device(index: int) -> str:
    """Name the index-th of the devices that we may use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return str(index) if visible is None else visible.split(",")[index].strip()
