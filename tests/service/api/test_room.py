"""What is on its way has its room before it comes."""

from __future__ import annotations

import select
import socket
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import pytest
from deadlines import until

from halocline_service.api.problems import ProblemError
from halocline_service.api.requests.room import Held, Room

if TYPE_CHECKING:
    from tests.service.conftest import Running


class Usage(NamedTuple):
    free: int


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    free = {"free": 1000}

    def usage(_: Path) -> Usage:
        return Usage(free["free"])

    monkeypatch.setattr("halocline_service.api.requests.room.shutil.disk_usage", usage)
    return free


def test_what_is_promised_is_not_promised_twice(disk: dict[str, int]) -> None:
    room = Room(Path("x"), headroom=100, largest=10_000)
    with room.hold("a", 0) as first, room.hold("b", 0) as second:
        take(first, 600)
        with pytest.raises(ProblemError, match="the disk is full"):
            take(second, 301)
        take(second, 300)
        first.wrote(500)
        disk["free"] -= 500
        with pytest.raises(ProblemError, match="the disk is full"):
            take(second, 301)
    disk["free"] = 1000
    with room.hold("a", 0) as again:
        take(again, 900)


def take(held: Held, size: int) -> None:
    """Announce an object, and have all of it come."""
    held.check(size)
    held.extend(size)


def test_what_is_announced_and_does_not_come_takes_no_room(disk: dict[str, int]) -> None:
    room = Room(Path("x"), headroom=100, largest=10_000)
    with ExitStack() as opened:
        for number in range(100):
            held = opened.enter_context(room.hold(f"a{number}", 0))
            held.check(900)
            with pytest.raises(ProblemError, match="the disk is full"):
                held.check(901)
        other = opened.enter_context(room.hold("b", 0))
        take(other, 900)


def test_what_comes_counts_for_the_upload(disk: dict[str, int]) -> None:
    disk["free"] = 10**9
    room = Room(Path("x"), headroom=0, largest=1000)
    with room.hold("a", 300) as first, room.hold("a", 300) as second, room.hold("b", 0) as other:
        take(first, 600)
        with pytest.raises(ProblemError, match="has more than 1000 bytes"):
            take(second, 101)
        take(second, 100)
        take(other, 1000)


def test_half_sent_objects_have_their_room(
    idle: Running, live: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of ten objects of 400 kB that are announced and not sent, two fit the upload of 1 MiB."""
    url = idle.client.post("/uploads").json()["href"].removeprefix("http://testserver")
    (parts,) = (idle.settings.data_dir / "uploads").glob("*.parts")
    port = urlsplit(live).port
    with ExitStack() as opened:
        unanswered = select.poll()
        for number in range(10):
            peer = opened.enter_context(closing(socket.create_connection(("127.0.0.1", port))))
            head = (
                f"PUT {url}/c{number} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 400000\r\n\r\n"
            )
            peer.sendall(head.encode() + bytes(100))
            if number < 2:
                unanswered.register(peer, select.POLLIN)
                until(lambda number=number: len(list(parts.iterdir())) == number + 1)
            else:
                peer.settimeout(10.0)
                assert peer.recv(12) == b"HTTP/1.1 413"
        assert not unanswered.poll(0)
    until(lambda: not list(parts.iterdir()))
    assert idle.client.put(f"{url}/c0", content=bytes(400_000)).status_code == 204
