"""Kill every process of an installation again and again while jobs run, and look at the jobs.

    python deploy/try-chaos.py --jobs 250 --every 7            # SQLite
    python deploy/try-chaos.py --jobs 250 --every 7 --postgres # a server of its own, killed as well
    python deploy/try-chaos.py --minutes 10 --every 5          # as many jobs as that takes

It starts its own installation in a temporary folder, on loopback. Every job must end, once, with
the bits that it has without kills. Needs 'halocline[dev]' and this repository; the status is 1
where one does not.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import xarray as xr

from halocline_service.machine import free_port

_ROOT = Path(__file__).resolve().parents[1]
_CODE = """
def smooth(t: Field[np.float64], smoothed: Field[np.float64], strength: float):
    with computation(PARALLEL), interval(...):
        around = t[-1, 0, 0] + t[1, 0, 0] + t[0, -1, 0] + t[0, 1, 0]
        smoothed = t + strength * (around - 4.0 * t)
"""
_STENCIL: dict[str, Any] = {
    "program": _CODE,
    "dataset": "chaos.zarr",
    "scalars": {"strength": 0.2},
    "boundary": {"x": "periodic", "y": "edge"},
    "target": "cpu",
}
_WRONG = ("lost", "doubled", "wrong", "given up", "refused")  # the last one are workers
_FEW = 12  # jobs that are left when others are submitted
_PATIENCE = 180.0  # seconds without a job that ends


def kinds(steps: int) -> dict[str, tuple[str, dict[str, Any]]]:
    """Give six kinds of jobs: a process and its inputs."""
    names = {"lower": "a", "diagonal": "b", "upper": "c", "rhs": "t", "dim": "y"}
    data = {"dataset": "chaos.zarr", "target": "cpu"}
    product = {"left": "m", "right": "m2", "dim": "k"}
    return {
        "echo": ("echo", {"string": "x", "pause": 1}),
        "stencil": ("stencil", {**_STENCIL, "chunks": {"y": 100}}),
        "steps": ("stencil", {**_STENCIL, "steps": steps, "feedback": {"smoothed": "t"}}),
        "tridiagonal": ("tridiagonal", {**data, **names}),
        "gather": ("gather", {**data, "source": "t", "index": "i", "dim": "x"}),
        "matmul": ("matmul", {**data, **product}),
    }


def write_dataset(folder: Path, side: int) -> None:
    """Write the dataset that all jobs read."""
    numbers = np.random.default_rng(1)
    plane = ("y", "x")

    def drawn() -> tuple[tuple[str, str], Any]:
        return plane, numbers.normal(size=(side, side))

    dataset = xr.Dataset(
        {
            **{name: drawn() for name in ("t", "a", "c")},
            "b": (plane, 10.0 + numbers.random((side, side))),
            "i": ("chosen", numbers.integers(0, side, size=side // 2)),
            "m": (("row", "k"), numbers.normal(size=(side, 64))),
            "m2": (("k", "column"), numbers.normal(size=(64, side))),
        }
    )
    any_dataset: Any = dataset
    any_dataset.chunk({"y": max(1, side // 4)}).to_zarr(
        folder / "chaos.zarr", zarr_format=3, consolidated=False
    )


@dataclass
class Installation:
    """The processes of an installation, each started again a second after it ended."""

    folder: Path
    url: str
    commands: dict[str, list[str]]
    environment: dict[str, str]
    server: Any = None
    running: dict[str, subprocess.Popen[bytes]] = field(
        default_factory=dict[str, "subprocess.Popen[bytes]"]
    )
    ended: dict[str, float] = field(default_factory=dict[str, float])
    kills: Counter[str] = field(default_factory=Counter[str])

    def tend(self) -> None:
        """Start what is not there."""
        for name, command in self.commands.items():
            process = self.running.get(name)
            if process is not None and process.poll() is None:
                continue
            if time.monotonic() - self.ended.setdefault(name, float("-inf")) < 1.0:
                continue
            with (self.folder / f"{name}.log").open("ab") as log:
                self.running[name] = subprocess.Popen(
                    command, env=self.environment, stdout=log, stderr=log, start_new_session=True
                )
            self.ended[name] = float("inf")
        for name, process in self.running.items():
            if process.poll() is not None and self.ended[name] == float("inf"):
                self.ended[name] = time.monotonic()

    def kill(self, name: str) -> None:
        """End a process, and all that it started, with SIGKILL."""
        self.kills[name] += 1
        if name == "database":
            self.server.crash()
            self.server.start()
            return
        process = self.running.get(name)
        if process is not None and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def close(self) -> None:
        """End everything."""
        for process in self.running.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def install(folder: Path, url: str | None, *, workers: int) -> Installation:
    """Describe an installation; nothing is started yet."""
    port, scheduler = free_port("127.0.0.1"), free_port("127.0.0.1")
    address = f"tls://127.0.0.1:{scheduler}"
    own = [sys.executable, "-m", "halocline_service.cli"]
    worker = [*own, "worker", "--scheduler", address]
    commands = {
        "scheduler": [*own, "scheduler", "--port", str(scheduler)],
        **{f"worker-{number}": worker for number in range(workers)},
        "dispatcher": [*own, "dispatcher"],
        "api": [*own, "api"],
    }
    environment = {
        **os.environ,
        "HALOCLINE_DATA_DIR": str(folder / "state"),
        "HALOCLINE_DATA_ROOTS": str(folder / "data"),
        "HALOCLINE_SCHEDULER": address,
        "HALOCLINE_PORT": str(port),
        "HALOCLINE_CONCURRENCY": "3",
        "HALOCLINE_QUEUE_PER_OWNER": "100000",
        "NUMBA_NUM_THREADS": "1",
    }
    if url is not None:
        environment["HALOCLINE_DATABASE_URL"] = url
    for command in ("migrate", "certificate"):
        subprocess.run([*own, command], env=environment, check=True, stdout=subprocess.DEVNULL)
    return Installation(folder, f"http://127.0.0.1:{port}", commands, environment)


class Asker:
    """Asks the API, and again where it is away."""

    def __init__(self, here: Installation) -> None:
        self._here = here
        self._http = httpx2.Client(base_url=here.url, timeout=20.0, trust_env=False)

    def __call__(self, method: str, path: str, **given: Any) -> Any:
        """Give the JSON of an answer."""
        end = time.monotonic() + _PATIENCE
        while True:
            self._here.tend()
            try:
                answer = self._http.request(method, path, **given)
                if answer.status_code < 500:
                    assert answer.is_success, answer.text
                    return answer.json()
            except httpx2.TransportError:
                pass
            assert time.monotonic() < end, f"{method} {path} is not answered"
            time.sleep(0.2)

    def submit(self, process: str, inputs: dict[str, Any]) -> str:
        """Submit a job once, however often it is sent."""
        headers = {"Prefer": "respond-async", "Idempotency-Key": str(uuid.uuid4())}
        path = f"/processes/{process}/execution"
        return str(self("POST", path, json={"inputs": inputs}, headers=headers)["jobID"])


def bits(here: Installation, job: str) -> dict[str, bytes]:
    """Give what a job's result holds."""
    opened: Any = xr
    found = next((here.folder / "state" / "jobs" / job).glob("attempt-*/result.zarr"), None)
    if found is None:
        return {}
    with opened.open_zarr(found, chunks=None, consolidated=True) as result:
        return {name: values.values.tobytes() for name, values in result.data_vars.items()}


