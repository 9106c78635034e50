"""What a reference may name: by cases, and by whatever Hypothesis thinks of."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from halocline_service.datasets.layout import Layout
from halocline_service.datasets.references import (
    FORBIDDEN,
    MISSING,
    DatasetRefused,
    Resolver,
)
from halocline_service.store.memory.store import memory_store


@dataclass
class Place:
    root: Path
    resolver: Resolver


@pytest.fixture
def place(tmp_path: Path) -> Place:
    root = tmp_path / "root"
    (root / "deep" / "a.zarr").mkdir(parents=True)
    (root / "with space.nc").write_text("x")
    (tmp_path / "root-beside").mkdir()
    (tmp_path / "root-beside" / "x.nc").write_text("x")
    (tmp_path / "secret").write_text("secret")
    (root / "out").symlink_to(tmp_path / "secret")
    (root / "dir-out").symlink_to(tmp_path / "root-beside")
    (root / "within").symlink_to(root / "deep")
    return Place(root, Resolver(memory_store(), Layout(tmp_path / "state"), (root,)))


def refused(place: Place, reference: str) -> DatasetRefused:
    with pytest.raises(DatasetRefused) as caught:
        place.resolver.resolve(reference, owner="ann")
    return caught.value


def test_names_under_a_root(place: Place) -> None:
    wanted = place.root / "deep" / "a.zarr"
    for reference in (
        "deep/a.zarr",
        str(wanted),
        f"file://{wanted}",
        f"file://localhost{wanted}",
        "deep/../deep/a.zarr",
        "within/a.zarr",
    ):
        assert place.resolver.resolve(reference, owner="ann") == wanted
    spaced = place.resolver.resolve(f"file://{place.root}/with%20space.nc", owner="ann")
    assert spaced == place.root / "with space.nc"


@pytest.mark.parametrize(
    "reference",
    [
        "../secret",
        "deep/../../secret",
        "out",
        "dir-out/x.nc",
        "/etc/passwd",
        "{root}/../secret",
        "{root}-beside/x.nc",
        "{root}/out",
        "file://{root}/%2e%2e/secret",
        "file:///etc/passwd",
    ],
)
def test_names_that_lead_out(place: Place, reference: str) -> None:
    error = refused(place, reference.replace("{root}", str(place.root)))
    assert error.reason == FORBIDDEN
    assert "is not under a folder that may be read" in error.message


def test_what_lies_outside_is_not_even_said_to_exist(place: Place) -> None:
    there = refused(place, "../secret").message.replace("secret", "X")
    absent = refused(place, "../absent").message.replace("absent", "X")
    assert there == absent


def _other(text: str) -> str:
    scheme = text.partition(":")[0]
    told = f"the service reads no '{scheme}:' addresses, and no object stores yet"
    return f"Dataset '{text}' cannot be read: {told}."


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("", "A dataset reference must be 1 to 4096 printable characters."),
        ("a\0b", "A dataset reference must be 1 to 4096 printable characters."),
        ("a" * 4097, "A dataset reference must be 1 to 4096 printable characters."),
        ("simplecache::a.zarr", "A dataset reference must not chain file systems with '::'."),
        ("https://example.org/a", _other("https://example.org/a")),
        ("FILE:///etc/passwd", _other("FILE:///etc/passwd")),
        ("memory:a", _other("memory:a")),
        ("s3://bucket/a.zarr", _other("s3://bucket/a.zarr")),
        ("file://host/a", "A file URL must have the form 'file:///path', got 'file://host/a'."),
        ("file:a", "A file URL must have the form 'file:///path', got 'file:a'."),
        ("file:///a?b", "A file URL must have the form 'file:///path', got 'file:///a?b'."),
        ("file:///a%00", "A file URL must have the form 'file:///path', got 'file:///a%00'."),
        ("upload:../../x", "'../../x' is not an identifier of an upload or a job."),
        ("job:..", "'..' is not an identifier of an upload or a job."),
    ],
)
def test_what_is_no_reference(place: Place, reference: str, message: str) -> None:
    error = refused(place, reference)
    assert (error.message, error.reason) == (message, "")
    assert error.code == "dataset"


@pytest.mark.parametrize("name", ["a" * 256, "é" * 128, "deep/" + "a" * 256, "a/" * 2047 + "a"])
def test_names_too_long_for_the_file_system_are_missing(place: Place, name: str) -> None:
    error = refused(place, name)
    assert error.message == f"There is no dataset '{name}' under the folders that may be read."
    assert error.reason == MISSING
    if len(name) < 1000:  # an absolute path may have 4096 characters too
        path = f"{place.root}/{name}"
        assert refused(place, path).message == f"There is no dataset '{path}'."


@pytest.mark.parametrize(
    "name",
    ["run1:out.nc", "geo.2020-01-01T00:00:00.nc", "wrfout_d01_2020-01-01_00:00:00", "x:a/b.nc"],
)
def test_names_of_files_have_colons(place: Place, name: str) -> None:
    path = place.root / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("x")
    assert place.resolver.resolve(name, owner="ann") == path
    assert place.resolver.resolve(str(path), owner="ann") == path


def test_what_is_not_there(place: Place) -> None:
    for reference in ("nothing.nc", f"{place.root}/nothing.nc"):
        assert refused(place, reference).reason == MISSING


def test_without_roots_no_path_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.nc").write_text("x")
    resolver = Resolver(memory_store(), Layout(tmp_path / "state"), ())
    place = Place(tmp_path, resolver)
    assert refused(place, str(tmp_path / "a.nc")).reason == FORBIDDEN
    assert refused(place, "a.nc").reason == MISSING


_PARTS = st.sampled_from(
    ["..", ".", "deep", "a.zarr", "out", "dir-out", "x.nc", "within", "root", "root-beside", ""]
) | st.text(max_size=6)


@given(st.lists(_PARTS, max_size=8), st.sampled_from(["", "/", "file://", "file:", "upload:"]))
@example(["..", "secret"], "")
@example(["[", "secret"], "file://")
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_whatever_is_answered_is_under_the_root(
    place: Place, parts: list[str], prefix: str
) -> None:
    for start in ("", str(place.root) + "/"):
        try:
            found = place.resolver.resolve(prefix + start + "/".join(parts), owner="ann")
        except DatasetRefused:
            continue
        assert Path(os.path.realpath(found)).is_relative_to(place.root)
        assert found.exists()
