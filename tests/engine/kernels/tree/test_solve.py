"""Ragged batches in every layout and on every target: the same bits; and against SciPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cables import assemble, prepare
from cubin import resources
from forests import random_parents, sparse_solution
from hypothesis import given, settings
from hypothesis import strategies as st
from kept import device_code

import halocline_engine.kernels.tree.cuda as module
from halocline_engine.errors import FieldError
from halocline_engine.kernels.machine import source_of
from halocline_engine.kernels.status import Status
from halocline_engine.kernels.tree import cpu, reference
from halocline_engine.kernels.tree.cuda import CudaTree
from halocline_engine.kernels.tree.marks import MOST_SLOTS, marks_of
from halocline_engine.kernels.tree.shape import shape_of
from halocline_engine.kernels.tree.storage import flat, interleaved
from halocline_engine.kernels.tree.topology import Forest, arrange
from halocline_engine.kernels.tree.uniform import uniform_of

SIZES = (1, 2, 0, 17, 40, 3, 100, 17)


def drawn(
    sizes: tuple[int, ...] = SIZES, dtype: str = "float64", seed: int = 0, *, shuffled: bool = True
) -> tuple[Forest, Any, Any, Any]:
    """Return cells, and dominant systems of them."""
    rng = np.random.default_rng(seed)
    parents = [random_parents(size, rng, shuffled=shuffled) for size in sizes if size]
    layout = flat(sizes)
    forest = arrange(layout, np.concatenate([*parents, np.zeros(0, np.int64)]).astype(np.int64))
    g = rng.uniform(0, 2, layout.total)
    g[forest.layout.offsets[:-1][layout.sizes > 0]] = np.nan
    inner = layout.local() > 0
    diagonal = rng.uniform(0.5, 2, layout.total) + np.where(inner, g, 0)
    absolute = layout.offsets[layout.owners()] + forest.parents
    np.add.at(diagonal, absolute[inner], g[inner])
    rhs = rng.normal(size=layout.total)
    return forest, diagonal.astype(dtype), (-g).astype(dtype), rhs.astype(dtype)


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=12),
    seed=st.integers(0, 1000),
    width=st.integers(1, 9),
)
def test_every_layout_has_the_same_bits(sizes: list[int], seed: int, width: int) -> None:
    forest, diagonal, upper, rhs = drawn(tuple(sizes), seed=seed)
    judge = reference.solve(forest, diagonal, upper, rhs)
    solved = cpu.solve(forest, diagonal, upper, rhs)
    assert np.array_equal(solved.solution, judge.solution)
    assert np.array_equal(solved.status, judge.status)
    assert not judge.status.any()
    layout = forest.layout
    target = interleaved(sizes, width, common=bool(seed % 2))
    arrays = (target.pack(layout, array, np.nan) for array in (diagonal, upper, rhs))
    packed = cpu.solve_interleaved(forest, target, *arrays)
    assert np.array_equal(target.unpack(layout, packed), judge.solution)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_device_has_the_same_bits_in_every_layout(device: CudaTree, dtype: str) -> None:
    forest, diagonal, upper, rhs = drawn(dtype=dtype)
    diagonal[forest.layout.offsets[5]] = 0
    judge = reference.solve(forest, diagonal, upper, rhs)
    for solve in (device.solve_interleaved, device.solve_branches):
        assert np.array_equal(solve(forest, diagonal, upper, rhs), judge.solution)
    assert device.marked(forest, diagonal.dtype).slots
    solved = device.solve(forest, diagonal, upper, rhs)
    assert np.array_equal(solved.solution, judge.solution)
    assert np.array_equal(solved.status, judge.status)


def one_tree(nodes: int, forks: float, cells: int) -> Forest:
    """Return cells of a tree; a part of its nodes have other parents than the one before."""
    rng = np.random.default_rng(4)
    parents = np.arange(-1, nodes - 1)
    for node in range(2, nodes):
        if rng.random() < forks:
            parents[node] = rng.integers(0, node)
    return arrange(flat([nodes] * cells), np.tile(parents, cells))


@pytest.mark.parametrize(
    ("nodes", "forks", "dtype"),
    [
        (1, 0.0, "float64"),
        (23, 0.1, "float64"),
        (24, 0.5, "float32"),
        (170, 0.1, "float64"),
        (193, 0.4, "float32"),
        (400, 0.1, "float64"),
    ],
)
def test_cells_of_one_tree(device: CudaTree, nodes: int, forks: float, dtype: str) -> None:
    cells = 601
    forest = one_tree(nodes, forks, cells)
    plan = device.uniform_plan(forest, np.dtype(dtype))
    assert plan is not None
    assert (plan.shape.away > 0) == (nodes > 100)
    rng = np.random.default_rng(0)
    diagonal, upper, rhs = rng.uniform(1, 2, (3, cells, nodes)).astype(dtype)
    diagonal += 2 * nodes
    upper[:, 0] = np.nan
    # What a quick reciprocal cannot do, and what makes a system one that is skipped.
    for cell, value in enumerate((0, np.inf, np.nan, np.finfo(dtype).tiny / 4, -np.inf)):
        diagonal[7 * cell, nodes // 2] = value
    diagonal[-1, 0] = 0
    judge = reference.solve(forest, diagonal.ravel(), upper.ravel(), rhs.ravel())
    found = device.solve(forest, diagonal.ravel(), upper.ravel(), rhs.ravel())
    assert np.array_equal(found.solution, judge.solution, equal_nan=True)
    assert np.array_equal(found.status, judge.status)


def test_which_cells_are_of_one_tree() -> None:
    forest = one_tree(9, 0.5, 4)
    assert forest.alike()
    assert not arrange(flat([]), np.zeros(0, np.int64)).alike()
    assert not arrange(flat([2, 1]), np.array([-1, 0, -1])).alike()
    parents = forest.parents.copy()
    parents[-1] = (parents[-1] + 1) % 8
    assert not Forest(forest.layout, parents, None).alike()


def test_trees_that_do_not_fit_on_the_chip_are_kept_away() -> None:
    spine = np.maximum(np.arange(-1, 999), 0)
    whole, large = (uniform_of(spine[:n].tobytes(), 8, 227 * 1024) for n in (80, 1000))
    assert whole is not None
    assert large is not None
    assert whole.room == 0
    assert large.threads == 96
    held = large.shape.places - large.shape.extra
    assert large.room == 2 * 96 * (1000 - held)
    for plan in (whole, large):
        assert plan.shared <= 227 * 1024
    for none in (np.maximum(np.arange(-1, 29999), 0), np.zeros(9999, np.int64)):
        assert uniform_of(none.tobytes(), 8, 227 * 1024) is None


def test_places_of_children_that_wait() -> None:
    rng = np.random.default_rng(1)
    parents = np.array([0, *(int(rng.integers(0, node)) for node in range(1, 61))])
    shape = shape_of(parents, 8, 2, 6)
    table = shape.table.astype(np.int64)
    up, heads, lists = table[:64], table[128:136], table[136:]
    waits: dict[int, int] = {}
    for turn, word in enumerate(up.tolist()):
        node, begin, count = 63 - turn, heads[turn // 8] & 65535, heads[turn // 8] >> 16
        listed = [int(w) for w in lists[begin : begin + count] if w % 16 == turn % 8]
        taken = [w & 0x3FFF0 for w in (*listed, word)]
        far = [c for c in range(60, node, -1) if node < 61 and parents[c] == node != c - 1]
        assert [waits.pop(place) for place in taken if place in waits] == far
        # A node on the chip is put into its own place, where nothing else may wait then.
        assert node >= 48 or node * 6 * 16 not in waits
        if word & 1:
            place = word >> 14 & 0x3FFF0
            assert place not in waits
            waits[place] = node
    assert not waits


def test_many_cells_go_interleaved_on_the_device(device: CudaTree) -> None:
    sizes = tuple(int(n) for n in np.random.default_rng(0).integers(0, 7, 600))
    forest, diagonal, upper, rhs = drawn(sizes)
    judge = reference.solve(forest, diagonal, upper, rhs)
    assert np.array_equal(device.solve(forest, diagonal, upper, rhs).solution, judge.solution)


def test_cells_that_hold_back_too_much_are_solved_as_well(device: CudaTree) -> None:
    star, spine = np.zeros(MOST_SLOTS + 3, np.int64), np.arange(-1, 60)
    star[0] = -1
    forest = arrange(flat([len(star), len(spine)]), np.concatenate([star, spine]))
    assert marks_of(forest) is None
    rng = np.random.default_rng(0)
    diagonal, upper, rhs = rng.uniform(1, 2, (3, forest.layout.total))
    diagonal *= 200
    judge = reference.solve(forest, diagonal, upper, rhs)
    found = device.solve_interleaved(forest, diagonal, upper, rhs)
    assert np.array_equal(found, judge.solution)


def test_against_sparse_lu() -> None:
    for seed in range(5):
        forest, diagonal, upper, rhs = drawn(seed=seed)
        solved = reference.solve(forest, diagonal, upper, rhs)
        exact = sparse_solution(forest.layout.offsets, forest.parents, diagonal, upper, rhs)
        assert np.abs(solved.solution - exact).max() < 1e-12


def test_no_time_step_leaves_the_voltage() -> None:
    forest, area, upper, voltage = drawn()
    cable = prepare(forest, np.nan_to_num(-upper), area, area)
    diagonal, rhs = assemble(cable, area, area, voltage, 0)
    solved = reference.solve(forest, diagonal, cable.upper, rhs)
    assert np.array_equal(solved.solution, voltage)
    skipped = (solved.status & Status.SKIPPED.value) != 0
    assert skipped.tolist() == [size > 0 for size in SIZES]


@pytest.mark.parametrize("solve", [reference.solve, cpu.solve])
def test_a_bad_cell_is_reported_and_spoils_no_other(solve: Any) -> None:
    forest, diagonal, upper, rhs = drawn((4,) * 6)
    good = solve(forest, diagonal, upper, rhs).solution
    diagonal[4 + 3] = 0
    upper[8 + 2] = np.nan
    rhs[12 + 1] = np.inf
    diagonal[16 + 2] = np.abs(upper[16 + 2]) / 2
    solved = solve(forest, diagonal, upper, rhs)
    status = [Status(int(value)) for value in solved.status]
    assert Status.ZERO_DIAGONAL in status[1]
    assert Status.FAILED in status[1]
    assert Status.NOT_FINITE in status[2]
    assert Status.NOT_FINITE in status[3]
    assert status[4] == Status.NOT_DOMINANT
    assert status[0] == status[5] == Status.FINE
    assert np.array_equal(solved.solution[:4], good[:4])
    assert np.array_equal(solved.solution[20:], good[20:])


def test_sorted_cells_stay_and_others_are_numbered_depth_first() -> None:
    forest = arrange(flat([3, 5]), np.array([-1, 0, 0, 4, 0, 4, 4, -1]))
    assert forest.parents.tolist() == [0, 0, 0, 0, 0, 1, 0, 0]
    assert forest.order is not None
    assert forest.order.tolist() == [0, 1, 2, 7, 3, 4, 5, 6]
    stays = arrange(flat([3]), np.array([0, 0, 1], np.int32))
    assert stays.order is None
    values = np.arange(8)
    assert forest.restored(forest.arranged(values)).tolist() == values.tolist()


MESSAGES = {
    "cycle": (
        [3, 4], [-1, 0, 0, -1, 2, 3, 1],
        "Cell 11 has a cycle: its node 1 is not reached from the root. Follow the parents from"
        " that node.",
    ),
    "forest": (
        [4], [-1, 0, -1, 2],
        "Cell 10 has 2 roots, expected one. Make a cell of each tree: a root's parent is -1.",
    ),
    "no root": (
        [2], [1, 0],
        "Cell 10 has 0 roots, expected one. Its parents form a cycle; give the root the parent -1.",
    ),
    "outside": (
        [1, 2], [-1, -1, 2],
        "Cell 11 has 2 nodes, but the parent of its node 1 is 2. Parents count from 0 in each cell;"
        " the root's is -1.",
    ),
    "number": (
        [2], [-1],
        "Parents must be 2 whole numbers, one for each node, got an array of int64 of the shape"
        " (1,).",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MESSAGES)
def test_messages_of_trees(case: str) -> None:
    sizes, parents, message = MESSAGES[case]
    with pytest.raises(FieldError) as caught:
        arrange(flat(sizes), np.array(parents), first_cell=10)
    assert str(caught.value) == message


def test_messages_of_arrays() -> None:
    forest, diagonal, upper, rhs = drawn((2,))
    with pytest.raises(FieldError) as caught:
        reference.solve(forest, diagonal, upper[:1], rhs)
    assert str(caught.value) == (
        "Array 'upper' must have 2 values, one for each node, got the shape (1,)."
    )
    with pytest.raises(FieldError) as kind:
        cpu.solve(forest, diagonal, upper, rhs.astype("f4"))
    assert str(kind.value) == (
        "Array 'rhs' must be float32 or float64, as the others are (float64), got float32. Convert"
        " it with astype."
    )


def test_nvidias_compiler_takes_the_kernels() -> None:
    folder = Path(module.__file__).parent
    real = {"REAL": "double", "THREADS": 32}
    plan = uniform_of(one_tree(170, 0.1, 1).parents.tobytes(), 8, 227 * 1024)
    assert plan is not None
    files: dict[str, dict[str, Any]] = {
        "strided.cu": {**real, "DEPTH": 8},
        "ring.cu": {**real, "DEPTH": 8, "UP": 4, "DOWN": 6, "SLOTS": 32},
        "uniform.cu": plan.constants(32),
        "branches.cu": real,
        "convert.cu": {"WORD": "unsigned int", "WIDTH": 32, "TILE": 32, "THREADS": 128},
    }  # fmt: skip
    for file, constants in files.items():
        found = resources(device_code(source_of(folder / file, **constants), "sm_90"))
        assert all(needs.stack == 0 for needs in found.values()), file
