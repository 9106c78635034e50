"""What becomes of errors that tasks of a cluster end with, and of workers that are gone."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import psutil
import pytest
from clusters import Answered, MadeUp, facts
from distributed import CancelledError, KilledWorker
from distributed.comm.core import CommClosedError
from hypothesis import given, settings
from hypothesis import strategies as st

from halocline_engine.distribute.executors import workers as looked_up
from halocline_engine.distribute.executors.dask import ClusterPool, connect
from halocline_engine.distribute.executors.futures import settle
from halocline_engine.distribute.executors.workers import PATIENCE, SILENT, Workers
from halocline_engine.errors import ArgumentError, CapacityError, ClusterError, DeviceError
from halocline_engine.errors import CancelledError as Cancelled


def pool(error: BaseException) -> Any:
    """Return a pool of one worker, on which everything fails."""
    return ClusterPool(MadeUp("tcp://here:1", answer=error))


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a second pass between two looks."""
    seconds = iter(range(10**6))
    clock = SimpleNamespace(monotonic=lambda: float(next(seconds)), sleep=abs)
    monkeypatch.setattr(looked_up, "time", clock)


@pytest.mark.parametrize("lost", [CommClosedError("gone"), CancelledError("k"), TimeoutError()])
def test_a_lost_cluster_is_said(lost: Exception) -> None:
    with pytest.raises(ClusterError) as caught:
        pool(lost)._ask(int)
    assert str(caught.value) == (
        f"The cluster was lost during the run: {type(lost).__name__}: {lost}. Start it again, and"
        " run the job with the same workspace."
    )


def test_an_error_of_the_work_stays_what_it_is() -> None:
    with pytest.raises(ZeroDivisionError, match="of the work"):
        pool(ZeroDivisionError("of the work"))._ask(int)


def test_work_that_kills_workers_is_not_the_clusters_fault() -> None:
    worker: Any = "tcp://here:1"
    killed = KilledWorker("key", worker, 3)
    with pytest.raises(DeviceError) as caught:
        pool(killed)._ask(int)
    assert not isinstance(caught.value, ClusterError)


@pytest.mark.usefixtures("hasty")
def test_a_cluster_without_workers_is_given_up_after_a_while() -> None:
    client = MadeUp()
    with pytest.raises(ClusterError) as caught:
        Workers(client).now()
    assert str(caught.value) == "The cluster has no worker that can be used. Start some workers."
    assert client.looks == PATIENCE + 2  # the first one ends no second


@pytest.mark.usefixtures("hasty")
def test_workers_that_fall_silent_for_long_are_as_good_as_gone() -> None:
    client = MadeUp("a", "b")
    there = Workers(client)
    assert set(there.look()) == {"a", "b"}
    client.beating = {"b"}
    for _ in range(int(SILENT) - 1):
        assert set(there.look()) == {"a", "b"}  # it may compile on a busy machine
    assert set(there.look()) == {"b"}
    client.beating = {"a"}  # it was stopped, and goes on
    assert "a" in there.look()
    client.beating = set()
    looks = client.looks
    for _ in range(int(SILENT + PATIENCE) - 1):
        there.look()
    with pytest.raises(ClusterError) as caught:
        there.look()
    assert str(caught.value) == (
        "No worker of the cluster has been heard of for 60 seconds. They are stopped or hang: start"
        " them again."
    )
    assert client.looks - looks == SILENT + PATIENCE


@pytest.mark.usefixtures("hasty")
def test_workers_that_dask_has_paused_end_a_run_that_they_would_hold_for_ever() -> None:
    client = MadeUp("a", "b")
    there = Workers(client)
    there.look()
    client.workers["a"]["status"] = "paused"
    for _ in range(19):
        assert set(there.look()) == {"a", "b"}
    assert set(there.look()) == {"b"}
    client.workers["a"]["status"] = "running"
    assert set(there.look()) == {"a", "b"}
    for facts_of in client.workers.values():
        facts_of["status"] = "paused"
    with pytest.raises(CapacityError) as caught:
        _ = [there.look() for _ in range(100)]
    assert str(caught.value) == (
        "Dask has paused all workers of the cluster, because each exceeds the share of its memory "
        "above which Dask starts no tasks. Give smaller 'chunks', or workers with more memory."
    )
    assert client.looks < 60


