"""Machine code of the CPU target is kept between processes, and damage is no error."""

from __future__ import annotations

import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import numpy as np
import pytest

from halocline_engine.backends.cpu import builtins, code
from halocline_engine.backends.cpu.code import machine_code

TEXT = """
def kernel0(place, count):
    a = pointer_float64(place)
    for n in range(count):
        store_0(a, n * 8, load_0(a, n * 8) + round_away(0.5))
"""
SIGNATURES = [("kernel0", ("int64", "int64"))]
LOOKED_UP = """
def kernel0(rows, columns, found, count):
    a, n, r = pointer_float64(rows), pointer_int64(columns), pointer_float64(found)
    for i in range(count):
        x = load(a, load(n, i * 8) * 32 + i * 8)
        store_0(r, i * 8, x + x)
"""

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


def test_elements_of_many_rows_are_loaded_one_by_one(folder: Path) -> None:
    """Gathers of the processor would be slower; what is computed with them is vectorised anyway."""
    binding = cast("Any", import_module("llvmlite.binding"))
    if not binding.get_host_cpu_features().get("avx2"):
        pytest.skip("the processor has no such instructions")
    (kernel,) = machine_code(LOOKED_UP, [("kernel0", ("int64",) * 4)])
    rows, columns = np.arange(12.0).reshape(3, 4), np.array([0, 2, 1, 2])
    found = np.empty(4)
    kernel(rows.ctypes.data, columns.ctypes.data, found.ctypes.data, 4)
    assert found.tolist() == [0.0, 18.0, 12.0, 22.0]
    (text,) = cast("Any", kernel).inspect_asm().values()
    assert "vgather" not in text
    assert any(f"vaddpd\t%{one}mm" in text for one in "yz")


def test_processors_are_told_to_avoid_only_what_they_have() -> None:
    wide, features = builtins.loop_attributes("+sse4.2,+avx2,+fma")
    assert features == '"target-features"="+sse4.2,+avx2,+fma,+prefer-no-gather"'
    assert builtins.loop_attributes("+neon,+sve") == builtins.loop_attributes("-avx2") == (wide,)


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
