"""Draw ways to run ten programs of many steps; each program has one digest, whatever the way.

Usage: drawn_runs.py [--target TARGET] [--count COUNT] [--seed SEED] [--processes N]
    [--apart SHARE] [--seconds LIMIT] [--result FILE.json] [--only NAME]

Cuts, modes, steps between exchanges, ranks of a process, worker processes, snapshots, runs that are
cancelled or killed and then resumed by the other mode with other blocks, and runs that lose a
worker. On the target `cuda` worker processes have a device each; `--processes 0` draws ranks of
this process alone, which share one. All ways use the same worker processes. Nothing is begun after
`--seconds`, and a way that takes longer than two minutes ends the script. Ends with 1 where a
digest differs, or a way fails.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from drawn_runs import PROGRAMS, Way, digest, drawn_way, expected

from halocline_engine.device.probe import device_count, device_facts
from halocline_engine.distribute.executors.dask import start
from halocline_engine.distribute.tasks.events import Event, StepsFinished

_HANGS = 120.0  # seconds of one way


@dataclass
class Row:
    """What became of the ways of a program."""

    name: str
    digest: str = ""
    seconds: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter[str])
    transports: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])

    def run(self, way: Way, target: str, client: Any) -> None:
        """Run the program in a way, and compare."""
        began = time.perf_counter()
        seen: set[str] = set()

        def note(event: Event) -> None:
            if isinstance(event, StepsFinished):
                seen.add(event.transport)

        self.kinds[kind(way)] += 1
        try:
            self.digest = expected(self.name, target)
            found = digest(PROGRAMS[self.name], way, target, client, note)
        except Exception as error:
            self.wrong.append(f"{way}: {type(error).__name__}: {error}")
        else:
            if found != self.digest:
                self.wrong.append(f"{way}: {found[:16]}")
        self.transports.update(seen)
        self.seconds += time.perf_counter() - began

    def __str__(self) -> str:
        """Return it on one line, and those for what is wrong."""
        told = ", ".join(f"{n} {what}" for what, n in sorted(self.kinds.items()))
        verdict = "one digest" if not self.wrong else f"{len(self.wrong)} DIFFER"
        head = f"{self.name:<10} {self.digest[:16]} {self.kinds.total():>4} ways"
        line = f"{head}  {verdict:<10} {self.seconds:6.1f} s  {told}"
        return "\n".join([line, *(f"    {each}" for each in self.wrong)])


def kind(way: Way) -> str:
    """Return what is counted of a way."""
    where = "processes" if way.processes else ("ranks" if way.ranks > 1 else "alone")
    return f"{way.mode} {where} {way.how}".strip()


def written(given: argparse.Namespace, rows: list[Row], seconds: float) -> None:
    """Write what there is by now."""
    if given.result is None:
        return
    device = device_facts().name if given.target == "cuda" else ""
    record = {**vars(given), "device": device, "seconds": seconds, "rows": [vars(r) for r in rows]}
    given.result.write_text(json.dumps(record, indent=1, default=str) + "\n")


def drawn(given: argparse.Namespace, names: list[str], rows: list[Row]) -> float:
    """Run drawn ways, one of each program in turn; return the seconds that they took."""
    random = Random(given.seed)
    how = {"processes": given.processes, "kills": True, "apart": given.apart}
    with ExitStack() as stack:
        client = None
        if given.processes:
            client = stack.enter_context(start(given.processes, given.target)).client
        began = time.perf_counter()
        for index in range(given.count):
            row = rows[index % len(rows)]
            way = drawn_way(random, PROGRAMS[names[index % len(names)]], **how)
            if time.perf_counter() - began > given.seconds:
                break
            faulthandler.dump_traceback_later(_HANGS, exit=True)
            row.run(way, given.target, client)
            faulthandler.cancel_dump_traceback_later()
            written(given, rows, time.perf_counter() - began)
        return time.perf_counter() - began


def main() -> None:
    """Draw, run, and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, help="0 for none")
    parser.add_argument("--apart", type=float, default=0.3, help="share of ways on processes")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--result", type=Path)
    parser.add_argument("--only", choices=sorted(PROGRAMS))
    given = parser.parse_args()
    if given.processes is None:
        given.processes = device_count() if given.target == "cuda" else 2
    names = [given.only] if given.only else list(PROGRAMS)
    rows = [Row(name) for name in names]
    seconds = drawn(given, names, rows)
    for row in rows:
        print(row)
    made, wrong = sum(row.kinds.total() for row in rows), sum(len(row.wrong) for row in rows)
    transports = sum((row.transports for row in rows), Counter[str]())
    ways = ", ".join(f"{n} {what}" for what, n in sorted(transports.items()))
    print(
        f"{made} of {given.count} ways in {seconds:.0f} s on {given.processes} processes:"
        f" {wrong} differ or fail; resident runs by {ways}"
    )
    sys.exit(bool(wrong) or made < given.count)


if __name__ == "__main__":
    main()
