"""GridTools' acceptance cases, on its input and on rough input, against formulas in NumPy.

GridTools' own input hides mistakes: its limiter zeroes nine fluxes in ten, its advected field does
not depend on height. So each case also runs on a random field.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

Field = NDArray[np.float64]

SIZES = [(12, 33, 61), (23, 11, 43)]
GENERATOR_SEED = 20


def agree(got: Any, expected: Any, precision: float) -> bool:
    """Compare as GridTools does: close absolutely or relative to the larger of both."""
    difference = np.abs(got - expected)
    larger = np.maximum(np.abs(got), np.abs(expected))
    return bool(((difference < precision) | (difference < precision * larger)).all())


def corner_indices(size: tuple[int, int, int], halo: int) -> tuple[Field, Field, Field]:
    """Return x, y, z in 0..1, counted from the storage's corner."""
    ni, nj, nk = size[0] + 2 * halo, size[1] + 2 * halo, size[2]
    i, j, k = np.indices((ni, nj, nk)).astype(float)
    return i / ni, j / nj, k / nk


def rough(shape: tuple[int, ...], seed: int = GENERATOR_SEED) -> Field:
    return np.random.default_rng(seed).normal(0.0, 3.0, shape)


DIFFUSION = """
def diffusion(inp: Field[{dtype}], out: Field[{dtype}], coeff: {dtype}):
    with computation(PARALLEL), interval(...):
        lap = {four} * inp - inp[1, 0, 0] - inp[-1, 0, 0] - inp[0, 1, 0] - inp[0, -1, 0]
        flx = lap[1, 0, 0] - lap
        if flx * (inp[1, 0, 0] - inp) > 0:
            flx = 0
        fly = lap[0, 1, 0] - lap
        if fly * (inp[0, 1, 0] - inp) > 0:
            fly = 0
        out = inp - coeff * (flx - flx[-1, 0, 0] + fly - fly[0, -1, 0])
"""


def diffused(inp: Any, coeff: Any) -> Any:
    """Return the interior, two points from each side."""
    lap = 4 * inp[1:-1, 1:-1] - inp[2:, 1:-1] - inp[:-2, 1:-1] - inp[1:-1, 2:] - inp[1:-1, :-2]
    flx = lap[1:, 1:-1] - lap[:-1, 1:-1]
    flx = np.where(flx * (inp[2:-1, 2:-2] - inp[1:-2, 2:-2]) > 0, 0, flx)
    fly = lap[1:-1, 1:] - lap[1:-1, :-1]
    fly = np.where(fly * (inp[2:-2, 2:-1] - inp[2:-2, 1:-2]) > 0, 0, fly)
    return inp[2:-2, 2:-2] - coeff * (flx[1:] - flx[:-1] + fly[:, 1:] - fly[:, :-1])


def diffusion_input(size: tuple[int, int, int]) -> Field:
    x, y, _ = corner_indices(size, 2)
    t = x + 1.5 * y
    return 5 + 8 * (2 + np.cos(np.pi * t) + np.sin(2 * np.pi * t)) / 4


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["smooth", "rough"])
def test_horizontal_diffusion(run_stencil: Any, size: tuple[int, int, int], kind: str) -> None:
    inp = diffusion_input(size)
    if kind == "rough":
        inp = rough(inp.shape)
    out = np.full_like(inp, np.nan)
    stencil = run_stencil(
        DIFFUSION.format(dtype="float64", four="4.0"), inp, out, 0.025, origin=(2, 2, 0)
    )
    assert stencil.extents["inp"] == ((-2, 2), (-2, 2), (0, 0))
    inner = out[2:-2, 2:-2]
    assert np.isnan(out).sum() == out.size - inner.size
    assert agree(inner, diffused(inp, 0.025), 1e-14)
    if kind == "smooth" and size == SIZES[0]:
        assert inner[0, 0, 0] == pytest.approx(12.519434141616646, rel=1e-14)
        assert inner[-1, -1, 0] == pytest.approx(12.513796523111848, rel=1e-14)
        assert inner[:, :, 7].sum() == pytest.approx(3309.3566404443591, rel=1e-13)


def test_horizontal_diffusion_in_single_precision(run_stencil: Any) -> None:
    inp = rough((27, 15, 4)).astype(np.float32)
    out = np.full_like(inp, np.nan)
    text = DIFFUSION.format(dtype="float32", four="float32(4.0)")
    run_stencil(text, inp, out, np.float32(0.025), origin=(2, 2, 0))
    assert agree(out[2:-2, 2:-2], diffused(inp, np.float32(0.025)), 1e-6)


