"""Fields at centres and faces have the bits of a loop over one index, which knows no blocks."""

from __future__ import annotations

from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray

import halocline_engine as he
from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.tasks.options import Options

#: Waves on a C-grid, with a field that is only read and one at corners that is only made.
TEXT = """
def waves(h: Field[float], u: Field[float], v: Field[float], w: Field[float],
          h2: Field[float], u2: Field[float], v2: Field[float], q: Field[float]):
    with computation(PARALLEL), interval(...):
        u2 = u - 0.25 * (h - h[-1, 0, 0]) + 0.0625 * (v[0, 0, 0] + v[-1, 1, 0])
        v2 = v - 0.25 * (h - h[0, -1, 0]) - 0.0625 * (u[0, 0, 0] + u[1, -1, 0])
        h2 = h - 0.125 * (u[1, 0, 0] - u + v[0, 1, 0] - v) + w
        if h > 0.5:
            h2 = h2 + 0.5 * w[0, 1, 0]
        q = v - v[-1, 0, 0] - u + u[0, -1, 0]
"""
FEEDBACK = {"h2": "h", "u2": "u", "v2": "v"}
FIRST = {"center": 0, "left": 0, "outer": 0, "right": 1, "inner": 1}
MORE = {"center": 0, "left": 0, "right": 0, "outer": 1, "inner": -1}
#: Along which axes fields lie on faces.
ON_FACES = {"h": "", "u": "x", "v": "y", "w": "", "h2": "", "u2": "x", "v2": "y", "q": "xy"}
KINDS = ("edge", "symmetric", "extrapolate", "none", {"constant": 0.75}, {"constant": -2.0})
DEEP = 4


def beyond(line: NDArray[Any], rule: Any, count: int) -> list[NDArray[Any]]:
    """Return so many values beyond the high end of the first axis."""
    if rule == "edge":
        return [line[-1]] * count
    if rule == "symmetric":
        return [line[-1 - at] for at in range(count)]
    if rule == "extrapolate":
        return [line[-1] + (1 + at) * (line[-1] - line[-2]) for at in range(count)]
    if rule == "periodic":
        return [line[at % len(line)] for at in range(count)]
    return [np.full_like(line[-1], np.nan if rule == "none" else rule["constant"])] * count


