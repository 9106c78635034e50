"""Waiting, events, results and failures, against prepared answers."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any, cast

import httpx2
import numpy as np
import pytest

from halocline.client import Client
from halocline.config import Settings
from halocline.connection import Connection
from halocline.errors import (
    ArgumentError,
    CancelledError,
    ConnectionFailed,
    JobFailed,
    NameRuleError,
    NotFoundError,
    WaitTimeout,
)
from halocline.events import Event
from halocline.inputs.program import program_source
from halocline.job import Job

PLANNED = {
    "kind": "planned",
    "progress": 0.0,
    "target": "cpu",
    "steps": 4,
    "passes": 2,
    "blocks": 3,
}
PASSES = [
    {"kind": "pass-finished", "progress": 0.5, "pass_index": 0, "passes": 2, "steps_done": 2},
    {"kind": "pass-finished", "progress": 1.0, "pass_index": 1, "passes": 2, "steps_done": 4},
]
EVENTS = [PLANNED, *PASSES]


class Fake:
    """A job that ends after some questions for its status, and a stream that may break."""

    def __init__(self, ending: str = "successful", *, running_for: int = 0, **members: Any) -> None:
        self.ending = ending
        self.running_for = running_for
        self.members = members
        self.stream: Callable[[int], httpx2.Response] = self.whole
        self.paths: list[str] = []
        self.after: list[str | None] = []
        self.slept: list[float] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.paths.append(f"{request.method} {request.url.raw_path.decode()}")
        if request.url.path.endswith("/events"):
            self.after.append(request.headers.get("Last-Event-ID"))
            return self.stream(int(self.after[-1] or 0))
        if request.url.path.endswith("/log"):
            return httpx2.Response(200, text="a line\n")
        if request.url.path.endswith("/plan"):
            return httpx2.Response(200, json=PLANNED)
        return httpx2.Response(200, json=self.status())

    def status(self) -> dict[str, Any]:
        self.running_for -= 1
        status = "running" if self.running_for >= 0 else self.ending
        return {"jobID": "17", "status": status, "progress": 40, **self.members}

    def whole(self, after: int) -> httpx2.Response:
        return self.sse(EVENTS[after:], after)

    def sse(self, events: list[dict[str, Any]], after: int) -> httpx2.Response:
        lines = [
            f"id: {number}\nevent: {event['kind']}\ndata: {json.dumps(event)}\n\n"
            for number, event in enumerate(events, after + 1)
        ]
        content = ": hello\n\n" + "".join(lines)
        return httpx2.Response(200, text=content, headers={"Content-Type": "text/event-stream"})

    def job(self) -> Job:
        transport = httpx2.MockTransport(self)
        connection = Connection(Settings("http://service"), transport, sleep=self.slept.append)
        return Job(connection, "17")


def test_events_come_in_order_with_their_members() -> None:
    events = list(Fake().job().events())
    assert [event.kind for event in events] == ["planned", "pass-finished", "pass-finished"]
    assert [event.progress for event in events] == [0.0, 0.5, 1.0]
    assert [event.id for event in events] == ["1", "2", "3"]
    assert events[0].data["target"] == "cpu"


def test_a_stream_that_breaks_goes_on_after_the_last_event() -> None:
    fake = Fake(running_for=2)

    def short(after: int) -> httpx2.Response:
        return fake.sse(EVENTS[after : after + 1], after)

    fake.stream = short
    assert [event.data for event in fake.job().events()] == EVENTS
    assert fake.after == [None, "1", "2"]


@pytest.mark.parametrize("answer", [404, 406, 500])
def test_without_a_stream_the_status_is_asked_for_more_and_more_rarely(answer: int) -> None:
    fake = Fake(running_for=12)
    fake.stream = lambda _after: httpx2.Response(answer)
    events = list(fake.job().events())
    assert events == [Event("status", {"status": "running", "message": None, "progress": 0.4})] * 12
    assert fake.slept[:3] == pytest.approx([0.3, 0.45, 0.675])
    assert max(fake.slept) == 10.0


def test_a_lost_stream_and_a_lost_service_are_waited_for() -> None:
    fake = Fake(running_for=1)
    lost: list[Exception] = [httpx2.ConnectError("gone") for _ in range(8)]

    def answer(request: httpx2.Request) -> httpx2.Response:
        if lost:
            raise lost.pop()
        return fake(request)

    connection = Connection(
        Settings("http://service"), httpx2.MockTransport(answer), sleep=fake.slept.append
    )
    events = list(Job(connection, "17").events())
    assert [event.data for event in events if event.id] == EVENTS


def test_waiting_ends_with_the_state() -> None:
    assert Fake("failed", running_for=1).job().wait() == "failed"


def test_waiting_can_be_limited() -> None:
    fake = Fake(running_for=10**6)
    with pytest.raises(WaitTimeout) as caught:
        fake.job().wait(timeout=0.02)
    assert str(caught.value) == (
        "Job '17' has not ended before the timeout. "
        "The job continues: wait again, or dismiss it with 'cancel'."
    )


def test_a_failed_job_raises_its_reason() -> None:
    problem = {
        "code": "program-name",
        "detail": "The name 'c' is unknown.",
        "line": 2,
        "column": 5,
        "status": 400,
    }
    with pytest.raises(JobFailed) as caught:
        Fake("failed", exception=problem).job().result()
    assert isinstance(caught.value.error, NameRuleError)
    assert caught.value.__cause__ is caught.value.error
    assert (caught.value.job_id, caught.value.error.line) == ("17", 2)
    assert str(caught.value) == "Job '17' failed.\nline 2, column 5: The name 'c' is unknown."


def test_a_failed_job_without_a_reason_says_so() -> None:
    with pytest.raises(JobFailed, match=r"Job '17' failed\.\nThe reason is unknown\."):
        Fake("failed").job().result()


def test_a_dismissed_job_has_no_result() -> None:
    with pytest.raises(CancelledError) as caught:
        Fake("dismissed").job().result()
    assert str(caught.value) == (
        "Job '17' was dismissed and has no result. Submit it again with 'job.clone()'."
    )


def test_cancelling_sends_a_delete_only_if_the_job_is_alive() -> None:
    alive = Fake("dismissed", running_for=1)
    assert alive.job().cancel() == "dismissed"
    assert alive.paths == ["GET /jobs/17", "DELETE /jobs/17?ended=keep", "GET /jobs/17"]
    ended = Fake("successful")
    assert ended.job().cancel() == "successful"
    assert ended.paths == ["GET /jobs/17"]


def test_log_plan_status_and_progress() -> None:
    job = Fake().job()
    assert (job.log(), job.plan(), job.status, job.progress) == (
        "a line\n",
        PLANNED,
        "successful",
        0.4,
    )


def test_an_interrupt_leaves_the_job_alone_and_tells_the_way_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake = Fake(running_for=5)

    def interrupted(_after: int) -> httpx2.Response:
        raise KeyboardInterrupt

    fake.stream = interrupted
    with pytest.raises(KeyboardInterrupt):
        fake.job().result(progress=False)
    assert capsys.readouterr().err == (
        "\nJob 17 continues. Return to it with halocline.Client('http://service').job('17')"
        ".result(), or cancel it with: halocline cancel 17\n"
    )
    assert not [path for path in fake.paths if path.startswith("DELETE")]


def test_a_pickled_job_holds_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings("http://service", "hc_secret")
    data = pickle.dumps(Job(Connection(settings, httpx2.MockTransport(Fake())), "17"))
    assert b"secret" not in data
    monkeypatch.setenv("HALOCLINE_KEY", "hc_other")
    again = pickle.loads(data)
    assert (again.id, again.url) == ("17", "http://service")
    assert again == Fake().job()
    assert len({again, Fake().job()}) == 1


def test_a_job_shows_itself() -> None:
    job = Fake(processID="stencil", message="<b>", created="2026-01-02T03:04:05Z").job()
    assert repr(job) == "<halocline.Job 17 at http://service>"
    table: str = cast("Any", job)._repr_html_()
    assert "<th>state</th><td>successful &lt;b&gt;</td>" in table
    assert '<progress max="100" value="40"></progress> 40 %' in table
    assert "2026-01-02" in table or "2026-01-01" in table


def client(answer: Callable[[httpx2.Request], httpx2.Response]) -> Client:
    return Client("http://service", transport=httpx2.MockTransport(answer))


def test_a_stencil_sends_only_what_was_said() -> None:
    bodies: list[dict[str, Any]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        bodies.append(json.loads(request.content))
        assert request.headers["Prefer"] == "respond-async"
        return httpx2.Response(201, json={"jobID": "17", "status": "accepted"})

    with client(answer) as c:
        c.stencil("def f(a):\n    a = N\n", "upload:1")
        job = c.stencil(
            "def f(a):\n    a = N\n",
            "upload:1",
            fields={"a": "tos"},
            scalars={"s": 2, "t": np.float32(0.5)},
            externals={"N": 3},
            dtypes={"T": "f4"},
            stencil_name="f",
            axes={"I": "x", "K": None},
            boundary={"x": "periodic"},
            steps=5,
            snapshot_every=2,
            feedback={"b": "a"},
            target="cpu",
            mode="streamed",
            chunks={"x": 10},
        )
    text = "def f(a):\n    a = N\n"
    base = {"program": text, "dataset": "upload:1"}
    assert bodies[0] == {"inputs": {**base, "steps": 1, "target": "auto", "mode": "auto"}}
    assert bodies[1] == {
        "inputs": {
            **base,
            "fields": {"a": "tos"},
            "scalars": {"s": 2, "t": 0.5},
            "externals": {"N": 3},
            "dtypes": {"T": "float32"},
            "stencil_name": "f",
            "axes": {"I": "x", "K": None},
            "boundary": {"x": "periodic"},
            "steps": 5,
            "snapshot_every": 2,
            "feedback": {"b": "a"},
            "target": "cpu",
            "mode": "streamed",
            "chunks": {"x": 10},
        }
    }
    assert job.id == "17"


def test_a_refused_program_is_shown_in_the_users_file() -> None:
    def program(a: object, b: object) -> None:
        _ = a, b

    problem = {"code": "program-name", "detail": "No.", "line": 2, "column": 5}
    with (
        client(lambda _request: httpx2.Response(400, json=problem)) as c,
        pytest.raises(NameRuleError) as caught,
    ):
        c.stencil(program, "upload:1")
    own = program_source(program).spans[0].file_line
    assert caught.value.place == f"{__file__}, line {own + 1}, column 5"


HALVED = """
def halved(a: Field[float]):
    with computation(PARALLEL), interval(...):
        a = H * a
