"""Time the `cpu` target beside hand-written loops, GT4Py and Devito; prints one table.

    python tests/benchmarks/cpu_stencil.py [--result RESULT.json] [--commit COMMIT]
        [--devito PYTHON] [--no-gt4py] [--only NAME ...] [--rounds 9] [--patience 60]

All contenders use the same number of threads, that of NUMBA_NUM_THREADS, on grids of the same size,
in the layout that their authors advise; GT4Py's are compiled for minutes the first time. A round
runs each of them a few times in a row to wake it up and as often for the clock, and likewise the
copy of an array that is larger than the caches; each round begins with another one. It begins when
other work on the machine is quiet, is run again where that came back, and after so many seconds the
quietest rounds are taken. What counts is the median of the rounds' ratios. Bytes are compulsory:
each input read once, each output written once.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any

import numpy as np
from cpu_hand import BY_HAND
from gt4py_programs import gt4py_stencil
from processors import processor, threads
from quiet import QUIET, Watch
from workloads import Case, Domain, case, drawn

from halocline_engine.program import compile_program

#: One size that is a power of two, and one that is odd along every axis but the levels.
SIZES: Mapping[str, tuple[Domain, ...]] = {
    "2d5pt": ((4096, 4096, 1), (4211, 3989, 1)),
    "3d7pt": ((256, 256, 256), (331, 293, 173)),
    "horizontal diffusion": ((512, 512, 64), (523, 509, 63)),
    "vertical advection": ((512, 256, 80), (307, 299, 80)),
    "tridiagonal": ((512, 256, 80), (307, 299, 80)),
}
DTYPES = ("float64", "float32")
GT4PY = ("gt:cpu_ifirst", "gt:cpu_kfirst")
COPIED = 1 << 27
#: Runs in a row, because Devito's profile is that of some steps.
CALLS = 4
#: Seconds after which the threads of OpenMP that had their turn no longer spin.
SETTLE = 0.02
TOLERANCE = {"float64": 1e-11, "float32": 1e-4}

#: Returns the seconds that one run takes, the mean of `CALLS`.
Contender = Callable[[], float]


@dataclass(frozen=True)
class CpuFigure:
    """One contender on one case; `share` of the copy bandwidth, and how often as fast as ours.

    `others` is the share of the machine that other work had in the worst round that counts. Without
    them, the reason.
    """

    case: str
    dtype: str
    domain: Domain
    bytes_per_point: int
    contender: str
    milliseconds: float | None = None
    copy: float | None = None
    share: float | None = None
    of_ours: float | None = None
    others: float | None = None
    reason: str = ""


def clocked(work: Callable[[], object]) -> Contender:
    def run() -> float:
        began = perf_counter()
        for _ in range(CALLS):
            work()
        return (perf_counter() - began) / CALLS

    return run


def scalars_of(one: Case, dtype: str) -> dict[str, float]:
    return {name: np.dtype(dtype).type(value).item() for name, value in one.scalars.items()}


def ours(one: Case, dtype: str, domain: Domain, fields: Mapping[str, Any]) -> Contender:
    """Return our target in its own memory, whose results are put into `fields`."""
    compiled = compile_program(one.text.format(dtype=dtype), target="cpu")
    executable = compiled.artifact.load()
    own: dict[str, Any] = {}
    for name, array in fields.items():
        nk, nj, ni = array.shape
        own[name] = executable.memory.empty((ni, nj, nk), array.dtype, one.halo)
        own[name][...] = array.transpose(2, 1, 0)
    origins = dict.fromkeys(own, one.halo)
    work = partial(executable, own, scalars_of(one, dtype), origins, domain)
    work()
    for name in one.outputs:
        fields[name][...] = own[name].transpose(2, 1, 0)
    return clocked(work)


def by_hand(
    one: Case, dtype: str, fields: Mapping[str, Any], expected: Mapping[str, Any]
) -> Contender:
    """Return the hand-written loops, once they were seen to give the same."""
    own = dict(fields) | {name: np.full_like(fields[name], np.nan) for name in one.outputs}
    scalars = scalars_of(one, dtype).values()
    work = partial(BY_HAND[one.name], *own.values(), *scalars)
    work()
    _agree(one, dtype, own, expected)
    return clocked(work)


def _agree(one: Case, dtype: str, got: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    inner = tuple(slice(h, -h or None) for h in reversed(one.halo))
    for name in one.outputs:
        np.testing.assert_allclose(
            got[name][inner],
            expected[name][inner],
            rtol=TOLERANCE[dtype],
            atol=TOLERANCE[dtype] * 10,
        )


def gt4py(
    backend: str, one: Case, dtype: str, domain: Domain, fields: Mapping[str, Any], folder: Path
) -> Contender:
    """Return GT4Py in its own storage, checked like the others."""
    storage: Any = importlib.import_module("gt4py.storage")
    stencil = gt4py_stencil(one, dtype, backend, folder)
    own: dict[str, Any] = {}
    for name, array in fields.items():
        like = storage.empty(
            array.shape[::-1], np.dtype(dtype), backend=backend, aligned_index=one.halo
        )
        like[...] = np.nan if name in one.outputs else array.transpose(2, 1, 0)
        own[name] = like
    scalars = {name: np.dtype(dtype).type(value) for name, value in one.scalars.items()}
    work = partial(stencil, **own, **scalars, origin=one.halo, domain=domain, validate_args=False)
    work()
    _agree(one, dtype, {name: array.transpose(2, 1, 0) for name, array in own.items()}, fields)
    return clocked(work)


class Unavailable(Exception):
    """A contender cannot run a case; the text says why."""


class Devito:
    """A process with another interpreter, that times one case when it is asked."""

    def __init__(self, python: str, one: Case, dtype: str, domain: Domain) -> None:
        worker = Path(__file__).with_name("devito_worker.py")
        self._process = subprocess.Popen(
            [python, str(worker), one.name, dtype, *map(str, domain)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        answer = self._ask("")
        if answer != "ready":
            self.close()
            raise Unavailable(answer or "it did not start")

    @property
    def process(self) -> int:
        """The number of the process."""
        return self._process.pid

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if line:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def __call__(self) -> float:
        """Return the seconds of a step."""
        return float(self._ask("go"))

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def copying(dtype: str, threads: int) -> tuple[Contender, int]:
    """Return a copy by as many threads, and the bytes that it moves."""
    source = np.ones(COPIED // np.dtype(dtype).itemsize, dtype)
    target = np.zeros_like(source)
    pool = ThreadPoolExecutor(threads)
    pieces = list(
        zip(np.array_split(source, threads), np.array_split(target, threads), strict=True)
    )

    def work() -> None:
        waiting = [pool.submit(np.copyto, to, piece) for piece, to in pieces]
        for future in waiting:
            future.result()

    return clocked(work), 2 * source.nbytes


def contenders(
    one: Case, dtype: str, domain: Domain, options: argparse.Namespace, folder: Path
) -> tuple[dict[str, Contender], dict[str, str]]:
    """Return who can run a case, ours first, and why the others cannot."""
    fields: dict[str, Any] = dict(drawn(one, domain, dtype))
    makers: dict[str, Callable[[], Contender]] = {
        "ours": lambda: ours(one, dtype, domain, fields),
        "by hand": lambda: by_hand(one, dtype, fields, fields),
    }
    if not options.no_gt4py:
        for backend in GT4PY:
            makers[backend] = partial(gt4py, backend, one, dtype, domain, fields, folder)
    if options.devito:
        makers["Devito"] = lambda: Devito(options.devito, one, dtype, domain)
    found: dict[str, Contender] = {}
    missing: dict[str, str] = {}
    for name, make in makers.items():
        try:
            found[name] = make()
        except Unavailable as error:
            missing[name] = str(error)[:200]
        except Exception as error:
            missing[name] = f"{type(error).__name__}: {error}"[:200]
    return found, missing


def figures(
    one: Case, dtype: str, domain: Domain, options: argparse.Namespace, folder: Path
) -> Iterator[CpuFigure]:
    """Time a case in rounds."""
    found, missing = contenders(one, dtype, domain, options, folder)
    copy, copied = copying(dtype, threads())
    rounds, others = in_rounds({**found, "copy": copy}, options)
    for run in found.values():
        if isinstance(run, Devito):
            run.close()
    moved = float(np.prod(domain, dtype=np.int64)) * one.bytes_per_point(dtype)
    blank = partial(CpuFigure, one.name, dtype, domain, one.bytes_per_point(dtype))
    for name in found:
        trio = list(zip(rounds[name], rounds["copy"], rounds["ours"], strict=True))
        yield blank(
            contender=name,
            milliseconds=median(rounds[name]) * 1e3,
            copy=copied / median(rounds["copy"]) / 1e9,
            share=median(moved / t * c / copied for t, c, _ in trio),
            of_ours=median(o / t for t, _, o in trio),
            others=others,
        )
    for name, reason in missing.items():
        yield blank(contender=name, reason=reason)


def in_rounds(
    runs: Mapping[str, Contender], options: argparse.Namespace
) -> tuple[dict[str, list[float]], float]:
    """Return the seconds of each in the quietest rounds, and what others had in the worst of them.

    A first round warms up. Processors that idled take a while to be as fast as ever, so who is the
    first of a round has a worse start: it is another one each time, and nobody's first run counts.
    """
    for run in runs.values():
        run()
    watch = Watch(run.process for run in runs.values() if isinstance(run, Devito))
    deadline = perf_counter() + options.patience
    rounds: list[tuple[float, dict[str, float]]] = []
    missing = options.rounds
    while missing > 0 and (perf_counter() < deadline or len(rounds) < options.rounds):
        watch.wait(deadline)
        times: dict[str, float] = {}
        spent = np.zeros(2)
        for name in rotated(list(runs), len(rounds)):
            sleep(SETTLE)
            watch.others()
            runs[name]()
            times[name] = runs[name]()
            spent += watch.others()
        others = max(0.0, float(spent[0] / spent[1]))
        rounds.append((others, times))
        missing -= others < QUIET
    kept = sorted(rounds, key=lambda r: r[0])[: options.rounds]
    return {name: [times[name] for _, times in kept] for name in runs}, kept[-1][0]


def rotated(names: Sequence[str], number: int) -> list[str]:
    """Return the names in the order of a round: all of them in turn, each round from another one.

    >>> rotated(["a", "b", "c"], 4)
    ['b', 'c', 'a']
    """
    first = number % len(names)
    return [*names[first:], *names[:first]]


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("numba", "llvmlite", "numpy", "gt4py"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "-"
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Time the cpu target beside its peers.")
    parser.add_argument("--result", type=Path, help="where to write the figures as JSON")
    parser.add_argument("--commit", default="unknown", help="the commit that is measured")
    parser.add_argument("--devito", help="an interpreter that has Devito")
    parser.add_argument("--no-gt4py", action="store_true", help="leave GT4Py out")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="the cases to run")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--patience", type=float, default=60.0, help="seconds for a case's rounds")
    options = parser.parse_args(arguments)
    os.environ["OMP_NUM_THREADS"] = str(threads())
    folder = Path(tempfile.mkdtemp(prefix="halocline-gt4py-"))
    all_figures: list[CpuFigure] = []
    print(f"{processor()}, {threads()} threads")
    print(
        f"{'case':22}{'dtype':9}{'size':14}{'B/pt':>5}  {'contender':14}{'ms':>9}{'copy GB/s':>11}"
        f"{'share':>8}{'of ours':>9}{'others':>8}"
    )
    for name in options.only or SIZES:
        for dtype in DTYPES:
            for domain in SIZES[name]:
                for one in figures(case(name), dtype, domain, options, folder):
                    all_figures.append(one)
                    print(line(one), flush=True)
    if options.result:
        record = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "commit": options.commit,
            "processor": processor(),
            "threads": threads(),
            "versions": versions(),
            "figures": [asdict(one) for one in all_figures],
        }
        options.result.write_text(json.dumps(record, indent=1) + "\n")
    return 0


def line(one: CpuFigure) -> str:
    size = "x".join(map(str, one.domain))
    head = f"{one.case:22}{one.dtype:9}{size:14}{one.bytes_per_point:5d}  {one.contender:14}"
    if one.milliseconds is None or one.copy is None:
        return f"{head}  {one.reason}"
    figures = f"{one.milliseconds:9.2f}{one.copy:11.1f}{one.share:8.2f}{one.of_ours:9.2f}"
    return f"{head}{figures}{one.others:8.2f}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
