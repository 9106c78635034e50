"""The pipeline of blocks through a device, on a device of threads: order, slots, ends."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from halocline_engine.datasets.chunk_files.raw import RawArray
from halocline_engine.distribute.grid.overlap import share
from halocline_engine.distribute.grid.partition import Box, Span
from halocline_engine.distribute.pipeline.host_queues import HostQueues
from halocline_engine.distribute.pipeline.schedule import Stage, Step, needs, run_pipeline
from halocline_engine.distribute.tasks.events import Event, Finished, Planned
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.distribute.transports import staged
from halocline_engine.errors import CancelledError, CapacityError, DatasetError
from halocline_engine.functions.run import run

#: The stages that begin and end the use of a slot: of the host, of the device, of the host.
RINGS = ((Stage.READ, Stage.SEND), (Stage.SEND, Stage.FETCH), (Stage.FETCH, Stage.WRITE))


@given(st.integers(1, 4), st.integers(1, 9), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_no_slot_is_used_before_it_is_drained(slots: int, items: int, chance: Any) -> None:
    """Any order of events that the schedule allows keeps items apart, and ends."""
    begun: set[Step] = set()
    done: set[Step] = set()
    every = [(stage, item) for stage in Stage for item in range(items)]
    while len(done) < len(every):
        # A stage does its items in order, one at a time.
        ready = [
            (stage, item)
            for stage, item in every
            if (stage, item) not in begun
            and (item == 0 or (stage, item - 1) in done)
            and all(step in done for step in needs((stage, item), slots))
        ]
        step = chance.choice([*ready, *(begun - done)] if begun - done else ready)
        if step in begun:
            done.add(step)
            continue
        begun.add(step)
        for first, last in RINGS:
            inside = [n for n in range(items) if (first, n) in begun and (last, n) not in done]
            assert len({n % slots for n in inside}) == len(inside)
    assert begun == done


class Recorded:
    """Stages that write down when they begin and end, and fail where told."""

    def __init__(
        self,
        fails: Step | None = None,
        pause: float = 0.0,
        around: Callable[[Step, bool], None] = lambda _step, _begins: None,
    ) -> None:
        self.log: list[tuple[str, Step, int]] = []
        self.fails = fails
        self._pause = pause
        self._around = around
        self._random = random.Random(3)
        self._lock = threading.Lock()

    def _do(self, stage: Stage, item: int, slot: int) -> None:
        with self._lock:
            self.log.append(("begin", (stage, item), slot))
            pause = self._random.random() * self._pause
        self._around((stage, item), True)
        time.sleep(pause)
        self._around((stage, item), False)
        if self.fails == (stage, item):
            raise ValueError(f"{stage.name} of {item} failed.")
        with self._lock:
            self.log.append(("end", (stage, item), slot))

    def read(self, item: int, slot: int) -> None:
        self._do(Stage.READ, item, slot)

    def send(self, item: int, slot: int) -> None:
        self._do(Stage.SEND, item, slot)

    def compute(self, item: int, slot: int) -> None:
        self._do(Stage.COMPUTE, item, slot)

    def fetch(self, item: int, slot: int) -> None:
        self._do(Stage.FETCH, item, slot)

    def write(self, item: int, slot: int) -> None:
        self._do(Stage.WRITE, item, slot)


@contextmanager
def queues() -> Generator[HostQueues]:
    """Give a device of threads, of which none is left over."""
    before = threading.active_count()
    with HostQueues() as found:
        yield found
        assert threading.active_count() == before + 3
    assert threading.active_count() == before


def assert_kept(log: list[tuple[str, Step, int]], slots: int, reading: int = 1) -> None:
    """Raise where a step began before what it needs had ended, or a slot had two items."""
    begun: set[Step] = set()
    ended: set[Step] = set()
    for kind, step, slot in log:
        assert slot == step[1] % slots
        if kind == "end":
            ended.add(step)
            continue
        assert all(other in ended for other in needs(step, slots))
        # Several items may be written at the same time, and some be read.
        at_once = {Stage.READ: reading, Stage.WRITE: slots}.get(step[0], 1)
        begun.add(step)
        assert len([other for other in begun - ended if other[0] is step[0]]) <= at_once


@pytest.mark.parametrize("reading", [1, 2])
@pytest.mark.parametrize("slots", [1, 2, 3, 4])
def test_stages_keep_to_the_schedule(slots: int, reading: int) -> None:
    stages = Recorded(pause=0.004)
    with queues() as device:
        assert list(run_pipeline(stages, device, 12, slots, None, reading)) == list(range(12))
    assert_kept(stages.log, slots, reading)
    assert len(stages.log) == 2 * 5 * 12


def test_stages_overlap() -> None:
    """All are under way at a time: of items one behind the other, they wait for each other."""
    together = threading.Barrier(len(Stage))
    meeting = {(stage, len(Stage) - 1 - stage) for stage in Stage}

    def around(step: Step, begins: bool) -> None:
        if begins and step in meeting:
            together.wait(20)

    stages = Recorded(around=around)
    with queues() as device:
        assert len(list(run_pipeline(stages, device, 8, 3, None))) == 8
    assert not together.broken


@pytest.mark.parametrize(("stage", "item"), list(product(Stage, (0, 4, 9))))
def test_what_fails_is_told_once_and_leaves_nothing_running(stage: Stage, item: int) -> None:
    stages = Recorded(fails=(stage, item), pause=0.001)
    with queues() as device:
        got: list[int] = []
        with pytest.raises(ValueError, match=f"^{stage.name} of {item} failed.$"):
            got.extend(run_pipeline(stages, device, 10, 3, None))
        size = len(stages.log)
        assert_kept(stages.log, 3)
        assert ("end", (stage, item), item % 3) not in stages.log
        # The device is as good as new.
        again = Recorded()
        assert len(list(run_pipeline(again, device, 4, 3, None))) == 4
    assert len(stages.log) == size  # though every thread has done what it had to


def test_a_run_that_is_cancelled_ends() -> None:
    stages = Recorded(pause=0.002)
    written: list[int] = []
    with queues() as device:
        with pytest.raises(CancelledError):
            written.extend(run_pipeline(stages, device, 50, 3, lambda: len(seen(stages)) >= 5))
        size = len(stages.log)
    assert len(stages.log) == size < 2 * 5 * 20


def seen(stages: Recorded) -> list[int]:
    """Return the items that are written."""
    return [step[1] for kind, step, _ in stages.log if kind == "end" and step[0] is Stage.WRITE]


def test_who_wants_no_more_ends_a_run() -> None:
    stages = Recorded()
    with queues() as device:
        for item in run_pipeline(stages, device, 50, 2, None):
            if item == 2:
                break
        assert len(stages.log) < 2 * 5 * 20


BOX = st.tuples(*(st.tuples(st.integers(-3, 6), st.integers(1, 6)) for _ in range(3)))


def box_of(sides: Any) -> Box:
    i, j, k = (Span(start, start + size) for start, size in sides)
    return i, j, k


@settings(max_examples=200, deadline=None, derandomize=True)
@given(BOX, st.integers(0, 2), st.integers(-4, 4), st.integers(1, 6))
def test_what_is_shared_and_what_is_new_make_the_box(
    sides: Any, axis: int, move: int, size: int
) -> None:
    before = box_of(sides)
    moved = list(before)
    moved[axis] = Span(before[axis].start + move, before[axis].start + move + size)
    box = (moved[0], moved[1], moved[2])
    found = share(before, box)
    cells = set(product(*(range(span.start, span.stop) for span in box)))
    held = set(product(*(range(span.start, span.stop) for span in before)))
    kept = found.kept or (Span(0, 0),) * 3
    again = set(product(*(range(span.start, span.stop) for span in kept)))
    fresh = set(product(*(range(span.start, span.stop) for span in found.fresh)))
    assert again | fresh == cells
    assert not again & fresh
    assert again <= held
    assert found.complete == (not fresh)
    inside = box[axis].start > before[axis].start and box[axis].stop < before[axis].stop
    if cells & held and not inside and cells - held and move * (size - before[axis].size) <= 0:
        assert again == cells & held or not again


STAR = """
def star(u: Field[np.float32], m: Field[IJ, bool], v: Field[np.float32]):
    with computation(PARALLEL), interval(...):
        v = 0.25 * (u[1, 0, 0] + u[-2, 0, 0] + u[0, 1, 0] + u[0, -1, 0]) if m else u
