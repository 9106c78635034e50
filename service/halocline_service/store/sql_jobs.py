"""The jobs in a database.

The clock is read inside a transaction that writes, so that times are in the order of the writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, RowMapping, Select, delete, func, insert, select, update
from sqlalchemy.sql.dml import ReturningUpdate

from halocline_service.jobs.job import Job, JobEvent, JobRequest, JsonObject, Lease, new_id
from halocline_service.jobs.states import FINAL, Event, State, sources, target
from halocline_service.store.base import (
    Clock,
    IdempotencyConflict,
    JobQuery,
    Note,
    QueueFull,
    lost_error,
    status_note,
)
from halocline_service.store.database import paged, reading, take_turns, writing
from halocline_service.store.tables import job, job_event

__all__ = ["SqlJobs"]


class SqlJobs:
    """`JobStore` over SQLAlchemy Core."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._now = clock

    def add(self, asked: JobRequest, *, queue_limit: int) -> Job:
        """Store a job as queued; see `JobStore`."""
        with writing(self._engine) as db:
            take_turns(db, f"job {asked.owner}")
            known = _same_key(db, asked)
            if known is not None:
                return known
            unfinished = select(func.count()).where(
                job.c.owner == asked.owner, job.c.state.not_in(FINAL)
            )
            if db.execute(unfinished).scalar_one() >= queue_limit:
                raise QueueFull
            return self._insert(db, asked)

    def _insert(self, db: Connection, asked: JobRequest) -> Job:
        now = self._now()
        row: dict[str, Any] = {
            "id": new_id(),
            "owner": asked.owner,
            "process": asked.process,
            "request": dict(asked.request),
            "fingerprint": asked.fingerprint,
            "idempotency_key": asked.idempotency_key,
            "state": State.QUEUED,
            "progress": 0.0,
            "message": "Waiting for a dispatcher.",
            "attempt": 0,
            "max_attempts": asked.max_attempts,
            "fence": 0,
            "created": now,
            "updated": now,
        }
        db.execute(insert(job).values(row))
        stored = _one(db, select(job).where(job.c.id == row["id"]))
        assert stored is not None
        _note(db, now, stored.id, [status_note(stored.state, 0.0, stored.message)])
        return stored

    def get(self, job_id: str, *, owner: str | None) -> Job | None:
        """Give a job; see `JobStore`."""
        with reading(self._engine) as db:
            return _one(db, _owned(select(job).where(job.c.id == job_id), owner))

    def list(self, query: JobQuery) -> Sequence[Job]:
        """Give the jobs that fit, newest first."""
        with reading(self._engine) as db:
            rows = paged(db, _listing(query, self._now()), job.c.id, query.page)
        return [_job(row) for row in rows]

    def cancel(self, job_id: str, *, owner: str) -> Job | None:
        """End an unfinished job; see `JobStore`."""
        message = "Dismissed on request."
        with writing(self._engine) as db:
            now = self._now()
            statement = (
                update(job)
                .where(job.c.id == job_id, job.c.owner == owner)
                .where(job.c.state.in_(sources(Event.CANCEL)))
                .values(state=target(Event.CANCEL), message=message, updated=now, finished=now)
            )
            if db.execute(statement).rowcount == 0:
                return None
            ended = _one(db, select(job).where(job.c.id == job_id))
            assert ended is not None
            _note(db, now, job_id, [status_note(ended.state, ended.progress, message)])
            return ended

    def remove(self, job_id: str, *, owner: str) -> Job | None:
        """Forget a finished job; see `JobStore`."""
        with writing(self._engine) as db:
            found = _one(db, _owned(select(job).where(job.c.id == job_id), owner))
            if found is None or not found.is_final:
                return None
            gone = db.execute(delete(job).where(job.c.id == job_id)).rowcount
            return found if gone == 1 else None

    def claim(self, worker: str, *, seconds: float) -> Job | None:
        """Take the oldest queued job; see `JobStore`."""
        with writing(self._engine) as db:
            now = self._now()
            row = db.execute(_claiming(worker, now, seconds)).mappings().one_or_none()
            if row is None:
                return None
            taken = _job(row)
            _note(db, now, taken.id, [status_note(taken.state, taken.progress, taken.message)])
            return taken

    def renew(self, lease: Lease, *, seconds: float) -> bool:
        """Lengthen a lease; see `JobStore`."""
        with writing(self._engine) as db:
            return self._held(db, lease, {"lease_until": self._now() + seconds})

    def record(self, lease: Lease, *, progress: float, message: str, notes: Sequence[Note]) -> bool:
        """Write progress and events; see `JobStore`."""
        with writing(self._engine) as db:
            now = self._now()
            values = {"progress": progress, "message": message, "updated": now}
            held = self._held(db, lease, values)
            if held:
                _note(db, now, lease.job_id, notes)
            return held

    def settle(
        self,
        lease: Lease,
        event: Event,
        *,
        message: str,
        outputs: JsonObject | None = None,
        error: JsonObject | None = None,
        refund: bool = False,
    ) -> bool:
        """End a running job; see `JobStore`."""
        with writing(self._engine) as db:
            return self._settle(db, lease, event, message, outputs, error, refund)

    def _settle(
        self,
        db: Connection,
        lease: Lease,
        event: Event,
        message: str,
        outputs: JsonObject | None = None,
        error: JsonObject | None = None,
        refund: bool = False,
    ) -> bool:
        now = self._now()
        state = target(event)
        values: dict[str, Any] = {
            "state": state,
            "message": message,
            "updated": now,
            "finished": now if state in FINAL else None,
            "outputs": outputs,
            "error": error,
            "lease_owner": None,
            "lease_until": None,
        }
        if state is State.SUCCEEDED:
            values["progress"] = 1.0
        if refund:
            values["attempt"] = job.c.attempt - 1
        if not self._held(db, lease, values):
            return False
        settled = _one(db, select(job).where(job.c.id == lease.job_id))
        assert settled is not None
        _note(db, now, settled.id, [status_note(state, settled.progress, message)])
        return True

    def _held(self, db: Connection, lease: Lease, values: Mapping[str, Any]) -> bool:
        statement = (
            update(job)
            .where(job.c.id == lease.job_id, job.c.fence == lease.fence)
            .where(job.c.state == State.RUNNING)
            .values(**values)
        )
        return db.execute(statement).rowcount == 1

    def drop(self, lease: Lease) -> None:
        """Say that this worker writes no more files for the job."""
        statement = (
            update(job)
            .where(job.c.id == lease.job_id, job.c.fence == lease.fence)
            .where(job.c.state != State.RUNNING)
            .values(lease_owner=None, lease_until=None)
        )
        with writing(self._engine) as db:
            db.execute(statement)

    def recover(self) -> Sequence[str]:
        """Give back every job whose lease ran out; see `JobStore`."""
        expired = select(job).where(job.c.state == State.RUNNING, job.c.lease_until < self._now())
        with reading(self._engine) as db:
            if db.execute(expired.limit(1)).first() is None:
                return []
        with writing(self._engine) as db:
            # Where rows are locked, those that another renews or recovers just now are left out.
            held = expired.with_for_update(skip_locked=True)
            lost = [_job(row) for row in db.execute(held).mappings()]
            for each in lost:
                if each.attempt < each.max_attempts:
                    message = "Its worker was lost; waiting for another."
                    self._settle(db, each.lease, Event.GIVE_BACK, message)
                else:
                    error = lost_error(each.attempt)
                    self._settle(db, each.lease, Event.FAIL, error["message"], error=error)
            return [each.id for each in lost]

    def events(
        self, job_id: str, *, after: int = 0, kind: str | None = None, limit: int = 1000
    ) -> Sequence[JobEvent]:
        """Give a job's events in order; see `JobStore`."""
        statement = select(job_event).where(job_event.c.job_id == job_id, job_event.c.seq > after)
        if kind is not None:
            statement = statement.where(job_event.c.kind == kind)
        with reading(self._engine) as db:
            rows = db.execute(statement.order_by(job_event.c.seq).limit(limit)).mappings().all()
        return [JobEvent(**row) for row in rows]

    def counts(self) -> Mapping[State, int]:
        """Say how many jobs are in each state."""
        statement = select(job.c.state, func.count()).group_by(job.c.state)
        with reading(self._engine) as db:
            found = {State(state): number for state, number in db.execute(statement)}
        return {state: found.get(state, 0) for state in State}

    def oldest_queued(self) -> float | None:
        """Say when the job that waits longest was made."""
        statement = select(func.min(job.c.created)).where(job.c.state == State.QUEUED)
        with reading(self._engine) as db:
            return db.execute(statement).scalar_one()

    def known(self) -> frozenset[str]:
        """Give the identifiers of all jobs."""
        with reading(self._engine) as db:
            return frozenset(db.execute(select(job.c.id)).scalars())


