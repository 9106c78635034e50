"""Nothing that Halocline did not make is ever deleted, whatever happens in a data folder."""

from __future__ import annotations

import os
import random
import secrets
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halocline_service.datasets.layout import Layout
from halocline_service.datasets.marker import ForeignFolder, adopt, claim
from halocline_service.datasets.turns import alone
from halocline_service.dispatcher.sweep import Sweep
from halocline_service.jobs.job import Ending, JobRequest, UploadRequest, new_id
from halocline_service.jobs.states import Event
from halocline_service.store.base import Store
from halocline_service.store.memory.store import memory_store

DAY = 86_400.0


class Crash(BaseException):
    """The process ends here."""


@dataclass
class World:
    """A data folder, databases that may be put beside it, and files of someone else."""

    root: Path
    draw: random.Random
    now: float = 1e9
    foreign: dict[Path, bytes] = field(default_factory=dict[Path, bytes])
    stores: list[Store] = field(default_factory=list[Store])
    crash_in: int = 1_000_000

    def __post_init__(self) -> None:
        self.layout = Layout(self.root / "data")
        self.outside = self.root / "outside"
        self.stores = [memory_store(clock=lambda: self.now) for _ in range(2)]
        self.store = self.stores[0]

    def ids(self) -> list[str]:
        """Give identifiers of this database, of the other, and of neither."""
        own = [*self.store.jobs.known(), *self.store.uploads.known()]
        gone = [each.id for each in self.store.removed.list(before=float("inf"))]
        return [*own, *gone, *self.stores[1].jobs.known(), new_id()]

    # What someone else does.

    def plant(self) -> None:
        """Put a file where it might be mistaken."""
        some = self.draw.choice(self.ids())
        place = self.draw.choice(
            [
                "jobs/my_run",
                "jobs/work",
                "jobs/attempt-1",
                "jobs",
                "uploads",
                "uploads/precious.zarr",
                "uploads/.zarr",
                f"jobs/{some}",
                f"jobs/{some}/notes",
                f"jobs/{some}/attempt-1.old",
                f"jobs/{some}.bak",
                f"uploads/{some}",
                f"uploads/{some}.zarr.old",
                f"uploads/{new_id()}.zarr",
                f"uploads/{new_id()}.open",
                f"jobs/{new_id()}/work",
                f"jobs/{new_id()}/attempt-1",
                "results",
                ".",
            ]
        )
        self._keep(self.layout.root / place / self.draw.choice(["a.txt", "zarr.json", "keep-1"]))

    def plant_inside(self) -> None:
        """Put a file into a folder that Halocline made, or will make, by a name of its own.

        What a folder of an upload may not hold is what is no key of a Zarr store.
        """
        some = self.draw.choice(self.ids())
        place, name = self.draw.choice(
            [
                (f"jobs/{some}/work", "notes.txt"),
                (f"jobs/{some}/work/result.zarr", "notes.txt"),
                (f"jobs/{some}/work/deep", "a.nc"),
                (f"jobs/{some}/attempt-1", "data.zarr.json"),
                (f"jobs/{some}/attempt-1/result.zarr", "zarr.json~"),
                (f"jobs/{some}/attempt-2/result.zarr/c", "0.bak"),
                (f"uploads/{some}.open", ".notes"),
                (f"uploads/{some}.zarr/.git", "config"),
                (f"uploads/{some}.parts", "notes"),
                (f"uploads/{some}.parts/{'0' * 32}", "a.txt"),
            ]
        )
        self._keep(self.layout.root / place / name)

    def link(self) -> None:
        """Put a link to other files where Halocline's folders are, or in them."""
        kept = self.outside / f"{self.draw.random()}" / "work" / "a.txt"
        self._keep(kept)
        some = self.draw.choice(self.ids())
        place = self.layout.root / self.draw.choice(
            [
                f"jobs/{some}",
                f"jobs/{some}/work",
                f"jobs/{some}/work/deep",
                f"jobs/{some}/attempt-9",
                f"uploads/{some}.zarr",
                f"uploads/{some}.open/x",
                f"uploads/{some}.parts",
            ]
        )
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(self.draw.choice([kept.parent.parent, kept.parent, kept]))

    def _keep(self, path: Path) -> None:
        if any(each.is_symlink() for each in (path, *path.parents)) or path.exists():
            return
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.draw.randbytes(20))
            self.foreign[path] = path.read_bytes()

    # What Halocline does.

    def start(self) -> None:
        with suppress(ForeignFolder):
            claim(self.layout, self.store, database="d")

    def give(self) -> None:
        adopt(self.layout, self.store)

    def swap(self) -> None:
        self.stores.reverse()
        self.store = self.stores[0]

    def wait(self) -> None:
        self.now += self.draw.choice([1.0, 3600.0, 2 * DAY, 9 * DAY])

    def submit(self) -> None:
        asked = JobRequest(owner="a", process="p", request={}, fingerprint="f", max_attempts=9)
        self.store.jobs.add(asked, queue_limit=99)

    def compute(self) -> None:
        """Claim a job, write, and perhaps end it."""
        job = self.store.jobs.claim("w")
        if job is None:
            return
        with suppress(OSError):
            for folder in (self.layout.work(job.id), self.layout.attempt(job.lease)):
                (folder / "result.zarr").mkdir(parents=True, exist_ok=True)
                (folder / "result.zarr" / "0").write_text("own")
        published = {"zarr": {"result": f"attempt-{job.fence}/result.zarr"}}
        match self.draw.randrange(4):
            case 0:
                self.store.jobs.settle(job.lease, Ending(Event.SUCCEED, "", outputs=published))
            case 1:
                self.store.jobs.settle(job.lease, Ending(Event.FAIL, "", error={}))
            case 2:
                self.store.jobs.cancel(job.id, owner="a")
            case _:
                return
        self.store.jobs.drop(job.lease)
        self._sweep().tidy(job.id)

    def remove(self) -> None:
        for job_id in sorted(self.store.jobs.known()):
            removal = self.store.jobs.remove(job_id, owner="a")
            if removal is not None:
                self.layout.forget_job(job_id)
                return

    def upload(self) -> None:
        made = self.store.uploads.add(
            UploadRequest(owner="a", kept=self.draw.random() < 0.5), limit=999
        )
        with suppress(OSError):
            self.layout.make_upload(made.id)
            (self.layout.open_upload(made.id) / "zarr.json").write_text("own")
            part = self.layout.upload_parts(made.id) / secrets.token_hex(16)
            part.write_text("half")
            os.utime(part, (self.now, self.now))
            if self.draw.random() < 0.5:
                self.layout.open_upload(made.id).rename(self.layout.upload(made.id))
                self.store.uploads.complete(made.id, owner="a", keys=1, size=3)

    def delete(self) -> None:
        for upload_id in sorted(self.store.uploads.known())[:1]:
            self.store.uploads.remove(upload_id, owner="a")
            self.layout.forget_upload(upload_id)

    def sweep(self) -> None:
        self._sweep().run()

    def _sweep(self) -> Sweep:
        return Sweep(self.store, self.layout, 7 * DAY, now=lambda: self.now)

    def check(self) -> None:
        assert {path: path.read_bytes() for path in self.foreign} == self.foreign


