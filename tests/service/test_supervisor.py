"""Processes of one machine: each is started again by itself, bounded, and ends with its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from deadlines import until

from halocline_service import supervisor as supervising
from halocline_service.lifetime import SIGN_VARIABLE, end_with
from halocline_service.supervisor import MARGIN, Child, Supervisor

_MIB = 2**20


@pytest.fixture
def supervisor() -> Generator[Supervisor]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with Supervisor() as made:
        yield made
    for number, handler in before.items():
        signal.signal(number, handler)


def watching(supervisor: Supervisor, ready: Callable[[], bool]) -> None:
    assert supervisor.wait_for("it", ready, seconds=60)


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_a_child_that_ends_for_ever_harms_no_other(
    supervisor: Supervisor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Once, five ends within a minute ended everything."""
    monkeypatch.setattr(supervising, "_FIRST_WAIT", 0.001)
    log = tmp_path / "starts"
    bad = ["/bin/sh", "-c", f"echo x >> {log}; exit 3"]
    supervisor.start(Child("The good", ["/bin/sleep", "600"]))
    good = _newest_child()
    supervisor.start(Child("The bad", bad, vital=False))
    watching(supervisor, lambda: log.exists() and len(log.read_text().split()) >= 8)
    assert good.is_running()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "The bad ended with status 3; it is started again in 0.001 seconds."
    waits = [float(line.split()[-2]) for line in lines]
    assert waits[:7] == [0.001 * 2**power for power in range(7)]


def test_waits_grow_to_a_bound(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    watch = SimpleNamespace(monotonic=lambda: clock[0])
    monkeypatch.setattr(supervising, "time", watch)
    said: list[str] = []
    monkeypatch.setattr(supervising, "_say", said.append)
    made: Any = supervisor
    made.start(Child("It", ["/bin/false"], vital=False))
    (running,) = made._children
    for _ in range(12):
        running.process.wait()
        made._look_after(running)
        clock[0] += 31.0
        made._look_after(running)
    waits = [float(line.split()[-2]) for line in said]
    assert waits == [0.5, 1, 2, 4, 8, 16, *[30.0] * 6]
    clock[0] += 61.0  # it ran well for a minute
    running.process.wait()
    made._look_after(running)
    assert said[-1].endswith("started again in 0.5 seconds.")


@pytest.mark.parametrize("bounded", [True, False])
def test_a_child_that_outgrows_its_memory_is_ended_alone(
    supervisor: Supervisor, tmp_path: Path, bounded: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fast, as a chunk is decoded, or bit by bit: neither takes the machine."""
    peak = tmp_path / "peak"
    text = (
        "import resource, time\n"
        "taken = []\n"
        "try:\n"
        "    while True: taken.append(bytearray(16 * 2**20))"
        + ("\n" if bounded else "; time.sleep(0.05)\n")
        + "except MemoryError: pass\n"
        f"open({str(peak)!r}, 'w').write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))\n"
        "time.sleep(600)"
    )
    limit = 150 * _MIB
    supervisor.start(Child("The good", ["/bin/sleep", "600"]))
    good = _newest_child()
    supervisor.start(Child("The hungry", python(text), memory=limit, bounded=bounded, vital=False))
    said = ""

    def ended() -> bool:
        nonlocal said
        said += capsys.readouterr().err
        return "and was ended." in said

    watching(supervisor, ended)
    assert "The hungry took " in said
    assert f" MiB of memory, more than its {limit // _MIB}, and was ended." in said
    assert good.is_running()
    taken = int(said.split("took ")[1].split(maxsplit=1)[0])
    assert taken * _MIB <= limit + MARGIN
    if peak.exists():
        assert int(peak.read_text()) * 1024 <= limit + MARGIN + 32 * _MIB  # and shared libraries


def test_a_child_that_a_signal_stops_is_ended_and_started_again(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A short stop costs nothing."""
    monkeypatch.setattr(supervising, "STOPPED_SECONDS", 0.5)
    monkeypatch.setattr("halocline_engine.control.stoppage.STOPPED_SECONDS", 0.5)
    monkeypatch.setattr(supervising, "_FIRST_WAIT", 0.001)
    supervisor.start(Child("The stopped", ["/bin/sleep", "600"], vital=False))
    first = _newest_child()
    first.suspend()
    first.resume()
    made: Any = supervisor
    (running,) = made._children
    made._look_after(running)
    assert first.is_running()
    first.suspend()
    watching(supervisor, lambda: running.process.pid != first.pid)
    assert capsys.readouterr().err.splitlines() == [
        "The stopped was stopped by a signal for 0.5 seconds, and was ended.",
        "The stopped ended by signal 9; it is started again in 0.001 seconds.",
    ]


@pytest.mark.parametrize("lives", [True, False])
def test_a_child_that_gives_no_sign_of_life_is_ended(
    supervisor: Supervisor,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    lives: bool,
) -> None:
    monkeypatch.setattr(supervising, "HUNG_SECONDS", 2.0)
    sign = f"echo . >&${SIGN_VARIABLE}; " if lives else ""
    command = ["/bin/sh", "-c", f"while :; do {sign}sleep 0.1; done"]
    supervisor.start(Child("The hung", command, vital=False, gives_signs=True))
    child = _newest_child()
    until = time.monotonic() + 4.0
    watching(supervisor, lambda: time.monotonic() > until or not child.is_running())
    said = capsys.readouterr().err
    assert ("The hung hung, with no sign of life for 2 seconds, and was ended." in said) != lives


_DEAF = """
import sys
from pathlib import Path
from halocline_service.supervisor import Child, Supervisor
deaf = "trap '' TERM INT HUP; echo $$ > " + sys.argv[1] + "; while :; do sleep 0.2; done"
with Supervisor() as supervisor:
    supervisor.start(Child("The deaf", ["/bin/sh", "-c", deaf]))
    supervisor.watch()
"""


def test_a_child_that_heeds_no_signal_ends_with_its_parent(tmp_path: Path) -> None:
    """As a Dask worker does that waits for its scheduler."""
    file = tmp_path / "pid"
    parent = subprocess.Popen([sys.executable, "-c", _DEAF, str(file)])
    until(lambda: file.exists() and file.read_text().strip())
    child = psutil.Process(int(file.read_text()))
    parent.kill()
    parent.wait()
    _, alive = psutil.wait_procs([child], timeout=10)
    assert not alive


def test_a_child_whose_parent_ended_before_it_could_ask_ends() -> None:
    pid = os.fork()
    if pid == 0:
        end_with(1 if os.getppid() != 1 else 2)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def _newest_child() -> psutil.Process:
    """Other tests of this process may have left some."""
    return max(psutil.Process().children(), key=lambda child: child.create_time())
