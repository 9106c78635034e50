"""Processes killed with SIGKILL while jobs run: the bounded form of `deploy/try-chaos.py`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "deploy" / "try-chaos.py"


@pytest.mark.timeout(290)
def test_no_job_is_lost_doubled_wrong_or_given_up() -> None:
    """Thirty jobs of six kinds; how quick they are is for the whole form to say."""
    size = ["--jobs", "30", "--calm", "6", "--steps", "40", "--side", "200"]
    words = [*size, "--every", "2", "--kills", "5", "--throughput", "0"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["jobs"] == 30
    assert sum(figures["kills"].values()) == 5  # each process once