def _same_key(db: Connection, asked: JobRequest) -> Job | None:
    if asked.idempotency_key is None:
        return None
    statement = select(job).where(
        job.c.owner == asked.owner, job.c.idempotency_key == asked.idempotency_key
    )
    known = _one(db, statement)
    if known is not None and known.fingerprint != asked.fingerprint:
        raise IdempotencyConflict
    return known


def _claiming(worker: str, now: float, seconds: float) -> ReturningUpdate[Any]:
    oldest = (
        select(job.c.id)
        .where(job.c.state.in_(sources(Event.CLAIM)))
        .order_by(job.c.id)
        .limit(1)
        .with_for_update(skip_locked=True)
        .scalar_subquery()
    )
    return (
        update(job)
        .where(job.c.id == oldest, job.c.state.in_(sources(Event.CLAIM)))
        .values(
            state=target(Event.CLAIM),
            attempt=job.c.attempt + 1,
            fence=job.c.fence + 1,
            lease_owner=worker,
            lease_until=now + seconds,
            started=func.coalesce(job.c.started, now),
            updated=now,
            message="Started.",
        )
        .returning(*job.c)
    )


def _owned(statement: Select[Any], owner: str | None) -> Select[Any]:
    return statement if owner is None else statement.where(job.c.owner == owner)


def _listing(query: JobQuery, now: float) -> Select[Any]:
    statement = select(job).where(job.c.owner == query.owner)
    if query.processes:
        statement = statement.where(job.c.process.in_(query.processes))
    if query.states:
        statement = statement.where(job.c.state.in_(query.states))
    if query.created_from is not None:
        statement = statement.where(job.c.created >= query.created_from)
    if query.created_to is not None:
        statement = statement.where(job.c.created <= query.created_to)
    # NULL, and so false, for a job that has not started.
    duration = func.coalesce(job.c.finished, now) - job.c.started
    if query.min_duration is not None:
        statement = statement.where(duration >= query.min_duration)
    if query.max_duration is not None:
        statement = statement.where(duration <= query.max_duration)
    return statement


def _one(db: Connection, statement: Select[Any]) -> Job | None:
    row = db.execute(statement).mappings().one_or_none()
    return None if row is None else _job(row)


def _job(row: RowMapping) -> Job:
    fields: dict[str, Any] = {**row, "state": State(row["state"])}
    return Job(**fields)


def _note(db: Connection, now: float, job_id: str, notes: Sequence[Note]) -> None:
    if notes:
        rows = [
            {"job_id": job_id, "at": now, "kind": note.kind, "data": dict(note.data)}
            for note in notes
        ]
        db.execute(insert(job_event), rows)
