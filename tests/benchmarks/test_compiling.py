"""Compiled code that is on disk is found quickly."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

#: A first call that finds its code takes no more of the time of one that compiles; usually 1 %.
WARM = 0.1


def test_a_full_cache_saves_the_compiler(tmp_path: Path) -> None:
    script = Path(__file__).with_name("compiling.py")
    result = tmp_path / "result.json"
    command = [sys.executable, str(script), "--only", "horizontal diffusion", "--result", result]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    figures = json.loads(result.read_text())["figures"]
    assert [one["dtype"] for one in figures] == ["float64", "float32"]
    for one in figures:
        assert one["warm"] < WARM * one["cold"]
        assert one["code"] > 0
