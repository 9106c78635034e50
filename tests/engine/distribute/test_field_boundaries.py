"""Fields with boundaries of their own have the bits of a loop that knows no blocks."""

from __future__ import annotations

import itertools
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

#: Two fields that go from step to step, one that is only read, and one that has no second axis.
TEXT = """
def waves(h: Field[float], v: Field[float], w: Field[float], f: Field[I, float],
          h2: Field[float], v2: Field[float]):
    with computation(PARALLEL), interval(...):
        h2 = h + 0.25 * (h[-1, 0, 0] - v[1, 0, 0]) * w[0, 1, 0] + f[-1] * v[0, -2, 0]
        v2 = v - 0.125 * (h[0, 1, 0] - h[0, -1, 0]) + w[-1, 0, 0]
"""
KINDS = (
    *("edge", "reflect", "symmetric", "antisymmetric", "extrapolate", "none"),
    *({"constant": 0.75}, {"constant": -2.0}),
)
FIELDS = ("h", "v", "w", "f")


def ghosts(values: NDArray[Any], axis: int, rule: Any, count: int) -> NDArray[Any]:
    """Return so many cells beyond the high end of an axis."""
    line = np.moveaxis(values, axis, -1)
    if rule == "edge":
        made = [line[..., -1]] * count
    elif rule == "reflect":
        made = [line[..., -2 - at] for at in range(count)]
    elif rule in ("symmetric", "antisymmetric"):
        sign = 1.0 if rule == "symmetric" else -1.0
        made = [sign * line[..., -1 - at] for at in range(count)]
    elif rule == "extrapolate":
        made = [line[..., -1] + (1 + at) * (line[..., -1] - line[..., -2]) for at in range(count)]
    elif rule == "none":
        made = [np.full_like(line[..., -1], np.nan)] * count
    else:
        made = [np.full_like(line[..., -1], rule["constant"])] * count
    return np.moveaxis(np.stack(made, -1), -1, axis)


def padded(values: NDArray[Any], rules: dict[str, tuple[Any, Any]]) -> NDArray[Any]:
    """Return values with two cells around them, along x and then along y."""
    for axis, dim in enumerate(("x", "y")[: values.ndim]):
        low, high = rules[dim]
        before = np.flip(ghosts(np.flip(values, axis), axis, low, 2), axis)
        after = ghosts(values, axis, high, 2)
        values = np.concatenate([before, values, after], axis)
    return values


def at(values: NDArray[Any], *offset: int) -> NDArray[Any]:
    sides = zip(values.shape, offset, strict=True)
    return values[tuple(slice(2 + move, size - 2 + move) for size, move in sides)]


def looped(data: dict[str, NDArray[Any]], rules: Any, steps: int) -> tuple[Any, Any]:
    """Return both fields after steps on the whole grid; what reads NaN keeps its value."""
    h, v = data["h"], data["v"]
    for _ in range(steps):
        p = {name: padded(data[name], rules[name]) for name in ("w", "f")}
        p |= {"h": padded(h, rules["h"]), "v": padded(v, rules["v"])}
        ones = {name: padded(np.ones_like(data[name]), rules[name]) for name in FIELDS}
        new = step(p)
        # Where a read leaves the data, even a grid of ones has no value.
        known = np.isfinite(sum(step(ones)))
        h, v = np.where(known, new[0], h), np.where(known, new[1], v)
    return h, v


