"""Tests of what pipelines of a run share."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from halocline_engine.distribute.belt import open_belt, turns


@pytest.fixture
def thawed() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("thawed")
def test_the_collector_passes_over_what_was_there_before_a_run() -> None:
    with open_belt("cpu"):
        assert gc.get_freeze_count() > 1000
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("thawed")
def test_the_collector_is_as_before_when_a_run_fails() -> None:
    with pytest.raises(RuntimeError), open_belt("cpu"):
        raise RuntimeError
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("thawed")
def test_what_the_caller_told_the_collector_stays() -> None:
    gc.freeze()
    count = gc.get_freeze_count()
    with open_belt("cpu"), open_belt("cpu"):
        assert gc.get_freeze_count() == pytest.approx(count, rel=0.01)
    assert gc.get_freeze_count() == pytest.approx(count, rel=0.01)


@pytest.mark.parametrize(
    ("cores", "reading", "writing"), [(1, 1, 1), (2, 1, 1), (8, 2, 4), (16, 5, 9), (64, 20, 36)]
)
def test_cores_are_divided_between_reading_and_writing(
    cores: int, reading: int, writing: int
) -> None:
    assert turns(cores) == (reading, writing)
