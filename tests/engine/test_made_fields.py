"""Level indices, regions and planes: on arrays and datasets, however blocks are cut."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray

import halocline_engine as he
from halocline_engine.backends.made.fields import MadeFieldsArtifact, MadeFieldsExecutable
from halocline_engine.errors import ArgumentError, DependenceError, NameRuleError
from halocline_engine.functions.stencil import Stencil

RAMP = """
def ramp(a: Field[float], b: Field[float]):
    with computation(PARALLEL), interval(...):
        t = a * K
        b = t[1, 0, 0] + t[0, -1, 0] + (0.5 if K > 1 else K)
"""
STEP = """
def step(a: Field[float], b: Field[float]):
    with computation(FORWARD):
        with interval(0, 1):
            b = 0.5 * a + K
        with interval(1, None):
            b = 0.5 * a + 0.1 * K * b[0, 0, -1]
"""


def expected(a: NDArray[np.float64]) -> NDArray[np.float64]:
    k = np.arange(float(a.shape[2]))
    t = a * k
    return t[2:, 1:-1] + t[1:-1, :-2] + np.where(k > 1, 0.5, k)


def test_levels_count_from_the_domains_first(run_stencil: Any) -> None:
    a = np.random.default_rng(2).normal(size=(8, 7, 6))
    for first, count in ((0, 6), (2, 3)):
        b = np.full_like(a, np.nan)
        run_stencil(RAMP, a, b, origin=(1, 1, first), domain=(6, 5, count))
        levels = slice(first, first + count)
        np.testing.assert_array_equal(b[1:-1, 1:-1, levels], expected(a[:, :, levels]))
        assert np.isnan(b).sum() == b.size - 6 * 5 * count


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_many_steps_are_those_one_by_one(target: str) -> None:
    stencil = he.stencil(STEP, target=target)
    stencil = pickle.loads(pickle.dumps(stencil))
    start = np.random.default_rng(3).normal(size=(5, 4, 6))
    a, b = start.copy(), np.zeros_like(start)
    found = stencil.repeat(7, a, b, feedback={"b": "a"})["b"]
    one, other = start.copy(), np.zeros_like(start)
    for _ in range(7):
        stencil(one, other)
        one, other = other, one
    np.testing.assert_array_equal(found, one)
    assert "float64(.K[0, 0, 0])" in stencil.show("schedule")
    with pytest.raises(ArgumentError, match="is not tuned"):
        stencil.tune(a, b)


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_blocks_change_no_bit(target: str, tmp_path: Path) -> None:
    values = np.random.default_rng(4).normal(size=(6, 9, 11))
    dataset = xr.Dataset({"a": (("z", "y", "x"), values)})
    axes = {"I": "x", "J": "y", "K": "z"}
    given: dict[str, Any] = {"axes": axes, "boundary": {"x": "periodic", "y": "edge"}}
    given |= {"target": target, "steps": 3, "feedback": {"b": "a"}}
    whole = he.run(RAMP, dataset, **given)["b"].values
    for chunks in ({"x": 4}, {"y": 2, "x": 3}):
        cut = he.run(RAMP, dataset, chunks=chunks, output=tmp_path / f"{len(chunks)}", **given)
        np.testing.assert_array_equal(cut["b"].values, whole)


def test_the_field_of_levels_is_nobodys_argument() -> None:
    stencil: Stencil = he.stencil(RAMP, target="reference")
    assert list(stencil.extents) == ["a", "b"]
    assert "position .K along K" in stencil.show("ir")
    assert isinstance(stencil.compiled.artifact.load(), MadeFieldsExecutable)
    levels: dict[str, Any] = {".K": np.ones(3)}
    with pytest.raises(ArgumentError, match=r"has no argument '\.K'"):
        stencil(np.ones((3, 3, 3)), np.ones((3, 3, 3)), **levels)
    with pytest.raises(NameRuleError, match="The name 'L' is unknown"):
        he.stencil(RAMP.replace("a * K", "a * L"))


EDGES = """
def edges(a: Field[float], b: Field[float]):
    with computation(PARALLEL), interval(...):
        t = a * 0.5
        with horizontal(region[I[0], :], region[I[-1], :]):
            t = 3.0 * a
        with horizontal(region[1:I[-1] - 1, J[0] : J[0] + 2]):
            t = t + a[0, 1, 0]
        b = t[1, 0, 0] - t[-1, 0, 0] + a
        with horizontal(region[:, J[-1]]):
            b = -a[0, -1, 0]
"""


@pytest.mark.parametrize("target", ["reference", "cpu"])
@pytest.mark.parametrize("boundary", ["periodic", "edge"])
@pytest.mark.parametrize("steps", [1, 4])
def test_regions_stay_at_the_edges_however_blocks_are_cut(
    target: str, boundary: str, steps: int
) -> None:
    values = np.random.default_rng(5).normal(size=(3, 13, 17))
    dataset = xr.Dataset({"a": (("z", "y", "x"), values)})
    given: dict[str, Any] = {"axes": {"I": "x", "J": "y", "K": "z"}, "target": target}
    given |= {"boundary": {"x": boundary, "y": "edge"}, "steps": steps, "feedback": {"b": "a"}}
    whole = he.run(EDGES, dataset, **given)["b"].values
    for chunks in ({"x": 5}, {"y": 4}, {"x": 4, "y": 3}, {"x": 1}):
        for steps_per_pass in (1, 2):
            options = he.Options(steps_per_pass=steps_per_pass)
            cut = he.run(EDGES, dataset, chunks=chunks, options=options, **given)["b"].values
            np.testing.assert_array_equal(cut, whole)


def test_a_region_asks_for_no_halo_that_it_does_not_reach(run_stencil: Any) -> None:
    """As in GT4Py: the first two points are far from the end of an array without halo."""
    program = """
