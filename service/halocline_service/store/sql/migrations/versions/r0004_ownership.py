"""Ownership: identity of the database, uploads by content and use, removed folders."""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

from halocline_service.jobs.job import new_id

__all__ = ["branch_labels", "depends_on", "down_revision", "downgrade", "revision", "upgrade"]

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Give the database an identity; uploads that are there stay until they are deleted."""
    made = op.create_table(
        "installation",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_installation"),
    )
    op.bulk_insert(made, [{"id": new_id(), "created": time.time()}])
    op.create_table(
        "removed",
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "id", name="pk_removed"),
    )
    op.add_column("upload", sa.Column("digest", sa.String(64)))
    kept = sa.Column("kept", sa.Boolean(), nullable=False, server_default=sa.true())
    op.add_column("upload", kept)
    op.create_index("ix_upload_digest", "upload", ["owner", "digest"])
    _make_uses()


def _make_uses() -> None:
    op.create_table(
        "upload_use",
        sa.Column("job_id", sa.String(36), nullable=False),
        sa.Column("upload_id", sa.String(36), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "upload_id", name="pk_upload_use"),
        sa.ForeignKeyConstraint(
            ["job_id"], ["job.id"], name="fk_upload_use_job_id_job", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["upload_id"], ["upload.id"], name="fk_upload_use_upload_id_upload", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_upload_use_upload", "upload_use", ["upload_id"])


def downgrade() -> None:
    """Forget all of it."""
    op.drop_table("upload_use")
    op.drop_index("ix_upload_digest", "upload")
    op.drop_column("upload", "kept")
    op.drop_column("upload", "digest")
    op.drop_table("removed")
    op.drop_table("installation")
