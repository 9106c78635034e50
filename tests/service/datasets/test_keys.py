"""Keys of stores: bounded depth, and metadata that has nothing below it."""

from __future__ import annotations

from pathlib import Path

import pytest

from halocline_service.datasets.keys import METADATA, has_key_names, is_key, locate


@pytest.mark.parametrize("names", [1, 2, 34, 40])
def test_keys_of_groups_and_chunks_are_keys(names: int) -> None:
    assert is_key("/".join(["a"] * names))


@pytest.mark.parametrize("names", [41, 200, 512])
def test_no_key_has_more_names_than_groups_and_chunks_need(names: int, tmp_path: Path) -> None:
    key = "/".join(["a"] * names)
    assert not is_key(key)
    assert locate(tmp_path, key) is None
    assert has_key_names(key)  # files of that name are deleted with their upload


@pytest.mark.parametrize("name", sorted(METADATA))
def test_metadata_is_no_folder(name: str) -> None:
    assert is_key(name)
    assert is_key(f"t/{name}")
    assert not is_key(f"{name}/x")
    assert not is_key(f"t/{name}/c/0")
