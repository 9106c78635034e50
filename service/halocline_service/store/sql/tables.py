"""The tables, as SQLAlchemy sees them; `migrations` makes them and a test compares the two.

Times are seconds since 1970, UTC.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
    true,
)
from sqlalchemy.engine import Dialect

__all__ = [
    "api_key",
    "dispatcher",
    "installation",
    "job",
    "job_event",
    "line_of_label",
    "metadata",
    "removed",
    "share",
    "told",
    "upload",
    "upload_use",
]

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def told(text: str) -> str:
    """Return a text from outside without what no database can keep, which would fail a query.

    PostgreSQL refuses NUL, and half of a surrogate pair cannot be encoded at all. What was looked
    for so is not found, as it must be.
    """
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


class _Told(TypeDecorator[str]):
    """Text from outside; see `told`."""

    impl = String
    cache_ok = True

    def process_bind_param(
        self,
        value: str | None,
        dialect: Dialect,  # noqa: ARG002  both databases are told the same
    ) -> str | None:
        return None if value is None else told(value)


class _LongTold(_Told):
    """The same, of any length."""

    impl = Text
    cache_ok = True


class _Labels(TypeDecorator[tuple[str, ...]]):
    """Words, each between two line breaks, so that a whole word is found by a part of the text."""

    impl = Text
    cache_ok = True

    def process_bind_param(
        self,
        value: tuple[str, ...] | None,
        dialect: Dialect,  # noqa: ARG002  both databases are told the same
    ) -> str:
        return "".join(line_of_label(label) for label in value or ())

    def process_result_value(
        self,
        value: str | None,
        dialect: Dialect,  # noqa: ARG002
    ) -> tuple[str, ...]:
        return tuple(label for label in (value or "").split("\n") if label)


def line_of_label(label: str) -> str:
    """Return what is kept of a label."""
    return f"\n{told(label)}\n"


#: Bytes and numbers of events outgrow 32 bits. SQLite counts in 64 bits whatever it is told, and
#: numbers rows by itself only where it is told INTEGER.
_LARGE = BigInteger().with_variant(Integer(), "sqlite")

job = Table(
    "job",
    metadata,
    Column("id", _Told(36), primary_key=True),
    Column("owner", _Told(200), nullable=False),
    Column("process", _Told(100), nullable=False),
    Column("name", _Told(200)),
    Column("labels", _Labels, nullable=False, server_default=""),
    Column("request", JSON, nullable=False),
    Column("fingerprint", _Told(64), nullable=False),
    Column("idempotency_key", _Told(255)),
    Column("state", _Told(16), nullable=False),
    Column("progress", Float, nullable=False),
    Column("message", _LongTold, nullable=False),
    Column("error", JSON(none_as_null=True)),
    Column("outputs", JSON(none_as_null=True)),
    Column("attempt", Integer, nullable=False),
    Column("max_attempts", Integer, nullable=False),
    Column("crashes", Integer, nullable=False),
    Column("losses", Integer, nullable=False),
    Column("reached", Float, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("lease_owner", _Told(200)),
    Column("beats", Integer, nullable=False),
    Column("retry_wait", Float),
    Column("created", Float, nullable=False),
    Column("started", Float),
    Column("updated", Float, nullable=False),
    Column("finished", Float),
    UniqueConstraint("owner", "idempotency_key", name="uq_job_idempotency"),
    Index("ix_job_owner", "owner", "id"),
    # All that a claim looks at, so that it reads no rows (`claims`).
    Index(
        "ix_job_unfinished",
        *("state", "owner", "id", "process", "crashes", "retry_wait", "lease_owner"),
        sqlite_where=text("state IN ('queued', 'running')"),
        postgresql_where=text("state IN ('queued', 'running')"),
    ),
    Index(
        "ix_job_waiting",
        *("state", "id", "fence", "retry_wait"),
        sqlite_where=text("retry_wait IS NOT NULL"),
        postgresql_where=text("retry_wait IS NOT NULL"),
    ),
    Index(
        "ix_job_held",
        "lease_owner",
        sqlite_where=text("lease_owner IS NOT NULL"),
        postgresql_where=text("lease_owner IS NOT NULL"),
    ),
)

#: Whose turn it is: owners by when one of their jobs was last claimed, counted in claims.
share = Table(
    "share",
    metadata,
    Column("owner", _Told(200), primary_key=True),
    Column("served", BigInteger, nullable=False),
)

job_event = Table(
    "job_event",
    metadata,
    Column("seq", _LARGE, primary_key=True, autoincrement=True),
    Column("job_id", _Told(36), ForeignKey("job.id", ondelete="CASCADE"), nullable=False),
    Column("at", Float, nullable=False),
    Column("kind", _Told(50), nullable=False),
    Column("data", JSON, nullable=False),
    Index("ix_job_event_job", "job_id", "seq"),
    sqlite_autoincrement=True,
)

upload = Table(
    "upload",
    metadata,
    Column("id", _Told(36), primary_key=True),
    Column("owner", _Told(200), nullable=False),
    Column("created", Float, nullable=False),
    Column("completed", Float),
    Column("keys", _LARGE, nullable=False),
    Column("bytes", _LARGE, nullable=False),
    Column("idempotency_key", _Told(255)),
    Column("digest", _Told(64)),
    Column("kept", Boolean, nullable=False, server_default=true()),
    Index("ix_upload_owner", "owner"),
    Index("ix_upload_idempotency", "owner", "idempotency_key", unique=True),
    Index("ix_upload_digest", "owner", "digest"),
)

#: Which uploads a job reads, as long as both are there.
upload_use = Table(
    "upload_use",
    metadata,
    Column("job_id", _Told(36), ForeignKey("job.id", ondelete="CASCADE"), primary_key=True),
    Column("upload_id", _Told(36), ForeignKey("upload.id", ondelete="CASCADE"), primary_key=True),
    Index("ix_upload_use_upload", "upload_id"),
)

#: Jobs and uploads of which files may be left.
removed = Table(
    "removed",
    metadata,
    Column("kind", _Told(10), primary_key=True),
    Column("id", _Told(36), primary_key=True),
    Column("at", Float, nullable=False),
)

#: One row: what the data folder's marker names.
installation = Table(
    "installation",
    metadata,
    Column("id", _Told(36), primary_key=True),
    Column("created", Float, nullable=False),
)

api_key = Table(
    "api_key",
    metadata,
    Column("id", _Told(32), primary_key=True),
    Column("owner", _Told(200), nullable=False),
    Column("digest", _Told(64), nullable=False),
    Column("created", Float, nullable=False),
    Column("revoked", Float),
)

dispatcher = Table(
    "dispatcher",
    metadata,
    Column("name", _Told(200), primary_key=True),
    Column("seen", Float, nullable=False),
    Column("info", JSON, nullable=False),
)
