"""Rows of any length, begin and layout: the bits of the reference, and nothing beside them."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from differential import LAYOUTS, assert_same, copied, front, inputs, judged, run
from interpreted import patch
from numpy.typing import NDArray

from halocline_engine.backends.cpu import build, calls
from halocline_engine.backends.cpu.caches import Caches
from halocline_engine.backends.cpu.run import CpuExecutable
from halocline_engine.schedule.options import Options
from halocline_engine.schedule.plan import plan
from halocline_engine.schedule.traversal.walks import Walk, WalkOrder

POINTS = """
def points(a: Field[np.float64], b: Field[np.float32], p: Field[IJ, np.float64],
           w: Field[K, np.float64], x: Field[np.float64], y: Field[np.float32]):
    with computation(PARALLEL):
        with interval(0, 2):
            x = a[1, 0, 0] - p * a[0, -1, 1] + w
            y = b + y
        with interval(2, None):
            x = a[0, 1, -1] * a[-1, 0, 0]
            y = b[0, 0, -1] - b
"""
COLUMNS = """
def columns(a: Field[np.float64], n: Field[np.int32], x: Field[np.float64]):
    with computation(FORWARD):
        with interval(0, 1):
            t = a
        with interval(1, None):
            t = 0.5 * t[0, 0, -1] + a
            n = n[0, 0, -1] - n
    with computation(BACKWARD):
        with interval(-1, None):
            x = t
        with interval(0, -1):
            x = t - 0.25 * x[0, 0, 1]
"""
PROGRAMS = {"points": POINTS, "columns": COLUMNS}
#: Rows of one point, of fewer points than some vectors have, of whole vectors, and of a rest.
DOMAINS = ((1, 5, 3), (31, 2, 4), (64, 3, 3), (173, 3, 4), (3, 2, 173))


@pytest.fixture(scope="module")
def executables() -> dict[str, CpuExecutable]:
    """Return executables, compiled once for all tests."""
    return {name: CpuExecutable(plan(*front(text)), Caches()) for name, text in PROGRAMS.items()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_change_only_their_elements(name: str, executables: dict[str, CpuExecutable]) -> None:
    """Rows begin anywhere; what lies between and around the arrays' elements is looked at too."""
    program, facts = front(PROGRAMS[name])
    for seed, domain in enumerate(DOMAINS):
        for layout in ("along I", "padded", "along K")[: 3 if name == "points" else 2]:
            given = inputs(program, facts, domain, layout=layout, seed=seed)
            expected = judged(program, facts, given, domain, {})
            around = {field: _around(array) for field, array in given.arrays.items()}
            assert around["x"].size > given.arrays["x"].size or layout != "padded"
            before = {field: host.copy() for field, host in around.items()}
            assert_same(run(executables[name], given, domain, {}), expected)
            for field, host in around.items():
                inside = np.isin(_addresses(host), _addresses(given.arrays[field]))
                np.testing.assert_array_equal(host[~inside], before[field][~inside])


def _around(array: NDArray[Any]) -> NDArray[Any]:
    """Return the memory that an array is a view of."""
    held: Any = array
    while held is not None:
        array = cast("NDArray[Any]", held) if isinstance(held, np.ndarray) else array
        held = held.base
    return array


def _addresses(array: NDArray[Any]) -> NDArray[np.int64]:
    start: int = array.__array_interface__["data"][0]
    places = np.indices(array.shape).reshape(array.ndim, -1)
    return (start + np.array(array.strides) @ places).reshape(array.shape)


@pytest.mark.parametrize("order", ["row", "column", "zigzag"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_any_walk_and_layout_gives_the_bits_of_the_reference(
    name: str, order: WalkOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text is interpreted, in rows that are cut."""
    patch(monkeypatch)
    monkeypatch.setattr(build, "read_caches", lambda: Caches(level2=512, last=512))
    program, facts = front(PROGRAMS[name])
    executable = (
        build.CpuBackend().build(plan(program, facts, Options(walk=Walk(order, 2500)))).load()
    )
    for layout in LAYOUTS:
        domain = (3, 2, 70) if layout == "along K" else (70, 2, 3)
        given = inputs(program, facts, domain, layout=layout)
        expected = judged(program, facts, given, domain, {})
        assert_same(run(executable, copied(given), domain, {}), expected)


def test_threads_change_no_bit(
    executables: dict[str, CpuExecutable], monkeypatch: pytest.MonkeyPatch
) -> None:
    program, facts = front(POINTS)
    given = inputs(program, facts, (51, 40, 9))
    expected = judged(program, facts, given, (51, 40, 9), {})
    for threads in (1, 3):
        monkeypatch.setattr(calls, "threads_of_calls", lambda n=threads: n)
        assert_same(run(executables["points"], copied(given), (51, 40, 9), {}), expected)
