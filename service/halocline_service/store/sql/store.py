"""A store in a database: SQLite on one machine, or PostgreSQL; any number of processes."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sqlalchemy import Engine, delete, insert, select, update

from halocline_service.jobs.job import JsonObject, Removed
from halocline_service.store.base import ApiKey, Clock, Store, StoreOutdated
from halocline_service.store.changes import SqlChanges
from halocline_service.store.sql.database import BUSY_SECONDS, connect, reading, writing
from halocline_service.store.sql.jobs import SqlJobs
from halocline_service.store.sql.tables import api_key, dispatcher, installation, metadata, removed
from halocline_service.store.sql.uploads import SqlUploads
from halocline_service.store.waits import Heard

__all__ = ["SqlKeys", "SqlPresence", "SqlRemoved", "open_store"]


def open_store(
    url: str,
    *,
    clock: Clock = time.time,
    ticks: Clock = time.monotonic,
    wait: float = BUSY_SECONDS,
) -> Store:
    """Open a database whose schema is up to date (see `migrate`).

    `clock` tells the time, and may be set; `ticks` is monotonic. `wait` is how long a statement
    waits, in seconds, while another process has the database locked.
    """
    engine = connect(url, wait)

    def check(*, writes: bool = False) -> None:
        with writing(engine) if writes else reading(engine) as db:
            if writes:
                db.execute(delete(dispatcher).where(dispatcher.c.name == ""))
            for table in metadata.sorted_tables:  # names every column, so none may be missing
                db.execute(select(table).limit(0))

    def identity() -> str:
        with reading(engine) as db:
            found = db.execute(select(installation.c.id)).scalar_one_or_none()
        if found is None:
            raise StoreOutdated("The database has no identity: its table 'installation' is empty.")
        return found

    changes = SqlChanges(engine)

    def close() -> None:
        changes.close()
        engine.dispose()

    return Store(
        jobs=SqlJobs(engine, clock, ticks),
        uploads=SqlUploads(engine, clock),
        keys=SqlKeys(engine, clock),
        presence=SqlPresence(engine, clock, ticks),
        removed=SqlRemoved(engine),
        identity=identity,
        changes=changes,
        check=check,
        close=close,
    )


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

    def __init__(self, engine: Engine, clock: Clock, ticks: Clock) -> None:
        self._engine = engine
        self._now = clock
        self._heard = Heard(clock, ticks)

    def beat(self, name: str, info: JsonObject) -> None:
        """Say that a dispatcher is alive, and forget those not heard of for a day."""
        now = self._now()
        stale = (dispatcher.c.name == name) | (dispatcher.c.seen < now - 86_400)
        with writing(self._engine) as db:
            db.execute(delete(dispatcher).where(stale))
            db.execute(insert(dispatcher).values(name=name, seen=now, info=dict(info)))

    def alive(self, *, within: float) -> Sequence[JsonObject]:
        """Give what the dispatchers said that were heard of in the last seconds."""
        statement = select(dispatcher.c.name, dispatcher.c.seen, dispatcher.c.info)
        with reading(self._engine) as db:
            found = db.execute(statement.order_by(dispatcher.c.name)).all()
        names = self._heard.within(within, {name: seen for name, seen, _ in found})
        return [info for name, _, info in found if name in names]


class SqlRemoved:
    """`RemovedStore` over SQLAlchemy Core."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def list(self, *, before: float) -> Sequence[Removed]:
        """Give what was removed before a time, oldest first."""
        old = select(removed).where(removed.c.at < before).order_by(removed.c.at)
        with reading(self._engine) as db:
            return [Removed(**row) for row in db.execute(old).mappings()]

    def forget(self, gone: Removed) -> None:
        """Say that nothing is left of it."""
        same = (removed.c.kind == gone.kind) & (removed.c.id == gone.id)
        with writing(self._engine) as db:
            db.execute(delete(removed).where(same))
