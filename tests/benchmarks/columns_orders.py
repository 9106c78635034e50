"""Measure on one target how fast errors of column operators fall, and write what came out.

    PYTHONPATH=engine python tests/benchmarks/columns_orders.py RESULT.json --target cuda
        [--commit COMMIT]

All groups of `column_golden`, on all their sizes. Exits with 1 where a figure is not as published.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from column_cases import Loader
from column_golden import GROUPS, faults, measure

from halocline_engine.backends.base import Memory, Value
from halocline_engine.backends.host import HostMemory
from halocline_engine.backends.registry import find
from halocline_engine.device.probe import device_facts
from halocline_engine.schedule.nodes import Schedule

__all__ = ["main"]


def main() -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("result", type=Path)
    parser.add_argument("--target", choices=("reference", "cpu", "cuda"), default="cpu")
    parser.add_argument("--commit", default="unknown")
    options = parser.parse_args()
    target: str | Loader = _OnDevice if options.target == "cuda" else options.target
    record: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": options.commit,
        "target": options.target,
        "device": device_facts().name if options.target == "cuda" else platform.machine(),
        "python": platform.python_version(),
        "groups": {},
    }
    wrong: list[str] = []
    for name, group in GROUPS.items():
        found = measure(group, target)
        record["groups"][name] = found
        wrong += faults(group, found)
        for row, (first, falling) in found.items():
            print(f"{name:10} {row:12} {first:.4g}", *(f"{order:.3f}" for order in falling))
        options.result.write_text(json.dumps(record, indent=1) + "\n")
    if wrong:
        sys.exit("; ".join(wrong))


class _OnDevice:
    """A program on the current device that takes arrays in host memory."""

    def __init__(self, schedule: Schedule) -> None:
        self._executable = find("cuda").build(schedule).load()

    @property
    def memory(self) -> Memory:
        return HostMemory()

    def repeat(
        self, work: Callable[[], None], times: int, look: Callable[[], None] | None = None
    ) -> None:
        for _ in range(times):
            if look is not None:
                look()
            work()

    def __call__(
        self,
        fields: Mapping[str, Any],
        scalars: Mapping[str, Value],
        origins: Mapping[str, tuple[int, int, int]],
        domain: tuple[int, int, int],
    ) -> None:
        memory = self._executable.memory
        there: dict[str, Any] = {}
        for name, host in fields.items():
            there[name] = memory.empty(host.shape, host.dtype, (0, 0, 0))
            memory.upload(host, there[name])
        self._executable(there, scalars, origins, domain)
        for name, host in fields.items():
            host[...] = memory.download(there[name])


if __name__ == "__main__":
    main()
