"""Whose a data folder is: no process starts in one that is another database's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from halocline_service.commands import app
from halocline_service.datasets.layout import Layout
from halocline_service.datasets.marker import MARKER, ForeignFolder, adopt, claim, is_ours
from halocline_service.jobs.job import JobRequest, UploadRequest
from halocline_service.settings import Settings
from halocline_service.store.base import Store
from halocline_service.store.memory.store import memory_store
from halocline_service.store.sql.database import name_of

WAY_OUT = (
    "Name the database that belongs to it in HALOCLINE_DATABASE_URL, or another folder in "
    "HALOCLINE_DATA_DIR; or, to give the folder to this database, run 'halocline-server adopt'."
)
STRANGE = "00000000-0000-7000-8000-000000000000"


def used(layout: Layout) -> tuple[Store, str, str]:
    """Make a database with a job and an upload that have files in a folder without a marker."""
    store = memory_store()
    job = store.jobs.add(
        JobRequest(owner="a", process="p", request={}, fingerprint="f"), queue_limit=9
    )
    upload = store.uploads.add(UploadRequest(owner="a"), limit=9)
    layout.make()
    layout.work(job.id).mkdir(parents=True)
    layout.make_upload(upload.id)
    return store, job.id, upload.id


def plant(root: Path) -> dict[Path, bytes]:
    """Put files of someone else where jobs and uploads would lie."""
    for name in ("jobs/my_run/input.txt", "uploads/precious.zarr/zarr.json"):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(f"my {name}")
    return seen(root)


def seen(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("command", ["up", "api", "dispatcher"])
def test_a_folder_of_someone_else_is_refused(tmp_path: Path, command: str) -> None:
    root = tmp_path / "project"
    before = plant(root)
    done = subprocess.run(
        [sys.executable, "-m", "halocline_service.cli", command, "--data-dir", str(root)],
        env={name: value for name, value in os.environ.items() if "HALOCLINE" not in name},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"The data folder '{root}' holds 'jobs/my_run' and 1 more, which the database "
        f"'sqlite:///{root}/halocline.sqlite3' does not know. {WAY_OUT}"
    )
    assert "Traceback" not in done.stderr
    assert before.items() <= seen(root).items()


def test_an_empty_folder_is_marked_once(tmp_path: Path) -> None:
    layout, store = Layout(tmp_path / "new"), memory_store()
    assert not is_ours(layout, store)
    claim(layout, store, database="d")
    text = (layout.root / MARKER).read_text()
    assert json.loads(text) == {"format": 1, "installation": store.identity()}
    claim(layout, store, database="d")
    assert (layout.root / MARKER).read_text() == text
    assert is_ours(layout, store)
    assert {path.name for path in layout.root.iterdir()} == {MARKER, "jobs", "uploads"}


def test_a_folder_from_before_there_were_markers_is_marked(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    store, job, upload = used(layout)
    store.jobs.cancel(job, owner="a")
    store.jobs.remove(job, owner="a")  # its files are left
    assert store.uploads.complete(upload, owner="a", keys=1, size=1)
    layout.open_upload(upload).rename(layout.upload(upload))
    claim(layout, store, database="d")
    assert is_ours(layout, store)


@pytest.mark.parametrize(
    "name",
    [
        f"jobs/{STRANGE}",
        f"uploads/{STRANGE}.zarr",
        "uploads/lost+found",
        "jobs/file",
        "uploads/x.zarr",
    ],
)
def test_what_the_database_does_not_know_is_not_marked(tmp_path: Path, name: str) -> None:
    layout = Layout(tmp_path)
    store, _, _ = used(layout)
    (tmp_path / name).mkdir()
    with pytest.raises(ForeignFolder) as caught:
        claim(layout, store, database="d")
    assert str(caught.value) == (
        f"The data folder '{tmp_path}' holds '{name}', which the database 'd' does not know."
    )
    assert caught.value.hint == WAY_OUT
    assert not (tmp_path / MARKER).exists()
    adopt(layout, store)
    claim(layout, store, database="d")
    assert (tmp_path / name).is_dir()


@pytest.mark.parametrize("name", ["upload", "job"])
def test_names_of_the_other_kind_are_not_known(tmp_path: Path, name: str) -> None:
    layout = Layout(tmp_path)
    store, job, upload = used(layout)
    (layout.job(upload) if name == "job" else layout.upload(job)).mkdir()
    with pytest.raises(ForeignFolder, match="which the database 'd' does not know"):
        claim(layout, store, database="d")


def test_another_database_beside_a_full_folder_is_refused_and_both_are_named(
    tmp_path: Path,
) -> None:
    layout = Layout(tmp_path)
    store, _, _ = used(layout)
    claim(layout, store, database="first")
    before = seen(tmp_path)
    other = memory_store()
    with pytest.raises(ForeignFolder) as caught:
        claim(layout, other, database="second")
    assert str(caught.value) == (
        f"The data folder '{tmp_path}' belongs to another database: its 'halocline.json' names "
        f"installation {store.identity()}, and the database 'second' is {other.identity()}."
    )
    assert caught.value.hint == WAY_OUT
    assert seen(tmp_path) == before
    adopt(layout, other)
    claim(layout, other, database="second")
    with pytest.raises(ForeignFolder):
        claim(layout, store, database="first")


def test_of_two_databases_that_start_at_once_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, first, second = Layout(tmp_path), memory_store(), memory_store()
    known = second.jobs.known

    def slow() -> frozenset[str]:
        claim(layout, first, database="first")
        return known()

    monkeypatch.setattr(second.jobs, "known", slow)
    with pytest.raises(ForeignFolder, match="belongs to another database"):
        claim(layout, second, database="second")
    assert is_ours(layout, first)


def test_a_file_system_without_links_is_marked_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("halocline_service.datasets.marker.os.link", link)
    layout, store = Layout(tmp_path), memory_store()
    claim(layout, store, database="d")
    assert is_ours(layout, store)


def test_what_is_opened_meanwhile_is_not_taken_for_foreign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, store = Layout(tmp_path), memory_store()
    named = Layout.named

    def slow(self: Layout) -> Any:
        before = named(self)
        self.make_upload(store.uploads.add(UploadRequest(owner="a"), limit=9).id)
        return before

    monkeypatch.setattr(Layout, "named", slow)
    claim(layout, store, database="d")
    assert is_ours(layout, store)


def test_a_folder_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    layout, store = Layout(tmp_path), memory_store()
    text = json.dumps({"format": 2, "installation": store.identity(), "more": []})
    (tmp_path / MARKER).write_text(text)
    for work in (lambda: claim(layout, store, database="d"), lambda: adopt(layout, store)):
        with pytest.raises(ForeignFolder) as caught:
            work()
        assert str(caught.value) == (
            f"The data folder '{tmp_path}' is of a newer version of Halocline: its format is 2, "
            "and this version knows up to 1."
        )
        assert caught.value.hint == (
            "Install that version, or name another folder in HALOCLINE_DATA_DIR."
        )
    assert (tmp_path / MARKER).read_text() == text


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "1"}', "\xff", None])
def test_a_marker_that_says_nothing_is_not_replaced(tmp_path: Path, text: str | None) -> None:
    layout, store = Layout(tmp_path), memory_store()
    if text is None:
        (tmp_path / MARKER).mkdir()
    else:
        (tmp_path / MARKER).write_text(text, "latin-1")
    for work in (lambda: claim(layout, store, database="d"), lambda: adopt(layout, store)):
        with pytest.raises(ForeignFolder) as caught:
            work()
        assert str(caught.value) == (
            f"The file '{tmp_path}/halocline.json' does not say whose folder it is."
        )
        assert caught.value.hint == "Restore it, or move it away and run 'halocline-server adopt'."
    assert not is_ours(layout, store)


def test_adopting_says_what_stays(tmp_path: Path) -> None:
    root = tmp_path / "project"
    before = plant(root)
    for number in range(5):
        (root / "jobs" / f"run{number}").mkdir()
    done = CliRunner().invoke(app, ["adopt", "--data-dir", str(root)])
    assert (done.exit_code, done.output) == (
        0,
        f"The data folder '{root}' is this database's now.\n"
        "It does not know 7 of the names there, which stay: jobs/my_run, jobs/run0, jobs/run1, "
        "jobs/run2, jobs/run3 and others.\n",
    )
    assert before.items() <= seen(root).items()
    again = CliRunner().invoke(app, ["adopt", "--data-dir", str(tmp_path / "new")])
    assert again.output == f"The data folder '{tmp_path}/new' is this database's now.\n"


def test_a_database_is_named_without_its_password(settings: Settings) -> None:
    assert name_of(settings.database) == f"sqlite:///{settings.data_dir}/halocline.sqlite3"
    assert name_of("postgresql://ann:se/cr@t@db/h?password=x") == "postgresql://db/h"
