"""The cache: whole entries or none."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from unittest.mock import Mock

import pytest

from halocline_engine.cache import Cache, code_folder, key_of, trim
from halocline_engine.errors import InternalError

KEY = key_of("a program", "a target")


def entry(root: Path) -> Path:
    (found,) = (path for path in root.rglob("*") if path.is_file())
    return found


def test_what_is_stored_is_loaded(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "new" / "cache")
    assert cache.load(KEY) is None
    cache.store(KEY, b"\x00cubin")
    assert cache.load(KEY) == b"\x00cubin"
    assert cache.load(key_of("another")) is None
    cache.store(KEY, b"")
    assert cache.load(KEY) == b""


@pytest.mark.parametrize("damage", [b"", b"short", None])
def test_a_bad_entry_is_a_miss_and_is_made_again(tmp_path: Path, damage: bytes | None) -> None:
    cache = Cache(tmp_path)
    cache.store(KEY, b"payload")
    path = entry(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"x" if damage is None else damage)
    assert cache.load(KEY) is None
    assert cache.get(KEY, lambda: b"payload") == b"payload"
    assert path.read_bytes() == whole


def test_it_is_made_once(tmp_path: Path) -> None:
    made: list[int] = []

    def make() -> bytes:
        made.append(1)
        return b"payload"

    cache = Cache(tmp_path)
    assert [cache.get(KEY, make) for _ in range(3)] == [b"payload"] * 3
    assert len(made) == 1


def test_nothing_is_left_beside_the_entry(tmp_path: Path) -> None:
    Cache(tmp_path).store(KEY, b"payload")
    assert entry(tmp_path).parent.name == KEY[:2]


def test_a_directory_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a directory")
    cache = Cache(file)
    assert cache.get(KEY, lambda: b"payload") == b"payload"
    assert file.read_text() == "not a directory"


def test_keys_are_not_paths(tmp_path: Path) -> None:
    with pytest.raises(InternalError) as caught:
        Cache(tmp_path).load("../../secret")
    assert str(caught.value) == "The cache key '../../secret' is not hexadecimal."


def test_keys_do_not_run_together() -> None:
    assert key_of("ab", "c") != key_of("a", "bc")
    assert len(KEY) == 64


def test_code_of_a_user_without_a_home_is_temporary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert code_folder("cuda").is_absolute()
    found = Mock(return_value=Path("~/.cache/halocline"))
    monkeypatch.setattr("platformdirs.user_cache_path", found)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = code_folder("cuda").parent
    assert own == tmp_path / f"halocline-{os.getuid()}"
    assert own.stat().st_mode & 0o777 == 0o700
    # Others could put code there.
    own.chmod(0o777)
    other = code_folder("cuda").parent
    assert other != own
    assert other.stat().st_mode & 0o777 == 0o700


def test_entries_that_were_used_longest_ago_are_removed(tmp_path: Path) -> None:
    """Only those: what others put there stays, also inside of an entry."""
    cache = Cache(tmp_path)
    keys = [key_of(str(number)) for number in range(20)]
    for age, key in enumerate(keys):
        cache.store(key, b"code")
        os.utime(cache.path(key), (1000 - age, 1000 - age))
    folder = cache.path(key_of("folder"))
    (folder / "__pycache__").mkdir(parents=True)
    for name in ("kernels.py", "__pycache__/kernels.kernel0-1.py311.nbi", "foreign"):
        (folder / name).write_text("x")
    os.utime(folder, (1, 1))
    (tmp_path / "notes").write_text("x")
    trim(tmp_path, 21)
    assert all(cache.load(key) for key in keys)
    trim(tmp_path, 20)
    assert [cache.load(key) is not None for key in keys] == [True] * 18 + [False] * 2
    assert [file.name for file in folder.rglob("*")] == ["foreign"]
    assert (tmp_path / "notes").exists()