def shifted(a: Field[float], b: Field[float]):
    with computation(PARALLEL), interval(...):
        b = a
        with horizontal(region[I[0] : I[0] + 2, :]):
            b = a[2, 0, 0]
        with horizontal(region[:, J[-1]]):
            b = a[0, -1, 0]
"""
    a = np.random.default_rng(6).normal(size=(6, 5, 2))
    b = np.full_like(a, np.nan)
    made = run_stencil(program, a, b)
    wanted = a.copy()
    wanted[:2] = a[2:4]
    wanted[:, -1] = a[:, -2]
    np.testing.assert_array_equal(b, wanted)
    assert made.extents["a"] == ((0, 0), (0, 0), (0, 0))


def test_what_was_written_is_not_read_beside_the_point_in_a_region() -> None:
    program = """
def f(a: Field[float], b: Field[float]):
    with computation(PARALLEL), interval(...):
        t = a
        with horizontal(region[I[0], :]):
            b = t[1, 0, 0]
"""
    with pytest.raises(DependenceError) as caught:
        he.stencil(program)
    assert str(caught.value) == (
        "line 6, column 13: 't' is written before, and read at the offset (1, 0, 0) in a region.\n"
        "            b = t[1, 0, 0]\n            ^\n"
        "Assign the value at the offset to a temporary before the region, and read that."
    )


PLANES = """
def planes(a: Field[float], b: Field[float]):
    with computation(FORWARD):
        with interval(0, 1):
            most: Field[IJ, np.float64] = a
        with interval(1, None):
            most = max(most, a)
    with computation(PARALLEL), interval(...):
        b = 0.5 * (a + most)
"""
TOTAL = """
def total(a: Field[float], b: Field[float]):
    with computation(FORWARD):
        with interval(1, None):
            sum: Field[IJ, np.float64] = 2.0 * a
    with computation(FORWARD), interval(...):
        sum += a
        b = 0.1 * sum
"""


def test_temporaries_over_planes_keep_their_value_from_level_to_level(run_stencil: Any) -> None:
    a = np.random.default_rng(7).normal(size=(5, 4, 6))
    wanted = 0.5 * (a + a.max(axis=2, keepdims=True))
    b = np.full_like(a, np.nan)
    for _ in range(2):
        run_stencil(PLANES, a, b)
        np.testing.assert_array_equal(b, wanted)


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_threads_have_planes_of_their_own(target: str) -> None:
    values = np.random.default_rng(9).normal(size=(40, 6, 5))
    stencil = he.stencil(TOTAL, target=target)
    parts = [np.ascontiguousarray(part) for part in np.split(values, 20)]
    wanted = [np.zeros_like(part) for part in parts]
    for part, into in zip(parts, wanted, strict=True):
        stencil(part, into)

    def again(part: NDArray[np.float64]) -> NDArray[np.float64]:
        into = np.zeros_like(part)
        for _ in range(20):
            stencil(part, into)
        return into

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(again, parts))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_temporaries_over_planes_begin_anew_in_each_step(target: str, tmp_path: Path) -> None:
    stencil = he.stencil(TOTAL, target=target)
    a = np.random.default_rng(8).normal(size=(4, 3, 5))
    dataset = xr.Dataset({"a": (("x", "y", "z"), a.copy())})
    wanted = a.copy()
    for _ in range(5):
        wanted = 0.1 * (2.0 * wanted[:, :, -1:] + wanted.cumsum(axis=2))
    found: Any = stencil.repeat(5, a, np.zeros_like(a), feedback={"b": "a"})["b"]
    np.testing.assert_allclose(found, wanted, rtol=1e-13)
    axes = {"I": "x", "J": "y", "K": "z"}
    given: dict[str, Any] = {"axes": axes, "steps": 5, "feedback": {"b": "a"}, "target": target}
    cut = he.run(TOTAL, dataset, chunks={"x": 3, "y": 2}, output=tmp_path / "out", **given)
    np.testing.assert_array_equal(cut["b"].transpose("x", "y", "z").values, found)


@pytest.mark.parametrize(
    ("first", "rest", "zeroed"),
    [
        ("interval(0, 1)", "sum: Field[IJ, np.float64] = 2.0 * a", False),
        ("interval(...)", "sum: Field[IJ, np.float64] = 2.0 * a", False),
        ("interval(0, 1)", "if a > 0.0:\n            sum: Field[IJ, np.float64] = a", True),
    ],
)
def test_temporaries_over_planes_that_are_assigned_first_need_no_zeros(
    first: str, rest: str, zeroed: bool
) -> None:
    text = (
        "def total(a: Field[float], b: Field[float]):\n"
        f"    with computation(FORWARD), {first}:\n"
        f"        {rest}\n"
        "    with computation(PARALLEL), interval(...):\n"
        "        b = a + sum\n"
    )
    artifact = he.stencil(text, target="reference").compiled.artifact
    assert isinstance(artifact, MadeFieldsArtifact)
    assert artifact.zeroed == (("sum",) if zeroed else ())
