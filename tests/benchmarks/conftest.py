"""Only tests are collected here: scripts import each other, and libraries that may be absent."""

from __future__ import annotations

from pathlib import Path

collect_ignore = [
    path.name for path in Path(__file__).parent.glob("*.py") if not path.name.startswith("test_")
]
