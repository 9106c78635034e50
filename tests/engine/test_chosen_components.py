"""Components that scalars choose: fields of kernels, with what the reference makes of all parts."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.analysis.extents import analyse
from halocline_engine.backends.cuda.build import CudaBackend
from halocline_engine.distribute.tasks.events import Event, Planned
from halocline_engine.passes.choose_components import choose_components
from halocline_engine.program import compile_program
from halocline_engine.schedule.plan import plan
from halocline_engine.schedule.temporal.step import Refused, step_of

HEAD = """
def plumes(a: Field[(real, (3,))], b: Field[IJ, (real, (3,))], w: Field[real],
           out: Field[(real, (3,))], x: Field[real], n: int, m: int):
"""
#: One component of each array, read at levels and beside the point, and assigned.
ONE = """
    with computation(FORWARD):
        with interval(0, 1):
            out[0, 0, 0][n] = a[1, 0, 0][n]
            x = a[0, 0, 1][n] - b[0, 0][n]
        with interval(1, None):
            out[0, 0, 0][n] = out[0, 0, -1][n] * 0.5 + a[0, -1, -1][n]
            if b[0, 0][n] > 0.5:
                x = out[0, 0, 0][n] + w
            else:
                out[0, 0, 0][n] = w
"""
#: Several components of what is only read, by two indices, sums of scalars and a number.
SEVERAL = """
    with computation(PARALLEL), interval(...):
        x = a[0, 0, 0][n] * w + a[0, 0, 0][m] - a[0, 0, 0][n + 1] * a[0, 0, 0][1]
        x = x + b[0, 0][2 * m - n]
"""
#: What is assigned and reached in two ways stays as it is, as what differs from point to point.
SHARED = """
    with computation(PARALLEL), interval(...):
        out[0, 0, 0][n] = a[0, 0, 0][m]
        out[0, 0, 0][m] = out[0, 0, 0][n] + w
        k = 1 if w > 0.5 else 0
        x = out[0, 0, 0][2] + a[0, 0, 0][k]
