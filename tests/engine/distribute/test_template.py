"""Workers begin as copies of a process that has loaded what they need, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from halocline_engine.distribute.executors import template
from halocline_engine.distribute.executors.dask import start
from halocline_engine.distribute.executors.template import (
    LOADED,
    LOADED_DEVICE,
    start_template,
    start_template_early,
)

#: What libraries load of what they do not need, or what other parts of the project need.
NEEDLESS = {
    *("IPython", "bokeh", "cupy", "fastapi", "httpx", "hypothesis", "matplotlib", "netCDF4"),
    *("networkx", "notebook", "pyarrow", "pytest", "sklearn", "starlette", "sympy", "torch"),
    *("distributed.dashboard", "numba.cuda.cudadrv.driver"),
    *("halocline_engine.functions", "halocline_engine.backends.cuda.build", "halocline_service"),
}
#: Modules of other packages, and of this one; numbers may fall, and should not be raised for
#: convenience.
MOST = 1775
MOST_OWN = 199


def test_what_workers_load_is_bounded() -> None:
    listed = f"import sys, {LOADED}; print(*sys.modules, sep='\\n')"
    told = subprocess.run([sys.executable, "-c", listed], capture_output=True, check=True)
    modules = set(told.stdout.decode().split())
    assert modules & NEEDLESS == set()
    own = {name for name in modules if name.startswith("halocline")}
    assert len(modules - own) <= MOST
    assert len(own) <= MOST_OWN


@pytest.mark.skipif(sys.platform != "linux", reason="forks need Linux")
def test_workers_are_forked_and_have_threads_of_their_own() -> None:
    def facts() -> Any:
        from importlib import import_module

        threads: int = vars(import_module("numba.core.config"))["NUMBA_NUM_THREADS"]
        return os.getppid(), threads, "numba.np.arraymath" in sys.modules

    parents: set[int] = set()
    for workers in (1, 2):
        with start(workers, "cpu") as pool:
            found = list(pool.client.run(facts).values())
        threads = max(1, len(os.sched_getaffinity(0)) // workers)
        assert [one[1:] for one in found] == [(threads, True)] * workers
        parents |= {one[0] for one in found}
    assert len(parents) == 1
    assert os.getpid() not in parents


def test_elsewhere_workers_are_spawned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert start_template({}) == "spawn"


@pytest.mark.parametrize(
    ("target", "devices", "loaded"),
    [
        ("cpu", True, LOADED),
        ("auto", False, LOADED),
        ("auto", True, LOADED_DEVICE),
        ("cuda", True, LOADED_DEVICE),
        ("cuda", False, None),
    ],
)
def test_it_begins_with_what_workers_will_need(
    monkeypatch: pytest.MonkeyPatch, target: str, loaded: str | None, *, devices: bool
) -> None:
    begun: list[str] = []

    def start_one(_environment: object, loaded: str) -> str:
        begun.append(loaded)
        return ""

    monkeypatch.setattr(template, "start_template", start_one)
    monkeypatch.setattr(template, "_has_devices", lambda: devices)
    start_template_early(target)
    assert begun == ([] if loaded is None else [loaded])


def test_what_workers_with_devices_load_is_bounded() -> None:
    listed = f"import sys, {LOADED_DEVICE}; print(*sys.modules, sep='\\n')"
    told = subprocess.run([sys.executable, "-c", listed], capture_output=True, check=True)
    modules = set(told.stdout.decode().split())
    assert "halocline_engine.backends.cuda.build" in modules
    assert modules & (NEEDLESS - {"cupy", "halocline_engine.backends.cuda.build"}) == set()


@pytest.mark.skipif(sys.platform != "linux", reason="forks need Linux")
def test_an_interrupt_while_the_template_starts_is_raised_afterwards() -> None:
    script = (
        "import os, signal, subprocess, sys\n"
        "from multiprocessing import forkserver\n"
        "from halocline_engine.distribute.executors.template import start_template\n"
        "interrupt = 'import os, signal; os.kill(os.getpid(), signal.SIGINT)'\n"
        "def start():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    print('held', flush=True)\n"
        "    subprocess.run([sys.executable, '-c', f'{interrupt}; print(2)'], check=True)\n"
        "forkserver.ensure_running = start\n"
        "try:\n"
        "    start_template({})\n"
        "except KeyboardInterrupt:\n"
        "    print('raised')\n"
        "print(signal.pthread_sigmask(signal.SIG_BLOCK, ()))\n"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert told.stdout.decode().split() == ["held", "2", "raised", "set()"]
    assert told.stderr == b""
