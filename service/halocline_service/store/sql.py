"""A store in a database: SQLite on one machine, or PostgreSQL; any number of processes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Engine, RowMapping, delete, func, insert, select, update

from halocline_service.jobs.job import JsonObject, Upload, new_id
from halocline_service.store.base import ApiKey, Clock, Page, QueueFull, Store
from halocline_service.store.database import connect, paged, reading, take_turns, writing
from halocline_service.store.sql_jobs import SqlJobs
from halocline_service.store.tables import api_key, dispatcher, metadata, upload

__all__ = ["SqlKeys", "SqlPresence", "SqlUploads", "open_store"]


def open_store(url: str, *, clock: Clock = time.time) -> Store:
    """Open a database whose schema is up to date (see `migrate`)."""
    engine = connect(url)

    def check() -> None:
        with writing(engine) as db:
            db.execute(delete(dispatcher).where(dispatcher.c.name == ""))
            for table in metadata.sorted_tables:  # names every column, so none may be missing
                db.execute(select(table).limit(0))

    return Store(
        jobs=SqlJobs(engine, clock),
        uploads=SqlUploads(engine, clock),
        keys=SqlKeys(engine, clock),
        presence=SqlPresence(engine, clock),
        check=check,
        close=engine.dispose,
    )


class SqlUploads:
    """`UploadStore` over SQLAlchemy Core."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._now = clock

    def add(self, owner: str, *, limit: int, idempotency_key: str | None = None) -> Upload:
        """Open an upload; see `UploadStore`."""
        row: dict[str, Any] = {
            "id": new_id(),
            "owner": owner,
            "created": self._now(),
            "completed": None,
            "keys": 0,
            "bytes": 0,
            "idempotency_key": idempotency_key,
        }
        count = select(func.count()).select_from(upload).where(upload.c.owner == owner)
        with writing(self._engine) as db:
            take_turns(db, f"upload {owner}")
            known = _same_key(db, owner, idempotency_key)
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
        left = select(upload).where(upload.c.completed.is_(None), upload.c.created < before)
        with reading(self._engine) as db:
            return [Upload(**row) for row in db.execute(left.order_by(upload.c.id)).mappings()]

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

    def remove(self, upload_id: str, *, owner: str) -> Upload | None:
        """Forget an upload; see `UploadStore`."""
        statement = (
            delete(upload)
            .where(upload.c.id == upload_id, upload.c.owner == owner)
            .returning(*upload.c)
        )
        with writing(self._engine) as db:
            return _upload(db.execute(statement).mappings().one_or_none())

    def known(self) -> frozenset[str]:
        """Give the identifiers of all uploads."""
        with reading(self._engine) as db:
            return frozenset(db.execute(select(upload.c.id)).scalars())


def _same_key(db: Connection, owner: str, idempotency_key: str | None) -> Upload | None:
    if idempotency_key is None:
        return None
    mine = select(upload).where(upload.c.owner == owner)
    same = mine.where(upload.c.idempotency_key == idempotency_key)
    return _upload(db.execute(same).mappings().one_or_none())


def _upload(row: RowMapping | None) -> Upload | None:
    return None if row is None else Upload(**row)


class SqlKeys:
    """`KeyStore` over SQLAlchemy Core."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._now = clock

    def add(self, key_id: str, *, owner: str, digest: str) -> ApiKey:
        """Keep a new key."""
        key = ApiKey(id=key_id, owner=owner, digest=digest, created=self._now(), revoked=None)
        values = {"id": key_id, "owner": owner, "digest": digest, "created": key.created}
        with writing(self._engine) as db:
            db.execute(insert(api_key).values(values))
        return key

    def get(self, key_id: str) -> ApiKey | None:
        """Give a key that was not revoked."""
        statement = select(api_key).where(api_key.c.id == key_id, api_key.c.revoked.is_(None))
        with reading(self._engine) as db:
            row = db.execute(statement).mappings().one_or_none()
        return None if row is None else ApiKey(**row)

    def list(self) -> Sequence[ApiKey]:
        """Give all keys, oldest first."""
        with reading(self._engine) as db:
            rows = db.execute(select(api_key).order_by(api_key.c.created)).mappings().all()
        return [ApiKey(**row) for row in rows]

    def revoke(self, key_id: str) -> bool:
        """Make a key void; False where there is none."""
        statement = (
            update(api_key)
            .where(api_key.c.id == key_id, api_key.c.revoked.is_(None))
            .values(revoked=self._now())
        )
        with writing(self._engine) as db:
            return db.execute(statement).rowcount == 1


class SqlPresence:
    """`PresenceStore` over SQLAlchemy Core."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._now = clock

    def beat(self, name: str, info: JsonObject) -> None:
        """Say that a dispatcher is alive, and forget those not heard of for a day."""
        now = self._now()
        stale = (dispatcher.c.name == name) | (dispatcher.c.seen < now - 86_400)
        with writing(self._engine) as db:
            db.execute(delete(dispatcher).where(stale))
            db.execute(insert(dispatcher).values(name=name, seen=now, info=dict(info)))

    def alive(self, *, within: float) -> Sequence[JsonObject]:
        """Give what the dispatchers said that were heard of in the last seconds."""
        statement = select(dispatcher.c.info).where(dispatcher.c.seen >= self._now() - within)
        with reading(self._engine) as db:
            return list(db.execute(statement.order_by(dispatcher.c.name)).scalars())