"""


def stored(path: Path, compressors: Any) -> Path:
    group: Any = cast(Any, zarr).create_group(str(path), zarr_format=3)
    random = np.random.default_rng(9)
    made = {
        "u": random.normal(size=(2, 2, 37, 24)).astype("float32"),
        "m": random.random((37, 24)) > 0.4,
    }
    for name, values in made.items():
        array = group.create_array(
            name,
            shape=values.shape,
            chunks=(1, 2, 5, 12)[-values.ndim :],
            dtype=values.dtype,
            compressors=compressors,
            dimension_names=("time", "z", "y", "x")[-values.ndim :],
        )
        array[...] = values
    return path


def starred(store: Path, **arguments: Any) -> tuple[xr.Dataset, Planned, Finished]:
    events: list[Event] = []
    result = run(
        STAR,
        store,
        steps=5,
        feedback={"v": "u"},
        target="reference",
        on_event=events.append,
        **arguments,
    )
    planned, finished = events[0], events[-1]
    assert isinstance(planned, Planned)
    assert isinstance(finished, Finished)
    return result, planned, finished


@pytest.mark.parametrize("compressors", [None, "auto"])
@pytest.mark.parametrize("side", ["periodic", "edge"])
def test_stores_go_through_with_the_bytes_of_the_plain_path(
    tmp_path: Path, compressors: Any, side: str
) -> None:
    """Raw chunks as files, and compressed ones through the cache; into stores of both kinds."""
    store = stored(tmp_path / "in.zarr", compressors)
    sides = {"boundary": {"x": "periodic", "y": side}, "chunks": {"y": 10}}
    expected, _, plain = starred(
        store, **sides, options=Options(pipeline_depth=0, steps_per_pass=2)
    )
    for slots, order in ((1, "row"), (3, "auto")):
        output = tmp_path / f"out-{slots}.zarr"
        options = Options(
            pipeline_depth=slots, steps_per_pass=2, compressed=slots == 1, order=order
        )
        got, planned, finished = starred(store, **sides, output=output, options=options)
        assert got["v"].values.tobytes() == expected["v"].values.tobytes()
        assert finished.fetches == planned.predicted_fetches
        assert (planned.cache_bytes == 0) == (compressors is None)
        # Neighbours hand on their halos: all rows are read once, and those at the seam again.
        row = 2 * (2 * 24 * 4 + 24)
        seam = 2 * 2 * 2 + 2 if side == "periodic" else 0
        assert finished.bytes_read <= (3 * 37 + seam) * row < plain.bytes_read


@pytest.mark.parametrize("side", ["periodic", "edge"])
def test_blocks_that_are_alike_are_queued_at_once(tmp_path: Path, side: str) -> None:
    """Of nine alike blocks in three slots the first is queued step by step, and three are kept."""
    store = tmp_path / "in.zarr"
    group: Any = cast(Any, zarr).create_group(str(store), zarr_format=3)
    values = np.random.default_rng(1).normal(size=(88, 20)).astype("float32")
    for name, part in (("u", values), ("m", values > 0)):
        array = group.create_array(
            name, shape=part.shape, chunks=(8, 20), dtype=part.dtype, dimension_names=("y", "x")
        )
        array[...] = part
    arguments: dict[str, Any] = {"boundary": {"x": "periodic", "y": side}, "chunks": {"y": 8}}
    plain, _, _ = starred(store, **arguments, options=Options(pipeline_depth=0, steps_per_pass=5))
    with patch.object(HostQueues, "record", autospec=True, side_effect=HostQueues.record) as record:
        got, _, _ = starred(store, **arguments, options=Options(pipeline_depth=3, steps_per_pass=5))
    assert got["v"].values.tobytes() == plain["v"].values.tobytes()
    # The first one has nothing before it, and the last one hands nothing on.
    assert record.call_count == 3


def test_many_steps_on_the_same_cells_are_repeated() -> None:
    """Points of another dimension, each on the whole of I and J: the bytes of the plain path."""
    values = np.random.default_rng(1).normal(size=(3, 12, 10)).astype("float32")
    data = xr.Dataset({"u": (("time", "y", "x"), values), "m": (("y", "x"), values[0] > 0)})
    arguments: dict[str, Any] = {"boundary": {"x": "periodic", "y": "edge"}, "steps": 41}
    arguments |= {"feedback": {"v": "u"}, "target": "reference"}
    results = [
        run(STAR, data, **arguments, options=Options(pipeline_depth=slots, steps_per_pass=41))
        for slots in (0, 2)
    ]
    assert results[0]["v"].values.tobytes() == results[1]["v"].values.tobytes()


@pytest.mark.parametrize("piece", [100, 8 << 20])
def test_passes_in_memory_are_copied_in_pieces(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays in any order of dimensions, cells beyond both ends, several passes."""
    monkeypatch.setattr(staged, "_PIECE", piece)
    values = np.random.default_rng(1).normal(size=(2, 23, 3, 10)).astype("float32")
    data = xr.Dataset({"u": (("z", "x", "time", "y"), values)})
    data["m"] = (("x", "y"), values[0, :, 0] > 0)
    axes = {"I": "x", "J": "y", "K": "z"}
    arguments: dict[str, Any] = {"boundary": {"x": "periodic", "y": "edge"}, "steps": 5}
    arguments |= {"feedback": {"v": "u"}, "target": "reference", "axes": axes, "chunks": {"x": 7}}
    plain = run(STAR, data, **arguments, options=Options(pipeline_depth=0, steps_per_pass=2))
    with patch.object(staged, "_copy", side_effect=getattr(staged, "_copy")) as copy:  # noqa: B009
        got = run(STAR, data, **arguments, options=Options(pipeline_depth=2, steps_per_pass=2))
    assert got["v"].values.tobytes() == plain["v"].values.tobytes()
    assert copy.call_count > 0


