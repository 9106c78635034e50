"""The only worker is killed, and one with another address takes over: the run goes on."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from halocline_engine.distribute.events import BlockFinished, Event
from halocline_engine.distribute.options import Options
from halocline_engine.run import run

SPREAD = """
def spread(inp: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = inp + 0.1 * (inp[1, 0, 0] + inp[-1, 0, 0] - 2.0 * inp)
"""


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


def test_another_worker_takes_over(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    values = np.random.default_rng(0).random((60, 70))
    data = xr.Dataset({"inp": (("y", "x"), values)})
    expected = spread(data)
    with ExitStack() as stack:
        stack.enter_context(process("dask_scheduler", "--host", "127.0.0.1", "--port", str(port)))

        def worker(name: str) -> subprocess.Popen[bytes]:
            folder = str(tmp_path / name)
            options = ("--no-nanny", "--nthreads", "2", "--local-directory", folder)
            return stack.enter_context(process("dask_worker", address, *options))

        first = worker("first")
        seen: list[BlockFinished] = []

        def kill_the_first(event: Event) -> None:
            if isinstance(event, BlockFinished):
                seen.append(event)
            if len(seen) == 3 and first.poll() is None:
                first.kill()
                first.wait()
                threading.Timer(2.0, worker, ["second"]).start()

        result = spread(
            data,
            chunks={"x": 7},
            cluster=address,
            output=tmp_path / "out.zarr",
            on_event=kill_the_first,
        )
    assert result["out"].values.tobytes() == expected["out"].values.tobytes()
    assert len({event.worker for event in seen}) == 2


def spread(data: xr.Dataset, **options: Any) -> xr.Dataset:
    return run(
        SPREAD,
        data,
        boundary={"x": "periodic"},
        steps=12,
        feedback={"out": "inp"},
        target="cpu",
        options=Options(steps_per_pass=4),
        **options,
    )
