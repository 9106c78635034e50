"""Samples of memory and processors while a job runs, and the load of workers until now."""

from __future__ import annotations

import time
from typing import Any

import pytest

from halocline_engine.errors import ClusterError
from halocline_service.dispatcher.attempts import usage
from halocline_service.dispatcher.attempts.usage import Sample, Usage, measure
from halocline_service.dispatcher.workers import Recent


class Event:
    def __init__(self, kind: str) -> None:
        self.kind = kind

    @property
    def progress(self) -> float:
        return 0.5

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "_LEAST_SECONDS", 0.005)


def kinds(told: list[Any]) -> list[str]:
    return [event.to_json()["kind"] for event in told]


def test_samples_are_told_between_events_until_the_last_one() -> None:
    told: list[Any] = []
    with Usage(told.append, lambda: Sample(2**20, 1.257, 2)) as watched:
        watched.tell(Event("planned"))
        deadline = time.monotonic() + 10
        while kinds(told).count("usage") < 2 and time.monotonic() < deadline:
            time.sleep(0.005)
        watched.tell(Event("finished"))
        time.sleep(0.05)
        watched.tell(Event("ceilings"))
    assert kinds(told)[0] == "planned"
    assert kinds(told)[-2:] == ["finished", "ceilings"]
    sample = next(event for event in told if event.to_json()["kind"] == "usage")
    assert sample.to_json() == {
        "kind": "usage",
        "memory": 2**20,
        "processors": 1.26,
        "workers": 2,
    }


def test_a_scheduler_that_is_away_ends_no_job() -> None:
    asked: list[int] = []

    def sample() -> Sample:
        asked.append(1)
        raise ClusterError("The scheduler does not answer.")

    told: list[Any] = []
    with Usage(told.append, sample):
        deadline = time.monotonic() + 10
        while len(asked) < 3 and time.monotonic() < deadline:
            time.sleep(0.005)
    assert len(asked) >= 3
    assert told == []


def test_without_a_cluster_this_process_is_measured() -> None:
    sample = measure(None)()
    assert sample.workers == 1
    assert sample.memory > 2**20
    assert sample.progress == 0.0


def test_the_load_of_workers_is_kept_for_a_while() -> None:
    now = [0.0]
    recent = Recent(lambda: now[0])

    def look(**cpu: float) -> dict[str, list[list[float]]]:
        workers = [{"name": name, "cpu": value, "memory": 8} for name, value in cpu.items()]
        return {each["name"]: each["recent"] for each in recent.of(workers)}

    assert look(a=1.0, b=2.0) == {"a": [[1.0, 8]], "b": [[2.0, 8]]}
    now[0] = 1.0
    assert look(a=3.0) == {"a": [[1.0, 8]]}  # too soon for another sample
    now[0] = 6.0
    assert look(a=3.0, c=4.0) == {"a": [[1.0, 8], [3.0, 8]], "c": [[4.0, 8]]}
    for _ in range(100):
        now[0] += 6.0
        look(a=5.0)
    assert look(a=5.0) == {"a": [[5.0, 8]] * 60}
