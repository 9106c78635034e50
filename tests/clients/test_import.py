"""What `import halocline` takes: scripts and commands begin with it."""

from __future__ import annotations

import subprocess
import sys

#: Seconds of the processor, so that other work of the machine does not count.
MOST = 0.3
SCRIPT = """
import sys, time
began = time.process_time()
import halocline
print(time.process_time() - began, *sorted(sys.modules))
"""
HEAVY = {"dask", "distributed", "numba", "pandas", "rich", "typer", "xarray", "zarr"}


def test_it_is_short_and_loads_nothing_heavy() -> None:
    taken: list[float] = []
    for _ in range(5):
        told = subprocess.run(
            [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
        ).stdout.split()
        assert set(told[1:]) & HEAVY == set()
        taken.append(float(told[0]))
        if min(taken) < MOST:
            return
    raise AssertionError(f"import halocline took {min(taken):.2f} s of the processor")