"""
TEXTS = {"one": HEAD + ONE, "several": HEAD + SEVERAL, "shared": HEAD + SHARED}
ORDERS: tuple[Literal["C", "F"], ...] = ("C", "F")
CHOSEN = {
    "one": ["a.[0]", "b.[0]", "out.[0]"],
    "several": ["a.[0]", "a.[1]", "a.[2]", "b.[0]"],
    "shared": ["a.[0]"],
}


def arrays(seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    size = (7, 6, 6)
    return {
        "a": random.normal(size=(*size, 3)),
        "b": random.random((*size[:2], 3)),
        "w": random.random(size),
        "out": random.normal(size=(*size, 3)),
        "x": random.normal(size=size),
    }


def called(stencil: he.Stencil, own: dict[str, Any], n: int, m: int) -> dict[str, Any]:
    stencil(**own, n=n, m=m, origin=(1, 1, 0), domain=(5, 4, 5))
    return own


def stencil(name: str, target: str) -> he.Stencil:
    return he.stencil(TEXTS[name], dtypes={"real": "float64"}, target=target)


@pytest.mark.parametrize("name", TEXTS)
def test_what_scalars_choose_is_a_field(name: str) -> None:
    made = stencil(name, "cpu").compiled
    found = [one.name for one in made.schedule.program.choices]
    assert found == CHOSEN[name]
    assert not made.program.choices
    assert not stencil(name, "reference").compiled.schedule.program.choices


@pytest.mark.parametrize("name", TEXTS)
def test_cores_give_what_the_reference_gives(name: str) -> None:
    """Calls on the same arrays choose anew each time; beyond the last part the nearest is read."""
    cores, reference = stencil(name, "cpu"), stencil(name, "reference")
    own, expected = arrays(), arrays()
    for n, m in ((0, 1), (2, 0), (1, 1), (-1, 2), (5, 0), (2, 2**62), (0, 1)):
        called(cores, own, n, m)
        called(reference, expected, n, m)
        for one, array in own.items():
            np.testing.assert_array_equal(array, expected[one], err_msg=f"{one} {n} {m}")


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("order", ORDERS)
def test_devices_give_what_the_reference_gives(
    name: str, order: Literal["C", "F"], emulation_folder: Path
) -> None:
    from emulation.machine import EmulatedArtifact

    from halocline_engine.backends.made.fields import with_made_fields

    made = compile_program(TEXTS[name], dtypes={"real": "float64"}, target="reference")
    kernels = choose_components(made.program)
    emulated = EmulatedArtifact(plan(kernels, analyse(kernels)), emulation_folder)
    artifact = with_made_fields(emulated, made.program, made.facts, kernels.choices)
    device, reference = he.Stencil(replace(made, artifact=artifact)), stencil(name, "reference")
    own = {one: np.asarray(array, order=order) for one, array in arrays().items()}
    expected = arrays()
    for n, m in ((0, 1), (2, 0), (-1, 2), (5, 0)):
        called(device, own, n, m)
        called(reference, expected, n, m)
        for one, array in own.items():
            np.testing.assert_array_equal(array, expected[one], err_msg=f"{one} {n} {m}")


def test_kernels_have_what_is_chosen_alone() -> None:
    """Of the index they ask only whether there is such a component, before they assign it."""
    source = CudaBackend().build(stencil("one", "cpu").compiled.schedule).source
    assert len(set(re.findall(r"\*\s+(?:__restrict__\s+)?(f\d+)", source))) == 5
    assert set(re.findall(r"p0 [<>]=? \d", source)) == {"p0 >= 0", "p0 < 3"}


def dataset_of_plumes() -> xr.Dataset:
    random = np.random.default_rng(3)
    dims = ("lon", "lat", "lev", "plume")
    return xr.Dataset(
        {
            "a": (dims, random.normal(size=(12, 10, 5, 3))),
            "b": (("lon", "lat", "plume"), random.random((12, 10, 3))),
            "w": (dims[:3], random.random((12, 10, 5))),
            "out": (dims, np.zeros((12, 10, 5, 3))),
            "x": (dims[:3], np.zeros((12, 10, 5))),
        }
    )


def run_of(text: str, n: int, **options: Any) -> xr.Dataset:
    return he.run(
        text,
        dataset_of_plumes(),
        scalars={"n": n, "m": 1},
        dtypes={"real": "float64"},
        boundary={"lon": "edge", "lat": "edge"},
        axes={"I": "lon", "J": "lat", "K": "lev"},
        **options,
    )


@pytest.mark.parametrize("target", ["reference", "cpu"])
@pytest.mark.parametrize(("name", "n"), [("one", 0), ("one", 2), ("several", 1), ("shared", 2)])
def test_blocks_of_datasets_give_the_same_bits(target: str, name: str, n: int) -> None:
    whole = run_of(TEXTS[name], n, target="reference")
    cut = run_of(TEXTS[name], n, target=target, chunks={"lon": 5, "lat": 4})
    testing: Any = xr.testing
    testing.assert_identical(cut.drop_attrs(), whole.drop_attrs())


def test_jobs_read_what_is_chosen_alone() -> None:
    """What is assigned is read as a whole, since a result has all of its components."""

    def bytes_of(name: str, target: str) -> int:
        told: list[Event] = []
        run_of(TEXTS[name], 1, target=target, on_event=told.append)
        (planned,) = (one for one in told if isinstance(one, Planned))
        return planned.input_bytes

    component, plane = 12 * 10 * 5 * 8, 12 * 10 * 8
    assert bytes_of("one", "reference") - bytes_of("one", "cpu") == 2 * (component + plane)
    # Of `a` all three are read: n, m and 1 are one of them, and n + 1 another.
    assert bytes_of("several", "reference") - bytes_of("several", "cpu") == component + 2 * plane


FED = """
def fed(q: Field[(real, (3,))], w: Field[real], new: Field[(real, (3,))], n: int):
    with computation(PARALLEL), interval(...):
        new[0, 0, 0][n] = 0.5 * q[0, 0, 0][n] + 0.25 * (q[1, 0, 0][n] + q[-1, 0, 0][n]) * w
"""


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_feedback_joins_arrays_with_data_dimensions(target: str) -> None:
    """What no step assigns keeps the values of the input."""
    dataset = dataset_of_plumes().rename(a="q")[["q", "w"]]
    given: dict[str, Any] = {
        "scalars": {"n": 1},
        "dtypes": {"real": "float64"},
        "boundary": {"lon": "edge"},
        "axes": {"I": "lon", "J": "lat", "K": "lev"},
        "target": target,
    }
    many = he.run(FED, dataset, steps=3, feedback={"new": "q"}, chunks={"lon": 5}, **given)
    q, w = dataset["q"].values[..., 1], dataset["w"].values
    for _ in range(3):
        wide = np.pad(q, ((1, 1), (0, 0), (0, 0)), "edge")
        q = 0.5 * q + 0.25 * (wide[2:] + wide[:-2]) * w
    np.testing.assert_array_equal(many["new.1"].values, q)
    np.testing.assert_array_equal(many["new.2"].values, dataset["q"].values[..., 2])


def test_feedback_of_other_data_dimensions_is_refused() -> None:
    text = FED.replace("new: Field[(real, (3,))]", "new: Field[(real, (4,))]")
    dataset = dataset_of_plumes().rename(a="q")
    wanted = (
        r"Feedback from 'new' to 'q' must join fields with the same data dimensions, got \(4,\)"
    )
    with pytest.raises(he.errors.ArgumentError, match=wanted):
        he.run(
            text,
            dataset,
            steps=2,
            feedback={"new": "q"},
            scalars={"n": 1},
            dtypes={"real": "float64"},
            axes={"I": "lon", "J": "lat", "K": "lev"},
            target="reference",
        )


def test_several_steps_at_once_are_refused() -> None:
    schedule = he.stencil(FED, dtypes={"real": "float64"}, target="cpu").compiled.schedule
    found = step_of(schedule.program, schedule.facts, {"new.0": "q.0"})
    assert found == Refused("scalars choose components of its fields")
