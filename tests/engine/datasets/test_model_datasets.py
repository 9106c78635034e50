"""Programs on drawn datasets as models write them: right, or refused, and nothing else."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import xarray as xr
from model_datasets import PROGRAMS, Draw, draw_dataset

import halocline_engine as he

DRAWS = 160


def judge(seed: int) -> str:
    """Return 'right' or 'refused', or what was wrong."""
    random = np.random.default_rng(seed)
    draw = draw_dataset(random)
    fitting = [name for name, one in PROGRAMS.items() if {*one[0]} <= {*draw.values}]
    name = str(random.choice(fitting))
    needed, text, expected = PROGRAMS[name]
    try:
        out = he.run(text, draw.dataset, axes=draw.axes, target="reference")["out"]
    except he.RequestError as error:
        return f"refused: {type(error).__name__}"
    if name.startswith("product") and is_product(draw, needed, out):
        return "right"
    got, wanted = draw.result(out), expected(draw.values)
    if got is None or wanted is None:
        return f"{name} of {draw.words}: has the dimensions {out.sizes}"
    shape: Any = np.broadcast_shapes(wanted.shape, got.shape)
    if got.shape != shape or not np.allclose(got, np.broadcast_to(wanted, shape), equal_nan=True):
        return f"{name} of {draw.words}: wrong numbers"
    return "right"


def is_product(draw: Draw, names: tuple[str, ...], out: xr.DataArray) -> bool:
    """Whether a result is the product that xarray makes of variables, by the names of dims."""
    product = draw.dataset[names[0]] * draw.dataset[names[1]]
    same = {*product.dims} == {*out.dims}
    return same and bool(np.array_equal(product.transpose(*out.dims).values, out.values))


def test_drawn_datasets_are_right_or_refused() -> None:
    found = Counter(judge(seed) for seed in range(DRAWS))
    assert found.keys() == {"right", "refused: AxisError"}
    assert found["right"] > DRAWS // 2
