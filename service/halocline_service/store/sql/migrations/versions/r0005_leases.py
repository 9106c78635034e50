"""Leases that are counted and not timed, what attempts were cut off by, and turns of owners."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["branch_labels", "depends_on", "down_revision", "downgrade", "revision", "upgrade"]

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_COUNTS = ("crashes", "losses", "beats")
_LOOKED_AT = ("state", "owner", "id", "process", "crashes", "retry_at", "lease_owner")


def upgrade() -> None:
    """Count instead of looking at clocks."""
    for name in _COUNTS:
        column = sa.Column(name, sa.Integer(), nullable=False, server_default="0")
        op.add_column("job", column)
    op.add_column("job", sa.Column("reached", sa.Float(), nullable=False, server_default="0"))
    op.add_column("job", sa.Column("retry_at", sa.Float()))
    op.drop_column("job", "lease_until")
    op.drop_index("ix_job_unfinished", "job")
    _index("ix_job_unfinished", _LOOKED_AT, "state IN ('queued', 'running')")
    _index("ix_job_held", ("lease_owner",), "lease_owner IS NOT NULL")
    op.create_table(
        "share",
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("served", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("owner", name="pk_share"),
    )


def downgrade() -> None:
    """Forget the counts; leases that are held have run out."""
    op.drop_table("share")
    op.drop_index("ix_job_held", "job")
    op.drop_index("ix_job_unfinished", "job")
    _index("ix_job_unfinished", ("state", "id"), "state IN ('queued', 'running')")
    op.add_column("job", sa.Column("lease_until", sa.Float()))
    op.execute("UPDATE job SET lease_until = 0 WHERE lease_owner IS NOT NULL")
    for name in (*_COUNTS, "reached", "retry_at"):
        op.drop_column("job", name)


def _index(name: str, columns: tuple[str, ...], condition: str) -> None:
    where = sa.text(condition)
    op.create_index(name, "job", list(columns), sqlite_where=where, postgresql_where=where)
