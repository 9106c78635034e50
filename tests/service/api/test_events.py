"""Progress by server-sent events."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx2
from tests.service.conftest import HELD

if TYPE_CHECKING:
    from tests.service.conftest import Running


@dataclass
class Sent:
    id: int
    kind: str
    data: dict[str, Any]


def read(service: Running, job: str, last: int | None = None) -> list[Sent]:
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    answer = service.client.get(f"/jobs/{job}/events", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    return parse(answer.text)


def parse(text: str) -> list[Sent]:
    sent: list[Sent] = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line[:1] != ":")
        if fields:
            sent.append(Sent(int(fields["id"]), fields["event"], json.loads(fields["data"])))
    return sent


def test_history_is_told_and_ends(service: Running) -> None:
    job = service.submit()
    service.wait(job)
    events = read(service, job)
    kinds = [each.kind for each in events]
    assert list(dict.fromkeys(kinds)) == ["status", "planned", "block-finished", "finished"]
    assert (kinds[:3], kinds[-2:]) == (["status", "status", "planned"], ["finished", "status"])
    statuses = [each.data["status"] for each in events if each.kind == "status"]
    assert statuses == ["accepted", "running", "successful"]
    assert events[2].data["mode"] == "streamed"
    assert events[-1].data["progress"] == 1
    assert [each.id for each in events] == sorted({each.id for each in events})
    assert all(each.data["at"].endswith("Z") for each in events)


def test_a_stream_that_was_cut_goes_on(service: Running) -> None:
    job = service.submit()
    service.wait(job)
    events = read(service, job)
    for cut in range(len(events)):
        assert read(service, job, last=events[cut].id) == events[cut + 1 :]
    after = service.client.get(f"/jobs/{job}/events?after={events[1].id}")
    assert parse(after.text) == events[2:]


@contextmanager
def following(live: str, job: str) -> Generator[Iterator[Sent]]:
    """Give events as they come."""
    with httpx2.stream("GET", f"{live}/jobs/{job}/events", timeout=30) as answer:
        yield (each for text in blocks(answer.iter_lines()) for each in parse(text))


def blocks(lines: Iterator[str]) -> Iterator[str]:
    while text := "\n".join(iter(lambda: next(lines, ""), "")):
        yield text


def test_what_happens_is_told_while_it_happens(service: Running, live: str) -> None:
    """Each block before the next one is done."""
    job = service.submit(scalars=HELD | {"blocks": 6})
    with following(live, job) as events:
        for number in range(1, 6):
            service.engine.turns.release()
            finished = next(each for each in events if each.kind == "block-finished")
            assert finished.data["done"] == number
        service.engine.turns.release()
        *_, last = events
    assert last.data["status"] == "successful"


def test_frequent_events_are_thinned_out(service: Running) -> None:
    job = service.submit(scalars={"blocks": 2000})
    service.wait(job)
    assert len(read(service, job)) < 100


def test_a_dismissed_job_ends_its_stream(service: Running, live: str) -> None:
    job = service.submit(scalars=HELD)
    service.wait(job, "running")
    with following(live, job) as events:
        assert any(each.data.get("status") == "running" for each in events)
        service.client.delete(f"/jobs/{job}")
        *_, last = events
    assert last.data["status"] == "dismissed"


def test_a_wrong_event_id_is_refused(idle: Running) -> None:
    job = idle.submit()
    for wrong in ("x", "-1", "9" * 30):
        answer = idle.client.get(f"/jobs/{job}/events", headers={"Last-Event-ID": wrong})
        assert (answer.status_code, answer.json()["code"]) == (400, "argument")
