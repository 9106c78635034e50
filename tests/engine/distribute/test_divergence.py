"""Runs with `until` whose values become infinite or NaN: where, for any blocks and ranks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray

import halocline_engine as he
from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.tasks.events import Checkpointed, Event, Resumed

EVERY = 4
#: Each cell is multiplied by its own factor, and beyond 1e3 a neighbour's value comes in.
PROGRAM = """
def change(u: Field[{0}], factor: Field[{0}], v: Field[{0}]):
    with computation(PARALLEL), interval(...):
        v = u * factor + (u[-1, 0, 0] if u[-1, 0, 0] > 1e3 else 0.0)
"""


def data(random: np.random.Generator, dtype: str) -> xr.Dataset:
    """Return a field that calms down, but for some cells that do not, or never had a value."""
    dims = ("t", "y", "x") if random.random() < 0.5 else ("x", "y", "t")
    shape = tuple({"t": 2, "y": 5, "x": 9}[dim] for dim in dims)
    values = 1.0 + random.random(shape)
    factor = np.full(shape, 0.4)
    for bad in random.permutation([np.nan, np.inf, -np.inf])[: random.integers(0, 3)]:
        values[tuple(random.integers(0, shape))] = bad
    for bad in random.permutation([np.nan, 1e9, -1e30, np.inf])[: random.integers(0, 3)]:
        factor[tuple(random.integers(0, shape))] = bad
    both = {"u": (dims, values.astype(dtype)), "factor": (dims, factor.astype(dtype))}
    return xr.Dataset(both)


def stepped(u: NDArray[Any], factor: NDArray[Any], axis: int) -> NDArray[Any]:
    before = np.roll(u, 1, axis)
    with np.errstate(all="ignore"):
        return u * factor + np.where(before > 1e3, before, u.dtype.type(0))


def expected(dataset: xr.Dataset, steps: int, below: float) -> Any:
    """Return the step, the number of cells that are lost and the first one; or how many steps."""
    u, factor = dataset["u"].values, dataset["factor"].values
    finite, axis = np.isfinite(u), dataset["u"].dims.index("x")
    for done in range(1, steps + 1):
        before, u = u, stepped(u, factor, axis)
        if done % EVERY and done < steps:
            continue
        lost = np.argwhere(finite & ~np.isfinite(u))
        if len(lost):
            return done, len(lost), tuple(lost[0].tolist())
        finite |= np.isfinite(u)
        with np.errstate(all="ignore"):
            change = np.nan_to_num(abs(u.astype(float) - before.astype(float)), posinf=np.inf).max()
        if done % EVERY == 0 and change <= below:
            return done
    return steps


def message(dims: Any, found: tuple[int, int, tuple[int, ...]]) -> str:
    step, count, place = found
    named = ", ".join(f"{dim}={at}" for dim, at in zip(dims, place, strict=True))
    where = f"at {named}" if count == 1 else f"in {count} cells, the first at {named}"
    return f"After step {step} 'v' is infinite or NaN {where}, where it was finite."


def run(dataset: Any, dtype: str, steps: int, **more: Any) -> xr.Dataset:
    until: dict[str, Any] = {
        "field": "v",
        "below": 1e-3,
        "check_every": EVERY,
        **more.pop("until", {}),
    }
    more = {"target": "reference", "until": until, "feedback": {"v": "u"}, **more}
    axes = {"I": "x", "J": "y"}
    boundary = {"x": "periodic"}
    text = PROGRAM.format(dtype)
    return he.run(text, dataset, axes=axes, boundary=boundary, steps=steps, **more)


def check(seed: int, **more: Any) -> None:
    random = np.random.default_rng(seed)
    dtype = ("float64", "float32")[seed % 2]
    dataset, steps = data(random, dtype), int(random.integers(1, 22))
    wanted = expected(dataset, steps, 1e-3)
    chunks = [{}, {"x": 3}, {"x": 2, "y": 2}, {"y": 1}][seed % 4]
    if isinstance(wanted, int):
        result = run(dataset, dtype, steps, chunks=chunks, **more)
        assert result.attrs.get("halocline_steps", steps) == wanted
        return
    with pytest.raises(he.DivergenceError) as caught:
        run(dataset, dtype, steps, chunks=chunks, **more)
    assert caught.value.message == message(dataset["u"].dims, wanted)
    lost = run(dataset, dtype, steps, chunks=chunks, until={"non_finite": "ignore"}, **more)
    assert not np.isfinite(lost["v"]).all()


@pytest.mark.parametrize("seed", range(24))
def test_drawn_fields(seed: int) -> None:
    pool = LocalPool(workers=1 + seed % 3)
    with patch("halocline_engine.distribute.executors.select.local_pool", return_value=pool):
        check(seed, options=he.Options(steps_per_pass=1 + seed % 5))


def test_workers_find_the_same(two_workers: Any, tmp_path: Path) -> None:
    for seed in range(40, 46):
        check(seed, cluster=two_workers)


def test_what_is_said() -> None:
    dataset = xr.Dataset(
        {"u": (("y", "x"), np.ones((3, 4))), "factor": (("y", "x"), np.full((3, 4), 0.5))}
    )
    dataset["factor"][1, 2] = 1e200
    with pytest.raises(he.DivergenceError) as caught:
        run(dataset, "float64", 3)
    assert str(caught.value) == (
        "After step 3 'v' is infinite or NaN in 2 cells, the first at y=1, x=2, where it was"
        " finite. Take smaller steps, or write until={..., 'non_finite': 'ignore'} where values may"
        " be lost."
    )
    with pytest.raises(he.ArgumentError) as wrong:
        run(dataset, "float64", 3, until={"non_finite": True})
    assert wrong.value.message == (
        "The 'non_finite' of argument 'until' must be 'error' or 'ignore', got True."
    )


def stopped_after(told: list[Event]) -> Callable[[], bool]:
    return lambda: any(isinstance(one, Checkpointed) for one in told)


def test_a_run_that_goes_on_knows_what_was_finite_at_its_start(tmp_path: Path) -> None:
    """Values are lost before the checkpoint from which it goes on, and between measurements."""
    shape = (3, 400)
    dataset = xr.Dataset(
        {"u": (("y", "x"), np.ones(shape)), "factor": (("y", "x"), np.ones(shape))}
    )
    dataset["factor"][1, 2] = np.nan
    told: list[Event] = []
    more: dict[str, Any] = {
        "workspace": tmp_path / "kept",
        "until": {"check_every": 90, "below": 0.0},
        "options": he.Options(checkpoint_steps=30),
    }
    with pytest.raises(he.CancelledError):
        run(
            dataset,
            "float64",
            90,
            on_event=told.append,
            cancelled=stopped_after(told),
            **more,
        )
    told.clear()
    with pytest.raises(he.DivergenceError, match="After step 90 'v' is infinite or NaN at y=1"):
        run(dataset, "float64", 90, on_event=told.append, **more)
    assert any(isinstance(one, Resumed) for one in told)
