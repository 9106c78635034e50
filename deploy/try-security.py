"""Attacks an installation on this machine as others could, and says what held.

    python deploy/try-security.py              attacks one that it starts in a temporary folder
    python deploy/try-security.py --pid PID    attacks the `halocline-server up` that runs as PID

Nothing of the installation is changed. As root, it also attacks as another user and from another
network namespace, which it makes and removes. Status 1 where something did not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

_NOBODY = 65534
_SECONDS = 90
_LOOPBACK = ("127.", "::1")


@dataclass(frozen=True)
class Finding:
    """What was tried, whether it held (None: it could not be tried), and what was seen."""

    what: str
    held: bool | None
    seen: str


# Tries to have code run by whatever listens, without any certificate, as plainly as Dask allows.
_ATTACK = """
import asyncio, json, os, sys, warnings
warnings.simplefilter("ignore")
from distributed.core import rpc
from distributed.protocol.pickle import dumps
from distributed.security import Security

async def attack(address, arguments, call, **told):
    async with rpc(address, connection_args=arguments, timeout=3) as there:
        return await asyncio.wait_for(getattr(there, call)(function=dumps(os.getpid), **told), 6)

async def main(places, stranger, user):
    plain = {"require_encryption": False}
    strange = Security(
        require_encryption=True, tls_ca_file=stranger, tls_client_cert=stranger
    ).get_connection_args("client")
    strange["ssl_context"].verify_mode = __import__("ssl").CERT_NONE  # whoever it is, we talk
    if user is not None:
        os.setgroups([]); os.setgid(user); os.setuid(user)
    ways = [(f"{kind}://{place}", arguments, call, told)
            for place in places
            for kind, arguments in (("tcp", plain), ("tls", strange))
            for call, told in (("run", {"wait": True}), ("run_function", {"wait": True}))]
    got = await asyncio.gather(
        *(attack(a, b, c, **d) for a, b, c, d in ways), return_exceptions=True
    )
    print(json.dumps([f"{way[0]} {way[2]} answered {answer}" for way, answer in zip(ways, got)
                      if not isinstance(answer, BaseException)]))

asyncio.run(main(*json.loads(sys.argv[1])))
"""


def listening(process: psutil.Process) -> list[tuple[str, int]]:
    """Give the addresses at which a process or one that it started accepts connections."""
    found: set[tuple[str, int]] = set()
    for each in (process, *process.children(recursive=True)):
        # A process that has ended since it was listed accepts nothing.
        with suppress(psutil.NoSuchProcess):
            for connection in each.net_connections("inet"):
                if connection.status == psutil.CONN_LISTEN:
                    found.add((connection.laddr.ip, connection.laddr.port))
    return sorted(found)


def breaches(
    places: list[str], *, user: int | None = None, before: tuple[str, ...] = ()
) -> list[str]:
    """Attack some places; give what answered."""
    with tempfile.TemporaryDirectory() as folder:
        stranger = Path(folder) / "stranger.pem"
        from halocline_service.identity import make_identity

        make_identity(stranger)
        told = json.dumps([places, str(stranger), user])
        done = subprocess.run(
            [*before, sys.executable, "-c", _ATTACK, told],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"The attack itself failed: {done.stderr[-500:]}")
    return json.loads(done.stdout)


def check_addresses(process: psutil.Process) -> Iterator[Finding]:
    """Nothing that runs code can be reached from other machines."""
    found = listening(process)
    outside = [f"{ip}:{port}" for ip, port in found if not ip.startswith(_LOOPBACK)]
    yield Finding(
        "every port is on loopback",
        bool(found) and not outside,
        ", ".join(outside) or f"{len(found)} ports",
    )


def check_strangers(process: psutil.Process) -> Iterator[Finding]:
    """Nobody without the certificate has code run, whoever and wherever he is."""
    ports = [port for _, port in listening(process)]
    here = [f"127.0.0.1:{port}" for port in ports]
    yield _refused("code of this user without the certificate", lambda: breaches(here))
    if os.geteuid() != 0:
        yield Finding("code of another user", None, "needs root")
        yield Finding("code from another network namespace", None, "needs root")
        return
    yield _refused("code of another user", lambda: breaches(here, user=_NOBODY))
    try:
        with _namespace() as (name, address):
            there = [f"{address}:{port}" for port in ports]
            before = ("ip", "netns", "exec", name)
            yield _refused(
                "code from another network namespace", lambda: breaches(there, before=before)
            )
    except (OSError, subprocess.CalledProcessError) as error:
        yield Finding("code from another network namespace", None, f"no namespace: {error}")


def _refused(what: str, attack: Callable[[], list[str]]) -> Finding:
    found = attack()
    return Finding(f"{what} is refused", not found, "; ".join(found[:3]) or "every port refused")


@contextmanager
def _namespace() -> Iterator[tuple[str, str]]:
    """Make a network that reaches this machine; give its name and our address there."""
    if shutil.which("ip") is None:
        raise OSError("the command 'ip' is missing")
    name, pid = f"halocline{os.getpid() % 10000}", os.getpid()
    ours, theirs = f"hc{pid % 100000}a", f"hc{pid % 100000}b"
    net = f"10.213.{pid % 250}"
    steps = (
        f"netns add {name}",
        f"link add {ours} type veth peer name {theirs} netns {name}",
        f"addr add {net}.1/24 dev {ours}",
        f"link set {ours} up",
        f"-n {name} addr add {net}.2/24 dev {theirs}",
        f"-n {name} link set {theirs} up",
        f"-n {name} link set lo up",
    )
    try:
        for step in steps:
            subprocess.run(["ip", *step.split()], check=True, capture_output=True)
        yield name, f"{net}.1"
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", ours], check=False, capture_output=True)


CHECKS: tuple[Callable[[psutil.Process], Iterator[Finding]], ...] = (
    check_addresses,
    check_strangers,
)


@contextmanager
def started() -> Iterator[psutil.Process]:
    """Start an installation in a temporary folder; it is ended by SIGKILL, and must be gone."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "halocline_service.cli", "up", "--port", "0"]
        command += ["--workers", "1", "--gpus", "0", "--data-dir", f"{folder}/data"]
        up = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert up.stdout is not None
        try:
            if b"Halocline is at" not in up.stdout.readline():
                raise SystemExit("halocline-server up did not start.")
            yield psutil.Process(up.pid)
        finally:
            up.send_signal(signal.SIGKILL)
            up.wait()
            up.stdout.close()


