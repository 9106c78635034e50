"""What the processors of this machine are called, and how many threads compute."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any, cast

import numba

__all__ = ["processor", "threads"]


def threads() -> int:
    return int(cast("Any", numba).get_num_threads())


def processor() -> str:
    """Return what the processor calls itself."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
