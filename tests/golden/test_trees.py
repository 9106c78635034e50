"""Arbor's acceptance cases and real morphologies, on each target and in each layout."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cables import assemble, prepare
from forests import sparse_solution

from halocline_engine.datasets.formats.swc import read_swc
from halocline_engine.kernels.tree import cpu, reference
from halocline_engine.kernels.tree.storage import flat, interleaved
from halocline_engine.kernels.tree.topology import Forest, arrange

MORPHOLOGIES = Path(__file__).parents[3] / "shared/data/morphologies"

#: Nodes, whether parents come first, leaves, sum of x, x at the root.
TABLE: dict[str, tuple[int, bool, int, float, float]] = {
    "720575940661139073": (8798, False, 523, 35189, 3.93484834483186),
    "720575940661205633": (2777, False, 118, 11103, 4.10830972826941),
    "720575940661214849": (2559, False, 155, 10230, 3.23497401620056),
    "720575940661234561": (2582, False, 144, 10325, 3.57497284909468),
    "single_cell_allen": (4852, True, 56, 19405, 1.69084513072497),
    "ball_and_stick": (3, True, 1, 6, 1.03676978526281),
}

Solve = Callable[[Forest, Any, Any, Any], Any]


def flat_reference(forest: Forest, *system: Any) -> Any:
    return reference.solve(forest, *system).solution


def flat_cpu(forest: Forest, *system: Any) -> Any:
    return cpu.solve(forest, *system).solution


def interleaved_cpu(forest: Forest, *system: Any) -> Any:
    target = interleaved(forest.layout.sizes, 4)
    arrays = (target.pack(forest.layout, array, np.nan) for array in system)
    return target.unpack(forest.layout, cpu.solve_interleaved(forest, target, *arrays))


LAYOUTS = pytest.mark.parametrize("solve", [flat_reference, flat_cpu, interleaved_cpu])


@LAYOUTS
def test_three_small_cells(solve: Solve) -> None:
    """`solve_multi` of Arbor's test_matrix.cpp."""
    forest = arrange(flat([3, 2, 2]), np.array([0, 0, 1, 0, 0, 0, 0]))
    g = np.array([0.0, 1, 1, 0, 1, 0, 2])
    capacitance = np.array([1.0, 1, 1, 1, 1, 2, 3])
    ones = np.ones(7)
    cable = prepare(forest, g, capacitance, ones)
    conductivity = 1000.0 * np.arange(1, 8)
    current = -1e3 * np.array([7, 15, 25, 34, 49, 70, 102])
    diagonal, rhs = assemble(cable, conductivity, current, np.zeros(7), 1e-3)
    assert np.allclose(diagonal, [3, 5, 5, 6, 7, 10, 12], rtol=1e-15)
    assert np.allclose(rhs, [7, 15, 25, 34, 49, 70, 102], rtol=1e-15)
    x = solve(forest, diagonal, cable.upper, rhs)
    assert np.abs(x - [4, 5, 6, 7, 8, 9, 10]).max() < 1e-12


@LAYOUTS
def test_one_node(solve: Solve) -> None:
    forest = arrange(flat([1]), np.array([-1]))
    assert solve(forest, np.array([2.0]), np.zeros(1), np.ones(1)).tolist() == [0.5]


@LAYOUTS
def test_chains(solve: Solve) -> None:
    """The residual of chains of 2 to 1000 nodes with d = 2 and u = -1."""
    for nodes in (2, 3, 10, 77, 1000):
        forest = arrange(flat([nodes]), np.arange(-1, nodes - 1))
        system = (np.full(nodes, 2.0), np.full(nodes, -1.0), np.ones(nodes))
        x = solve(forest, *system)
        around = np.concatenate([[0.0], x, [0.0]])
        assert np.abs(2 * x - around[:-2] - around[2:] - 1).max() < 1e-8


def test_two_trees_two_hundred_times() -> None:
    """Historic test_matrix.cu: flat, interleaved and by branches, bit for bit."""
    shapes = ([0, 0, 1, 2, 2, 4], [0, 0, 1, 2, 3, 3, 2, 6])
    forest = arrange(flat([6, 8] * 100), np.concatenate(shapes * 100))
    rng = np.random.default_rng(7)
    upper = -rng.uniform(0.1, 1, forest.layout.total)
    diagonal = rng.uniform(6, 8, forest.layout.total)
    rhs = rng.normal(size=forest.layout.total)
    found = [
        solve(forest, diagonal, upper, rhs) for solve in (flat_reference, flat_cpu, interleaved_cpu)
    ]
    assert all(np.array_equal(found[0], other) for other in found[1:])


def morphology(names: list[str]) -> tuple[Forest, Any, Any, Any, Any]:
    """Return cells and the table's systems, in the order of the nodes, and the files' parents."""
    if not MORPHOLOGIES.is_dir():
        pytest.skip("the data folder with neuron morphologies is not here")
    cells = read_swc([MORPHOLOGIES / f"{name}.swc" for name in names])
    layout = flat(cells["row_size"].values)
    parents = cells["parent"].values
    forest = arrange(layout, parents)
    x = cells["x"].values
    place = np.stack([cells[axis].values for axis in "xyz"])
    absolute = layout.offsets[layout.owners()] + np.maximum(parents, 0)
    child = parents >= 0
    assert len(x) == layout.total
    distance = np.linalg.norm(place - place[:, absolute], axis=0)
    g = np.where(child, cells["radius"].values ** 2 / np.maximum(distance, 1e-3), 0)
    diagonal = 1 + g
    np.add.at(diagonal, absolute[child], g[child])
    rhs = 1.0 + layout.local() % 7
    return forest, diagonal, -g, rhs, parents


@LAYOUTS
def test_real_morphologies_as_one_batch(solve: Solve) -> None:
    forest, *system, parents = morphology(list(TABLE))
    x = forest.restored(solve(forest, *(forest.arranged(array) for array in system)))
    offsets = forest.layout.offsets
    exact = sparse_solution(offsets, parents, *system)
    assert np.abs(x - exact).max() < 1e-12
    for (start, stop), row in zip(pairwise(offsets), TABLE.values(), strict=True):
        nodes, _, _, total, root = row
        assert stop - start == nodes
        assert x[start:stop].sum() == pytest.approx(total, abs=1e-8)
        assert x[start:stop][parents[start:stop] == -1] == pytest.approx([root], rel=1e-12)


@pytest.mark.parametrize("name", TABLE)
def test_facts_of_real_morphologies(name: str) -> None:
    forest, _, _, _, parents = morphology([name])
    nodes, in_order, leaves, _, _ = TABLE[name]
    assert (forest.order is None) == in_order
    assert nodes - len(np.unique(parents[parents >= 0])) == leaves
