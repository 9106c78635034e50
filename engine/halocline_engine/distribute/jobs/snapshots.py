"""Snapshots: the results after every so many steps, along a dimension in front of their own.

The dimension is `step`, or `time` where the run has a clock.

In a workspace they are

    attempt-0/snapshots-1/             a store of results, with a place for each snapshot
    attempt-0/snapshot-000010.json     which place is complete, and the digests of its files

A run begins a store each time that it is started, and at the end brings together what is complete.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import xarray as xr

from halocline_engine.datasets.disk import full_disk
from halocline_engine.datasets.stores.places import PlaceSource, place_in
from halocline_engine.datasets.stores.sink import Sink
from halocline_engine.datasets.stores.source import ArrayStore, Region
from halocline_engine.datasets.times.clock import Clock
from halocline_engine.datasets.untyped import XARRAY, ZARR
from halocline_engine.distribute.jobs.checkpoint import (
    attempt_folder,
    digests_of,
    manifests_of,
    publish_manifest,
)

__all__ = [
    "STEP",
    "TIME",
    "Labels",
    "Series",
    "Snapshot",
    "begin_series",
    "bring",
    "complete_snapshots",
    "place_of_step",
    "relabel",
    "shorten",
    "with_steps",
]

#: The dimension of snapshots, and its coordinate: how many steps were made.
STEP = "step"
#: The same where a run has a clock: the time after these steps, which is one without a dimension
#: where there are no snapshots.
TIME = "time"


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of results: numbers of steps, or times of a `clock`."""

    clock: Clock | None = None

    @property
    def dim(self) -> str:
        """The dimension of snapshots."""
        return STEP if self.clock is None else TIME

    def labelled(self, frame: xr.Dataset, steps: int, every: int | None) -> xr.Dataset:
        """Return the frame of a result with its labels after `steps` steps."""
        if self.clock is None:
            return frame if every is None else with_steps(frame, steps, every)
        found = [steps] if every is None else [*range(every, steps, every), steps]
        times, about = self.clock.labels(np.array(found, np.int64)), dict(self.clock.attributes)
        if every is None:
            del about["axis"]
        dims = () if every is None else (TIME,)
        values = times[0] if every is None else times
        label = XARRAY.Variable(dims, values, about, self.clock.encoding)
        kept = cast("Any", frame).drop_vars(TIME, errors="ignore")
        return kept.assign_coords({TIME: label})

    def stored(self, steps_done: int) -> int:
        """Return the label after so many steps as a store has it."""
        return steps_done if self.clock is None else self.clock.encoded(steps_done)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A place of a store of results."""

    store: Path
    index: int


@dataclass(frozen=True, slots=True)
class Series:
    """The results of a run after every `every` of its `steps` steps, and after the last one.

    `sink` has arrays with a place for each; `names` are those of the arrays. Where they are in the
    `store` of a workspace, what is complete is written down there.
    """

    every: int
    steps: int
    sink: Sink
    names: tuple[str, ...]
    store: Path | None = None
    fingerprint: str = ""

    def at(self, steps_done: int) -> Sink:
        """Return where the results after so many steps go."""
        return place_in(self.sink, place_of_step(steps_done, self.every))

    def due(self, steps_done: int) -> bool:
        """Whether there is a snapshot after so many steps; the last step is the result itself."""
        return steps_done < self.steps and steps_done % self.every == 0

    def complete(self, steps_done: int) -> None:
        """Say that a snapshot is complete; another process sees all of this or nothing."""
        if self.store is None:
            return
        index = place_of_step(steps_done, self.every)
        manifest: dict[str, Any] = {"store": self.store.name, "index": index}
        manifest["digests"] = digests_of(self.store, _files(self.store, self.names, index))
        path = self.store.parent / f"snapshot-{steps_done:06d}.json"
        publish_manifest(path, self.fingerprint, steps_done, manifest)


def place_of_step(steps_done: int, every: int) -> int:
    """Return which place the results after so many steps have.

    >>> [place_of_step(steps, 10) for steps in (10, 20, 25)]
    [0, 1, 2]
    """
    return -(-steps_done // every) - 1


def with_steps(frame: xr.Dataset, steps: int, every: int) -> xr.Dataset:
    """Return a result without its variables, with the coordinate of snapshots after `steps`."""
    found = np.array([*range(every, steps, every), steps], np.int64)
    about = {"long_name": "number of steps"}
    return cast("Any", frame).assign_coords({STEP: (STEP, found, about)})


def begin_series(workspace: Path, attempt: int) -> Path:
    """Return a new place in a workspace for the results of a run that is started."""
    folder = attempt_folder(workspace, attempt)
    number = 1
    while os.path.lexists(folder / f"snapshots-{number}"):
        number += 1
    return folder / f"snapshots-{number}"


def complete_snapshots(
    workspace: Path, fingerprint: str, every: int, names: Sequence[str]
) -> dict[int, Snapshot]:
    """Return the snapshots of a job by their steps, up to the first one that lacks or is damaged.

    They may be of any attempts.
    """
    by_step: dict[int, list[tuple[Path, dict[str, Any]]]] = {}
    for path, found in manifests_of(workspace, "snapshot", fingerprint):
        by_step.setdefault(int(found["steps_done"]), []).append((path, found))
    intact: dict[int, Snapshot] = {}
    steps = every
    while True:
        one = next(_intact(by_step.get(steps, ()), names), None)
        if one is None:
            return intact
        intact[steps] = one
        steps += every


def bring(
    snapshot: Snapshot, names: Sequence[str], sink: Sink, index: int, store: Path | None
) -> None:
    """Bring a snapshot to a place of the results, which may be those of a `store`.

    Where that has the same chunks, its files are linked, or copied to another file system.
    """
    place = place_in(sink, index)
    source = PlaceSource(ArrayStore(str(snapshot.store)), snapshot.index, {n: n for n in names})
    for name in names:
        if store is not None and _form(snapshot.store / name) == _form(store / name):
            _link(snapshot.store / name, snapshot.index, store / name, index)
            continue
        for region in _regions((store or snapshot.store) / name):
            place.write(name, region, source.read(name, region))


def shorten(store: Path, names: Sequence[str], count: int, labels: Labels, steps_done: int) -> None:
    """Leave the first places of a store of results, of which the last has so many steps."""
    with full_disk(store):
        for name in names:
            array = ZARR.open_array(str(store), path=name, mode="r+")
            array.resize((count, *array.shape[1:]))
        steps = ZARR.open_array(str(store), path=labels.dim, mode="r+")
        steps.resize((count,))
        steps[count - 1] = labels.stored(steps_done)


def relabel(store: Path, labels: Labels, steps_done: int) -> None:
    """Write anew after how many steps a store of results without snapshots was made."""
    with full_disk(store):
        ZARR.open_array(str(store), path=labels.dim, mode="r+")[...] = labels.stored(steps_done)


def _intact(
    found: Sequence[tuple[Path, dict[str, Any]]], names: Sequence[str]
) -> Iterator[Snapshot]:
    """Yield the places whose files are those that were written."""
    for manifest, entries in found:
        store, index = manifest.parent / str(entries["store"]), int(entries["index"])
        if digests_of(store, _files(store, names, index)) == entries["digests"]:
            yield Snapshot(store, index)


def _files(store: Path, names: Sequence[str], index: int) -> list[Path]:
    """Return the files of the chunks of a place."""
    found: list[Path] = []
    for name in names:
        place = store / name / "c" / str(index)
        found += [place] if place.is_file() else [p for p in place.rglob("*") if p.is_file()]
    return sorted(found)


def _form(array: Path) -> dict[str, Any]:
    """Return what the files of an array's chunks depend on."""
    found = json.loads((array / "zarr.json").read_text())
    wanted = ("data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs")
    return {"sizes": found["shape"][1:], **{name: found[name] for name in wanted}}


def _link(array: Path, index: int, into: Path, at: int) -> None:
    """Link the files of a place of an array, or copy them."""
    place = array / "c" / str(index)
    with full_disk(into):
        for file in [place] if place.is_file() else [p for p in place.rglob("*") if p.is_file()]:
            target = into / "c" / str(at) / file.relative_to(place)
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                target.hardlink_to(file)
            except OSError:
                shutil.copyfile(file, target)


def _regions(array: Path) -> Iterator[Region]:
    """Yield the regions of the chunks of a place of an array."""
    shape, chunks = _shape(array)
    sides = [range(0, size, chunk) for size, chunk in zip(shape[1:], chunks[1:], strict=True)]
    for first in itertools.product(*sides):
        yield tuple(slice(at, at + chunk) for at, chunk in zip(first, chunks[1:], strict=True))


def _shape(array: Path) -> tuple[tuple[int, ...], tuple[int, ...]]:
    opened = ZARR.open_array(str(array), mode="r")
    return opened.shape, opened.chunks
