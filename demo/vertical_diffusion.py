"""Implicit vertical diffusion of potential temperature on terrain-following levels.

    python demo/vertical_diffusion.py [--hours 6] [--target auto] [--picture vertical_diffusion.png]

The data are 15 hybrid-height levels of a model of the Met Office over hills, from the package
`iris-sample-data`. Every column has its own heights, and so its own tridiagonal matrix. `factor`
eliminates it once, and `solve` makes backward Euler steps with it, without flux through the ground
and the top. The mean of each column, weighted by the depth of its levels, does not change but by
rounding; it is printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import iris_sample_data
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import halocline_engine as he

LEVEL, Y, X = "model_level_number", "grid_latitude", "grid_longitude"
STEP = 600.0  # seconds
DIFFUSIVITY = 10.0  # m2/s at the ground, less above
DEPTH = 300.0  # metres in which it falls to 1/e


def columns() -> xr.Dataset:
    """Return `theta` (level, y, x) in kelvin, `height` of its levels above the sea, and `ground`.

    The height of a level is its height over flat ground, and sigma times that of the ground.
    """
    path = next(Path(iris_sample_data.path).rglob("hybrid_height.nc"))
    with xr.open_dataset(path, decode_times=False) as opened:
        data = opened.load()
    ground = data["surface_altitude"].astype(np.float64)
    height = data["level_height"] + data["sigma"] * ground
    theta = data["air_potential_temperature"].astype(np.float64)
    dataset = xr.Dataset({"theta": theta, "height": height.transpose(LEVEL, Y, X)})
    return dataset.drop_vars("surface_altitude").assign(ground=ground.drop_vars(ground.coords))


def depths(dataset: xr.Dataset) -> xr.DataArray:
    """Return the depth of each level: half-way to its neighbours, and down to the ground."""
    height, ground = dataset["height"], dataset["ground"]
    middle = (height + height.shift({LEVEL: -1})) / 2
    top = middle.fillna(height + (height - height.shift({LEVEL: 1})) / 2)
    bottom = top.shift({LEVEL: 1})
    return top - bottom.where(bottom.notnull(), ground)


def equations(dataset: xr.Dataset) -> xr.Dataset:
    """Add the bands of a step: `below`, `here` and `above`."""
    height, depth = dataset["height"], depths(dataset)
    up = height.shift({LEVEL: -1}) - height
    middle = height + up / 2 - dataset["ground"]
    exchange = (DIFFUSIVITY * np.exp(-middle / DEPTH) / up).fillna(0)
    above = -STEP * exchange / depth
    below = -STEP * exchange.shift({LEVEL: 1}, fill_value=0) / depth
    return dataset.assign(below=below, above=above, here=1 - below - above)


def diffused(dataset: xr.Dataset, steps: int, target: str) -> xr.DataArray:
    """Return theta after some steps."""
    bands = {"lower": "below", "diagonal": "here", "upper": "above"}
    factors = he.factor(equations(dataset), **bands, dim=LEVEL, target=target)
    now = dataset[["theta"]]
    for _ in range(steps):
        result = he.solve(now, factors, rhs="theta", name="after", target=target)
        assert not result["after_status"].any()
        now = now.assign(theta=result["after"])
    return now["theta"]


def draw(dataset: xr.Dataset, after: xr.DataArray, path: Path) -> None:
    """Draw a section along the row of the highest ground, before, after and the difference."""
    row = int(dataset["ground"].max(X).argmax(Y))
    part, last = dataset.isel({Y: row}), after.isel({Y: row})
    height = part["height"].to_numpy()
    across = np.broadcast_to(np.arange(height.shape[1]), height.shape)
    values = [part["theta"].to_numpy(), last.to_numpy()]
    change = values[1] - values[0]
    most = np.abs(change).max()
    figure = Figure(figsize=(13, 4.4), layout="constrained")
    grid = figure.subplots(1, 3, sharey=True)
    heat = {"vmin": values[0].min(), "vmax": values[0].max(), "cmap": "viridis"}
    spread = {"vmin": -most, "vmax": most, "cmap": "RdBu_r"}
    panels = ((values[0], "before", heat), (values[1], "after", heat), (change, "change", spread))
    for axes, (field, name, options) in zip(grid, panels, strict=True):
        mesh = axes.pcolormesh(across, height, field, shading="gouraud", **options)
        axes.fill_between(np.arange(height.shape[1]), part["ground"].to_numpy(), color="0.6")
        axes.set(title=name, xlabel="column along the row", ylim=(0, height.max()))
        figure.colorbar(mesh, ax=axes, label="K", shrink=0.9)
    grid[0].set_ylabel("height above the sea, m")
    figure.savefig(path, dpi=100)


def main(arguments: Sequence[str] | None = None) -> float:
    """Run as the module's text says; return how far the mean of a column moved, in kelvin."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=6)
    parser.add_argument("--target", default="auto")
    parser.add_argument("--picture", type=Path, default=Path("vertical_diffusion.png"))
    options = parser.parse_args(arguments)
    dataset = columns()
    steps = round(options.hours * 3600 / STEP)
    after = diffused(dataset, steps, options.target)
    depth = depths(dataset)
    moved = float(abs(((after - dataset["theta"]) * depth).sum(LEVEL) / depth.sum(LEVEL)).max())
    draw(dataset, after, options.picture)
    print(f"{dataset['theta'].size} cells, {steps} steps of {STEP:g} s")
    print(f"the mean of a column moved by at most {moved:.1e} K")
    print(f"picture: {options.picture}")
    return moved


if __name__ == "__main__":
    main()