ADVECTION = """
def advection(utens_stage: Field[float64], u_stage: Field[float64], wcon: Field[float64],
              u_pos: Field[float64], utens: Field[float64], dtr: float):
    with computation(FORWARD):
        with interval(0, 1):
            gcv = 0.25 * (wcon[1, 0, 1] + wcon[0, 0, 1])
            cs = gcv * 0.5
            ccol = gcv * 0.5
            bcol = dtr - ccol
            corr = -cs * (u_stage[0, 0, 1] - u_stage)
            dcol = dtr * u_pos + utens + utens_stage + corr
            divided = 1.0 / bcol
            ccol = ccol * divided
            dcol = dcol * divided
        with interval(1, -1):
            gav = -0.25 * (wcon[1, 0, 0] + wcon)
            gcv = 0.25 * (wcon[1, 0, 1] + wcon[0, 0, 1])
            as_ = gav * 0.5
            cs = gcv * 0.5
            acol = gav * 0.5
            ccol = gcv * 0.5
            bcol = dtr - acol - ccol
            corr = -as_ * (u_stage[0, 0, -1] - u_stage) - cs * (u_stage[0, 0, 1] - u_stage)
            dcol = dtr * u_pos + utens + utens_stage + corr
            divided = 1.0 / (bcol - ccol[0, 0, -1] * acol)
            ccol = ccol * divided
            dcol = (dcol - dcol[0, 0, -1] * acol) * divided
        with interval(-1, None):
            gav = -0.25 * (wcon[1, 0, 0] + wcon)
            as_ = gav * 0.5
            acol = gav * 0.5
            bcol = dtr - acol
            corr = -as_ * (u_stage[0, 0, -1] - u_stage)
            dcol = dtr * u_pos + utens + utens_stage + corr
            divided = 1.0 / (bcol - ccol[0, 0, -1] * acol)
            dcol = (dcol - dcol[0, 0, -1] * acol) * divided
    with computation(BACKWARD):
        with interval(-1, None):
            data = dcol
            utens_stage = dtr * (data - u_pos)
        with interval(0, -1):
            data = dcol - ccol * data[0, 0, 1]
            utens_stage = dtr * (data - u_pos)
"""


def advection_input(size: tuple[int, int, int], kind: str) -> dict[str, Field]:
    x, y, z = corner_indices(size, 3)
    k = np.indices(x.shape)[2]
    t = x + y
    wave = np.cos(np.pi * t) + np.sin(2 * np.pi * t)
    fields = {
        "u_stage": 7 + wave,
        "u_pos": 7 + wave,
        "wcon": 2e-4 * (-1.07 + (2 + np.cos(np.pi * (x + z)) + np.cos(np.pi * y)) / 2),
        "utens": 3e-6 * (-1.0235 + (2 + np.cos(np.pi * t) + np.cos(np.pi * y * z)) / 2),
        "utens_stage": 7 + 1.25 * (2 + wave) + 0.1 * k,
    }
    if kind == "sheared":
        fields["u_stage"] = fields["u_stage"] + np.sin(2 * np.pi * z)
    if kind == "rough":
        scales = {"u_stage": 5.0, "u_pos": 5.0, "wcon": 0.05, "utens": 1.0, "utens_stage": 5.0}
        fields = {
            name: rough(x.shape, seed) * scale / 3
            for seed, (name, scale) in enumerate(scales.items())
        }
    return fields


def advected(f: dict[str, Field], dtr: float) -> Field:
    """Solve (a, b, c) x = d in each column with a dense solver and return dtr (x - u_pos)."""
    inner = (slice(3, -3), slice(3, -3))
    w, u = f["wcon"], f["u_stage"][inner]
    pair = w[4:-2, 3:-3] + w[3:-3, 3:-3]
    ni, nj, nk = u.shape
    a, c = np.zeros_like(u), np.zeros_like(u)
    a[:, :, 1:] = -0.25 * pair[:, :, 1:] * 0.5
    c[:, :, :-1] = 0.25 * pair[:, :, 1:] * 0.5
    corr = np.zeros_like(u)
    corr[:, :, 1:] -= a[:, :, 1:] * (u[:, :, :-1] - u[:, :, 1:])
    corr[:, :, :-1] -= c[:, :, :-1] * (u[:, :, 1:] - u[:, :, :-1])
    d = dtr * f["u_pos"][inner] + f["utens"][inner] + f["utens_stage"][inner] + corr
    matrix = np.zeros((ni, nj, nk, nk))
    level = np.arange(int(nk))
    matrix[:, :, level, level] = dtr - a - c
    matrix[:, :, level[1:], level[:-1]] = a[:, :, 1:]
    matrix[:, :, level[:-1], level[1:]] = c[:, :, :-1]
    x = np.linalg.solve(matrix, d[..., None])[..., 0]
    return dtr * (x - f["u_pos"][inner])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["smooth", "sheared", "rough"])
