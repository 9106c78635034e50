"""What this machine has, told without loading a GPU library, and the commands of its workers."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = [
    "QUIET",
    "cores",
    "default_workers",
    "free_port",
    "gpu_count",
    "is_listening",
    "scheduler_command",
    "worker_command",
    "worker_environment",
]

_CORES_PER_WORKER = 2
_SHARE = 0.9
_BLOCKS_AT_HAND = 2  # one is computed while another is read or written


QUIET = {"DASK_LOGGING__DISTRIBUTED": "warning"}


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


def scheduler_command(host: str, port: int) -> list[str]:
    """Give the command of a scheduler. Its status page stays on this machine."""
    return [
        *(sys.executable, "-m", "distributed.cli.dask_scheduler"),
        *("--host", host, "--port", str(port)),
        *("--no-dashboard", "--dashboard-address", "127.0.0.1:0"),
    ]


def worker_command(
    scheduler: str, name: str, *, beside: int, gpu: bool, host: str | None = None
) -> list[str]:
    """Give the command of one worker process, of which `beside` share this machine's memory."""
    command = [
        *(sys.executable, "-m", "distributed.cli.dask_worker", scheduler),
        *(
            "--no-nanny",
            "--nthreads",
            str(_BLOCKS_AT_HAND),
            "--memory-limit",
            f"{_SHARE / beside:.4f}",
        ),
        *("--name", name, "--no-dashboard", "--dashboard-address", "127.0.0.1:0"),
        *("--death-timeout", "60"),
        *("--local-directory", str(Path(tempfile.gettempdir()) / "halocline-workers")),
    ]
    if host is not None:
        command += ["--host", host]
    return [*command, "--resources", "GPU=1"] if gpu else command


def worker_environment(*, gpu: int | None, threads: int) -> dict[str, str]:
    """Give what a worker's environment has besides ours: its one device, its threads."""
    pinned = "" if gpu is None else _device(gpu)
    return {
        **QUIET,
        "CUDA_VISIBLE_DEVICES": pinned,
        "NUMBA_NUM_THREADS": str(threads),
        "OMP_NUM_THREADS": str(threads),
    }


def _device(index: int) -> str:
    """Name the index-th of the devices that we may use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return str(index) if visible is None else visible.split(",")[index].strip()
