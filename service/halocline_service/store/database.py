"""The engine of SQLAlchemy, set for many processes on one SQLite file.

SQLite lets one connection write at a time. A transaction that will write says so at its start
(BEGIN IMMEDIATE), so that it waits for its turn there instead of failing halfway.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url

__all__ = ["connect", "reading", "writing"]

_BUSY_SECONDS = 30


def connect(url: str) -> Engine:
    """Make an engine; the folder of an SQLite file is made if it is missing."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return create_engine(parsed)
    if parsed.database:
        Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(parsed, connect_args={"timeout": _BUSY_SECONDS})
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


@contextmanager
def writing(engine: Engine) -> Generator[Connection]:
    """Open a transaction that writes; committed at the end, rolled back on an error."""
    writer = engine.execution_options(halocline_writes=True)
    with writer.connect() as connection, connection.begin():
        yield connection


@contextmanager
def reading(engine: Engine) -> Generator[Connection]:
    """Open a transaction that only reads."""
    with engine.connect() as connection, connection.begin():
        yield connection
