"""Measure the corpus on the CPU beside GT4Py, worst first.

    PYTHONPATH=engine:benchmarks python tests/benchmarks/cpu_corpus.py RESULT.json [NAME ...]

As `gpu_corpus_peers.py` does on a device: GT4Py compiles first, and calls take turns. Domains are
`--columns` wide along I and J, so that arrays exceed the caches and a call takes milliseconds. The
rate of a copy is that of the program `into = from` on two arrays of the same kind, of 256 MiB
together, by the engine in the same process. Programs for which `--seconds` leave no time are left
out and named.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
from corpus.calls import LAYOUTS, CorpusCall, wrong
from corpus.cases import CorpusCase, corpus
from corpus_gt4py import Peer, gt4py_call
from corpus_turns import Building, Machine, PeerFigure, figures, queued, table

from halocline_engine.errors import HaloclineError
from halocline_engine.functions.stencil import stencil

__all__ = ["main"]

_COPY = """
def copy(source: Field[{0}], into: Field[{0}]):
    with computation(PARALLEL), interval(...):
        into = source
"""
_COPIED, _ROUNDS = 128 << 20, 5


def main() -> None:
    """Compile, measure, write the figures and print them worst first."""
    given = _arguments()
    begun = perf_counter()
    machine = Machine("cpu", np, lambda: None)
    cases = [case for case in corpus() if not given.names or case.name in given.names]
    calls = [_call(case, dtype, given) for dtype in given.dtypes for case in cases]
    building = Building(calls, given.backends, given.workers)
    failures = building.failures(given.seconds / 2)
    copies = {dtype: _copy(machine, dtype, given.layout) for dtype in given.dtypes}
    found: list[PeerFigure] = []
    for call in calls:
        peers: dict[str, Callable[[], Peer] | str] = {
            backend: failures.get((call.case.name, call.dtype, backend))
            or partial(gt4py_call, call, np, backend)
            for backend in given.backends
        }
        if problem := _wrong(call):
            peers = dict.fromkeys(peers, problem)
        if perf_counter() - begun > given.seconds:
            peers = dict.fromkeys(peers, "no time was left")
        found += figures(machine, call, peers, call.work.bytes / copies[call.dtype])
        _write(given, copies, found)
    for line in table(found):
        print(line)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--commit", default="")
    parser.add_argument("--backends", nargs="*", default=["gt:cpu_ifirst", "dace:cpu"])
    parser.add_argument("--dtypes", nargs="*", default=["float64"])
    parser.add_argument("--layout", choices=LAYOUTS, default="KJI")
    parser.add_argument("--columns", type=int, default=192)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=1500.0)
    parser.add_argument("names", nargs="*")
    return parser.parse_args()


def _call(case: CorpusCase, dtype: str, given: argparse.Namespace) -> CorpusCall:
    domain = (given.columns - 3, given.columns - 1, case.domain[2])
    return CorpusCall(replace(case, domain=domain), dtype, given.layout, domain)


def _wrong(call: CorpusCall) -> str:
    """Return how a first call differs from the reference, at a small size."""
    small = CorpusCall(call.case, call.dtype, call.layout, (21, 13, call.domain[2]))
    arrays = small.arrays(np)
    inputs = {name: array.copy() for name, array in arrays.items()}
    try:
        small.run(small.stencil("cpu"), arrays)
    except HaloclineError as error:
        return f"{type(error).__name__}: {error}"[:300]
    return wrong(small, arrays, inputs)


def _copy(machine: Machine, dtype: str, layout: str) -> float:
    """Return the bytes a second, read and written, of a copy of arrays in an order of axes."""
    side = round((_COPIED // np.dtype(dtype).itemsize) ** (1 / 3))
    order = ["IJK".index(axis) for axis in layout]
    source, into = (
        np.full((side,) * 3, n, dtype).transpose(np.argsort(order)) for n in (1.0, np.nan)
    )
    program = stencil(_COPY.format(dtype), target="cpu")
    times = [queued(machine, lambda: program(source, into), 3) for _ in range(_ROUNDS)]
    return 2 * source.nbytes / median(times)


def _write(
    given: argparse.Namespace, copies: dict[str, float], found: Sequence[PeerFigure]
) -> None:
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "commit": given.commit,
        "layout": given.layout,
        "columns": given.columns,
        "copy": {dtype: round(rate / 1e9, 2) for dtype, rate in copies.items()},
        "peers": {
            name: version(name)
            for name in ("gt4py", "dace")
            if importlib.util.find_spec(name) is not None
        },
        "figures": [asdict(figure) for figure in found],
    }
    given.result.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
