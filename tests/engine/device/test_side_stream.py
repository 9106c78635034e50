"""Work beside other work, on fake streams: what waits for what."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from halocline_engine.device.launch import streams


class Fakes:
    """Streams and events of a device that note what is queued, in order."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.current = "main"

    def stream(self, *, non_blocking: bool, priority: int) -> Any:
        assert (non_blocking, priority) == (True, -5)
        return FakeStream(self, "side")

    def event(self, *, disable_timing: bool) -> Any:
        assert disable_timing
        return FakeEvent(self)

    def cupy(self) -> Any:
        cuda = SimpleNamespace(
            Stream=self.stream,
            Event=self.event,
            get_current_stream=lambda: FakeStream(self, self.current),
        )
        return SimpleNamespace(cuda=cuda)

    def act(self, name: str) -> Any:
        return lambda: self.log.append(f"{self.current}: {name}")


class FakeStream:
    def __init__(self, fakes: Fakes, name: str) -> None:
        self.fakes, self.name = fakes, name

    def wait_event(self, event: FakeEvent) -> None:
        self.fakes.log.append(f"{self.name} waits for {event.of}")

    def __enter__(self) -> None:
        self.fakes.current = self.name

    def __exit__(self, *_: object) -> None:
        self.fakes.current = "main"


class FakeEvent:
    of = ""

    def __init__(self, fakes: Fakes) -> None:
        self.fakes = fakes

    def record(self, stream: FakeStream) -> None:
        self.of = stream.name


def test_both_begin_after_what_is_queued_and_both_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fakes = Fakes()
    monkeypatch.setattr(streams, "cupy", fakes.cupy)
    side = streams.SideStream()
    side([fakes.act("inside")], [fakes.act("edges"), fakes.act("halos")])
    assert fakes.log == [
        "side waits for main",
        "side: edges",
        "side: halos",
        "main: inside",
        "main waits for side",
    ]
