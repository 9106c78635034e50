"""Numbers of every kind for scalars of every type, through every entry that takes a scalar."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline.errors import ArgumentError as ClientError
from halocline.inputs.arguments import plain
from halocline_engine.arguments import plain_number
from halocline_service.processes.stencil import StencilInputs, check_program

TYPES = ("bool", "int8", "int16", "int32", "int64", "float32", "float64")
WORTH = (0, 1, 2, -3, 2.5, 0.1, 127, 128, 2**24 + 1, 2**53 + 1, 2**63, 1e300, math.inf, math.nan)
LIKE_TWO: tuple[Any, ...] = (
    *(2, 2.0, np.float32(2), np.int8(2), np.array(2.0), np.array(2), xr.DataArray(2)),
)
NO_NUMBERS = (
    *("2", b"2", 2j, None, [2], (2,), {"a": 2}, object(), slice(2), np.ones(1), np.ones((1, 1))),
    *(np.datetime64(2, "s"), np.timedelta64(2, "s"), np.str_("2"), np.complex64(2)),
    *(np.array("2"), np.array(2j), np.array(None), np.ma.masked, xr.DataArray([2.0])),
)


def program(dtype: str) -> str:
    return f"""
def scaled(t: Field[{dtype}], o: Field[{dtype}], k: {dtype}):
    with computation(PARALLEL), interval(...):
        o = k
"""


def item_of(value: Any) -> Any:
    """Return a number as Python has it; NumPy itself would compare rounded numbers."""
    if isinstance(value, Fraction) or getattr(value, "dtype", None) == np.longdouble:
        return float(value)
    return value.item() if hasattr(value, "dtype") else value


def kinds_of(worth: float) -> list[Any]:
    """Return a number as objects of all kinds that hold it exactly."""
    kinds: list[Any] = [worth]
    if isinstance(worth, int) and worth in (0, 1):
        kinds += [bool(worth), np.bool_(worth), np.array(bool(worth))]
    if math.isfinite(worth) and float(worth) == worth:
        kinds.append(Fraction(worth))
    for name in (*TYPES[1:], "uint8", "uint64", "float16", "longdouble"):
        try:
            with np.errstate(all="ignore"):
                one = np.dtype(name).type(worth)
        except (OverflowError, ValueError):
            continue
        held = item_of(one)
        if held == worth or math.isnan(held):
            kinds += [one, np.array(one), xr.DataArray(one), np.ma.array(one)]
    return kinds


def expected(value: Any, dtype: str) -> Any:
    """Return what a type holds of a number, by Python's exact comparison; None where refused."""
    item = item_of(value)
    if isinstance(item, bool) or dtype == "bool":
        return item if isinstance(item, bool) and dtype == "bool" else None
    if dtype.startswith("int"):
        limits = np.iinfo(dtype)
        whole = math.isfinite(item) and item == math.trunc(item)
        return int(item) if whole and limits.min <= item <= limits.max else None
    with np.errstate(over="ignore"):
        held = float(np.dtype(dtype).type(float(item)))
    if isinstance(item, int):
        return held if held == item else None
    return held if math.isfinite(held) or not math.isfinite(item) else None


def outcome(value: Any, dtype: str, made: he.Stencil) -> Any:
    """Return what a call on arrays computes with a scalar, or None for an error."""
    out = np.zeros((1, 1, 1), dtype)
    try:
        made(np.ones((1, 1, 1), dtype), out, k=value)
    except he.ArgumentError:
        return None
    return out[0, 0, 0]


def same(one: Any, other: Any) -> bool:
    return one is other or one == other or (one is not None and other is not None and one != one)


@pytest.mark.parametrize("dtype", TYPES)
def test_every_kind_of_number_for_every_type(dtype: str) -> None:
    made = he.stencil(program(dtype), target="reference")
    for worth in WORTH:
        for value in kinds_of(worth):
            right = expected(value, dtype)
            got = outcome(value, dtype, made)
            assert same(got, right), (worth, type(value), got, right)
    for value in NO_NUMBERS:
        assert outcome(value, dtype, made) is None, value


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_every_entry_takes_the_same_numbers(dtype: str) -> None:
    dataset = xr.Dataset({"t": (("y", "x"), np.ones((1, 2), dtype))})
    text = program(dtype).replace("o = k", "o = k * t")
    for value in LIKE_TWO:
        given = {"program": text, "scalars": {"k": value}}
        stages = [{"stencil": given}]
        for result in (
            he.run(text, dataset, scalars={"k": value}, target="reference"),
            he.sequence(stages, dataset, steps=2, target="reference"),
        ):
            assert result["o"].values.tolist() == [[2, 2]]
        sent = plain({"stages": stages})["stages"][0]["stencil"]
        assert sent["scalars"] == {"k": 2}
        check_program(StencilInputs.model_validate({"dataset": "-", **sent}))


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_numbers_elsewhere(dtype: str) -> None:
    text = program(dtype).replace("o = k", "o = t[1, 0, 0] + t[-1, 0, 0]")
    dataset = xr.Dataset({"t": (("y", "x"), np.ones((1, 3), dtype))})
    one: Any = np.array(1)
    index = dataset.assign(at=("p", np.array([5])))
    for value in LIKE_TWO:
        boundary = {"x": {"low": {"constant": value}, "high": "edge"}}
        result = he.run(
            text,
            dataset,
            scalars={"k": 1},
            boundary=boundary,
            target="reference",
            steps=one,
        )
        assert result["o"].values.tolist() == [[3, 2, 2]]
        assert plain({"boundary": boundary})["boundary"]["x"]["low"] == {"constant": 2}
        gathered = he.gather(
            index, source="t", index="at", dim="x", out_of_range="mask", fill=value
        )
        assert gathered["gathered"].values.tolist() == [[2]]
        assert plain({"fill": value, "until": {"field": "o", "below": value}}) == {
            "fill": 2,
            "until": {"field": "o", "below": 2},
        }
    wrong: tuple[Any, ...] = (np.array([2.0]), 1e300 if dtype == "float32" else 2j, "2")
    for value in wrong:
        with pytest.raises(he.HaloclineError):
            he.run(
                text,
                dataset,
                scalars={"k": 1},
                boundary={"x": {"constant": value}},
                target="reference",
            )
        with pytest.raises(he.HaloclineError):
            he.gather(index, source="t", index="at", dim="x", out_of_range="mask", fill=value)


def test_the_client_refuses_what_is_no_number() -> None:
    for value in NO_NUMBERS:
        assert plain_number(value) is None
        if isinstance(value, xr.DataArray):  # values along a dimension
            continue
        with pytest.raises(ClientError):
            plain({"scalars": {"k": value}})


def test_options_have_numbers_of_python() -> None:
    given: Any = {
        "memory_fraction": np.array(0.5),
        "memory_limit": np.int32(9),
    }
    assert repr(he.Options(**given)) == repr(he.Options(memory_fraction=0.5, memory_limit=9))
