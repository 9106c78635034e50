"""Write the tables of docs/performance and README.md, and the roofline, from committed figures.

    python tests/benchmarks/report.py [--check]

The newest file of each kind in benchmarks/results counts; their names say what they hold:
`DATE-DEVICE-stencils.json` of gpu_stencil.py, `DATE-DEVICE-temporaries.json` of gpu_temporaries.py,
`DATE-compiling.json` of compiling.py, `DATE-cpu.json` of cpu_stencil.py; gpu_tune.py,
gpu_column_order.py, gpu_solves.py, gpu_columns.py and gpu_indirect.py make those of tuning, blocks,
solves, operators and indirect, and gpu_corpus.py makes `DATE-h200-corpus.json`. What stands between
the markers in the pages is replaced. With `--check` nothing is written, and the exit status says
whether the pages are up to date.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from report_kernels import (
    blocks_table,
    columns_table,
    corpus_table,
    indirect_table,
    solves_table,
    table,
    tuning_table,
)
from report_peers import beside_table

__all__ = ["main", "page"]

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "performance.md",
    *sorted((ROOT / "docs" / "performance").glob("*.md")),
]
PICTURE = ROOT / "docs" / "images" / "roofline.png"
Record = Mapping[str, Any]

#: Peak of double and single precision in TFLOP/s without tensor cores, by a part of the name.
PEAKS = {"H200": {"float64": 33.5, "float32": 66.9}, "H100": {"float64": 33.5, "float32": 66.9}}
#: Arithmetic for a point as the text has it, equal subexpressions counted once.
OPERATIONS = {
    "copy": 0,
    "2d5pt": 5,
    "2d9pt": 9,
    "3d7pt": 7,
    "3d27pt": 27,
    "star r=4": 29,
    "horizontal diffusion": 24,
    "vertical advection": 40,
    "tridiagonal": 9,
}


def newest(kind: str) -> Record | None:
    """Return the newest figures of a kind, or None."""
    found = sorted(RESULTS.glob(f"*{kind}.json"))
    return cast("Record", json.loads(found[-1].read_text())) if found else None


def size(figure: Record) -> str:
    return " x ".join(map(str, figure.get("domain", ())))


def gpu_table(record: Record) -> str:
    """Return one line for each case, type and size."""
    head = ("work", "type", "size", "bytes/point", "ms", "share of copy", "registers", "stack")
    rows = [
        (
            f["case"],
            f["dtype"],
            size(f),
            str(f["bytes_per_point"]),
            f"{f['milliseconds']:.3f}",
            f"{f['share']:.3f}",
            str(f.get("registers") or ""),
            str(f.get("spilled", "")),
        )
        for f in record["figures"]
    ]
    return f"{_origin(record)}\n\n{table(head, rows)}"


def _origin(record: Record) -> str:
    device = record["device"]["name"] if "device" in record else record["processor"]
    threads = f", {record['threads']} threads" if "threads" in record else ""
    return f"{device}{threads}; {record['date'][:10]}; commit `{record['commit']}`."


def peer_table(record: Record) -> str:
    """Return the shares of the peers beside ours at the same size."""
    peers: Sequence[Record] = record.get("peers", ())
    names = list(dict.fromkeys(p["peer"] for p in peers))
    if not names:
        return "No peers were measured in this run."
    shares = {(p["case"], p["dtype"], p["peer"]): p["share"] for p in peers}
    sizes = {(p["case"], p["dtype"]): p["domain"] for p in peers}
    rows = [
        (
            f["case"],
            f["dtype"],
            f"{f['share']:.3f}",
            *(_share(shares.get((f["case"], f["dtype"], name))) for name in names),
        )
        for f in record["figures"]
        if sizes.get((f["case"], f["dtype"])) == f.get("domain")
    ]
    reasons = sorted({f"* {p['peer']}: {p['reason']}" for p in peers if p["reason"]})
    return "\n".join([table(("work", "type", "Halocline", *names), rows), "", *reasons]).rstrip()


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def other_table(record: Record) -> str:
    """Return what small grids and compiling cost."""
    extra: Mapping[str, float | str] = record.get("small_grids_and_compiling", {})
    if not extra:
        return "Small grids and compiling were not measured in this run."
    rows = [(name, v if isinstance(v, str) else f"{v:.4g}") for name, v in extra.items()]
    return table(("what", "figure"), rows)


def compiling_table(record: Record) -> str:
    """Return one line for each program and type."""
    head = ("work", "type", "text to artifact, ms", "empty cache, s", "full cache, ms", "code, KB")
    rows = [
        (
            f["case"],
            f["dtype"],
            f"{f['front'] * 1e3:.0f}",
            f"{f['cold']:.2f}",
            f"{f['warm'] * 1e3:.1f}",
            f"{f['code'] / 1e3:.0f}",
        )
        for f in record["figures"]
    ]
    return f"Device: {_origin(record)}\n\n{table(head, rows)}"


def temporaries_table(record: Record) -> str:
    """Return the shares of all homes of temporaries, and what aligning rows gained."""
    shares: dict[tuple[str, str], dict[str, float]] = {}
    for f in record["figures"]:
        home = f["temporaries"] + (f" {f['alignment']}" if f["alignment"] else "")
        shares.setdefault((f["program"], f["dtype"]), {})[home] = f["share"]
    homes = list(dict.fromkeys(home for found in shares.values() for home in found))
    rows = [
        (program, dtype, *(_share(found.get(home)) for home in homes))
        for (program, dtype), found in shares.items()
    ]
    gains = [
        found[f"{kind} 128"] / found[f"{kind} 1"]
        for found in shares.values()
        for kind in ("block", "block-moved")
        if {f"{kind} 128", f"{kind} 1"} <= found.keys()
    ]
    words = (
        f"Rows aligned to 128 bytes were {min(gains):.3f} to {max(gains):.3f} times as fast as "
        "unaligned ones."
        if gains
        else ""
    )
    head = ("work", "type", *homes)
    return f"{_origin(record)}\n\n{table(head, rows)}\n\n{words}".rstrip()


def cpu_table(record: Record) -> str:
    """Return ours and everyone else's share of the copy, and how fast ours is beside theirs."""
    figures: Sequence[Record] = record["figures"]
    names = [n for n in dict.fromkeys(f["contender"] for f in figures) if n != "ours"]
    cases: dict[tuple[str, str, str], dict[str, Record]] = {}
    for f in figures:
        cases.setdefault((f["case"], f["dtype"], size(f)), {})[f["contender"]] = f
    rows: list[tuple[str, ...]] = []
    for (case, dtype, grid), by_name in cases.items():
        ours = by_name["ours"]
        cells = [_beside(by_name.get(name)) for name in names]
        share = f"{ours['share']:.2f}"
        rows.append((case, dtype, grid, str(ours["bytes_per_point"]), share, *cells))
    head = ("work", "type", "size", "bytes/point", "Halocline", *names)
    reasons = sorted({f"* {f['contender']}: {f['reason']}" for f in figures if f["reason"]})
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    return "\n".join(
        [f"{_origin(record)} {versions}.", "", table(head, rows), "", *reasons]
    ).rstrip()


