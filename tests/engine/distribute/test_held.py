"""Arrays of this process that runs write to are part of what is projected."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray

import halocline_engine as he
from halocline_engine.datasets.stores.sink import create_arrays
from halocline_engine.distribute.pipeline.stages import PipelineStages
from halocline_engine.distribute.tasks.events import Event, Planned
from halocline_engine.distribute.tasks.options import Options

STAR = """
def star(inp: Field[float], once: Field[IJ, np.float32], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = inp[1, 0, 0] + inp[-1, 0, 0] - inp
    with computation(FORWARD), interval(0, 1):
        once = np.float32(1.0)
"""
SHAPE = (3, 24, 20)


def planned(steps: int, options: Options, **more: Any) -> Planned:
    values = np.random.default_rng(1).normal(size=SHAPE)
    events: list[Event] = []
    he.run(
        STAR,
        xr.Dataset({"inp": (("z", "y", "x"), values)}),
        steps=steps,
        feedback={"out": "inp"},
        boundary={"x": "periodic"},
        chunks={"y": 5},
        target="reference",
        mode="streamed",
        on_event=events.append,
        options=options,
        **more,
    )
    assert isinstance(events[0], Planned)
    return events[0]


@pytest.mark.parametrize("passes", [1, 2, 3, 5])
def test_what_passes_write_to_is_projected(
    passes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[NDArray[Any]] = []

    def noted(*arguments: Any) -> dict[str, NDArray[Any]]:
        found = create_arrays(*arguments)
        made.extend(one for one in found.values() if not any(one is other for other in made))
        return found

    for module in ("passes", "results"):
        monkeypatch.setattr(f"halocline_engine.distribute.stencils.{module}.create_arrays", noted)
    options = Options(steps_per_pass=1)
    stored = planned(passes, options, output=tmp_path / "out.zarr", workspace=tmp_path / "work")
    assert not made
    for output, results in ((None, 1), (tmp_path / "other.zarr", 0)):
        here = planned(passes, options, output=output)
        assert here.passes == passes
        held = here.projected_bytes - stored.projected_bytes
        assert held == sum(one.nbytes for one in made)
        assert held == (min(passes - 1 + results, 2) * 3 * 8 + results * 4) * 24 * 20
        made.clear()


def test_results_of_other_functions_are_projected(tmp_path: Path) -> None:
    dataset = xr.Dataset({"a": (("y", "x"), np.ones((40, 30))), "i": ("p", [1, 2, 3])})
    found: list[int] = []
    for output in (None, tmp_path / "out.zarr"):
        events: list[Any] = []
        he.gather(
            dataset,
            source="a",
            index="i",
            dim="x",
            target="reference",
            output=output,
            on_event=events.append,
        )
        found.append(events[0].projected_bytes)
    assert found[0] - found[1] == 40 * 3 * 8


def test_a_pass_that_is_over_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots and buffers of a pass go back before the next one begins, without a look for cycles."""
    made: list[weakref.ref[PipelineStages]] = []
    begin = PipelineStages.__init__

    def noted(self: PipelineStages, *arguments: Any) -> None:
        assert not any(one() for one in made)
        made.append(weakref.ref(self))
        begin(self, *arguments)

    monkeypatch.setattr(PipelineStages, "__init__", noted)
    gc.disable()
    try:
        planned(4, Options(steps_per_pass=1, pipeline_depth=3))
    finally:
        gc.enable()
    assert len(made) == 4
    assert not any(one() for one in made)