def check_foreign_files() -> Finding:
    """Files that were there before stay, bit for bit, and are named where a folder is refused."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, "jobs/my_run/a.txt"), Path(folder, "uploads/precious.zarr/zarr.json")]
        for file in files:
            file.parent.mkdir(parents=True)
            file.write_text("mine")
        command = [sys.executable, "-m", "halocline_service.cli", "up", "--port", "0"]
        command += ["--workers", "1", "--gpus", "0", "--data-dir", folder]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        kept = all(file.is_file() and file.read_text() == "mine" for file in files)
    seen = f"status {done.returncode}, {'all' if kept else 'not all'} there"
    held = kept and done.returncode != 0 and folder in done.stderr
    return Finding("a folder with files of others is refused", held, seen)


def killed(family: list[psutil.Process], places: list[tuple[str, int]]) -> Finding:
    """Say whether all children of a process that was killed are gone within seconds."""
    _, alive = psutil.wait_procs(family, timeout=10)
    held = {c.laddr.port for c in psutil.net_connections("inet") if c.status == psutil.CONN_LISTEN}
    left = [str(port) for _, port in places if port in held]
    names = [" ".join(process.cmdline()[:4]) for process in alive if process.is_running()]
    seen = "; ".join([*names, *(f"port {port}" for port in left)])
    return Finding("all ends when 'up' is killed", not seen, seen or "within 10 s")


def main() -> int:
    """Run all checks, print a table, and give the status."""
    parser = argparse.ArgumentParser(description="Attack an installation on this machine.")
    parser.add_argument("--pid", type=int, help="of a halocline-server up that runs")
    pid = parser.parse_args().pid
    begin = time.monotonic()
    if pid is not None:
        findings = [finding for check in CHECKS for finding in check(psutil.Process(pid))]
    else:
        with started() as process:
            findings = [finding for check in CHECKS for finding in check(process)]
            family, places = process.children(recursive=True), listening(process)
        findings += [killed(family, places), check_foreign_files()]
    words = {True: "held", False: "BAD", None: "not tried"}
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        print(f"{words[finding.held]:9} {finding.what:{width}}  {finding.seen}")
    print(f"{len(findings)} checks in {time.monotonic() - begin:.0f} s")
    return 1 if any(finding.held is False for finding in findings) else 0


if __name__ == "__main__":
    sys.exit(main())
