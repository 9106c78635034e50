"""Attempts in processes of their own: asked to stop, bounded, and told apart when they end."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import psutil
import pytest
from deadlines import until
from tests.service.test_dispatcher import PROGRAM, claimed, tools

from halocline_engine.errors import (
    CancelledError,
    CapacityError,
    DatasetError,
    DeviceError,
    FieldError,
    HaloclineError,
    InternalError,
    OutputError,
    TypeRuleError,
)
from halocline_service.dispatcher.attempts.process import AttemptProcess
from halocline_service.dispatcher.attempts.processes import Limits, Processes
from halocline_service.dispatcher.attempts.setup import Setup, setup_of
from halocline_service.dispatcher.attempts.wire import error_from, error_to
from halocline_service.dispatcher.loop import Dispatcher
from halocline_service.dispatcher.outcome import Crashed, Failed, Lost, outcome_of
from halocline_service.settings import Settings

if TYPE_CHECKING:
    from tests.service.conftest import Running

MEBIBYTE = 2**20

# What an attempt does is in its scalars; the first one hears nothing, as a compiler does.
_CHILD = """
import os, signal, sys, time
from pathlib import Path
from types import SimpleNamespace
from halocline_engine.errors import CancelledError, FieldError
from halocline_service.datasets.layout import Layout
from halocline_service.dispatcher.attempts.attempt import Tools
from halocline_service.dispatcher.attempts.child import serve

def run(program, dataset, *, scalars, output, on_event, cancelled, **_):
    print("what libraries print")
    match scalars["do"]:
        case 1:
            sum(range(10**15))
        case 2:
            while not cancelled():
                time.sleep(0.01)
            raise CancelledError("Stopped.")
        case 3:
            kept = []
            while True:
                kept.append(b"x" * 2**20)
        case 4:
            os.kill(os.getpid(), signal.SIGSEGV)
        case 5:
            os.kill(os.getpid(), signal.SIGKILL)
        case 6:
            raise FieldError("It is wrong.", hint="Mend it.")
        case 7:
            raise ZeroDivisionError("a secret")
        case 8:
            sys.__stdout__.write("{}")
            os._exit(3)
        case 9:
            data = {"kind": "planned", "progress": 0.0, "blocks": 4}
            on_event(SimpleNamespace(progress=0.0, to_json=lambda: data))
            while not cancelled():
                time.sleep(0.01)
        case 10:
            os.write(4, b"no json\\n")
            time.sleep(60)
    Path(output).mkdir()
    text = '{"zarr_format":3,"node_type":"group","consolidated_metadata":{"metadata":{"a":%d}}}'
    (Path(output) / "zarr.json").write_text(text % os.getpid())

def tools(setup):
    return Tools(layout=Layout(Path(setup.root)), resolver=None, runner=run,
                 scan=lambda path: None, cluster=None, largest_chunk=2**30)

