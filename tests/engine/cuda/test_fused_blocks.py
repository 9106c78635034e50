"""Blocks that stay in memory make several steps at once, with the bits of single ones."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import xarray as xr
from emulation.machine import EmulatedArtifact, EmulatedKernels
from handed_over import hand_over

import halocline_engine as he
from halocline_engine.backends.cuda.runtime.executable import CudaExecutable
from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.resident import bundles, work
from halocline_engine.distribute.resident.bundles import Bundle, Bundles
from halocline_engine.distribute.resident.fusing import Group, best_bundle, groups_of
from halocline_engine.functions.stencil import Stencil

WAVE = """
def wave(now: Field[float], old: Field[float], next: Field[float], kept: Field[float]):
    with computation(PARALLEL), interval(...):
        around = now[1, 0, 0] + now[-1, 0, 0] + now[0, 1, 0] + now[0, -1, 0]
        next = 2.0 * now - old + 0.2 * (around - 4.0 * now)
        kept = now
"""
UPWIND = """
def upwind(u: Field[np.float32], c: Field[IJ, np.float32], v: Field[np.float32]):
    with computation(PARALLEL), interval(...):
        flux = c * (u[0, 1, 0] if u > np.float32(0.0) else u[0, -2, 0])
        v = u - np.float32(0.1) * (flux - flux[-1, 0, 0])
"""
#: Some cells keep what they had: each step begins with it.
MASKED = """
def masked(u: Field[float], c: Field[IJ, float], v: Field[float]):
    with computation(PARALLEL), interval(...):
        if c > 0.5:
            v = u[1, 0, 0] + u[0, -1, 0]
"""
PROGRAMS = {
    "wave": (WAVE, {"next": "now", "kept": "old"}),
    "upwind": (UPWIND, {"v": "u"}),
    "masked": (MASKED, {"v": "u"}),
}
ENDS = {
    "around": {"x": "periodic", "y": "periodic"},
    "closed": {"x": {"constant": 0.5}, "y": {"low": "none", "high": {"constant": -1.0}}},
    "mixed": {"x": "periodic", "y": "none"},
    "edge": {"x": "edge", "y": "reflect"},
    "line": {"x": {"low": "extrapolate", "high": "reflect"}, "y": "extrapolate"},
}


def data_of(name: str, ny: int = 26) -> xr.Dataset:
    rng = np.random.default_rng(5)
    if name == "wave":
        values = {one: (("y", "x"), rng.normal(size=(ny, 39))) for one in ("now", "old")}
        return xr.Dataset(values)
    dtype = "float32" if name == "upwind" else "float64"
    return xr.Dataset(
        {
            "u": (("z", "y", "x"), rng.normal(size=(2, ny, 39)).astype(dtype)),
            "c": (("y", "x"), rng.random((ny, 39)).astype(dtype)),
        }
    )


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_bundles_have_the_bits_of_single_steps(
    name: str, ends: str, emulation_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[list[Group]] = []

    def grouped(*arguments: Any) -> list[Group]:
        made.append(groups_of(*arguments))
        return made[-1]

    def three(*_: Any, **__: Any) -> int:
        return 3

    monkeypatch.setattr(bundles, "groups_of", grouped)
    monkeypatch.setattr(CudaExecutable, "fused_steps", three)
    text, feedback = PROGRAMS[name]
    data = data_of(name)
    on_host = he.stencil(text, target="reference")
    artifact = EmulatedArtifact(on_host.compiled.schedule, emulation_folder)
    emulated = Stencil(replace(on_host.compiled, artifact=artifact, fingerprint=f"{name} {ends}"))
    how: dict[str, Any] = {"boundary": ENDS[ends], "steps": 13, "feedback": feedback}
    how |= {"axes": {"I": "x", "J": "y", "K": None if name == "wave" else "z"}}
    expected = he.run(on_host, data, mode="streamed", target="reference", **how)
    for steps, chunks in ((6, {}), (5, {"y": 13}), (4, {"x": 20, "y": 9})):
        found = he.run(
            emulated,
            data,
            mode="resident",
            target="reference",
            chunks=chunks,
            options=he.Options(steps_per_pass=steps),
            **how,
        )
        for one in expected.data_vars:
            np.testing.assert_array_equal(found[one].values, expected[one].values)
    fused = [group for groups in made for group in groups if group.executable is not None]
    assert bool(fused) == (name != "masked")


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("name", ["wave", "upwind"])
def test_edges_of_fused_steps_are_made_apart(
    name: str, ends: str, emulation_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two ranks whose halos travel while cells inside are computed."""
    made: list[Bundle] = []
    recorded, launch, lock = Bundles.recorded, EmulatedKernels.launch, threading.Lock()

    def noted(self: Bundles, *, other: bool) -> Bundle:
        made.append(recorded(self, other=other))
        return made[-1]

    def alone(*given: Any, **more: Any) -> None:
        with lock:  # the emulation has one device
            launch(*given, **more)

    def three(*_: Any, **__: Any) -> int:
        return 3

    monkeypatch.setattr(Bundles, "recorded", noted)
    monkeypatch.setattr(EmulatedKernels, "launch", alone)
    monkeypatch.setattr(CudaExecutable, "fused_steps", three)
    hand_over(monkeypatch, "reference")
    text, feedback = PROGRAMS[name]
    data = data_of(name, 60)
    on_host = he.stencil(text, target="reference")
    artifact = EmulatedArtifact(on_host.compiled.schedule, emulation_folder)
    emulated = Stencil(replace(on_host.compiled, artifact=artifact, fingerprint=f"{name} {ends}"))
    how: dict[str, Any] = {"boundary": ENDS[ends], "steps": 26, "feedback": feedback}
    how |= {"axes": {"I": "x", "J": "y", "K": None if name == "wave" else "z"}}
    how |= {"chunks": {"y": 30}, "target": "reference"}
    expected = he.run(on_host, data, mode="streamed", **how)
    with patch(
        "halocline_engine.distribute.executors.select.local_pool", return_value=LocalPool(workers=2)
    ):
        options = he.Options(steps_per_pass=3)
        found = he.run(emulated, data, mode="resident", options=options, **how)
    for one in expected.data_vars:
        np.testing.assert_array_equal(found[one].values, expected[one].values)
    assert made
    assert all(bundle.overlap is not None and bundle.edges for bundle in made)


