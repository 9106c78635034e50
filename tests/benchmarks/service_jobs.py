"""How long tiny jobs take through the whole service, and how many of them it does a second.

    python -m tests.benchmarks.service_jobs [--postgres] [--result FILE]

It starts an installation of its own on loopback. A job goes the way of a user's: the Python client
submits it and follows it to its end. `latency` is that of one job after the other, in milliseconds;
`rate` is of all jobs where several clients do so at once; `processor` is what each process took
for a job then, in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import xarray as xr

from halocline import Client
from halocline_service.machine import free_port

__all__ = ["main"]

_CODE = """
def smooth(t: Field[np.float64], smoothed: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        smoothed = 0.25 * (t[-1, 0, 0] + t[1, 0, 0] + t[0, -1, 0] + t[0, 1, 0])
"""
_STENCIL = {
    "program": _CODE,
    "dataset": "tiny.zarr",
    "target": "cpu",
    "boundary": {"x": "edge", "y": "edge"},
}
JOBS: dict[str, dict[str, Any]] = {"echo": {"string": "x"}, "stencil": _STENCIL}


@contextmanager
def installation(database: str | None) -> Generator[tuple[str, psutil.Process]]:
    """Run `up` with a tiny dataset; give its address and its process."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data")
        data.mkdir()
        values = np.random.default_rng(1).normal(size=(40, 50))
        dataset: Any = xr.Dataset({"t": (("y", "x"), values)})
        dataset.to_zarr(data / "tiny.zarr", zarr_format=3, consolidated=False)
        port = free_port("127.0.0.1")
        command = [sys.executable, "-m", "halocline_service.cli", "up", "--port", str(port)]
        command += ["--workers", "1", "--gpus", "0", "--data-dir", f"{folder}/state"]
        command += ["--data-root", str(data)]
        environment = dict(os.environ) | ({"HALOCLINE_DATABASE_URL": database} if database else {})
        with Path(folder, "log").open("wb") as log:
            up = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log
            )
        assert up.stdout is not None
        try:
            said = up.stdout.readline()
            assert b"Halocline is at" in said, Path(folder, "log").read_text()
            yield f"http://127.0.0.1:{port}", psutil.Process(up.pid)
        finally:
            up.terminate()
            up.wait()
            up.stdout.close()


def once(client: Client, process: str) -> float:
    """Submit a job and wait for its end; give the seconds."""
    start = time.perf_counter()
    status = client.submit(process, JOBS[process]).wait()
    assert status == "successful", status
    return time.perf_counter() - start


def at_once(url: str, process: str, jobs: int, clients: int) -> float:
    """Do jobs from several clients at once; give the seconds."""
    left = iter(range(jobs))
    lock = threading.Lock()

    def work() -> None:
        with Client(url, key="") as client:
            while True:
                with lock:
                    if next(left, None) is None:
                        return
                once(client, process)

    threads = [threading.Thread(target=work) for _ in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start


def taken(up: psutil.Process) -> dict[str, float]:
    """Give the processor seconds of each process of the installation, and ours, so far."""
    found = {"client": sum(psutil.Process().cpu_times()[:2])}
    for each in (up, *up.children(recursive=True)):
        words = [word for word in each.cmdline() if not word.startswith("-")]
        name = next((w for w in reversed(words) if w.isidentifier()), each.name())
        found[name] = found.get(name, 0.0) + sum(each.cpu_times()[:2])
    return found


def figures(url: str, up: psutil.Process, process: str, jobs: int, clients: int) -> dict[str, Any]:
    """Measure one kind of job."""
    with Client(url, key="") as client:
        for _ in range(10):
            once(client, process)
        seconds = sorted(once(client, process) for _ in range(jobs))
    before = taken(up)
    whole = at_once(url, process, jobs, clients)
    after = taken(up)
    spent = {name: (after[name] - before.get(name, 0.0)) / jobs * 1e3 for name in after}
    return {
        "latency": {
            "p50": round(statistics.median(seconds) * 1e3, 1),
            "p95": round(seconds[int(0.95 * jobs)] * 1e3, 1),
            "most": round(seconds[-1] * 1e3, 1),
        },
        "rate": round(jobs / whole, 1),
        "processor": {name: round(ms, 1) for name, ms in spent.items() if ms >= 0.1},
    }


@contextmanager
def _database(*, postgres: bool) -> Generator[str | None]:
    if not postgres:
        yield None
        return
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
    from postgres import binaries, running

    programs = binaries()
    assert programs is not None, "There is no PostgreSQL server: install Debian's 'postgresql'."
    with running(programs) as server:
        yield server.url(server.create())


def main() -> None:
    """Measure, print, and write the figures."""
    parser = argparse.ArgumentParser(description="Tiny jobs through the whole service.")
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--result", type=Path)
    asked = parser.parse_args()
    with _database(postgres=asked.postgres) as url, installation(url) as (address, up):
        found = {name: figures(address, up, name, asked.jobs, asked.clients) for name in JOBS}
    text = json.dumps(found, indent=2)
    print(text)
    if asked.result:
        asked.result.write_text(text + "\n")


if __name__ == "__main__":
    main()