serve(tools)
"""
_COMMAND = (sys.executable, "-c", _CHILD)
Make = Callable[..., Processes]


def setup(idle: Running, **changes: Any) -> Setup:
    given = idle.settings.model_copy(update={"attempt_memory_bytes": 2**30} | changes)
    return setup_of(given)


def limits(*, planning: float = 60.0, stopping: float = 0.3) -> Limits:
    return Limits(planning=planning, stopping=stopping)


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Generator[Processes]:
    """Start processes for many tests, as a dispatcher does: each takes a second."""
    folder = tmp_path_factory.mktemp("state")
    given = Settings(data_dir=folder, data_roots=[data], attempt_memory_bytes=2**30)
    resolver = Mock(
        resolve=Mock(return_value=data / "sst.zarr"), described=Mock(return_value={}), roots=[]
    )
    with Processes(setup_of(given), resolver, limits(), ahead=1, command=_COMMAND) as made:
        yield made


@pytest.fixture
def processes(idle: Running, usual: Processes) -> Generator[Make]:
    made: list[Processes] = []

    def make(
        *, resolver: Any = None, changes: dict[str, Any] | None = None, **seconds: float
    ) -> Processes:
        if resolver is None and changes is None and not seconds:
            return usual
        found = resolver or tools(idle).resolver
        given = setup(idle, **(changes or {}))
        made.append(Processes(given, found, limits(**seconds), ahead=1, command=_COMMAND))
        return made[-1].__enter__()

    yield make
    for each in made:
        each.__exit__()


def _ignore(_event: object) -> None:
    """Tell nobody."""


def never() -> bool:
    return False


def attempt(
    idle: Running, processes: Processes, do: int, cancelled: Callable[[], bool] = never
) -> int:
    """Make an attempt, and give the number of the process that made it."""
    job = claimed(idle, "sst.zarr", scalars={"do": do})
    outputs = processes(job, _ignore, cancelled)
    folder = Path(vars(processes)["_setup"].root) / "jobs" / job.id
    text = (folder / outputs["zarr"]["result"] / "zarr.json").read_text()
    return int(json.loads(text)["consolidated_metadata"]["metadata"]["a"])


def test_a_process_makes_one_attempt_after_the_other(idle: Running, processes: Make) -> None:
    made = processes()
    first = attempt(idle, made, 0)
    assert first != os.getpid()
    with pytest.raises(FieldError):
        attempt(idle, made, 6)
    assert attempt(idle, made, 0) == first


def test_events_come_as_they_are_told(
    idle: Running, processes: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has planned may take longer than plans may."""
    told: list[Any] = []
    looks = count()
    watch = SimpleNamespace(monotonic=lambda: time.monotonic() + 3600.0 * len(told))
    monkeypatch.setattr("halocline_service.dispatcher.attempts.processes.time", watch)
    job = claimed(idle, "sst.zarr", scalars={"do": 9})
    made = processes(planning=60.0, stopping=60.0)
    made(job, told.append, lambda: bool(told) and next(looks) > 2)
    assert [(each.progress, each.to_json()) for each in told] == [
        (0.0, {"kind": "planned", "progress": 0.0, "blocks": 4})
    ]


def attribute(owner: object, name: str) -> Any:
    return vars(owner)[name]


