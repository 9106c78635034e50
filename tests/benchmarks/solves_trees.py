"""Trees on a device: cells of one tree, and the real morphologies as one ragged batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from solves_figures import TIMES, USUAL, Figure

from halocline_engine.datasets.formats.swc import read_swc
from halocline_engine.kernels.machine import Library, Machine
from halocline_engine.kernels.tree import cpu
from halocline_engine.kernels.tree.cuda import WIDTH, CudaTree
from halocline_engine.kernels.tree.storage import flat, interleaved
from halocline_engine.kernels.tree.topology import Forest, arrange

__all__ = ["MORPHOLOGIES", "ROOT", "TreeTimer", "batch_of", "ragged_trees", "uniform_trees"]

ROOT = Path(__file__).parents[2]
MORPHOLOGIES = ("shared/data/morphologies", "../shared/data/morphologies")
KINDS = ("float64", "float32")
WRONG = {"float64": 1e-13, "float32": 1e-5}
NODES = (40, 80, 160)


class TreeTimer(Protocol):
    """What times; `gpu_solves.Bench` is one."""

    cupy: Any
    library: Library
    shared: int
    rows: int
    cells: int

    @property
    def machine(self) -> Machine:
        """The device."""
        ...

    def time_for(self, case: str) -> bool:
        """Return whether there is time for one more case."""
        ...

    def seconds(self, work: Callable[[], object], calls: int = 2) -> float:
        """Return the time of a call."""
        ...

    def share(
        self,
        moved: int,
        dtype: str,
        work: Callable[[], object],
        restore: Callable[[], object] | None = None,
    ) -> tuple[float, float]:
        """Return milliseconds and the share of the copy bandwidth."""
        ...

    def free(self) -> None:
        """Give memory back."""
        ...


def _solver(bench: TreeTimer) -> CudaTree:
    processors = int(bench.cupy.cuda.Device().attributes["MultiProcessorCount"])
    return CudaTree(bench.machine, bench.library, bench.shared, processors)


def uniform_trees(bench: TreeTimer) -> Iterator[Figure]:
    """Cells of one tree, interleaved in blocks as `solve` has them: four elements a node."""
    cupy = bench.cupy
    solver = _solver(bench)
    for dtype in KINDS:
        for nodes in NODES:
            kind = np.dtype(dtype)
            if not bench.time_for(f"uniform {nodes} nodes {dtype}"):
                continue
            parents = _branching(nodes)
            cells = bench.rows // nodes // 128 * 128
            layout = flat([nodes])
            plan = solver.uniform_plan(Forest(layout, parents, None), kind)
            if plan is None:
                print(f"uniform {nodes} nodes {dtype}: does not fit on the chip")
                continue
            shape = (cells // WIDTH, nodes, WIDTH)
            diagonal, upper, rhs = (cupy.random.random(shape, dtype=kind) for _ in range(3))
            diagonal += 1 + nodes_around(parents)[:, None].max()
            found = cupy.full_like(rhs, np.nan)
            room = cupy.full(max(1, solver.uniform_room(plan, cells)), np.nan, kind)
            held = cupy.asarray(plan.shape.table)
            arrays = (held, diagonal, upper, rhs, found, room)
            places = tuple(np.uint64(array.data.ptr) for array in arrays)
            work = partial(solver.uniform, plan, cells, places)
            work()
            _check(cupy, parents, arrays[1:5], WRONG[dtype])
            figures = bench.share(4 * rhs.nbytes, dtype, work)
            yield Figure("uniform", f"{nodes} nodes {dtype}", USUAL, *figures)
            del diagonal, upper, rhs, found, held, room, arrays
            bench.free()
    yield from _from_the_host(bench, solver)


def _from_the_host(bench: TreeTimer, solver: CudaTree) -> Iterator[Figure]:
    """Time what a user waits for, and on the target cpu: cells of one tree in flat layout."""
    nodes, cells = NODES[-1], bench.cells
    forest = arrange(flat([nodes] * cells), np.tile(_branching(nodes), cells))
    rng = np.random.default_rng(0)
    diagonal, upper, rhs = rng.random((3, nodes * cells))
    diagonal += 5
    judge = cpu.solve(forest, diagonal, upper, rhs)
    for name, solve in (("from the host and back", solver.solve), ("the target cpu", cpu.solve)):
        times: list[float] = []
        for _ in range(3):
            start = time.perf_counter()
            solved = solve(forest, diagonal, upper, rhs)
            times.append(time.perf_counter() - start)
            if not np.array_equal(solved.solution, judge.solution):
                raise AssertionError(f"The bits of '{name}' are others.")
        how = f"{name}, {cells} cells"
        yield Figure("uniform", f"{nodes} nodes float64", how, min(times) * 1e3, 0.0)


def _branching(nodes: int) -> NDArray[np.int64]:
    """Return parents of a tree that forks at about every tenth node."""
    rng = np.random.default_rng(1)
    parents = np.arange(-1, nodes - 1)
    parents[0] = 0
    for node in range(2, nodes):
        if rng.random() < 0.1:
            parents[node] = rng.integers(0, node - 1)
    return parents.astype(np.int64)


def nodes_around(parents: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many neighbours each node has."""
    return np.bincount(parents[1:], minlength=len(parents)) + (np.arange(len(parents)) > 0)


