"""Blocks that stay in memory make several steps at once, whatever lies beyond the data."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import interpreted
import numpy as np
import pytest
import xarray as xr
from feedback_steps import SCALARS, fed_program
from hypothesis import HealthCheck, Phase, assume, example, given, reject, settings
from hypothesis import strategies as st

from halocline_engine.backends.cpu.run import CpuExecutable
from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.errors import ArgumentError, BoundaryError
from halocline_engine.functions.run import run

DIMS = ("x", "y", "z")
SIDES = st.sampled_from(("none", "edge", "reflect", "symmetric", "extrapolate", "constant"))
#: Both ends of a dimension.
ENDS = st.one_of(st.just("periodic"), st.tuples(SIDES, SIDES))


def boundary_of(drawn: Any) -> Any:
    if drawn == "periodic":
        return drawn
    low, high = ({"constant": 0.25} if one == "constant" else one for one in drawn)
    return {"low": low, "high": high}


def dataset(step: Any, sizes: tuple[int, int, int], seed: int) -> xr.Dataset:
    rng = np.random.default_rng(seed)
    found: dict[str, Any] = {}
    for field in step.program.fields:
        if not field.written:
            present = [at for at, axis in enumerate("IJK") if axis in field.axes]
            dims, shape = [DIMS[at] for at in present], [sizes[at] for at in present]
            whole = field.dtype.value == "int32"
            values = rng.integers(-3, 4, shape) if whole else rng.normal(size=shape)
            found[field.name] = (dims, values.astype(field.dtype.value))
    return xr.Dataset(found)


#: Values of drawn programs may grow without bound, on both targets alike.
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    seed=st.integers(0, 2**40),
    sizes=st.tuples(st.integers(3, 20), st.integers(3, 16), st.integers(1, 4)),
    ends=st.tuples(ENDS, ENDS, st.tuples(SIDES, SIDES)),
    vertical=st.booleans(),
    steps=st.integers(2, 9),
    bundle=st.integers(1, 6),
    at_once=st.integers(2, 4),
    blocks=st.tuples(st.integers(3, 20), st.integers(3, 16)),
    ranks=st.integers(1, 3),
)
@example(
    # A rank with a block that makes single steps and one that makes several at once.
    seed=2762941,
    sizes=(7, 5, 3),
    ends=(("constant", "constant"), "periodic", ("none", "none")),
    vertical=False,
    steps=9,
    bundle=4,
    at_once=4,
    blocks=(3, 9),
    ranks=2,
)
@example(
    # The last block along y has one cell, and ghosts are made of two.
    seed=159965682526,
    sizes=(12, 13, 1),
    ends=("periodic", ("extrapolate", "extrapolate"), ("none", "reflect")),
    vertical=False,
    steps=7,
    bundle=5,
    at_once=4,
    blocks=(19, 6),
    ranks=3,
)
def test_any_boundary_has_the_bits_of_single_steps(
    seed: int,
    sizes: tuple[int, int, int],
    ends: Any,
    vertical: bool,
    steps: int,
    bundle: int,
    at_once: int,
    blocks: tuple[int, int],
    ranks: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interpreted.patch(monkeypatch)
    fed = fed_program(seed, vertical=vertical)
    step = fed.step()
    reach = step.reach
    assume(all(n > high - low for n, (low, high) in zip(sizes, reach, strict=True)))

    def so_many(*_: Any, **__: Any) -> int:
        return at_once

    monkeypatch.setattr(CpuExecutable, "fused_steps", so_many)
    data = dataset(step, sizes, seed % 1000)
    how: dict[str, Any] = {
        "scalars": {one.name: SCALARS[one.name] for one in step.program.scalars},
        "boundary": {dim: boundary_of(one) for dim, one in zip(DIMS, ends, strict=True)},
        "axes": dict(zip("IJK", DIMS, strict=True)),
        "steps": steps,
        "feedback": fed.feedback,
    }
    try:
        expected = run(fed.text, data, target="reference", mode="streamed", **how)
    except (ArgumentError, BoundaryError):
        # Whole numbers are not extrapolated, and a field that nothing reads is not fed.
        reject()
    with patch(
        "halocline_engine.distribute.executors.select.local_pool",
        return_value=LocalPool(workers=ranks),
    ):
        found = run(
            fed.text,
            data,
            target="cpu",
            mode="resident",
            chunks=dict(zip(DIMS, blocks, strict=False)),
            options=Options(steps_per_pass=bundle),
            **how,
        )
    for name in expected.data_vars:
        np.testing.assert_array_equal(found[name].values, expected[name].values, err_msg=str(name))
