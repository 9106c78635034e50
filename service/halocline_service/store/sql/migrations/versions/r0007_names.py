"""Names and labels of jobs; those that there are have none."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["branch_labels", "depends_on", "down_revision", "downgrade", "revision", "upgrade"]

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Give jobs a name and labels."""
    op.add_column("job", sa.Column("name", sa.String(200)))
    op.add_column("job", sa.Column("labels", sa.Text(), nullable=False, server_default=""))


def downgrade() -> None:
    """Forget them."""
    op.drop_column("job", "labels")
    op.drop_column("job", "name")
