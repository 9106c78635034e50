"""A worker that is stopped for a moment stays: the bounded form of `deploy/try-workers.py`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "deploy" / "try-workers.py"


@pytest.mark.timeout(200)
def test_a_short_stop_on_a_busy_machine_costs_no_worker() -> None:
    words = ["--load", "2", "--minutes", "0.05", "--stop", "2"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=190,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert (figures["lost"], figures["failed"], figures["said"]) == (0, [], [])
    assert figures["jobs"] >= 2
