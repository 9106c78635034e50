"""What workers tell of their time, and of what their kernels moved and computed."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.analysis.work import work_of
from halocline_engine.compiling import compiled_seconds, compiling
from halocline_engine.distribute.grid.partition import Block, Span
from halocline_engine.distribute.jobs.shares import Shares, StepWork
from halocline_engine.distribute.tasks.events import BlockFinished, Event, StepsFinished, Worked
from halocline_engine.distribute.tasks.model import Report
from halocline_engine.distribute.tasks.spent import Spent, Stopwatch
from halocline_engine.functions.reports import ceilings as measuring
from halocline_engine.functions.reports.ceilings import ceilings
from halocline_engine.program import compile_program

SMOOTH = """
def smooth(t: Field[np.float64], s: Field[np.float64], *, strength: float):
    with computation(PARALLEL), interval(...):
        s = t + strength * (t[-1, 0, 0] - 2.0 * t + t[1, 0, 0])
"""
ROWS, COLUMNS, STEPS = 12, 40, 6
#: Of a point: three additions and two multiplications.
OPERATIONS = 5


def told(**options: Any) -> list[Event]:
    events: list[Event] = []
    values = np.random.default_rng(1).random((ROWS, COLUMNS))
    arguments: dict[str, Any] = {
        "scalars": {"strength": 0.25},
        "boundary": {"x": "periodic"},
        "steps": STEPS,
        "feedback": {"s": "t"},
        "target": "reference",
        **options,
    }
    he.run(SMOOTH, xr.Dataset({"t": (("y", "x"), values)}), on_event=events.append, **arguments)
    return events


def shares(events: list[Event]) -> list[Worked]:
    return [one for one in events if isinstance(one, Worked)]


@pytest.mark.parametrize("mode", ["streamed", "resident"])
def test_kernels_moved_each_field_once_a_step(mode: str) -> None:
    (share,) = shares(told(mode=mode, chunks={"x": 10}))
    cells = ROWS * COLUMNS * STEPS
    assert (share.bytes, share.operations) == (cells * 2 * 8, cells * OPERATIONS)
    assert share.computing > 0
    assert share.target == "reference"


def test_blocks_tell_how_much_of_their_time_was_what() -> None:
    events = told(mode="streamed", chunks={"x": 10})
    blocks = [one for one in events if isinstance(one, BlockFinished)]
    (share,) = shares(events)
    assert share.blocks == len(blocks)
    assert (share.rank, share.intervals, share.halos) == (None, (), 0.0)
    for name in ("reading", "computing", "writing"):
        assert getattr(share, name) == pytest.approx(sum(getattr(one, name) for one in blocks))


def test_blocks_that_pass_through_queues_tell_of_both_ways() -> None:
    options = he.Options(pipeline_depth=3)
    events = told(mode="streamed", chunks={"x": 10}, options=options)
    blocks = [one for one in events if isinstance(one, BlockFinished)]
    for one in blocks:
        parts = (one.reading, one.sending, one.computing, one.fetching, one.writing)
        assert min(parts) > 0
        assert sum(parts) <= one.seconds * (1 + 1e-9)


def test_ranks_tell_of_halos_and_of_intervals() -> None:
    events = told(mode="resident", chunks={"x": 10})
    (share,) = shares(events)
    assert (share.rank, share.blocks) == (0, 4)
    assert share.halos > 0
    ends = [(0.0, 0.0), *((began, ended) for began, ended, *_ in share.intervals)]
    assert all(one[1] == other[0] <= other[1] for one, other in pairwise(ends))
    for place, name in enumerate(Spent.__dataclass_fields__, 2):
        parts = sum(interval[place] for interval in share.intervals)
        assert parts == pytest.approx(getattr(share, name), abs=1e-4)
    for began, ended, *spent in share.intervals:
        assert sum(spent) <= ended - began + 1e-4
    halos = [one.halos for one in events if isinstance(one, StepsFinished)]
    assert halos == sorted(halos)
    assert halos[-1] == share.halos


def _data() -> xr.Dataset:
    rng = np.random.default_rng(3)
    return xr.Dataset(
        {
            "t": (("z", "x"), rng.random((3, 4))),
            "w": (("z", "y"), rng.random((3, 5))),
            "a": ("z", [-0.5] * 3),
            "b": ("z", [2.5] * 3),
            "order": ("z", [1, 0, 1]),
            "parent": ("z", [0, 0, 1]),
            "count": ("cell", [3], {"sample_dimension": "z"}),
        },
        {"z": ("z", [0.5, 1.5, 2.5], {"axis": "Z"}), "zf": ("z_face", [0.0, 1.0, 2.0, 3.0])},
    )


_BANDS = {"lower": "a", "diagonal": "b", "upper": "a", "dim": "z"}
_LONG = {"a": -0.5, "b": 2.5, "t": 1.0}
_WEIGHTS = xr.Dataset(
    {
        "row": ("n_s", [1, 1, 2]),
        "col": ("n_s", [1, 2, 3]),
        "S": ("n_s", [0.5, 0.5, 1.0]),
        "src_grid_dims": ("src_grid_rank", [3]),
        "dst_grid_dims": ("dst_grid_rank", [2]),
    }
)
_TWICE = """
def twice(t: Field[float], u: Field[float]):
    with computation(PARALLEL), interval(...):
        u = 2.0 * t + 1.0
