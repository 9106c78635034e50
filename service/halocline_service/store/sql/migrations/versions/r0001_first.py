"""The first schema: jobs, their events, uploads, API keys, dispatchers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["branch_labels", "depends_on", "down_revision", "downgrade", "revision", "upgrade"]

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    _make_jobs()
    op.create_table(
        "job_event",
        sa.Column("seq", sa.Integer(), nullable=False, autoincrement=True),
        sa.Column("job_id", sa.String(36), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("kind", sa.String(50), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_job_event"),
        sa.ForeignKeyConstraint(
            ["job_id"], ["job.id"], name="fk_job_event_job_id_job", ondelete="CASCADE"
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_job_event_job", "job_event", ["job_id", "seq"])
    op.create_table(
        "upload",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
        sa.Column("completed", sa.Float()),
        sa.Column("keys", sa.Integer(), nullable=False),
        sa.Column("bytes", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_upload"),
    )
    op.create_index("ix_upload_owner", "upload", ["owner"])
    op.create_table(
        "api_key",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
        sa.Column("revoked", sa.Float()),
        sa.PrimaryKeyConstraint("id", name="pk_api_key"),
    )
    op.create_table(
        "dispatcher",
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("seen", sa.Float(), nullable=False),
        sa.Column("info", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_dispatcher"),
    )


def _make_jobs() -> None:
    op.create_table(
        "job",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("process", sa.String(100), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("idempotency_key", sa.String(255)),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("progress", sa.Float(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("error", sa.JSON()),
        sa.Column("outputs", sa.JSON()),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("lease_owner", sa.String(200)),
        sa.Column("lease_until", sa.Float()),
        sa.Column("created", sa.Float(), nullable=False),
        sa.Column("started", sa.Float()),
        sa.Column("updated", sa.Float(), nullable=False),
        sa.Column("finished", sa.Float()),
        sa.PrimaryKeyConstraint("id", name="pk_job"),
        sa.UniqueConstraint("owner", "idempotency_key", name="uq_job_idempotency"),
    )
    unfinished = sa.text("state IN ('queued', 'running')")
    op.create_index("ix_job_owner", "job", ["owner", "id"])
    op.create_index(
        "ix_job_unfinished",
        "job",
        ["state", "id"],
        sqlite_where=unfinished,
        postgresql_where=unfinished,
    )


def downgrade() -> None:
    """Drop the tables."""
    for table in ("dispatcher", "api_key", "upload", "job_event", "job"):
        op.drop_table(table)
