"""Bring a database's schema up to date with Alembic."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from halocline_service.store.base import StoreNewer
from halocline_service.store.sql.database import connect, name_of, take_turns, writing

__all__ = ["head", "upgrade"]


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config


def head() -> str:
    """Name the newest revision."""
    (name,) = ScriptDirectory.from_config(_config()).get_heads()
    return name


def upgrade(url: str, revision: str = "head") -> None:
    """Make or change the tables; one transaction, and nothing happens where all is done.

    Raises `StoreNewer` where a version that is not known here did so.
    """
    engine = connect(url)
    config = _config()
    try:
        with writing(engine) as connection:
            take_turns(connection, "migrate")
            _refuse_newer(connection, config, url)
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
    finally:
        engine.dispose()


def _refuse_newer(connection: Connection, config: Config, url: str) -> None:
    found = MigrationContext.configure(connection).get_current_revision()
    known = {each.revision for each in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise StoreNewer(
            f"The database '{name_of(url)}' is of a newer version of Halocline: its revision is "
            f"{found}, and this version knows up to {head()}."
        )
