"""A database that answers and was not migrated: told apart from one that is away."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from halocline_service.app import create_app
from halocline_service.commands import main
from halocline_service.settings import Settings
from halocline_service.store.base import StoreAway, StoreOutdated
from halocline_service.store.sql.database import connect, name_of, writing
from halocline_service.store.sql.migrate import head, upgrade
from halocline_service.store.sql.store import open_store

HINT = "An operator must run 'halocline-server migrate'; what was accepted is not lost."


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[str | None]:
    """Give the address of a database with nothing in it; None is SQLite's file."""
    if request.param == "sqlite":
        yield None
        return
    server = request.getfixturevalue("postgres_server")
    name = server.create()
    yield server.url(name)
    server.drop(name)


@pytest.fixture
def client(url: str | None, settings: Settings) -> Generator[TestClient]:
    used = settings.model_copy(update={"database_url": url})
    used.data_dir.mkdir()
    with TestClient(create_app(used), raise_server_exceptions=False) as made:
        made.app_state.update(url=used.database)
        yield made


@pytest.mark.parametrize("revision", [None, "0001", "0002", "0003"])
def test_the_answer_says_which_command_migrates(
    client: TestClient, tmp_path: Path, revision: str | None
) -> None:
    database = client.app_state["url"]
    if revision is not None:
        upgrade(database, revision)
    answer = client.post("/uploads")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    assert answer.json() | {"type": "", "title": ""} == {
        "type": "",
        "title": "",
        "status": 503,
        "code": "unavailable",
        "detail": "The database was not migrated to this version of the service.",
        "hint": HINT,
    }
    ready = client.get("/readyz")
    told: dict[str, Any] = ready.json()["checks"]
    assert (ready.status_code, told["database"]) == (
        503,
        "not migrated: run 'halocline-server migrate'",
    )
    for text in (answer.text, ready.text):  # neither names of tables, nor statements, nor places
        for secret in ("column", "upload.", "sqlite", "psycopg", "SELECT", str(tmp_path)):
            assert secret not in text
    upgrade(database)
    assert client.post("/uploads").status_code == 201
    assert client.get("/readyz").json()["checks"]["database"] == "ok"


def test_a_newer_database_is_not_refused(client: TestClient) -> None:
    """While a deployment is brought up to date, its older processes go on."""
    database = client.app_state["url"]
    upgrade(database)
    engine = connect(database)
    with writing(engine) as db:
        db.exec_driver_sql("ALTER TABLE upload ADD COLUMN later INTEGER")
        db.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    engine.dispose()
    assert client.post("/uploads").status_code == 201
    assert client.get("/readyz").json()["checks"]["database"] == "ok"


def test_a_process_that_starts_on_a_newer_database_says_so(
    url: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    database = url or f"sqlite:///{tmp_path / 'halocline.sqlite3'}"
    upgrade(database)
    engine = connect(database)
    with writing(engine) as db:
        db.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    engine.dispose()
    monkeypatch.setenv("HALOCLINE_DATABASE_URL", database)
    for command in ("migrate", "up", "api", "dispatcher", "adopt"):
        monkeypatch.setattr(sys, "argv", ["halocline-server", command, "--data-dir", str(tmp_path)])
        with pytest.raises(SystemExit) as caught:
            main()
        assert caught.value.code == 1
        assert capsys.readouterr().err == (
            f"The database '{name_of(database)}' is of a newer version of Halocline: its revision "
            f"is 9999, and this version knows up to {head()}. Install that version or a later one; "
            "or restore a backup of the database from before.\n"
        )


def test_a_store_says_so(url: str | None, tmp_path: Path) -> None:
    store = open_store(url or f"sqlite:///{tmp_path / 'empty.sqlite3'}")
    for ask in (store.check, store.jobs.held, store.keys.list, store.jobs.known):
        with pytest.raises(StoreOutdated) as caught:
            ask()
        assert str(caught.value).startswith(
            "The database was not migrated to this version of the service: "
        )
        assert isinstance(caught.value, StoreAway)  # it is waited for in the same way
    store.close()


def test_a_command_says_so(tmp_path: Path) -> None:
    (tmp_path / "halocline.sqlite3").touch()
    words = [sys.executable, "-m", "halocline_service.cli", "key", "list", "--data-dir"]
    done = subprocess.run(
        [*words, str(tmp_path)],
        env={name: value for name, value in os.environ.items() if name != "HALOCLINE_DATABASE_URL"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "The database was not migrated to this version of the service: no such table: api_key. "
        "Run 'halocline-server migrate'.\n"
    )
