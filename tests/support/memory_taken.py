"""How much memory jobs take, beside what they projected: kinds of jobs, chunks, formats, threads.

    python tests/support/memory_taken.py [MB of a chunk ...]

prints a table; each line is a fresh process, which has made the same job with little data before.
"""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import ctypes
import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import xarray as xr

import halocline_engine as he
from halocline_engine.distribute.tasks.events import Event, Planned
from halocline_engine.errors import CapacityError

ROWS, BLUR = (
    16,
    """
def blur(a: Field[np.float64], out: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        out = a[-1, 0, 0] + a[1, 0, 0]
""",
)
BANDS: dict[str, Any] = {"lower": "c", "diagonal": "b", "upper": "c", "rhs": "a"}
FACTORED = ("lower", "diagonal", "upper")
OUTER: dict[str, Any] = {"second_lower": "c", "second_upper": "c"}
KINDS: Mapping[str, tuple[Any, dict[str, Any]]] = {
    "stencil": (he.run, {"program": BLUR, "axes": {"I": "x", "J": "z"}}),
    "tridiagonal": (he.tridiagonal, {**BANDS, "dim": "z"}),
    "pentadiagonal": (he.pentadiagonal, {**BANDS, **OUTER, "dim": "z"}),
    "factor": (he.factor, {**{name: BANDS[name] for name in FACTORED}, "dim": "z"}),
    "column": (he.column, {"expression": "2.0 * a", "axis": "z"}),
    "gather": (he.gather, {"source": "a", "index": "i", "dim": "z"}),
    "scatter": (he.scatter, {"source": "a", "index": "i", "dim": "z", "size": ROWS}),
}
FORMS = ("plain", "packed", "shards", "v2", "netcdf")


@dataclass(frozen=True, slots=True)
class Taken:
    """What a job projected and took, in bytes; `refused` with what it would need."""

    kind: str
    form: str
    chunk: int
    projected: int
    taken: int
    refused: bool = False

    @property
    def ratio(self) -> float:
        """What was taken for each byte that was projected."""
        return self.taken / self.projected


def write(path: Path, form: str, chunk: int, count: int = 3) -> None:
    """Write variables of `count` chunks of so many bytes, which cannot be compressed much."""
    inner = max(1, chunk // (8 * ROWS))
    random = np.random.default_rng(1)
    shape, chunks = (ROWS, inner * count), (ROWS, inner)
    data: dict[str, Any] = {name: (("z", "x"), random.random(shape)) for name in "abc"}
    data["b"][1][...] += 4.0
    faces = ("z_face", np.arange(ROWS + 1.0), {"standard_name": "height", "units": "m"})
    data["i"] = ("z", np.arange(ROWS)[::-1].copy())
    dataset = xr.Dataset(data, {"z_face": faces})
    how: dict[str, Any] = {"chunks": chunks}
    if form == "netcdf":
        how = {"chunksizes": chunks, "zlib": True, "complevel": 1}
        dataset.to_netcdf(path, engine="h5netcdf", encoding=dict.fromkeys("abc", how))
        return
    if form == "plain":
        how["compressors"] = ()
    if form == "shards":
        how |= {"shards": chunks, "chunks": (ROWS, max(1, inner // 4))}
        how["shards"] = (ROWS, how["chunks"][1] * 4)
    written = cast("Any", dataset)
    written.to_zarr(
        path,
        zarr_format=2 if form == "v2" else 3,
        consolidated=False,
        encoding=dict.fromkeys("abc", how),
    )


def measure(kind: str, form: str, folder: Path, memory: int | None) -> tuple[int, int, bool]:
    """Return what a job projects and takes; a small one is made before."""
    options = he.Options(memory=memory)
    job, given = KINDS[kind]
    given = {**given, "target": "cpu"}
    job(dataset=folder / "small", output=folder / "small.out", **given)
    told: list[Event] = []
    ctypes.CDLL(None).malloc_trim(0)
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    try:
        where = {"dataset": folder / "large", "output": folder / "large.out"}
        job(**where, **given, options=options, on_event=told.append)
    except CapacityError as error:
        return error.needed or 0, _status("VmHWM") - before, True
    projected = next(event.projected_bytes for event in told if isinstance(event, Planned))
    return projected, _status("VmHWM") - before, False


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


def taken(kind: str, form: str, chunk: int, memory: int | None = None, count: int = 3) -> Taken:
    """Make a job in a fresh process, and return what it took."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder, "small"), form, 4096)
        write(Path(folder, "large"), form, chunk, count)
        asked = ["measure", kind, form, folder, json.dumps(memory)]
        command = [sys.executable, __file__, *asked]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        projected, took, refused = json.loads(out.splitlines()[-1])
    return Taken(kind, form, chunk, projected, took, refused)


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        of, stored_as, place, limit = sys.argv[2:]
        print(json.dumps(measure(of, stored_as, Path(place), json.loads(limit))))
    else:
        sizes = [int(float(text) * 1e6) for text in sys.argv[1:]] or [1_000_000, 20_000_000]
        for case in itertools.product(KINDS, FORMS, sizes):
            one = taken(*case)
            print(
                f"{one.kind:14} {one.form:7} chunks {one.chunk / 1e6:6.1f} MB"
                f"  projected {one.projected / 1e6:7.1f}  taken {one.taken / 1e6:7.1f}"
                f"  {one.ratio:5.2f}{'  refused' * one.refused}",
                flush=True,
            )
