"""Nothing that Halocline did not make is ever deleted, whatever folders a caller names."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import os
import random
import resource
import shutil
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import halocline_engine as he
from halocline_engine.cache import Cache, key_of
from halocline_engine.datasets.stores.sink import create_store
from halocline_engine.distribute.jobs.checkpoint import (
    MARK,
    begin_pass,
    finish_pass,
    newest_pass,
    prune,
)
from halocline_engine.distribute.jobs.outputs import published, temporary_folder
from halocline_engine.distribute.tasks.events import Event
from halocline_engine.interface.workspace import Workspace
from halocline_engine.removal import is_own, remove_own

SMOOTH = """
def smooth(inp: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = 0.5 * (inp[1, 0, 0] + inp[-1, 0, 0])
"""
DATA = xr.Dataset({"inp": (("y", "x"), np.arange(24.0).reshape(4, 6))})
SWEPT: dict[str, Any] = {
    "boundary": {"x": "periodic"},
    "feedback": {"out": "inp"},
    "chunks": {"y": 2},
}
EXPECTED = {
    steps: he.run(SMOOTH, DATA, steps=steps, target="reference", **SWEPT)["out"].values.tobytes()
    for steps in (5, 7)
}
PASSES = [f"attempt-{n}/pass-{steps:06d}" for n in (0, 1) for steps in (2, 4, 6)]


class Crash(BaseException):
    """The process ends here."""


@dataclass
class World:
    """A workspace, a folder of results and a cache, where someone else has files too."""

    root: Path
    draw: random.Random
    foreign: dict[Path, bytes] = field(default_factory=dict[Path, bytes])
    calls: int = 0
    crash_at: int = 0
    whole: int = 0

    # What someone else does.

    def plant(self) -> None:
        place: str = self.draw.choice(
            [
                *(f"work/{one}" for one in PASSES),
                *(f"work/{one}/inp/c/0" for one in PASSES),
                *(f"work/{one}.bak" for one in PASSES),
                *("work", "work/attempt-0", "work/attempt-1", "work/input", "work/.halocline-mine"),
                *("out", "out/out.zarr", "out/.out.zarr.0123456789ab-1-1.abcdefabcdef.part"),
                *("cache", "cache/ab"),
            ]
        )
        own = any(
            (self.root / "work" / one / "zarr.json").exists() for one in PASSES if one in place
        )
        name = self.draw.choice(["a.txt"] if own else ["a.txt", "zarr.json", "0"])
        self._keep(self.root / place / name)

    def plant_instead(self) -> None:
        """Put a file where a manifest, a folder, or a draft of one is to be."""
        places = [f"{one}{suffix}" for one in PASSES for suffix in ("", ".json", ".part")]
        self._keep(self.root / "work" / self.draw.choice([*places, "attempt-0"]))

    def link(self) -> None:
        kept = self.root / "elsewhere" / f"{self.draw.random()}" / "zarr.json"
        self._keep(kept)
        place = (
            self.root
            / "work"
            / self.draw.choice(
                [*PASSES, f"{PASSES[0]}/inp", f"{PASSES[3]}.json", "attempt-0", ".halocline-link"]
            )
        )
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(self.draw.choice([kept, kept.parent]))

    def _keep(self, path: Path) -> None:
        if any(each.is_symlink() for each in (path, *path.parents)) or path.exists():
            return
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.draw.randbytes(20))
            self.foreign[path] = path.read_bytes()

    def tidy(self) -> None:
        """Take the way out that errors name: put what is in the way somewhere else."""
        for path in [path for path in self.foreign if self.root / "work" in path.parents]:
            place = self.root / "elsewhere" / f"{self.draw.random()}"
            place.parent.mkdir(exist_ok=True)
            path.rename(place)
            self.foreign[place] = self.foreign.pop(path)
        for path in sorted((self.root / "work").rglob("*"), reverse=True):
            if path.is_symlink():
                path.unlink()
            elif path.is_dir() and not list(path.iterdir()):
                path.rmdir()

    # What Halocline does.

    def run(self, *, calm: bool = False) -> None:
        """Run until the end, until it is cancelled, or until someone puts something there."""
        steps, stop = self.draw.choice([5, 7]), self.draw.randrange(12)
        meddle = not calm and self.draw.random() < 0.3

        def tell(_event: Event) -> None:
            if meddle and self.draw.random() < 0.1:
                self.draw.choice(PLANTS)(self)

        def stopped() -> bool:
            self.calls += 1
            return stop < 6 and not calm and self.calls > 3 * stop

        self.calls = 0
        (self.root / "out").mkdir(exist_ok=True)
        given: dict[str, Any] = {"output": self.root / "out" / "out.zarr"}
        if self.draw.random() < 0.8:
            given |= {"workspace": Workspace(str(self.root / "work"), self.draw.randrange(2))}
        options = he.Options(steps_per_pass=2)
        told: dict[str, Any] = {"on_event": tell, "cancelled": stopped, "target": "reference"}
        with suppress(he.HaloclineError):
            done = he.run(SMOOTH, DATA, steps=steps, options=options, **SWEPT, **given, **told)
            assert done["out"].values.tobytes() == EXPECTED[steps]
            done.close()
            self.whole += 1
            if not meddle:
                (self.root / "out" / "out.zarr").rename(self.root / "out" / f"{self.whole}.zarr")

    def cache(self) -> None:
        found = Cache(self.root / "cache").get(key_of(self.draw.choice("abc")), lambda: b"made")
        assert found == b"made"

    def check(self) -> None:
        assert {path: path.read_bytes() for path in self.foreign} == self.foreign


PLANTS: tuple[Callable[[World], None], ...] = (World.plant, World.plant_instead, World.link)
STEPS = (*PLANTS, World.tidy, World.cache, *(World.run,) * 4)


def killed(world: World) -> ExitStack:
    """Make the process of a world end, now and then, when it next deletes or renames anything."""
    stack, left = ExitStack(), [0]

    def deadly(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any, **given: Any) -> Any:
            left[0] += 1
            if world.crash_at and left[0] >= world.crash_at:
                raise Crash
            return real(*words, **given)

        return call

    for name in ("unlink", "rmdir", "rename", "replace"):
        stack.enter_context(patch(f"os.{name}", deadly(getattr(os, name))))
    stack.callback(left.clear)
    world.crash_at, left[0] = world.draw.choice([1, 2, 3, 20, 60, 0, 0, 0]), 0
    return stack


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_files_of_others_stay(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    root = tmp_path_factory.mktemp("world")
    world = World(root, random.Random(seed))
    for _ in range(20):
        step = world.draw.choice(STEPS)
        with suppress(Crash), killed(world) if step is World.run else ExitStack():
            step(world)
        world.check()
    whole = world.whole
    world.crash_at = 0
    world.tidy()
    shutil.rmtree(root / "out", ignore_errors=True)
    world.run(calm=True)  # what is its own is never in its way
    assert world.whole == whole + 1
    shutil.rmtree(root)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "attempt-0" / "pass-000002"


def passed(workspace: Path, attempt: int = 0, steps: int = 2) -> Path:
    """Make a pass as a run does."""
    path = begin_pass(workspace, attempt, steps)
    grid: Any = None  # of no field
    create_store(path, (), grid, {}, MARK)
    (path / "inp" / "c").mkdir(parents=True)
    for name in ("inp/zarr.json", "inp/c/0", "inp/c/1"):
        (path / name).write_text("own")
    return path


def refused(workspace: Path, path: Path) -> None:
    with pytest.raises(he.OutputError) as caught:
        begin_pass(workspace, 0, 2)
    assert str(caught.value) == (
        f"A pass needs the place of '{path}' in the workspace, but Halocline did not make that. "
        "Move it away, or choose another workspace."
    )


@pytest.mark.parametrize("name", ["a.txt", "zarr.json", "c/0", "0"])
@pytest.mark.parametrize(
    "text", ["", "{}", '{"attributes": {}}', '{"attributes": {"halocline": 1}}']
)
def test_no_pass_replaces_a_folder_of_someone_else(
    tmp_path: Path, place: Path, name: str, text: str
) -> None:
    (place / name).parent.mkdir(parents=True)
    (place / name).write_text(text)
    refused(tmp_path, place)
    assert (place / name).read_text() == text
    shutil.rmtree(place)
    assert begin_pass(tmp_path, 0, 2) == place


def test_no_pass_replaces_a_file_or_a_link(tmp_path: Path, place: Path) -> None:
    place.parent.mkdir()
    place.write_text("mine")
    refused(tmp_path, place)
    assert place.read_text() == "mine"
    kept = place.rename(tmp_path / "kept")
    for to in (kept, tmp_path, tmp_path / "nowhere"):
        place.symlink_to(to)
        refused(tmp_path, place)
        place.unlink()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 99, "fingerprint": "f"}'])
def test_no_manifest_replaces_a_file_of_someone_else(
    tmp_path: Path, place: Path, text: str
) -> None:
    manifest = tmp_path / "attempt-0" / "pass-000002.json"
    manifest.parent.mkdir()
    manifest.write_text(text)
    refused(tmp_path, manifest)
    manifest.unlink()
    passed(tmp_path)
    manifest.write_text(text)
    with pytest.raises(he.OutputError, match="Halocline did not make that"):
        finish_pass(place, "f", 2)
    assert manifest.read_text() == text


def test_a_link_to_a_manifest_is_none(tmp_path: Path, place: Path) -> None:
    finish_pass(passed(tmp_path), "f", 2)
    link = tmp_path / "attempt-0" / "pass-000002.json"
    kept = link.rename(tmp_path / "kept")
    link.symlink_to(kept)
    assert newest_pass(tmp_path, "f") is None
    refused(tmp_path, link)
    assert link.is_symlink()
    assert (place / "inp" / "c" / "0").exists()


def test_a_pass_leaves_what_someone_put_into_it(tmp_path: Path, place: Path) -> None:
    passed(tmp_path)
    (place / "inp" / "c" / "a.txt").write_text("mine")
    refused(tmp_path, place / "inp" / "c" / "a.txt")
    assert [path for path in place.rglob("*") if path.is_file()] == [place / "inp" / "c" / "a.txt"]
    refused(tmp_path, place)


def test_old_passes_leave_what_someone_put_into_them(tmp_path: Path) -> None:
    for steps in (2, 4, 6):
        finish_pass(passed(tmp_path, steps=steps), "f", steps)
    kept = tmp_path / "attempt-0" / "pass-000002" / "notes.txt"
    kept.write_text("mine")
    prune(tmp_path, "f")
    assert kept.read_text() == "mine"
    names = sorted(path.name for path in (tmp_path / "attempt-0").iterdir())
    assert names[0] == "pass-000002"
    assert names[1:] == ["pass-000004", "pass-000004.json", "pass-000006", "pass-000006.json"]


def test_a_pass_of_an_earlier_version_is_known_by_its_manifest(tmp_path: Path, place: Path) -> None:
    place.mkdir(parents=True)
    (place / "zarr.json").write_text('{"attributes": {}}')
    finish_pass(place, "f", 2)
    assert begin_pass(tmp_path, 0, 2) == place
    assert list(place.parent.iterdir()) == []


@pytest.mark.parametrize("step", range(1, 9))
def test_a_removal_that_was_cut_off_is_made_again(tmp_path: Path, place: Path, step: int) -> None:
    """A pass says that it is one as long as anything of it is there."""
    passed(tmp_path)
    left = [step]

    def deadly(real: Callable[..., None]) -> Callable[..., None]:
        def call(*words: Any, **given: Any) -> None:
            left[0] -= 1
            if left[0] <= 0:
                raise Crash
            real(*words, **given)

        return call

    with (
        suppress(Crash),
        patch("os.unlink", deadly(os.unlink)),
        patch("os.rmdir", deadly(os.rmdir)),
    ):
        begin_pass(tmp_path, 0, 2)
    assert left[0] <= 0 or step == 8
    assert begin_pass(tmp_path, 0, 2) == place
    assert not place.exists()


def test_a_store_that_was_cut_off_at_its_first_file_is_made_again(
    tmp_path: Path, place: Path
) -> None:
    place.mkdir(parents=True)
    assert begin_pass(tmp_path, 0, 2) == place
    place.mkdir()
    (place / f"zarr.{'0' * 32}.partial").write_text("half")
    assert begin_pass(tmp_path, 0, 2) == place
    assert not place.exists()


def test_results_and_temporary_folders_leave_what_someone_put_into_them(tmp_path: Path) -> None:
    def fail() -> None:
        with temporary_folder(tmp_path) as made, published(tmp_path / "out.zarr") as part:
            (part / "c").mkdir(parents=True)
            for folder in (made, part / "c"):
                (folder / "a.txt").write_text("mine")
                (folder / "0").write_text("own")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(path.name for path in files) == ["a.txt", "a.txt"]


def test_a_result_replaces_no_empty_folder(tmp_path: Path) -> None:
    def write() -> None:
        with published(tmp_path / "out.zarr") as part:
            part.mkdir()
            (tmp_path / "out.zarr").mkdir()

    with pytest.raises(he.OutputError) as caught:
        write()
    assert str(caught.value) == (
        f"The output '{tmp_path}/out.zarr' was made by someone else during the run. "
        "Choose another place."
    )
    assert [path.name for path in tmp_path.iterdir()] == ["out.zarr"]


def test_a_removal_tells_what_stays(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    for name in ("a/c/0", "a/zarr.json", "a/b/notes.txt", "1.2", "zarr.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    (folder / "2").symlink_to(folder / "1.2")
    removal = remove_own(folder)
    assert (removal.gone, removal.kept, removal.left) == (5, ["a/b/notes.txt", "2"], [])
    assert remove_own(folder / "2").kept == ["."]
    assert remove_own(tmp_path / "nowhere").gone == 0


def test_a_removal_tells_what_it_cannot_delete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own" / "c").mkdir(parents=True)
    (tmp_path / "own" / "c" / "0").write_text("x")

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "unlink", denied)
    removal = remove_own(tmp_path / "own")
    assert (removal.gone, removal.kept, removal.left) == (0, [], ["c/0"])


@pytest.mark.parametrize(
    "name",
    ["zarr.json~", "data.zarr.json", "c0", "v1.2", "1.nc", "pass-000002.txt", "sorted-a", ""],
)
def test_other_names_are_not_own(name: str) -> None:
    assert not is_own(name)


def test_a_removal_of_folders_of_any_depth_holds_few_files(tmp_path: Path) -> None:
    deep = 3000
    here = os.open(tmp_path, os.O_RDONLY)
    for name in ["own", *["a"] * deep]:
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("zarr.json", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    try:
        removal = remove_own(tmp_path / "own")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (removal.gone, removal.kept, removal.left) == (deep + 2, [], [])
    assert list(tmp_path.iterdir()) == []


def test_a_removal_stops_where_its_folder_is_moved_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder above the one that was moved is somebody else's."""
    inner = tmp_path / "own" / "a"
    inner.mkdir(parents=True)
    (inner / "zarr.json").write_text("x")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "zarr.json").write_text("theirs")
    unlink = os.unlink

    def moved(path: str, *, dir_fd: int | None = None) -> None:
        unlink(path, dir_fd=dir_fd)
        inner.rename(tmp_path / "other" / "a")

    monkeypatch.setattr(os, "unlink", moved)
    monkeypatch.setattr(os, "supports_dir_fd", {*os.supports_dir_fd, moved})
    removal = remove_own(tmp_path / "own")
    assert (removal.gone, removal.left) == (1, ["a"])
    assert (tmp_path / "other" / "zarr.json").read_text() == "theirs"
