"""The systems solved on a CUDA device, in the memory order in which they lie there.

Interleaved systems: a thread each, the bits of the other targets. Contiguous ones: a warp each, up
to 512 rows, and by tiles of them beyond, which is Wang's partition method; periodic contiguous
systems of more rows go to a thread each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from halocline_engine.kernels.machine import Library, Machine, Moved
from halocline_engine.kernels.tridiagonal.launching import (
    LANES,
    MOST_ROWS_A_LANE,
    Layout,
    Plan,
    plan_contiguous,
    plan_factored,
    plan_thomas,
    tile_rows,
)
from halocline_engine.kernels.tridiagonal.problem import (
    Batch,
    Factored,
    Solved,
    check_batch,
    rows_of_periodic,
)

__all__ = ["Address", "CudaTridiagonal"]

#: Where an array begins on the machine.
Address: TypeAlias = np.uint64

_FOLDER = Path(__file__).parent
_MOST_IN_A_WARP = LANES * MOST_ROWS_A_LANE
_SMALL = 128


class CudaTridiagonal:
    """The kernels on one machine; `most_shared` are the bytes that a block may have.

    Methods with addresses queue work on the current stream and return; the others take and return
    host arrays as the other targets do.
    """

    def __init__(self, machine: Machine, library: Library, most_shared: int) -> None:
        self._machine = machine
        self._library = library
        self._most_shared = most_shared

    def solve(
        self,
        lower: Batch,
        diagonal: Batch,
        upper: Batch,
        rhs: Batch,
        *,
        periodic: bool = False,
        contiguous: bool | None = None,
    ) -> Solved:
        """Solve a batch; `contiguous` says how (default: where inner is 1)."""
        check_batch({"lower": lower, "diagonal": diagonal, "upper": upper}, rhs)
        if periodic:
            rows_of_periodic(rhs.shape[1])
        outer, rows, inner = rhs.shape
        layout = Layout(outer, rows, inner, rhs.dtype.name, periodic)
        if not layout.systems:
            return Solved(rhs.copy(), np.zeros((outer, inner), np.uint8))
        moved = Moved(self._machine)
        bands = tuple(moved.put(array) for array in (lower, diagonal, upper, rhs))
        found = moved.new((outer, rows, inner), rhs.dtype)
        status = moved.new((1, outer, inner), np.dtype(np.uint8))
        places = (*bands, moved.address(found), moved.address(status))
        if inner == 1 if contiguous is None else contiguous:
            self.contiguous(layout, places, moved)
        else:
            self.interleaved(layout, places, moved)
        return Solved(moved.get(found), moved.get(status)[0])

    def interleaved(
        self,
        layout: Layout,
        places: tuple[Address, ...],
        moved: Moved,
        plan: Plan | None = None,
    ) -> None:
        """Queue the solution by a thread a system.

        `places` are lower, diagonal, upper, rhs, solution and status.
        """
        plan = plan or plan_thomas(layout, self._most_shared)
        room = places[4]
        if not plan.on_chip:
            arrays = 2 if layout.periodic else 1
            shape = (arrays, layout.rows, layout.systems)
            room = moved.address(moved.new(shape, np.dtype(layout.dtype)))
        numbers = (np.int64(layout.systems), np.int32(layout.inner))
        arguments = (*places[:5], room, places[5], *numbers)
        self._launch("thomas.cu", "thomas", plan, layout.systems, arguments)

    def contiguous(
        self,
        layout: Layout,
        places: tuple[Address, ...],
        moved: Moved,
        plan: Plan | None = None,
    ) -> None:
        """Queue the solution of systems whose rows lie side by side; `inner` is 1."""
        if layout.rows <= _MOST_IN_A_WARP:
            self._warps(
                layout, plan or plan_contiguous(layout, 0), places, (places[4], places[4]), 1
            )
        elif layout.periodic:
            self.interleaved(layout, places, moved)
        else:
            self._tiles(layout, places, moved)

    def _tiles(self, layout: Layout, places: tuple[Address, ...], moved: Moved) -> None:
        """Reduce each tile to its ends, solve for the last unknown of each, and fill them in."""
        tiles = -(-layout.rows // tile_rows(layout.dtype))
        jobs = layout.systems * tiles
        dtype = np.dtype(layout.dtype)
        ends = moved.address(moved.new((1, jobs, 6), dtype))
        reduced = Layout(layout.systems, tiles, 1, layout.dtype)
        bands = [moved.address(moved.new((1, 1, jobs), dtype)) for _ in range(5)]
        parts = moved.address(moved.new((1, 1, jobs), np.dtype(np.uint8)))
        first = plan_contiguous(layout, 1)
        self._warps(layout, first, places, (places[4], ends), tiles)
        numbers = (np.int64(layout.systems), np.int32(tiles))
        self._launch("contiguous.cu", "join", first, jobs, (ends, *bands[:4], *numbers))
        self.contiguous(reduced, (*bands, parts), moved)
        second = plan_contiguous(layout, 2)
        self._warps(layout, second, (*places[:5], parts), (bands[4], ends), tiles)
        arguments = (parts, places[5], *numbers)
        self._launch("contiguous.cu", "gather_status", second, layout.systems, arguments)

    def _warps(
        self,
        layout: Layout,
        plan: Plan,
        places: tuple[Address, ...],
        ends: tuple[Address, Address],
        tiles: int,
    ) -> None:
        numbers = (np.int64(layout.systems), np.int32(layout.rows), np.int32(tiles))
        jobs = layout.systems * tiles * LANES
        self._launch("contiguous.cu", "contiguous", plan, jobs, (*places, *ends, *numbers))

    def factor(self, lower: Batch, diagonal: Batch, upper: Batch) -> Factored:
        """Eliminate the coefficients; the result serves any number of right-hand sides."""
        check_batch({"lower": lower, "upper": upper}, diagonal)
        outer, rows, inner = diagonal.shape
        layout = Layout(outer, rows, inner, diagonal.dtype.name)
        moved = Moved(self._machine)
        bands = [moved.new((outer, rows, inner), diagonal.dtype) for _ in range(3)]
        for host, band in zip((lower, diagonal, upper), bands, strict=True):
            self._machine.upload(np.ascontiguousarray(host).transpose(2, 1, 0), band)
        numbers = (np.int64(layout.systems), np.int32(inner))
        arguments = (*(moved.address(band) for band in bands), *numbers)
        plan = plan_factored(layout, self._most_shared, shared=False)
        self._launch("prefactored.cu", "factor", plan, layout.systems, arguments)
        low, reciprocal, scaled = (moved.get(band) for band in bands)
        return Factored(low, reciprocal, scaled)

    def solve_factored(self, factored: Factored, rhs: Batch) -> Batch:
        """Solve a batch with coefficients that were eliminated before."""
        check_batch({"lower": factored.lower}, rhs, shared=factored.shared)
        outer, rows, inner = rhs.shape
        layout = Layout(outer, rows, inner, rhs.dtype.name)
        moved = Moved(self._machine)
        bands = (factored.lower, factored.reciprocal, factored.upper)
        places = tuple(moved.put(array) for array in (*bands, rhs))
        found = moved.new((outer, rows, inner), rhs.dtype)
        self.prefactored(layout, (*places, moved.address(found)), shared=factored.shared)
        return moved.get(found)

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
        numbers = (np.int64(layout.systems), np.int32(layout.inner))
        self._launch("prefactored.cu", "solve", plan, layout.systems, (*places, *numbers))

    def solve_pentadiagonal(
        self,
        second_lower: Batch,
        lower: Batch,
        diagonal: Batch,
        upper: Batch,
        second_upper: Batch,
        rhs: Batch,
    ) -> Batch:
        """Solve a batch of pentadiagonal systems, by a thread each."""
        bands = {
            "second_lower": second_lower,
            "lower": lower,
            "diagonal": diagonal,
            "upper": upper,
            "second_upper": second_upper,
        }
        check_batch(bands, rhs)
        outer, rows, inner = rhs.shape
        layout = Layout(outer, rows, inner, rhs.dtype.name)
        moved = Moved(self._machine)
        places = tuple(moved.put(array) for array in (*bands.values(), rhs))
        found = moved.new((outer, rows, inner), rhs.dtype)
        room = moved.new((2, rows, layout.systems), rhs.dtype)
        constants = {"REAL": layout.real, "ROWS": rows, "THREADS": _SMALL}
        plan = Plan(tuple(constants.items()), _SMALL, 0)
        numbers = (np.int64(layout.systems), np.int32(inner))
        arguments = (*places, moved.address(found), moved.address(room), *numbers)
        self._launch("pentadiagonal.cu", "pentadiagonal", plan, layout.systems, arguments)
        return moved.get(found)

    def _launch(
        self, file: str, name: str, plan: Plan, threads: int, arguments: tuple[Any, ...]
    ) -> None:
        kernels = self._library.file(_FOLDER / file, dict(plan.constants))
        blocks = -(-threads // plan.threads)
        if blocks:
            kernels.launch(name, (blocks, 1, 1), (plan.threads, 1, 1), arguments, plan.shared)