"""


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"scalars": {"s": "x"}},
            "The value of 's' in 'scalars' must be a number, got 'str'. Write for example "
            "scalars={'s': 0.5}.",
        ),
        (
            {"externals": {"H": np.float32(1)}},
            "The value of 'H' in 'externals' is 'float32', a type that JSON does not have. Write "
            "it as a constant in the program, such as 'HALF = np.float32(0.5)'.",
        ),
        ({"dtypes": {"T": "nothing"}}, "'nothing' in 'dtypes' is not the type of a number."),
    ],
)
def test_arguments_that_cannot_be_sent_are_named(options: dict[str, Any], text: str) -> None:
    with (
        client(lambda _request: httpx2.Response(500)) as c,
        pytest.raises(ArgumentError) as caught,
    ):
        c.stencil(HALVED, "upload:1", **options)
    assert str(caught.value) == text


def test_jobs_are_found_again() -> None:
    fake = Fake()

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/jobs":
            assert request.url.query in (b"limit=5", b"limit=100")  # ends of ids are looked up
            return httpx2.Response(200, json={"jobs": [{"jobID": "2"}, {"jobID": "1"}]})
        if request.url.path == "/jobs/3":
            return httpx2.Response(404, json={"code": "no-such-job", "detail": "No job '3'."})
        return fake(request)

    with client(answer) as c:
        assert [job.id for job in c.jobs(5)] == ["2", "1"]
        assert c.job("17").id == "17"
        with pytest.raises(NotFoundError, match=r"^No job '3'\. 'client\.jobs\(\)' lists yours"):
            c.job("3")
        assert repr(c) == "<halocline.Client of http://service>"


def test_a_service_that_does_not_come_back_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("halocline.events._PATIENCE", 0.0)

    def answer(_request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("gone")

    connection = Connection(
        Settings("http://service"), httpx2.MockTransport(answer), sleep=lambda _seconds: None
    )
    with pytest.raises(ConnectionFailed):
        Job(connection, "17").wait()
