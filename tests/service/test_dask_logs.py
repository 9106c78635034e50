"""Logs of schedulers and workers: without errors of jobs and without abandoned connections."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from deadlines import until

from halocline_service import machine
from halocline_service.identity import make_identity, read_identity

_FAIL = """
import sys
from distributed import Client

def fail():
    raise ValueError("It is wrong.")

with Client(sys.argv[1]) as client:
    error = client.submit(fail).exception()
    assert type(error) is ValueError, error
"""


@contextmanager
def running(command: list[str], log: Path, environment: dict[str, str]) -> Generator[None]:
    with log.open("wb") as stream:
        process = subprocess.Popen(command, env=environment, stderr=stream)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def test_errors_of_jobs_and_abandoned_connections_are_left_out(tmp_path: Path) -> None:
    for name in ("ours.pem", "strange.pem"):
        make_identity(tmp_path / name)
    ours = read_identity(tmp_path / "ours.pem")
    strange = read_identity(tmp_path / "strange.pem", ours.trusted)
    environment = {**os.environ, **machine.cluster_environment(ours)}
    address = ("127.0.0.1", machine.free_port("127.0.0.1"))
    url = f"tls://127.0.0.1:{address[1]}"
    scheduler, worker = tmp_path / "scheduler.log", tmp_path / "worker.log"
    with ExitStack() as stack:
        command = machine.scheduler_command(*address)
        stack.enter_context(running(command, scheduler, environment))
        until(lambda: machine.answers(*address, ours))
        socket.create_connection(address).close()
        assert not machine.answers(*address, strange)
        command = machine.worker_command(url, memory=10**9, jobs=1, folder=tmp_path, gpu=False)
        stack.enter_context(running(command, worker, environment))
        subprocess.run([sys.executable, "-c", _FAIL, url], env=environment, check=True)
        until(lambda: "handshake failed" in scheduler.read_text())
    (told,) = [line for line in scheduler.read_text().splitlines() if "handshake failed" in line]
    assert "EOF" not in told  # a stranger is logged
    assert "Compute Failed" not in worker.read_text()
    assert "It is wrong." not in worker.read_text()
