"""The tables, as SQLAlchemy sees them; `migrations` makes them and a test compares the two.

Times are seconds since 1970, UTC.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

__all__ = ["api_key", "dispatcher", "job", "job_event", "metadata", "upload"]

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

job = Table(
    "job",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("owner", String(200), nullable=False),
    Column("process", String(100), nullable=False),
    Column("request", JSON, nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("idempotency_key", String(255)),
    Column("state", String(16), nullable=False),
    Column("progress", Float, nullable=False),
    Column("message", Text, nullable=False),
    Column("error", JSON(none_as_null=True)),
    Column("outputs", JSON(none_as_null=True)),
    Column("attempt", Integer, nullable=False),
    Column("max_attempts", Integer, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("lease_owner", String(200)),
    Column("lease_until", Float),
    Column("created", Float, nullable=False),
    Column("started", Float),
    Column("updated", Float, nullable=False),
    Column("finished", Float),
    UniqueConstraint("owner", "idempotency_key", name="uq_job_idempotency"),
    Index("ix_job_owner", "owner", "id"),
    Index(
        "ix_job_unfinished",
        "state",
        "id",
        sqlite_where=text("state IN ('queued', 'running')"),
        postgresql_where=text("state IN ('queued', 'running')"),
    ),
)

job_event = Table(
    "job_event",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("job_id", String(36), ForeignKey("job.id", ondelete="CASCADE"), nullable=False),
    Column("at", Float, nullable=False),
    Column("kind", String(50), nullable=False),
    Column("data", JSON, nullable=False),
    Index("ix_job_event_job", "job_id", "seq"),
    sqlite_autoincrement=True,
)

upload = Table(
    "upload",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("owner", String(200), nullable=False),
    Column("created", Float, nullable=False),
    Column("completed", Float),
    Column("keys", Integer, nullable=False),
    Column("bytes", Integer, nullable=False),
    Index("ix_upload_owner", "owner"),
)

api_key = Table(
    "api_key",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("owner", String(200), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("created", Float, nullable=False),
    Column("revoked", Float),
)

dispatcher = Table(
    "dispatcher",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("seen", Float, nullable=False),
    Column("info", JSON, nullable=False),
)
