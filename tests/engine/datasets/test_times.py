"""Dates, durations, and records that are read several at once."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from halocline_engine.datasets.stores.source import Arrays
from halocline_engine.datasets.times.dates import duration_of, shown_duration
from halocline_engine.datasets.times.forcing import ForcedField, RecordGroups
from halocline_engine.datasets.times.records import Windows
from halocline_engine.errors import ArgumentError


@pytest.mark.parametrize("seed", range(4))
def test_records_of_a_chunk_are_read_at_once(seed: int) -> None:
    random = Random(seed)
    size, place = random.randint(5, 30), random.randint(0, 2)
    chunk, count = random.randint(1, 12), random.randint(1, 5)
    count = min(count, chunk)
    shape = [4, 6]
    shape.insert(place, size)
    values = np.random.default_rng(seed).normal(size=shape)
    reads: list[tuple[int, int]] = []

    class Counted(Arrays):
        def read(self, name: str, region: Any) -> Any:
            reads.append((region[place].start, region[place].stop))
            return super().read(name, region)

    windows = Windows(np.zeros((1, 1), np.int64), np.zeros((1, 0)))
    field = ForcedField("f", "f", "time", place, "float64", size, chunk, windows)
    groups = RecordGroups(Counted({"f": values}), field, count)
    region = (slice(1, 3), slice(2, 6))
    for number in range(size):
        found = groups.record(number).read("f", region)
        np.testing.assert_array_equal(found, np.take(values, number, axis=place)[region])
    covered = [number for first, last in reads for number in range(first, last)]
    assert covered == list(range(size))
    assert all(last - first <= count for first, last in reads)
    assert all(first // chunk == (last - 1) // chunk for first, last in reads)


@pytest.mark.parametrize("text", ["1us", "250ms", "90s", "15min", "7h", "3D", "36h"])
def test_durations_are_shown_as_they_are_read(text: str) -> None:
    count = duration_of("x", text)
    assert duration_of("x", shown_duration(count)) == count


@pytest.mark.parametrize(
    "wrong", ["", "min", "1.5h", "-1h", "0s", "1Y", None, np.timedelta64("NaT")]
)
def test_others_are_refused(wrong: object) -> None:
    with pytest.raises(ArgumentError, match="must be an exact positive duration"):
        duration_of("x", wrong)
