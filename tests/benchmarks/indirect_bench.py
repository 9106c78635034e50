"""What all parts of the benchmark of indirect access need: a device, its kernels, and a clock."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

from halocline_engine.device.machine import current_machine
from halocline_engine.kernels.indirect.cuda import Ends, Movers
from halocline_engine.kernels.machine import Kernels, Library

__all__ = ["Bench", "parts_of", "same", "taken"]

ROUNDS = 5


class Bench:
    """What all parts need: the device, the kernels, how much is moved, and how long it may take."""

    def __init__(self, *, mib: float, seconds: float) -> None:
        self.cupy: Any = importlib.import_module("cupy")
        self.bytes = int(mib * 2**20)
        copied = min(2**30, self.bytes)
        self.copied = self.cupy.ones(copied // 4, self.cupy.int32)
        self.copy = self.cupy.empty_like(self.copied)
        self._machine = current_machine()
        self._code: dict[str, bytes] = {}
        self.movers = Movers(Library(self._machine, self._kept))
        self._end = time.monotonic() + seconds
        self.skipped: list[str] = []

    def _kept(self, name: tuple[str, str], make: Callable[[], bytes]) -> bytes:
        source = name[0]
        return self._code[source] if source in self._code else make()

    def compile(self, sources: Sequence[str]) -> None:
        """Compile several translation units at once, each in a process of its own."""
        with ThreadPoolExecutor(16) as pool:
            compiled = pool.map(self._machine.compile, sources)
            self._code.update(zip(sources, compiled, strict=True))

    def time_for(self, case: str) -> bool:
        """Return whether there is time for one more case; what is left out is remembered."""
        left = time.monotonic() < self._end
        if not left:
            self.skipped.append(case)
        return left

    def ends(self, source: Any, target: Any, size: int, **indices: Any) -> Ends:
        """Return the ends of a transfer between device arrays."""
        arrays = {name: array.data.ptr for name, array in indices.items()}
        bits = {8 * array.dtype.itemsize for array in indices.values()}
        return Ends(
            source=source.data.ptr,
            target=target.data.ptr,
            source_elements=source.nbytes // size,
            target_elements=target.nbytes // size,
            index_bits=bits.pop(),
            **arrays,
        )

    def kernels(self, source: str) -> Kernels:
        """Return the kernels of a source that may have been compiled before."""
        return self._machine.load(self._kept((source, ""), lambda: self._machine.compile(source)))

    def seconds(self, work: Callable[[], object], calls: int = 2) -> float:
        """Return the time of a call; all are queued behind a copy, and none waits for Python."""
        start, end = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        self._copied()
        start.record()
        for _ in range(calls):
            work()
        end.record()
        end.synchronize()
        return float(self.cupy.cuda.get_elapsed_time(start, end)) / 1e3 / calls

    def race(
        self, moved: int, works: Mapping[str, Callable[[], object]], rounds: int = ROUNDS
    ) -> dict[str, tuple[float, float]]:
        """Return the milliseconds of each work and its share of the copy bandwidth.

        In every round all of them follow each other behind copies, so that what a device does at
        one time is the same for all. Both figures are medians of the rounds.
        """
        for work in works.values():
            work()
        times: dict[str, list[float]] = {name: [] for name in works}
        shares: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(rounds):
            copy = self.seconds(self._copied, 3)
            for name, work in works.items():
                own = self.seconds(work)
                times[name].append(own * 1e3)
                shares[name].append(moved / own / (2 * self.copy.nbytes / copy))
        return {name: (median(times[name]), median(shares[name])) for name in works}

    def share(self, moved: int, work: Callable[[], object]) -> tuple[float, float]:
        """Return the milliseconds of some work and its share of the copy bandwidth."""
        return self.race(moved, {"": work})[""]

    def _copied(self) -> None:
        self.cupy.copyto(self.copy, self.copied)

    def random_bytes(self, count: int) -> Any:
        return self.cupy.random.randint(0, 2**31 - 1, count // 4, dtype=self.cupy.int32)

    def order(self, name: str, count: int) -> Any:
        """Return indices: a random permutation, or each at most 64 places off."""
        cupy = self.cupy
        if name == "random":
            return cupy.random.permutation(count).astype(cupy.int32)
        around = cupy.arange(count, dtype=cupy.int64) + cupy.random.randint(-64, 64, count)
        return around.clip(0, count - 1).astype(cupy.int32)

    def free(self) -> None:
        self.cupy.get_default_memory_pool().free_all_blocks()


def taken(bench: Bench, table: Any, index: Any) -> Any:
    """Return the rows that indices name, by CuPy's own indexing."""
    out = bench.cupy.empty((index.size, table.shape[1]), table.dtype)
    for part in parts_of(index.size, table.shape[1]):
        out[part] = table[index[part]]
    return out


def parts_of(rows: int, values: int) -> Iterator[slice]:
    """Yield slices of some million values: each makes temporary arrays of its size."""
    step = max(1, 2**26 // values)
    for first in range(0, rows, step):
        yield slice(first, min(first + step, rows))


def same(got: Any, wanted: Any) -> None:
    """Compare two arrays of rows."""
    for part in parts_of(*got.shape):
        if not bool((got[part] == wanted[part]).all()):
            raise AssertionError(f"Wrong elements in rows {part.start} to {part.stop}.")
