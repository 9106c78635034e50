"""Check and time gathers, scatters and regridding on a real device; prints tables, writes JSON.

    PYTHONPATH=engine python tests/benchmarks/gpu_indirect.py RESULT.json --commit COMMIT
        [--mib 2048] [--seconds 95] [--only PART ...]

Needs NumPy, CuPy, SciPy and the engine; PyTorch is a peer where it is installed. Every result is
compared whole with what CuPy's indexing or SciPy's product gives, before it is timed.

Shares are compulsory bytes (what is named read once, what is written written once, indices read
once) over the time, as a share of what copying an array of 1 GiB reaches. All that is compared in
a case takes turns in the same rounds, with copies between, and the medians of the rounds count.
Parts: `gather` by element size and order (the usual kernel, the best of others, the kernel
written by hand in the best of its configurations, `cupy.take`, `torch.index_select`); `grouped`,
random gathers in two passes through shared memory; `regrid` from 0.25 degree to 1 degree, by rows
and in slices; `scatter`, as it is and done as a gather.
One run takes all of them in less than 110 seconds; what does not fit in the time is left out and
named. The last table has what must hold.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from indirect_bench import Bench, parts_of, same, taken
from indirect_hand import Hand, emit_hands, hands
from indirect_regrid import regrids
from indirect_verdicts import USUAL, Figure, verdicts

from halocline_engine.device.machine import current_machine
from halocline_engine.kernels.indirect.cuda import Ends, passes_for, variant_for
from halocline_engine.kernels.indirect.emit import Passes, Variant, emit, emit_passes
from halocline_engine.kernels.indirect.grouping import TILE, WINDOW, Grouped
from halocline_engine.kernels.indirect.problem import Direction, Transfer, alignment_of

GATHER, SCATTER = Direction.GATHER, Direction.SCATTER
SIZES = (4, 8, 16, 32, 64, 256, 1024)
#: Sizes that plans group.
GROUPED = (4, 8, 16)


#: Pieces that a thread moves, and threads of a block, that are tried.
TRIED = (
    *((1, 256), (4, 256), (8, 256), (2, 64), (4, 64), (2, 128), (4, 128)),
    *((2, 512), (4, 512), (8, 512)),
)


def tried(transfer: Transfer, ends: Ends) -> list[Variant]:
    """Return the variants that are timed, the usual one among them."""
    usual = variant_for(transfer, ends)
    others = [replace(usual, flight=flight, threads=threads) for flight, threads in TRIED]
    return list(dict.fromkeys([usual, *others]))


def described(variant: Variant) -> str:
    return f"{variant.flight} x {variant.threads}"


def gathers(bench: Bench) -> Iterator[Figure]:
    """Every element size in both orders: the usual kernel, the best one, and peers."""
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
    by_size = [emit_hands(list(hands(size))) for size in SIZES]
    bench.compile([*(emit(several) for several in variants.values()), *by_size])
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
    own = {described(one): moving(bench, transfer, ends, one) for one in variants}
    hand = by_hand(bench, size, count, tuple(one.data.ptr for one in (source, index, target)))
    for work in (*own.values(), *hand.values()):
        target.fill(-1)
        work()
        same(rows, wanted)
    first = bench.race(moved, own | hand, rounds=2)
    works = {USUAL: own[described(variants[0])]}
    works |= {f"best {how}": own[how] for how in fastest(first, list(own))}
    works |= {how: hand[how] for how in fastest(first, list(hand))}
    works |= peers(table, index, rows)
    for how, figures in bench.race(moved, works).items():
        yield Figure("gather", case, how, *figures)


def fastest(found: Mapping[str, tuple[float, float]], names: Sequence[str]) -> list[str]:
    """Return the name with the shortest time, if there is one."""
    return sorted(names, key=lambda name: found[name][0])[:1]


def by_hand(
    bench: Bench, size: int, count: int, addresses: tuple[int, int, int]
) -> dict[str, Callable[[], None]]:
    """Return the kernel of the probes in all of its author's configurations."""
    several = list(hands(size))
    kernels = bench.kernels(emit_hands(several))

    def work(one: Hand) -> None:
        one.launch(kernels, addresses, count)

    return {f"hand, {one.per} x {one.threads}": partial(work, one) for one in several}


def peers(table: Any, index: Any, rows: Any) -> dict[str, Callable[[], object]]:
    """Return what a user would call instead."""
    found: dict[str, Callable[[], object]] = {
        "cupy.take": lambda: table.take(index, axis=0, out=rows)
    }
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return found
    of, by, into = (torch.from_dlpack(array) for array in (table, index, rows))
    return found | {"torch.index_select": lambda: torch.index_select(of, 0, by, out=into)}


