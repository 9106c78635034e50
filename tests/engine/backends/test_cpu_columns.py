"""Loops in columns: the bits of row order, the order that they promise, and the widths chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from differential import LAYOUTS, assert_same, copied, front, inputs, judged, run
from interpreted import patch

from halocline_engine.backends.cpu import run as cpu_run
from halocline_engine.backends.cpu.build import CpuBackend
from halocline_engine.backends.cpu.caches import Caches, read_caches
from halocline_engine.backends.cpu.columns import Cut, cut, reuse_of
from halocline_engine.backends.cpu.pieces import SERIAL_POINTS
from halocline_engine.backends.cpu.run import CpuExecutable
from halocline_engine.backends.cpu.text.emit import emit
from halocline_engine.backends.cpu.text.layout import contiguous
from halocline_engine.ir.types import Axis
from halocline_engine.schedule.nodes import Kernel, Schedule
from halocline_engine.schedule.options import Options
from halocline_engine.schedule.plan import plan
from halocline_engine.schedule.traversal.column import visits
from halocline_engine.schedule.traversal.walks import Walk, WalkOrder

FLAT = """
def flat(a: Field[np.float64], x: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        x = a[-2, 0, 0] - a[0, -2, 0] + 2.0 * a[1, 1, 0] - a[0, 2, 0]
"""
PLANES = """
def planes(a: Field[np.float64], x: Field[np.float64]):
    with computation(PARALLEL):
        with interval(0, 1):
            x = a[0, 1, 1] - a[0, -1, 0]
        with interval(1, -1):
            x = a[0, 0, 1] - 3.0 * a[0, -1, 0] + a[1, 0, 0] * a[0, 0, -1]
        with interval(-1, None):
            x = a
"""
CARRIED = """
def carried(a: Field[np.float64], x: Field[np.float64]):
    with computation(FORWARD):
        with interval(0, 1):
            t = a
        with interval(1, None):
            t = 0.5 * t[0, 0, -1] + a
    with computation(BACKWARD):
        with interval(-1, None):
            x = t
        with interval(0, -1):
            x = t - 0.25 * x[0, 0, 1]
"""
PROGRAMS = {"flat": FLAT, "planes": PLANES, "carried": CARRIED}
SERVER = Caches(level1=32 << 10, level2=1 << 20, last=32 << 20)


def scheduled(text: str, walk: Walk) -> Schedule:
    return plan(*front(text), Options(walk=walk))


def kernel_of(text: str) -> tuple[Kernel, Schedule]:
    schedule = scheduled(text, Walk())
    (kernel,) = schedule.steps
    assert isinstance(kernel, Kernel)
    return kernel, schedule


def chosen(text: str, sizes: tuple[int, int, int], walk: Walk = Walk()) -> Cut:  # noqa: B008
    kernel, schedule = kernel_of(text)
    return cut(reuse_of(kernel, schedule, Axis.I), kernel, sizes, walk, SERVER)


@pytest.mark.parametrize("order", ["column", "zigzag"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_columns_of_any_width_give_the_bits_of_the_reference(
    name: str, order: WalkOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Narrow last columns among them, in every layout; the text is interpreted."""
    patch(monkeypatch)
    program, facts = front(PROGRAMS[name])
    random = np.random.default_rng(4)
    for layout in LAYOUTS:
        domain = (int(random.integers(1, 12)), int(random.integers(1, 6)), 4)
        given = inputs(program, facts, domain, layout=layout)
        expected = judged(program, facts, given, domain, {})
        for room in (1, 150, 400, 1000):
            executable = CpuBackend().build(scheduled(PROGRAMS[name], Walk(order, room))).load()
            assert_same(run(executable, copied(given), domain, {}), expected)


@pytest.mark.parametrize(
    ("name", "order"), [("flat", "column"), ("planes", "zigzag"), ("carried", "column")]
)
def test_compiled_columns_give_the_bits_of_the_reference(
    name: str, order: WalkOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread, and several that share the columns."""
    domain = (SERIAL_POINTS // 8 + 3, 5, 4)
    program, facts = front(PROGRAMS[name])
    given = inputs(program, facts, domain)
    expected = judged(program, facts, given, domain, {})
    executable = CpuBackend().build(scheduled(PROGRAMS[name], Walk(order, 20_000))).load()
    for threads in (1, 3):
        monkeypatch.setattr(cpu_run, "threads_of_calls", lambda n=threads: n)
        assert_same(run(executable, copied(given), domain, {}), expected)


@pytest.mark.parametrize("zigzag", [False, True])
@pytest.mark.parametrize("inner", [Axis.I, Axis.K])
@pytest.mark.parametrize(("nk", "rows", "width"), [(1, 99, 3), (3, 2, 3), (3, 2, 99), (2, 3, 1)])
def test_the_text_visits_points_in_column_order(
    nk: int, rows: int, width: int, inner: Axis, zigzag: bool
) -> None:
    """Against `traversal.column.visits`, along the axis that the columns are walked down."""
    text = """
def program(x: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        x = 1.0
"""
    walk = Walk("zigzag" if zigzag else "column")
    schedule = scheduled(text, walk)
    module = emit(schedule, contiguous(schedule.program, inner))
    seen: list[tuple[int, int, int]] = []

    def at(address: int) -> int:
        return address

    def store(row: int, place: int, _value: float) -> None:
        seen.append((row // 100, row % 100, place // 8))

    names: dict[str, Any] = {"pointer_float64": at, "store_0": store}
    exec(module.text, names)  # noqa: S102 - our emitter's text
    length, nj = 7, 5
    i, k = (length, nk) if inner is Axis.I else (nk, length)
    steps = (8, 1, 100) if inner is Axis.I else (100, 1, 8)
    names["kernel0"](0, i, 0, nj, 0, k, k, rows, width, 0, *steps)
    along, widths = (0, (1, rows, width)) if nk > 1 else (1, (1, 1, width))
    expected = list(visits((nk, nj, length), along, widths, vertical=zigzag))
    if zigzag:
        # Rows turn with the planes, which changes nothing in what is in the cache.
        cells = {point: place for place, point in enumerate(expected)}
        assert [p[0] for p in seen] == [p[0] for p in expected]
        assert sorted(seen, key=lambda p: cells[p]) == expected
    if not zigzag or nk == 1:
        assert seen == expected


def test_rows_that_fit_are_walked_whole() -> None:
    assert chosen(FLAT, (4096, 4096, 1)) == Cut(1 << 30, 4096)
    assert chosen(PLANES, (256, 256, 64)).width == 256
    assert chosen(CARRIED, (1440, 64, 80)) == Cut(1 << 30, 1440)


def test_rows_that_do_not_fit_are_cut_as_the_model_says() -> None:
    """Five rows of one array and one of the other are 48 bytes for each point of a row."""
    found = chosen(FLAT, (1_000_000, 64, 1))
    assert found == Cut(1 << 30, 8131)
    assert 48 * (found.width + 3) <= SERVER.level2 * 3 // 8 < 48 * (found.width + 66 + 3)
    assert chosen(CARRIED, (1_000_000, 2, 80)).width < 20_000
    assert chosen(FLAT, (1_000_000, 1, 1)).width == 1_000_000


def test_planes_that_do_not_fit_are_cut_in_rows_then_in_points() -> None:
    assert chosen(PLANES, (1000, 700, 50)) == Cut(11, 1000)
    narrow = chosen(PLANES, (100_000, 700, 50))
    assert narrow.rows == 8
    assert 1024 <= narrow.width <= 2048


def test_an_order_can_be_asked_for() -> None:
    assert chosen(FLAT, (1_000_000, 64, 1), Walk("row")) == Cut(1 << 30, 1_000_000)
    assert chosen(FLAT, (10, 64, 1), Walk("column", 48 * 7)) == Cut(1 << 30, 4)
    assert chosen(FLAT, (10, 64, 1), Walk("zigzag", 1)) == Cut(1 << 30, 1)
    assert chosen(PLANES, (10, 64, 9), Walk("column", 200)) == Cut(1, 2)


def test_kernels_that_read_nothing_twice_are_walked_whole() -> None:
    text = (
        "def p(a: Field[float], x: Field[float]):\n  with computation(PARALLEL), interval(...):\n"
    )
    assert chosen(text + "    x = a", (1 << 22, 9, 9)) == Cut(1 << 30, 1 << 22)
    assert chosen(text + "    x = a[1, 0, 0]", (1 << 22, 9, 9)) == Cut(1 << 30, 1 << 22)


def describe(folder: Path, index: int, level: str, kind: str, size: str) -> None:
    cache = folder / f"index{index}"
    cache.mkdir()
    for name, text in (
        ("level", level),
        ("type", kind),
        ("size", size),
        ("coherency_line_size", "128"),
    ):
        (cache / name).write_text(text + "\n")


def test_caches_are_read_from_the_system(tmp_path: Path) -> None:
    describe(tmp_path, 0, "1", "Data", "48K")
    describe(tmp_path, 1, "1", "Instruction", "64K")
    describe(tmp_path, 2, "2", "Unified", "2048K")
    describe(tmp_path, 3, "3", "Unified", "105M")
    assert read_caches(tmp_path) == Caches(48 << 10, 2 << 20, 105 << 20, 128)


def test_caches_that_the_system_does_not_tell_are_usual(tmp_path: Path) -> None:
    assert read_caches(tmp_path / "nothing") == Caches()
    describe(tmp_path, 0, "1", "Data", "48K")
    describe(tmp_path, 2, "2", "Unified", "unknown")
    assert read_caches(tmp_path) == Caches(level1=48 << 10, last=48 << 10, line=128)


def test_columns_are_cut_for_the_caches_given() -> None:
    """A core with half the second level has columns of half the width."""
    kernel, schedule = kernel_of(FLAT)
    reuse = reuse_of(kernel, schedule, Axis.I)
    half = Caches(level2=512 << 10)
    sizes = (1_000_000, 64, 1)
    small, large = (cut(reuse, kernel, sizes, Walk(), caches) for caches in (half, SERVER))
    assert abs(2 * small.width - large.width) < 200
    assert CpuExecutable(schedule, half).memory is not None


def test_the_schedule_says_how_loops_walk_and_draws_it() -> None:
    """The same on every machine, as it is for a common core."""
    lines = CpuBackend().build(scheduled(FLAT, Walk())).walks()
    assert lines[0] == (
        "kernel 0: rows read again 48 bytes a point; with 1024 KiB of second-level cache, rows too"
        " long for it go in columns of 8189"
    )
    assert lines[1] == "columns 4 wide, 7 rows of 12"
    assert lines[-1].startswith("a cache of 35 cells: ")
    (whole, *_) = CpuBackend().build(scheduled(FLAT, Walk("row"))).walks()
    assert whole.endswith("; loops walk whole rows")
    assert CpuBackend().build(scheduled(CARRIED, Walk())).walks() == ()
