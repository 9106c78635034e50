"""Tree systems on a CUDA device, in each of the layouts; the bits of the other targets.

A batch is interleaved: a thread each. Where cells have different trees, those of a warp are of
about the same size, and their nodes come through a ring on the chip; where all have the same one,
what the sweeps hand on stays on the chip, or near it. A batch of few cells is packed by the levels
of their branches: a block of threads each.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.errors import ArgumentError
from halocline_engine.kernels.machine import Arena, Library, Machine
from halocline_engine.kernels.tree import cpu
from halocline_engine.kernels.tree.levels import Levels, by_levels
from halocline_engine.kernels.tree.marks import Marks, marks_of
from halocline_engine.kernels.tree.problem import Solved, check_cells
from halocline_engine.kernels.tree.storage import (
    Flat,
    Interleaved,
    Values,
    interleaved,
    pack_parents,
)
from halocline_engine.kernels.tree.topology import Forest
from halocline_engine.kernels.tree.uniform import Uniform, uniform_of

__all__ = ["WIDTH", "CudaTree", "marked_parents"]

#: Cells of a block of the interleaved layout: the threads of a warp.
WIDTH = 32
_DEPTH = 8
# Nodes of a stage, and stages of the ring on the way up and down; see `ring.cu`.
_STAGE, _UP, _DOWN = 8, 4, 6

_FOLDER = Path(__file__).parent
_THREADS = 128
_TILE = 32
_WORDS = {4: "unsigned int", 8: "unsigned long long"}
_REALS = {"float32": "float", "float64": "double"}
# Fewer cells than this leave most of a device idle with a thread each.
_FEW = 512
# Marks a parent index of a fork; see `strided.cu`.
_FORK = 1 << 31


class CudaTree:
    """The kernels on one machine.

    `most_shared` are the bytes of shared memory that a block may have, `processors` how many blocks
    run at once where each has so many.
    """

    def __init__(
        self, machine: Machine, library: Library, most_shared: int, processors: int
    ) -> None:
        self._machine = machine
        self._library = library
        self._most_shared = most_shared
        self._processors = processors

    def solve(self, forest: Forest, diagonal: Values, upper: Values, rhs: Values) -> Solved:
        """Solve a ragged batch; arrays hold a value for each node of the forest."""
        check_cells(forest.layout, {"diagonal": diagonal, "upper": upper, "rhs": rhs})
        if not forest.layout.total:
            found = rhs.copy()
        elif forest.layout.count < _FEW:
            found = self.solve_branches(forest, diagonal, upper, rhs)
        else:
            plan = self.uniform_plan(forest, rhs.dtype)
            if plan is None:
                found = self.solve_interleaved(forest, diagonal, upper, rhs)
            else:
                found = self.solve_uniform(plan, forest, diagonal, upper, rhs)
        return Solved(found, cpu.diagnose(forest, diagonal, upper, rhs, found))

    def solve_interleaved(
        self, forest: Forest, diagonal: Values, upper: Values, rhs: Values, width: int = WIDTH
    ) -> Values:
        """Solve a batch in blocks of `width` cells, a thread a cell; converts on the device."""
        layout = forest.layout
        target = interleaved(layout.sizes, width)
        arena = Arena(self._machine)
        packed = [self._pack(arena, layout, target, array) for array in (diagonal, upper, rhs)]
        room = [arena.new((1, 1, target.total), rhs.dtype) for _ in range(2)]
        marks = self.marked(forest, rhs.dtype, target)
        tables = (target.bases(), target.sizes, marks.words)
        places = [arena.put(table) for table in tables]
        places += [arena.address(array) for array in (*packed, *room)]
        self.strided(layout.count, width, rhs.dtype, tuple(places), marks.slots)
        return self._unpack(arena, layout, target, room[1])

    def marked(
        self, forest: Forest, dtype: np.dtype[Any], target: Interleaved | None = None
    ) -> Marks:
        """Return what `strided` has to know of each node; no slots where parents are marked."""
        marks = marks_of(forest, target)
        if marks is None or _ring_bytes(marks.slots, dtype.itemsize) > self._most_shared:
            return Marks(marked_parents(forest, target), 0)
        return marks

    def strided(
        self,
        cells: int,
        stride: int,
        dtype: np.dtype[Any],
        places: tuple[np.uint64, ...],
        slots: int,
    ) -> None:
        """Queue the solution by a thread a cell.

        `places` are where each cell's first node is and how many it has (int64), what `marked`
        gives, diagonal, upper, rhs, room and solution; `slots` are those of `marked`.
        """
        arguments = (*places, np.int32(cells), np.int32(stride))
        real = _REALS[dtype.name]
        if not slots:
            self._launch(
                "strided.cu", "strided", cells, arguments, REAL=real, DEPTH=_DEPTH, THREADS=WIDTH
            )
            return
        self._launch(
            "ring.cu",
            "ring",
            cells,
            arguments,
            shared=_ring_bytes(slots, dtype.itemsize),
            REAL=real,
            DEPTH=_STAGE,
            UP=_UP,
            DOWN=_DOWN,
            SLOTS=slots,
            THREADS=WIDTH,
        )

    def pack(self, source: Flat, target: Interleaved, values: Values) -> Values:
        """Return values of the flat layout interleaved, converted on the device; padding is 0."""
        arena = Arena(self._machine)
        return arena.get(self._pack(arena, source, target, values)).reshape(-1)

    def unpack(self, source: Flat, target: Interleaved, packed: Values) -> Values:
        """Return interleaved values in the flat layout, converted on the device."""
        arena = Arena(self._machine)
        array = arena.new((1, 1, target.total), packed.dtype)
        self._machine.upload(packed.reshape(-1, 1, 1), array)
        return self._unpack(arena, source, target, array)

    def uniform_plan(self, forest: Forest, dtype: np.dtype[Any]) -> Uniform | None:
        """Return how cells that all have the same tree are solved; None where they do not.

        Also where their tree is too large for the chip.
        """
        if not forest.alike():
            return None
        tree = forest.parents[: forest.layout.offsets[1]]
        return uniform_of(tree.tobytes(), dtype.itemsize, self._most_shared)

    def solve_uniform(
        self, plan: Uniform, forest: Forest, diagonal: Values, upper: Values, rhs: Values
    ) -> Values:
        """Solve a batch of cells of one tree in blocks of `WIDTH`; converts on the device."""
        layout = forest.layout
        target = interleaved(layout.sizes, WIDTH)
        arena = Arena(self._machine)
        packed = [self._pack(arena, layout, target, array) for array in (diagonal, upper, rhs)]
        found = arena.new((1, 1, target.total), rhs.dtype)
        room = arena.new((1, 1, self.uniform_room(plan, layout.count)), rhs.dtype)
        places = (arena.address(array) for array in (*packed, found, room))
        self.uniform(plan, layout.count, (arena.put(plan.shape.table), *places))
        return self._unpack(arena, layout, target, found)

    def uniform_room(self, plan: Uniform, cells: int) -> int:
        """Return how many elements `uniform` needs to keep in memory what is not on the chip."""
        return plan.room * self._uniform_blocks(plan, cells)

    def uniform(self, plan: Uniform, cells: int, places: tuple[np.uint64, ...]) -> None:
        """Queue the solution of cells of one tree, interleaved in blocks of `WIDTH`.

        `places` are the table of the plan's shape, diagonal, upper, rhs, the solution and the room.
        """
        self._launch(
            "uniform.cu",
            "uniform",
            self._uniform_blocks(plan, cells) * plan.threads,
            (*places, np.int64(cells)),
            shared=plan.shared,
            **plan.constants(WIDTH),
        )

    def _uniform_blocks(self, plan: Uniform, cells: int) -> int:
        return min(self._processors, -(-cells // plan.threads))

    def solve_branches(
        self, forest: Forest, diagonal: Values, upper: Values, rhs: Values
    ) -> Values:
        """Solve a batch with a block of threads a cell, packed by the levels of branches."""
        layout = forest.layout
        spans = [slice(*pair) for pair in pairwise(layout.offsets.tolist())]
        spans = [span for span in spans if span.stop > span.start]
        cells = [by_levels(forest.parents[span]) for span in spans]
        arena = Arena(self._machine)
        pairs = list(zip(cells, spans, strict=True))
        arrays = [
            arena.put(np.concatenate([cell.pack(array[span]) for cell, span in pairs]))
            for array in (diagonal, upper, rhs)
        ]
        total = sum(cell.total for cell in cells)
        room, found = (arena.new((1, 1, total), rhs.dtype) for _ in range(2))
        given = arena.new((1, 2, sum(cell.branches for cell in cells)), rhs.dtype)
        tables = [arena.put(table) for table in _tables(cells)]
        others = (arena.address(array) for array in (room, found, given))
        self._launch(
            "branches.cu",
            "branches",
            len(cells) * _THREADS,
            (*tables, *arrays, *others),
            REAL=_REALS[rhs.dtype.name],
            THREADS=_THREADS,
        )
        packed = arena.get(found).reshape(-1)
        result = rhs.copy()
        at = 0
        for cell, span in zip(cells, spans, strict=True):
            result[span] = cell.unpack(packed[at : at + cell.total])
            at += cell.total
        return result

    def _pack(self, arena: Arena, source: Flat, target: Interleaved, values: Values) -> Any:
        packed = arena.new((1, 1, target.total), values.dtype)
        places = (arena.put(values), arena.address(packed))
        self._convert("pack", arena, source, target, places, values.dtype)
        return packed

    def _unpack(self, arena: Arena, source: Flat, target: Interleaved, packed: Any) -> Values:
        dtype = np.dtype(packed.dtype)
        flat = arena.new((1, 1, source.total), dtype)
        self._convert(
            "unpack", arena, source, target, (arena.address(packed), arena.address(flat)), dtype
        )
        return arena.get(flat).reshape(-1)

    def _convert(
        self,
        name: str,
        arena: Arena,
        source: Flat,
        target: Interleaved,
        places: tuple[np.uint64, np.uint64],
        dtype: np.dtype[Any],
    ) -> None:
        """Queue a conversion; `places` are where it reads and where it writes."""
        item = dtype.itemsize
        tables = (source.offsets[:-1][target.order], target.sizes, target.starts, target.lengths)
        numbers = (np.int64(len(target.sizes)), np.zeros((), f"u{item}")[()])
        self._launch(
            "convert.cu",
            name,
            len(target.starts) * _THREADS,
            (*places, *(arena.put(table) for table in tables), *numbers),
            shared=target.width * (_TILE + 1) * item,
            WORD=_WORDS[item],
            WIDTH=target.width,
            TILE=_TILE,
            THREADS=_THREADS,
        )

    def _launch(
        self,
        file: str,
        name: str,
        threads: int,
        arguments: tuple[Any, ...],
        *,
        shared: int = 0,
        **constants: int | str,
    ) -> None:
        block = int(constants["THREADS"])
        blocks = -(-threads // block)
        if blocks:
            kernels = self._library.file(_FOLDER / file, constants)
            kernels.launch(name, (blocks, 1, 1), (block, 1, 1), arguments, shared)


def marked_parents(forest: Forest, target: Interleaved | None = None) -> NDArray[np.uint32]:
    """Return absolute parents, flat or interleaved, with the highest bit set at forks.

    A fork is a node with a child that does not stand right behind it. Raises `ArgumentError` where
    there are too many nodes.

    >>> forest = Forest(Flat(np.array([0, 4])), np.array([0, 0, 1, 0]), None)
    >>> [hex(parent) for parent in marked_parents(forest)]
    ['0x80000000', '0x0', '0x1', '0x0']
    """
    layout = forest.layout
    total = layout.total if target is None else target.total
    if total > _FORK:
        raise ArgumentError(
            f"A batch has at most {_FORK} nodes on a device, padding included, got {total}.",
            hint="Give fewer cells at a time.",
        )
    own = pack_parents(layout, forest.parents)
    apart = own[own < np.arange(layout.total) - 1]
    forks = np.zeros(layout.total, np.int64)
    forks[apart] = _FORK
    absolute = own
    if target is not None:
        absolute = pack_parents(layout, forest.parents, target)
        forks = target.pack(layout, forks)
    return (absolute | forks).astype(np.uint32)


def _ring_bytes(slots: int, itemsize: int) -> int:
    up, down = _UP * (3 * itemsize + 4), _DOWN * (2 * itemsize + 4)
    return WIDTH * (2 * slots * itemsize + _STAGE * max(up, down))


def _tables(cells: list[Levels]) -> list[NDArray[np.int64]]:
    """Return the arrays of `branches.cu`, in its order: heads first."""
    begins = np.zeros((len(cells) + 1, 4), np.int64)
    for at, cell in enumerate(cells, 1):
        begins[at] = len(cell.counts), cell.branches, len(cell.children), cell.total
    heads = np.cumsum(begins, axis=0).reshape(-1)
    fields = ("starts", "counts", "first", "lengths", "parent_nodes", "children_from", "children")
    tables = (np.concatenate([getattr(cell, name) for cell in cells]) for name in fields)
    return [heads, *(table if len(table) else np.zeros(1, np.int64) for table in tables)]
