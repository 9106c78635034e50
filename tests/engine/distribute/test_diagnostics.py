"""Diagnostics of a run are reductions of its fields after each step, for any blocks and workers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import halocline_engine as he
from halocline_engine.errors import CancelledError, HaloclineError

TESTING = cast("Any", xr.testing)
PROGRAM = """
def smooth(t: Field[float], rho: Field[IJ, float], s: Field[float], *, weight: float):
    with computation(PARALLEL), interval(...):
        s = t + weight * rho * (t[-1, 0, 0] - 2.0 * t + t[1, 0, 0] + t[0, 1, 0] - t[0, -1, 0])
"""
DIAGNOSTICS: Mapping[str, Mapping[str, Any]] = {
    "heat": {"sum": "rho * t", "weights": "area"},
    "zonal": {"mean": "s", "dims": ["x"]},
    "basins": {"mean": "t", "by": "basin", "dims": ["x", "y"]},
    "hottest": {"max": "t"},
    "coldest": {"min": "s", "dims": ["y", "z"]},
    "pdf": {"histogram": "t", "bins": [-3.0, 0.0, 3.0]},
    "size": {"norm": "t - s + 2.0 * t", "skipna": False},
    "still": {"sum": "area"},
}
STEPS = 7


def dataset() -> xr.Dataset:
    rng = np.random.default_rng(4)
    return xr.Dataset(
        {
            "t": (("z", "y", "x"), rng.normal(size=(2, 9, 13)), {"units": "K"}),
            "rho": (("y", "x"), rng.uniform(size=(9, 13))),
            "area": (("y",), rng.uniform(size=9)),
            "basin": (("y", "x"), rng.integers(0, 3, (9, 13))),
        },
        coords={"x": np.arange(13.0) * 3.0, "y": np.arange(9.0)},
    )


def ran(steps: int = STEPS, **more: Any) -> Any:
    boundary = {"x": "periodic", "y": "edge"}
    given_: dict[str, Any] = {"boundary": boundary, "scalars": {"weight": 0.2}, "target": "cpu"}
    return he.run(PROGRAM, dataset(), steps=steps, feedback={"s": "t"}, **(given_ | more))


def every(number: int, names: Any = tuple(DIAGNOSTICS)) -> dict[str, Any]:
    return {name: {**DIAGNOSTICS[name], "every": number} for name in names}


@pytest.fixture(scope="module")
def after() -> list[xr.Dataset]:
    """Return the dataset after each number of steps from 1, made by runs of so many."""
    made = [ran(steps)["s"] for steps in range(1, STEPS + 1)]
    return [dataset().assign(t=one, s=one) for one in made]


def check(result: Any, after: list[xr.Dataset], number: int) -> None:
    steps = [*range(number, STEPS, number), STEPS]
    assert result["step"].values.tolist() == steps
    for place, step in enumerate(steps):
        wanted = he.reduce(after[step - 1], DIAGNOSTICS)
        for name in set(wanted.data_vars) & set(result.data_vars):
            np.testing.assert_array_equal(
                result[name].isel(step=place).values, wanted[name].values, err_msg=str(name)
            )


@given(st.integers(0, 2**48))
@settings(deadline=None, max_examples=12)
def test_diagnostics_are_reductions_of_the_fields(after: list[xr.Dataset], seed: int) -> None:
    draw = Random(seed)
    number = draw.randrange(1, STEPS + 2)
    names = draw.sample(tuple(DIAGNOSTICS), draw.randrange(1, len(DIAGNOSTICS) + 1))
    chunks = {"x": draw.randrange(4, 14), "y": draw.randrange(3, 10)}
    options = he.Options(steps_per_pass=draw.choice((None, 1, 2, 3)))
    result = ran(diagnostics=every(number, names), chunks=chunks, options=options)
    check(result, after, number)
    np.testing.assert_array_equal(result["s"], after[-1]["s"])


def test_the_reference_and_several_workers_measure_the_same(after: list[xr.Dataset]) -> None:
    diagnostics = every(3)
    check(ran(diagnostics=diagnostics, target="reference"), after, 3)
    here = ran(diagnostics=diagnostics)
    there = ran(diagnostics=diagnostics, cluster=2, chunks={"x": 5, "y": 4})
    TESTING.assert_identical(there.drop_attrs(deep=False), here.drop_attrs(deep=False))


@pytest.mark.parametrize("name", ["out.zarr", "out.nc"])
def test_a_stored_result_has_the_diagnostics(
    tmp_path: Path, after: list[xr.Dataset], name: str
) -> None:
    result = ran(diagnostics=every(2), output=tmp_path / name)
    with result:
        check(result, after, 2)
        assert result["zonal"].attrs["cell_methods"] == "x: mean"
        assert result["zonal"].attrs["units"] == "K"
        assert result["hottest"].attrs["ancillary_variables"] == "hottest_z hottest_y hottest_x"
        assert result["basin"].values.tolist() == [0, 1, 2]


def test_a_run_that_goes_on_keeps_what_was_measured(
    tmp_path: Path, after: list[xr.Dataset]
) -> None:
    kinds: list[str] = []

    def note(event: Any) -> None:
        kinds.append(event.kind)

    how: dict[str, Any] = {
        "diagnostics": every(2),
        "workspace": tmp_path,
        "options": he.Options(checkpoint_steps=3),
    }
    with pytest.raises(CancelledError):
        ran(
            **how,
            on_event=note,
            cancelled=lambda: "checkpointed" in kinds,
        )
    assert "checkpointed" in kinds
    resumed: list[Any] = []
    result = ran(**how, on_event=resumed.append)
    assert [event.steps_done for event in resumed if event.kind == "resumed"] in ([3], [6])
    check(result, after, 2)


def test_a_field_in_place_and_one_step() -> None:
    program = """