def test_datasets_without_levels_are_read_as_files_too(tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(size=(24, 20)).astype("float32")
    store = tmp_path / "in.zarr"
    group: Any = cast(Any, zarr).create_group(str(store), zarr_format=3)
    for name, part in (("u", values), ("m", values > 0)):
        plain_chunks: dict[str, Any] = {"compressors": None, "dimension_names": ("y", "x")}
        array = group.create_array(
            name, shape=part.shape, chunks=(5, 20), dtype=part.dtype, **plain_chunks
        )
        array[...] = part
    plain, _, _ = starred(store, chunks={"y": 6}, options=Options(pipeline_depth=0))
    with (
        patch.object(RawArray, "read_into", autospec=True, side_effect=RawArray.read_into) as read,
        patch.object(RawArray, "write", autospec=True, side_effect=RawArray.write) as write,
    ):
        options = Options(pipeline_depth=2, steps_per_pass=5, compressed=False)
        output = tmp_path / "out.zarr"
        got, _, _ = starred(store, chunks={"y": 6}, output=output, options=options)
    assert got["v"].values.tobytes() == plain["v"].values.tobytes()
    assert (read.call_count, write.call_count) == (2 * 4, 4)


def test_a_block_that_fails_ends_the_run(tmp_path: Path) -> None:
    store = stored(tmp_path / "in.zarr", "auto")
    (store / "u" / "c" / "1" / "0" / "4" / "1").write_bytes(b"no chunk")
    before = set(threading.enumerate())
    with pytest.raises(DatasetError, match=r"Chunk \(1, 0, 4, 1\) of variable 'u' .*/4/1'"):
        starred(
            store, chunks={"y": 10}, output=tmp_path / "out.zarr", options=Options(pipeline_depth=3)
        )
    names = ("read", "write", "sending", "computing", "fetching", "chunks", "Thread")
    left = set(threading.enumerate()) - before
    assert not [one for one in left if one.name.startswith(names)]
    assert not (tmp_path / "out.zarr").exists()


def test_a_pipeline_is_projected_and_refused() -> None:
    data = xr.Dataset({"u": (("y", "x"), np.ones((64, 64), "float32"))})
    data["m"] = (("y", "x"), np.ones((64, 64), bool))
    _, planned, _ = starred_array(data, Options(pipeline_depth=3, steps_per_pass=5))
    _, plain, _ = starred_array(data, Options(pipeline_depth=0, steps_per_pass=5))
    assert planned.projected_bytes > plain.projected_bytes > 0
    held = 3 * data["u"].nbytes
    scarce = Options(
        pipeline_depth=3, steps_per_pass=5, memory_limit=planned.projected_bytes // 2 + held
    )
    with pytest.raises(CapacityError, match=r"^The smallest block needs"):
        starred_array(data, scarce)


def starred_array(data: xr.Dataset, options: Options) -> Any:
    return starred(cast(Any, data), chunks={"y": 16, "x": 64}, options=options)
