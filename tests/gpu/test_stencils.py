"""Stencils on CuPy arrays on a real device, against the reference."""

from __future__ import annotations

import pickle
from copy import copy
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from device_streams import own_stream
from programs import (
    CHOSEN,
    COLUMNS,
    COMPONENT,
    DIFFUSION,
    MASKED,
    NEVER_WRITTEN,
    drawn,
    levels_schedule,
    scheduled,
)
from tile_choices import changed

import halocline_engine as he
from halocline_engine.backends.cuda.model.tile import Block
from halocline_engine.backends.cuda.runtime.executable import CudaExecutable
from halocline_engine.cache import Cache
from halocline_engine.device.machine import CudaMachine
from halocline_engine.ir.types import Order

pytestmark = pytest.mark.gpu

BLOCKS: tuple[Block, ...] = ((1, 1), (7, 3), (32, 1), (32, 4), (64, 2), (32, 8), (256, 1))
FUNCTIONS = """
def functions(x: Field[{dtype}], y: Field[{dtype}], out: Field[{dtype}]):
    with computation(PARALLEL), interval(...):
        out = sin(x) + cos(y) * exp(-x * x) + sqrt(abs(y)) + log(abs(x) + abs(y)) + tanh(x) * x ** 3
        out = out + min(x, y) - max(x, out) + (x % y) + floor(x) + round(y) + abs(x) ** y
        out = out + atan2(x, y) + erf(x) if isfinite(x) else x
"""


QUOTIENTS = """
def quotients(x: Field[np.float64], number: Field[np.float64], scalar: Field[np.float64],
              by: np.float64):
    with computation(PARALLEL), interval(...):
        number = x / 3.0
        scalar = x / by
"""


def outputs_of(target: str, text: str, arrays: dict[str, Any], **options: Any) -> dict[str, Any]:
    copies = {name: array.copy() for name, array in arrays.items()}
    he.stencil(text, target=target)(**copies, **options)
    return copies