STEPS: tuple[Callable[[World], None], ...] = (
    World.plant,
    World.plant,
    World.plant_inside,
    World.plant_inside,
    World.link,
    World.start,
    World.give,
    World.swap,
    World.wait,
    World.submit,
    World.compute,
    World.compute,
    World.remove,
    World.upload,
    World.delete,
    World.sweep,
    World.sweep,
)


def crashing(world: World) -> Any:
    """Make the processes of a world end in the midst of deleting, now and then."""
    real = os.unlink

    def unlink(*words: Any, **given: Any) -> None:
        world.crash_in -= 1
        if world.crash_in == 0:
            raise Crash
        real(*words, **given)

    return patch("os.unlink", unlink)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_files_of_others_stay(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    root = tmp_path_factory.mktemp("world")
    world = World(root, random.Random(seed))
    with crashing(world):
        for _ in range(60):
            step = world.draw.choice(STEPS)
            world.crash_in = world.draw.choice([1, 2, 3, 1_000_000])
            with suppress(Crash):
                step(world)
            world.check()
    shutil.rmtree(root)


def test_a_file_of_others_in_the_place_of_parts_stays(tmp_path: Path) -> None:
    layout, upload = Layout(tmp_path), "0" * 32
    layout.upload_parts(upload).parent.mkdir(parents=True)
    layout.upload_parts(upload).write_text("mine")
    assert layout.forget_old_parts(upload, before=2e9) == 0
    assert layout.upload_parts(upload).read_text() == "mine"


@pytest.mark.parametrize(
    ("place", "to"),
    [
        ("jobs/{}", "kept"),
        ("jobs/{}/work", "kept/work"),
        ("jobs/{}/work/deep", "kept"),
        ("jobs/{}/attempt-1/result.zarr/c", "kept/work"),
        ("jobs/{}/work/file", "kept/work/a.txt"),
        ("uploads/{}.zarr", "kept/work"),
        ("uploads/{}.zarr/x", "kept"),
        ("uploads/{}.parts", "kept"),
    ],
)
def test_links_are_not_followed(tmp_path: Path, place: str, to: str) -> None:
    layout, store = Layout(tmp_path / "data"), memory_store()
    claim(layout, store, database="d")
    (tmp_path / "kept" / "work").mkdir(parents=True)
    (tmp_path / "kept" / "work" / "a.txt").write_text("mine")
    if place.startswith("jobs"):
        asked = JobRequest(owner="a", process="p", request={}, fingerprint="f")
        name = store.jobs.add(asked, queue_limit=9).id
        store.jobs.cancel(name, owner="a")
        store.jobs.remove(name, owner="a")
    else:
        name = store.uploads.add(UploadRequest(owner="a"), limit=9).id
        store.uploads.remove(name, owner="a")
    link = layout.root / place.format(name)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(tmp_path / to)
    Sweep(store, layout, 7 * DAY, now=lambda: time.time() + 2 * DAY).run()
    assert (tmp_path / "kept" / "work" / "a.txt").read_text() == "mine"
    assert store.removed.list(before=float("inf")) == []


def removed_job(layout: Layout, store: Store) -> str:
    asked = JobRequest(owner="a", process="p", request={}, fingerprint="f")
    name = store.jobs.add(asked, queue_limit=9).id
    store.jobs.cancel(name, owner="a")
    store.jobs.remove(name, owner="a")
    return name


@pytest.mark.parametrize(
    ("own", "foreign"),
    [
        ("work/attempt-1/pass-000002/t/c/0/0", "work/attempt-1/pass-000002/t/c/0/0.txt"),
        ("work/attempt-1/pass-000002.json", "work/attempt-1/pass-000002.nc"),
        ("work/.halocline-abcd1234/sorted-3.json", "work/.halocline-abcd1234/precious"),
        ("attempt-1/result.zarr/zarr.json", "attempt-1/result.zarr/notes.txt"),
        ("attempt-1/.result.zarr.0a-1-2.0b.part/zarr.json", "attempt-1/notes.txt"),
    ],
)
def test_what_lies_in_folders_of_a_job_stays_if_it_is_not_ours(
    tmp_path: Path, own: str, foreign: str
) -> None:
    layout, store = Layout(tmp_path), memory_store()
    claim(layout, store, database="d")
    folder = layout.job(removed_job(layout, store))
    for name in (own, foreign):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    sweep = Sweep(store, layout, 7 * DAY, now=lambda: time.time() + 2 * DAY)
    with patch("halocline_service.datasets.layout._log") as log:
        sweep.run()
        sweep.run()
    assert [path for path in folder.rglob("*") if path.is_file()] == [folder / foreign]
    assert store.removed.list(before=float("inf")) == []
    told = {"at": folder, "count": 1, "files": [foreign]}
    log.warning.assert_called_once_with("files of others kept", **told)


def test_what_lies_in_folders_of_an_upload_stays_if_no_object_is_called_so(tmp_path: Path) -> None:
    layout, store = Layout(tmp_path), memory_store()
    claim(layout, store, database="d")
    made = store.uploads.add(UploadRequest(owner="a"), limit=9).id
    layout.make_upload(made)
    sent, parts = layout.open_upload(made), layout.upload_parts(made)
    kept = [sent / ".notes", sent / ".git" / "config", parts / "a.txt"]
    (sent / ".git").mkdir()
    gone = [sent / "t.txt", sent / ".zmetadata.part", parts / secrets.token_hex(16)]
    for path in (*kept, *gone, parts / "compared"):
        path.write_text("x")
    store.uploads.remove(made, owner="a")
    assert layout.forget_upload(made).left == []
    assert sorted(path for path in tmp_path.glob("uploads/**/*") if path.is_file()) == sorted(kept)


def test_parts_of_a_process_that_was_killed_are_swept(tmp_path: Path) -> None:
    """Its upload may stay open for long, and so may it be used."""
    layout, store = Layout(tmp_path), memory_store()
    claim(layout, store, database="d")
    made = [store.uploads.add(UploadRequest(owner="a"), limit=9).id for _ in range(4)]
    for each in made:
        layout.make_upload(each)
    _opened, complete, busy, removed = made
    old, young = "a" * 32, "b" * 32
    for each in made:
        for name in (old, young, "notes.txt", "compared"):
            (layout.upload_parts(each) / name).write_text("half")
        ago = time.time() - 1.1 * DAY
        for name in (old, "notes.txt", "compared"):
            os.utime(layout.upload_parts(each) / name, (ago, ago))
        (layout.upload_parts(each) / ("c" * 32)).symlink_to(layout.upload_parts(each) / old)
    store.uploads.complete(complete, owner="a", keys=1, size=1)
    store.uploads.remove(removed, owner="a")
    with alone(layout.upload_parts(busy), seconds=1.0):
        Sweep(store, layout, 7 * DAY).run()
    names = [{path.name for path in layout.upload_parts(each).iterdir()} for each in made]
    link, every = "c" * 32, {old, young, "c" * 32, "notes.txt", "compared"}
    assert names == [every - {old}, {"notes.txt", link}, every, every]


def test_own_files_go_in_the_end(tmp_path: Path) -> None:
    """The other side of the same steps: nothing of what was removed is left for good."""
    world = World(tmp_path, random.Random(1))
    world.start()
    own = (World.submit, World.compute, World.remove, World.upload, World.delete, World.sweep)
    with crashing(world):
        for _ in range(300):
            world.crash_in = world.draw.choice([1, 2, 1_000_000])
            with suppress(Crash):
                world.draw.choice(own)(world)
    world.crash_in = 1_000_000
    world.now += 30 * DAY
    for job_id in world.store.jobs.known():
        world.store.jobs.cancel(job_id, owner="a")
    while world.store.jobs.known():
        world.remove()
    while world.store.uploads.known():
        world.delete()
    world.now += 2 * DAY
    world.sweep()
    assert list((world.layout.root / "uploads").iterdir()) == []
    assert list(world.layout.jobs.iterdir()) == []
    assert world.store.removed.list(before=float("inf")) == []