def test_an_attempt_whose_process_is_stopped_for_long_is_made_again(
    idle: Running, processes: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its dispatcher renews the lease meanwhile, so nobody else would notice."""
    monkeypatch.setattr("halocline_service.dispatcher.attempts.processes.STOPPED_SECONDS", 0.3)
    monkeypatch.setattr("halocline_engine.control.stoppage.STOPPED_SECONDS", 0.3)
    made = processes()

    def stop(_event: object) -> None:
        for process in vars(made)["_all"]:
            os.kill(int(attribute(process, "_process").pid), signal.SIGSTOP)

    with pytest.raises(ConnectionError) as caught:
        made(claimed(idle, "sst.zarr", scalars={"do": 9}), stop, never)
    outcome = outcome_of(caught.value)
    assert isinstance(outcome, Lost)
    assert outcome.error["message"] == (
        "The process that computed the job was stopped by a signal for 0.3 seconds, and was ended."
    )
    assert attempt(idle, made, 0)


def test_an_attempt_is_asked_to_stop_and_its_process_stays(idle: Running, processes: Make) -> None:
    made = processes(stopping=60.0)
    first = attempt(idle, made, 0)
    looks = count()
    with pytest.raises(CancelledError):
        attempt(idle, made, 2, lambda: next(looks) > 5)
    assert attempt(idle, made, 0) == first


def test_an_attempt_that_hears_nothing_is_ended_with_its_process(
    idle: Running, processes: Make
) -> None:
    made = processes()
    first = attempt(idle, made, 0)
    looks = count()
    with pytest.raises(CancelledError):
        attempt(idle, made, 1, lambda: next(looks) > 3)
    assert not psutil.pid_exists(first)
    assert attempt(idle, made, 0) != first


def test_an_attempt_plans_for_so_long_and_no_longer(idle: Running, processes: Make) -> None:
    with pytest.raises(CapacityError) as caught:
        attempt(idle, processes(planning=0.5), 1)
    assert str(caught.value) == (
        "Planning the job took more than 0.5 seconds, the limit of a job. Make the "
        "program smaller, or the blocks of the dataset larger."
    )


def test_memory_has_a_ceiling(idle: Running, processes: Make) -> None:
    """The kernel keeps it, so that the process lives on."""
    memory = 400 * MEBIBYTE
    made = processes(changes={"attempt_memory_bytes": memory})
    peak = [0]
    first = attempt(idle, made, 0)
    done = threading.Event()

    def watch() -> None:
        with suppress(psutil.NoSuchProcess):
            watched = psutil.Process(first)
            while not done.wait(0.01):
                peak[0] = max(peak[0], watched.memory_info().rss)

    watching = threading.Thread(target=watch)
    watching.start()
    with pytest.raises((MemoryError, CapacityError)) as caught:
        attempt(idle, made, 3)
    done.set()
    watching.join()
    assert isinstance(outcome_of(caught.value), Failed)
    assert 0 < peak[0] < memory + 256 * MEBIBYTE


def test_memory_is_watched_where_the_kernel_has_no_ceiling(
    idle: Running, processes: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AttemptProcess, "resident", property(lambda _: 2**31))
    with pytest.raises(CapacityError) as caught:
        attempt(idle, processes(), 1)
    assert str(caught.value) == (
        "The process of the job took 2147483648 bytes of memory, but may take 1073741824. Make "
        "the program or the blocks smaller."
    )
    assert (caught.value.needed, caught.value.available) == (2**31, 2**30)


def test_a_process_that_keeps_much_memory_is_replaced(
    idle: Running, processes: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = processes()
    first = attempt(idle, made, 0)
    monkeypatch.setattr(AttemptProcess, "resident", property(lambda _: 2**29 + 1))
    attempt(idle, made, 0)
    assert attempt(idle, made, 0) != first


@pytest.mark.parametrize(
    ("do", "kind", "message"),
    [
        (4, Crashed, "The process that computed the job ended by signal SIGSEGV."),
        (5, Lost, "The process that computed the job ended by signal SIGKILL."),
        (6, Failed, "It is wrong."),
        (7, Failed, "Halocline met an error that it did not expect."),
        (8, Crashed, "The process that computed the job ended with status 3."),
    ],
)
def test_ends_are_told_apart(
    idle: Running, processes: Make, do: int, kind: type, message: str
) -> None:
    made = processes()
    with pytest.raises(Exception, match=r".*") as caught:
        attempt(idle, made, do)
    outcome = outcome_of(caught.value)
    assert isinstance(outcome, kind)
    assert isinstance(outcome, Crashed | Lost | Failed)
    assert outcome.error["message"] == message
    assert "secret" not in str(outcome.error)
    attempt(idle, made, 0)


def test_a_process_that_talks_nonsense_is_ended(idle: Running, processes: Make) -> None:
    with pytest.raises(ConnectionError):
        attempt(idle, processes(), 10)


def test_a_dataset_that_is_deleted_meanwhile_ends_the_job(idle: Running, processes: Make) -> None:
    resolve = Mock(side_effect=[idle.data / "sst.zarr", DatasetError("It is gone.")])
    made = processes(resolver=Mock(resolve=resolve, described=Mock(return_value={}), roots=[]))
    with pytest.raises(DatasetError):
        attempt(idle, made, 0)


@pytest.mark.parametrize(
    "error",
    [
        FieldError("It is wrong.", hint="Mend it."),
        CapacityError("It is large.", needed=3, available=2),
        TypeRuleError("It is wrong.", hint="h", rule="r", line=3, column=4, excerpt="e"),
        OutputError("There is no room."),
        InternalError("Oh."),
        DeviceError("Oh."),
    ],
)
def test_errors_travel_with_all_they_tell(error: HaloclineError) -> None:
    again = error_from(json.loads(json.dumps(error_to(error))))
    assert type(again) is type(error)
    assert again.__dict__ == error.__dict__


@pytest.mark.parametrize(
    "error", [OSError(28, "x"), OSError(5, "x"), MemoryError(), ConnectionError("x"), KeyError("x")]
)
def test_errors_of_others_travel_by_what_they_mean(error: Exception) -> None:
    again = error_from(json.loads(json.dumps(error_to(error))))
    assert outcome_of(again) == outcome_of(error)


@pytest.mark.parametrize("message", [{}, {"fields": []}, {"errno": "x"}, {"fields": {"code": 1}}])
def test_errors_that_make_no_sense_are_unexpected(message: dict[str, Any]) -> None:
    assert isinstance(outcome_of(error_from(message)), Failed)


def test_a_disk_under_an_error_is_told() -> None:
    error = OutputError("The result cannot be written.")
    error.__cause__ = OSError(errno.EIO, "Input/output error")
    again = error_from(json.loads(json.dumps(error_to(error))))
    assert isinstance(outcome_of(again), Lost)


def test_processes_end_with_their_dispatcher(idle: Running, tmp_path: Path) -> None:
    """Even if it is killed while they hear nothing."""
    text = f"""
import sys, time
from halocline_service.dispatcher.attempts.process import AttemptProcess
from halocline_service.dispatcher.attempts.setup import Setup
process = AttemptProcess([sys.executable, "-c", '''
import time
from halocline_service.dispatcher.attempts import child
child.serve(lambda setup: print("up", file=open(setup.root, "w")) or sum(range(10**15)))
'''], Setup(root={str(tmp_path / "up")!r}, roots=[], cluster=None, largest_chunk=1, limits={{}},
            log_format="json", memory=2**30))
print(process._process.pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        try:
            until((tmp_path / "up").exists)
        finally:
            parent.kill()
        until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_a_dismissed_job_leaves_its_slot_though_it_hears_nothing(
    idle: Running, processes: Make
) -> None:
    made = processes(stopping=0.3)
    stop = threading.Event()
    settings = idle.settings.model_copy(update={"concurrency": 1})
    thread = threading.Thread(target=Dispatcher(settings, idle.store, made).run, args=(stop,))
    thread.start()
    first = idle.submit(scalars={"do": 1})
    idle.wait(first, "running", seconds=30)
    second = idle.submit(scalars={"do": 0})
    idle.client.delete(f"/jobs/{first}")
    assert idle.wait(second, seconds=30)["status"] == "successful"
    assert idle.wait(first)["status"] == "dismissed"
    stop.set()
    thread.join()


def test_a_process_that_cannot_start_is_not_the_fault_of_a_job(idle: Running) -> None:
    seconds = limits(planning=1.0, stopping=1.0)
    command = (sys.executable, "-c", "raise SystemExit(2)")
    made = Processes(setup(idle), tools(idle).resolver, seconds, ahead=0, command=command)
    with made, pytest.raises(ConnectionError) as caught:
        attempt(idle, made, 0)
    assert str(caught.value) == "The process that computed the job ended with status 2."
    assert isinstance(outcome_of(caught.value), Lost)


def test_the_engine_runs_in_a_process(idle: Running) -> None:
    """With all that jobs need, and an error that it tells."""
    seconds = limits(planning=120.0, stopping=1.0)
    told: list[Any] = []
    fields = {"inp": "sst"}
    with Processes(setup(idle), tools(idle).resolver, seconds, ahead=1) as made:
        job = claimed(idle, "sst.zarr", program=PROGRAM, fields=fields, target="reference")
        outputs = made(job, told.append, never)
        with pytest.raises(FieldError):
            made(claimed(idle, "sst.zarr", program=PROGRAM), _ignore, never)
    result = idle.settings.data_dir / "jobs" / job.id / outputs["zarr"]["result"]
    assert (result / "zarr.json").exists()
    kinds = [event.to_json()["kind"] for event in told]
    assert kinds[:3] == ["planned", "compiled", "block-finished"]
    assert told[-1].progress == 1.0