@pytest.mark.usefixtures("hasty")
def test_what_happens_to_workers_is_noted_once() -> None:
    client = MadeUp("a", "b", "c")
    there = Workers(client)
    there.look()
    client.beating = {"b", "c"}
    client.workers["b"]["status"] = "paused"
    for _ in range(15):
        there.look()
    del client.workers["c"]
    there.look()
    assert [(each.worker, each.state, each.message) for each in there.notices()] == [
        ("a", "silent", "Worker 'a' has sent no heartbeat for 10 s: it is busy or stopped."),
        ("b", "paused", "Worker 'b' is paused by Dask because it uses too much of its memory."),
        ("c", "gone", "Worker 'c' is gone; its blocks are computed again elsewhere."),
    ]
    assert not list(there.notices())


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=300))
@settings(max_examples=60, deadline=None)
def test_a_worker_is_passed_over_only_after_a_long_silence_or_pause(
    looks: list[tuple[bool, bool, bool]],
) -> None:
    """Whatever else happened; another worker is there all the time."""
    client = MadeUp("a", "other")
    there = Workers(client)
    seconds = iter(range(10**6))
    silent = paused = 0
    clock = SimpleNamespace(monotonic=lambda: float(next(seconds)))
    with patch.object(looked_up, "time", clock):
        there.look()
        for beats, pauses, lasts in looks:
            client.beating = {"a", "other"} if beats else {"other"}
            client.workers["a"]["status"] = "paused" if pauses else "running"
            for _ in range(25 if lasts else 1):
                silent = 0 if beats else silent + 1
                paused = paused + 1 if pauses else 0
                assert ("a" in there.look()) == (silent < SILENT and paused < 20)


@pytest.mark.usefixtures("hasty")
def test_a_worker_that_comes_back_in_time_is_waited_for() -> None:
    client = MadeUp("a")
    there = Workers(client)
    for name in "bcd":
        there.look()
        client.workers.clear()
        for _ in range(int(PATIENCE)):
            assert not there.look()
        client.workers[name] = facts()
        client.beating = {name}
    assert set(there.now()) == {"d"}


