"""The passive cable equation on neurons of SWC files, stepped implicitly: a current into each soma.

    python demo/cable.py MORPHOLOGY.swc ... [--steps 1000] [--dt 0.025] [--target cpu]
        [--nanometres NAME ...] [--picture cable.png]

All neurons are one ragged batch. Each step assembles a system for every neuron and solves it
(backward Euler). What is left over of each neuron's charge balance is printed: the charge that its
membrane takes up is what the current brings less what leaks out, so that it is rounding only.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from halocline_engine.datasets.formats.swc import read_swc
from halocline_engine.distribute.solves.select import tree_solver
from halocline_engine.kernels.tree.reference import assemble, prepare
from halocline_engine.kernels.tree.storage import flat
from halocline_engine.kernels.tree.topology import arrange

CAPACITANCE = 0.01  # of membrane, pF/um2 (1 uF/cm2)
LEAK = 1e-3  # kS/m2 (1e-4 S/cm2): a time constant of 10 ms
REST = -65.0  # mV
CURRENT = 0.02  # nA
PULSE = (2.0, 12.0)  # ms

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Run:
    """Voltages in millivolts: of the roots [step, cell], and of all nodes when the pulse ends.

    `unbalanced` is the largest part of a cell's charge, in picocoulombs, that is not accounted for.
    """

    times: Values
    roots: Values
    most: Values
    unbalanced: float


def step_all(cells: xr.Dataset, steps: int, dt: float, target: str) -> Run:
    """Step all cells `steps` times by `dt` milliseconds."""
    forest = arrange(flat(cells["row_size"].to_numpy()), cells["parent"].to_numpy())
    solver = tree_solver(target)
    area = forest.arranged(cells["area"].to_numpy())
    conductance = forest.arranged(cells["conductance"].to_numpy())
    cable = prepare(forest, conductance, CAPACITANCE * area, area)
    owner, root = forest.layout.owners(), forest.layout.offsets[:-1]
    leak = np.full(area.shape, LEAK)
    voltage = most = np.full(area.shape, REST)
    roots, unbalanced = [voltage[root]], 0.0
    times = dt * np.arange(steps + 1)
    for time in times[1:]:
        injected = CURRENT if PULSE[0] < time <= PULSE[1] else 0.0
        current = LEAK * (voltage - REST)
        current[root] -= injected / (1e-3 * area[root])
        diagonal, rhs = assemble(cable, leak, current, voltage, dt)
        after = solver.solve(forest, diagonal, cable.upper, rhs).solution
        taken_up = np.bincount(owner, CAPACITANCE * area * (after - voltage)) * 1e-3
        leaked = np.bincount(owner, 1e-3 * area * LEAK * (after - REST)) * dt
        unbalanced = max(unbalanced, np.abs(taken_up + leaked - injected * dt).max())
        voltage = after
        most = voltage if time <= PULSE[1] else most
        roots.append(voltage[root])
    return Run(times, np.array(roots), forest.restored(most), float(unbalanced))


def draw(cells: xr.Dataset, run: Run, path: Path) -> None:
    """Draw the voltage at each soma over time, and how far it spreads until the pulse ends."""
    names = [str(name) for name in cells["cell"].to_numpy()]
    columns = 3
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(12, 3.2 + 3.6 * rows), layout="constrained")
    top, below = figure.subfigures(2, 1, height_ratios=(3.2, 3.6 * rows))
    axes = top.subplots()
    for at, name in enumerate(names):
        axes.plot(run.times, run.roots[:, at], label=name)
    axes.axvspan(*PULSE, color="0.92", zorder=0)
    axes.set(xlabel="time, ms", ylabel="voltage at the soma, mV")
    axes.legend(fontsize=8)
    grid = below.subplots(rows, columns, squeeze=False).ravel()
    offsets = flat(cells["row_size"].to_numpy()).offsets
    drawn = None
    for at, axes in enumerate(grid):
        axes.set_axis_off()
        if at < len(names):
            part = slice(int(offsets[at]), int(offsets[at + 1]))
            drawn = _cell(axes, cells.isel(node=part), run.most[part] - REST)
            axes.set_title(names[at], fontsize=9)
    below.colorbar(
        drawn, ax=list(grid), label=f"share of the largest change at {PULSE[1]:g} ms", shrink=0.7
    )
    figure.savefig(path, dpi=100)


def _cell(axes: Any, cell: xr.Dataset, change: Values) -> LineCollection:
    """Draw a cell along the two axes in which it is widest."""
    place = np.stack([cell[axis].to_numpy() for axis in "xyz"], axis=1)
    place = place[:, np.sort(np.argsort(-np.ptp(place, axis=0), kind="stable")[:2])]
    parent = cell["parent"].to_numpy()
    child = np.flatnonzero(parent >= 0)
    lines = LineCollection(
        np.stack([place[child], place[parent[child]]], axis=1),
        array=change[child] / change.max(),
        cmap="inferno",
        clim=(0, 1),
        linewidths=1.2,
    )
    axes.add_collection(lines)
    axes.autoscale_view()
    axes.set_aspect("equal", adjustable="datalim")
    return lines


def main(arguments: Sequence[str] | None = None) -> Run:
    """Run as the module's text says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("morphologies", nargs="+", type=Path)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--dt", type=float, default=0.025, help="milliseconds")
    parser.add_argument("--target", default="cpu", choices=("cpu", "cuda", "reference"))
    parser.add_argument("--nanometres", nargs="*", default=(), help="names of files in this unit")
    parser.add_argument("--picture", type=Path, default=Path("cable.png"))
    options = parser.parse_args(arguments)
    cells = read_swc(options.morphologies, micrometres=dict.fromkeys(options.nanometres, 1e-3))
    run = step_all(cells, options.steps, options.dt, options.target)
    draw(cells, run, options.picture)
    count, nodes = cells.sizes["cell"], cells.sizes["node"]
    print(f"{count} cells of {nodes} nodes, {options.steps} steps of {options.dt} ms")
    print(f"charge not accounted for in a step: at most {run.unbalanced:.1e} pC")
    print(f"picture: {options.picture}")
    return run


if __name__ == "__main__":
    main()
