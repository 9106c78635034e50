"""Waits that say for how long, and not until when; those that there are begin anew, at a second."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["branch_labels", "depends_on", "down_revision", "downgrade", "revision", "upgrade"]

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_UNFINISHED = "state IN ('queued', 'running')"
_LOOKED_AT = ("state", "owner", "id", "process", "crashes")


def upgrade() -> None:
    """Count waits instead of looking at clocks."""
    _rename("retry_at", "retry_wait", "1.0")
    _index("ix_job_waiting", ("state", "id", "fence", "retry_wait"), "retry_wait IS NOT NULL")


def downgrade() -> None:
    """Forget the waits: they are over."""
    op.drop_index("ix_job_waiting", "job")
    _rename("retry_wait", "retry_at", "0.0")


def _rename(old: str, new: str, value: str) -> None:
    op.drop_index("ix_job_unfinished", "job")
    op.add_column("job", sa.Column(new, sa.Float()))
    op.execute(f"UPDATE job SET {new} = {value} WHERE {old} IS NOT NULL")
    op.drop_column("job", old)
    _index("ix_job_unfinished", (*_LOOKED_AT, new, "lease_owner"), _UNFINISHED)


def _index(name: str, columns: tuple[str, ...], condition: str) -> None:
    where = sa.text(condition)
    op.create_index(name, "job", list(columns), sqlite_where=where, postgresql_where=where)
