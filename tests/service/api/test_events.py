"""Progress by server-sent events."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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


def test_what_happens_is_told_while_it_happens(service: Running) -> None:
    job = service.submit(scalars={"blocks": 6, "seconds": 0.25})
    arrived: list[float] = []
    events: list[Sent] = []

    def listen() -> None:
        events.extend(read(service, job))
        arrived.append(time.monotonic())

    listener = threading.Thread(target=listen)
    listener.start()
    service.wait(job)
    ended = time.monotonic()
    listener.join(timeout=10)
    assert arrived[0] - ended < 5
    blocks = [each.data["done"] for each in events if each.kind == "block-finished"]
    assert blocks == sorted(blocks)
    assert len(blocks) >= 4
    assert events[-1].data["status"] == "successful"


def test_frequent_events_are_thinned_out(service: Running) -> None:
    job = service.submit(scalars={"blocks": 2000})
    service.wait(job)
    assert len(read(service, job)) < 100


def test_a_dismissed_job_ends_its_stream(service: Running) -> None:
    job = service.submit(scalars={"blocks": 1000, "seconds": 0.05})
    service.wait(job, "running")
    threading.Timer(0.3, lambda: service.client.delete(f"/jobs/{job}")).start()
    assert read(service, job)[-1].data["status"] == "dismissed"


def test_a_wrong_event_id_is_refused(idle: Running) -> None:
    job = idle.submit()
    for wrong in ("x", "-1", "9" * 30):
        answer = idle.client.get(f"/jobs/{job}/events", headers={"Last-Event-ID": wrong})
        assert (answer.status_code, answer.json()["code"]) == (400, "argument")
