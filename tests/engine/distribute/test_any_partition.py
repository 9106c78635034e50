"""Any blocks and any number of fused steps give the bits of a plain NumPy loop over the whole grid.

The oracle knows nothing of blocks: it pads the whole array before each step, computes the whole
grid, and puts back the old values where a stencil left the data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.tasks.options import ORDERS, Options
from halocline_engine.functions.run import run

Offset = tuple[int, int, int]
Sides = tuple[Any, Any]

DIMS = ("x", "y", "z")


@dataclass(frozen=True)
class Case:
    terms: tuple[tuple[float, Offset], ...]
    limits: tuple[Offset, Offset]
    shape: tuple[int, int, int]
    members: int
    sides: tuple[Sides, Sides, Sides]
    steps: int
    fed: bool
    chunks: dict[str, int]
    per_pass: int
    order: str
    slots: int
    seed: int

    @property
    def text(self) -> str:
        sums = " + ".join(f"({c!r}) * inp[{i}, {j}, {k}]" for c, (i, j, k) in self.terms)
        (a, b, c), (d, e, f) = self.limits
        return (
            "def random(inp: Field[float], w: Field[IJ, float], out: Field[float]):\n"
            "    with computation(PARALLEL), interval(...):\n"
            f"        out = w * max({sums}, min(inp[{a}, {b}, {c}], inp[{d}, {e}, {f}]))\n"
        )

    @property
    def reach(self) -> list[tuple[int, int]]:
        offsets = [offset for _, offset in self.terms] + list(self.limits)
        return [
            (min(0, *(o[axis] for o in offsets)), max(0, *(o[axis] for o in offsets)))
            for axis in range(3)
        ]


def depth_fits(side: Any, size: int, depth: int) -> bool:
    least = {"reflect": depth + 1, "extrapolate": 2, "edge": 1}
    least |= {"periodic": depth, "symmetric": depth}
    return depth == 0 or size >= (least.get(side, 0) if isinstance(side, str) else 0)


SIDE = st.sampled_from(["edge", "reflect", "symmetric", "extrapolate", "none", {"constant": 0.75}])
OFFSET = st.tuples(st.integers(-2, 3), st.integers(-3, 1), st.integers(-1, 1))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    weights = st.sampled_from([0.5, -0.25, 1.5, -0.125, 0.3])
    terms = draw(st.lists(st.tuples(weights, OFFSET), min_size=1, max_size=4))
    limits = draw(st.tuples(OFFSET, OFFSET))
    shape = draw(st.tuples(st.integers(1, 12), st.integers(1, 11), st.integers(1, 3)))
    sides = [
        draw(st.one_of(st.just(("periodic", "periodic")), st.tuples(SIDE, SIDE))) for _ in DIMS
    ]
    case = Case(
        terms=tuple(terms),
        limits=limits,
        shape=shape,
        members=draw(st.integers(1, 3)),
        sides=(sides[0], sides[1], sides[2]),
        steps=(steps := draw(st.integers(1, 4))),
        fed=steps > 1 or draw(st.booleans()),
        chunks={
            "x": draw(st.integers(1, 12)),
            "y": draw(st.integers(1, 11)),
            "member": draw(st.integers(1, 3)),
        },
        per_pass=draw(st.integers(1, 4)),
        order=draw(st.sampled_from(ORDERS)),
        slots=draw(st.integers(0, 3)),
        seed=draw(st.integers(0, 2**31)),
    )
    # Where a boundary cannot be made, the nearest one that can takes its place.
    mended: list[Sides] = []
    for (low, high), size, (below, above) in zip(case.sides, shape, case.reach, strict=True):
        fits = depth_fits(low, size, -below) and depth_fits(high, size, above)
        inside = size + (below if low == "none" else 0) - (above if high == "none" else 0)
        mended.append((low, high) if fits and inside > 0 else ("edge", "edge"))
    return replace(case, sides=(mended[0], mended[1], mended[2]))


def padded(values: NDArray[Any], case: Case) -> NDArray[Any]:
    """Return a grid with its ghosts, made with `np.pad` along one axis after the other."""
    for axis, ((low, high), (below, above)) in enumerate(zip(case.sides, case.reach, strict=True)):
        values = pad_side(values, axis, high, (0, above))
        before = pad_side(values.take(range(case.shape[axis]), axis), axis, low, (-below, 0))
        ghosts = before.take(range(-below), axis)
        values = np.concatenate([ghosts, values], axis)
    return values


def pad_side(values: NDArray[Any], axis: int, side: Any, width: tuple[int, int]) -> NDArray[Any]:
    widths = [(0, 0)] * values.ndim
    widths[axis] = width
    if isinstance(side, dict):
        constant: Any = cast("dict[str, float]", side)["constant"]
        return np.pad(values, widths, constant_values=constant)
    if side == "none":
        return np.pad(values, widths, constant_values=np.nan)
    if side == "extrapolate":
        return extrapolated(values, axis, width)
    modes: dict[str, Any] = {"periodic": "wrap", "edge": "edge", "reflect": "reflect"}
    modes["symmetric"] = "symmetric"
    return np.pad(values, widths, mode=modes[side])


def extrapolated(values: NDArray[Any], axis: int, width: tuple[int, int]) -> NDArray[Any]:
    line = np.moveaxis(values, axis, 0)
    low = [line[0] + d * (line[0] - line[1]) for d in range(width[0], 0, -1)]
    high = [line[-1] + d * (line[-1] - line[-2]) for d in range(1, width[1] + 1)]
    return np.moveaxis(np.stack([*low, *line, *high]), 0, axis)


def step(inp: NDArray[Any], w: NDArray[Any], case: Case) -> NDArray[Any]:
    grid = padded(inp, case)
    first = [-below for below, _ in case.reach]

    def at(offset: Offset) -> NDArray[Any]:
        return grid[
            tuple(
                slice(start + move, start + move + size)
                for start, move, size in zip(first, offset, case.shape, strict=True)
            )
        ]

    total = case.terms[0][0] * at(case.terms[0][1])
    for weight, offset in case.terms[1:]:
        total = total + weight * at(offset)
    smaller = np.minimum(at(case.limits[0]), at(case.limits[1]))
    new = w[:, :, None] * np.maximum(total, smaller)
    old = inp if case.fed else np.full_like(inp, np.nan)
    inside = np.ones(case.shape, bool)
    for axis, ((low, high), (below, above)) in enumerate(zip(case.sides, case.reach, strict=True)):
        line = np.moveaxis(inside, axis, 0)
        if low == "none":
            line[:-below] = False
        if high == "none" and above:
            line[-above:] = False
    return np.where(inside, new, old)


def expected(ds: xr.Dataset, case: Case) -> NDArray[Any]:
    results: list[NDArray[Any]] = []
    for member in range(case.members):
        grid = ds.inp.transpose("member", "x", "y", "z").values[member]
        for _ in range(case.steps):
            grid = step(grid, ds.w.transpose("x", "y").values, case)
        results.append(grid)
    return np.stack(results)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(cases())
def test_blocks_and_steps_do_not_change_a_bit(case: Case) -> None:
    options = Options(steps_per_pass=case.per_pass, pipeline_depth=case.slots, order=case.order)
    check(case, mode="streamed", options=options)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(cases(), st.integers(1, 5))
def test_blocks_that_stay_in_memory_do_not_change_a_bit(case: Case, ranks: int) -> None:
    """Several ranks, each with any number of blocks, exchange their halos."""
    pool = LocalPool(workers=ranks)
    with patch("halocline_engine.distribute.executors.select.local_pool", return_value=pool):
        check(case, mode="resident", options=Options(steps_per_pass=case.per_pass))


def check(case: Case, **how: Any) -> None:
    rng = np.random.default_rng(case.seed)
    nx, ny, nz = case.shape
    inp = rng.normal(size=(case.members, nz, ny, nx)).round(3)
    inp[rng.random(inp.shape) < 0.1] = np.nan
    ds = xr.Dataset(
        {"inp": (("member", "z", "y", "x"), inp), "w": (("y", "x"), rng.normal(size=(ny, nx)))}
    )
    boundary = {
        dim: {"low": low, "high": high} for dim, (low, high) in zip(DIMS, case.sides, strict=True)
    }
    result = run(
        case.text,
        ds,
        boundary=boundary,
        steps=case.steps,
        feedback={"out": "inp"} if case.fed else None,
        target="reference",
        chunks=case.chunks,
        **how,
    )
    got = result["out"].transpose("member", "x", "y", "z").values
    np.testing.assert_array_equal(got, expected(ds, case))
