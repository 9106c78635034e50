"""The README's table: work of Halocline beside other tools, from committed figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import exp, log
from statistics import mean
from typing import Any

from report_kernels import table

__all__ = ["beside_table"]

Record = Mapping[str, Any]
Row = tuple[str, str, str, str]


def beside_table(newest: Callable[[str], Record | None]) -> str:
    """Return a row for each kind of work whose figures there are; `newest` finds a record."""
    rows = [
        row
        for kind, make in (
            ("-h200-public-gt4py", _models),
            ("cpu-corpus", _cores),
            ("-h200-x4-peers", _devices),
            ("-h200-solves", _device_solves),
            ("cpu-scipy", _core_solves),
            ("zarr-readers", _readers),
        )
        if (record := newest(kind)) is not None
        for row in make(record)
    ]
    return table(("work", "machine, date", "Halocline", "others"), rows)


def _models(record: Record) -> list[Row]:
    where = f"{record['device']}, {record['date']}"
    return [_programs("stencils after PyFV3 and PHYEX, float32 and float64", where, record)]


def _cores(record: Record) -> list[Row]:
    where = f"{record['cores']} cores of an AMD EPYC, {record['date']}"
    return [_programs("typical model programs, float64", where, record)]


def _programs(work: str, where: str, record: Record) -> Row:
    """Return how long GT4Py takes beside us, over the programs that both compiled."""
    figures = [f for f in record["figures"] if not f["problem"] and f["peer_milliseconds"]]
    ratios = [f["peer_milliseconds"] / f["milliseconds"] for f in figures]
    ahead = sum(ratio < 1 for ratio in ratios)
    peer = f"GT4Py {record['peers']['gt4py']} `{figures[0]['peer']}`"
    ratio = exp(mean(map(log, ratios)))
    others = f"{peer}: {ratio:.2f} times as long (geometric mean), faster in {ahead}"
    return f"{len(ratios)} {work}", where, "1.00", others


def _devices(record: Record) -> list[Row]:
    """Return a step of a stencil on four devices, each with as many points."""
    count = record["devices"]
    ours = next(
        row["step"]
        for row in record["rows"]
        if row["case"].startswith("weak 2d5pt") and row["case"].endswith("t = 1")
        if row["devices"] == count
    )
    peers = [p for p in record["peers"] if p["devices"] == count and "NCCL" not in p["peer"]]
    side = record["side"]
    work = f"a step of a 5-point stencil, float32, {side} x {side} points on each GPU"
    others = ", ".join(f"{p['peer']} {_microseconds(p['step'])}" for p in peers)
    return [(work, f"{count} x {record['device']}, {record['date']}", _microseconds(ours), others)]


def _microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} µs"


def _device_solves(record: Record) -> list[Row]:
    """Return tridiagonal systems on a device, without restoring the inputs of cuSPARSE."""
    case = {"part": "contiguous", "case": "80 rows float64"}
    times = {
        f["how"]: f["milliseconds"]
        for f in record["figures"]
        if all(f[key] == value for key, value in case.items())
    }
    peer = times["peer cuSPARSE gtsv2StridedBatch"]
    peer -= times["restoring cuSPARSE's inputs (not counted)"]
    where = f"{record['device']['name']}, {record['date'][:10]}"
    work = f"{record['rows'] // 80:,} tridiagonal systems of 80 rows, float64"
    return [(work, where, f"{times['usual']:.2f} ms", f"cuSPARSE {peer:.2f} ms")]


def _core_solves(record: Record) -> list[Row]:
    figure: Record = next(f for f in record["figures"] if f["case"].startswith("25000 systems"))
    work = "25,000 tridiagonal systems of 80 rows, float64"
    where = f"{record['threads']} cores of an Intel Xeon, {record['date'][:10]}"
    others = f"SciPy {record['versions']['scipy']} {figure['scipy']:.1f} ms"
    return [(work, where, f"{figure['ours']:.1f} ms", others)]


def _readers(record: Record) -> list[Row]:
    """Return how fast a compressed store is read, in its smallest chunks."""
    figures: Sequence[Record] = [f for f in record["figures"] if f["codec"] == "zstd"]
    chunk = min(f["chunk_mib"] for f in figures)
    rates = {f["way"]: f["read"] for f in figures if f["chunk_mib"] == chunk}
    work = f"reading a Zarr store, Zstandard, chunks of {chunk:g} MiB"
    names = {"zarr": "zarr-python", "zarrs": "zarrs", "tensorstore": "TensorStore"}
    others = ", ".join(f"{name} {rates[way]:.1f}" for way, name in names.items())
    where = f"{record['threads']} threads, {record['date']}"
    return [(work, where, f"{rates['halocline']:.1f} GB/s", f"{others} GB/s")]
