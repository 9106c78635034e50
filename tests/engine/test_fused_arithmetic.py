"""`arithmetic="fused"`: a * b + c rounded once, the same bits on all targets and any cut."""

from __future__ import annotations

import ctypes
from typing import Any

import feedback_steps
import interpreted
import numpy as np
import pytest
import xarray as xr
from differential import front
from feedback_steps import fed_program, grid_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import halocline_engine as he
from halocline_engine.analysis.extents import analyse
from halocline_engine.backends.base import OpenSides
from halocline_engine.backends.cpu.caches import Caches
from halocline_engine.backends.cpu.run import CpuExecutable
from halocline_engine.backends.cuda.build import CudaBackend
from halocline_engine.backends.reference.multiply_add import multiply_add
from halocline_engine.errors import ArgumentError
from halocline_engine.passes.contract import contract
from halocline_engine.program import compile_program
from halocline_engine.schedule.temporal.step import Refused

LIBRARY = ctypes.CDLL("libm.so.6")
C_TYPES = {"float64": ctypes.c_double, "float32": ctypes.c_float}
ENDS = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]


def by_c(a: Any, b: Any, c: Any) -> Any:
    """Return what the C library says, which is another implementation."""
    dtype = a.dtype.name
    function = LIBRARY.fma if dtype == "float64" else LIBRARY.fmaf
    function.restype, function.argtypes = C_TYPES[dtype], [C_TYPES[dtype]] * 3
    return np.array([function(*map(float, one)) for one in zip(a, b, c, strict=True)], dtype)


def assert_bits(got: Any, expected: Any) -> None:
    whole = np.dtype(f"int{8 * expected.itemsize}")
    same = got.view(whole) == expected.view(whole)
    assert (same | (np.isnan(got) & np.isnan(expected))).all()


def close(a: Any, b: Any, random: np.random.Generator) -> Any:
    """Return numbers that nearly cancel the products."""
    near = 1.0 + random.choice(np.arange(-3.0, 4.0), a.size) * float(np.finfo(a.dtype).eps)
    return np.multiply(-(a * b), near, dtype=np.float64).astype(a.dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["bits", "cancel", "apart", "halves", "tiny", "ends"])
