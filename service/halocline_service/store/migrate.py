"""Bring a database's schema up to date with Alembic."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from halocline_service.store.database import connect, take_turns, writing

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
    """Make or change the tables; one transaction, and nothing happens where all is done."""
    engine = connect(url)
    config = _config()
    try:
        with writing(engine) as connection:
            take_turns(connection, "migrate")
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
    finally:
        engine.dispose()
