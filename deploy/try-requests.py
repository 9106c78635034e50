"""Attacks an installation by requests, as a user with an API key could, and says what held.

    python deploy/try-requests.py                  attacks one that it starts in a temporary folder
    python deploy/try-requests.py URL --key ATTACKER --victim VICTIM [--up PID]

`ATTACKER` and `VICTIM` are API keys of two owners (left out where the service asks for none). Each
attack has fewer than 100 requests: half-open connections, faults without number, long lists,
waiting jobs, datasets that declare more than any memory holds, chunks that decode to more than
they declare, programs that take long to plan. Meanwhile the victim is answered within a second,
and its job starts within 10 s. With `--up`, the processes of a `halocline-server up` are watched:
none ends, and none takes more than its limit and 256 MB. It takes half a minute, and removes what
it sent. Status 1 where something did not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import httpx2
import numcodecs.zstd
import psutil

_HALF_OPEN = 300
_MOST_BYTES = 256 * 2**20
_START_SECONDS = 10.0
#: What a chunk of 8 MB that is sent as some kilobytes decodes to.
_BOMB_BYTES = 2**29
_OWN = (sys.executable, "-m", "halocline_service.cli")
_OWN_LIMITS = {
    "HALOCLINE_WORKER_MEMORY_BYTES": str(2**30),
    "HALOCLINE_ATTEMPT_MEMORY_BYTES": str(2**30),
}


@dataclass(frozen=True)
class Finding:
    """What was tried, whether it held, and what was seen."""

    what: str
    held: bool
    seen: str


@dataclass(frozen=True)
class Target:
    """A service, and who asks."""

    url: str
    attacker: httpx2.Client
    victim: httpx2.Client
    answer_seconds: float

    def connect(self) -> socket.socket:
        """Open a connection without a request."""
        parts = urlsplit(self.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return socket.create_connection((str(parts.hostname), port), timeout=10)

    @property
    def host(self) -> str:
        """The host as requests name it."""
        return urlsplit(self.url).netloc


@contextmanager
def half_headers(target: Target) -> Generator[None]:
    """Send the beginning of a request on each of many connections."""
    with ExitStack() as opened:
        for _ in range(_HALF_OPEN):
            with suppress(OSError):
                peer = opened.enter_context(closing(target.connect()))
                peer.sendall(f"GET /livez HTTP/1.1\r\nHost: {target.host}\r\nX-".encode())
        yield


@contextmanager
def half_bodies(target: Target) -> Generator[None]:
    """Announce bodies and send a part of each."""
    with ExitStack() as opened:
        for _ in range(40):
            with suppress(OSError):
                peer = opened.enter_context(closing(target.connect()))
                key = target.attacker.headers.get("Authorization", "")
                head = f"POST /processes/echo/execution HTTP/1.1\r\nHost: {target.host}\r\n"
                head += f"Authorization: {key}\r\nContent-Type: application/json\r\n"
                peer.sendall(f"{head}Content-Length: 900000\r\n\r\n".encode() + b" " * 500_000)
        yield


@contextmanager
def wide_requests(target: Target) -> Generator[None]:
    """Send requests with faults without number, several at a time."""
    wide = {"boundary": {str(number): [0] for number in range(60_000)}}
    body = json.dumps({"inputs": {"program": "x", "dataset": "y"} | wide})
    with at_once(30, lambda: post(target, "/processes/stencil/execution", body)):
        yield


@contextmanager
def long_lists(target: Target) -> Generator[None]:
    """Ask for lists as long as may be asked for, several at a time."""
    with at_once(20, lambda: target.attacker.get("/jobs", params={"limit": 10_000})):
        yield


@contextmanager
def slow_jobs(target: Target) -> Generator[None]:
    """Submit jobs that wait."""
    with submitted(target, "echo", [{"pause": 20}] * 40):
        yield


@contextmanager
def declared_datasets(target: Target) -> Generator[None]:
    """Send some bytes that declare more chunks than can be listed, and jobs that read them."""
    shape, chunk = [2**61, 8], [1, 8]
    with uploaded(target, array(shape, chunk)) as name:
        inputs = {"program": _COPY, "dataset": name, "boundary": {"y": "edge"}}
        with submitted(target, "stencil", [inputs] * 10):
            yield


@contextmanager
def decoded_chunks(target: Target) -> Generator[None]:
    """Send chunks that decode to more than they declare, and jobs that read them."""
    shape = [1000, 1000]
    zstd: Any = numcodecs.zstd
    bomb: bytes = zstd.compress(bytes(_BOMB_BYTES))
    with uploaded(target, array(shape, shape) | {"t/c/0/0": bomb}) as name:
        inputs = {"program": _COPY, "dataset": name}
        with submitted(target, "stencil", [inputs] * 20):
            yield


@contextmanager
def long_programs(target: Target) -> Generator[None]:
    """Send programs of many temporaries, each of which is read all around by the next."""
    lines = ["        a0 = t[0, 0, 0]"]
    lines += [f"        a{n} = a{n - 1}[-1, 0, 0] + a{n - 1}[1, 0, 0]" for n in range(1, 400)]
    program = _COPY.replace(
        "        copied = t[0, 0, 0]", "\n".join([*lines, "        copied = a399"])
    )
    with uploaded(target, array([1000, 1000], [1000, 1000])) as name:
        inputs = {"program": program, "dataset": name, "boundary": {"x": "edge", "y": "edge"}}
        with submitted(target, "stencil", [inputs] * 10, dismissed_after=2.0):
            yield


_COPY = """
def copy(t: Field[np.float64], copied: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        copied = t[0, 0, 0]
"""


def array(shape: list[int], chunk: list[int]) -> dict[str, bytes]:
    """Give the objects of a store of one array without chunks."""
    group: dict[str, Any] = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    described = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": "float64",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0.0,
        "codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "zstd", "configuration": {"level": 0, "checksum": False}},
        ],
        "attributes": {},
        "dimension_names": ["y", "x"],
    }
    return {"zarr.json": json.dumps(group).encode(), "t/zarr.json": json.dumps(described).encode()}


@contextmanager
def uploaded(target: Target, objects: dict[str, bytes]) -> Generator[str]:
    """Send a store; give its reference, and delete it at the end."""
    opened = target.attacker.post("/uploads", json={}).raise_for_status().json()
    try:
        for key, content in objects.items():
            answer = target.attacker.put(f"/uploads/{opened['id']}.zarr/{key}", content=content)
            answer.raise_for_status()
        target.attacker.post(f"/uploads/{opened['id']}/complete", json={})
        yield opened["reference"]
    finally:
        for _ in range(40):
            if target.attacker.delete(f"/uploads/{opened['id']}").status_code != 409:
                break
            time.sleep(0.5)


@contextmanager
def submitted(
    target: Target,
    process: str,
    inputs: list[dict[str, Any]],
    *,
    dismissed_after: float | None = None,
) -> Generator[None]:
    """Submit jobs, and dismiss what is left of them at the end, or after some seconds."""
    path = f"/processes/{process}/execution"
    made = [post(target, path, json.dumps({"inputs": each})) for each in inputs]
    accepted = [answer.json()["jobID"] for answer in made if answer.status_code == 201]

    def dismiss() -> None:
        for job in accepted:
            target.attacker.delete(f"/jobs/{job}", params={"ended": "keep"})

    if dismissed_after is not None:
        time.sleep(dismissed_after)
        dismiss()
    try:
        yield
    finally:
        dismiss()


def post(target: Target, path: str, body: str) -> httpx2.Response:
    """Send JSON as the attacker."""
    headers = {"Content-Type": "application/json", "Prefer": "respond-async"}
    return target.attacker.post(path, content=body, headers=headers)


@contextmanager
def at_once(count: int, send: Callable[[], object]) -> Generator[None]:
    """Send the same thing on many threads, and go on while they wait."""

    def quietly() -> None:
        with suppress(httpx2.HTTPError):
            send()

    threads = [threading.Thread(target=quietly) for _ in range(count)]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join()


_ATTACKS = (
    half_headers,
    half_bodies,
    wide_requests,
    long_lists,
    slow_jobs,
    declared_datasets,
    decoded_chunks,
    long_programs,
)


def answered(target: Target) -> Finding:
    """See how long the victim waits for the list of its jobs."""
    worst, failed = 0.0, ""
    for _ in range(5):
        start = time.monotonic()
        try:
            target.victim.get("/jobs").raise_for_status()
        except httpx2.HTTPError as error:
            failed = f"; {type(error).__name__}: {error}"
        worst = max(worst, time.monotonic() - start)
    held = worst < target.answer_seconds and not failed
    return Finding(
        f"the victim is answered within {target.answer_seconds:g} s", held, f"{worst:.2f} s{failed}"
    )


def started(target: Target) -> Finding:
    """See how long a job of the victim waits."""
    what = f"the victim's job starts within {_START_SECONDS:g} s"
    headers = {"Prefer": "respond-async"}
    inputs = {"inputs": {"string": "victim"}}
    start = time.monotonic()
    made = target.victim.post("/processes/echo/execution", json=inputs, headers=headers)
    if made.status_code != 201:
        return Finding(what, False, f"{made.status_code}: {made.text[:100]}")
    while time.monotonic() - start < 6 * _START_SECONDS:
        status = target.victim.get(f"/jobs/{made.json()['jobID']}").json()["status"]
        if status != "accepted":
            seconds = time.monotonic() - start
            return Finding(what, seconds < _START_SECONDS, f"{status} after {seconds:.2f} s")
        time.sleep(0.05)
    return Finding(what, False, "it waits still")


@dataclass
class Watched:
    """The most that each process of an installation took, in bytes, and what it may take."""

    up: psutil.Process

    def __post_init__(self) -> None:
        """Look for the first time."""
        self.limit: dict[psutil.Process, int] = {}
        self.most: dict[psutil.Process, int] = {}
        self.services = set(self.up.children())
        self.look()

    def look(self) -> None:
        """Look once more."""
        for process in self.up.children(recursive=True):
            with suppress(psutil.Error):
                taken = process.memory_info().rss
                if process not in self.limit:
                    self.limit[process] = taken + _MOST_BYTES
                granted, _ = process.rlimit(psutil.RLIMIT_DATA)
                if granted != resource.RLIM_INFINITY:  # it is set after the start
                    self.limit[process] = granted
                self.most[process] = max(taken, self.most.get(process, 0))

    def findings(self) -> Generator[Finding]:
        """Say whether all are there, and had no more than they may have."""
        gone = [process for process in self.services if not process.is_running()]
        yield Finding("no process of the service ended", not gone, f"{len(self.services)} of them")
        worst = max(self.most, key=lambda process: self.most[process] / self.limit[process])
        most, limit = self.most[worst], self.limit[worst]
        seen = f"{most / 2**20:.0f} of {limit / 2**20:.0f} MiB where it is nearest"
        yield Finding("each process keeps its limit", most <= limit, seen)


@contextmanager
def watched(up: int | None, found: list[Finding]) -> Generator[None]:
    """Watch the processes that `up` started."""
    if up is None:
        yield
        return
    here, over = Watched(psutil.Process(up)), threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            here.look()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        found.extend(here.findings())


def attack(target: Target, up: int | None) -> list[Finding]:
    """Try everything; give what was found."""
    found: list[Finding] = []
    with watched(up, found):
        for attempt in _ATTACKS:
            name = attempt.__name__.replace("_", " ")
            with attempt(target):
                seen = (answered(target), started(target))
            found.extend(replace(each, what=f"{name}: {each.what}") for each in seen)
    return found


@contextmanager
def installed() -> Generator[tuple[str, tuple[str, str], int]]:
    """Start an installation; give its address, the keys of two owners, and the process."""
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        environment = os.environ | _OWN_LIMITS | {"HALOCLINE_AUTH": "keys"}
        place = ("--data-dir", f"{folder}/data")
        command = [*_OWN, "up", *place, "--port", str(port), "--workers", "1", "--gpus", "0"]
        up = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert up.stdout is not None
        try:
            if b"Halocline is at" not in up.stdout.readline():
                raise SystemExit("halocline-server up did not start.")
            made = [[*_OWN, "key", "create", "--owner", owner, *place] for owner in ("eve", "ann")]
            attacker, victim = (subprocess.check_output(each, text=True).strip() for each in made)
            yield f"http://127.0.0.1:{port}", (attacker, victim), up.pid
        finally:
            up.terminate()
            up.wait()
            up.stdout.close()


def main() -> int:
    """Attack what the command line names, or an installation of its own."""
    parser = argparse.ArgumentParser(description="Attack an installation by requests.")
    parser.add_argument("url", nargs="?")
    parser.add_argument("--key")
    parser.add_argument("--victim")
    parser.add_argument("--up", type=int, help="the process of a halocline-server up")
    parser.add_argument("--answer", type=float, default=1.0, help="seconds that are not too long")
    given = parser.parse_args()
    with ExitStack() as opened:
        url, keys, up = given.url, (given.key, given.victim), given.up
        if url is None:
            url, keys, up = opened.enter_context(installed())
        clients = [
            opened.enter_context(
                httpx2.Client(
                    base_url=url,
                    headers={"Authorization": f"Bearer {key}"} if key else {},
                    timeout=60,
                )
            )
            for key in keys
        ]
        found = attack(Target(url, *clients, given.answer), up)
    for finding in found:
        print(f"{'held' if finding.held else 'BAD':5} {finding.what}: {finding.seen}")
    return 0 if all(finding.held for finding in found) else 1


if __name__ == "__main__":
    sys.exit(main())