def grow(t: Field[float]):
    with computation(PARALLEL), interval(...):
        t = 2.0 * t
"""
    data = dataset()
    result = he.run(program, data, diagnostics={"most": {"max": "t"}}, target="cpu")
    assert result["most"].values.tolist() == [2.0 * float(data["t"].max())]


def refusal(diagnostics: Any, **more: Any) -> str:
    with pytest.raises(HaloclineError) as caught:
        ran(diagnostics=diagnostics, **more)
    return str(caught.value)


@pytest.mark.parametrize(
    ("diagnostics", "more", "message"),
    [
        ({"a": {"sum": "u"}}, {}, "The dataset has no variable 'u'."),
        ({"s": {"sum": "t"}}, {}, "The result cannot be named 's': a dimension or coordinate"),
        ({"a": {"sum": "t", "every": 0}}, {}, "must be a whole number from 1, got 0."),
        (
            {"a": {"sum": "t"}, "b": {"sum": "t", "every": 2}},
            {},
            "must have one 'every', got 1 for 'a' and 2 for 'b'.",
        ),
        (
            {"a": {"sum": "t"}},
            {"mode": "streamed"},
            "With 'diagnostics' fields are reduced between steps, for which blocks stay in memory,"
            " but mode='streamed' was asked for. Leave the mode out.",
        ),
        (
            {"a": {"sum": "t"}},
            {"snapshot_every": 2},
            "Arguments 'diagnostics' and 'snapshot_every' cannot be given together yet.",
        ),
        (
            {"a": {"sum": "t"}},
            {"until": {"field": "s", "below": 1e-3}},
            "Arguments 'diagnostics' and 'until' cannot be given together yet.",
        ),
    ],
)
def test_diagnostics_that_cannot_be_are_refused(
    diagnostics: Any, more: Mapping[str, Any], message: str
) -> None:
    assert message in refusal(diagnostics, **more)


def test_dimensions_that_the_program_does_not_have_are_refused() -> None:
    data = dataset().assign(wind=("time", [1.0, 2.0]))
    with pytest.raises(HaloclineError, match="has the dimension 'time', along which the program"):
        he.run(
            PROGRAM,
            data,
            scalars={"weight": 0.1},
            diagnostics={"a": {"sum": "wind * t"}},
            boundary={"x": "periodic", "y": "edge"},
        )
    named = dataset().rename(z="step")
    with pytest.raises(HaloclineError, match="Results of 'diagnostics' have a dimension 'step'"):
        he.run(
            PROGRAM,
            named,
            scalars={"weight": 0.1},
            diagnostics={"a": {"sum": "t"}},
            boundary={"x": "periodic", "y": "edge"},
            axes={"K": "step"},
        )
    with pytest.raises(HaloclineError, match="has no key 'every'"):
        he.reduce(named, {"a": {"sum": "t", "every": 2}})
