"""The demo's picture: before, after and difference for each month."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import xarray as xr
from matplotlib import colormaps
from matplotlib.figure import Figure
from numpy.typing import NDArray

__all__ = ["draw"]

_LAND = "0.75"


def draw(before: xr.DataArray, after: xr.DataArray, path: Path, *, title: str) -> None:
    """Draw two fields (time, y, x) and their difference, a row for each time, into a PNG file.

    Columns are turned by half the grid, so that the place where x wraps is in the middle, where a
    seam would be seen; a tick marks it.
    """
    first, last = _turned(before), _turned(after)
    change = last - first
    months, _, width = first.shape
    figure = Figure(figsize=(13.5, 3.6 * months + 1.6), layout="constrained")
    grid = cast("Any", figure.subplots(months, 3, sharex=True, sharey=True, squeeze=False))
    limits = {"vmin": -2.0, "vmax": 32.0, "cmap": _with_land("RdYlBu_r")}
    most = float(np.nanpercentile(np.abs(change), 99))
    spread = {"vmin": -most, "vmax": most, "cmap": _with_land("RdBu_r")}
    columns = ((first, "before", limits), (last, "after", limits), (change, "difference", spread))
    images: list[Any] = []
    for row, time in enumerate(before["time"].to_numpy()):
        for axes, (values, name, options) in zip(grid[row], columns, strict=True):
            image = axes.imshow(values[row], origin="lower", interpolation="nearest", **options)
            axes.set_title(f"{time:%B %Y}, {name}", fontsize=11)
            images.append(image)
        grid[row, 0].set_ylabel("y, row")
    for axes in grid[-1]:
        half = width // 2
        axes.set_xticks([0, half, width - 1], [f"{half}", f"{width - 1} | 0", f"{half - 1}"])
        axes.set_xlabel("x, column (it wraps in the middle)")
    below: dict[str, Any] = {"location": "bottom", "shrink": 0.6, "aspect": 40, "pad": 0.01}
    bar = figure.colorbar(images[0], ax=grid[:, :2], extend="max", **below)
    bar.set_label("sea-surface temperature, °C")
    bar = figure.colorbar(images[2], ax=grid[:, 2], extend="both", **{**below, "shrink": 0.9})
    bar.set_label("after minus before, °C")
    figure.suptitle(title, fontsize=13)
    figure.savefig(path, dpi=100)


def _turned(field: xr.DataArray) -> NDArray[np.float64]:
    values = field.transpose("time", "y", "x").to_numpy()
    return np.roll(values, values.shape[-1] // 2, axis=-1)


def _with_land(name: str) -> Any:
    return cast("Any", colormaps)[name].with_extremes(bad=_LAND)
