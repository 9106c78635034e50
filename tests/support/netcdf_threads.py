"""Processes that open and read NetCDF files in many threads at once, and how many of them died.

    python tests/support/netcdf_threads.py 60

starts so many fresh processes, one after the other, with this installation's engine. Without one
lock around all that the libraries do, half of them die.
"""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import xarray as xr

from halocline_engine.datasets.inputs.opening import open_source

THREADS = 8
FORMATS = ("NETCDF4", "NETCDF4", "NETCDF3_64BIT", "NETCDF3_64BIT_DATA", "NETCDF4_CLASSIC")


def make_files(folder: Path) -> None:
    """Write files of several formats, compressed where that is possible."""
    random = np.random.default_rng(1)
    for number, form in enumerate(FORMATS):
        variables = {name: (("z", "y", "x"), random.random((2, 20, 30))) for name in "abc"}
        packed = {"zlib": True, "chunksizes": (1, 10, 15)} if "NETCDF4" in form else {}
        encoding = dict.fromkeys(variables, packed)
        path = folder / f"{number}.nc"
        xr.Dataset(variables).to_netcdf(path, engine="netcdf4", format=form, encoding=encoding)  # pyright: ignore[reportCallIssue, reportArgumentType]


def read_all(folder: Path, rounds: int) -> None:
    """Open and read all files in each of several threads; raises what one of them raised."""
    gate, failed = threading.Barrier(THREADS), list[BaseException]()

    def read() -> None:
        gate.wait()
        try:
            for turn in range(rounds):
                for path in sorted(folder.glob("*.nc")):
                    path.touch()  # opened anew, as a file that was written anew
                    opened = open_source(path)
                    for name in "abc":
                        opened.source.read(name, (slice(turn % 2, 2), slice(3, 17), slice(0, 30)))
        except BaseException as error:  # to be raised where it is seen
            failed.append(error)

    threads = [threading.Thread(target=read) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def deaths(processes: int, rounds: int = 4) -> Counter[int]:
    """Return how often fresh processes ended with which code."""
    with tempfile.TemporaryDirectory() as folder:
        make_files(Path(folder))
        command = [sys.executable, __file__, "read", folder, str(rounds)]
        return Counter(subprocess.run(command, check=False).returncode for _ in range(processes))


if __name__ == "__main__":
    if sys.argv[1] == "read":
        read_all(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        print(dict(deaths(int(sys.argv[1]))))
