"""Which job is next: a statement that the index of unfinished jobs answers alone."""

from __future__ import annotations

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

from halocline_service.jobs.setbacks import LONGEST_WAIT
from halocline_service.jobs.states import Event, State, sources
from halocline_service.store.base import Wish
from halocline_service.store.tables import job, share

__all__ = ["next_job"]


def next_job(worker: str, wish: Wish, now: float) -> Select[Any, Any]:
    """Select the id and the owner of the job that a worker should take; see `JobStore.claim`."""
    waiting = (
        select(job.c.owner, func.min(job.c.id).label("first"))
        .where(_is_unfinished(job), job.c.state.in_(sources(Event.CLAIM)))
        .where(_is_due(now), _is_trusted())
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


def _is_due(now: float) -> ColumnElement[bool]:
    """Whether a job has waited; a wait that is too long comes of a clock that was set back."""
    after = job.c.retry_at
    return or_(after.is_(None), after <= now, after > now + LONGEST_WAIT)


def _is_trusted() -> ColumnElement[bool]:
    """Whether a job did not crash, or none runs that did."""
    other = job.alias("other")
    runs = exists().where(
        _is_unfinished(other), other.c.state == State.RUNNING, other.c.crashes > 0
    )
    return or_(job.c.crashes == 0, ~runs)