def _check(cupy: Any, parents: NDArray[np.int64], arrays: Sequence[Any], most: float) -> None:
    """Put solutions [block, node, cell] back into their equations."""
    diagonal, upper, rhs, x = (cupy.moveaxis(array, 1, 0) for array in arrays)
    missing = diagonal * x - rhs
    for node, parent in enumerate(parents.tolist()):
        if node:
            missing[node] += upper[node] * x[parent]
            missing[parent] += upper[node] * x[node]
    worst = float(cupy.abs(missing).max())
    if not worst < most:
        raise AssertionError(f"The equations are missed by {worst}.")


def ragged_trees(bench: TreeTimer) -> Iterator[Figure]:
    """Solve the real morphologies, one behind the other until there are enough cells."""
    folder = next((ROOT / name for name in MORPHOLOGIES if (ROOT / name).is_dir()), None)
    if folder is None or not bench.time_for("ragged"):
        print("the morphologies are not here")
        return
    forest, system = batch_of(sorted(folder.glob("*.swc")), bench.cells)
    layout, case = forest.layout, f"{bench.cells} cells float64"
    found, seconds = _on_processors(forest, system)
    yield Figure("ragged", case, "the target cpu", seconds * 1e3, 0.0)
    solver = _solver(bench)
    target = interleaved(layout.sizes, WIDTH)
    packed = [target.pack(layout, array) for array in system]
    for how, bases, sizes, stride, arrays in (
        ("interleaved", target.bases(), target.sizes, WIDTH, packed),
        ("flat", layout.offsets[:-1], layout.sizes, 1, system),
    ):
        marks = solver.marked(forest, system[0].dtype, target if stride > 1 else None)
        tables = (bases, sizes, marks.words, *arrays)
        solution, figures = _on_device(bench, solver, stride, marks.slots, tables)
        device_decoding = target.unpack(layout, solution) if stride > 1 else solution
        if not np.array_equal(device_decoding, found):
            raise AssertionError(f"The bits of the layout '{how}' are others.")
        name = f"{how}, share of copy (32 bytes a node)"
        yield Figure("ragged", case, name, *figures)
        yield Figure(
            "ragged", case, f"{TIMES} the cpu, {how}", figures[0], seconds * 1e3 / figures[0]
        )
    start = time.perf_counter()
    solver.solve_interleaved(forest, *system)
    whole = time.perf_counter() - start
    yield Figure("ragged", case, "from the host and back", whole * 1e3, 0.0)


def batch_of(files: Sequence[Path], cells: int) -> tuple[Forest, tuple[Any, Any, Any]]:
    """Return cells and dominant systems, all different."""
    data = read_swc(list(files))
    one = arrange(flat(data["row_size"].values), data["parent"].values)
    ends = one.layout.offsets
    pieces = [one.parents[ends[k] : ends[k + 1]] for k in range(one.layout.count)]
    chosen = [pieces[k % len(pieces)] for k in range(cells)]
    layout = flat([len(piece) for piece in chosen])
    forest = arrange(layout, np.concatenate(chosen))
    rng = np.random.default_rng(0)
    g = rng.uniform(0, 2, layout.total)
    inner = np.flatnonzero(layout.local() > 0)
    parents = (layout.offsets[layout.owners()] + forest.parents)[inner]
    around = np.bincount(parents, g[inner], minlength=layout.total)
    around[inner] += g[inner]
    return forest, (1 + around, -g, rng.uniform(-1, 1, layout.total))


def _on_processors(forest: Forest, system: tuple[Any, Any, Any]) -> tuple[Any, float]:
    """Return the solution of the target cpu, and the best time of three."""
    layout = forest.layout
    absolute = layout.offsets[layout.owners()] + forest.parents
    found = np.full_like(system[2], np.nan)
    times: list[float] = []
    for _ in range(4):
        start = time.perf_counter()
        cpu.strided(layout.offsets[:-1], 1, layout.sizes, absolute, system, found)
        times.append(time.perf_counter() - start)
    return found, min(times[1:])


def _on_device(
    bench: TreeTimer, solver: CudaTree, stride: int, slots: int, tables: Sequence[Any]
) -> tuple[Any, tuple[float, float]]:
    """Return the solution, and milliseconds and share of what is on the device already."""
    cupy = bench.cupy
    held = [cupy.asarray(table) for table in tables]
    rhs = held[-1]
    room, found = cupy.empty_like(rhs), cupy.full_like(rhs, np.nan)
    places = tuple(np.uint64(array.data.ptr) for array in (*held, room, found))
    work = partial(solver.strided, len(tables[0]), stride, rhs.dtype, places, slots)
    nodes = int(tables[1].sum())
    figures = bench.share(32 * nodes, "float64", work)
    solution = cupy.asnumpy(found)
    del held, rhs, room, found
    bench.free()
    return solution, figures
