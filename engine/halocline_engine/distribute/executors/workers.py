"""Workers of a Dask cluster, as they come, go, fall silent and pause.

A scheduler knows at once of a worker whose process or machine is gone: its connection ends, as the
system acknowledges packets for a process that computes, and not for a machine that is gone. Silence
is less: a worker that compiles on a busy machine sends no heartbeat for long. Silence is what was
seen in many looks: where this process itself was stopped, or did not let its scheduler run, no
worker is lost.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from halocline_engine.distribute.executors.base import POLL
from halocline_engine.distribute.tasks.events import WorkerStalled
from halocline_engine.errors import CapacityError, ClusterError, HaloclineError

__all__ = ["AT_HAND", "PATIENCE", "SILENT", "Workers", "ask_scheduler"]

#: One block computes while another one is read or written.
AT_HAND = 2
#: Seconds until a run ends that has no worker which it may use.
PATIENCE = 12.0
#: Seconds of silence until a worker that is connected is passed over.
SILENT = 60.0
# Seconds until a worker is passed over that Dask has paused, which starts no block any more.
_PAUSED = 20.0
# Seconds of either until the events of a run say so.
_STALLED = 10.0
_LOOK_SECONDS = 1.0
# However long ago the last look was, it adds no more than this to a silence.
_LONGEST_STEP = 3.0
# Longer than a stopped scheduler lasts where its starter ends it.
_ANSWER_SECONDS = 30
# The resource that workers with a device offer.
_DEVICE = "GPU"


@dataclass(frozen=True, slots=True)
class _State:
    """A worker as it was seen: its last sign, seconds of silence and of a pause."""

    last: object
    silent: float = 0.0
    paused: float = 0.0

    def after(self, facts: Mapping[str, Any], step: float) -> _State:
        """Return the state after another look, so many seconds later."""
        last, is_paused = facts.get("last_seen"), facts.get("status") == "paused"
        return _State(
            last,
            self.silent + step if last == self.last else 0.0,
            self.paused + step if is_paused else 0.0,
        )

    @property
    def is_usable(self) -> bool:
        """Whether blocks may be sent there."""
        return self.silent < SILENT and self.paused < _PAUSED

    @property
    def stall(self) -> str:
        """Reason why the worker gets nothing done; empty where it is not known to."""
        if self.paused >= _STALLED:
            return "paused"
        return "silent" if self.silent >= _STALLED else ""


class Workers:
    """The workers that may be used, looked up again from time to time."""

    def __init__(self, client: Any, only: frozenset[str] | None = None, offer: str = "") -> None:
        self.client = client
        self._only = only
        self._offer = offer
        self._found: Mapping[str, Any] = {}
        self._looked: float | None = None
        self._states: dict[str, _State] = {}
        self._without = 0.0
        self._notices: list[WorkerStalled] = []
        self._lost: ClusterError | None = None

    def look(self) -> Mapping[str, Any]:
        """Return the workers by address, none for a while where they may come back.

        Raises `ClusterError` where there has been none for `PATIENCE` seconds, or `CapacityError`
        if Dask has paused them, and `ClusterError` where the scheduler does not answer.
        """
        now = time.monotonic()
        passed = 0.0 if self._looked is None else now - self._looked
        if self._looked is not None and passed < _LOOK_SECONDS:
            return self._found
        there = {a: facts for a, facts in self._everyone().items() if self._fits(a, facts)}
        self._looked = now
        step = min(passed, _LONGEST_STEP)
        self._observe(there, step)
        self._found = {a: facts for a, facts in there.items() if self._states[a].is_usable}
        self._without = 0.0 if self._found else self._without + step
        if self._without > PATIENCE:
            raise self._shortage()
        return self._found

    def now(self) -> Mapping[str, Any]:
        """Return the workers by address, and wait for one; raises `ClusterError` as `look`."""
        while not self.look():
            time.sleep(POLL)
        return self._found

    def notices(self) -> Iterator[WorkerStalled]:
        """Yield what happened to workers since this was asked last."""
        while self._notices:
            yield self._notices.pop(0)

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

    def _observe(self, there: Mapping[str, Any], step: float) -> None:
        """Add a look at each worker, and note those that begin to stall or are gone."""
        before, self._states = self._states, {}
        for address, facts in there.items():
            known = before.get(address, _State(None))
            state = self._states[address] = known.after(facts, step)
            if state.stall and state.stall != known.stall:
                self._notices.append(_stalled(address, state))
        gone = before.keys() - there.keys()
        self._notices += [_gone(address) for address in sorted(gone)]

    def _shortage(self) -> HaloclineError:
        """Return the error of a run that no worker can go on with."""
        if any(state.paused >= _PAUSED for state in self._states.values()):
            return CapacityError(
                "Dask has paused all workers of the cluster, because each exceeds the share of its "
                "memory above which Dask starts no tasks.",
                hint="Give smaller 'chunks', or workers with more memory.",
            )
        if self._states:
            return ClusterError(
                f"No worker of the cluster has been heard of for {SILENT:g} seconds.",
                hint="They are stopped or hang: start them again.",
            )
        return ClusterError(
            "The cluster has no worker that can be used.", hint="Start some workers."
        )


def _stalled(address: str, state: _State) -> WorkerStalled:
    if state.stall == "paused":
        message = f"Worker '{address}' is paused by Dask because it uses too much of its memory."
        return WorkerStalled(address, "paused", state.paused, message)
    seconds = state.silent
    message = (
        f"Worker '{address}' has sent no heartbeat for {seconds:.0f} s: it is busy or stopped."
    )
    return WorkerStalled(address, "silent", seconds, message)


def _gone(address: str) -> WorkerStalled:
    message = f"Worker '{address}' is gone; its blocks are computed again elsewhere."
    return WorkerStalled(address, "gone", 0.0, message)


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
