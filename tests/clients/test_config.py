"""Where address and key come from, and that a key goes nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from halocline.config import DEFAULT_URL, Settings, load
from halocline.errors import ArgumentError


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    folder = tmp_path / ".config" / "halocline"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text('url = "https://one.org/"\nkey = "hc_file"\n')
    return {"HOME": str(tmp_path)}


def test_nothing_set_is_the_local_service_without_a_key(tmp_path: Path) -> None:
    assert load(environment={"HOME": str(tmp_path)}) == Settings(DEFAULT_URL, None)


def test_the_file_is_the_last_resort(home: dict[str, str]) -> None:
    assert load(environment=home) == Settings("https://one.org", "hc_file")


def test_the_environment_wins_over_the_file(home: dict[str, str]) -> None:
    variables = {**home, "HALOCLINE_URL": "http://two:8000", "HALOCLINE_KEY": "hc_two"}
    assert load(environment=variables) == Settings("http://two:8000", "hc_two")


def test_arguments_win_over_everything(home: dict[str, str]) -> None:
    variables = {**home, "HALOCLINE_URL": "http://two:8000", "HALOCLINE_KEY": "hc_two"}
    assert load("http://three/", "hc", environment=variables) == Settings("http://three", "hc")


@pytest.mark.parametrize("url", ["https://evil.org", "http://one.org", "https://one.org:444"])
def test_the_key_of_the_file_is_sent_to_no_other_address(home: dict[str, str], url: str) -> None:
    assert load(url, environment=home) == Settings(url, None)


def test_the_folder_of_settings_can_be_moved(home: dict[str, str], tmp_path: Path) -> None:
    variables = {"HOME": "/nowhere", "XDG_CONFIG_HOME": str(tmp_path / ".config")}
    assert load(environment=variables).key == "hc_file"


def test_a_key_is_not_shown() -> None:
    assert "secret" not in repr(Settings("http://a", "secret"))


def test_an_address_that_is_not_http_is_refused() -> None:
    with pytest.raises(ArgumentError) as caught:
        load("ftp://a", environment={})
    assert caught.value.message == (
        "The address of the service must start with 'http://' or 'https://', got 'ftp://a'."
    )


@pytest.mark.parametrize(
    "url",
    [
        "http://a:99999",
        "http://a:port",
        "http://a:0",
        "http://a b",
        "http://:8000",
        "http://[::1",
        "http://me:secret@a",
        "http://a/?x=1",
        "http://a/#x",
    ],
)
def test_an_address_that_cannot_be_one_is_refused(url: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        load(url, environment={})
    assert str(caught.value) == (
        f"The address of the service must have a host and perhaps a port, got '{url}'. "
        "Write 'http://127.0.0.1:8000' or 'https://halocline.example/path'."
    )


@pytest.mark.parametrize("url", ["http://a/b/c", "https://[::1]:8000", "http://a.b:1"])
def test_an_address_may_have_a_path(url: str) -> None:
    assert load(f"{url}/", environment={}).url == url


def test_a_broken_file_is_named(home: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / ".config/halocline/config.toml").write_text("url = [")
    with pytest.raises(ArgumentError, match=r"The settings in '.*config.toml' cannot be read: "):
        load(environment=home)
