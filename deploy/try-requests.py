"""Attacks an installation by requests, as a user with an API key could, and says what held.

    python deploy/try-requests.py URL --key ATTACKER --victim VICTIM [--pid PID]

`ATTACKER` and `VICTIM` are API keys of two owners (left out where the service asks for none). The
attacker has 100 requests and 300 half-open connections; after each attack the victim is answered
within a second, and at the end its job starts within 10 s. With `--pid`, the process of the API is
watched: it may take 256 MB more than before. It takes a minute. Status 1 where something did not
hold.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx2
import psutil

_HALF_OPEN = 300
_MOST_BYTES = 256 * 10**6
_ANSWER_SECONDS = 1.0
_START_SECONDS = 10.0


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
    body = json.dumps({"inputs": {"pause": 20}})
    made = [post(target, "/processes/echo/execution", body) for _ in range(40)]
    yield
    for answer in made:
        if answer.status_code == 201:
            target.attacker.delete(f"/jobs/{answer.json()['jobID']}", params={"ended": "keep"})


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


_ATTACKS = (half_headers, half_bodies, wide_requests, long_lists)


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
    held = worst < _ANSWER_SECONDS and not failed
    return Finding("the victim is answered within a second", held, f"{worst:.2f} s{failed}")


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


@contextmanager
def watched(pid: int | None, found: list[Finding]) -> Generator[None]:
    """Watch the memory of a process."""
    if pid is None:
        yield
        return
    process, over = psutil.Process(pid), threading.Event()
    before = most = process.memory_info().rss

    def watch() -> None:
        nonlocal most
        while not over.wait(0.02):
            most = max(most, process.memory_info().rss)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        grown = most - before
        what = f"the API takes less than {_MOST_BYTES // 10**6} MB more"
        found.append(Finding(what, grown < _MOST_BYTES, f"{grown / 1e6:.0f} MB"))


def attack(target: Target, pid: int | None) -> list[Finding]:
    """Try everything; give what was found."""
    found: list[Finding] = []
    with watched(pid, found):
        for each in _ATTACKS:
            with each(target):
                seen = answered(target)
            name = each.__name__.replace("_", " ")
            found.append(Finding(f"{name}: {seen.what}", seen.held, seen.seen))
        with slow_jobs(target):
            found.append(started(target))
    return found


def main() -> int:
    """Attack what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--key")
    parser.add_argument("--victim")
    parser.add_argument("--pid", type=int)
    given = parser.parse_args()
    with ExitStack() as opened:
        clients = [
            opened.enter_context(
                httpx2.Client(
                    base_url=given.url,
                    headers={"Authorization": f"Bearer {key}"} if key else {},
                    timeout=60,
                )
            )
            for key in (given.key, given.victim)
        ]
        found = attack(Target(given.url, *clients), given.pid)
    for finding in found:
        print(f"{'held' if finding.held else 'FAILED':6}  {finding.what}: {finding.seen}")
    return 0 if all(finding.held for finding in found) else 1


if __name__ == "__main__":
    sys.exit(main())