"""
_STAGES = [
    {"stencil": {"program": _TWICE, "axes": {"I": "x", "J": None, "K": "z"}}},
    {"tridiagonal": {**_BANDS, "rhs": "u"}},
]
_ORDER = {"source": "t", "index": "order", "dim": "z"}
_TREE = {"diagonal": "b", "upper": "a", "rhs": "b", "parent": "parent", "row_size": "count"}
#: What a function is called with, and how many operations it makes of 12 values in 4 columns.
_COMPUTING: dict[str, tuple[str, dict[str, Any], int]] = {
    "tridiagonal": ("tridiagonal", {**_BANDS, "rhs": "t"}, 9 * 12),
    "periodic": ("tridiagonal", {**_BANDS, "rhs": "t", "periodic": True}, 16 * 12),
    "trees": ("tree", _TREE, 9 * 3),
    "product": ("matmul", {"left": "t", "right": "w", "dim": "z"}, 2 * 3 * 4 * 5),
    "gather": ("gather", _ORDER, 0),
    "sums": ("scatter", {**_ORDER, "size": 2, "duplicates": "sum"}, 12),
    "weights": ("regrid", {"weights": _WEIGHTS, "variables": ["t"], "dims": ["z"]}, 2 * 3 * 4),
    "column": ("column", {"expression": "2.0 * t", "heights": "zf"}, 12),
    "sequence": ("sequence", {"stages": _STAGES, "steps": 2}, 2 * (2 + 9) * 12),
}


@pytest.mark.parametrize("name", _COMPUTING)
def test_operations_of_other_jobs_are_counted(name: str) -> None:
    function, arguments, operations = _COMPUTING[name]
    events: list[Event] = []
    how: dict[str, Any] = {"target": "reference", "on_event": events.append}
    getattr(he, function)(dataset=_data(), **arguments, **how)
    found = shares(events)
    assert sum(one.operations for one in found) == operations
    assert all(one.bytes > 0 and one.computing > 0 for one in found)


@pytest.mark.parametrize("mode", ["streamed", "resident"])
def test_operations_of_long_systems_are_counted(mode: str) -> None:
    rows = 4096
    dataset = xr.Dataset({name: ("z", np.full(rows, value)) for name, value in _LONG.items()})
    events: list[Event] = []
    how: dict[str, Any] = {"mode": mode, "target": "cpu", "chunks": {"z": 2048}}
    he.tridiagonal(dataset, rhs="t", **_BANDS, **how, on_event=events.append)
    assert sum(one.operations for one in shares(events)) == 9 * rows


def test_operations_are_shared_by_what_workers_moved() -> None:
    shares = Shares("cpu", operations=900)
    for worker, moved in (("a", 100), ("b", 200)):
        shares.add(worker, Report(1.0, moved, moved, 1, index=0, spent=Spent(computing=0.5)), [], 1)
    assert [(one.bytes, one.operations) for one in shares.told()] == [(200, 300), (400, 600)]


def test_work_is_shared_by_cells_and_steps() -> None:
    shares = Shares("cpu", StepWork(bytes=1000, operations=60, cells=10))
    report = Report(1.0, 1, 1, 1, index=0, spent=Spent(computing=0.5))
    for worker, cells, steps in (("a", 4, 3), ("b", 6, 3), ("a", 5, 1)):
        box = (Span(0, cells), Span(0, 1), Span(0, 1))
        shares.add(worker, report, [Block(0, box, ())], steps)
    found = [
        (one.worker, one.blocks, one.bytes, one.operations, one.computing) for one in shares.told()
    ]
    assert found == [("a", 2, 1700, 102, 1.0), ("b", 1, 1800, 108, 0.5)]


def test_intervals_stay_few_and_lose_nothing() -> None:
    watch = Stopwatch()
    for _ in range(1000):
        watch.add("halos", 0.5)
        watch.end_interval()
    assert len(watch.intervals) <= 64
    assert sum(one.spent.halos for one in watch.intervals) == watch.total.halos == 500.0
    assert watch.intervals[0].began == 0.0


def test_compiling_is_apart_from_computing() -> None:
    before = compiled_seconds()
    with compiling():
        time.sleep(0.01)
    assert 0.01 <= compiled_seconds() - before < 1.0


def test_work_of_many_levels_is_counted_statement_by_statement() -> None:
    body = "".join(f"        s = s + {n}.0 * t\n" for n in range(60))
    text = SMOOTH.replace("def smooth", "def long") + body
    program = compile_program(text, target="reference").program
    few, many = (work_of(program, (3, 5, levels)) for levels in (1, 500))
    assert (many.bytes, many.operations.total()) == (500 * few.bytes, 500 * few.operations.total())


def test_a_worker_measures_what_it_can_do_and_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "_kept", {})
    monkeypatch.setattr(measuring, "_HOST", 1 << 20)
    monkeypatch.setattr(measuring, "_ROWS", 32)
    found = [ceilings("reference") for _ in range(4)]
    assert all(len(one) == 1 and min(one[0].copy_rate, one[0].operation_rate) > 0 for one in found)
    rates = [one[0].copy_rate for one in found]
    assert rates == sorted(rates)
    assert found[2] == found[3]


def test_each_worker_of_a_cluster_tells_what_it_can_do(two_workers: Any) -> None:
    events = told(mode="resident", chunks={"x": 10}, cluster=two_workers)
    found = ceilings("reference", two_workers)
    assert {one.worker for one in found} == {one.worker for one in shares(events)}
    assert {one.rank for one in shares(events)} == {0, 1}
    cells = ROWS * COLUMNS * STEPS
    assert sum(one.bytes for one in shares(events)) == cells * 2 * 8