def run(cupy: Any, text: str, arrays: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Return all arrays after a run on the device, in host memory."""
    device = {
        name: cupy.asarray(value) if isinstance(value, np.ndarray) else value
        for name, value in arrays.items()
    }
    he.stencil(text, target="cuda")(**device, **options)
    return {
        name: cupy.asnumpy(value) if isinstance(arrays[name], np.ndarray) else value
        for name, value in device.items()
    }


@pytest.mark.parametrize("by", [-7.0, 9.81e5, 1e-300, 1e300, 5e-324, 0.0])
def test_quotients_by_one_value_have_the_bits_of_a_division(cupy: Any, by: float) -> None:
    edges = [0.0, -0.0, 5e-324, -2.3e-308, 2.0**-900, 2.0**900, 1.7e308, np.inf, np.nan]
    random = np.random.default_rng()
    bits = random.integers(-(2**63), 2**63, 1 << 20).view(np.float64)
    usual = random.uniform(-2, 2, 1 << 20) * 10.0 ** random.integers(-9, 9, 1 << 20)
    x = np.concatenate([edges, bits, usual])[:, None, None]
    empty = np.full_like(x, np.nan)
    found = run(cupy, QUOTIENTS, {"x": x, "number": empty, "scalar": empty}, by=by)
    with np.errstate(all="ignore"):
        expected = {"number": x / 3.0, "scalar": x / by}
    for name, want in expected.items():
        given = ~np.isnan(want)
        assert (np.isnan(found[name]) == ~given).all()
        assert (found[name][given].view(np.int64) == want[given].view(np.int64)).all()


def diffusion_fields(shape: tuple[int, int, int]) -> dict[str, Any]:
    return {
        "inp": drawn(shape, 1),
        "coeff": 0.1 * drawn(shape, 2),
        "out": np.full(shape, np.nan),
    }


def test_diffusion(cupy: Any) -> None:
    fields = diffusion_fields((101, 67, 9))
    options = {"origin": (2, 2, 0), "domain": (97, 63, 9)}
    expected = outputs_of("reference", DIFFUSION, fields, **options)
    np.testing.assert_array_equal(run(cupy, DIFFUSION, fields, **options)["out"], expected["out"])


def test_columns(cupy: Any) -> None:
    shape = (70, 5, 21)
    fields = {"a": drawn(shape), "up": np.full(shape, np.nan), "down": np.full(shape, np.nan)}
    expected = outputs_of("reference", COLUMNS, fields)
    got = run(cupy, COLUMNS, fields)
    np.testing.assert_array_equal(got["up"], expected["up"])
    np.testing.assert_array_equal(got["down"], expected["down"])


def test_fields_with_fewer_axes(cupy: Any) -> None:
    fields = {
        "a": drawn((33, 12, 8), 1),
        "k": drawn((8, 1, 1), 2)[:, 0, 0],
        "p": drawn((34, 12, 1), 3)[:, :, 0],
        "b": np.full((33, 12, 8), np.nan),
    }
    options: dict[str, Any] = {"limit": 0.2, "domain": (33, 12, 8)}
    copies = {name: array.copy() for name, array in fields.items()}
    he.stencil(MASKED, target="reference")(**copies, **options)
    np.testing.assert_array_equal(run(cupy, MASKED, fields, **options)["b"], copies["b"])


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-5)])
def test_functions_agree_with_the_reference(cupy: Any, dtype: str, tolerance: float) -> None:
    text = FUNCTIONS.format(dtype=dtype)
    shape = (64, 16, 4)
    fields = {"x": 2.0 * drawn(shape, 1, dtype), "y": 2.0 * drawn(shape, 2, dtype)}
    fields["x"][3, 4, 1] = np.nan
    fields["x"][5, 6, 2] = np.inf
    fields = {name: array.astype(dtype) for name, array in fields.items()}
    fields["out"] = np.full(shape, np.nan, dtype)
    with np.errstate(all="ignore"):
        expected = outputs_of("reference", text, fields)["out"]
    got = run(cupy, text, fields)["out"]
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_strides_may_be_any(cupy: Any, order: tuple[int, int, int]) -> None:
    fields = diffusion_fields((45, 21, 6))
    options = {"origin": (2, 2, 0), "domain": (41, 17, 6)}
    expected = outputs_of("reference", DIFFUSION, fields, **options)["out"]
    back = [int(n) for n in np.argsort(order)]
    device = {
        name: cupy.ascontiguousarray(cupy.asarray(array).transpose(order)).transpose(back)
        for name, array in fields.items()
    }
    device["coeff"] = cupy.asarray(np.repeat(fields["coeff"], 2, axis=1))[:, ::2]
    device["inp"] = cupy.asarray(fields["inp"][::-1].copy())[::-1]
    he.stencil(DIFFUSION, target="cuda")(**device, **options)
    np.testing.assert_array_equal(cupy.asnumpy(device["out"]), expected)


@pytest.mark.parametrize("block", BLOCKS)
def test_the_bits_do_not_depend_on_the_shape_of_blocks(
    machine: CudaMachine, cupy: Any, tmp_path: Any, block: Block
) -> None:
    fields = diffusion_fields((77, 35, 5))
    expected = outputs_of("reference", DIFFUSION, fields, origin=(2, 2, 0), domain=(73, 31, 5))

    tiles = changed(block=block)
    executable = CudaExecutable(scheduled(DIFFUSION), machine, Cache(tmp_path), tiles)
    device = {name: cupy.asarray(array) for name, array in fields.items()}
    executable(device, {}, dict.fromkeys(device, (2, 2, 0)), (73, 31, 5))
    np.testing.assert_array_equal(cupy.asnumpy(device["out"]), expected["out"])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_bits_do_not_depend_on_the_partition(cupy: Any, dtype: str) -> None:
    """Library functions too: the whole domain against four uneven parts."""
    text = FUNCTIONS.format(dtype=dtype)
    shape = (61, 43, 7)
    x, y = (cupy.asarray(drawn(shape, seed, dtype)) for seed in (1, 2))
    whole, parts = cupy.full(shape, np.nan, dtype), cupy.full(shape, np.nan, dtype)
    stencil = he.stencil(text, target="cuda")
    stencil(x, y, whole)
    for i, ni in ((0, 17), (17, 44)):
        for j, nj in ((0, 30), (30, 13)):
            stencil(x, y, parts, origin=(i, j, 0), domain=(ni, nj, 7))
    np.testing.assert_array_equal(cupy.asnumpy(parts), cupy.asnumpy(whole))


@pytest.mark.parametrize("order", [Order.FORWARD, Order.BACKWARD])
def test_levels(machine: CudaMachine, cupy: Any, tmp_path: Any, order: Order) -> None:
    executable = CudaExecutable(levels_schedule(order), machine, Cache(tmp_path))
    a = drawn((12, 5, 6))
    device = {"a": cupy.asarray(a), "b": cupy.full((11, 5, 6), np.nan)}
    executable(device, {}, dict.fromkeys("ab", (0, 0, 0)), (11, 5, 6))
    t = a.copy()
    step = 1 if order is Order.FORWARD else -1
    for k in list(range(6))[::step][1:]:
        t[:, :, k] = 0.5 * t[:, :, k - step] + a[:, :, k]
    np.testing.assert_array_equal(cupy.asnumpy(device["b"]), t[1:])


def test_one_array_as_input_and_output(cupy: Any) -> None:
    text = "def double(a: Field[float64], b: Field[float64]):\n"
    text += "    with computation(PARALLEL), interval(...):\n        b = a + a\n"
    a = drawn((50, 40, 3))
    device = cupy.asarray(a)
    he.stencil(text, target="cuda")(device, device)
    np.testing.assert_array_equal(cupy.asnumpy(device), 2 * a)


def test_work_is_queued_on_the_current_stream(cupy: Any) -> None:
    fields = diffusion_fields((200, 200, 20))
    options = {"origin": (2, 2, 0), "domain": (196, 196, 20)}
    expected = outputs_of("reference", DIFFUSION, fields, **options)["out"]
    stencil = he.stencil(DIFFUSION, target="cuda")
    with own_stream():
        device = {name: cupy.asarray(array) for name, array in fields.items()}
        for _ in range(3):
            stencil(**device, **options)
        got = cupy.asnumpy(device["out"])
    np.testing.assert_array_equal(got, expected)


def test_a_stencil_travels(cupy: Any) -> None:
    fields = diffusion_fields((20, 20, 3))
    stencil = pickle.loads(pickle.dumps(he.stencil(DIFFUSION, target="cuda")))
    device = {name: cupy.asarray(array) for name, array in fields.items()}
    stencil(**device, origin=(2, 2, 0), domain=(16, 16, 3))
    expected = outputs_of("reference", DIFFUSION, fields, origin=(2, 2, 0), domain=(16, 16, 3))
    np.testing.assert_array_equal(cupy.asnumpy(device["out"]), expected["out"])


def test_auto_is_the_device(machine: CudaMachine) -> None:
    assert he.stencil(DIFFUSION).target == "cuda"


@pytest.mark.parametrize("order", ["C", "F"])
def test_loads_of_what_was_written_come_after_it(cupy: Any, order: Any) -> None:
    """NVCC merges loads of both choices, and moved them before the store."""
    shape = (37, 13, 29)
    m = np.array(drawn(shape) * 3, np.int32, order=order)
    x, a = (np.array(drawn(shape, seed), order=order) for seed in (1, 2))
    d = np.array(np.stack([drawn(shape, seed) for seed in (3, 4, 5)], axis=-1), order=order)
    four = np.array(np.stack([np.stack([a, x], axis=-1)] * 2, axis=-1), order=order)
    cases: tuple[tuple[str, dict[str, Any]], ...] = (
        (CHOSEN, {"x": x, "a": a, "m": m}),
        (NEVER_WRITTEN, {"d": four, "x": x, "m": m}),
        (COMPONENT, {"d": d, "x": x, "m": m, "s": 7.0}),
    )
    for text, arrays in cases:
        expected: dict[str, Any] = {name: copy(value) for name, value in arrays.items()}
        he.stencil(text, target="reference")(**expected)
        got = run(cupy, text, arrays)
        for name, values in expected.items():
            np.testing.assert_array_equal(got[name], values, err_msg=name)
