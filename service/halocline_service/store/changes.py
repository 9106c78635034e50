"""Notification of those that wait for jobs: dispatchers, and streams of events.

PostgreSQL sends a notification with what was committed. SQLite sends none, but tells within five
microseconds whether its file was changed (`PRAGMA data_version`): it is asked a hundred times a
second while somebody listens, and what is new is then read from the table of events.

Nothing rests on it. Who waits looks from time to time all the same: a database may be away.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from halocline_service.store.base import Change, Listener, Note

__all__ = ["SqlChanges", "announce"]

_log = structlog.get_logger()
_CHANNEL = "halocline"
_TICK_SECONDS = 0.01
_AROUND_SECONDS = 0.5  # how often a connection that waits for notifications looks around
_AWAY_SECONDS = 1.0
_LINGER_SECONDS = 10.0
_MOST = 1000
_SINCE = """
SELECT seq, job_id, CASE kind WHEN 'status' THEN json_extract(data, '$.status') END
FROM job_event WHERE seq > ? ORDER BY seq LIMIT ?
"""


def announce(db: Connection, job_id: str, notes: list[Note]) -> None:
    """Tell what is noted about a job to who listens, once it is committed."""
    if db.dialect.name == "postgresql":
        told = {"channel": _CHANNEL, "change": f"{job_id} {_status(notes) or ''}"}
        db.execute(text("SELECT pg_notify(:channel, :change)"), told)


def _status(notes: list[Note]) -> str | None:
    found = [str(note.data.get("status")) for note in notes if note.kind == "status"]
    return found[-1] if found else None


class SqlChanges:
    """`Changes` of a database; a thread watches it while somebody listens, and a little longer."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._listeners: list[Listener] = []
        self._thread: threading.Thread | None = None
        self._left = float("-inf")
        self._closed = threading.Event()

    @contextmanager
    def listen(self, listener: Listener) -> Generator[None]:
        """Call `listener` with each change; see `Changes`."""
        with self._lock:
            self._listeners.append(listener)
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._watch, name="changes", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(listener)
                self._left = time.monotonic()

    def close(self) -> None:
        """Watch no more."""
        self._closed.set()
        thread = self._thread
        if thread is not None:
            thread.join(2 * _AROUND_SECONDS)

    def _watch(self) -> None:
        postgres = self._engine.dialect.name == "postgresql"
        watched = _notified if postgres else _looked
        errors = (SQLAlchemyError, self._engine.dialect.loaded_dbapi.Error)
        while self._is_wanted():
            try:
                for change in watched(self._engine, self._is_wanted):
                    self._tell(change)
            except errors as error:
                _log.warning("changes not watched", error=str(error))
                self._closed.wait(_AWAY_SECONDS)

    def _is_wanted(self) -> bool:
        """Say whether somebody listens; else the thread ends."""
        with self._lock:
            lingers = time.monotonic() - self._left < _LINGER_SECONDS
            wanted = not self._closed.is_set() and (bool(self._listeners) or lingers)
            if not wanted:
                self._thread = None
            return wanted

    def _tell(self, change: Change | None) -> None:
        with self._lock:
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener(change)


@contextmanager
def _connected(engine: Engine) -> Generator[Any]:
    """Open a connection of its own, outside of the pool."""
    borrowed = engine.raw_connection()
    connection = borrowed.driver_connection
    borrowed.detach()
    try:
        yield connection
    finally:
        borrowed.close()


def _looked(engine: Engine, wanted: Callable[[], bool]) -> Iterator[Change | None]:
    """Ask SQLite again and again whether its file was changed, and read what is new."""
    with _connected(engine) as connection:
        version = None
        (last,) = connection.execute("SELECT coalesce(max(seq), 0) FROM job_event").fetchone()
        yield None
        while wanted():
            (now,) = connection.execute("PRAGMA data_version").fetchone()
            if now == version:
                time.sleep(_TICK_SECONDS)
                continue
            rows = connection.execute(_SINCE, (last, _MOST)).fetchall()
            version = now if len(rows) < _MOST else None
            for last, job_id, status in rows:  # noqa: B007  the last one is kept
                yield Change(job_id, status)


def _notified(engine: Engine, wanted: Callable[[], bool]) -> Iterator[Change | None]:
    """Wait for what PostgreSQL sends."""
    with _connected(engine) as connection:
        connection.autocommit = True
        connection.execute(f"LISTEN {_CHANNEL}")
        yield None
        while wanted():
            for sent in connection.notifies(timeout=_AROUND_SECONDS):
                job_id, _, status = sent.payload.partition(" ")
                yield Change(job_id, status or None)
