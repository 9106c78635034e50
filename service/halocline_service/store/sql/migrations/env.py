"""Alembic's entry: runs the revisions on the connection that `migrate.upgrade` gives."""

from __future__ import annotations

from alembic import context

from halocline_service.store.sql.tables import metadata

__all__ = ["connection"]

connection = context.config.attributes["connection"]
context.configure(
    connection=connection, target_metadata=metadata, render_as_batch=True, transactional_ddl=False
)
context.run_migrations()
