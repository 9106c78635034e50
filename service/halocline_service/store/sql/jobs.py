"""The jobs in a database.

The clock is read inside a transaction that writes, so that times are in the order of the writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    RowMapping,
    Select,
    Text,
    case,
    cast,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.sql.dml import ReturningUpdate

from halocline_engine.interface.renames import with_new_names
from halocline_service.jobs.job import (
    Ending,
    Held,
    Job,
    JobEvent,
    JobRequest,
    JobSummary,
    Lease,
    new_id,
)
from halocline_service.jobs.setbacks import PROGRESS, Cause, Interruption, setback
from halocline_service.jobs.states import FINAL, Event, State, sources, target
from halocline_service.store.base import (
    ANY,
    WAITING,
    Clock,
    IdempotencyConflict,
    JobQuery,
    Note,
    QueueFull,
    Removal,
    Wish,
    lost_error,
    status_note,
)
from halocline_service.store.changes import announce
from halocline_service.store.sql.claims import next_job, waiting_jobs
from halocline_service.store.sql.database import paged, reading, take_turns, writing
from halocline_service.store.sql.tables import job, job_event, line_of_label, share, told
from halocline_service.store.sql.uploads import (
    hold_uploads,
    note_removed,
    release_unused,
    uploads_of,
    use_uploads,
)
from halocline_service.store.waits import Waits

__all__ = ["SqlJobs"]

_SUMMARY = [job.c[field.name] for field in fields(JobSummary)]


class SqlJobs:
    """`JobStore` over SQLAlchemy Core."""

    def __init__(self, engine: Engine, clock: Clock, ticks: Clock) -> None:
        self._engine = engine
        self._now = clock
        self._waits = Waits(ticks)

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
            hold_uploads(db, asked)
            made = self._insert(db, asked)
            use_uploads(db, made.id, asked)
            return made

    def _insert(self, db: Connection, asked: JobRequest) -> Job:
        now = self._now()
        row: dict[str, Any] = {
            "id": new_id(),
            "owner": asked.owner,
            "process": asked.process,
            "name": asked.name,
            "labels": asked.labels,
            "request": dict(asked.request),
            "fingerprint": asked.fingerprint,
            "idempotency_key": asked.idempotency_key,
            "state": State.QUEUED,
            "progress": 0.0,
            "message": WAITING,
            "attempt": 0,
            "max_attempts": asked.max_attempts,
            "crashes": 0,
            "losses": 0,
            "reached": 0.0,
            "fence": 0,
            "beats": 0,
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

    def list(self, query: JobQuery) -> Sequence[JobSummary]:
        """Give the jobs that fit, newest first; see `JobStore`."""
        with reading(self._engine) as db:
            rows = paged(db, _listing(query, self._now()), job.c.id, query.page)
        return [_summary(row) for row in rows]

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

    def remove(self, job_id: str, *, owner: str) -> Removal | None:
        """Forget a finished job; see `JobStore`."""
        with writing(self._engine) as db:
            take_turns(db, f"upload {owner}")
            found = _one(db, _owned(select(job).where(job.c.id == job_id), owner))
            if found is None or not found.is_final:
                return None
            read = uploads_of(db, job_id)
            if db.execute(delete(job).where(job.c.id == job_id)).rowcount == 0:
                return None
            note_removed(db, "job", job_id, self._now())
            return Removal(found, release_unused(db, read, self._now()))

    def claim(self, worker: str, wish: Wish = ANY) -> Job | None:
        """Take the queued job whose turn it is; see `JobStore`."""
        with reading(self._engine) as db:  # others need not wait where there is nothing
            waiting = [(Lease(*each), wait) for *each, wait in db.execute(waiting_jobs())]
            waited = self._waits.over(waiting)
            if db.execute(next_job(worker, wish, waited)).first() is None:
                return None
        with writing(self._engine) as db:
            take_turns(db, "claim")
            now = self._now()
            chosen = db.execute(next_job(worker, wish, waited)).first()
            if chosen is None:
                return None
            _serve(db, chosen.owner)
            row = db.execute(_claiming(chosen.first, worker, now)).mappings().one_or_none()
            if row is None:  # dismissed just now
                return None
            taken = _job(row)
            _note(db, now, taken.id, [status_note(taken.state, taken.progress, taken.message)])
            return taken

    def renew(self, lease: Lease) -> bool:
        """Count one beat; see `JobStore`."""
        beat = (
            update(job)
            .where(job.c.id == lease.job_id, job.c.fence == lease.fence)
            .where(job.c.lease_owner.is_not(None))
            .values(beats=job.c.beats + 1)
            .returning(job.c.state)
        )
        with writing(self._engine) as db:
            return db.execute(beat).scalar_one_or_none() == State.RUNNING

    def record(self, lease: Lease, *, progress: float, message: str, notes: Sequence[Note]) -> bool:
        """Write progress and events; see `JobStore`."""
        further = job.c.reached <= progress - PROGRESS
        with writing(self._engine) as db:
            now = self._now()
            values = {
                "progress": progress,
                "message": message,
                "updated": now,
                "reached": case((further, progress), else_=job.c.reached),
                "crashes": case((further, 0), else_=job.c.crashes),
                "losses": case((further, 0), else_=job.c.losses),
            }
            held = self._held(db, lease, values)
            if held:
                _note(db, now, lease.job_id, notes)
            return held

    def settle(self, lease: Lease, ending: Ending) -> bool:
        """End a running job; see `JobStore`."""
        with writing(self._engine) as db:
            return self._leave(db, lease, ending)

    def give_back(self, lease: Lease, interruption: Interruption) -> bool:
        """Have a running job tried again, or end it; see `JobStore`."""
        with writing(self._engine) as db:
            found = _one(db, select(job).where(job.c.id == lease.job_id).with_for_update())
            if found is None or found.lease != lease or found.state is not State.RUNNING:
                return False
            began = found.attempt - (interruption.cause is not Cause.CRASHED)
            return self._set_back(db, found, interruption, attempt=began)

    def _set_back(
        self, db: Connection, found: Job, interruption: Interruption, **values: Any
    ) -> bool:
        after = setback(found, interruption)
        counts = {"crashes": after.crashes, "losses": after.losses, **values}
        if after.event is Event.FAIL:
            why = interruption.error or lost_error(after.losses)
            ending = Ending(after.event, str(why["message"]), error=why)
            return self._leave(db, found.lease, ending, **counts)
        self._waits.begin(found.lease)
        counts["retry_wait"] = after.wait or None
        return self._leave(db, found.lease, Ending(after.event, interruption.message), **counts)

    def _leave(self, db: Connection, lease: Lease, ending: Ending, **values: Any) -> bool:
        """Take a running job out of that state, if the lease holds."""
        now = self._now()
        state = target(ending.event)
        changed = {
            "state": state,
            "message": ending.message,
            "outputs": ending.outputs,
            "error": ending.error,
            "updated": now,
            "finished": now if state in FINAL else None,
            "lease_owner": None,
            **values,
        }
        if state is State.SUCCEEDED:
            changed["progress"] = 1.0
        if not self._held(db, lease, changed):
            return False
        progress = select(job.c.progress).where(job.c.id == lease.job_id)
        note = status_note(state, db.execute(progress).scalar_one(), ending.message)
        _note(db, now, lease.job_id, [note])
        return True

    def _held(self, db: Connection, lease: Lease, values: Mapping[str, Any]) -> bool:
        statement = (
            update(job)
            .where(job.c.id == lease.job_id, job.c.fence == lease.fence)
            .where(job.c.state == State.RUNNING)
            .values(**values)
        )
        return db.execute(statement).rowcount == 1

    def explain(self, message: str, *, processes: frozenset[str]) -> int:
        """Say to queued jobs why they wait; see `JobStore`."""
        others = (
            select(job.c.id)
            .where(job.c.state == State.QUEUED, job.c.process.in_(sorted(processes)))
            .where(job.c.message != message)
        )
        with reading(self._engine) as db:
            if db.execute(others.limit(1)).first() is None:
                return 0
        with writing(self._engine) as db:
            now = self._now()
            chosen = others.with_for_update(skip_locked=True).scalar_subquery()
            said = update(job).where(job.c.id.in_(chosen)).values(message=message, updated=now)
            told = db.execute(said.returning(job.c.id, job.c.progress)).all()
            for job_id, progress in told:
                _note(db, now, job_id, [status_note(State.QUEUED, progress, message)])
            return len(told)

    def drop(self, lease: Lease) -> None:
        """Say that this worker writes no more files for the job."""
        statement = (
            update(job)
            .where(job.c.id == lease.job_id, job.c.fence == lease.fence)
            .where(job.c.state != State.RUNNING, job.c.lease_owner.is_not(None))
            .values(lease_owner=None)
        )
        with writing(self._engine) as db:
            db.execute(statement)

    def held(self) -> Sequence[Held]:
        """Give all leases; see `JobStore`."""
        columns = (job.c.id, job.c.fence, job.c.lease_owner, job.c.beats)
        with reading(self._engine) as db:
            rows = db.execute(select(*columns).where(job.c.lease_owner.is_not(None))).all()
        return [Held(Lease(key, fence), holder, beats) for key, fence, holder, beats in rows]

    def recover(self, lost: Sequence[Held], *, pause: float = 0.0) -> Sequence[str]:
        """Take leases from workers that are lost; see `JobStore`."""
        if not lost:
            return []
        message = "Its dispatcher was lost; waiting for another."
        interruption = Interruption(Cause.LOST, message, pause=pause)
        taken: list[str] = []
        with writing(self._engine) as db:
            for each in lost:
                # Where rows are locked, one that another renews or recovers just now is left out.
                found = _one(db, _still(each).with_for_update(skip_locked=True))
                if found is None:
                    continue
                taken.append(found.id)
                if found.state is State.RUNNING:
                    self._set_back(db, found, interruption)
                else:
                    db.execute(update(job).where(job.c.id == found.id).values(lease_owner=None))
        return taken

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

    def counts(self, *, owner: str | None) -> Mapping[State, int]:
        """Say how many jobs are in each state."""
        by_state: Any = select(job.c.state, func.count()).group_by(job.c.state)
        with reading(self._engine) as db:
            rows: Any = db.execute(_owned(by_state, owner))
            return dict.fromkeys(State, 0) | {State(state): number for state, number in rows}

    def oldest_queued(self, *, owner: str | None) -> float | None:
        """Say when the job that waits longest was made."""
        queued = select(func.min(job.c.created)).where(job.c.state == State.QUEUED)
        with reading(self._engine) as db:
            return db.execute(_owned(queued, owner)).scalar_one()

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


def _serve(db: Connection, owner: str) -> None:
    """Note that an owner had a turn; claims take turns, so none is counted twice."""
    turn = select(func.coalesce(func.max(share.c.served), 0) + 1).scalar_subquery()
    known = update(share).where(share.c.owner == owner).values(served=turn)
    if db.execute(known).rowcount == 0:
        db.execute(insert(share).values(owner=owner, served=turn))


def _claiming(job_id: str, worker: str, now: float) -> ReturningUpdate[Any]:
    return (
        update(job)
        .where(job.c.id == job_id, job.c.state.in_(sources(Event.CLAIM)))
        .values(
            state=target(Event.CLAIM),
            attempt=job.c.attempt + 1,
            fence=job.c.fence + 1,
            lease_owner=worker,
            retry_wait=None,
            started=func.coalesce(job.c.started, now),
            updated=now,
            message="Started.",
        )
        .returning(*job.c)
    )


def _still(held: Held) -> Select[Any]:
    """Select a job whose lease is as it was looked at."""
    return select(job).where(
        job.c.id == held.lease.job_id,
        job.c.fence == held.lease.fence,
        job.c.lease_owner == held.holder,
        job.c.beats == held.beats,
    )


def _owned(statement: Select[Any], owner: str | None) -> Select[Any]:
    return statement if owner is None else statement.where(job.c.owner == owner)


def _listing(query: JobQuery, now: float) -> Select[Any]:
    statement = select(*_SUMMARY).where(job.c.owner == query.owner)
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
    if query.name is not None:
        statement = statement.where(_contains(job.c.name, told(query.name)))
    for label in query.labels:
        statement = statement.where(_contains(cast(job.c.labels, Text), line_of_label(label)))
    return statement


def _contains(column: ColumnElement[Any], part: str) -> ColumnElement[bool]:
    """Say whether a text contains another, by the case of its letters, which LIKE may not tell."""
    return func.replace(column, part, "", type_=Text) != column


def _one(db: Connection, statement: Select[Any]) -> Job | None:
    row = db.execute(statement).mappings().one_or_none()
    return None if row is None else _job(row)


def _summary(row: RowMapping) -> JobSummary:
    told: dict[str, Any] = {**row, "state": State(row["state"])}
    return JobSummary(**told)


def _job(row: RowMapping) -> Job:
    asked: dict[str, Any] = dict(row["request"])
    if "inputs" in asked:  # a job may have been stored before arguments were renamed
        asked["inputs"] = with_new_names(row["process"], asked["inputs"])
    fields: dict[str, Any] = {**row, "state": State(row["state"]), "request": asked}
    return Job(**fields)


def _note(db: Connection, now: float, job_id: str, notes: Sequence[Note]) -> None:
    if notes:
        rows = [
            {"job_id": job_id, "at": now, "kind": note.kind, "data": dict(note.data)}
            for note in notes
        ]
        db.execute(insert(job_event), rows)
        announce(db, job_id, list(notes))
