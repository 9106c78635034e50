"""The engine of SQLAlchemy, set for many processes on one SQLite file or one PostgreSQL server.

SQLite lets one connection write at a time. A transaction that will write says so at its start
(BEGIN IMMEDIATE), so that it waits for its turn there instead of failing halfway. In PostgreSQL
many write at once; those that count rows before they add one take turns (`take_turns`).
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from sqlalchemy import (
    URL,
    Column,
    Connection,
    Engine,
    RowMapping,
    Select,
    create_engine,
    event,
    make_url,
    text,
)
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from halocline_service.store.base import Page, StoreAway, StoreOutdated

__all__ = ["BUSY_SECONDS", "connect", "name_of", "paged", "reading", "take_turns", "writing"]

#: How long a statement waits while another process has the database locked.
BUSY_SECONDS = 30.0
_POSTGRES: dict[str, str | int] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
    "application_name": "halocline",
}
_MISSING_STATES = ("42P01", "42703")  # undefined_table, undefined_column
_MISSING_WORDS = re.compile("no such table|no such column|has no column named")
_CONNECTIONS = 40  # what an API process's threads can ask for at once


def connect(url: str, wait: float = BUSY_SECONDS) -> Engine:
    """Make an engine; the folder of an SQLite file is made if it is missing."""
    parsed = make_url(url)
    is_sqlite = parsed.get_backend_name() == "sqlite"
    return _sqlite(parsed, wait) if is_sqlite else _postgres(parsed, wait)


def name_of(url: str) -> str:
    """Call a database by where it is, without who asks and with which password.

    >>> name_of("postgresql://ann:secret@db:5432/halocline?sslpassword=secret")
    'postgresql://db:5432/halocline'
    """
    parsed = make_url(url)
    host = (parsed.host or "").rpartition("@")[2] or None  # a password may hold this sign
    place = URL.create(parsed.drivername, host=host, port=parsed.port, database=parsed.database)
    return place.render_as_string()


def _postgres(parsed: URL, wait: float) -> Engine:
    chosen = _POSTGRES | {"options": f"-c lock_timeout={1000 * wait:.0f}"}
    wishes = {name: value for name, value in chosen.items() if name not in parsed.query}
    engine = create_engine(
        parsed,
        connect_args=wishes,
        json_serializer=_json,
        hide_parameters=True,
        pool_size=5,
        max_overflow=_CONNECTIONS - 5,
        pool_pre_ping=True,  # a connection from before a restart is replaced without a word
    )
    event.listen(engine, "connect", _keep_commits)
    return engine


def _keep_commits(connection: Any, _record: object) -> None:
    """Make what was accepted outlive a crash of a server that confirms commits too early."""
    cursor = connection.cursor()
    cursor.execute(
        "SELECT set_config('synchronous_commit', 'on', false)"
        " WHERE current_setting('synchronous_commit') = 'off'"
    )
    cursor.close()
    connection.commit()


def _sqlite(parsed: URL, wait: float) -> Engine:
    if parsed.database:
        Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
    waits = {"timeout": wait}
    engine = create_engine(parsed, connect_args=waits, json_serializer=_json, hide_parameters=True)
    event.listen(engine, "connect", _set_up)
    event.listen(engine, "begin", _begin)
    return engine


def _set_up(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions are begun by `_begin`, not by the driver
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")  # what was accepted outlives a power cut
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("halocline_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _json(value: Any) -> str:
    """Write JSON; numbers that it does not know become null."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value)
        return {name: _finite(member) for name, member in members.items()}
    if isinstance(value, list | tuple):
        return [_finite(member) for member in cast("list[Any]", value)]
    return value


def take_turns(db: Connection, name: str) -> None:
    """Wait until no other transaction holds `name`, and hold it to the end of this one.

    SQLite's writers take turns as it is.
    """
    if db.dialect.name == "postgresql":
        lock = text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))")
        db.execute(lock, {"name": name.replace("\0", "")})


def paged(db: Connection, statement: Select[Any], key: Column[str], page: Page) -> list[RowMapping]:
    """Give the rows of a page, the highest key first."""
    if page.before is not None:
        statement = statement.where(key < page.before)
    if page.after is not None:
        statement = statement.where(key > page.after)
    order = key.asc() if page.is_backward else key.desc()
    some = statement.order_by(order).limit(page.limit).offset(page.offset)
    rows = list(db.execute(some).mappings())
    return rows[::-1] if page.is_backward else rows


@contextmanager
def writing(engine: Engine) -> Generator[Connection]:
    """Open a transaction that writes; committed at the end, rolled back on an error.

    Raises `StoreAway`.
    """
    writer = engine.execution_options(halocline_writes=True)
    with _answering(), writer.connect() as connection, connection.begin():
        yield connection


@contextmanager
def reading(engine: Engine) -> Generator[Connection]:
    """Open a transaction that only reads. Raises `StoreAway`."""
    with _answering(), engine.connect() as connection, connection.begin():
        yield connection


@contextmanager
def _answering() -> Generator[None]:
    """Tell a database that does not answer, or was not migrated, from statements that are wrong."""
    try:
        yield
    except SQLAlchemyError as error:
        if _is_outdated(error):
            raise StoreOutdated(
                f"The database was not migrated to this version of the service: {_reason(error)}."
            ) from error
        lost = isinstance(error, DBAPIError) and error.connection_invalidated
        if lost or isinstance(error, OperationalError | InterfaceError | PoolTimeout):
            raise StoreAway(f"The database does not answer: {_reason(error)}.") from error
        raise


def _is_outdated(error: SQLAlchemyError) -> bool:
    """Say whether a table or a column is missing; SQLite has words for it only."""
    said = error.orig if isinstance(error, DBAPIError) else None
    if getattr(said, "sqlstate", None) in _MISSING_STATES:
        return True
    return isinstance(said, sqlite3.OperationalError) and bool(_MISSING_WORDS.search(str(said)))


def _reason(error: SQLAlchemyError) -> str:
    """Say in a line what the driver said, without the statement."""
    said = str(error.orig if isinstance(error, DBAPIError) else error).strip().splitlines()
    return said[0].rstrip(".") if said else type(error).__name__
