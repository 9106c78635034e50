"""Time compiling and the cache of compiled code for the target cuda; needs no device.

    python tests/benchmarks/compiling.py [--result RESULT.json] [--commit COMMIT]
        [--architecture sm_90] [--only NAME ...]

For each program: from text to an artifact; the first call with an empty cache, most of which is
NVRTC in a process of its own; and the first call of a new executable that finds the code in the
cache, which prepares a launch, writes the source again, reads the entry and checks it. Where there
is a device, code is loaded and run there; elsewhere it is compiled in the same way and then put
aside, so loading is not counted.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from workloads import CASES, Case, Domain

from halocline_engine.backends.base import Overlap, Repetition
from halocline_engine.backends.compiled import Compiled
from halocline_engine.backends.cuda.model.entries import H200_CACHE
from halocline_engine.backends.cuda.model.launch import Dim3
from halocline_engine.backends.cuda.runtime.executable import CudaExecutable
from halocline_engine.backends.cuda.runtime.machine import Machine
from halocline_engine.cache import Cache
from halocline_engine.copies import AnyArray, copy_slabs
from halocline_engine.device.compile.compiler import compile_source, compiler_identity
from halocline_engine.device.machine import current_machine
from halocline_engine.device.probe import device_count, device_facts
from halocline_engine.program import compile_program

__all__ = ["CompilingFigure", "CompilingMachine", "figure", "main"]

DTYPES = ("float64", "float32")
#: Large enough for the tiles of large domains where the levels are few.
DOMAIN: Domain = (1024, 512, 16)
_AGAIN = 7


class _NoKernels:
    """Loaded code that is not run."""

    def launch(
        self,
        name: str,
        grid: Dim3,
        block: Dim3,
        arguments: tuple[np.generic, ...],
        shared: int = 0,
    ) -> None:
        return

    def ready(
        self,
        name: str,
        grid: Dim3,
        block: Dim3,
        arguments: tuple[np.generic, ...],
        shared: int = 0,
        changing: Sequence[int] = (),
        *,
        follows: bool = False,
    ) -> Callable[..., None]:
        return lambda *_: None


class CompilingMachine:
    """A CUDA `Machine` that compiles for an architecture and runs nothing."""

    def __init__(self, architecture: str) -> None:
        self._architecture = architecture
        self.follows = True
        self.compiled: list[float] = []

    def allocate(
        self,
        size: int,
        start: Callable[[int], int],
        shape: tuple[int, int, int],
        dtype: np.dtype[Any],
        strides: tuple[int, int, int],
    ) -> NDArray[Any]:
        room = np.empty(size, np.uint8)
        return np.ndarray(shape, dtype, room.data, start(self.address(room)), strides)

    @property
    def cache(self) -> int:
        return H200_CACHE

    @property
    def speed(self) -> tuple[int, float, float]:
        return 0, 0.0, 0.0

    def address(self, array: NDArray[Any]) -> int:
        return int(array.__array_interface__["data"][0])

    def upload(self, host: AnyArray, into: NDArray[Any], threads: int = 1) -> None:
        copy_slabs(host, into, threads)

    def download(
        self, array: NDArray[Any], into: AnyArray | None = None, threads: int = 1
    ) -> AnyArray:
        found = np.empty_like(array) if into is None else into
        copy_slabs(array, found, threads)
        return found

    def overlap(self) -> Overlap:
        def queue(work: Sequence[Callable[[], None]], beside: Sequence[Callable[[], None]]) -> None:
            for act in (*beside, *work):
                act()

        return queue

    def repetition(self, work: Callable[[], None]) -> Repetition:
        return partial(self.repeat, work)

    def repeat(
        self, work: Callable[[], None], times: int, look: Callable[[], None] | None = None
    ) -> None:
        for _ in range(times):
            if look is not None:
                look()
            work()

    @property
    def compiler(self) -> str:
        return compiler_identity(self._architecture)

    def compile(self, source: str) -> bytes:
        began = perf_counter()
        code = compile_source(source, self._architecture)
        self.compiled.append(perf_counter() - began)
        return code

    def load(self, code: bytes) -> _NoKernels:
        return _NoKernels()


@dataclass(frozen=True)
class CompilingFigure:
    """Seconds for one program; `code` is the bytes in the cache.

    `cold` and `warm` are first calls: the only one with an empty cache, the best with a full one.
    """

    case: str
    dtype: str
    front: float
    cold: float
    warm: float
    code: int


def figure(one: Case, dtype: str, machine: Machine) -> CompilingFigure:
    """Time one program with an empty cache, and then with a full one."""
    began = perf_counter()
    compiled = compile_program(one.text.format(dtype=dtype), target="cuda")
    front = perf_counter() - began
    with tempfile.TemporaryDirectory() as folder:
        cache = Cache(Path(folder))
        cold = _first_call(one, dtype, compiled, machine, cache)
        warm = [_first_call(one, dtype, compiled, machine, cache) for _ in range(_AGAIN)]
        code = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    return CompilingFigure(one.name, dtype, front, cold, min(warm), code)


def _first_call(one: Case, dtype: str, compiled: Compiled, machine: Machine, cache: Cache) -> float:
    executable = CudaExecutable(compiled.schedule, machine, cache)
    i, j, k = (n + 2 * h for n, h in zip(DOMAIN, one.halo, strict=True))
    fields = {
        name: executable.memory.empty((i, j, k), np.dtype(dtype), one.halo) for name in one.fields
    }
    origins = dict.fromkeys(fields, one.halo)
    began = perf_counter()
    executable(fields, one.scalars, origins, DOMAIN)
    return perf_counter() - began


def figures(machine: Machine, names: list[str] | None) -> Iterator[CompilingFigure]:
    """Time every program, once something else has warmed up Python and the compiler's files."""
    figure(CASES[0], "float64", machine)
    for one in CASES:
        if names is None or one.name in names:
            for dtype in DTYPES:
                yield figure(one, dtype, machine)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Time compiling and the cache of compiled code.")
    parser.add_argument("--result", type=Path, help="where to write the figures as JSON")
    parser.add_argument("--commit", default="unknown", help="the commit that is measured")
    parser.add_argument("--architecture", default="sm_90", help="for where there is no device")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="the cases to run")
    options = parser.parse_args(arguments)
    there = device_count() > 0
    machine = current_machine() if there else CompilingMachine(options.architecture)
    device = device_facts().name if there else f"none, compiled for {options.architecture}"
    print(f"device: {device}")
    print(f"{'case':22}{'dtype':9}{'text, ms':>10}{'cold, s':>9}{'warm, ms':>10}{'code, KB':>10}")
    found: list[CompilingFigure] = []
    for one in figures(machine, options.only):
        found.append(one)
        print(
            f"{one.case:22}{one.dtype:9}{one.front * 1e3:10.0f}{one.cold:9.2f}"
            f"{one.warm * 1e3:10.1f}{one.code / 1e3:10.0f}",
            flush=True,
        )
    if options.result:
        record = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "commit": options.commit,
            "device": {"name": device},
            "python": platform.python_version(),
            "figures": [asdict(one) for one in found],
        }
        options.result.write_text(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
