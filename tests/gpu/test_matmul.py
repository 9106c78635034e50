"""Matrix products on a real device: the hand-written kernels, and `matmul` in panels."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr
from matmul_kernels.cuda import ORDERS, Ends, Multipliers, room_bytes
from matmul_kernels.cuts import VARIANTS, shares_of

import halocline_engine as he
from halocline_engine.device.machine import CudaMachine
from halocline_engine.distribute.products import job
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.kernels.machine import Library
from halocline_engine.kernels.matmul.problem import CutSizes

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("shape", [(700, 1000, 333), (1700, 1517, 490), (1030, 517, 90), (1, 4, 1)])
def test_kernels_give_the_same_bits(
    machine: CudaMachine, cupy: Any, shape: tuple[int, int, int]
) -> None:
    m, n, k = shape
    count = machine.facts.multiprocessors
    multipliers = Multipliers(Library(machine), count)
    left = cupy.random.standard_normal((m, k), dtype=cupy.float32)
    right = cupy.random.standard_normal((k, n), dtype=cupy.float32)
    found: list[Any] = []
    for order in ORDERS:
        out = cupy.full((m, n), cupy.nan, cupy.float32)
        ends = Ends(left.data.ptr, right.data.ptr, out.data.ptr, m, n, k)
        multipliers.in_order(order, ends, "float32", 96)
        found.append(cupy.asnumpy(out))
    room = cupy.zeros(max(room_bytes(cut, *shape, count) for cut in VARIANTS) // 4, cupy.float32)
    room[2048:] = cupy.nan
    for variant in VARIANTS:
        made: list[Any] = []
        for width in (512, 512, 1024):
            out = cupy.full((m, n), cupy.nan, cupy.float32)
            ends = Ends(left.data.ptr, right.data.ptr, out.data.ptr, m, n, k, room.data.ptr)
            multipliers.multiply(ends, variant, width)
            made.append(cupy.asnumpy(out))
        for one in made[1:]:
            np.testing.assert_array_equal(one, made[0])
        if shares_of(variant, *shape, count).chained:
            found.append(made[0])
        else:
            np.testing.assert_allclose(made[0], found[0], rtol=1e-4, atol=1e-5 * k)
    for one in found[1:]:
        np.testing.assert_array_equal(one, found[0])
    exact = cupy.asnumpy(left).astype("f8") @ cupy.asnumpy(right).astype("f8")
    np.testing.assert_allclose(found[0], exact, rtol=1e-4, atol=1e-4 * k)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("dims", ["mk kn", "km nk", "tmk tkn", "tk tk"])
def test_panels_and_stores_change_no_bit(
    machine: CudaMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dims: str, dtype: str
) -> None:
    cut = CutSizes(outer=256, inner=128, unit=32)
    monkeypatch.setattr(job, "CUTS", {"cuda": cut, "cpu": cut})
    rng = np.random.default_rng(9)
    sizes = {"m": 900, "k": 700, "n": 800, "t": 2}
    dataset = xr.Dataset(
        {
            name: (tuple(own), rng.normal(size=[sizes[d] for d in own]).astype(dtype))
            for name, own in zip("lr", dims.split(), strict=True)
        }
    )
    asked: dict[str, Any] = {"left": "l", "right": "r", "dim": "k"}
    whole = he.matmul(dataset, **asked, target="cuda")["product"]
    judged = he.matmul(dataset, **asked, target="cpu")["product"]
    assert whole.dims == judged.dims
    within = 1e-12 if dtype == "float64" else 1e-3
    np.testing.assert_allclose(whole.values, judged.values, rtol=within, atol=within)
    encoding = {name: {"chunks": (200,) * dataset[name].ndim, "compressors": ()} for name in "lr"}
    cast("Any", dataset).to_zarr(tmp_path / "in", encoding=encoding, consolidated=False)
    for number, (memory, large) in enumerate(
        ((4 << 20, 1 << 40), (8 << 20, 1 << 40), (8 << 20, 0))
    ):
        monkeypatch.setattr(job, "_LARGE", large)
        granted = Options(device_memory_limit=memory)
        found = he.matmul(
            tmp_path / "in", **asked, target="cuda", output=tmp_path / str(number), options=granted
        )
        np.testing.assert_array_equal(found["product"].values, whole.values)
    again = he.matmul(dataset, **asked, target="cuda")["product"]
    np.testing.assert_array_equal(again.values, whole.values)