def test_the_reference_is_rounded_once(dtype: str, kind: str) -> None:
    random, count, info = np.random.default_rng(3), 3000, np.finfo(dtype)
    a, b = (random.normal(size=count).astype(dtype) for _ in "ab")
    with np.errstate(all="ignore"):
        match kind:
            case "bits":
                whole = np.dtype(f"int{info.bits}")
                limits = np.iinfo(whole)
                a, b, c = (
                    random.integers(limits.min, limits.max, count, whole).view(dtype) for _ in "abc"
                )
            case "cancel":
                c = close(a, b, random)
            case "apart":
                c = close(a, b, random) * np.exp2(random.integers(-60, 60, count)).astype(dtype)
            case "halves":
                a, b, c = (
                    np.ldexp(random.integers(-4096, 4096, count), random.integers(-30, 30, count))
                    .astype(dtype)
                    for _ in "abc"
                )  # fmt: skip
            case "tiny":
                low = int(info.minexp)
                a, b, c = (
                    np.ldexp(random.normal(size=count), random.integers(n - 9, n + 9, count))
                    .astype(dtype)
                    for n in (low // 2, low // 2, low)
                )  # fmt: skip
            case _:
                several = [*ENDS, 1.5, info.max, -info.max, info.tiny, info.smallest_subnormal]
                mesh = np.meshgrid(*[np.array([*several, 1 + info.eps, 0.5], dtype)] * 3)
                a, b, c = (one.ravel() for one in mesh)
        assert_bits(multiply_add(a, b, c), by_c(a, b, c))


def test_scalars_and_shapes_are_those_of_numpy() -> None:
    a, b = np.ones((3, 1), "float32"), np.full((1, 2), 2, "float32")
    found = multiply_add(a, b, np.asarray(3, "float32"))
    np.testing.assert_array_equal(found, np.full((3, 2), 5, "float32"))
    with np.errstate(all="ignore"):
        assert multiply_add(np.asarray(1e308), np.asarray(10.0), np.asarray(-1e308)) == np.inf
        assert multiply_add(np.asarray(-1e200), np.asarray(1e200), np.asarray(1.0)) == -np.inf


SUMS = """
def sums(a: Field[float], b: Field[float], c: Field[float], n: Field[int], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = {}
"""


@pytest.mark.parametrize(
    ("value", "fused"),
    [
        ("a * b + c", "fma(a, b, c)"),
        ("c + a * b", "fma(a, b, c)"),
        ("a * b - c", "fma(a, b, (- c))"),
        ("c - a * b", "fma((- a), b, c)"),
        ("a * b + c * a", "fma(a, b, (c * a))"),
        ("a * b - c * a", "fma(a, b, (- (c * a)))"),
        ("a * b * c + a", "fma((a * b), c, a)"),
        ("a * (b + c)", "(a * (b + c))"),
        ("a * b + c + c * b", "fma(c, b, fma(a, b, c))"),
        ("a / b + c", "((a / b) + c)"),
    ],
)
def test_which_product_is_fused(value: str, fused: str) -> None:
    text = he.stencil(SUMS.format(value), target="reference", arithmetic="fused").show("ir")
    (line,) = (line.strip() for line in text.splitlines() if line.strip().startswith("out ="))
    assert line.replace("[0, 0, 0]", "").replace(":float64", "") == f"out = {fused}"


def test_whole_numbers_are_never_fused() -> None:
    text = SUMS.format("n * n + n + a")
    stencils = [
        he.stencil(text, target="reference", arithmetic=how) for how in ("separate", "fused")
    ]
    assert stencils[0].show("ir") == stencils[1].show("ir")
    assert stencils[0].compiled.fingerprint == stencils[1].compiled.fingerprint
    other = [
        compile_program(SUMS.format("a * b + c"), arithmetic=how) for how in ("separate", "fused")
    ]
    assert other[0].fingerprint != other[1].fingerprint


def test_other_arithmetic_is_refused() -> None:
    with pytest.raises(ArgumentError) as caught:
        he.stencil(SUMS.format("a"), arithmetic="fast")  # pyright: ignore[reportArgumentType] # wrong
    assert str(caught.value) == (
        "Argument 'arithmetic' must be 'separate' or 'fused', got 'fast'. 'fused' rounds a * b + c"
        " once, 'separate' rounds each operation."
    )


@pytest.fixture
def fused_front(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the steps of drawn programs be those of fused arithmetic."""

    def fused(text: str) -> Any:
        program = contract(front(text)[0])
        return program, analyse(program)

    monkeypatch.setattr(feedback_steps, "front", fused)


@settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    seed=st.integers(0, 2**40),
    steps=st.integers(1, 4),
    open_i=st.booleans(),
    vertical=st.booleans(),
    level2=st.sampled_from((512, 4096)),
)
def test_drawn_programs_have_the_bits_of_the_reference(
    seed: int,
    steps: int,
    open_i: bool,
    vertical: bool,
    level2: int,
    fused_front: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On the CPU, for any number of steps at once and any tile."""
    interpreted.patch(monkeypatch)
    fed = fed_program(seed, vertical=vertical)
    sides: OpenSides = ((open_i, False), (False, False), (False, False))
    grid = grid_of(fed, steps, (13, 9, 3), sides, seed % 1000)
    compiled = compile_program(fed.text, target="cpu", arithmetic="fused")
    fused = CpuExecutable(compiled.schedule, Caches(level2=level2)).fused(
        steps, fed.feedback, sides
    )
    assert not isinstance(fused, Refused)
    fused(grid.arrays, grid.scalars, grid.origins, grid.domain)
    for name, values in grid.expected().items():
        np.testing.assert_array_equal(grid.inside(grid.arrays, name), values)


FIVE = """
def five(u: Field[np.{0}], v: Field[np.{0}], w: np.{0}):
    with computation(PARALLEL), interval(...):
        v = u + w * (u[-1, 0, 0] * w + u[1, 0, 0] - u[0, -1, 0] * u + u[0, 1, 0])
"""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_compiled_loops_have_the_bits_of_the_reference(dtype: str) -> None:
    random = np.random.default_rng(1)
    u = random.normal(size=(70, 60, 2)).astype(dtype)
    found: dict[tuple[str, Any], Any] = {}
    inside: Any = {"origin": (1, 1, 0), "domain": (68, 58, 2)}
    for target in ("cpu", "reference"):
        for how in ("separate", "fused"):
            v = np.zeros_like(u)
            he.stencil(FIVE.format(dtype), target=target, arithmetic=how)(u, v, 0.3, **inside)
            found[target, how] = v
    np.testing.assert_array_equal(found["cpu", "fused"], found["reference", "fused"])
    assert (found["cpu", "fused"] != found["cpu", "separate"]).any()


def test_cuda_text_calls_the_function_that_rounds_once() -> None:
    texts = {
        dtype: CudaBackend()
        .build(compile_program(FIVE.format(dtype), arithmetic="fused").schedule)
        .source
        for dtype in ("float32", "float64")
    }
    assert texts["float32"].count("fmaf(") >= 3
    assert texts["float64"].count("fma(") >= 3


@pytest.mark.parametrize("mode", ["streamed", "resident"])
def test_runs_have_the_same_bits_for_any_blocks(mode: str) -> None:
    random = np.random.default_rng(2)
    data = xr.Dataset({"u": (("y", "x"), random.normal(size=(40, 50)).astype("float32"))})
    how: dict[str, Any] = {"scalars": {"w": 0.25}, "boundary": {"x": "periodic", "y": "edge"}}
    how |= {"steps": 6, "feedback": {"v": "u"}}
    text = FIVE.format("float32")
    on_reference = he.stencil(text, target="reference", arithmetic="fused")
    expected = he.run(on_reference, data, target="reference", mode="streamed", **how)
    fused = he.stencil(text, target="cpu", arithmetic="fused")
    for chunks in ({}, {"y": 13}, {"x": 20, "y": 17}):
        found = he.run(fused, data, target="cpu", mode=mode, chunks=chunks, **how)
        np.testing.assert_array_equal(found["v"].values, expected["v"].values)
    other = he.run(text, data, target="cpu", **how)
    assert (other["v"].values != expected["v"].values).any()


def test_a_stencil_has_its_types_already() -> None:
    data = xr.Dataset({"u": (("y", "x"), np.ones((9, 8)))})
    stencil = he.stencil(FIVE.format("float64"), target="reference", arithmetic="fused")
    with pytest.raises(ArgumentError) as caught:
        he.run(stencil, data, scalars={"w": 0.5}, dtypes={"real": "f4"}, target="reference")
    assert str(caught.value) == (
        "Argument 'dtypes' belongs to a program's text, but a stencil was given. Give 'dtypes' to"
        " halocline_engine.stencil(...)."
    )
