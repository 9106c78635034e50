"""Memory that loops ask for ahead: bits stay, what lies near stays, and each line comes once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from differential import LAYOUTS, assert_same, copied, front, inputs, judged, run
from interpreted import patch
from numpy.typing import NDArray

from halocline_engine.backends.cpu import build, calls
from halocline_engine.backends.cpu import code as cpu_code
from halocline_engine.backends.cpu.ahead import leading, leaves_caches, lines_of, part_of, touched
from halocline_engine.backends.cpu.caches import Caches
from halocline_engine.backends.cpu.run import CpuExecutable
from halocline_engine.backends.cpu.text.emit import emit
from halocline_engine.backends.cpu.text.layout import contiguous
from halocline_engine.ir.types import Axis
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
SMALL, LARGE = Caches(last=4), Caches(last=1 << 40)
#: Rows of one point, of less than a part, of whole parts, and of more than the distance.
DOMAINS = ((1, 5, 3), (31, 2, 4), (64, 3, 3), (173, 3, 4), (3, 2, 173))


@pytest.fixture(scope="module")
def executables() -> dict[str, CpuExecutable]:
    """Those that ask at any size, compiled once for all tests."""
    return {name: CpuExecutable(plan(*front(text)), SMALL) for name, text in PROGRAMS.items()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_asking_changes_no_bit_anywhere(name: str, executables: dict[str, CpuExecutable]) -> None:
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
    """The text is interpreted, in rows that are cut between and within parts."""
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


def test_what_leaves_the_caches_asks_and_the_rest_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One executable has both texts, by the size of the call, and threads change no bit."""
    # Numba shows no code that it has loaded.
    monkeypatch.setattr(cpu_code, "code_folder", tmp_path.joinpath)
    program, facts = front(POINTS)
    assert touched(program) == 8 + 4 + 8 + 4
    executable = CpuExecutable(plan(program, facts), Caches(last=4 * 24 * 50 * 40 * 9))
    for domain, asks in (((50, 40, 9), False), ((51, 40, 9), True)):
        given = inputs(program, facts, domain)
        expected = judged(program, facts, given, domain, {})
        for threads in (1, 3):
            monkeypatch.setattr(calls, "threads_of_calls", lambda n=threads: n)
            assert_same(run(executable, copied(given), domain, {}), expected)
        code = "".join(executable.machine_code())
        assert ("prefetch" in code or "prfm" in code) is asks


def test_a_quarter_of_the_last_cache_is_what_stays() -> None:
    caches = Caches(last=400)
    assert [leaves_caches(size, caches) for size in (100, 101)] == [False, True]
    assert not leaves_caches(1 << 36, LARGE)


def test_parts_are_a_few_lines_of_the_largest_elements() -> None:
    assert [part_of(sizes) for sizes in ([8, 4], [4], [2, 1], [])] == [32, 64, 128, 0]
    assert [lines_of(32, size) for size in (8, 4, 2, 1)] == [4, 2, 1, 1]


def test_the_row_that_nobody_has_read_leads() -> None:
    rows = [("a", 0, 0), ("a", -1, 1), ("a", 2, 0), ("a", 1, 1), ("a", 0, -1), ("x", 0, 0)]
    assert leading(rows, backward=False) == {"a": ("a", 1, 1), "x": ("x", 0, 0)}
    assert leading(rows, backward=True)["a"] == ("a", 0, -1)


@pytest.mark.parametrize("length", [40, 128, 171, 300])
@pytest.mark.parametrize("inner", [Axis.I, Axis.K])
def test_each_line_is_asked_for_once_a_distance_before_it_is_needed(
    inner: Axis, length: int
) -> None:
    """But the first ones, and what is left of a row after its whole parts."""
    text = """
def program(a: Field[np.float64], x: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        x = a[0, -1, 0] + a[0, 1, 0]
"""
    schedule = plan(*front(text))
    module = emit(schedule, replace(contiguous(schedule.program, inner), asks=True))
    asked: dict[str, list[tuple[int, int]]] = {"ask": [], "claim": []}
    stored: list[int] = []

    def note(verb: str) -> Callable[[int, int, bool, int], None]:
        def noted(row: int, place: int, inside: bool, stride: int) -> None:
            at = row + place * 8 + (0 if inside else stride)
            asked[verb] += [(len(stored), at + 8 * n) for n in range(32)]

        return noted

    def pointer(address: int) -> int:
        return address

    def load(_row: int, _place: int) -> float:
        return 0.0

    def store(row: int, place: int, _value: float) -> None:
        stored.append(row + place)

    def select(condition: bool, then: int, otherwise: int) -> int:
        return then if condition else otherwise

    names: dict[str, Any] = {"pointer_float64": pointer, "load": load, "store_0": store}
    names |= {"select": select, "ask_4": note("ask"), "claim_4": note("claim")}
    exec(module.text, names)  # noqa: S102 - our emitter's text
    rows, row, far = 3, 1 << 12, 1 << 30
    steps = (8, row, 0) if inner is Axis.I else (0, row, 8)
    i, k = (length, 1) if inner is Axis.I else (1, length)
    names["kernel0"](0, i, 0, rows, 0, k, k, 99, 9999, 0, *steps, far, *steps)
    whole = length // 32 * 32
    ahead = min(128, whole)
    expected = [j * row + 8 * n for j in range(rows + 1) for n in range(whole)]
    for verb, base, first in (("ask", 0, row), ("claim", far, 0)):
        places = [at - base - first for _, at in asked[verb]]
        if whole > 128:
            assert places == expected[ahead : len(expected) - whole + ahead]
        else:
            assert places == expected[whole:]
    needed = {at: time for time, at in enumerate(stored)}
    gaps = [needed[at] - time for time, at in asked["claim"] if at in needed]
    assert min(gaps) >= min(ahead, length)
