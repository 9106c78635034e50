"""How much memory jobs take, beside what they projected: kinds of jobs, chunks, formats, threads.

    python tests/support/memory_taken.py 1 20 --forms packed --kinds matmul --memory 8

prints a table; each line is a fresh process, which has made the same job with little data before.
"""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
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
_ALONG = np.arange(ROWS)
WEIGHTS = xr.Dataset({"row": ("s", _ALONG + 1), "col": ("s", _ALONG + 1), "S": ("s", _ALONG / 1.0)})
WEIGHTS["src_grid_dims"] = WEIGHTS["dst_grid_dims"] = ("rank", [ROWS])
_LAT, _LON = (each.ravel() for each in np.meshgrid(np.arange(5.0), np.arange(5.0)))
_CORNER = (np.arange(4)[:, None] * 5 + np.arange(4)).ravel()
MESH = xr.Dataset(
    {
        "mesh": (
            (),
            0,
            {
                "cf_role": "mesh_topology",
                "topology_dimension": 2,
                "node_coordinates": "lon lat",
                "face_node_connectivity": "corners",
            },
        ),
        "corners": (("face", "four"), _CORNER[:, None] + [0, 1, 6, 5], {"start_index": 0}),
        "lon": ("node", _LON, {"units": "degrees_east"}),
        "lat": ("node", _LAT, {"units": "degrees_north"}),
    }
)
_BAND = xr.Dataset(
    {name: ("z", np.full(ROWS, value)) for name, value in zip("cb", (0.5, 4.0), strict=True)}
)
FACTORS = he.factor(_BAND, **{name: BANDS[name] for name in FACTORED}, dim="z", target="reference")
KINDS: Mapping[str, tuple[Any, dict[str, Any]]] = {
    "stencil": (he.run, {"program": BLUR, "axes": {"I": "x", "J": "z"}}),
    "tridiagonal": (he.tridiagonal, {**BANDS, "dim": "z"}),
    "pentadiagonal": (he.pentadiagonal, {**BANDS, **OUTER, "dim": "z"}),
    "factor": (he.factor, {**{name: BANDS[name] for name in FACTORED}, "dim": "z"}),
    "column": (he.column, {"expression": "2.0 * a", "axis": "z"}),
    "gather": (he.gather, {"source": "a", "index": "i", "dim": "z"}),
    "scatter": (he.scatter, {"source": "a", "index": "i", "dim": "z", "size": ROWS}),
    "exchange": (he.gather, {"source": "a", "index": "i", "dim": "z", "chunks": {"z": 8}}),
    "regrid": (he.regrid, {"weights": WEIGHTS, "variables": ["a"], "dims": ["z"]}),
    "neighbours": (
        he.neighbours,
        {"mesh": MESH, "operation": "gradient", "variables": ["a"], "dim": "z"},
    ),
    "matmul": (he.matmul, {"left": "a", "right": "m", "dim": "x"}),
    "tree": (
        he.tree,
        {"diagonal": "b", "upper": "c", "parent": "p", "rhs": "a", "row_size": "n"},
    ),
    "solve": (he.solve, {"factors": FACTORS, "rhs": "a"}),
    "matrix": (he.column_matrix, {"expression": "b * a", "of": "a", "axis": "z"}),
    "steps": (
        he.run,
        {"program": BLUR, "axes": {"I": "x", "J": "z"}, "steps": 3, "feedback": {"out": "a"}},
    ),
}
FORMS = ("plain", "packed", "shards", "v2", "netcdf", "across", "scaled")


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
    """Write variables of `count` chunks of so many bytes, which cannot be compressed much.

    The chunks of "across" have some of the rows only, those of "scaled" integers of two bytes.
    """
    rows, item = ROWS // 2 if form == "across" else ROWS, 2 if form == "scaled" else 8
    inner = max(ROWS, chunk // (item * rows) // ROWS * ROWS)
    wide = inner * count
    random = np.random.default_rng(1)
    data: dict[str, Any] = {name: (("z", "x"), random.random((ROWS, wide))) for name in "abc"}
    data["b"][1][...] += 4.0
    data["m"] = (("x", "w"), random.random((wide, ROWS)))
    data["i"] = ("z", np.arange(ROWS)[::-1].copy())
    data["p"] = ("x", np.where(np.arange(wide) % ROWS, np.arange(wide) % ROWS - 1, -1))
    data["n"] = ("cell", np.full(wide // ROWS, ROWS), {"sample_dimension": "x"})
    faces = ("z_face", np.arange(ROWS + 1.0), {"standard_name": "height", "units": "m"})
    dataset = xr.Dataset(data, {"z_face": faces})
    shapes = dict.fromkeys("abc", (rows, inner)) | {"m": (inner, rows)}
    if form == "netcdf":
        encoding = {
            name: {"chunksizes": shape, "zlib": True, "complevel": 1}
            for name, shape in shapes.items()
        }
        dataset.to_netcdf(path, engine="h5netcdf", encoding=encoding)
        return
    how: dict[str, dict[str, Any]] = {name: {"chunks": shape} for name, shape in shapes.items()}
    for name, each in how.items():
        if form == "plain":
            each["compressors"] = ()
        if form == "scaled":
            each |= {"dtype": "i2", "scale_factor": 2e-4, "_FillValue": -1}
        if form == "shards":
            each["shards"] = shapes[name]
            each["chunks"] = tuple(size // 4 if size == inner else size for size in shapes[name])
    cast("Any", dataset).to_zarr(
        path, zarr_format=2 if form == "v2" else 3, consolidated=False, encoding=how
    )


def measure(kind: str, folder: Path, memory: int | None) -> tuple[int, int, bool]:
    """Return what a job projects and takes; a small one is made before."""
    options = he.Options(memory_limit=memory or 8 << 30)
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


def taken(
    kinds: Sequence[str], form: str, chunk: int, memory: int | None = None, count: int = 3
) -> Iterator[Taken]:
    """Make jobs on the same data, each in a fresh process, and yield what each took."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder, "small"), form, 4096)
        write(Path(folder, "large"), form, chunk, count)
        for kind in kinds:
            asked = ["measure", kind, folder, json.dumps(memory)]
            command = [sys.executable, __file__, *asked]
            out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            projected, took, refused = json.loads(out.splitlines()[-1])
            yield Taken(kind, form, chunk, projected, took, refused)
            for left in ("small.out", "large.out"):
                shutil.rmtree(Path(folder, left), ignore_errors=True)


def _show(one: Taken, memory: int | None) -> str:
    held = "" if memory is None else f"  memory {memory / 1e6:.0f}"
    return (
        f"{one.kind:13} {one.form:7} chunks {one.chunk / 1e6:6.1f} MB"
        f"  projected {one.projected / 1e6:7.1f}  taken {one.taken / 1e6:7.1f}"
        f"  {one.ratio:5.2f}{held}{'  refused' * one.refused}"
    )


def _table() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("chunks", nargs="*", type=float, default=[1.0, 20.0], help="MB of a chunk")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    parser.add_argument("--forms", nargs="+", default=list(FORMS))
    parser.add_argument("--memory", type=float, help="memory of a job, in chunks")
    parser.add_argument("--count", type=int, default=3, help="chunks of a variable")
    asked = parser.parse_args()
    for form, size in itertools.product(asked.forms, asked.chunks):
        memory = asked.memory and int(asked.memory * size * 1e6)
        for one in taken(asked.kinds, form, int(size * 1e6), memory, asked.count):
            print(_show(one, memory), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        of, place, limit = sys.argv[2:]
        print(json.dumps(measure(of, Path(place), json.loads(limit))))
    else:
        _table()