def test_a_block_near_an_end_of_the_data_makes_single_steps(
    emulation_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end cuts off a part of what its steps would compute around it; others are fused."""
    made: list[list[Group]] = []

    def grouped(*arguments: Any) -> list[Group]:
        made.append(groups_of(*arguments))
        return made[-1]

    def six(*_: Any, **__: Any) -> int:
        return 6

    monkeypatch.setattr(bundles, "groups_of", grouped)
    monkeypatch.setattr(CudaExecutable, "fused_steps", six)
    on_host = he.stencil(WAVE, target="reference")
    artifact = EmulatedArtifact(on_host.compiled.schedule, emulation_folder)
    emulated = Stencil(replace(on_host.compiled, artifact=artifact, fingerprint="near"))
    how: dict[str, Any] = {"steps": 12, "feedback": PROGRAMS["wave"][1]}
    how |= {"axes": {"I": "x", "J": "y", "K": None}, "boundary": {"x": "periodic"}}
    expected = he.run(on_host, data_of("wave"), mode="streamed", target="reference", **how)
    found = he.run(
        emulated,
        data_of("wave"),
        mode="resident",
        target="reference",
        chunks={"y": 4},
        options=he.Options(steps_per_pass=6),
        **how,
    )
    np.testing.assert_array_equal(found["next"].values, expected["next"].values)
    counts = [len(groups) for groups in made]
    assert set(counts) == {1, 6}


@pytest.mark.parametrize(
    ("boundary", "alone", "steps"),
    [
        ({"x": "periodic", "y": "edge"}, True, 12),
        ({"x": "periodic", "y": "edge"}, False, 1),
        ({"x": "edge", "y": "edge"}, True, 1),
    ],
)
def test_small_blocks_fill_their_halos_for_many_steps(
    boundary: Any, alone: bool, steps: int, emulation_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where halos come from the same memory; no bit depends on how often they do."""
    chosen: list[int] = []

    def noted(executable: Any, layout: Any, box: Any, bundle: int, *_: Any, **__: Any) -> int:
        chosen.append(best_bundle(executable, layout, box, bundle, 12, alone=alone))
        return chosen[-1]

    monkeypatch.setattr(work, "best_bundle", noted)
    on_host = he.stencil(WAVE, target="reference")
    artifact = EmulatedArtifact(on_host.compiled.schedule, emulation_folder)
    emulated = Stencil(replace(on_host.compiled, artifact=artifact, fingerprint=str(boundary)))
    how: dict[str, Any] = {"steps": 29, "feedback": PROGRAMS["wave"][1], "target": "reference"}
    how |= {"axes": {"I": "x", "J": "y", "K": None}, "boundary": boundary}
    expected = he.run(on_host, data_of("wave"), mode="streamed", **how)
    found = he.run(emulated, data_of("wave"), mode="resident", **how)
    np.testing.assert_array_equal(found["next"].values, expected["next"].values)
    assert chosen == [steps]