def test_vertical_advection(run_stencil: Any, size: tuple[int, int, int], kind: str) -> None:
    f = advection_input(size, kind)
    expected = advected(f, 3 / 20)
    result = f["utens_stage"].copy()
    before = result.copy()
    stencil = run_stencil(
        ADVECTION,
        utens_stage=result,
        u_stage=f["u_stage"],
        wcon=f["wcon"],
        u_pos=f["u_pos"],
        utens=f["utens"],
        dtr=3 / 20,
        origin=(3, 3, 0),
        domain=size,
    )
    assert stencil.extents["wcon"] == ((0, 1), (0, 0), (1, 0))
    inner = result[3:-3, 3:-3]
    assert agree(inner, expected, 1e-11)
    if kind == "smooth" and size == SIZES[0]:
        assert inner[0, 0, 0] == pytest.approx(11.650464883974871, rel=1e-14)
        assert inner[0, 0, -1] == pytest.approx(17.650491999782485, rel=1e-14)
        assert inner[-1, -1, -1] == pytest.approx(15.039323835362666, rel=1e-14)
        assert inner.sum() == pytest.approx(283275.0988578645, rel=1e-13)
    result[3:-3, 3:-3] = before[3:-3, 3:-3]
    assert np.array_equal(result, before)


TRIDIAGONAL = """
def solve(a: Field[float64], b: Field[float64], c: Field[float64], d: Field[float64],
          x: Field[float64]):
    with computation(FORWARD):
        with interval(0, 1):
            above = c / b
            right = d / b
        with interval(1, None):
            above = c / (b - above[0, 0, -1] * a)
            right = (d - a * right[0, 0, -1]) / (b - above[0, 0, -1] * a)
    with computation(BACKWARD):
        with interval(-1, None):
            x = right
        with interval(0, -1):
            x = right - above * x[0, 0, 1]
"""


@pytest.mark.parametrize("size", SIZES)
def test_tridiagonal_of_ones(run_stencil: Any, size: tuple[int, int, int]) -> None:
    a, b, c, d = (np.full(size, value) for value in (-1.0, 3.0, 1.0, 3.0))
    d[:, :, 0], d[:, :, -1] = 4.0, 2.0
    x = np.full(size, np.nan)
    run_stencil(TRIDIAGONAL, a, b, c, d, x)
    assert agree(x, np.ones(size), 1e-14)


def test_tridiagonal_of_rough_numbers(run_stencil: Any) -> None:
    size = (5, 4, 17)
    a, c, d = (rough(size, seed) for seed in (1, 2, 3))
    b = 1.0 + np.abs(a) + np.abs(c)
    x = np.full(size, np.nan)
    run_stencil(TRIDIAGONAL, a, b, c, d, x)
    matrix = np.zeros((*size, size[2]))
    level = np.arange(size[2])
    matrix[:, :, level, level] = b
    matrix[:, :, level[1:], level[:-1]] = a[:, :, 1:]
    matrix[:, :, level[:-1], level[1:]] = c[:, :, :-1]
    assert agree(x, np.linalg.solve(matrix, d[..., None])[..., 0], 1e-12)


LAPLACIAN = """
def laplacian(inp: Field[float64], out: Field[float64]):
    with computation(PARALLEL), interval(...):
        out = 4.0 * inp - (inp[1, 0, 0] + inp[0, 1, 0] + inp[-1, 0, 0] + inp[0, -1, 0])
"""


@pytest.mark.parametrize("kind", ["smooth", "rough"])
def test_laplacian(run_stencil: Any, kind: str) -> None:
    inp = rough((14, 9, 5)) if kind == "rough" else np.full((14, 9, 5), -1.0)
    out = np.full_like(inp, np.nan)
    run_stencil(LAPLACIAN, inp, out, origin=(1, 1, 0))
    around = inp[2:, 1:-1] + inp[1:-1, 2:] + inp[:-2, 1:-1] + inp[1:-1, :-2]
    expected = 4.0 * inp[1:-1, 1:-1] - around
    assert np.array_equal(out[1:-1, 1:-1], expected)
    if kind == "smooth":
        assert np.array_equal(expected, np.zeros_like(expected))


WHOLE_AXIS = """
def below(inp: Field[float64], out: Field[float64]):
    with computation(FORWARD):
        with interval(0, 1):
            out = 0.0
        with interval(1, None):
            out = out[0, 0, -1] + inp[0, 0, -1]
"""

PREFIX_FORWARD = """
def prefix(inp: Field[float64], out: Field[float64]):
    with computation(FORWARD):
        with interval(0, 1):
            out = inp
        with interval(1, None):
            out = out[0, 0, -1] + inp
"""

PREFIX_BACKWARD = """
def suffix(inp: Field[float64], out: Field[float64]):
    with computation(BACKWARD):
        with interval(-1, None):
            out = inp
        with interval(0, -1):
            out = out[0, 0, 1] + inp
"""


