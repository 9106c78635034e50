"""Communication between threads of one process: messages are handed over as they are."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from halocline_engine.distribute.communicators.base import SILENCE, RankLostError, Tag
from halocline_engine.distribute.tasks.cancel import CancelToken, raise_if_cancelled

__all__ = ["LocalCommunicator", "Mailbox"]

#: Seconds between two looks at whether someone asked for the end.
_LOOK = 0.1


class Mailbox:
    """The messages that came and were not yet received, by receiver, sender and tag.

    `cancelled` says True from the moment that the job is to end. Threads may put messages in before
    anybody waits for them.
    """

    def __init__(self, cancelled: CancelToken | None = None) -> None:
        self._cancelled = cancelled
        self._changed = threading.Condition()
        self._messages: dict[tuple[int, int, Tag], NDArray[Any]] = {}
        self._heard: set[tuple[int, int]] = set()
        self._lost = ""

    def put(self, to: int, source: int, tag: Tag, values: NDArray[Any]) -> None:
        """Leave a message for a rank."""
        with self._changed:
            self._messages[to, source, tag] = values
            self._heard.add((to, source))
            self._changed.notify_all()

    def take(self, to: int, source: int, tag: Tag) -> NDArray[Any]:
        """Return a message for a rank, and wait for it; see `Communicator.receive`."""
        until = time.monotonic() + SILENCE
        with self._changed:
            while (to, source, tag) not in self._messages:
                if time.monotonic() > until and (to, source) in self._heard:
                    raise RankLostError(f"Rank {source} sent nothing for {SILENCE:.0f} s.")
                self.check()
                self._changed.wait(_LOOK)
            return self._messages.pop((to, source, tag))

    def lose(self, why: str) -> None:
        """Let every wait of the job end, now and later: a rank is gone."""
        with self._changed:
            self._lost = self._lost or why
            self._changed.notify_all()

    def check(self) -> None:
        """Raise where the job is to end."""
        raise_if_cancelled(self._cancelled)
        if self._lost:
            raise RankLostError(self._lost)


@dataclass(frozen=True, slots=True)
class LocalCommunicator:
    """The other ranks of this process, which share a mailbox."""

    rank: int
    size: int
    mailbox: Mailbox

    def send(self, to: int, tag: Tag, values: NDArray[Any]) -> None:
        """Hand an array over."""
        self.mailbox.put(to, self.rank, tag, values)

    def receive(self, source: int, tag: Tag) -> NDArray[Any]:
        """Return the array that a rank sends under a tag."""
        return self.mailbox.take(self.rank, source, tag)

    def check(self) -> None:
        """Raise where the job is to end."""
        self.mailbox.check()