def scipy_table(record: Record) -> str:
    """Return one line for each batch that was solved by the cpu target and by SciPy."""
    head = ("batch", "Halocline, ms", "SciPy, ms", "SciPy takes")
    rows = [
        (f["case"], f"{f['ours']:.1f}", f"{f['scipy']:.1f}", f"{f['times']:.2f} times as long")
        for f in record["figures"]
    ]
    return f"{_origin(record)} SciPy {record['versions']['scipy']}.\n\n{table(head, rows)}"


def _beside(figure: Record | None) -> str:
    """Return a share, and in brackets how often as fast ours was."""
    if figure is None or figure["share"] is None:
        return "-"
    return f"{figure['share']:.2f} ({1 / figure['of_ours']:.2f})"


def ahead(gpu: Record | None, cpu: Record | None) -> str:
    """Return where somebody else is faster than we are."""
    lines: list[str] = []
    if gpu is not None:
        ours = {(f["case"], f["dtype"], size(f)): f["share"] for f in gpu["figures"]}
        for p in gpu.get("peers", ()):
            own = ours.get((p["case"], p["dtype"], size(p)))
            if own is not None and p["share"] is not None and p["share"] > own:
                lines.append(
                    f"* GPU, {p['case']} {p['dtype']}: {p['peer']} {p['share']:.3f} against "
                    f"{own:.3f} of copy."
                )
    lines.extend(
        f"* CPU, {f['case']} {f['dtype']} {size(f)}: {f['contender']}, "
        f"{f['of_ours']:.2f} times as fast."
        for f in (cpu["figures"] if cpu is not None else ())
        if f["contender"] != "ours" and f["of_ours"] is not None and f["of_ours"] > 1
    )
    return "\n".join(lines) or "Nowhere in these runs."


