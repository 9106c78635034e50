"""Machine code of the CPU target is kept between processes, and damage is no error."""

from __future__ import annotations

import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from halocline_engine.backends.cpu import code
from halocline_engine.backends.cpu.code import machine_code

TEXT = """
def kernel0(place, count):
    a = pointer_float64(place)
    for n in range(count):
        store_0(a, n * 8, load_0(a, n * 8) + round_away(0.5))
"""
SIGNATURES = [("kernel0", ("int64", "int64"))]

#: Prints what the array is after the call, and whether the code was there.
PROCESS = f"""
import sys
from pathlib import Path
import numpy as np
from halocline_engine.backends.cpu import code
code.code_folder = lambda target: Path(sys.argv[1], target)
(kernel,) = code.machine_code({TEXT!r}, {SIGNATURES!r})
a = np.arange(3.0)
kernel(a.ctypes.data, 3)
print(a.tolist(), len(kernel.stats.cache_hits))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(code, "code_folder", tmp_path.joinpath)
    return tmp_path / "cpu"


def hits(kernels: Any) -> int:
    return len(kernels[0].stats.cache_hits)


def test_another_process_finds_the_code(tmp_path: Path) -> None:
    def run(_number: int = 0) -> str:
        command = [sys.executable, "-W", "error", "-c", PROCESS, str(tmp_path)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert run() == "[1.0, 2.0, 3.0] 0"
    with ThreadPoolExecutor(2) as pool:
        assert set(pool.map(run, range(2))) == {"[1.0, 2.0, 3.0] 1"}


def test_processes_that_compile_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", PROCESS, str(tmp_path)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert {one.communicate()[0].split("]")[0] for one in both} == {"[1.0, 2.0, 3.0"}
    assert [one.returncode for one in both] == [0] * 3


def test_a_change_of_what_texts_call_is_another_entry(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine_code(TEXT, SIGNATURES)
    assert hits(machine_code(TEXT, SIGNATURES)) == 1
    monkeypatch.setattr(code, "_called", Mock(return_value=("another version",)))
    assert hits(machine_code(TEXT, SIGNATURES)) == 0
    assert len(list(folder.glob("*/*"))) == 2


def test_damaged_code_is_compiled_again(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    machine_code(TEXT, SIGNATURES)
    (kept,) = folder.rglob("*.nbc")
    kept.write_bytes(b"\x80" + kept.read_bytes()[:100])
    with caplog.at_level(logging.WARNING):
        assert hits(machine_code(TEXT, SIGNATURES)) == 0
    assert f"Machine code in {kept.parents[1]} is not used: " in caplog.text


def test_a_folder_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("not a folder")
    monkeypatch.setattr(code, "code_folder", Mock(return_value=file))
    assert hits(machine_code(TEXT, SIGNATURES)) == 0
    assert file.read_text() == "not a folder"
