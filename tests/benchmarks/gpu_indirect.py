"""Check and time gathers, scatters and regridding on a real device; prints tables, writes JSON.

    PYTHONPATH=engine python tests/benchmarks/gpu_indirect.py RESULT.json --commit COMMIT
        [--mib 2048] [--seconds 130] [--only PART ...]

Needs NumPy, CuPy, SciPy and the engine; PyTorch is a peer where it is installed. Every result is
compared whole with what CuPy's indexing or SciPy's product gives, before it is timed.

Shares are compulsory bytes (what is named read once, what is written written once, indices read
once) over the time, as a share of what copying an array of 1 GiB reaches: rounds of both follow
each other, and the median of the rounds' ratios counts. Parts: `gather` by element size and order
(the usual kernel, the best of each scheme, `cupy.take`, `torch.index_select`); `grouped`, random
gathers in two passes by windows; `regrid` from 0.25 degree to 1 degree, by rows and in slices;
`levels` of knowledge at compile time; `scatter`, as it is and done as a gather. What does not fit
in the time is left out and named. The last table has what must hold.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from indirect_bench import Bench, parts_of, same, taken
from indirect_regrid import regrids
from indirect_verdicts import USUAL, Figure, verdicts

from halocline_engine.device.machine import current_machine
from halocline_engine.kernels.indirect.cuda import Ends, variant_for, window_for
from halocline_engine.kernels.indirect.emit import (
    Direct,
    Packed,
    Pipelined,
    Scheme,
    SharedIndex,
    Variant,
    Window,
    emit,
    emit_window,
)
from halocline_engine.kernels.indirect.plan import PART
from halocline_engine.kernels.indirect.problem import Direction, Knowledge, Transfer, alignment_of

GATHER, SCATTER = Direction.GATHER, Direction.SCATTER
SIZES = (4, 8, 16, 32, 64, 256, 1024)


def schemes(size: int, alignment: int) -> Iterator[tuple[Scheme, int]]:
    """Yield what is tried for an element size, with the threads of a block."""
    for flight in (1, 2, 4, 8):
        yield Direct(flight), 256
    for flight in (2, 4, 8):
        yield Direct(flight), 64
        yield Direct(flight), 128
    for flight in (4, 8):
        yield Direct(flight), 512
        yield SharedIndex(flight, max(1, min(2048, flight * 256 * alignment // size))), 256
    if size == alignment and alignment in (4, 8):
        for flight in (1, 2, 4):
            for threads in (64, 128, 256):
                yield Packed(flight), threads
    for flight, producers, writers in ((2, 4, 4), (4, 4, 4), (2, 8, 8), (1, 8, 4)):
        stages = min(6, 47 * 1024 // (32 * producers * flight * alignment))
        yield Pipelined(flight, stages, producers), 32 * (producers + writers)


def tried(transfer: Transfer, ends: Ends) -> list[Variant]:
    """Return the variants that are timed, the usual one among them."""
    all_of_them = [
        variant_for(transfer, ends, scheme=scheme, threads=threads)
        for scheme, threads in schemes(transfer.element_bytes, transfer.alignment)
    ]
    return list(dict.fromkeys([variant_for(transfer, ends), *all_of_them]))


def described(variant: Variant) -> str:
    return f"{variant.scheme} x {variant.threads}"


def gathers(bench: Bench) -> Iterator[Figure]:
    """Every element size in both orders: the usual kernel, the best of each scheme, and peers."""
    moves = {
        size: Transfer(GATHER, alignment_of(size), size, bench.bytes // size) for size in SIZES
    }
    # What kernels depend on; the arrays come later.
    counts = {size: Ends(0, 0, one.elements, one.elements, take=1) for size, one in moves.items()}
    variants = {
        (size, name): tried(one, replace(counts[size], near=name == "near"))
        for size, one in moves.items()
        for name in ("random", "near")
    }
    bench.compile([emit(several) for several in variants.values()])
    source = bench.random_bytes(bench.bytes)
    target = bench.cupy.zeros_like(source)
    for size, transfer in moves.items():
        for name in ("random", "near"):
            several = variants[size, name]
            if bench.time_for(f"gather {name} {size} B"):
                bench.movers.prepare(several)
                yield from one_gather(bench, name, transfer, several, source, target)
                bench.free()


def one_gather(
    bench: Bench, name: str, transfer: Transfer, variants: list[Variant], source: Any, target: Any
) -> Iterator[Figure]:
    size, count = transfer.element_bytes, transfer.elements
    index = bench.order(name, count)
    ends = bench.ends(source, target, size, take=index)
    moved, case = 2 * bench.bytes + index.nbytes, f"{name} {size} B"
    table, rows = source.reshape(count, size // 4), target.reshape(count, size // 4)
    wanted = taken(bench, table, index)
    found: list[Figure] = []
    for variant in variants:
        target.fill(0)
        bench.movers.move(transfer, ends, variant)
        same(rows, wanted)
        shares = bench.share(moved, moving(bench, transfer, ends, variant))
        found.append(Figure("gather", case, described(variant), *shares))
    yield Figure("gather", case, USUAL, found[0].milliseconds, found[0].share)
    for kind in (Direct, Packed, SharedIndex, Pipelined):
        own = [one for one in found if one.how.startswith(kind.__name__)]
        if not own:
            continue
        top = max(own, key=lambda one: one.share)
        yield Figure("gather", case, f"best {top.how}", top.milliseconds, top.share)
    take = bench.share(moved, lambda: table.take(index, axis=0, out=rows))
    yield Figure("gather", case, "cupy.take", *take)
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return
    of, by, into = (torch.from_dlpack(array) for array in (table, index, rows))
    chosen = bench.share(moved, lambda: torch.index_select(of, 0, by, out=into))
    yield Figure("gather", case, "torch.index_select", *chosen)


def moving(bench: Bench, transfer: Transfer, ends: Ends, variant: Variant) -> Callable[[], None]:
    def work() -> None:
        bench.movers.move(transfer, ends, variant)

    return work


def grouped(bench: Bench) -> Iterator[Figure]:
    """Random gathers of small elements with a plan: windows in shared memory, then a gather."""
    shapes = [(size, 32, flight) for size in (4, 8, 16) for flight in (4, 8)]
    windows = {
        shape: replace(
            window_for(shape[0], alignment_of(shape[0])),
            elements=shape[1] * 1024 // shape[0],
            flight=shape[2],
        )
        for shape in shapes
    }
    bench.compile([emit_window([one]) for one in windows.values()])
    source = bench.random_bytes(bench.bytes)
    target = bench.cupy.zeros_like(source)
    between = bench.cupy.empty_like(source)
    for size in (4, 8, 16):
        count = bench.bytes // size
        index = bench.order("random", count)
        rows = target.reshape(count, size // 4)
        wanted = taken(bench, source.reshape(count, size // 4), index)
        for part_mib in (8, 16, 24, 32):
            case = f"random {size} B"
            if not bench.time_for(f"grouped {case}, parts of {part_mib} MiB"):
                continue
            several = [one for shape, one in windows.items() if shape[0] == size]
            arrays = (source, between, target)
            for one in one_grouped(bench, several, size, index, part_mib, arrays):
                same(rows, wanted)
                target.fill(0)
                yield one
            bench.free()
        del wanted, index


def one_grouped(
    bench: Bench,
    windows: Sequence[Window],
    size: int,
    index: Any,
    part_mib: int,
    arrays: tuple[Any, Any, Any],
) -> Iterator[Figure]:
    source, between, target = arrays
    transfer = Transfer(GATHER, alignment_of(size), size, index.size)
    moved, case = 2 * bench.bytes + index.nbytes, f"random {size} B"
    start = time.perf_counter()
    take, put, starts, back = passes(
        bench.cupy, index, windows[0].elements, part_mib * 2**20 // size
    )
    bench.cupy.cuda.get_current_stream().synchronize()
    planned = time.perf_counter() - start
    second = bench.ends(between, target, size, take=back)
    addresses = tuple(array.data.ptr for array in (source, between, take, put, starts))
    for window in windows:
        usual = window == window_for(size, alignment_of(size))
        for scheme, threads in ((Direct(1), 256), (Direct(4), 128)):
            variant = variant_for(transfer, second, scheme=scheme, threads=threads)
            bench.movers.prepare([variant])

            def one(window: Window = window) -> None:
                bench.movers.window(window, addresses, index.size, starts.size - 1)

            def both(window: Window = window, variant: Variant = variant) -> None:
                bench.movers.window(window, addresses, index.size, starts.size - 1)
                bench.movers.move(transfer, second, variant)

            milliseconds, share = bench.share(moved, both)
            first = bench.seconds(one) * 1e3
            how = f"parts of {part_mib} MiB, flight {window.flight}, then {scheme}"
            how += f", first {first:.2f} ms, plan {planned:.1f} s"
            how = (
                f"{USUAL}, {how}"
                if usual and part_mib == PART >> 20 and scheme == Direct(1)
                else how
            )
            yield Figure("grouped", case, how, milliseconds, share)


def passes(cupy: Any, index: Any, window: int, part: int) -> tuple[Any, Any, Any, Any]:
    """Do on the device what `plan.grouped` does, for indices that are all there."""

    def in_order(numbers: Any, most: int) -> Any:
        return cupy.argsort(
            numbers.astype(cupy.uint16) if most <= 2**16 else numbers, kind="stable"
        )

    windows = index // window
    total = -(-index.size // window)
    order = in_order(windows, total)
    starts = cupy.zeros(total + 1, cupy.int64)
    starts[1:] = cupy.cumsum(cupy.bincount(windows, minlength=total))
    take = (index - windows * window)[order].astype(cupy.uint16)
    del windows
    put = cupy.empty(index.size, cupy.int32)
    put[in_order(order // part, -(-index.size // part))] = cupy.arange(index.size, dtype="int32")
    back = cupy.empty(index.size, cupy.int32)
    back[order] = put
    return take, put, starts, back


def levels(bench: Bench) -> Iterator[Figure]:
    """Time one gather by what the code knows when it is compiled."""
    for size in (12, 64, 256):
        if not bench.time_for(f"levels {size} B"):
            continue
        count = bench.bytes // 4 // size
        source = bench.random_bytes(count * size)
        target = bench.cupy.zeros_like(source)
        index = bench.order("near", count)
        transfer = Transfer(GATHER, alignment_of(size), size, count)
        ends = bench.ends(source, target, size, take=index)
        rows = target.reshape(count, -1)
        wanted = taken(bench, source.reshape(count, -1), index)
        variants = {level: variant_for(transfer, ends, knowledge=level) for level in Knowledge}
        bench.movers.prepare([*variants.values()])
        for knowledge, variant in variants.items():
            target.fill(0)
            bench.movers.move(transfer, ends, variant)
            same(rows, wanted)
            moved = 2 * source.nbytes + index.nbytes
            work = moving(bench, transfer, ends, variant)
            yield Figure("levels", f"near {size} B", knowledge.value, *bench.share(moved, work))
        del source, target, index, ends, wanted, rows
        bench.free()


def scatters(bench: Bench) -> Iterator[Figure]:
    """Scatters of a permutation."""
    source = bench.random_bytes(bench.bytes)
    target = bench.cupy.zeros_like(source)
    for size in SIZES:
        if not bench.time_for(f"scatter {size} B"):
            continue
        count = bench.bytes // size
        index = bench.order("random", count)
        transfer = Transfer(SCATTER, alignment_of(size), size, count)
        ends = bench.ends(source, target, size, put=index)
        table, rows = source.reshape(count, -1), target.reshape(count, -1)
        variants = [variant_for(transfer, ends, scheme=Direct(flight)) for flight in (1, 4, 8)]
        bench.movers.prepare(variants)
        for variant in variants:
            target.fill(0)
            bench.movers.move(transfer, ends, variant)
            for part in parts_of(count, size // 4):
                assert bool((rows[index[part]] == table[part]).all()), "wrong elements"
            moved = 2 * bench.bytes + index.nbytes
            shares = bench.share(moved, moving(bench, transfer, ends, variant))
            yield Figure("scatter", f"random {size} B", described(variant), *shares)
        inverse = bench.cupy.empty_like(index)
        inverse[index] = bench.cupy.arange(count, dtype=index.dtype)
        turned = bench.ends(source, target, size, take=inverse)
        gather = replace(transfer, direction=GATHER)
        variant = variant_for(gather, turned)
        bench.movers.prepare([variant])
        target.fill(0)
        bench.movers.move(gather, turned, variant)
        for part in parts_of(count, size // 4):
            assert bool((rows[index[part]] == table[part]).all()), "wrong elements"
        named = 2 * bench.bytes + index.nbytes
        shares = bench.share(named, moving(bench, gather, turned, variant))
        yield Figure("scatter", f"random {size} B", f"{USUAL}, as a gather", *shares)
        del index, ends, inverse, turned
        bench.free()


PARTS: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    "gather": gathers,
    "grouped": grouped,
    "regrid": regrids,
    "levels": levels,
    "scatter": scatters,
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Check and time indirect access on a device.")
    parser.add_argument("result", type=Path, help="where to write the figures as JSON")
    parser.add_argument("--commit", default="unknown", help="the commit that is measured")
    parser.add_argument("--mib", type=float, default=2048, help="what a transfer moves, in MiB")
    parser.add_argument("--seconds", type=float, default=130, help="start no case after these")
    parser.add_argument("--only", choices=list(PARTS), action="append", help="only these parts")
    options = parser.parse_args(arguments)
    bench = Bench(mib=options.mib, seconds=options.seconds)
    facts = current_machine().facts
    print(f"{facts.name}, sm_{facts.capability}, CuPy {bench.cupy.__version__}")
    found: list[Figure] = []
    for name in options.only or PARTS:
        start = time.monotonic()
        for one in PARTS[name](bench):
            found.append(one)
            line = f"{one.part:8} {one.case:15} {one.milliseconds:9.3f} ms {one.share:6.3f}  "
            print(line + one.how, flush=True)
        bench.free()
        print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)
    record: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": options.commit,
        "device": asdict(facts),
        "cupy": bench.cupy.__version__,
        "mib": options.mib,
        "left out": bench.skipped,
        "figures": [asdict(one) for one in found],
    }
    options.result.write_text(json.dumps(record, indent=1) + "\n")
    print(*verdicts(found), sep="\n")
    print("left out:", ", ".join(bench.skipped) or "nothing")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