def run_jobs(
    here: Installation,
    ask: Asker,
    jobs: list[str],
    asked: argparse.Namespace,
    more: Callable[[], list[str]] | None = None,
) -> float:
    """Wait until all jobs have ended, with a kill from time to time; give how long it took.

    `more` submits others where few are left, until it is time; without it nothing is killed.
    """
    every = None if more is None else asked.every
    until = time.monotonic() + 60.0 * asked.minutes
    chance = random.Random(asked.seed)
    began = last = time.monotonic()
    names = [*here.commands, *(["database"] if here.server else [])]
    order: list[str] = []
    next_kill = began
    left = len(jobs)
    while left:
        here.tend()
        most = asked.kills is not None and sum(here.kills.values()) >= asked.kills
        if every is not None and not most and time.monotonic() >= next_kill:
            order = order or chance.sample(names, len(names))
            here.kill(order.pop())
            next_kill = time.monotonic() + every
        found = ask("GET", "/jobs", params={"status": "accepted,running", "limit": 1000})["jobs"]
        if len(found) < left:
            last = time.monotonic()
        left = len(found)
        if more is not None and left < _FEW and time.monotonic() < until:
            jobs += more()
            left = len(jobs)
        assert time.monotonic() - last < _PATIENCE, f"No job ended for {_PATIENCE} s: {found[:3]}"
        time.sleep(0.1)
    return time.monotonic() - began


