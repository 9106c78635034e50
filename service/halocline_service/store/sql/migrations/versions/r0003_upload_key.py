"""Idempotency keys of uploads."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["branch_labels", "depends_on", "down_revision", "downgrade", "revision", "upgrade"]

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Keep under which key an upload was asked for; an owner's key makes one upload."""
    op.add_column("upload", sa.Column("idempotency_key", sa.String(255)))
    op.create_index("ix_upload_idempotency", "upload", ["owner", "idempotency_key"], unique=True)


def downgrade() -> None:
    """Forget the keys."""
    op.drop_index("ix_upload_idempotency", "upload")
    op.drop_column("upload", "idempotency_key")
