"""Tests of what pipelines of a run share."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from halocline_engine.distribute.pipeline.resources import cores_of, io_threads, open_resources


@pytest.fixture
def thawed() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()
    gc.freeze()  # as for all tests


@pytest.mark.usefixtures("thawed")
def test_the_collector_passes_over_what_was_there_before_a_run() -> None:
    with open_resources("cpu"):
        assert gc.get_freeze_count() > 1000
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("thawed")
def test_the_collector_is_as_before_when_a_run_fails() -> None:
    with pytest.raises(RuntimeError), open_resources("cpu"):
        raise RuntimeError
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("thawed")
def test_what_the_caller_told_the_collector_stays() -> None:
    gc.freeze()
    count = gc.get_freeze_count()
    with open_resources("cpu"), open_resources("cpu"):
        assert gc.get_freeze_count() == pytest.approx(count, rel=0.01)
    assert gc.get_freeze_count() == pytest.approx(count, rel=0.01)


@pytest.mark.parametrize(
    ("cores", "reading", "writing"), [(1, 1, 1), (2, 1, 1), (8, 2, 4), (16, 5, 9), (64, 20, 36)]
)
def test_cores_are_divided_between_reading_and_writing(
    cores: int, reading: int, writing: int
) -> None:
    assert io_threads(cores) == (reading, writing)


@pytest.mark.parametrize(
    ("there", "mine", "workers_per_host", "cores"),
    [(32, 32, 1, 32), (32, 32, 2, 16), (32, 16, 2, 16), (32, 8, 2, 8), (2, 2, 4, 1)],
)
def test_processes_of_a_machine_share_its_cores(
    there: int, mine: int, workers_per_host: int, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that may use some of them only has no more than its share already."""
    monkeypatch.setattr(os, "cpu_count", lambda: there)
    monkeypatch.setattr(os, "sched_getaffinity", Mock(return_value=set(range(mine))))
    assert cores_of(workers_per_host) == cores