def step(p: dict[str, NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
    h, v, w, f = (p[name] for name in FIELDS)
    h2 = at(h, 0, 0) + 0.25 * (at(h, -1, 0) - at(v, 1, 0)) * at(w, 0, 1)
    h2 = h2 + at(f, -1)[:, None] * at(v, 0, -2)
    v2 = at(v, 0, 0) - 0.125 * (at(h, 0, 1) - at(h, 0, -1)) + at(w, -1, 0)
    return h2, v2


def drawn(seed: int) -> tuple[xr.Dataset, dict[str, Any], dict[str, Any], int]:
    """Return a dataset, a boundary as it is given, the rules of each field, and steps."""
    random, rng = Random(seed), np.random.default_rng(seed)
    nx, ny = random.randint(5, 12), random.randint(5, 12)
    data = xr.Dataset(
        {name: (("y", "x"), rng.random((ny, nx)).round(3)) for name in ("h", "v", "w")}
    )
    data["f"] = ("x", rng.random(nx).round(3))
    boundary: dict[str, Any] = {}
    rules: dict[str, Any] = {name: {} for name in FIELDS}
    for dim in ("x", "y"):
        low, high = random.choice(KINDS), random.choice(KINDS)
        boundary[dim] = {"low": low, "high": high, "fields": {}}
        for name in FIELDS:
            rules[name][dim] = (low, high)
            if random.random() < 0.6:
                rule = random.choice(KINDS)
                sided = {"low": random.choice(KINDS), "high": rule}
                both = random.random() < 0.5
                boundary[dim]["fields"][name] = rule if both else sided
                rules[name][dim] = (rule if both else sided["low"], rule)
    return data, boundary, rules, random.randint(1, 5)


@pytest.mark.parametrize("target", ["reference", "cpu"])
@pytest.mark.parametrize("seed", range(12))
def test_drawn_boundaries_of_fields(seed: int, target: str) -> None:
    data, boundary, rules, steps = drawn(seed)
    arrays = {name: data[name].values.T for name in FIELDS}
    h, v = looped(arrays, rules, steps)
    random = Random(seed)
    for mode, workers in itertools.product(("streamed", "resident"), (1, 3)):
        pool = LocalPool(workers=workers)
        chunks = {"x": random.randint(2, 12), "y": random.randint(2, 12)}
        with patch("halocline_engine.distribute.executors.select.local_pool", return_value=pool):
            found = he.run(
                TEXT,
                data,
                axes={"I": "x", "J": "y"},
                boundary=boundary,
                steps=steps,
                feedback={"h2": "h", "v2": "v"},
                chunks=chunks if mode == "streamed" else None,
                mode=mode,
                target=target,
                options=Options(steps_per_pass=random.randint(1, 3)),
            )
        np.testing.assert_array_equal(found["h2"].values.T, h)
        np.testing.assert_array_equal(found["v2"].values.T, v)


def run(boundary: Any, text: str = TEXT, **more: Any) -> xr.Dataset:
    data = drawn(1)[0]
    return he.run(text, data, axes={"I": "x", "J": "y"}, boundary=boundary, **more)


REFUSED: dict[str, tuple[Any, str]] = {
    "unknown": (
        {"x": {"fields": {"hh": "edge"}}},
        "The boundary of 'x' has a rule for 'hh', which is not a field of the program."
        " Did you mean 'h'?",
    ),
    "no mapping": (
        {"x": {"fields": "edge"}},
        "The 'fields' of the boundary of 'x' must be a mapping, got 'edge'. For example"
        " boundary={'y': {'fields': {'h': 'edge', 'v': {'constant': 0}}}}.",
    ),
    "no rule": (
        {"x": {"fields": {"h": "mirror"}}},
        "The boundary of 'x' for field 'h' must be one of 'periodic', 'edge', 'reflect',"
        " 'symmetric', 'antisymmetric', 'extrapolate', 'none' or {'constant': number}, got"
        " 'mirror'. For example"
        " boundary={'x': 'periodic', 'y': {'low': 'edge', 'high': {'constant': 0}}}.",
    ),
    "periodic": (
        {"x": {"fields": {"h": "periodic"}}},
        "The boundary of 'x' must be periodic for all fields or for none, got a rule for 'h'."
        " Write boundary={'x': 'periodic'}.",
    ),
    "all but one periodic": (
        {"x": {"low": "periodic", "high": "periodic", "fields": {"h": "edge"}}},
        "The boundary of 'x' must be periodic for all fields or for none, got a rule for 'h'."
        " Write boundary={'x': 'periodic'}.",
    ),
    "another end": (
        {"x": {"fields": {"h": {"left": "edge"}}}},
        "The boundary of 'x' for field 'h' must have 'low' and 'high', got 'left'. For example"
        " boundary={'x': 'periodic', 'y': {'low': 'edge', 'high': {'constant': 0}}}.",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    boundary, message = REFUSED[name]
    with pytest.raises(he.BoundaryError) as caught:
        run(boundary)
    assert str(caught.value) == message


def test_steps_are_fused_where_fields_that_are_fed_have_the_same_rules() -> None:
    from halocline_engine.distribute.resident.fusing import unfused_layout
    from halocline_engine.distribute.stencils.request import Checked, check

    seen: list[Checked] = []

    def checking(*args: Any) -> Checked:
        seen.append(check(*args))
        return seen[-1]

    for rules in ({"v": {"constant": 2.0}, "h": "none"}, {"w": "edge"}, {"v": "edge"}):
        with patch("halocline_engine.functions.run.check", checking):
            run(
                {"x": {"fields": rules}, "y": "edge"},
                steps=2,
                feedback={"h2": "h", "v2": "v"},
                target="reference",
            )
    assert [unfused_layout(one.layout) for one in seen] == [
        "",
        "",
        "'h' and 'v' have different boundaries",
    ]


def test_components_of_an_array_have_its_rule() -> None:
    text = """
def two(u: Field[(float64, (2,))], out: Field[float64]):
    with computation(PARALLEL), interval(...):
        out = u[-1, 0, 0][0] + u[-1, 0, 0][1]
"""
    data = xr.Dataset({"u": (("y", "x", "part"), np.ones((2, 3, 2)))})
    boundary = {"x": {"fields": {"u": {"constant": 5.0}}}}
    found = he.run(text, data, axes={"I": "x", "J": "y"}, boundary=boundary, target="reference")
    assert found["out"].values.tolist() == [[10.0, 2.0, 2.0]] * 2
