"""Less memory than there is, as a caller grants it: the same bits, or a refusal with numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.distribute.tasks.events import Event, Planned

MEAN = """
def mean(a: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = 0.5 * (a[-1, 0, 0] + a[1, 0, 0])
"""
SHAPE = (60, 48)
DATASET = xr.Dataset(
    {
        **{name: (("y", "x"), np.full(SHAPE, 0.25)) for name in ("low", "up")},
        "a": (("y", "x"), np.random.default_rng(1).normal(size=SHAPE)),
        "diagonal": (("y", "x"), np.full(SHAPE, 2.0)),
        "index": ("p", [3, 5]),
    },
    coords={
        "lev": ("lev", np.arange(4.0) + 0.5, {"axis": "Z", "bounds": "edges"}),
        "edges": (("lev", "side"), np.stack([np.arange(4.0), np.arange(1.0, 5.0)], axis=1)),
    },
).assign(t=(("y", "x", "lev"), np.random.default_rng(2).normal(size=(*SHAPE, 4))))


def solved(**more: Any) -> xr.Dataset:
    return he.tridiagonal(
        DATASET, lower="low", diagonal="diagonal", upper="up", rhs="a", dim="x", **more
    )


def gathered(**more: Any) -> xr.Dataset:
    return he.gather(DATASET, source="a", index="index", dim="x", **more)


def columns(**more: Any) -> xr.Dataset:
    return he.column("2.0 * t", DATASET, **more)


def averaged(**more: Any) -> xr.Dataset:
    return he.run(MEAN, DATASET, **more)


@pytest.mark.parametrize("make", [solved, gathered, columns, averaged])
def test_blocks_are_cut_for_the_memory_that_is_granted(make: Any) -> None:
    expected, planned = make(target="reference"), list[Planned]()

    def tell(event: Event) -> None:
        if isinstance(event, Planned):
            planned.append(event)

    granted = he.Options(memory_limit=130_000)
    made = make(target="reference", on_event=tell, options=granted)
    for name in expected.data_vars:
        assert np.array_equal(made[name], expected[name], equal_nan=True)
    assert planned[0].blocks > 1
    with pytest.raises(he.CapacityError):
        make(target="reference", options=he.Options(memory_limit=100))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"memory_limit": 0},
            "Option 'memory_limit' must be a whole number from 1, got 0. Write bytes, or text such"
            " as '4 GiB'.",
        ),
        (
            {"device_memory_limit": 1e9},
            "Option 'device_memory_limit' must be a whole number from 1, got 1000000000.0. Write"
            " bytes, or text such as '4 GiB'.",
        ),
        (
            {"chunk_cache": -1},
            "Option 'chunk_cache' must be a whole number from 0, got -1. Write bytes, or text such"
            " as '4 GiB'.",
        ),
        (
            {"pipeline_depth": True},
            "Option 'pipeline_depth' must be a whole number from 0, got True. Leave it out.",
        ),
    ],
)
def test_options_without_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(he.ArgumentError) as caught:
        he.Options(**options)
    assert str(caught.value) == message
