"""Workers of a Dask cluster, as they come, go and fall silent.

A scheduler knows at once of a worker that ends, and of one that is stopped or cut off only by its
silence. Silence is what was seen of it in many looks: where this process itself was stopped, or did
not let its scheduler run, no worker is lost.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from halocline_engine.distribute.executors.base import POLL
from halocline_engine.errors import ClusterError

__all__ = ["AT_HAND", "PATIENCE", "Workers", "ask_scheduler"]

#: One block computes while another one is read or written.
AT_HAND = 2
#: Seconds until workers that are not heard of are given up.
PATIENCE = 12.0
# Seconds until one worker among others is passed over. Heartbeats come every half second, and less
# often from many workers.
_SILENT = 7.0
_WORKERS_PER_SECOND = 20
_LOOK_SECONDS = 1.0
# However long ago the last look was, it adds no more than this to a silence.
_LONGEST_STEP = 3.0
_ANSWER_SECONDS = 10
# The resource that workers with a device offer.
_DEVICE = "GPU"


class Workers:
    """The workers that may be used, looked up again from time to time."""

    def __init__(self, client: Any, only: frozenset[str] | None = None, offer: str = "") -> None:
        self.client = client
        self._only = only
        self._offer = offer
        self._found: Mapping[str, Any] = {}
        self._looked: float | None = None
        self._heard: dict[str, tuple[object, float]] = {}
        self._quiet = 0.0
        self._lost: ClusterError | None = None

    def look(self) -> Mapping[str, Any]:
        """Return the workers by address, none for a while where they may come back.

        Raises `ClusterError` where there has been none for `PATIENCE` seconds, and where the
        scheduler does not answer.
        """
        now = time.monotonic()
        passed = 0.0 if self._looked is None else now - self._looked
        if self._looked is not None and passed < _LOOK_SECONDS:
            return self._found
        there = {a: facts for a, facts in self._everyone().items() if self._fits(a, facts)}
        self._looked = now
        step = min(passed, _LONGEST_STEP)
        self._listen(there, step)
        silent = max(_SILENT, len(there) / _WORKERS_PER_SECOND)
        self._found = {a: facts for a, facts in there.items() if self._heard[a][1] < silent}
        self._quiet = min((s for _, s in self._heard.values()), default=self._quiet + step)
        if self._quiet > PATIENCE:
            raise ClusterError(
                "The cluster has no worker that can be used.", hint="Start some workers."
            )
        return self._found

    def now(self) -> Mapping[str, Any]:
        """Return the workers by address, and wait for one; raises `ClusterError` as `look`."""
        while not self.look():
            time.sleep(POLL)
        return self._found

    def among(self, addresses: Iterable[str]) -> Workers:
        """Choose those of some addresses; by the resource that they alone offer, if they do."""
        chosen = frozenset(addresses)
        offering = frozenset(
            a for a, facts in self.now().items() if facts.get("resources", {}).get(_DEVICE)
        )
        return Workers(self.client, chosen, _DEVICE if offering == chosen else "")

    def demand(self) -> dict[str, Any]:
        """Return what `Client.submit` is told, so that these workers get the work."""
        if self._offer:
            return {"resources": {self._offer: 1 / AT_HAND}}
        return {} if self._only is None else {"workers": sorted(self.now())}

    def _everyone(self) -> Mapping[str, Any]:
        """Return all workers by address; a scheduler that did not answer once is lost."""
        if self._lost is not None:
            raise self._lost
        try:
            return ask_scheduler(self.client, "identity", n_workers=-1)["workers"]
        except ClusterError as error:
            self._lost = error
            raise

    def _fits(self, address: str, facts: Mapping[str, Any]) -> bool:
        if self._offer:
            return bool(facts.get("resources", {}).get(self._offer))
        return self._only is None or address in self._only

    def _listen(self, there: Mapping[str, Any], step: float) -> None:
        """Add up for each worker the seconds since it was heard of."""
        before, self._heard = self._heard, {}
        for address, facts in there.items():
            seen = facts.get("last_seen")
            last, silence = before.get(address, (None, 0.0))
            quiet = address in before and seen == last
            self._heard[address] = (seen, silence + step if quiet else 0.0)


def ask_scheduler(client: Any, what: str, **told: Any) -> Any:
    """Call a function of the scheduler. Raises `ClusterError` where it does not answer.

    `Client.scheduler_info` would wait for a scheduler that is stopped, and return what it knew of
    one that is gone.
    """
    if client.status == "closed":
        raise _lost("it is closed")
    try:
        return client.sync(
            getattr(client.scheduler, what), callback_timeout=_ANSWER_SECONDS, **told
        )
    except (OSError, TimeoutError, RuntimeError) as error:
        raise _lost(f"{type(error).__name__}: {error}") from error


def _lost(how: str) -> ClusterError:
    return ClusterError(
        f"The scheduler does not answer: {how}.",
        hint="Start it again, and run the job with the same workspace.",
    )
