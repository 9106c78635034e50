"""Packed integers: every function refuses them, and its hint leads to the right numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.datasets.variables import hint_of_conversion

PROGRAM = """
def double(t: Field[np.float32], s: Field[np.float32]):
    with computation(PARALLEL), interval(...):
        s = 2.0 * t
"""
#: What packs: the attributes, by which -32768 is missing or stands for another number.
PACKINGS: Mapping[str, dict[str, Any]] = {
    "scale": {"scale_factor": np.float32(0.5), "add_offset": np.float32(10.0)},
    "fill": {"_FillValue": np.int16(-32768)},
    "missing": {"missing_value": np.int16(-32768)},
    "all": {
        "scale_factor": np.float32(0.25),
        "add_offset": np.float32(-3.0),
        "_FillValue": np.int16(-32768),
    },
}


def packed(attributes: Mapping[str, Any], seed: int = 0) -> xr.Dataset:
    """Make integers as a file has them, with the smallest one among them."""
    values = np.random.default_rng(seed).integers(-100, 100, (3, 4, 5)).astype("int16")
    values[0, 1, 2] = -32768
    return xr.Dataset(
        {"t": (("z", "y", "x"), values, dict(attributes))},
        coords={"x": ("x", np.arange(5.0), {"axis": "X"}), "z": ("z", [0.5, 1.5, 2.5])},
    )


def unpacked(dataset: xr.Dataset) -> np.ndarray[Any, Any]:
    """Decode by the rules of CF, without xarray."""
    t: Any = dataset["t"]
    raw, attributes = t.values, t.attrs
    values = raw.astype("float32") * np.float32(attributes.get("scale_factor", 1.0))
    values = values + np.float32(attributes.get("add_offset", 0.0))
    missing = [attributes[n] for n in ("_FillValue", "missing_value") if n in attributes]
    return np.where(np.isin(raw, missing), np.float32(np.nan), values)


def decoded(dataset: xr.Dataset) -> xr.Dataset:
    """Follow the hint to the letter."""
    names: dict[str, Any] = {"xr": xr, "dataset": dataset}
    return eval("xr.decode_cf(dataset)", names)


def bands(dataset: xr.Dataset) -> xr.Dataset:
    ones = ("z", np.ones(3, "float32"))
    return dataset.assign(below=ones, here=ones, above=ones)


def weights() -> xr.Dataset:
    return xr.Dataset(
        {
            "row": ("n_s", [1, 2]),
            "col": ("n_s", [1, 2]),
            "S": ("n_s", [1.0, 1.0]),
            "src_grid_dims": ("src_grid_rank", [5, 4]),
            "dst_grid_dims": ("dst_grid_rank", [2]),
        }
    )


BANDS: Mapping[str, Any] = {"lower": "below", "diagonal": "here", "upper": "above", "dim": "z"}
CALLS: Mapping[str, Callable[[xr.Dataset], object]] = {
    "run": lambda dataset: he.run(PROGRAM, dataset, target="reference"),
    "sequence": lambda dataset: he.sequence([{"stencil": {"program": PROGRAM}}], dataset),
    "tridiagonal": lambda dataset: he.tridiagonal(bands(dataset), rhs="t", **BANDS),
    "solve": lambda dataset: he.solve(bands(dataset), he.factor(bands(dataset), **BANDS), rhs="t"),
    "column": lambda dataset: he.column("2.0 * t", dataset, axis="z"),
    "column heights": lambda dataset: he.column(
        "GradientC2F(bottom=SetGradient(0.0), top=SetGradient(0.0))(here)",
        dataset.assign(
            here=("z", np.ones(3)), height=("z_face", np.arange(4, dtype="int16"), dataset.t.attrs)
        ),
        axis="z",
        heights="height",
    ),
    "matmul": lambda dataset: he.matmul(dataset, left="t", right="t", dim="x"),
    "regrid": lambda dataset: he.regrid(dataset, weights(), variables=["t"]),
    "regrid all": lambda dataset: he.regrid(dataset, weights()),
    "stencil": lambda dataset: he.stencil(PROGRAM)(dataset["t"], np.zeros((3, 4, 5))),
}


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("call", CALLS)
def test_packed_values_are_refused_with_the_way_to_decode_them(call: str, packing: str) -> None:
    dataset = packed(PACKINGS[packing])
    with pytest.raises(he.FieldError) as caught:
        CALLS[call](dataset)
    names = [f"'{name}'" for name in PACKINGS[packing]]
    listed = " and ".join([", ".join(names[:-1])] * (len(names) > 1) + names[-1:])
    assert caught.value.hint == (
        f"Its values are packed by {listed}: decode them with xr.decode_cf(dataset), or open the"
        " dataset with mask_and_scale=True."
    )


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("seed", range(3))
def test_the_hint_leads_to_the_numbers_that_the_file_means(packing: str, seed: int) -> None:
    dataset = packed(PACKINGS[packing], seed)
    result = he.run(PROGRAM, decoded(dataset), target="reference")
    np.testing.assert_array_equal(result["s"].values, np.float32(2.0) * unpacked(dataset))


def test_integers_without_such_attributes_are_converted() -> None:
    variable = xr.Variable("x", np.arange(3, dtype="int16"), {"units": "K", "valid_max": 3})
    assert hint_of_conversion(variable, "Convert it.") == "Convert it."
    floats = xr.Variable("x", np.arange(3.0), {"scale_factor": 2.0})
    assert hint_of_conversion(floats, "Convert it.") == "Convert it."


def test_fields_of_integers_take_packed_values_as_they_are() -> None:
    program = PROGRAM.replace("np.float32", "np.int16").replace("2.0 * t", "t")
    dataset = packed(PACKINGS["all"])
    result = he.run(program, dataset, target="reference")
    np.testing.assert_array_equal(result["s"].values, dataset["t"].values)
