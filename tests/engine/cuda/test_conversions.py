"""From floats to integers: towards zero, to the nearest limit, NaN to 0, with every target."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from emulation.machine import EmulatedMachine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import halocline_engine as he
from halocline_engine.backends.cuda.text.expressions import TYPES, expression_text
from halocline_engine.backends.cuda.text.prelude import prelude
from halocline_engine.ir.nodes import Cast, Read
from halocline_engine.ir.types import DType

INTEGERS = ("int8", "int16", "int32", "int64")
#: Numbers of one call; arrays are compiled for, and called with, the same size.
COUNT = 64


def model(value: float, dtype: str) -> int:
    """Return what a conversion gives, with Python's exact integers."""
    info = np.iinfo(dtype)
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return info.max if value > 0 else info.min
    return min(max(math.trunc(value), info.min), info.max)


def edges(dtype: str) -> list[float]:
    """Return numbers around the limits of all integers, one float and one unit to each side."""
    kind, found = np.dtype(dtype).type, [0.0, -0.0, 0.5, -0.5, math.inf, -math.inf, math.nan]
    for name in INTEGERS:
        info = np.iinfo(name)
        for limit in (info.min, info.max):
            for near in (limit - 1, limit - 0.5, limit, limit + 0.5, limit + 1):
                value = kind(near)
                found += [
                    float(value),
                    *(float(np.nextafter(value, kind(s * np.inf))) for s in (1, -1)),
                ]
    return found


def drawn(dtype: str) -> st.SearchStrategy[NDArray[Any]]:
    value = st.one_of(
        st.sampled_from(edges(dtype)), st.floats(width=32 if dtype == "float32" else 64)
    )
    values = st.lists(value, min_size=COUNT, max_size=COUNT)
    return values.map(lambda numbers: np.array(numbers, dtype))


def text(source: str) -> str:
    """Return a program with a conversion by assignment, in an expression, and of a scalar."""
    outputs = ", ".join(f"{name}: Field[np.{name}]" for name in (*INTEGERS,))
    return f"""
def convert(x: Field[np.{source}], s: np.{source}, {outputs.replace(": Field", "_: Field")},
            called: Field[np.int32], scalar: Field[np.int16]):
    with computation(PARALLEL), interval(...):
        {"; ".join(f"{name}_ = x" for name in INTEGERS)}
        called = int32(x) + 0
        scalar = s
"""


def kernels(source: str) -> str:
    code = ""
    for name in INTEGERS:
        expr = expression_text(
            Cast(DType(name), Read("a", (0, 0, 0), DType(source))), lambda _: "a[i]", lambda n: n
        )
        code += (
            f'extern "C" __global__ void __launch_bounds__(256) to_{name}(const int n, const'
            f" {TYPES[DType(source)]}* a, {TYPES[DType(name)]}* out) {{\n"
            "  const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);\n"
            f"  if (i < n) out[i] = {expr};\n}}\n"
        )
    return prelude(code) + code


@pytest.mark.parametrize("source", ["float32", "float64"])
def test_floats_become_integers(machine: EmulatedMachine, source: str) -> None:
    loaded = machine.load(machine.compile(kernels(source)))
    stencils: dict[str, Any] = {
        target: he.stencil(text(source), target=target) for target in ("reference", "cpu")
    }
    # The optimiser and vectors see more values than one at a time.
    awkward = edges(source)
    first = np.array((awkward * COUNT)[: COUNT * (len(awkward) // COUNT + 1)], source)

    def check(values: NDArray[Any]) -> None:
        wanted = {name: [model(float(v), name) for v in values] for name in INTEGERS}
        for stencil in stencils.values():
            out = {name: np.zeros((values.size, 1, 1), name) for name in INTEGERS}
            named = {f"{name}_": array for name, array in out.items()}
            called = np.zeros((values.size, 1, 1), np.int32)
            scalar = np.zeros((values.size, 1, 1), np.int16)
            stencil(
                x=values.reshape(-1, 1, 1),
                s=values.dtype.type(values[0]),
                called=called,
                scalar=scalar,
                **named,
            )
            for name, array in out.items():
                assert array.ravel().tolist() == wanted[name]
            assert called.ravel().tolist() == wanted["int32"]
            assert set(scalar.ravel().tolist()) == {wanted["int16"][0]}
        for name in INTEGERS:
            made = np.zeros(values.size, name)
            places = [np.uint64(machine.address(array)) for array in (values, made)]
            arguments = (np.int32(values.size), *places)
            loaded.launch(f"to_{name}", (-(-values.size // 256), 1, 1), (256, 1, 1), arguments)
            assert made.tolist() == wanted[name]

    check(first)
    fixture = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]

    @settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=fixture)
    @given(drawn(source))
    def same(values: NDArray[Any]) -> None:
        check(values)

    same()
