"""Measure the corpus beside other compilers on a CUDA device, worst first.

    PYTHONPATH=engine:benchmarks python tests/benchmarks/gpu_corpus_peers.py RESULT.json [NAME ...]

GT4Py compiles in `--workers` processes before anything is timed, for `--building` seconds at most;
its stencils have their own storages, an origin and a domain that are frozen, and do not wait for
the device after a call. `torch.compile` and JAX get a drawn sample of the programs as expressions
on whole arrays. Arrays have I fastest. Outputs are compared with those of the engine, which are
compared with the reference. The engine is timed on arrays without padding, and on the storages of
GT4Py, whose rows begin at multiples of what a device reads at once. A time is that of calls queued
one after the other, between two waits for the device; the engine and its peers take turns.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

from corpus.calls import CorpusCall
from corpus.cases import corpus
from corpus.whole_arrays import sample
from corpus_gt4py import Peer, gt4py_call
from corpus_turns import Building, Machine, PeerFigure, attempt, figures, table
from corpus_whole import jax_call, torch_call
from gpu_corpus import attainable_seconds, first_call, peaks

from halocline_engine.device.cupy_types import cupy

__all__ = ["main"]

#: Programs that compilers of whole arrays are timed on.
_SAMPLE = 10


def main() -> None:
    """Compile, measure, write the figures and print them worst first."""
    given = _arguments()
    device: Any = cupy()
    machine = Machine("cuda", device, device.cuda.runtime.deviceSynchronize)
    cases = [case for case in corpus() if not given.names or case.name in given.names]
    calls = [CorpusCall(c, dtype, "KJI", c.domain) for dtype in given.dtypes for c in cases]
    until = perf_counter() + given.building
    building = Building(calls, given.backends, given.workers)
    with ThreadPoolExecutor(4) as threads:
        first = list(threads.map(partial(first_call, device), calls))
    whole = _whole(machine, calls, until) if given.whole else {}
    failures = building.failures(given.building)
    device.get_default_memory_pool().free_all_blocks()
    rates = peaks(device)
    found: list[PeerFigure] = []
    begun = perf_counter()
    for call, (_, wrong) in zip(calls, first, strict=True):
        peers: dict[str, Callable[[], Peer] | str] = {
            backend: failures.get((call.case.name, call.dtype, backend))
            or partial(gt4py_call, call, machine.library, backend)
            for backend in given.backends
        }
        peers |= whole.pop((call.case.name, call.dtype), {})
        if wrong or perf_counter() - begun > given.timing:
            peers = dict.fromkeys(peers, wrong or "no time was left")
        found += figures(machine, call, peers, attainable_seconds(call, rates))
        device.get_default_memory_pool().free_all_blocks()
        _write(given, device, rates.copy, found)
    for line in table(found):
        print(line)


def _whole(
    machine: Machine, calls: Sequence[CorpusCall], until: float
) -> dict[tuple[str, str], dict[str, Callable[[], Peer] | str]]:
    """Return the drawn programs as compilers of whole arrays made them, or why they did not."""
    chosen = {case.name for case in sample(corpus(), _SAMPLE)}
    found: dict[tuple[str, str], dict[str, Callable[[], Peer] | str]] = {}
    for call in calls:
        if call.case.name in chosen:
            for name, make in (("torch.compile", torch_call), ("JAX", jax_call)):
                of = found.setdefault((call.case.name, call.dtype), {})
                if perf_counter() > until:
                    of[name] = "not compiled in time"
                    continue
                peer = attempt(partial(make, call, call.arrays(machine.library)))
                of[name] = peer if isinstance(peer, str) else partial(_itself, peer)
    return found


def _itself(peer: Peer) -> Peer:
    return peer


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--commit", default="")
    parser.add_argument("--backends", nargs="*", default=["gt:gpu", "dace:gpu"])
    parser.add_argument("--dtypes", nargs="*", default=["float64"])
    parser.add_argument("--no-whole", dest="whole", action="store_false")
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--building", type=float, default=240.0)
    parser.add_argument("--timing", type=float, default=120.0)
    parser.add_argument("names", nargs="*")
    return parser.parse_args()


def _write(given: Any, device: Any, copy: float, found: Sequence[PeerFigure]) -> None:
    properties = device.cuda.runtime.getDeviceProperties(0)
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "device": properties["name"].decode(),
        "commit": given.commit,
        "copy": round(copy / 1e9, 1),
        "peers": {
            name: version(name)
            for name in ("gt4py", "dace", "torch", "jax")
            if importlib.util.find_spec(name) is not None
        },
        "figures": [asdict(figure) for figure in found],
    }
    given.result.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
