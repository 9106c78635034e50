"""Draw ways to run ten programs of many steps; each program has one digest, whatever the way.

Usage: drawn_runs.py [--target TARGET] [--count COUNT] [--seed SEED] [--processes N] [--only NAME]

Cuts, modes, steps between exchanges, ranks of a process, worker processes, snapshots, and runs
that are cancelled or killed and then resumed by the other mode with other blocks. On the target
`cuda` worker processes have a device each; `--processes 0` draws ranks of this process alone, which
share one. Ends with 1 where a digest differs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from drawn_runs import PROGRAMS, Way, digest, drawn_way, expected

from halocline_engine.distribute.executors.dask import start


def kind(way: Way) -> str:
    """Return what is counted of a way."""
    where = "processes" if way.processes else ("ranks" if way.ranks > 1 else "alone")
    return f"{way.mode} {where} {way.how}".strip()


def drawn(random: Random, name: str, count: int, given: argparse.Namespace, client: Any) -> bool:
    """Run a program in so many ways, and print a line; say whether all digests are one."""
    program = PROGRAMS[name]
    began = time.perf_counter()
    one = expected(name, given.target)
    kinds: Counter[str] = Counter()
    wrong: list[str] = []
    for _ in range(count):
        way = drawn_way(random, program, processes=given.processes, kills=True)
        kinds[kind(way)] += 1
        found = digest(program, way, given.target, client)
        if found != one:
            wrong.append(f"{way}: {found[:16]}")
    seconds = time.perf_counter() - began
    told = ", ".join(f"{n} {what}" for what, n in sorted(kinds.items()))
    verdict = "one digest" if not wrong else f"{len(wrong)} DIFFER"
    print(
        f"{name:<10} {one[:16]}  {count:>4} ways  {verdict:<10}  {seconds:6.1f} s  {told}",
        flush=True,
    )
    for each in wrong:
        print(f"    {each}", flush=True)
    return not wrong


def main() -> None:
    """Draw, run, and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2, help="0 for none")
    parser.add_argument("--only", choices=sorted(PROGRAMS))
    given = parser.parse_args()
    names = [given.only] if given.only else list(PROGRAMS)
    random = Random(given.seed)
    with ExitStack() as stack:
        client = None
        if given.processes:
            client = stack.enter_context(start(given.processes, given.target)).client
        each = -(-given.count // len(names))
        held = [drawn(random, name, each, given, client) for name in names]
    print(f"{sum(held)} of {len(held)} programs have one digest")
    sys.exit(not all(held))


if __name__ == "__main__":
    main()
