"""Settings: defaults that are safe, and combinations that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from halocline_service.settings import VARIABLES, Settings, is_loopback, unknown_variables


def test_no_keys_are_needed_on_loopback_only() -> None:
    assert not Settings(host="127.0.0.1").needs_keys
    assert not Settings(host="::1").needs_keys
    assert not Settings(host="localhost").needs_keys
    assert Settings(host="0.0.0.0").needs_keys
    assert Settings(host="10.1.2.3").needs_keys
    assert Settings(host="example.org").needs_keys
    assert Settings(host="127.0.0.1", auth="keys").needs_keys


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "localhost.evil.org"])
def test_an_open_door_is_refused(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(ValidationError) as caught:
        Settings(host=host, auth="none")
    assert caught.value.errors()[0]["msg"] == (
        "Value error, Authentication may be 'none' only on a loopback address, got host "
        f"'{host}'. Set HALOCLINE_AUTH=keys, or bind to 127.0.0.1."
    )


def test_a_lease_outlasts_its_heartbeats() -> None:
    with pytest.raises(ValidationError, match="A lease must last at least two heartbeats, got 10"):
        Settings(lease_seconds=10, heartbeat_seconds=6)


def test_lists_are_read_as_people_write_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HALOCLINE_DATA_ROOTS", "/a:/b c")
    monkeypatch.setenv("HALOCLINE_CORS_ORIGINS", '["https://x", "https://y"]')
    monkeypatch.setenv("HALOCLINE_ALLOWED_HOSTS", "a.org,b.org")
    settings = Settings()
    assert settings.data_roots == [Path("/a"), Path("/b c")]
    assert settings.cors_origins == ["https://x", "https://y"]
    assert settings.allowed_hosts == ["a.org", "b.org"]


def test_an_operator_grants_less_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings().limits == {"memory_fraction": 0.5, "program_size": 64_000}
    assert Settings(concurrency=1).limits == {"memory_fraction": 1.0, "program_size": 64_000}
    monkeypatch.setenv("HALOCLINE_MEMORY_BYTES", "4000000000")
    monkeypatch.setenv("HALOCLINE_DEVICE_MEMORY_BYTES", "2000000000")
    memory = {
        "memory_limit": 2 * 10**9,
        "device_memory_limit": 10**9,
    }  # each of two jobs at once has half
    assert Settings().limits == {**memory, "memory_fraction": 0.5, "program_size": 64_000}
    with pytest.raises(ValidationError, match="memory_bytes"):
        Settings(memory_bytes=0)


def test_the_database_is_under_the_data_folder(tmp_path: Path) -> None:
    assert Settings(data_dir=tmp_path).database == f"sqlite:///{tmp_path}/halocline.sqlite3"
    assert Settings(database_url="sqlite:///x").database == "sqlite:///x"


@pytest.mark.parametrize(
    ("url", "scheme"),
    [("mysql://me:secret@host/db", "mysql"), ("postgres://me:secret@host/db", "postgres")],
)
def test_other_databases_are_refused_without_showing_the_password(url: str, scheme: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(database_url=url)
    told = caught.value.errors()[0]["msg"]
    assert told == (
        "Value error, A database must be one of sqlite, postgresql, postgresql+psycopg, got "
        f"'{scheme}'. Write 'postgresql://user:password@host/name', or leave "
        "HALOCLINE_DATABASE_URL out for SQLite."
    )


def test_a_database_may_be_named() -> None:
    for url in ("postgresql://me:secret@host/db", "sqlite:////tmp/x.sqlite3"):
        assert Settings(database_url=url).database == url


def test_a_database_that_is_left_empty_is_sqlite(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where Compose passes on a variable that is not set."""
    monkeypatch.setenv("HALOCLINE_DATABASE_URL", "")
    assert Settings(data_dir=Path("/x")).database == "sqlite:////x/halocline.sqlite3"


def test_variables_that_are_misspelt_are_found() -> None:
    given = {"HALOCLINE_PORTT": "1", "HALOCLINE_PORT": "1", "HALOCLINE_KEY": "k", "PATH": "x"}
    assert unknown_variables(given) == ["HALOCLINE_PORTT"]
    assert unknown_variables(dict.fromkeys(VARIABLES, "1")) == []


def test_the_data_folder_is_one_of_the_user_unless_it_is_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("HALOCLINE_DATA_DIR", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        assert Settings().data_dir == tmp_path / "halocline"
    monkeypatch.setenv("HALOCLINE_DATA_DIR", "/elsewhere")
    assert Settings().data_dir == Path("/elsewhere")
