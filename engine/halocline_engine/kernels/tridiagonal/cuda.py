"""The systems solved on a CUDA device, in the memory order in which they lie there.

Interleaved systems: a thread each, with the bits of the other targets, up to 48 rows, where they
are periodic, and beyond 512 rows; several threads each between. Contiguous ones: some lanes of a
warp each, up to 512 rows, and by windows of them beyond, or, where these are coupled too strongly,
by tiles, which is Wang's partition method; periodic contiguous systems of more rows go to a thread
each.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from halocline_engine.copies import copying_threads, of_device
from halocline_engine.kernels.machine import Arena, Library, Machine
from halocline_engine.kernels.tridiagonal import reference
from halocline_engine.kernels.tridiagonal.launching import (
    LANES,
    MOST_ROWS_A_LANE,
    Layout,
    Plan,
    plan_contiguous,
    plan_factored,
    plan_interleaved,
    plan_thomas,
    plan_windows,
    window_rows,
)
from halocline_engine.kernels.tridiagonal.pivoting import fold, settled, unfold
from halocline_engine.kernels.tridiagonal.problem import (
    Batch,
    Factored,
    PentadiagonalBands,
    Solved,
    SolvedBands,
    TridiagonalBands,
    check_bands,
    check_batch,
)

__all__ = ["Act", "Address", "CudaTridiagonal"]

#: Where an array begins on the machine.
Address: TypeAlias = np.uint64
#: Queues work on the current stream, and returns.
Act: TypeAlias = Callable[[], None]

_FOLDER = Path(__file__).parent
_MOST_IN_A_WARP = LANES * MOST_ROWS_A_LANE
_SMALL = 128
# Bytes that are read at once of each piece whose rows lie side by side.
_LINE = 128
# Blocks that solve again what windows did not: enough to fill a device, few enough to end at once.
_MOST_AGAIN = 1024
# Elements of a batch that are judged on the host, which takes it no longer than to bring them.
_LITTLE = 1 << 18
# Launches that are kept ready, for batches of so many sizes.
_MOST_READY = 256


class _Prepared:
    """What queues kernels of one machine, prepared; `most_shared` are the bytes of a block."""

    def __init__(self, library: Library, most_shared: int) -> None:
        self._library, self.most_shared = library, most_shared
        self._ready: dict[tuple[str, str, Plan, int], Callable[..., None]] = {}
        self._lock = threading.Lock()

    def act(
        self, file: str, name: str, plan: Plan, threads: int, arguments: tuple[Any, ...]
    ) -> Act:
        """Return what queues a kernel."""
        blocks = -(-threads // plan.threads)
        if not blocks:
            return partial(_do, [])
        key = (file, name, plan, blocks)
        launch = self._ready.get(key)
        if launch is None:
            kernels = self._library.file(_FOLDER / file, dict(plan.constants))
            shape = ((blocks, 1, 1), (plan.threads, 1, 1))
            every = range(len(arguments))
            launch = kernels.ready(name, *shape, arguments, plan.shared, every)
            with self._lock:
                if len(self._ready) >= _MOST_READY:
                    del self._ready[next(iter(self._ready))]
                self._ready[key] = launch
        return partial(launch, *arguments)

    def interleaved(
        self, layout: Layout, places: tuple[Address, ...], arena: Arena, plan: Plan | None = None
    ) -> list[Act]:
        """Return the solution by a thread a system, or by several.

        `places` are lower, diagonal, upper, rhs, solution and status.
        """
        paired = layout.inner % 2 == 0 and _aligned(places, 2 * layout.itemsize)
        plan = plan or plan_interleaved(layout, self.most_shared, paired=paired)
        if plan.pieces > 1:
            threads = -(-layout.systems // plan.systems) * plan.threads
            return [self.act("split.cu", "split", plan, threads, (*places, *layout.numbers))]
        return self.by_system("thomas", plan, layout, places, arena, 2 if layout.periodic else 1)

    def by_system(
        self,
        name: str,
        plan: Plan,
        layout: Layout,
        places: tuple[Address, ...],
        arena: Arena,
        arrays: int,
    ) -> list[Act]:
        """Return the solution by a thread a system, with so many `arrays` that may be off chip."""
        room = places[4]
        if not plan.on_chip:
            shape = (arrays, layout.rows, layout.systems)
            room = arena.address(arena.new(shape, np.dtype(layout.dtype)))
        arguments = (*places[:5], room, places[5], *layout.numbers)
        return [self.act(f"{name}.cu", name, plan, layout.systems, arguments)]

    def contiguous(
        self, layout: Layout, places: tuple[Address, ...], arena: Arena, plan: Plan | None = None
    ) -> list[Act]:
        """Return the solution of systems whose rows lie side by side; `inner` is 1."""
        if layout.rows <= _MOST_IN_A_WARP:
            plan = plan or plan_contiguous(layout, aligned=_aligned(places))
            threads = layout.systems * plan.pieces
            arguments = (*places, np.int64(layout.systems))
            return [self.act("contiguous.cu", "contiguous", plan, threads, arguments)]
        if layout.periodic:
            return self.interleaved(layout, places, arena)
        return self._long(layout, places, arena)

    def _long(self, layout: Layout, places: tuple[Address, ...], arena: Arena) -> list[Act]:
        """Return the solution by windows, and by tiles for systems where these were too narrow."""
        systems, rows = layout.systems, layout.rows
        whole = systems == 1 or rows * layout.itemsize % 16 == 0
        plan, block = plan_windows(layout, aligned=whole and _aligned(places))
        tile, kept = window_rows(layout.dtype)
        windows, tiles = -(-rows // kept), -(-rows // tile)
        # Ends and rows of the smaller systems; then where systems are to be solved again (4 bytes
        # each), and a byte for each window.
        size = systems * tiles * layout.itemsize
        room = arena.new((1, 1, 10 * size + systems * (windows + 4)), np.dtype(np.uint8))
        base = int(arena.address(room))
        places_of = (0, 6 * size, 7 * size, 10 * size, 10 * size + 4 * systems)
        ends, known, bands, marks, parts = (np.uint64(base + offset) for offset in places_of)
        numbers = (np.int64(systems), np.int32(rows))
        of_windows, of_tiles = ((*numbers, np.int32(count)) for count in (windows, tiles))
        judged = (parts, places[5], marks, np.int32(windows))
        bridged = (marks, ends, bands, known, np.int32(tiles))
        filled = (*places[:5], marks, known, places[5], *of_tiles)
        jobs, of_systems = systems * windows * LANES, systems * block.threads
        again = min(systems * tiles * LANES, _MOST_AGAIN * plan.threads)
        return [
            self.act("long.cu", "windows", plan, jobs, (*places[:5], parts, *of_windows)),
            self.act("long.cu", "judge", block, of_systems, judged),
            self.act("long.cu", "ends", plan, again, (*places[:4], marks, ends, *of_tiles)),
            self.act("long.cu", "bridge", block, of_systems, bridged),
            self.act("long.cu", "fill", plan, again, filled),
        ]


class CudaTridiagonal:
    """The kernels on one machine; `most_shared` are the bytes that a block may have.

    `contiguous` says how systems are solved, whatever part of a batch a call gets (default: as they
    lie). Methods with addresses queue work on the current stream and return; the others take and
    return host arrays as the other targets do. `solve`, `factor`, `solve_factored` and
    `solve_pentadiagonal` take dense arrays of the device as well: then they queue their work, and
    what they return is there.
    """

    def __init__(
        self,
        machine: Machine,
        library: Library,
        most_shared: int,
        *,
        contiguous: bool | None = None,
    ) -> None:
        self.machine, self._most_shared = machine, most_shared
        self._prepared = _Prepared(library, most_shared)
        self._contiguous, self._threads = contiguous, copying_threads(1)

    def solve(
        self, *bands: *TridiagonalBands, periodic: bool = False, pivoting: bool = False
    ) -> Solved:
        """Solve a batch; with `pivoting`, systems go to a thread each however they lie."""
        check_bands(bands, periodic=periodic)
        rhs = bands[3]
        layout = Layout(*rhs.shape, dtype=rhs.dtype.name, periodic=periodic)
        if not layout.systems:
            return Solved(rhs.copy(), np.zeros((layout.outer, layout.inner), np.uint8))
        if pivoting and periodic:
            return self._folded(bands)
        arena = Arena(self.machine, self._threads)
        given = tuple(arena.put(array) for array in bands)
        found = arena.new(layout.shape, rhs.dtype)
        status = arena.new((1, layout.outer, layout.inner), np.dtype(np.uint8))
        places = (*given, arena.address(found), arena.address(status))
        if pivoting:
            self.pivoted(layout, places, arena)
        elif layout.inner == 1 if self._contiguous is None else self._contiguous:
            self.contiguous(layout, places, arena)
        else:
            self.interleaved(layout, places, arena)
        return Solved(arena.like(rhs, found), arena.like(rhs, status)[0])

    def interleaved(
        self, layout: Layout, places: tuple[Address, ...], arena: Arena, plan: Plan | None = None
    ) -> None:
        """Queue the solution by a thread a system, or by several.

        `places` are lower, diagonal, upper, rhs, solution and status.
        """
        _do(self._prepared.interleaved(layout, places, arena, plan))

    def contiguous(
        self, layout: Layout, places: tuple[Address, ...], arena: Arena, plan: Plan | None = None
    ) -> None:
        """Queue the solution of systems whose rows lie side by side; `inner` is 1."""
        _do(self._prepared.contiguous(layout, places, arena, plan))

    def prepared(
        self, layout: Layout, places: tuple[Address, ...], arena: Arena, *, contiguous: bool
    ) -> Act:
        """Return what queues the solution in one or the other way, with all that it needs."""
        of_kind = self._prepared.contiguous if contiguous else self._prepared.interleaved
        return partial(_do, of_kind(layout, places, arena))

    def alone(self, layout: Layout, places: tuple[Address, ...], arena: Arena) -> Act:
        """Return what queues it by a thread a system, with the bits of the other targets."""
        plan = plan_thomas(layout, self._most_shared)
        return partial(_do, self._prepared.interleaved(layout, places, arena, plan))

    def pivoted(self, layout: Layout, places: tuple[Address, ...], arena: Arena) -> None:
        """Queue elimination with partial pivoting; `places` are those of `interleaved`."""
        plan = plan_thomas(layout, self._most_shared, kept=3)
        _do(self._prepared.by_system("pivoted", plan, layout, places, arena, 2))

    def _folded(self, bands: TridiagonalBands) -> Solved:
        """Solve periodic systems with pivoting, as pentadiagonal ones without corners."""
        band, right = fold(*bands)
        found = unfold(self.solve_pentadiagonal(*band, right, pivoting=True))
        status = reference.diagnose(*bands, found, periodic=True)
        return settled(found, status)

    def factor(self, lower: Batch, diagonal: Batch, upper: Batch) -> Factored:
        """Eliminate the coefficients; the result serves any number of right-hand sides."""
        check_batch({"lower": lower, "upper": upper}, diagonal)
        layout = Layout(*diagonal.shape, dtype=diagonal.dtype.name)
        arena = Arena(self.machine, self._threads)
        bands = [arena.new(layout.shape, diagonal.dtype) for _ in range(3)]
        for given, band in zip((lower, diagonal, upper), bands, strict=True):
            if of_device(given):
                band[...] = given.transpose(2, 1, 0)
            else:
                self.machine.upload(np.ascontiguousarray(given).transpose(2, 1, 0), band)
        arguments = (*(arena.address(band) for band in bands), *layout.numbers)
        plan = plan_factored(layout, self._most_shared, shared=False)
        self._queue("prefactored.cu", "factor", plan, layout.systems, arguments)
        low, reciprocal, scaled = (arena.like(diagonal, band) for band in bands)
        return Factored(low, reciprocal, scaled)

    def solve_factored(self, factored: Factored, rhs: Batch) -> Batch:
        """Solve a batch with coefficients that were eliminated before."""
        check_batch({"lower": factored.lower}, rhs, shared=factored.shared)
        layout = Layout(*rhs.shape, dtype=rhs.dtype.name)
        arena = Arena(self.machine, self._threads)
        bands = (factored.lower, factored.reciprocal, factored.upper)
        places = tuple(arena.put(array) for array in (*bands, rhs))
        found = arena.new(layout.shape, rhs.dtype)
        self.prefactored(layout, (*places, arena.address(found)), shared=factored.shared)
        return arena.like(rhs, found)

    def prefactored(
        self,
        layout: Layout,
        places: tuple[Address, ...],
        *,
        shared: bool,
        plan: Plan | None = None,
    ) -> None:
        """Queue the solution; `places` are lower, reciprocal, upper, rhs and solution."""
        plan = plan or plan_factored(layout, self._most_shared, shared=shared)
        self._queue("prefactored.cu", "solve", plan, layout.systems, (*places, *layout.numbers))

    def ends(self, *bands: *TridiagonalBands) -> Batch:
        """Return the equations of the ends of each piece of rows, as the reference does."""
        check_bands(bands)
        (outer, rows, inner), dtype = bands[3].shape, bands[3].dtype
        arena = Arena(self.machine, self._threads)
        found = arena.new((6, outer, inner), dtype)
        places = (*(arena.put(array) for array in bands), arena.address(found))
        self.reduce(Layout(outer, rows, inner, dtype.name), places)()
        return arena.get(found)

    def reduce(self, layout: Layout, places: tuple[Address, ...]) -> Act:
        """Return what queues `ends`; `places` are bands and equations."""
        if layout.inner == 1 and layout.rows * layout.itemsize % _LINE == 0 and _aligned(places):
            constants = (("REAL", layout.real), ("THREADS", LANES))
            plan = Plan(constants, LANES, 2 * 4 * LANES * _LINE)
            given = (*places, np.int64(layout.outer), np.int32(layout.rows))
            name = "reduce_contiguous"
            return self._prepared.act("contiguous_ends.cu", name, plan, layout.outer, given)
        numbers = (layout.rows, layout.inner, layout.rows, 1)
        pieces = Layout(layout.outer, 1, layout.inner, layout.dtype)
        return self.by_piece("reduce", pieces, places, tuple(np.int32(one) for one in numbers))

    def by_piece(
        self,
        name: str,
        layout: Layout,
        places: tuple[Address, ...],
        numbers: tuple[np.int32, ...],
        file: str = "levels.cu",
    ) -> Act:
        """Return what queues a kernel that has a thread a piece, which are the rows of a layout."""
        plan = Plan((("REAL", layout.real), ("THREADS", _SMALL)), _SMALL, 0)
        pieces = layout.systems * layout.rows
        return self._prepared.act(file, name, plan, pieces, (*places, np.int64(pieces), *numbers))

    def judge(
        self, *solved: *SolvedBands, beside: Sequence[Batch] | None, residual: bool
    ) -> tuple[NDArray[np.uint8], NDArray[np.float64], NDArray[np.float64]]:
        """Do as `reference.judge` does, on the device unless a batch of the host is small."""
        if of_device(solved[4]) or solved[4].size <= _LITTLE:
            return reference.judge(*solved, beside=beside, residual=residual)
        arena = Arena(self.machine, self._threads)
        a, b, c, d, x, *ends = (_brought(one, arena) for one in (*solved, *(beside or ())))
        found = reference.judge(a, b, c, d, x, beside=ends or None, residual=residual)
        status, missing, scale = (arena.get(one.T[:, None])[:, 0] for one in found)
        return status, missing, scale

    def solve_pentadiagonal(self, *bands: *PentadiagonalBands, pivoting: bool = False) -> Batch:
        """Solve a batch of pentadiagonal systems, by a thread each."""
        check_bands(bands)
        rhs = bands[5]
        layout = Layout(*rhs.shape, dtype=rhs.dtype.name)
        arena = Arena(self.machine, self._threads)
        places = tuple(arena.put(array) for array in bands)
        found = arena.new(layout.shape, rhs.dtype)
        room = arena.new((4 if pivoting else 2, layout.rows, layout.systems), rhs.dtype)
        constants: dict[str, int | str] = {"REAL": layout.real, "ROWS": layout.rows}
        constants |= {"THREADS": _SMALL} | ({"ON_CHIP": 0} if pivoting else {})
        plan = Plan(tuple(constants.items()), _SMALL, 0)
        arguments = (*places, arena.address(found), arena.address(room), *layout.numbers)
        file, name = ("pivoted", "pivoted_band") if pivoting else ("pentadiagonal",) * 2
        self._queue(f"{file}.cu", name, plan, layout.systems, arguments)
        return arena.like(rhs, found)

    def _queue(
        self, file: str, name: str, plan: Plan, threads: int, arguments: tuple[Any, ...]
    ) -> None:
        self._prepared.act(file, name, plan, threads, arguments)()


def _do(acts: Sequence[Callable[[], None]]) -> None:
    for act in acts:
        act()


def _brought(host: Batch, arena: Arena) -> Batch:
    """Return a batch on the device, which gets once what is repeated along an axis."""
    once = tuple(slice(None) if stride else slice(1) for stride in host.strides)
    return np.broadcast_to(arena.brought(host[once]), host.shape)


def _aligned(places: tuple[Address, ...], size: int = 16) -> bool:
    """Return whether bands, right-hand side and solution begin at multiples of so many bytes."""
    lower, diagonal, upper, rhs, solution = (int(place) for place in places[:5])
    return (lower | diagonal | upper | rhs | solution) % size == 0
