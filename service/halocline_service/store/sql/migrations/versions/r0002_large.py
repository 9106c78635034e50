"""Bytes, keys and numbers of events in 64 bits, for PostgreSQL; SQLite has had them all along."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["branch_labels", "depends_on", "down_revision", "downgrade", "revision", "upgrade"]

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_COLUMNS = (("job_event", "seq"), ("upload", "keys"), ("upload", "bytes"))


def upgrade() -> None:
    """Widen the columns."""
    _change(sa.Integer(), sa.BigInteger())


def downgrade() -> None:
    """Narrow the columns; fails where a number does not fit."""
    _change(sa.BigInteger(), sa.Integer())


def _change(before: sa.Integer, after: sa.Integer) -> None:
    if op.get_context().dialect.name == "sqlite":
        return
    for table, column in _COLUMNS:
        op.alter_column(table, column, existing_type=before, type_=after, existing_nullable=False)
    sequence = "bigint" if isinstance(after, sa.BigInteger) else "integer"
    op.execute(f"ALTER SEQUENCE job_event_seq_seq AS {sequence}")
