"""Results appear whole or not at all, and nothing of those that failed is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from halocline_engine.distribute.jobs.outputs import published

WRITER = """
import sys, time
from pathlib import Path
from halocline_engine.distribute.jobs.outputs import published
with published(Path(sys.argv[1])) as part:
    part.mkdir()
    (part / "zarr.json").write_text("of it")
    print(part.name, flush=True)
    time.sleep(600)
"""


def writing(output: Path) -> subprocess.Popen[str]:
    """Return a process that has begun to write."""
    command = [sys.executable, "-c", WRITER, str(output)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    name = process.stdout.readline().strip()
    assert (output.parent / name / "zarr.json").exists()
    return process


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    output = tmp_path / "result.zarr"
    with writing(output) as killed, writing(output) as alive:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        foreign = tmp_path / ".result.zarr.0123456789ab-1-1.abcdefabcdef.part"
        other = tmp_path / f".other.zarr.{next(tmp_path.glob('*.part')).name.split('.')[3]}.ab.part"
        for folder in (foreign, other):
            folder.mkdir()
        with published(output) as part:
            part.mkdir()
            (part / "whole").write_text("all of it")
            left = [path for path in tmp_path.glob(".result.zarr.*") if path != part]
        alive.kill()
    # One of a process that was alive, one of another machine.
    assert sorted(int(path.name.split("-")[1]) for path in left) == [1, alive.pid]
    with published(tmp_path / "another.zarr") as part:
        part.mkdir()
    assert foreign.exists()
    assert other.exists()
    assert (output / "whole").read_text() == "all of it"


def test_nothing_is_left_where_the_body_raises(tmp_path: Path) -> None:
    def fail() -> None:
        with published(tmp_path / "result.zarr") as part:
            part.mkdir()
            assert str(os.getpid()) in part.name
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not list(tmp_path.iterdir())
