"""Drawn sequences of stages: the bits of the functions called one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.functions.sequence import STAGES

SMOOTH = """
def smooth(T: Field[float], new: Field[float], k: float):
    with computation(PARALLEL), interval(...):
        new = T + k * (T[1, 0, 0] - 2.0 * T + T[-1, 0, 0])
"""
GROW = """
def grow(T: Field[float], k: float):
    with computation(PARALLEL), interval(1, None):
        T = k * T
"""
HALF = """
def half(T: Field[float], part: Field[float]):
    with computation(PARALLEL), interval(0, 1):
        part = 0.5 * T
"""
AXES = {"I": "x", "J": "y", "K": "z"}
BANDS = {"lower": "a", "diagonal": "b", "upper": "a", "dim": "z"}


def stencil(program: str, **more: Any) -> dict[str, Any]:
    return {"stencil": {"program": program, "axes": AXES, **more}}


def column(expression: str, **more: Any) -> dict[str, Any]:
    return {"column": {"expression": expression, **more}}


#: Stages that read variables of the dataset, and make results of three dimensions to none.
STARTS: tuple[dict[str, Any], ...] = (
    stencil(SMOOTH, scalars={"k": 0.1}, boundary={"x": "periodic"}),
    stencil(GROW, scalars={"k": 2}),
    stencil(HALF),
    column("total = column_integral_definite(T)"),
    column("sum_of_p = column_integral_definite(P)"),
    column("2.0 * T"),
    column("_g = GradientC2F(bottom=SetValue(0.0), top=SetValue(0.0))(T)\nflux = -1.0 * _g"),
    {"tridiagonal": {**BANDS, "rhs": "T", "name": "T"}},
    {"tridiagonal": {**BANDS, "rhs": "P", "name": "P"}},
    {"tridiagonal": {**BANDS, "rhs": "T", "name": "solved", "periodic": True}},
    {"pentadiagonal": {**BANDS, "second_lower": "a", "second_upper": "a", "rhs": "P"}},
    {"gather": {"source": "T", "index": "i", "dim": "x", "name": "picked"}},
    {"gather": {"source": "P", "index": "one", "dim": "z", "name": "lowest"}},
)
#: Stages that read what another stage makes.
LATER: dict[str, dict[str, Any]] = {
    "total": column("twice = 2.0 * total + T"),
    "picked": {"scatter": {"source": "picked", "index": "i", "dim": "w", "size": 4, "name": "put"}},
    "lowest": column("above = P - lowest"),
    "sum_of_p": column("share = P / sum_of_p"),
    "new": {"tridiagonal": {**BANDS, "rhs": "new", "name": "mixed"}},
}


def data(seed: int) -> xr.Dataset:
    random = np.random.default_rng(seed)
    return xr.Dataset(
        {
            "T": (("z", "y", "x"), random.random((5, 3, 4))),
            "P": ("z", random.random(5)),
            "a": ("z", np.full(5, -0.1)),
            "b": ("z", np.full(5, 1.4)),
            "i": ("p", np.array([2, 0, 3])),
            "one": ((), 0),
        },
        coords={
            "z": ("z", np.arange(5) + 0.5, {"axis": "Z"}),
            "z_f": ("z_f", np.arange(6.0), {"axis": "Z", "c_grid_axis_shift": -0.5}),
        },
    )


def drawn(random: np.random.Generator) -> list[dict[str, Any]]:
    chosen = random.permutation(len(STARTS))[: random.integers(1, 5)]
    stages: list[dict[str, Any]] = [STARTS[at] for at in chosen]
    for name, stage in LATER.items():
        if any(name in str(one) for one in stages) and random.random() < 0.7:
            stages.append(stage)
    return stages


def one_by_one(
    stages: list[dict[str, Any]], dataset: xr.Dataset, steps: int, target: str
) -> list[xr.Dataset]:
    """Return what the functions make in each step, called one after the other."""
    made: list[xr.Dataset] = []
    for _ in range(steps):
        results: dict[str, xr.DataArray] = {}
        for stage in stages:
            ((kind, arguments),) = stage.items()
            one = STAGES[kind](dataset=dataset, target=target, **arguments)
            results |= {str(name): one[name] for name in one.data_vars}
            dataset = dataset.assign(results)
        if "new" in results:
            dataset = dataset.assign(T=results["new"])
        made.append(xr.Dataset(results))
    return made


def check(seed: int, target: str, **more: Any) -> None:
    random = np.random.default_rng(seed)
    stages, steps = drawn(random), int(random.integers(1, 6))
    every = int(random.integers(1, 4)) if random.random() < 0.6 else None
    feedback = {"new": "T"} if any("smooth" in str(one) for one in stages) else {}
    wanted = one_by_one(stages, data(seed), steps, target)
    names = sorted(map(str, wanted[0].data_vars))
    picked = names[: random.integers(1, len(names) + 1)] if random.random() < 0.4 else None
    result = he.sequence(
        stages,
        data(seed),
        steps=steps,
        snapshot_every=every,
        feedback=feedback,
        results=picked,
        target=target,
        **more,
    )
    assert sorted(map(str, result.data_vars)) == (picked or names), (stages, steps)
    done = [steps] if every is None else [*range(every, steps, every), steps]
    for name in picked or names:
        values = result[name].values if every is not None else result[name].values[np.newaxis]
        right = np.stack([wanted[at - 1][name].values for at in done])
        assert result[name].dims == ("step",) * (every is not None) + wanted[0][name].dims
        assert np.array_equal(values, right, equal_nan=values.dtype.kind == "f"), (name, stages)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("mode", ["auto", "streamed"])
def test_drawn_sequences(seed: int, mode: str, tmp_path: Path) -> None:
    more: dict[str, Any] = {"mode": mode}
    if seed % 3 == 1:
        more["output"] = tmp_path / "out.zarr"
    if seed % 3 == 2:
        more["workspace"] = tmp_path / "kept"
        more["options"] = he.Options(checkpoint_steps=1)
    check(seed, "reference", **more)


def test_workers_change_nothing(two_workers: Any, tmp_path: Path) -> None:
    for seed, mode in ((30, "auto"), (31, "auto"), (30, "streamed")):
        output = tmp_path / f"{seed}-{mode}.zarr"
        check(seed, "reference", cluster=two_workers, output=output, mode=mode)
