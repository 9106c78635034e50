"""The page of figures says what the committed figures say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_page_is_what_the_script_makes_of_the_figures() -> None:
    script = Path(__file__).with_name("report.py")
    done = subprocess.run([sys.executable, str(script), "--check"], check=False)
    assert done.returncode == 0, "Run 'python tests/benchmarks/report.py'."
