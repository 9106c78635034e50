"""The command, as operators meet it."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from deadlines import until
from typer.testing import CliRunner

from halocline_engine.device.compile import compiler
from halocline_service import doctor, machine
from halocline_service.auth.keys import verify
from halocline_service.commands import app
from halocline_service.settings import Settings
from halocline_service.store.sql.store import open_store
from halocline_service.supervisor import Child, Gone, Supervisor


def call(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(words))
    return done.exit_code, done.output


def test_keys_are_made_listed_and_revoked(tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path))
    status, text = call("key", "create", "--owner", "ann", *data)
    key = text.strip()
    assert (status, key[:3]) == (0, "hc_")
    store = open_store(f"sqlite:///{tmp_path}/halocline.sqlite3")
    assert verify(store.keys, key) == "ann"
    key_id = key.split("_")[1]
    assert call("key", "list", *data) == (0, f"{key_id} ann\n")
    assert call("key", "revoke", key_id, *data) == (0, "Revoked.\n")
    assert verify(store.keys, key) is None
    assert call("key", "revoke", key_id, *data)[0] == 1
    assert call("key", "list", *data) == (0, f"{key_id} ann (revoked)\n")
    store.close()


def test_migrating_twice_is_well(tmp_path: Path) -> None:
    for _ in range(2):
        assert call("migrate", "--data-dir", str(tmp_path)) == (0, "The database is up to date.\n")


def test_an_open_door_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HALOCLINE_AUTH", "none")
    status, text = call("api", "--host", "0.0.0.0", "--data-dir", str(tmp_path))
    assert status == 2
    assert "Authentication may be 'none' only on a loopback address, got host '0.0.0.0'." in text


def test_the_doctor_tells_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HALOCLINE_DATA_ROOTS", str(tmp_path / "nothing"))
    status, text = call("doctor", "--port", "0", "--data-dir", str(tmp_path / "data"))
    assert status == 1
    lines = text.splitlines()
    assert [line[:3] for line in lines] == ["ok ", "ok ", "ok ", "BAD", "ok ", "ok ", "ok ", "ok "]
    assert lines[2].endswith("halocline.sqlite3 is made at the first start")
    assert lines[4] == "ok  scheduler: none is set; the dispatcher computes by itself"
    assert lines[3].endswith("nothing' in HALOCLINE_DATA_ROOTS is not a folder")


def seen(*words: str) -> dict[str, tuple[bool, str]]:
    """Give what the doctor finds, by what it looks at."""
    lines = call("doctor", "--port", "0", *words)[1].splitlines()
    parts = [line[4:].partition(": ") for line in lines if line[:4] in ("ok  ", "BAD ")]
    wells = [line[:2] == "ok" for line in lines if line[:4] in ("ok  ", "BAD ")]
    return {what: (well, told) for well, (what, _, told) in zip(wells, parts, strict=True)}


def test_the_doctor_names_the_compiler_of_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "gpu_count", lambda: 2)
    monkeypatch.setattr(doctor.importlib.util, "find_spec", Mock(return_value=object()))
    monkeypatch.setattr(compiler, "compiler_version", lambda: (13, 5))
    monkeypatch.setattr(compiler, "find_nvrtc", lambda: "/lib/libnvrtc.so.13")
    finding = next(one for one in doctor.examine(Settings()) if one.what == "GPUs")
    assert finding.well
    assert finding.seen == (
        "2 were seen; kernels are compiled by '/lib/libnvrtc.so.13' of CUDA 13.5"
    )


def test_the_doctor_asks_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ("--data-dir", str(tmp_path / "data"))
    assert call("adopt", *folder)[0] == 0
    name = f"sqlite:///{tmp_path}/data/halocline.sqlite3"
    assert seen(*folder)["database"] == (True, f"{name} answers")
    assert seen(*folder)["scheduler"][0]
    (tmp_path / "data" / "halocline.sqlite3").write_bytes(b"no database" * 100)
    assert seen(*folder)["database"] == (False, f"{name} cannot be used: file is not a database")
    monkeypatch.setenv("HALOCLINE_DATABASE_URL", f"sqlite:///{tmp_path}/other.sqlite3")
    well, told = seen(*folder)["database"]
    assert (well, told.partition(":")[0]) == (
        False,
        "The database was not migrated to this version of the service",
    )
    assert call("migrate", *folder)[0] == 0
    assert seen(*folder)["database"] == (
        False,
        f"the data folder '{tmp_path}/data' is not that of sqlite:///{tmp_path}/other.sqlite3",
    )
    monkeypatch.setenv("HALOCLINE_DATABASE_URL", "postgresql://ann:secret@127.0.0.1:9/h")
    well, told = seen(*folder)["database"]
    assert not well
    assert "secret" not in told


def test_the_doctor_asks_the_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HALOCLINE_SCHEDULER", "tcp://127.0.0.1:9")
    assert seen("--data-dir", str(tmp_path))["scheduler"] == (
        False,
        "No scheduler answers at 'tcp://127.0.0.1:9': Connection refused.",
    )
    monkeypatch.setenv("HALOCLINE_SCHEDULER", "tls://127.0.0.1:9")
    well, told = seen("--data-dir", str(tmp_path))["scheduler"]
    assert not well
    assert told.startswith(f"There is no certificate '{tmp_path}/tls/cluster.pem'")


def test_a_worker_has_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert machine.worker_environment({}, gpu=2, threads=4)["CUDA_VISIBLE_DEVICES"] == "2"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    assert machine.worker_environment({}, gpu=1, threads=4)["CUDA_VISIBLE_DEVICES"] == "7"
    assert machine.worker_environment({}, gpu=None, threads=4)["CUDA_VISIBLE_DEVICES"] == ""
    command = machine.worker_command(
        "tls://a:1", memory=10**9, jobs=3, folder=Path("f"), gpu=True, host="127.0.0.1"
    )
    assert command[-2:] == ["--resources", "GPU=1"]
    given = dict(itertools.pairwise(command))
    assert given["--memory-limit"] == "1000000000"
    assert given["--nthreads"] == "6"  # blocks of each job that runs
    assert given["--host"] == "127.0.0.1"
    assert "--name" not in given  # two commands on one machine would give the same one


def test_gpus_are_counted_without_a_gpu_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'GPU 0: A (UUID: x)'\necho 'GPU 1: A (UUID: y)'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert machine.gpu_count() == 2
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert machine.gpu_count() == 1
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert machine.gpu_count() == 0


_KEEP = """
import sys
from pathlib import Path
from halocline_service.settings import Settings
from halocline_service.supervisor import Child, Gone, Supervisor

