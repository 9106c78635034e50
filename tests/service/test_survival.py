"""Jobs outlive the processes that serve and run them: real processes, killed with SIGKILL."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
from tests.service.conftest import write

from halocline_service.machine import free_port

_DISPATCHER = """
import sys, time
from pathlib import Path
from types import SimpleNamespace
from halocline_service.dispatcher.main import run_dispatcher
from halocline_service.settings import Settings
from halocline_service.datasets.layout import Layout
from halocline_service.datasets.references import Resolver
from halocline_service.dispatcher.attempts.attempt import InProcess, Tools
from halocline_service.store.sql.store import open_store


def run(program, dataset, *, output, workspace, on_event, cancelled, **_):
    # Ten steps, each kept in the workspace; a later attempt goes on after the last one, and the
    # first one never gets beyond five.
    trace, attempt = Path(workspace.path) / "steps", workspace.attempt
    done = len(trace.read_text().split()) if trace.exists() else 0
    for step in range(done, 10):
        if attempt == 1 and step == 5:
            time.sleep(600)
        with trace.open("a") as file:
            file.write(f"{step}:{attempt} ")
        data = {"kind": "pass-finished", "step": step}
        on_event(SimpleNamespace(progress=(step + 1) / 10, to_json=lambda: data))
    Path(output).mkdir()
    document = {"zarr_format": 3, "node_type": "group", "attributes": {"trace": trace.read_text()},
                "consolidated_metadata": {"kind": "inline", "metadata": {"a": {}}}}
    import json
    (Path(output) / "zarr.json").write_text(json.dumps(document))


settings = Settings()
layout = Layout(settings.data_dir.resolve())
tools = Tools(layout=layout, resolver=Resolver(open_store(settings.database), layout,
              settings.data_roots), runner=run, scan=lambda path: None, cluster=None,
              largest_chunk=settings.chunk_bytes)
run_dispatcher(settings, attempt=InProcess(tools))
"""


class Stack:
    """An API and a dispatcher as processes."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port("127.0.0.1")
        roots = folder / "roots"
        write(xr.Dataset({"a": ("x", [0.0, 0.0])}), roots / "a.zarr")
        self.environment = {
            **os.environ,
            "HALOCLINE_DATA_DIR": str(folder / "state"),
            "HALOCLINE_DATA_ROOTS": str(roots),
            "HALOCLINE_PORT": str(self.port),
            "HALOCLINE_LEASE_SECONDS": "1.5",
            "HALOCLINE_HEARTBEAT_SECONDS": "0.4",
            "HALOCLINE_POLL_SECONDS": "0.05",
        }
        self.processes: list[subprocess.Popen[bytes]] = []

    def api(self) -> subprocess.Popen[bytes]:
        return self._start([sys.executable, "-m", "halocline_service.cli", "api"])

    def dispatcher(self) -> subprocess.Popen[bytes]:
        return self._start([sys.executable, "-c", _DISPATCHER])

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, env=self.environment, stderr=subprocess.DEVNULL)
        self.processes.append(process)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGKILL)
        process.wait()

    def call(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        url = f"http://127.0.0.1:{self.port}{path}"
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=5) as got:
            return json.load(got)

    def until(self, path: str, name: str, *values: Any) -> Any:
        end = time.monotonic() + 60
        while True:
            try:
                answer = self.call(path)
                if answer.get(name) in values:
                    return answer
            except OSError:
                answer = None
            assert time.monotonic() < end, answer
            time.sleep(0.05)


@pytest.fixture
def stack(tmp_path: Path) -> Generator[Stack]:
    made = Stack(tmp_path)
    yield made
    for process in made.processes:
        if process.poll() is None:
            made.kill(process)


def test_a_job_outlives_the_api_and_its_dispatcher(stack: Stack) -> None:
    api = stack.api()
    stack.until("/livez", "status", "alive")
    program = "def f(a: Field[float]):\n  with computation(PARALLEL), interval(...):\n    a = 1.0\n"
    body = {"inputs": {"program": program, "dataset": "a.zarr"}}
    job = stack.call("/processes/stencil/execution", body)["jobID"]
    stack.kill(api)  # at once: what was accepted is stored

    first = stack.dispatcher()
    api = stack.api()
    running = stack.until(f"/jobs/{job}", "status", "running")
    assert running["attempt"] == 1
    stack.until(f"/jobs/{job}", "progress", 50)
    stack.kill(first)

    stack.dispatcher()
    stack.kill(api)
    stack.api()
    done = stack.until(f"/jobs/{job}", "status", "successful", "failed")
    assert (done["status"], done["attempt"], done["progress"]) == ("successful", 2, 100)
    document = stack.call(f"/jobs/{job}/results/result.zarr/zarr.json")
    steps = [mark.split(":") for mark in document["attributes"]["trace"].split()]
    assert [int(step) for step, _ in steps] == list(range(10))  # none lost, none made twice
    assert [attempt for _, attempt in steps] == ["1"] * 5 + ["2"] * 5


def test_a_dispatcher_that_is_asked_to_stop_gives_its_job_back(stack: Stack) -> None:
    stack.api()
    stack.until("/livez", "status", "alive")
    body: Any = {"inputs": {"pause": 60, "string": "s"}}
    request = urllib.request.Request(
        f"http://127.0.0.1:{stack.port}/processes/echo/execution",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "Prefer": "respond-async"},
    )
    with urllib.request.urlopen(request, timeout=5) as answer:
        job = json.load(answer)["jobID"]
    dispatcher = stack.dispatcher()
    stack.until(f"/jobs/{job}", "status", "running")
    dispatcher.send_signal(signal.SIGTERM)
    assert dispatcher.wait(timeout=20) == 0
    waiting = stack.call(f"/jobs/{job}")
    assert (waiting["status"], waiting["attempt"]) == ("accepted", 0)
    assert waiting["message"] == "Its dispatcher was stopped; waiting for another."
