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

import halocline_engine as he
from halocline_engine.datasets.formats.swc import read_swc

CAPACITANCE = 0.01  # of membrane, pF/um2 (1 uF/cm2)
LEAK = 1e-3  # kS/m2 (1e-4 S/cm2): a time constant of 10 ms
REST = -65.0  # mV
CURRENT = 0.02  # nA
PULSE = (2.0, 12.0)  # ms

MEMBRANE = """
def membrane(
    v: Field[np.float64], step: Field[np.int64], area: Field[np.float64],
    inertia: Field[np.float64], injected: Field[np.float64], rhs: Field[np.float64],
    *, dt: float, leak: float, rest: float, begins: float, ends: float,
):
    with computation(PARALLEL), interval(...):
        step = step + 1
        time = dt * step
        current = injected if time > begins and time <= ends else 0.0
        rhs = inertia * v - 1e-3 * area * leak * (v - rest) + current
"""
BALANCE = """
def balance(
    v: Field[np.float64], after: Field[np.float64], step: Field[np.int64], area: Field[np.float64],
    injected: Field[np.float64], charge: Field[np.float64],
    *, dt: float, capacitance: float, leak: float, rest: float, begins: float, ends: float,
):
    with computation(PARALLEL), interval(...):
        time = dt * step
        current = injected if time > begins and time <= ends else 0.0
        taken_up = 1e-3 * area * capacitance * (after - v)
        charge = taken_up + 1e-3 * area * leak * (after - rest) * dt - current * dt
"""
ON_NODES = {"I": "node", "J": None, "K": None}

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Run:
    """Voltages in millivolts: of the roots [step, cell], and of all nodes when the pulse ends.

    `unbalanced` is the largest part of a cell's charge, in picocoulombs, that is not accounted for
    in a step.
    """

    times: Values
    roots: Values
    most: Values
    unbalanced: float


def at_rest(cells: xr.Dataset, dt: float) -> xr.Dataset:
    """Return what a step of `dt` milliseconds reads: the systems of cells at rest."""
    size = cells["row_size"].to_numpy()
    owner = np.repeat(np.arange(len(size)), size)
    root = np.cumsum(size) - size
    parent = cells["parent"].to_numpy()
    inner = np.flatnonzero(parent >= 0)
    conductance, area = cells["conductance"].to_numpy(), cells["area"].to_numpy()
    along = np.bincount(root[owner[inner]] + parent[inner], conductance[inner], len(parent))
    inertia = 1e-3 * CAPACITANCE * area / dt + 1e-3 * LEAK * area
    nodes = {
        "v": np.full(len(parent), REST),
        "step": np.zeros(len(parent), np.int64),
        "inertia": inertia,
        "diagonal": inertia + conductance + along,
        "upper": -conductance,
        "injected": np.where(parent < 0, CURRENT, 0.0),
        "owner": owner,
    }
    made = {name: ("node", values) for name, values in nodes.items()}
    return cells.assign({**made, "root": ("cell", np.flatnonzero(parent < 0))})


def stages(dt: float, cells: int) -> list[dict[str, dict[str, Any]]]:
    """Return a step: assemble and solve; the balance of each cell, and the voltage at its soma."""
    pulse = {"begins": PULSE[0], "ends": PULSE[1]}
    known = {"dt": dt, "leak": LEAK, "rest": REST, **pulse}
    solved = {"diagonal": "diagonal", "upper": "upper", "parent": "parent", "rhs": "rhs"}
    charged = known | {"capacitance": CAPACITANCE}
    summed = {"source": "charge", "index": "owner", "size": cells, "duplicates": "sum"}
    return [
        {"stencil": {"program": MEMBRANE, "axes": ON_NODES, "scalars": known}},
        {"tree": {**solved, "row_size": "row_size", "name": "after"}},
        {"stencil": {"program": BALANCE, "axes": ON_NODES, "scalars": charged}},
        {"scatter": {**summed, "dim": "cell", "name": "balance"}},
        {"gather": {"source": "after", "index": "root", "dim": "node", "name": "soma"}},
    ]


def step_all(cells: xr.Dataset, steps: int, dt: float, target: str) -> Run:
    """Step all cells `steps` times by `dt` milliseconds."""
    dataset, pulse = at_rest(cells, dt), min(steps, round(PULSE[1] / dt))
    step = stages(dt, cells.sizes["cell"])
    how: dict[str, Any] = {"feedback": {"after": "v"}, "target": target}
    most = he.sequence(step[:2], dataset, steps=pulse, results=["after"], **how)
    told = he.sequence(
        step, dataset, steps=steps, snapshot_every=1, results=["soma", "balance"], **how
    )
    roots = np.vstack([np.full(cells.sizes["cell"], REST), told["soma"]])
    unbalanced = float(abs(told["balance"]).max())
    return Run(dt * np.arange(steps + 1), roots, most["after"].to_numpy(), unbalanced)


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
    offsets = np.concatenate([[0], np.cumsum(cells["row_size"].to_numpy())])
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
