"""Halos that threads hand over, as devices would store them into each other's memory."""

from __future__ import annotations

import queue
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from halocline_engine.backends.targets import TARGETS
from halocline_engine.distribute.communicators.base import Communicator
from halocline_engine.distribute.exchanges import halos
from halocline_engine.distribute.resident import fields, overlap

__all__ = ["hand_over"]

_Links = dict[tuple[int, int], "queue.SimpleQueue[list[Any]]"]


@dataclass
class _HandedOver:
    """The ends of links in one rank; as `exchanges.peers.PeerMemory`."""

    rank: int
    links: _Links

    def exchange(
        self, sent: Mapping[int, Sequence[Any]], received: Mapping[int, Sequence[Any]]
    ) -> Callable[[], None]:
        def act() -> None:
            for rank, views in sent.items():
                self.links[self.rank, rank].put([view.copy() for view in views])
            for rank, views in received.items():
                got = self.links[rank, self.rank].get(timeout=60.0)
                for view, values in zip(views, got, strict=True):
                    view[...] = values

        return act

    def check(self) -> None: ...

    def end(self) -> None: ...

    def close(self) -> None: ...


def hand_over(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """Let ranks of this process exchange halos so, and overlap blocks of any size.

    For that, the target is taken for one of a device.
    """
    links: _Links = defaultdict(queue.SimpleQueue)

    def connect(communicator: Communicator, *_: object) -> _HandedOver:
        return _HandedOver(communicator.rank, links)

    of_device = {**TARGETS, target: replace(TARGETS[target], on_device=True)}
    monkeypatch.setattr(fields, "TARGETS", of_device)
    monkeypatch.setattr(halos, "connect", connect)
    monkeypatch.setattr(overlap, "WORTH", 1)