def index_sum(size: tuple[int, int, int], kind: str) -> Field:
    return rough(size) if kind == "rough" else np.indices(size).sum(axis=0).astype(float)


@pytest.mark.parametrize("kind", ["smooth", "rough"])
def test_sums_over_the_axis(run_stencil: Any, kind: str) -> None:
    inp = index_sum((6, 5, 12), kind)
    out = np.full_like(inp, np.nan)
    run_stencil(WHOLE_AXIS, inp, out)
    assert np.array_equal(out[:, :, 1:], np.cumsum(inp, axis=2)[:, :, :-1])
    assert np.array_equal(out[:, :, 0], np.zeros((6, 5)))
    inp += 1.0
    run_stencil(PREFIX_FORWARD, inp, out)
    assert np.array_equal(out, np.cumsum(inp, axis=2))
    run_stencil(PREFIX_BACKWARD, inp, out)
    assert np.array_equal(out, np.cumsum(inp[:, :, ::-1], axis=2)[:, :, ::-1])


SPLIT = """
def split(inp: Field[float64], out: Field[float64]):
    with computation({order}):
        with interval({first}):
            out = {one}
        with interval(2, -2):
            out = inp + {step} * out[0, 0, {k}]
        with interval({last}):
            out = 2.0 * inp[0, 0, {k}] - out[0, 0, {k}]
"""


@pytest.mark.parametrize("kind", ["smooth", "rough"])
@pytest.mark.parametrize("order", ["FORWARD", "BACKWARD"])
def test_axis_split_in_2_6_2(run_stencil: Any, kind: str, order: str) -> None:
    inp = index_sum((6, 6, 10), kind)
    out = np.full_like(inp, np.nan)
    first, last, k = ("0, 2", "-2, None", -1) if order == "FORWARD" else ("-2, None", "0, 2", 1)
    text = SPLIT.format(order=order, first=first, last=last, k=k, step=0.5, one="3.0 * inp")
    run_stencil(text, inp, out)
    upward = inp if order == "FORWARD" else inp[:, :, ::-1]
    expected = np.empty_like(inp)
    expected[:, :, :2] = 3.0 * upward[:, :, :2]
    for level in range(2, 8):
        expected[:, :, level] = upward[:, :, level] + 0.5 * expected[:, :, level - 1]
    for level in range(8, 10):
        expected[:, :, level] = 2.0 * upward[:, :, level - 1] - expected[:, :, level - 1]
    assert np.array_equal(out, expected if order == "FORWARD" else expected[:, :, ::-1])


def test_eleven_tracers_at_once(run_stencil: Any) -> None:
    names = [f"q{n}" for n in range(11)]
    parameters = ", ".join(f"{name}: Field[float64], {name}_new: Field[float64]" for name in names)
    lines = "\n".join(f"        {name}_new = 1.1 * {name}" for name in names)
    text = f"def tracers({parameters}):\n    with computation(PARALLEL), interval(...):\n{lines}\n"
    fields: dict[str, Any] = {}
    for number, name in enumerate(names):
        fields[name] = np.full((4, 5, 6), float(number)) + rough((4, 5, 6), number) * (number % 2)
        fields[f"{name}_new"] = np.full((4, 5, 6), np.nan)
    run_stencil(text, **fields)
    assert all(np.array_equal(fields[f"{name}_new"], 1.1 * fields[name]) for name in names)


STAGES_IN_ONE = """
def stages(inp: Field[float64], out: Field[float64]):
    with computation(PARALLEL), interval(...):
        one = inp[-1, 0, 0] + inp[1, 0, 0]
        two = one[0, -1, 0] + one[0, 1, 0]
        three = two[-1, 1, 0] - two
        out = three[2, 0, 0] * inp
"""


@pytest.mark.parametrize("kind", ["smooth", "rough"])
def test_stages_of_one_computation(run_stencil: Any, kind: str) -> None:
    inp = index_sum((12, 11, 4), kind)
    out = np.full_like(inp, np.nan)
    stencil = run_stencil(STAGES_IN_ONE, inp, out, origin=(2, 1, 0), domain=(7, 8, 4))
    assert stencil.extents["inp"] == ((-2, 3), (-1, 2), (0, 0))
    one = np.full_like(inp, np.nan)
    one[1:-1] = inp[:-2] + inp[2:]
    two = np.full_like(inp, np.nan)
    two[:, 1:-1] = one[:, :-2] + one[:, 2:]
    three = np.full_like(inp, np.nan)
    three[1:, :-1] = two[:-1, 1:] - two[1:, :-1]
    expected = three[4:11, 1:9] * inp[2:9, 1:9]
    assert np.array_equal(out[2:9, 1:9], expected)
    assert np.isnan(out).sum() == out.size - expected.size
