"""Waits of kernels end with the job, whatever the thread of the rank waits for."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from halocline_engine.distribute.communicators.base import RankLostError
from halocline_engine.distribute.communicators.local import LocalCommunicator, Mailbox
from halocline_engine.distribute.exchanges.peers import (
    PeerMemory,
    _numbered,  # pyright: ignore[reportPrivateUsage]
)


@dataclass
class Word:
    """A number that kernels look at, and an event when it is changed."""

    value: int = 0
    changed: threading.Event = field(default_factory=threading.Event)

    def set(self, value: int) -> None:
        self.value = value
        self.changed.set()


def memory(mailbox: Mailbox, word: Word) -> PeerMemory:
    absent: Any = None
    none: dict[Any, Any] = {}
    places = (none, none, frozenset[int](), none, none, 0, none, absent, absent)
    return PeerMemory(LocalCommunicator(0, 2, mailbox), absent, *places, cast("Any", word))


@pytest.mark.parametrize("way", ["lost", "cancelled"])
def test_kernels_wait_no_more_when_the_job_is_to_end(way: str) -> None:
    cancelled = threading.Event()
    mailbox, word = Mailbox(cancelled.is_set), Word()
    peers = memory(mailbox, word)
    peers.watch()
    assert not word.changed.wait(0.2)
    if way == "lost":
        mailbox.lose("Rank 1 is gone.")
        with pytest.raises(RankLostError):
            mailbox.check()
    else:
        cancelled.set()
    assert word.changed.wait(10.0)
    assert word.value == 1
    peers.close()


def test_nothing_is_watched_after_the_end() -> None:
    mailbox, word = Mailbox(), Word()
    before = set(threading.enumerate())
    peers = memory(mailbox, word)
    peers.watch()
    (thread,) = set(threading.enumerate()) - before
    peers.close()
    thread.join(10.0)
    assert not thread.is_alive()
    assert not word.changed.is_set()


def test_short_messages_both_ways_have_numbered_words() -> None:
    """Both ranks of a pair find the same, whatever each of them sends."""
    sizes = {(0, 1): 64, (1, 0): 64, (0, 2): 64, (2, 1): 1 << 24, (1, 2): 64}
    found = {
        rank: _numbered(
            {to: size for (of, to), size in sizes.items() if of == rank},
            {of: size for (of, to), size in sizes.items() if to == rank},
            4,
        )
        for rank in range(3)
    }
    assert found == {0: {1}, 1: {0}, 2: set()}
    assert not _numbered({1: 64}, {1: 64}, 2)