def page(text: str) -> str:
    """Return the page with its tables made again."""
    gpu, cpu = newest("stencils"), newest("cpu")
    homes, compiling = newest("temporaries"), newest("compiling")
    parts: Mapping[str, Callable[[], str]] = {
        "gpu": lambda: _or_none(gpu, gpu_table),
        "peers": lambda: _or_none(gpu, peer_table),
        "other": lambda: _or_none(gpu, other_table),
        "temporaries": lambda: _or_none(homes, temporaries_table),
        "compiling": lambda: _or_none(compiling, compiling_table),
        "cpu": lambda: _or_none(cpu, cpu_table),
        "scipy": lambda: _or_none(newest("scipy"), scipy_table),
        "ahead": lambda: ahead(gpu, cpu),
        "beside": lambda: beside_table(newest),
        "blocks": lambda: _or_none(newest("blocks"), blocks_table),
        "tuning": lambda: _or_none(newest("tuning"), tuning_table),
        "solves": lambda: _or_none(newest("solves"), solves_table),
        "operators": lambda: _or_none(newest("operators"), columns_table),
        "indirect": lambda: _or_none(newest("indirect"), indirect_table),
        "corpus": lambda: _or_none(newest("-h200-corpus"), corpus_table),
    }
    for name, make in parts.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        text = pattern.sub(lambda _, b=begin, e=end, m=make: f"{b}\n\n{m()}\n\n{e}", text)
    return text


def _or_none(record: Record | None, make: Callable[[Record], str]) -> str:
    return "Not measured yet." if record is None else make(record)


def draw(record: Record, path: Path) -> None:
    """Draw arithmetic per second over arithmetic per compulsory byte, below the device's roof."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    library: Any = plt
    figure, panes = library.subplots(1, 2, figsize=(11, 4.6), sharey=True, layout="constrained")
    for pane, dtype in zip(panes, ("float64", "float32"), strict=True):
        _pane(pane, record, dtype)
    panes[0].set_ylabel("TFLOP/s")
    figure.suptitle(f"Share of the copy bandwidth, {_origin(record).replace('`', '')}")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _pane(pane: Any, record: Record, dtype: str) -> None:
    """Draw one type: the roof, and every case at the size where it did worst."""
    name = record["device"]["name"]
    peak = next((p[dtype] for part, p in PEAKS.items() if part in name), None)
    worst: dict[str, Record] = {}
    for f in record["figures"]:
        known = f["dtype"] == dtype and OPERATIONS.get(f["case"], 0) > 0
        if known and f["share"] < worst.get(f["case"], {"share": 9.0})["share"]:
            worst[f["case"]] = f
    copy = max(f["copy"] for f in record["figures"]) / 1e3
    reach = [0.1, *([] if peak is None else [peak / copy]), 20.0]
    roof = [min(copy * x, peak or copy * x) for x in reach]
    pane.plot(reach, roof, color="black", linewidth=1.2)
    pane.annotate(f"copy, {copy:.2f} TB/s", (0.13, copy * 0.19), rotation=32, fontsize=8)
    for number, case in enumerate(OPERATIONS):
        if case not in worst:
            continue
        f = worst[case]
        x = OPERATIONS[case] / f["bytes_per_point"]
        y = x * f["rate"] / 1e3
        pane.plot([x], [y], "o", color=f"C{number}", label=f"{case}: {f['share']:.2f}")
        pane.vlines(x, y, copy * x, color=f"C{number}", linewidth=0.8, linestyles="dotted")
    pane.set(xscale="log", yscale="log", xlim=(0.1, 20), ylim=(0.2, 80), title=dtype)
    pane.set_xlabel("operations for each compulsory byte")
    pane.grid(visible=True, which="both", linewidth=0.3)
    pane.legend(fontsize=8, loc="lower right")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Make the tables of docs/performance.")
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args(arguments)
    before = {path: path.read_text() for path in PAGES}
    after = {path: page(text) for path, text in before.items()}
    if options.check:
        return 0 if before == after else 1
    for path, text in after.items():
        path.write_text(text)
    gpu = newest("stencils")
    if gpu is not None:
        draw(gpu, PICTURE)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
