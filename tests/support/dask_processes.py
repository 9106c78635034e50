"""A Dask scheduler and workers as processes of their own, which a test kills and starts."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path


@contextmanager
def process(module: str, *arguments: str) -> Generator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", f"distributed.cli.{module}", *arguments]
    command += ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
    started = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def _wait_for(host: str, port: int, seconds: float = 60) -> None:
    """Return when something listens: a run refuses an address at once where nothing does."""
    end = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection((host, port), 1).close()
        except OSError:
            assert time.monotonic() < end, f"nothing listens at {host}:{port}"
            time.sleep(0.05)
        else:
            return


class Cluster:
    """A scheduler and workers as processes, which end with the stack."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = str(server.getsockname()[1])
        self.address = f"tcp://127.0.0.1:{port}"
        self._stack = stack
        self._folder = folder
        self.scheduler = stack.enter_context(
            process("dask_scheduler", "--host", "127.0.0.1", "--port", port)
        )
        _wait_for("127.0.0.1", int(port))

    def worker(self, name: str) -> subprocess.Popen[bytes]:
        options = ("--no-nanny", "--nthreads", "2", "--host", "127.0.0.1")
        folder = ("--local-directory", str(self._folder / name))
        return self._stack.enter_context(process("dask_worker", self.address, *options, *folder))
