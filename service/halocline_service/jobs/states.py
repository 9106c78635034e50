"""The life of a job, as a table.

Rules of this file: everything that decides in which state a job is stands here; nothing here
knows of databases, HTTP or clusters; the store turns `sources` and `target` into the condition
and the value of one UPDATE, so that the table is also what the database enforces.

```
                 CLAIM              SUCCEED
     QUEUED ───────────────► RUNNING ──────► SUCCEEDED
       │  ▲                   │ │  │ FAIL
       │  └──── GIVE_BACK ────┘ │  └───────► FAILED
       │                        │
       └───────── CANCEL ───────┴──────────► CANCELLED
```

GIVE_BACK is what happens to a running job whose worker was lost, stopped softly, or met an error
that another worker may not meet.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ["FINAL", "TRANSITIONS", "Event", "State", "after", "ogc_status", "sources", "target"]


class State(StrEnum):
    """State of a job."""

    QUEUED = "queued"  # accepted and waiting for a dispatcher
    RUNNING = "running"  # held by one dispatcher under a lease
    SUCCEEDED = "succeeded"  # its result is published
    FAILED = "failed"  # it ended with an error, which is kept
    CANCELLED = "cancelled"  # someone asked for its end


class Event(StrEnum):
    """Event in the life of a job."""

    CLAIM = "claim"
    SUCCEED = "succeed"
    FAIL = "fail"
    GIVE_BACK = "give_back"
    CANCEL = "cancel"


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.QUEUED, Event.CLAIM): State.RUNNING,
    (State.QUEUED, Event.CANCEL): State.CANCELLED,
    (State.RUNNING, Event.SUCCEED): State.SUCCEEDED,
    (State.RUNNING, Event.FAIL): State.FAILED,
    (State.RUNNING, Event.GIVE_BACK): State.QUEUED,
    (State.RUNNING, Event.CANCEL): State.CANCELLED,
}

FINAL = frozenset(State) - {state for state, _ in TRANSITIONS}

_OGC = {
    State.QUEUED: "accepted",
    State.RUNNING: "running",
    State.SUCCEEDED: "successful",
    State.FAILED: "failed",
    State.CANCELLED: "dismissed",
}


def after(state: State, event: Event) -> State | None:
    """Give the state after an event, or None where the event cannot happen."""
    return TRANSITIONS.get((state, event))


def sources(event: Event) -> tuple[State, ...]:
    """Give the states in which an event can happen."""
    return tuple(state for state, happened in TRANSITIONS if happened is event)


def target(event: Event) -> State:
    """Give the one state to which an event leads."""
    (state,) = {to for (_, happened), to in TRANSITIONS.items() if happened is event}
    return state


def ogc_status(state: State) -> str:
    """Give the name that OGC API - Processes has for a state."""
    return _OGC[state]