def test_a_process_that_was_stopped_itself_has_lost_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it was: the heartbeats of that time are looked at afterwards."""
    now = 0.0
    monkeypatch.setattr(looked_up, "time", SimpleNamespace(monotonic=lambda: now))
    client = MadeUp("a")
    client.beating = set()
    there = Workers(client)
    there.look()
    now += 3600.0
    assert set(there.look()) == {"a"}


@pytest.mark.parametrize("error", [OSError("refused"), TimeoutError("late"), RuntimeError("over")])
def test_a_scheduler_that_does_not_answer_is_said(error: Exception) -> None:
    client: Any = MadeUp("a")

    def fail(**_: object) -> None:
        raise error

    client.identity = fail
    with pytest.raises(ClusterError) as caught:
        Workers(client).now()
    assert str(caught.value) == (
        f"The scheduler does not answer: {type(error).__name__}: {error}. Start it again, and run"
        " the job with the same workspace."
    )
    client.status = "closed"
    with pytest.raises(ClusterError, match=r"^The scheduler does not answer: it is closed\."):
        Workers(client).now()


@pytest.mark.usefixtures("hasty")
def test_a_worker_that_goes_while_it_is_asked_is_left_out() -> None:
    class Never(Answered):
        def done(self) -> bool:
            return False

        def add_done_callback(self, call: Any) -> None:
            client.workers.pop("a", None)

    class Client(MadeUp):
        def submit(self, *_: object, workers: list[str], **__: Any) -> Any:
            return Never(0) if workers == ["a"] else Answered(7)

    client = Client("a", "b")
    made: Any = ClusterPool(client)
    assert made._ask(int) == {"b": 7}
    client = Client("a")
    made = ClusterPool(client)
    with pytest.raises(ClusterError) as caught:
        made._ask(int)
    assert str(caught.value) == (
        "The workers of the cluster were lost while they were queried. Run the job again."
    )


@pytest.mark.usefixtures("hasty")
def test_a_run_without_workers_can_be_cancelled_and_ends() -> None:
    """It neither waits for ever nor takes an empty cluster for work that is done."""
    work: Any = None
    blocks: Any = [1, 2]
    with pytest.raises(Cancelled):
        list(ClusterPool(MadeUp()).run(work, blocks, lambda: True))
    with pytest.raises(ClusterError, match="no worker"):
        list(ClusterPool(MadeUp()).run(work, blocks, lambda: False))


@pytest.mark.usefixtures("hasty")
def test_work_that_no_worker_has_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sent(Answered):
        cancelled = False

        def done(self) -> bool:
            return self.cancelled

        def cancel(self) -> None:
            self.cancelled = True

    class Held(Sent):
        key = "held"
        left = 3

        def done(self) -> bool:
            self.left -= 1
            return self.left < 0

    client: Any = MadeUp("a")
    held_by: dict[str, list[str]] = {"a": ["held"], "stopped": ["key"]}
    monkeypatch.setattr(client, "processing", lambda workers: held_by)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    sent, held = Sent(0), Held(0)
    made: Any = ClusterPool(client)
    settle(made.client, made._chosen, {sent, held})
    assert (sent.cancelled, held.cancelled) == (True, False)


def test_a_script_that_starts_processes_anew_in_each_of_them(tmp_path: Path) -> None:
    """One without the guard around what it does; its own processes say nothing."""
    script = tmp_path / "script.py"
    script.write_text(
        "import xarray as xr\nimport halocline_engine as he\n"
        'text = "def f(a: Field[float], b: Field[float]):\\n'
        '    with computation(PARALLEL), interval(...):\\n        b = a\\n"\n'
        'he.run(text, xr.Dataset({"a": (("y", "x"), [[1.0]])}), target="cpu", cluster=1)\n'
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert done.stderr.splitlines()[-1] == (
        "halocline_engine.errors.ClusterError: The 1 worker processes did not start: Nanny failed"
        " to start. New processes run the script again that starts them: put what it does under"
        " if __name__ == '__main__':, or start a cluster before and name its address."
    )


def test_a_worker_that_kept_most_of_its_memory_still_takes_small_blocks() -> None:
    client: Any = MadeUp("a")
    client.workers["a"] |= {"memory_limit": 10**9, "metrics": {"memory": 9 * 10**8}}
    assert ClusterPool(client).memory == 5 * 10**7
    client.workers["a"]["metrics"] = {"memory": 10**8}
    assert ClusterPool(client).memory == 65 * 10**7


@pytest.mark.parametrize(
    "text", ["host", "", "localhost:", ":8786", "nowhere://host:1", "host:port", "tcp://host:70000"]
)
def test_a_text_that_is_no_address_is_refused_at_once(text: str) -> None:
    with pytest.raises(ArgumentError) as caught, connect(text):
        pass
    assert str(caught.value) == (
        f"Argument 'cluster' must be the address of a scheduler with its port, got '{text}'. Write"
        " it as 'tcp://host:8786' or 'tls://host:8786'. A number starts workers on this machine:"
        " cluster=2."
    )


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1:9", "Connection refused"),
        ("tls://127.0.0.1:9", "Connection refused"),
        ("tcp://[::1]:9", "Connection refused|Cannot assign requested address"),
        (f"tcp://{'a' * 70}.b:9", "(encoding with )?'idna' codec .*|label too long"),
    ],
)
def test_an_address_where_nothing_listens_is_refused_at_once(address: str, reason: str) -> None:
    with pytest.raises(ClusterError) as caught, connect(address):
        pass
    hint = (
        " Start one with 'dask scheduler', or check the address. A number starts workers on this"
        " machine: cluster=2."
    )
    told = re.escape(f"No scheduler answers at '{address}': ") + f"({reason})\\."
    assert re.fullmatch(told + re.escape(hint), str(caught.value))


def test_what_answers_and_is_no_scheduler_is_refused_and_forgotten() -> None:
    script = r"""
import socket, threading
from halocline_engine.distribute.executors.dask import connect
from halocline_engine.errors import ClusterError

def serve():
    while True:
        peer, _ = listening.accept()
        peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10)
        peer.close()

listening = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=serve, daemon=True).start()
for scheme in ("tcp", "tls"):
    try:
        with connect(f"{scheme}://127.0.0.1:{listening.getsockname()[1]}"):
            pass
    except ClusterError as error:
        print(error)
"""
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.count("what answers there is none or has other certificates: ") == 2
    assert done.stdout.count("Check its address. For 'tls://', pass a distributed.Client that") == 2
    assert not done.stderr
    assert time.monotonic() - started < 25  # Dask would wait for 30 s at the end


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux")
def test_an_interrupt_while_workers_start_leaves_no_process_and_no_traceback(
    tmp_path: Path,
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import signal, time\n"
        "from halocline_engine.distribute.executors.dask import start\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored in background
        "    try:\n"
        "        with start(2, 'reference'):\n"
        "            time.sleep(30)  # a busy machine may interrupt it only here\n"
        "    except KeyboardInterrupt:\n"
        "        print('interrupted')\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    others: list[psutil.Process] = []
    while len(others) < 3 and process.poll() is None:  # a worker, and those of `multiprocessing`
        time.sleep(0.05)
        others = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    assert process.communicate(timeout=60) == ("interrupted\n", "")
    psutil.wait_procs(others, timeout=10)
    assert not [one for one in others if one.is_running()]
