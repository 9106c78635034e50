"""The comparison with SciPy compares solutions before it compares times."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_both_solve_the_same_systems(tmp_path: Path) -> None:
    script = Path(__file__).with_name("cpu_solves.py")
    result = tmp_path / "result.json"
    sizes = ("--rows", "2048", "--cells", "2", "--rounds", "1")
    subprocess.run(
        [sys.executable, str(script), *sizes, "--result", str(result)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    figures = json.loads(result.read_text())["figures"]
    assert [one["case"] for one in figures[:6]] == [
        f"{2048 // rows} systems of {rows} rows, {lies}"
        for rows in (20, 80, 512)
        for lies in ("one behind the other", "side by side")
    ]
    assert min(min(one["ours"], one["scipy"], one["times"]) for one in figures) > 0
