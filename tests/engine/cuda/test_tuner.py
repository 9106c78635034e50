"""Tuning without a device: a machine that computes nothing, and a stopwatch that a test sets."""

from __future__ import annotations

import gc
import json
import logging
import re
import threading
import weakref
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from emulation.machine import EmulatedMachine
from idle import DOMAIN, FAST, USUAL, Bench, IdleMachine
from programs import DIFFUSION, SCALED, Box, drawn, reference, scheduled

import halocline_engine as he
from halocline_engine.backends.cuda.autotune.choice import Choice, choice_from, choice_text
from halocline_engine.backends.cuda.autotune.executable import TunedExecutable
from halocline_engine.backends.cuda.autotune.tuner import Device, Tuner
from halocline_engine.backends.cuda.model.launch import Dim3
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.backends.cuda.runtime.executable import CudaExecutable
from halocline_engine.cache import Cache
from halocline_engine.errors import ArgumentError, DeviceError
from halocline_engine.functions.stencil import Stencil
from halocline_engine.schedule.tune_cost import Chip


def test_nothing_known_is_the_usual_way(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert bench.call() == USUAL
    assert bench.timed == 0
    assert not bench.files()
    assert bench.executable.tilings()[0] == "tiles of 70 x 40 x 9 points by the cost model"


def test_what_was_measured_is_used_here_and_by_other_processes(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    tuning = bench.tune()
    assert tuning is not None
    assert tuning.gain == pytest.approx(2.0)
    assert tuning.subject.device == "Fake 1"
    assert tuning.subject.shape == "64+ odd x 32+ x 8+"
    assert bench.call() == FAST
    other = Bench(tmp_path)
    assert other.call() == FAST
    assert other.timed == 0
    title, kernel = other.executable.tilings()
    gain = f"as measured on {tuning.date}, 2.00 times as fast as unmeasured"
    assert title == f"tiles of 70 x 40 x 9 points {gain}"
    assert kernel.startswith("  kernel0: blocks of 64 x 2 threads")
    assert Bench(tmp_path, "off").call() == USUAL


def test_that_the_usual_way_is_best_is_kept_as_well(tmp_path: Path) -> None:
    bench = Bench(tmp_path, seconds={})
    tuning = bench.tune()
    assert tuning is not None
    assert choice_from(tuning.options) == Choice()
    assert bench.call() == USUAL
    found = f"by the cost model, the best of {len(tuning.measured)} on {tuning.date}"
    assert bench.executable.tilings()[0].endswith(found)


def test_measuring_writes_nothing_of_the_users(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.tune()
    a, b = (bench.idle.address(bench.fields[name]) for name in "ab")
    start = bench.fields["a"].strides[1]
    timed = bench.idle.launched[-1].addresses
    assert timed[0] == a + start
    assert timed[1] != b
    assert (timed[1] - b) % 256 == 0
    bench.call()
    assert bench.idle.launched[-1].addresses == (a + start, b)


def test_calls_go_on_as_usual_while_candidates_are_compiled(tmp_path: Path) -> None:
    gate = threading.Event()
    caller = threading.current_thread()

    def compiling(_: str) -> None:
        if threading.current_thread() is not caller:
            gate.wait(60)

    bench = Bench(tmp_path, "measure", idle=IdleMachine(compiling))
    assert [bench.call() for _ in range(3)] == [USUAL] * 3
    assert bench.timed == 0
    gate.set()
    bench.settled()
    assert bench.call() == FAST
    timed = bench.timed
    assert timed > 0
    assert bench.call() == FAST
    assert bench.timed == timed
    assert len(bench.files()) == 1


def test_a_trial_ends_in_its_time_with_what_is_compiled(tmp_path: Path) -> None:
    gate = threading.Event()
    lagging: list[str] = []

    def compiling(source: str) -> None:
        if "__launch_bounds__(128)" not in source:
            lagging.append(source)
            gate.wait(60)

    bench = Bench(tmp_path, "measure", idle=IdleMachine(compiling))
    bench.call()
    while not lagging or not bench.idle.sources:
        threading.Event().wait(0.01)
    assert bench.call() == USUAL
    bench.time = 17.0
    bench.call()
    (path,) = bench.files()
    gate.set()
    bench.settled()
    failures = [one["failure"] for one in json.loads(path.read_text())["measured"]]
    assert "It was not compiled in time." in failures
    assert failures[0] == ""


def test_what_does_not_compile_or_launch_is_recorded(tmp_path: Path) -> None:
    def compiling(source: str) -> None:
        if "__launch_bounds__(256)" in source:
            raise DeviceError("The compiler gave up.")

    bench = Bench(tmp_path, idle=IdleMachine(compiling), seconds={})
    bench.idle.refused = {FAST}
    tuning = bench.tune()
    assert tuning is not None
    failures = {one.failure for one in tuning.measured}
    assert failures >= {"", "The compiler gave up.", f"A block of {FAST} is refused."}
    assert bench.call() == USUAL


def test_tiles_that_do_not_compile_any_more_are_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    large = (32, 8, 1)
    Bench(tmp_path, seconds={large: 0.5}).tune()
    assert Bench(tmp_path).call() == large

    def compiling(source: str) -> None:
        if "__launch_bounds__(256)" in source:
            raise DeviceError("The compiler gave up.")

    other = Bench(tmp_path, idle=IdleMachine(compiling), cubins=tmp_path / "other")
    with caplog.at_level(logging.WARNING):
        assert other.call() == USUAL
    assert (
        "Tiles that were measured before do not compile now: The compiler gave up." in caplog.text
    )


@pytest.mark.parametrize(
    ("pattern", "instead", "reason"),
    [
        ("(?s).*", "nonsense", "Expecting value: line 1 column 1 (char 0)."),
        ("Fake 1", "Fake 2", "it is that of another subject."),
        ('"rows"', '"rose"', "a tile has rose"),
        ('"rows": [0-9]+', '"rows": 0', "a tile is empty or too large."),
        ("(?s).*", "[" * 100_000, "recursion"),
    ],
)
def test_a_bad_file_is_passed_over_and_replaced(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    pattern: str,
    instead: str,
    reason: str,
) -> None:
    Bench(tmp_path).tune()
    (path,) = Bench(tmp_path).files()
    good = path.read_text()
    path.write_text(re.sub(pattern, instead, good, count=0 if '"' in pattern else 1))
    assert path.read_text() != good
    with caplog.at_level(logging.WARNING):
        bench = Bench(tmp_path)
        assert bench.call() == USUAL
    assert f"The tuning in {path} is passed over: " in caplog.text
    assert reason in caplog.text
    bench.tune()
    assert Bench(tmp_path).call() == FAST


def test_where_there_is_no_room_nothing_is_tuned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(tmp_path)
    bench.idle.full = True
    with caplog.at_level(logging.WARNING):
        assert bench.tune() is None
    assert (
        "A program was not tuned, as its arrays leave no memory: There is no room." in caplog.text
    )
    assert bench.call() == USUAL
    assert not bench.files()


def test_a_clock_that_fails_does_not_fail_the_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(tmp_path, "measure")
    bench.call()
    bench.settled()
    bench.broken = True
    with caplog.at_level(logging.WARNING):
        assert bench.call() == USUAL
    assert "A program was not tuned: The clock stopped." in caplog.text
    assert bench.call() == USUAL
    assert not bench.files()
    with pytest.raises(DeviceError):
        bench.tune()


def test_nothing_is_measured_while_work_is_recorded(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "measure")
    bench.call()
    bench.settled()
    blocks: list[Dim3] = []
    bench.executable.repeat(lambda: blocks.append(bench.call()), 3)
    assert blocks == [USUAL] * 3
    assert bench.timed == 0
    assert bench.call() == FAST


def test_arrays_that_share_memory_are_left_alone(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "measure")
    whole = np.asfortranarray(drawn((72, 42, 9)))
    bench.fields = {"a": whole, "b": whole[:70, :40]}
    assert bench.tune() is None
    bench.call()
    bench.call()
    assert bench.timed == 0


def test_the_best_of_several_kernels_are_measured_together(tmp_path: Path) -> None:
    text = """
def two(a: Field[float64], b: Field[float64], c: Field[float64]):
    with computation(FORWARD), interval(1, None):
        b = a[1, 0, 0] + b[0, 0, -1]
    with computation(PARALLEL), interval(...):
        c = a[-1, 0, 0] + a[1, 0, 0]
"""
    bench = Bench(tmp_path, schedule=scheduled(text), seconds={(32, 8, 1): 0.5, (64, 1, 1): 0.5})
    bench.fields = {n: np.asfortranarray(drawn((72, 42, 9), s)) for s, n in enumerate("abc")}
    bench.origins = dict.fromkeys("abc", (1, 1, 0))
    tuning = bench.tune()
    assert tuning is not None
    assert tuning.label == "the best of each kernel"
    assert tuning.gain == pytest.approx(2.0)
    assert dict(choice_from(tuning.options).tiles).keys() == {"kernel0", "kernel1"}


def test_temporaries_may_go_elsewhere(tmp_path: Path, machine: EmulatedMachine) -> None:
    """What was chosen runs with the bits of the reference, whatever the schedule was."""
    schedule = scheduled(DIFFUSION)
    fields = {"inp": drawn((21, 15, 4)), "coeff": drawn((21, 15, 4), 1)}
    fields["out"] = np.full((21, 15, 4), np.nan)
    fields = {name: np.asfortranarray(array) for name, array in fields.items()}
    origins: dict[str, Box] = dict.fromkeys(fields, (2, 2, 0))
    expected = reference(schedule, fields, {}, origins, (17, 11, 4))
    bench = Bench(tmp_path, schedule=schedule)
    bench.fields, bench.origins = fields, origins
    tuning = bench.executable.tune(fields, {}, origins, (17, 11, 4), 20.0)
    assert tuning is not None
    other = choice_text(Choice((), "field"))
    chosen = replace(tuning, options=other, label="temporaries: field", chosen=0.1)
    bench.tunings.store(replace(chosen, measured=(replace(tuning.measured[0], options=other),)))
    device = Device("Fake 1", Chip(), lambda _: 1.0)
    executable = TunedExecutable(
        Tuner(schedule, device, bench.tunings), machine, Cache(tmp_path / "emulated")
    )
    executable(fields, {}, origins, (17, 11, 4))
    np.testing.assert_array_equal(fields["out"], expected["out"])
    assert len({name for name, _, _ in machine.loaded[-1].launched}) > 1
    code = weakref.ref(machine.loaded.pop())
    executable.forget()
    gc.collect()
    assert code() is not None
    executable(fields, {}, origins, (17, 11, 4))
    head = executable.tilings()[0]
    assert head.startswith("tiles of 17 x 11 x 4 points with temporaries in 'field', as measured")


@dataclass(frozen=True)
class Benched:
    """An artifact that is the bench's executable when it is loaded."""

    bench: Bench
    source: str = ""

    def load(self) -> TunedExecutable:
        return self.bench.executable


def test_a_stencil_is_tuned_and_says_so(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    compiled = he.stencil(SCALED, target="reference").compiled
    stencil = Stencil(replace(compiled, artifact=Benched(bench)))
    alone = stencil.show("schedule")
    assert "tiles" not in alone
    tuning = stencil.tune(**bench.fields, c=0.5, origin=bench.origins, domain=DOMAIN, seconds=5.0)
    assert tuning is not None
    assert tuning.label.startswith("kernel0: blocks of 64 x 2 threads")
    stencil(**bench.fields, c=0.5, origin=bench.origins, domain=DOMAIN)
    assert stencil.show("schedule") == alone + "".join(
        f"{line}\n" for line in bench.executable.tilings()
    )
    assert "2.00 times as fast as unmeasured" in stencil.show("schedule")


def test_tiles_that_are_given_are_called_so(tmp_path: Path) -> None:
    schedule = scheduled(SCALED)
    given = Choice((("kernel0", Tile((16, 8))),)).tile_for
    executable = CudaExecutable(schedule, IdleMachine(), Cache(tmp_path), given)
    bench = Bench(tmp_path)
    executable(bench.fields, {"c": 0.5}, bench.origins, DOMAIN)
    assert executable.tilings() == (
        "tiles of 70 x 40 x 9 points as they were given",
        "  kernel0: blocks of 16 x 8 threads",
    )


def test_off_measures_nothing(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError) as caught:
        Bench(tmp_path, "off").tune()
    assert str(caught.value) == (
        "The stencil was made with tune='off', so measurements would have no effect."
        " Leave 'tune' out, or use tune='cached'."
    )
