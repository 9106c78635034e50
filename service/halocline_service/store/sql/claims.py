"""Choice of the next job, by a statement that one index answers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Select,
    case,
    exists,
    func,
    literal_column,
    or_,
    select,
)

from halocline_service.jobs.states import Event, State, sources
from halocline_service.store.base import Wish
from halocline_service.store.sql.tables import job, share

__all__ = ["next_job", "waiting_jobs"]

_MOST_WAITING = 1000  # others are looked at when these had their turn


def waiting_jobs() -> Select[Any, Any, Any]:
    """Select those that wait for their next attempt: id, fence, and for how many seconds."""
    return (
        select(job.c.id, job.c.fence, job.c.retry_wait)
        .where(job.c.retry_wait.is_not(None), job.c.state.in_(sources(Event.CLAIM)))
        .order_by(job.c.id)
        .limit(_MOST_WAITING)
    )


def next_job(worker: str, wish: Wish, waited: Collection[str]) -> Select[Any, Any]:
    """Select the id and the owner of the job that a worker should take; see `JobStore.claim`.

    `waited` are jobs whose wait is over.
    """
    waiting = (
        select(job.c.owner, func.min(job.c.id).label("first"))
        .where(_is_unfinished(job), job.c.state.in_(sources(Event.CLAIM)))
        .where(_is_due(waited), _is_trusted())
        .group_by(job.c.owner)
    )
    if wish.processes is not None:
        waiting = waiting.where(job.c.process.in_(sorted(wish.processes)))
    first = waiting.subquery("waiting")
    mine = func.sum(case((job.c.lease_owner == worker, 1), else_=0))
    running = (
        select(job.c.owner, func.count().label("all"), mine.label("mine"))
        .where(_is_unfinished(job), job.c.state == State.RUNNING)
        .group_by(job.c.owner)
        .subquery("running")
    )
    chosen = (
        select(first.c.first, first.c.owner)
        .outerjoin(running, running.c.owner == first.c.owner)
        .outerjoin(share, share.c.owner == first.c.owner)
        .order_by(func.coalesce(running.c.all, 0), func.coalesce(share.c.served, 0), first.c.first)
        .limit(1)
    )
    if wish.most is not None:
        chosen = chosen.where(func.coalesce(running.c.mine, 0) < wish.most)
    return chosen


def _is_unfinished(table: FromClause) -> ColumnElement[bool]:
    """Say in the words of the index what SQLite would not conclude from a state."""
    return table.c.state.in_([literal_column("'queued'"), literal_column("'running'")])


def _is_due(waited: Collection[str]) -> ColumnElement[bool]:
    return or_(job.c.retry_wait.is_(None), job.c.id.in_(sorted(waited)))


def _is_trusted() -> ColumnElement[bool]:
    """Whether a job did not crash, or none runs that did."""
    other = job.alias("other")
    runs = exists().where(
        _is_unfinished(other), other.c.state == State.RUNNING, other.c.crashes > 0
    )
    return or_(job.c.crashes == 0, ~runs)