def moving(bench: Bench, transfer: Transfer, ends: Ends, variant: Variant) -> Callable[[], None]:
    def work() -> None:
        bench.movers.move(transfer, ends, variant)

    return work


def grouped(bench: Bench) -> Iterator[Figure]:
    """Random gathers of small elements with a plan, in two passes through shared memory."""
    several = {
        size: [
            replace(passes_for(size, alignment_of(size), 0), threads=threads, past=past)
            for threads in (256, 512)
            for past in (False, True)
            if size <= 16 or not past
        ]
        for size in (4, 8, 16, 32)
    }
    bench.compile([emit_passes([one]) for kernels in several.values() for one in kernels])
    source = bench.random_bytes(bench.bytes)
    target = bench.cupy.zeros_like(source)
    for size, kernels in several.items():
        if bench.time_for(f"grouped random {size} B"):
            yield from one_grouped(bench, size, kernels, source, target)
            bench.free()


def one_grouped(
    bench: Bench, size: int, kernels: Sequence[Passes], source: Any, target: Any
) -> Iterator[Figure]:
    count, case = bench.bytes // size, f"random {size} B"
    index = bench.order("random", count)
    rows = target.reshape(count, size // 4)
    wanted = taken(bench, source.reshape(count, size // 4), index)
    start = time.perf_counter()
    passes = passes_of(bench.cupy, index, size)
    bench.cupy.cuda.get_current_stream().synchronize()
    planned = time.perf_counter() - start
    between = bench.cupy.empty(passes.room * size // 4, bench.cupy.int32)
    sides = (source.data.ptr, between.data.ptr, target.data.ptr)
    arrays: tuple[Any, ...] = passes.arrays
    indices = [array.data.ptr for array in arrays]

    def both(one: Passes) -> None:
        bench.movers.passes(one, passes, sides, indices, (count, count))

    works: dict[str, Callable[[], None]] = {}
    for one in kernels:
        usual = one == passes_for(size, alignment_of(size), passes.room) and size in GROUPED
        how = f"threads {one.threads}{', past registers' * one.past}, plan {planned:.1f} s"
        works[f"{USUAL}, {how}" if usual else how] = partial(both, one)
    for work in works.values():
        target.fill(-1)
        between.fill(-1)
        work()
        same(rows, wanted)
    for how, figures in bench.race(2 * bench.bytes + index.nbytes, works).items():
        yield Figure("grouped", case, how, *figures)


def passes_of(cupy: Any, index: Any, size: int) -> Grouped:
    """Do on the device what `grouping.grouped` does, for a permutation."""
    count = index.size
    window, tile = (min(2**16, room // size // 16 * 16) for room in (WINDOW, TILE))
    windows = (index // window).astype(cupy.uint16)
    counts = cupy.bincount(windows, minlength=-(-count // window))
    padded = -(-counts // 16) * 16
    starts = cupy.cumsum(padded) - padded
    order = cupy.argsort(windows, kind="stable")
    along = windows[order]
    at = cupy.arange(count, dtype=cupy.int64) + (starts - cupy.cumsum(counts) + counts)[along]
    take = cupy.zeros(int(padded.sum()), cupy.uint16)
    take[at] = index[order] - along * cupy.int32(window)
    # In the order of the windows, elements ascend; so they do in each tile.
    tiles = order // tile
    again = cupy.argsort(tiles.astype(cupy.uint16), kind="stable")
    origin = at[again].astype(cupy.int32)
    place = (order[again] - tiles[again] * tile).astype(cupy.uint16)
    lists = cupy.append(cupy.arange(0, count, tile, dtype=cupy.int64), count)
    return Grouped(window, tile, take, starts, counts.astype(cupy.int32), origin, place, lists)


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
        usual = variant_for(transfer, ends)
        variants = [replace(usual, flight=flight, threads=256) for flight in (1, 4, 8)]
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
    "scatter": scatters,
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Check and time indirect access on a device.")
    parser.add_argument("result", type=Path, help="where to write the figures as JSON")
    parser.add_argument("--commit", default="unknown", help="the commit that is measured")
    parser.add_argument("--mib", type=float, default=2048, help="what a transfer moves, in MiB")
    parser.add_argument("--seconds", type=float, default=95, help="start no case after these")
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
