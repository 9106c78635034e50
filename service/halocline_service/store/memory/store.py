"""A store in one process: for tests and for trying things, and the reference for the SQL store."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from halocline_service.jobs.job import JsonObject, new_id
from halocline_service.store.base import ApiKey, Clock, Store
from halocline_service.store.memory.jobs import MemoryChanges, MemoryJobs
from halocline_service.store.memory.uploads import MemoryRemoved, MemoryUploads
from halocline_service.store.waits import Heard

__all__ = ["MemoryKeys", "MemoryPresence", "memory_store"]


def memory_store(*, clock: Clock = time.time, ticks: Clock = time.monotonic) -> Store:
    """Make an empty store that lives as long as this process.

    `clock` tells the time, and may be set; `ticks` is monotonic.
    """
    removed = MemoryRemoved(clock)
    uploads = MemoryUploads(clock, removed)
    identity = new_id()
    changes = MemoryChanges()
    return Store(
        jobs=MemoryJobs(clock, ticks, changes, uploads, removed),
        uploads=uploads,
        keys=MemoryKeys(clock),
        presence=MemoryPresence(clock, ticks),
        removed=removed,
        identity=lambda: identity,
        changes=changes,
        check=_check,
        close=lambda: None,
    )


class MemoryKeys:
    """`KeyStore` in a dictionary."""

    def __init__(self, clock: Clock) -> None:
        self._now = clock
        self._keys: dict[str, ApiKey] = {}

    def add(self, key_id: str, *, owner: str, digest: str) -> ApiKey:
        """Keep a new key."""
        key = ApiKey(id=key_id, owner=owner, digest=digest, created=self._now(), revoked=None)
        self._keys[key_id] = key
        return key

    def get(self, key_id: str) -> ApiKey | None:
        """Give a key that was not revoked."""
        found = self._keys.get(key_id)
        return found if found is not None and found.revoked is None else None

    def list(self) -> Sequence[ApiKey]:
        """Give all keys, oldest first."""
        return sorted(self._keys.values(), key=lambda each: each.created)

    def revoke(self, key_id: str) -> bool:
        """Make a key void; False where there is none."""
        found = self.get(key_id)
        if found is not None:
            self._keys[key_id] = replace(found, revoked=self._now())
        return found is not None


class MemoryPresence:
    """`PresenceStore` in a dictionary."""

    def __init__(self, clock: Clock, ticks: Clock) -> None:
        self._now = clock
        self._heard = Heard(clock, ticks)
        self._seen: dict[str, tuple[float, dict[str, Any]]] = {}

    def beat(self, name: str, info: JsonObject) -> None:
        """Say that a dispatcher is alive."""
        self._seen[name] = (self._now(), dict(info))

    def alive(self, *, within: float) -> Sequence[JsonObject]:
        """Give what the dispatchers said that were heard of in the last seconds."""
        names = self._heard.within(within, {name: at for name, (at, _) in self._seen.items()})
        return [self._seen[name][1] for name in sorted(names)]


def _check(*, writes: bool = False) -> None:
    """Find the store well."""
