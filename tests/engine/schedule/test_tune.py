"""Proposing, measuring and choosing, with a clock that says what a test wants."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pytest

from halocline_engine.errors import DeviceError
from halocline_engine.schedule.tune import (
    Candidate,
    Measured,
    Subject,
    Tuning,
    choose,
    measured,
    proposed,
    shape_class,
    tuning_from,
    tuning_text,
)
from halocline_engine.schedule.tune_cost import Chip, Work, estimate


def candidate(name: str, cost: float = 1.0, family: str = "", group: str = "") -> Candidate:
    return Candidate(name, json.dumps({"name": name}), cost, group, family or name)


USUAL, FAST, SLOW, BROKEN = map(candidate, ("usual", "fast", "slow", "broken"))


@dataclass
class Clock:
    """Each timing takes a second of the test's own time; `pace` slows all candidates together."""

    seconds: Mapping[str, float]
    pace: Callable[[float], float] = lambda _: 1.0
    time: float = 0.0
    asked: list[str] = field(default_factory=list[str])

    def now(self) -> float:
        return self.time

    def __call__(self, one: Candidate) -> float:
        self.time += 1
        self.asked.append(one.label)
        if one.label not in self.seconds:
            raise DeviceError(f"{one.label} does not run.")
        return self.seconds[one.label] * self.pace(self.time)


def test_the_fastest_is_chosen_whatever_the_pace_of_the_device() -> None:
    clock = Clock({"usual": 1.0, "fast": 0.8, "slow": 2.0}, pace=lambda t: 1 + t / 100)
    results = measured((USUAL, SLOW, FAST), clock, clock.now, until=1000)
    assert choose(results).label == "fast"
    assert results[2].seconds == pytest.approx(0.8 * (results[0].seconds or 0), rel=0.02)
    assert clock.asked.count("slow") == 2
    assert clock.asked.count("fast") == clock.asked.count("usual") == 7


def test_what_does_not_run_is_left_out_and_says_why() -> None:
    clock = Clock({"usual": 1.0, "fast": 0.5})
    results = measured((USUAL, BROKEN, FAST), clock, clock.now, until=1000)
    assert results[1] == Measured("broken", '{"name": "broken"}', None, 0, "broken does not run.")
    assert clock.asked.count("broken") == 1
    assert choose(results).label == "fast"


def test_a_default_that_does_not_run_is_an_error() -> None:
    clock = Clock({"fast": 0.5})
    with pytest.raises(DeviceError):
        measured((USUAL, FAST), clock, clock.now, until=1000)


@pytest.mark.parametrize(("until", "timings"), [(0.0, 1), (2.0, 2), (8.0, 8)])
def test_measuring_ends_in_time_and_few_rounds_choose_nothing(until: float, timings: int) -> None:
    clock = Clock({"usual": 1.0, "fast": 0.99, "slow": 1.01})
    results = measured((USUAL, FAST, SLOW), clock, clock.now, until)
    assert len(clock.asked) == timings
    if timings == 1:
        assert [one.failure for one in results] == ["", *["No time was left."] * 2]
    assert choose(results).label == "usual"


def test_a_gain_within_the_noise_is_none() -> None:
    clock = Clock({"usual": 1.0, "fast": 0.985})
    assert choose(measured((USUAL, FAST), clock, clock.now, until=1000)).label == "usual"
    clock = Clock({"usual": 1.0, "fast": 0.975})
    assert choose(measured((USUAL, FAST), clock, clock.now, until=1000)).label == "fast"


def test_few_of_a_family_are_proposed_and_the_default_always() -> None:
    family = [candidate(f"a{n}", 1 + n / 10, "a") for n in range(6)]
    others = [candidate("b", 3.0), candidate("never", float("inf")), candidate("usual", 0.1)]
    default = candidate("usual", 9.0)
    found = [one.label for one in proposed((default, *family, *others), most=12)]
    assert found == ["usual", "a0", "a1", "b"]
    assert [one.label for one in proposed((default, *family), most=2)] == ["usual", "a0"]
    slower = [candidate(f"k{n}", 5.0 + n, group="k") for n in range(3)]
    found = [one.label for one in proposed((default, *family, *others, *slower), most=5)]
    assert found == ["usual", "a0", "k0", "a1", "k1"]


def test_shapes_of_one_class_share_a_measurement() -> None:
    same = shape_class((1021, 1000, 90), exact_levels=False)
    assert same == shape_class((777, 600, 127), exact_levels=False)
    assert same != shape_class((1024, 1000, 90), exact_levels=False)
    assert same != shape_class((1021, 1000, 130), exact_levels=False)
    assert shape_class((1, 1, 1), exact_levels=True) == "1+ odd x 1+ x 1"


TUNING = Tuning(
    Subject("Fake 1", "abc", "1+ x 1+ x 1+", "float64", "s0"),
    FAST.options,
    "fast",
    1.0,
    0.8,
    (Measured("usual", USUAL.options, 1.0, 7), Measured("fast", FAST.options, 0.8, 7)),
    3.5,
    "2026-11-21",
)


def test_a_tuning_travels_as_text() -> None:
    assert tuning_from(tuning_text(TUNING)) == TUNING
    assert TUNING.gain == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": 2}, "its format is 2, expected 1"),
        ({"measured": []}, "its choice was not measured"),
        ({"measured": 3}, "'measured' is no list"),
        ({"chosen": "soon"}, "'chosen' is no float"),
        ({"subject": None}, "'subject' is no object"),
        ({"options": [1]}, "'options' is no object"),
        (
            {"more": 1},
            "the names of Tuning are not subject, options, label, default, chosen, measured, took,"
            " date",
        ),
    ],
)
def test_what_is_no_tuning_is_refused_with_the_reason(
    change: dict[str, object], reason: str
) -> None:
    record = json.loads(tuning_text(TUNING)) | change
    with pytest.raises(ValueError, match=r".") as caught:
        tuning_from(json.dumps(record))
    assert str(caught.value) == reason


WORK = Work(100_000, 128, 64, 0, 96, 96, 1e9)
CHIP = Chip()


@pytest.mark.parametrize(
    "worse",
    [
        {"moved": 2e9},
        {"under_way": 8},
        {"registers": 250, "under_way": 32},
        {"shared": 200 * 1024, "under_way": 32},
        {"loaded": 960},
        {"blocks": 132 * 8 + 1, "moved": 1e7},
    ],
    ids=str,
)
def test_a_model_sees_what_makes_kernels_slow(worse: dict[str, int]) -> None:
    changed = replace(WORK, **worse)
    before = WORK
    if "registers" in worse or "shared" in worse:
        before = replace(WORK, under_way=32)
    if "blocks" in worse:
        before = replace(changed, blocks=132 * 8)
    assert estimate(changed, CHIP) > estimate(before, CHIP)


@pytest.mark.parametrize("much", [{"registers": 256}, {"shared": 10**6}, {"threads": 4096}])
def test_what_does_not_fit_a_device_takes_forever(much: dict[str, int]) -> None:
    assert estimate(replace(WORK, **much), CHIP) == float("inf")
