"""Transports of halos between ranks, and about how long they take."""

from __future__ import annotations

from dataclasses import dataclass

from halocline_engine.backends.targets import TARGETS

__all__ = ["MESSAGES", "NO_TRANSPORT", "PEER_MEMORY", "Transport", "transport_of"]


@dataclass(frozen=True, slots=True)
class Transport:
    """A transport of halos: its name, the seconds of an exchange, and those of each byte of it.

    Ranks compute cells inside while others are under way where it is `queued` on a device.
    """

    name: str
    latency: float
    byte: float
    queued: bool = False


NO_TRANSPORT = Transport("none", 0.0, 0.0)
MESSAGES = Transport("messages", 1.5e-3, 1.5e-9)
PEER_MEMORY = Transport("peer memory", 1e-5, 1e-11, queued=True)


def transport_of(target: str, ranks: int, *, remote: bool, same_host: bool) -> Transport:
    """Return how halos shall go between so many ranks, which find out whether they can.

    `remote` ranks are other processes than this one, on its host if `same_host`.
    """
    if ranks == 1:
        return NO_TRANSPORT
    return PEER_MEMORY if TARGETS[target].on_device and remote and same_host else MESSAGES
