"""Keep the workers of an installation busy, starved or stopped, and count those that are lost.

    python deploy/try-workers.py --load 12 --minutes 10 --stop 10     # costs no worker
    python deploy/try-workers.py --stop 60 --within 45 --lost 1       # on a quiet machine

It starts its own installation in a temporary folder, on loopback, and so many processes beside it
that each keep a core busy. Small jobs follow each other, each with a program that is compiled anew.
In the middle a worker is stopped for some seconds by SIGSTOP, and a job sent that must end soon.
Needs 'halocline[dev]'; the status is 1 where more workers are lost, or a job fails or takes longer.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import psutil
import xarray as xr

from halocline_service.machine import free_port

_CODE = """
def scaled(t: Field[np.float64], out: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        near = t[-1, 0, 0] + t[1, 0, 0] + t[0, -1, 0] + t[0, 1, 0]
        out = {factor} * t + 0.25 * near
"""
_OF_WORKERS = re.compile(r"Worker .* ended|.*failed to heartbeat|.*[Pp]ausing worker")
_START_SECONDS = 180.0
_JOB_SECONDS = 300.0


@dataclass
class Installation:
    """An installation of its own, and the workers that it has had."""

    folder: Path
    workers: int
    url: str = ""
    process: Any = None
    seen: set[int] = field(default_factory=set[int])

    def __enter__(self) -> Installation:
        port = free_port("127.0.0.1")
        self.url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "halocline_service.cli", "up", "--port", str(port)]
        command += ["--gpus", "0", "--workers", str(self.workers)]
        command += ["--data-dir", str(self.folder / "state")]
        command += ["--data-root", str(self.folder / "data")]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        end = time.monotonic() + _START_SECONDS
        while b"Halocline is at" not in self.log.read_bytes():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.2)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    @property
    def log(self) -> Path:
        """Path of the log of all processes."""
        return self.folder / "log"

    def find_workers(self) -> list[psutil.Process]:
        """Return the processes of workers, and remember them."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        workers: list[psutil.Process] = []
        for child in children:
            with contextlib.suppress(psutil.Error):
                if any("dask_worker" in word for word in child.cmdline()):
                    workers.append(child)
        self.seen |= {worker.pid for worker in workers}
        return workers


@contextlib.contextmanager
def busy(count: int) -> Generator[None]:
    """Keep so many processes computing meanwhile."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


class Client:
    """Sends small jobs, each with a program of its own."""

    def __init__(self, url: str) -> None:
        self._http = httpx2.Client(base_url=url, timeout=120.0, trust_env=False)
        self._sent = 0
        self._lock = threading.Lock()
        self.failed: list[str] = []
        self.took: list[float] = []

    def compute(self) -> float:
        """Return the seconds that a job took; one that fails is remembered."""
        with self._lock:
            self._sent += 1
            program = _CODE.format(factor=f"{self._sent}.125")
        inputs = {
            "program": program,
            "dataset": "small.zarr",
            "boundary": {"x": "edge", "y": "edge"},
        }
        began = time.monotonic()
        answer = self._http.post(
            "/processes/stencil/execution",
            json={"inputs": {**inputs, "target": "cpu"}},
            headers={"Prefer": "respond-async"},
        )
        assert answer.status_code == 201, answer.text
        path = f"/jobs/{answer.json()['jobID']}"
        while True:
            job = self._http.get(path).json()
            seconds = time.monotonic() - began
            if job["status"] == "successful":
                break
            if job["status"] == "failed" or seconds > _JOB_SECONDS:
                self.failed.append(f"{path} after {seconds:.0f} s: {job['message']}")
                break
            time.sleep(0.1)
        self.took.append(seconds)
        return seconds


def stop_a_worker(here: Installation, client: Client, seconds: float) -> float:
    """Stop a worker for some seconds; return how long a job takes that is sent meanwhile."""
    worker = here.find_workers()[0]

    def pause() -> None:
        time.sleep(seconds)
        with contextlib.suppress(psutil.Error):
            worker.resume()

    worker.suspend()
    resuming = threading.Thread(target=pause)
    resuming.start()
    took = client.compute()
    resuming.join()
    return took


def try_it(asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run jobs, and give the figures."""
    (folder / "data").mkdir()
    values = np.random.default_rng(1).normal(size=(8, 8))
    dataset: Any = xr.Dataset({"t": (("y", "x"), values)})
    dataset.to_zarr(folder / "data" / "small.zarr", zarr_format=3, consolidated=False)
    rescued: float | None = None
    with Installation(folder, asked.workers) as here, busy(asked.load):
        client = Client(here.url)
        here.find_workers()
        client.compute()
        began = time.monotonic()
        until = began + 60.0 * asked.minutes
        while time.monotonic() < until or (asked.stop and rescued is None):
            if asked.stop and rescued is None and time.monotonic() >= (began + until) / 2:
                rescued = stop_a_worker(here, client, asked.stop)
            else:
                client.compute()
            here.find_workers()
        here.find_workers()
        said = here.log.read_text(errors="replace")
    return {
        "jobs": len(client.took),
        "failed": client.failed,
        "longest": round(max(client.took), 1),
        "rescued": None if rescued is None else round(rescued, 1),
        "lost": len(here.seen) - asked.workers,
        "said": [line for line in said.splitlines() if _OF_WORKERS.match(line)],
        "load": [round(load, 1) for load in os.getloadavg()],
    }


def main(arguments: list[str] | None = None) -> int:
    """Try it, print the figures, and give the status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--load", type=int, default=0, help="processes that keep a core busy")
    parser.add_argument("--minutes", type=float, default=0.0, help="of jobs, one after the other")
    parser.add_argument("--stop", type=float, default=0.0, help="seconds that a worker is stopped")
    parser.add_argument("--within", type=float, help="seconds for a job that is sent meanwhile")
    parser.add_argument("--lost", type=int, default=0, help="workers that may be lost")
    parser.add_argument("--workers", type=int, default=1)
    asked = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="halocline-workers-"))
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        figures = try_it(asked, folder)
    except BaseException:
        print(f"What the processes said is in {folder}.", file=sys.stderr)
        raise
    print(json.dumps(figures))
    shutil.rmtree(folder, ignore_errors=True)
    is_late = asked.within is not None and figures["rescued"] > asked.within
    return 1 if figures["failed"] or figures["lost"] > asked.lost or is_late else 0


if __name__ == "__main__":
    sys.exit(main())