def submitted(ask: Asker, turns: Iterator[tuple[str, dict[str, Any]]], count: int) -> list[str]:
    """Submit so many jobs of the kinds whose turn it is."""
    return [ask.submit(*next(turns)) for _ in range(count)]


def judged(here: Installation, ask: Asker, jobs: list[str], expected: list[Any]) -> dict[str, int]:
    """Count what is wrong with jobs that have ended."""
    wrong: dict[str, int] = dict.fromkeys(_WRONG[:4], 0)
    listed = set(every_job(ask))
    for number, job in enumerate(jobs):
        if job not in listed:
            wrong["lost"] += 1
            continue
        document = ask("GET", f"/jobs/{job}")
        if document["status"] != "successful":
            wrong["given up"] += 1
            print(f"job {job}: {document['message']}")
        elif bits(here, job) != expected[number % len(expected)]:
            wrong["wrong"] += 1
    # What was submitted once is there once.
    wrong["doubled"] = len(listed) - len(expected) - len(listed & set(jobs))
    return wrong


def every_job(ask: Asker) -> Iterator[str]:
    """Give the identifiers of all jobs."""
    page: dict[str, Any] = {"limit": 100}
    while found := [each["jobID"] for each in ask("GET", "/jobs", params=page)["jobs"]]:
        yield from found
        page["before"] = found[-1]


@contextlib.contextmanager
def database(*, postgres: bool) -> Generator[tuple[Any, str | None]]:
    """Give a PostgreSQL server and its address, or neither."""
    if not postgres:
        yield None, None
        return
    sys.path.insert(0, str(_ROOT / "tests" / "support"))
    from postgres import binaries, running

    programs = binaries()
    assert programs is not None, "There is no PostgreSQL server: install Debian's 'postgresql'."
    with running(programs) as server:
        yield server, server.url(server.create())


def try_it(asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run jobs without kills, then with them; give the figures."""
    (folder / "data").mkdir()
    write_dataset(folder / "data", asked.side)
    with database(postgres=asked.postgres) as (server, url):
        here = install(folder, url, workers=asked.workers)
        here.server = server
        try:
            ask = Asker(here)
            wanted = kinds(asked.steps)
            turns = itertools.cycle(wanted.values())
            first = submitted(ask, turns, len(wanted))
            run_jobs(here, ask, first, asked)  # compiles what is compiled once
            expected = [bits(here, job) for job in first]
            assert sum(not each for each in expected) == 1, "Only 'echo' writes no files."
            calm_jobs = submitted(ask, turns, asked.calm)
            calm = run_jobs(here, ask, calm_jobs, asked)
            jobs = submitted(ask, turns, asked.jobs)
            chaos = run_jobs(here, ask, jobs, asked, lambda: submitted(ask, turns, len(wanted)))
            wrong = judged(here, ask, calm_jobs + jobs, expected)
        finally:
            here.close()
        said = (folder / "scheduler.log").read_text(errors="replace")
    ratio = (len(jobs) / chaos) / (asked.calm / calm)
    return {
        **wrong,
        "refused": said.count("duplicate name"),
        "jobs": len(jobs),
        "kills": dict(here.kills),
        "seconds": round(chaos, 1),
        "throughput": round(ratio, 2),
    }


def main(arguments: list[str] | None = None) -> int:
    """Try it, print the figures, and give the status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--jobs", type=int, default=250)
    parser.add_argument("--calm", type=int, default=60, help="jobs without kills, to compare")
    parser.add_argument("--every", type=float, default=7.0, help="seconds between two kills")
    parser.add_argument("--minutes", type=float, default=0.0, help="for which jobs are submitted")
    parser.add_argument("--kills", type=int, help="kills after which there are no more")
    parser.add_argument("--throughput", type=float, default=0.5, help="least part of that in calm")
    parser.add_argument("--steps", type=int, default=400, help="of the long jobs")
    parser.add_argument("--side", type=int, default=400, help="points on a side of the dataset")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="halocline-chaos-"))
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        figures = try_it(asked, folder)
    except BaseException:
        print(f"What the processes said is in {folder}.", file=sys.stderr)
        raise
    print(json.dumps(figures))
    well = not any(figures[name] for name in _WRONG)
    if not well:
        print(f"What the processes said is in {folder}.", file=sys.stderr)
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    return 0 if figures["throughput"] >= asked.throughput else 1


if __name__ == "__main__":
    sys.exit(main())