folder = Path(sys.argv[1])
shell = "echo $$ >> " + str(folder / "pids") + "; sleep 60"
try:
    with Supervisor() as supervisor:
        supervisor.start(Child("The child", ["/bin/sh", "-c", "exec sh -c '" + shell + "'"]))
        supervisor.wait_for("the child", (folder / "pids").exists, seconds=10)
        supervisor.watch()
except Gone as gone:
    sys.exit(str(gone))
"""


def _pids(folder: Path, count: int) -> list[int]:
    path = folder / "pids"
    until(lambda: path.exists() and len(path.read_text().split()) >= count)
    return [int(word) for word in path.read_text().split()]


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_children_are_started_again_and_end_with_their_parent(
    tmp_path: Path, how: signal.Signals
) -> None:
    parent = subprocess.Popen([sys.executable, "-c", _KEEP, str(tmp_path)])
    (first,) = _pids(tmp_path, 1)
    os.kill(first, signal.SIGKILL)
    _, second = _pids(tmp_path, 2)
    assert _is_alive(second)
    parent.send_signal(how)
    parent.wait(timeout=20)
    until(lambda: not _is_alive(second))
    assert parent.returncode == (0 if how is not signal.SIGKILL else -signal.SIGKILL)


def test_a_child_that_ends_at_once_is_named() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with Supervisor() as supervisor:
        supervisor.start(Child("The thing", ["/bin/sh", "-c", "exit 3"]))
        with pytest.raises(Gone, match=r"The thing ended with status 3 before it was ready\."):
            supervisor.wait_for("it", lambda: False, seconds=10)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("words", [("up",), ("worker",), ("key", "create"), ("key",), ()])
def test_the_help_shows_flags_as_they_are_written(words: tuple[str, ...]) -> None:
    status, text = call(*words, "--help")
    assert status == 0
    assert "bool" not in text
    assert re.search(r"^  --help +Show this message and exit\.$", text, re.MULTILINE)