class Case:
    """A dataset, positions and boundaries, drawn."""

    def __init__(self, seed: int) -> None:
        random, rng = Random(seed), np.random.default_rng(seed)
        self.cells = (random.randint(6, 11), random.randint(6, 11))
        self.around = [random.random() < 0.2 for _ in "xy"]
        faces = [
            random.choice(("left", "right") if around else tuple(MORE)[1:])
            for around in self.around
        ]
        self.at = {
            name: tuple(
                face if dim in along else "center" for dim, face in zip("xy", faces, strict=True)
            )
            for name, along in ON_FACES.items()
        }
        self.grid = {
            dim.upper(): {"center": f"{dim}c", face: f"{dim}f"}
            for dim, face in zip("xy", faces, strict=True)
        }
        self.dims = {
            name: tuple(f"{d}{'f' if d in along else 'c'}" for d in "yx")
            for name, along in ON_FACES.items()
        }
        self.data = {name: rng.random(self.shape(name)).round(3) for name in "huvw"}
        self.rules: dict[str, Any] = {name: [None, None] for name in "huvw"}
        self.boundary: dict[str, Any] = {}
        for axis, (dim, around) in enumerate(zip("xy", self.around, strict=True)):
            for point in "cf":
                rule = {end: random.choice(KINDS) for end in ("low", "high")}
                there = [name for name in "huvw" if (dim in ON_FACES[name]) == (point == "f")]
                own = {name: random.choice(KINDS) for name in there if random.random() < 0.4}
                self.boundary[dim + point] = "periodic" if around else {**rule, "fields": own}
                for name in there:
                    both = own.get(name)
                    ends = (both, both) if both else (rule["low"], rule["high"])
                    self.rules[name][axis] = ("periodic",) * 2 if around else ends
        self.steps = random.randint(1, 4)
        self.random = random

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(n + MORE[at] for n, at in zip(self.cells, self.at[name], strict=True))

    def first(self, name: str) -> tuple[int, ...]:
        return tuple(FIRST[at] for at in self.at[name])

    def dataset(self) -> xr.Dataset:
        return xr.Dataset({name: (self.dims[name], self.data[name].T) for name in "huvw"})

    def indexed(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        """Return values by index from -DEEP to the cells and DEEP more, ghosts along x first."""
        for axis, (low, high) in enumerate(self.rules[name]):
            line = np.moveaxis(values, axis, 0)
            start, count = self.first(name)[axis], values.shape[axis]
            before = beyond(line[::-1], low, start + DEEP)[::-1]
            after = beyond(line, high, self.cells[axis] + DEEP - start - count)
            values = np.moveaxis(np.stack([*before, *line, *after]), 0, axis)
        return values

    def step(self, p: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return outputs by index, wherever they can be computed."""

        def at(name: str, i: int, j: int) -> NDArray[Any]:
            return np.roll(p[name], (-i, -j), (0, 1))

        h, u, v, w = (p[name] for name in "huvw")
        h2 = h - 0.125 * (at("u", 1, 0) - u + at("v", 0, 1) - v) + w
        more = h2 + 0.5 * at("w", 0, 1)
        return {
            "u2": u - 0.25 * (h - at("h", -1, 0)) + 0.0625 * (v + at("v", -1, 1)),
            "v2": v - 0.25 * (h - at("h", 0, -1)) - 0.0625 * (u + at("u", 1, -1)),
            "h2": np.where(h > 0.5, more, h2),
            "q": v - at("v", -1, 0) - u + at("u", 0, -1),
            "reads": more,
        }

    def looped(self) -> dict[str, NDArray[Any]]:
        """Return all outputs after the steps."""
        known = dict(self.data)
        most = tuple(max(self.shape(name)[axis] for name in ON_FACES) for axis in (0, 1))
        fine = np.ones(most, bool)
        ones = {name: self.indexed(name, np.ones(self.shape(name))) for name in "huvw"}
        for name, values in self.step(ones).items():
            i, j = self.first("h2" if name == "reads" else name)
            here = values[DEEP + i :, DEEP + j :]
            fine &= np.isfinite(here[: most[0], : most[1]])
        made: dict[str, NDArray[Any]] = {}
        for _ in range(self.steps):
            new = self.step({name: self.indexed(name, known[name]) for name in "huvw"})
            for name in ("h2", "u2", "v2", "q"):
                (i, j), (ni, nj) = self.first(name), self.shape(name)
                own = new[name][DEEP + i : DEEP + i + ni, DEEP + j : DEEP + j + nj]
                old = known[FEEDBACK[name]] if name in FEEDBACK else np.full((ni, nj), np.nan)
                made[name] = np.where(fine[:ni, :nj], own, old)
            known |= {to: made[name] for name, to in FEEDBACK.items()}
        return made

    def run(self, mode: str, workers: int, target: str, **more: Any) -> xr.Dataset:
        pool = LocalPool(workers=workers)
        with patch("halocline_engine.distribute.executors.select.local_pool", return_value=pool):
            return he.run(
                TEXT,
                self.dataset(),
                axes={"I": "xc", "J": "yc"},
                grid=self.grid,
                positions={"q": ["yf", "xf"]},
                boundary=self.boundary,
                steps=self.steps,
                feedback=FEEDBACK,
                mode=mode,
                target=target,
                **more,
            )


@pytest.mark.parametrize("target", ["reference", "cpu"])
@pytest.mark.parametrize("seed", range(14))
def test_drawn_positions(seed: int, target: str) -> None:
    case = Case(seed)
    expected = case.looped()
    for mode, workers in (("streamed", 1), ("streamed", 2), ("resident", 1), ("resident", 3)):
        chunks = {f"{dim}c": case.random.randint(2, 12) for dim in "xy"}
        found = case.run(
            mode,
            workers,
            target,
            chunks=chunks,
            options=Options(
                steps_per_pass=case.random.randint(1, 3),
                pipeline_depth=case.random.randint(0, 3) if mode == "streamed" else None,
            ),
        )
        for name, values in expected.items():
            assert found[name].dims == case.dims[name]
            np.testing.assert_array_equal(found[name].values.T, values, err_msg=f"{mode} {name}")
