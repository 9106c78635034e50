"""The uploads in a database, and which jobs read them.

Whoever adds a use, or forgets an upload that has none, holds the turn of the owner's uploads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import (
    Connection,
    Engine,
    RowMapping,
    Select,
    delete,
    exists,
    func,
    insert,
    select,
    update,
)

from halocline_service.jobs.job import JobRequest, Kind, Upload, UploadRequest, new_id
from halocline_service.store.base import Clock, Page, QueueFull, UploadGone, same_upload
from halocline_service.store.sql.database import paged, reading, take_turns, writing
from halocline_service.store.sql.tables import removed, upload, upload_use

__all__ = [
    "SqlUploads",
    "hold_uploads",
    "note_removed",
    "release_unused",
    "uploads_of",
    "use_uploads",
]


class SqlUploads:
    """`UploadStore` over SQLAlchemy Core."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._now = clock

    def add(self, request: UploadRequest, *, limit: int) -> Upload:
        """Open an upload; see `UploadStore`."""
        row: dict[str, Any] = {
            "id": new_id(),
            "created": self._now(),
            "completed": None,
            "keys": 0,
            "bytes": 0,
            **asdict(request),
        }
        count = select(func.count()).select_from(upload).where(upload.c.owner == request.owner)
        with writing(self._engine) as db:
            take_turns(db, f"upload {request.owner}")
            known = _same_key(db, request) or _same_content(db, request)
            if known is not None:
                return known
            if db.execute(count).scalar_one() >= limit:
                raise QueueFull
            db.execute(insert(upload).values(row))
        return Upload(**row)

    def get(self, upload_id: str, *, owner: str | None) -> Upload | None:
        """Give an upload; see `UploadStore`."""
        statement = select(upload).where(upload.c.id == upload_id)
        if owner is not None:
            statement = statement.where(upload.c.owner == owner)
        with reading(self._engine) as db:
            return _upload(db.execute(statement).mappings().one_or_none())

    def list(self, owner: str, page: Page) -> Sequence[Upload]:
        """Give an owner's uploads, newest first."""
        with reading(self._engine) as db:
            mine = select(upload).where(upload.c.owner == owner)
            return [Upload(**row) for row in paged(db, mine, upload.c.id, page)]

    def unfinished(self, *, before: float) -> Sequence[Upload]:
        """Give everyone's open uploads that were opened before a time; see `UploadStore`."""
        return self._all(select(upload).where(upload.c.completed.is_(None), _older(before)))

    def unused(self, *, before: float) -> Sequence[Upload]:
        """Give complete uploads that are not kept and that no job reads; see `UploadStore`."""
        return self._all(select(upload).where(_is_unused(), _older(before)))

    def _all(self, statement: Select[Any]) -> Sequence[Upload]:
        with reading(self._engine) as db:
            return [Upload(**row) for row in db.execute(statement.order_by(upload.c.id)).mappings()]

    def complete(self, upload_id: str, *, owner: str, keys: int, size: int) -> Upload | None:
        """Freeze an open upload; see `UploadStore`."""
        statement = (
            update(upload)
            .where(upload.c.id == upload_id, upload.c.owner == owner, upload.c.completed.is_(None))
            .values(completed=self._now(), keys=keys, bytes=size)
            .returning(*upload.c)
        )
        with writing(self._engine) as db:
            return _upload(db.execute(statement).mappings().one_or_none())

    def release(self, upload_id: str) -> Upload | None:
        """Forget an unused upload; see `UploadStore`."""
        found = self.get(upload_id, owner=None)
        if found is None:
            return None
        with writing(self._engine) as db:
            take_turns(db, f"upload {found.owner}")
            gone = release_unused(db, [upload_id], self._now())
        return gone[0] if gone else None

    def remove(self, upload_id: str, *, owner: str) -> Upload | None:
        """Forget an upload; see `UploadStore`."""
        statement = (
            delete(upload)
            .where(upload.c.id == upload_id, upload.c.owner == owner)
            .returning(*upload.c)
        )
        with writing(self._engine) as db:
            take_turns(db, f"upload {owner}")
            gone = _upload(db.execute(statement).mappings().one_or_none())
            if gone is not None:
                note_removed(db, "upload", gone.id, self._now())
            return gone

    def known(self) -> frozenset[str]:
        """Give the identifiers of all uploads."""
        with reading(self._engine) as db:
            return frozenset(db.execute(select(upload.c.id)).scalars())


def hold_uploads(db: Connection, asked: JobRequest) -> None:
    """See that the uploads of a job are there, and stay to the end of the transaction.

    Raises `UploadGone`.
    """
    if not asked.uploads:
        return
    take_turns(db, f"upload {asked.owner}")
    mine = select(upload.c.id).where(
        upload.c.id.in_(asked.uploads),
        upload.c.owner == asked.owner,
        upload.c.completed.is_not(None),
    )
    there = set(db.execute(mine).scalars())
    for upload_id in asked.uploads:
        if upload_id not in there:
            raise UploadGone(upload_id)


def use_uploads(db: Connection, job_id: str, asked: JobRequest) -> None:
    """Say that a job reads its uploads."""
    rows = [{"job_id": job_id, "upload_id": each} for each in dict.fromkeys(asked.uploads)]
    if rows:
        db.execute(insert(upload_use), rows)


def uploads_of(db: Connection, job_id: str) -> Sequence[str]:
    """Give the identifiers of the uploads that a job reads."""
    read = select(upload_use.c.upload_id).where(upload_use.c.job_id == job_id)
    return db.execute(read).scalars().all()


def release_unused(db: Connection, ids: Sequence[str], now: float) -> tuple[Upload, ...]:
    """Forget those of some uploads that are not kept and that no job reads; give them."""
    statement = delete(upload).where(upload.c.id.in_(ids), _is_unused()).returning(*upload.c)
    gone = tuple(Upload(**row) for row in db.execute(statement).mappings())
    for each in gone:
        note_removed(db, "upload", each.id, now)
    return gone


def note_removed(db: Connection, kind: Kind, name: str, now: float) -> None:
    """Say that a job or an upload was removed, and that files of it may be left."""
    db.execute(insert(removed).values(kind=kind, id=name, at=now))


def _is_unused() -> Any:
    read = exists().where(upload_use.c.upload_id == upload.c.id)
    return upload.c.completed.is_not(None) & ~upload.c.kept & ~read


def _older(before: float) -> Any:
    return func.coalesce(upload.c.completed, upload.c.created) < before


def _same_key(db: Connection, request: UploadRequest) -> Upload | None:
    if request.idempotency_key is None:
        return None
    mine = select(upload).where(upload.c.owner == request.owner)
    same = mine.where(upload.c.idempotency_key == request.idempotency_key)
    stored = _upload(db.execute(same).mappings().one_or_none())
    return None if stored is None else same_upload(stored, request)


def _same_content(db: Connection, request: UploadRequest) -> Upload | None:
    """Give the oldest complete upload with a digest, kept from now on if that is asked for."""
    if request.digest is None:
        return None
    mine = select(upload).where(upload.c.owner == request.owner)
    same = mine.where(upload.c.digest == request.digest)
    done = same.where(upload.c.completed.is_not(None)).order_by(upload.c.id).limit(1)
    found = _upload(db.execute(done).mappings().one_or_none())
    if found is None or found.kept or not request.kept:
        return found
    asked = update(upload).where(upload.c.id == found.id).values(kept=True)
    return _upload(db.execute(asked.returning(*upload.c)).mappings().one())


def _upload(row: RowMapping | None) -> Upload | None:
    return None if row is None else Upload(**row)
