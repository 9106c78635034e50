"""The same text through GT4Py's numpy backend and through ours gives the same arrays.

Inputs are rough: random signs and magnitudes, no smoothness. Outputs hold NaN where nothing was
written before, and points outside the domain must come back unchanged.
"""

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import halocline_engine as he
from halocline_engine.analysis.named import used_fields
from halocline_engine.ir.nodes import Field

HEAD = """\
import numpy as np
from gt4py.cartesian import gtscript
from gt4py.cartesian.gtscript import (
    __INLINED, BACKWARD, FORWARD, PARALLEL, IJ, IK, JK, I, J, K, Field, compile_assert,
    computation, horizontal, interval, region, abs, acos, acosh, asin, asinh, atan, atanh, cbrt,
    ceil, cos, cosh, erf,
    erfc, exp, floor, gamma, isfinite, isinf, isnan, log, log10, max, min, mod, round,
    round_away_from_zero, sin, sinh, sqrt, tan, tanh, trunc, float32, float64, int32, int64)

F = Field[np.float64]
G = Field[np.float32]
N = Field[np.int64]
M = Field[np.int32]
B = Field[np.bool_]
FIJ = Field[IJ, np.float64]
FK = Field[K, np.float64]
FIK = Field[IK, np.float64]
FJK = Field[JK, np.float64]
LIMIT = 0.75
COUNT = 3
HALF = np.float32(0.5)


class grid:
    DX = 0.25


@gtscript.function
def lap(q):
    return -4.0 * q + q[1, 0, 0] + q[-1, 0, 0] + q[0, 1, 0] + q[0, -1, 0]


@gtscript.function
def gradient(q):
    dx = q[1, 0, 0] - q
    dy = q[0, 1, 0] - q
    return dx, dy


@gtscript.function
def limited(q, low=-0.5, high=0.5):
    if q < low:
        r = low
    elif q > high:
        r = high
    else:
        r = q
    return r


@gtscript.function
def swap(p, q):
    return q, p


@gtscript.function
def doubled(q):
    q = q + q
    return q


@gtscript.function
def scaled(q):
    from __externals__ import factor

    return factor * q


@gtscript.function
def scale(p, q):
    p *= 2.0
    p += q
    return p - 1.0


@gtscript.function
def scale_within(p, q):
    p -= 0.25
    if q > 0.0:
        p /= 3.0
    r = scale(p, q)
    return r + p


@gtscript.function
def shifted_index(q):
    level = K + 0.5
    return q[0, 1, 0] * level


@gtscript.function
def cornered(q):
    r = 0.1 * q
    with horizontal(region[I[0], J[0]], region[I[-1], J[0]]):
        r = q[0, 1, 0]
    return r


@gtscript.function
def assigned_too(p):
    p *= 2.0
    p = p + 1.0
    return p
"""

PROGRAMS = {
    "copy": """
def copy(a: F, out: F):
    with computation(PARALLEL), interval(...):
        out = a
""",
    "horizontal_diffusion": """
def horizontal_diffusion(a: F, coeff: F, out: F):
    with computation(PARALLEL), interval(...):
        laplacian = lap(a)
        res = laplacian[1, 0, 0] - laplacian
        flux_i = 0.0 if res * (a[1, 0, 0] - a) > 0.0 else res
        res = laplacian[0, 1, 0] - laplacian
        flux_j = 0.0 if res * (a[0, 1, 0] - a) > 0.0 else res
        out = a - coeff * (flux_i - flux_i[-1, 0, 0] + flux_j - flux_j[0, -1, 0])
""",
    "tridiagonal": """
def tridiagonal(a: F, b: F, c: F, d: F, out: F):
    with computation(FORWARD):
        with interval(0, 1):
            cc = c / (b + 7.0)
            dd = d / (b + 7.0)
        with interval(1, None):
            cc = c / (b + 7.0 - cc[0, 0, -1] * a)
            dd = (d - dd[0, 0, -1] * a) / (b + 7.0 - cc[0, 0, -1] * a)
    with computation(BACKWARD):
        with interval(-1, None):
            out = dd
        with interval(0, -1):
            out = dd - cc * out[0, 0, 1]
""",
    "vertical_advection": """
def vertical_advection(wcon: F, u: F, tend: F, *, dtr: float):
    with computation(FORWARD):
        with interval(0, 1):
            gcv = 0.25 * (wcon[1, 0, 1] + wcon[0, 0, 1])
            cs = gcv * 0.5
            ccol = gcv * 0.6
            bcol = dtr - ccol
            correction = -cs * (u[0, 0, 1] - u)
            dcol = dtr * u + correction
            divided = 1.0 / bcol
            ccol = ccol * divided
            dcol = dcol * divided
        with interval(1, -1):
            gav = -0.25 * (wcon[1, 0, 0] + wcon)
            gcv = 0.25 * (wcon[1, 0, 1] + wcon[0, 0, 1])
            acol = gav * 0.6
            ccol = gcv * 0.6
            bcol = dtr - acol - ccol
            dcol = dtr * u - gav * 0.5 * (u[0, 0, -1] - u) - gcv * 0.5 * (u[0, 0, 1] - u)
            divided = 1.0 / (bcol - ccol[0, 0, -1] * acol)
            ccol = ccol * divided
            dcol = (dcol - dcol[0, 0, -1] * acol) * divided
        with interval(-1, None):
            gav = -0.25 * (wcon[1, 0, 0] + wcon)
            acol = gav * 0.6
            bcol = dtr - acol
            dcol = dtr * u - gav * 0.5 * (u[0, 0, -1] - u)
            divided = 1.0 / (bcol - ccol[0, 0, -1] * acol)
            dcol = (dcol - dcol[0, 0, -1] * acol) * divided
    with computation(BACKWARD):
        with interval(-1, None):
            data = dcol
            tend = dtr * (data - u)
        with interval(0, -1):
            data = dcol - ccol * data[0, 0, 1]
            tend = dtr * (data - u)
""",
    "laplacian_of_laplacian": """
def laplacian_of_laplacian(a: F, out: F):
    with computation(PARALLEL), interval(...):
        out = lap(lap(a))
""",
    "tuples": """
def tuples(a: F, b: F, out: F):
    with computation(PARALLEL), interval(...):
        dx, dy = gradient(a)
        p, q = swap(dx, dy)
        p, q = swap(p, q)
        s, t = q, p
        out = p - 2.0 * q + b * s + t
""",
    "defaults": """
def defaults(a: F, out: F):
    with computation(PARALLEL), interval(...):
        out = limited(a) + 10.0 * limited(a, -0.1) + 100.0 * limited(high=0.2, q=a + 0.1)
""",
    "assigned_parameter": """
def assigned_parameter(a: F, out: F):
    with computation(PARALLEL), interval(...):
        t = a[0, 1, 0]
        out = doubled(t) + t + doubled(a)
""",
    "calls_in_choices": """
def calls_in_choices(a: F, b: F, out: F):
    with computation(PARALLEL), interval(...):
        out = lap(a) if a > 0.0 else limited(b)
        if out > 1.0:
            out = limited(lap(b), high=LIMIT)
""",
    "call_at_offset": """
def call_at_offset(a: F, out: F):
    with computation(PARALLEL), interval(...):
        out = lap(a)[1, 0, 0]
""",
    "externals": """
def externals(a: F, out: F):
    from __externals__ import factor, k0, on

    with computation(PARALLEL), interval(k0, None):
        compile_assert(COUNT > 2 and factor < 10)
        if __INLINED(on and COUNT == 3):
            out = scaled(a[0, 0, -1]) + grid.DX * HALF
        else:
            out = a[2, 0, 0]
""",
    "masks": """
def masks(a: F, b: F, n: N, out: F):
    with computation(PARALLEL), interval(...):
        if a > 0.0 and not (b > 0.0 or n == 2):
            a = -a
            t = b
        elif n > 3:
            t = a
            if b < -0.5:
                b = 3.0
                t = t + b
        else:
            t = -1.0
        out = t
""",
    "mask_of_a_bool_field": """
def mask_of_a_bool_field(a: F, flag: B, out: F):
    with computation(PARALLEL), interval(...):
        if flag:
            out = a
        else:
            out = 2.0
        flag = a > 0.25
""",
    "scalars": """
def scalars(a: F, out: F, n: int, c: float, flag: bool):
    with computation(PARALLEL), interval(...):
        out = a * c + n
        if flag:
            out = out - 1.0
        elif n > 2:
            out = out + 5.0
""",
    "float32": """
def float32_fields(g: G, a: F, out32: G, out: F):
    with computation(PARALLEL), interval(...):
        t = g * g
        out32 = t * 0.1 + a
        out = t + 3 * g + a
""",
    "integers": """
def integers(n: N, m: M, out64: N, out: F):
    with computation(PARALLEL), interval(...):
        out64 = n * 3 - m + (n % 3) - (-n) % 4 + mod(m, 5)
        out = n / (m + 20)
        if abs(n) > 3:
            out = abs(n) + min(n, m) - max(n, 2)
""",
    "truncation": """
def truncation(a: F, out64: N, flag: B, out: F):
    with computation(PARALLEL), interval(...):
        out64 = a * 3.7
        flag = a
        t = 1
        t = a * 5.5
        s: float32 = a
        k: int = a * 9.9
        out = t + s + k
""",
    "casts": """
def casts(a: F, n: N, out: F):
    with computation(PARALLEL), interval(...):
        out = int(a * 7.0) + float32(a) * float64(n) - int32(a * 2.0) + float(n) + int64(a)
""",
    "powers": """
def powers(a: F, b: F, out: F):
    with computation(PARALLEL), interval(...):
        out = a**2 + a**3 + a**4 + (b * b + 1.0) ** a + abs(b) ** 0.5 + 2**a + (b * b + 0.1) ** -1
""",
    "functions_a": """
def functions_a(a: F, b: F, out: F):
    with computation(PARALLEL), interval(...):
        p = abs(a) + 0.01
        out = sqrt(p) + exp(a) - log(p) + log10(p) + cbrt(a) + min(a, b) - max(a, 0.2)
""",
    "functions_b": """
def functions_b(a: F, b: F, out: F):
    with computation(PARALLEL), interval(...):
        u = tanh(a)
        v = 1.0 + b * b
        out = sin(a) + cos(b) + tan(u) + asin(u) + acos(u) + atan(a) + sinh(u) + cosh(u)
        out = out + asinh(a) + acosh(v) + atanh(0.9 * u) + erf(a) + erfc(b) + gamma(v)
""",
    "rounding": """
def rounding(a: F, out: F):
    with computation(PARALLEL), interval(...):
        q = 4.0 * a
        out = floor(q) + 10.0 * ceil(q) + 100.0 * trunc(q) + 1000.0 * round(q)
        out = out + 1.0e5 * round_away_from_zero(q) + mod(q, 0.7) + q % -1.3
""",
    "classes": """
def classes(a: F, bad: F, out: F):
    with computation(PARALLEL), interval(...):
        out = 0.0
        if isnan(bad):
            out = 1.0
        if isinf(bad):
            out = out + 2.0
        out = out + (4.0 if isfinite(bad) else a)
""",
    "nan_minimum": """
def nan_minimum(a: F, bad: F, out: F):
    with computation(PARALLEL), interval(...):
        out = min(a, bad) + (max(bad, a) if a > 0.0 else 0.0)
""",
    "lower_dimensions": """
def lower_dimensions(a: F, s: FIJ, w: FK, z: FIK, y: FJK, out: F):
    with computation(PARALLEL), interval(1, -1):
        out = a * s[1, -1] + w[-1] * w[1] - z[-1, 0] + y[0, 1] + s
""",
    "column_sums": """
def column_sums(a: F, s: FIJ):
    with computation(FORWARD):
        with interval(0, 1):
            s = a
        with interval(1, None):
            s += a * 0.5
    with computation(BACKWARD), interval(1, -1):
        s = s - a[0, 0, -1]
""",
    "new_style": """
def new_style(a: F, s: FIJ, out: F):
    with computation(PARALLEL), interval(1, -1):
        out = a[I + 1] + a[J - 2] + a[K - 1] + a[I - 1, K + 1] + a[I + 1, J + 1, K] + s[J + 1]
""",
    "intervals": """
def intervals(a: F, out: F):
    with computation(PARALLEL):
        with interval(0, 2):
            out = a[0, 0, 1]
        with interval(2, -2):
            out = a[0, 0, -2] + a[0, 0, 2]
        with interval(-2, None):
            out = out[0, 0, 0] + a[0, 0, -1]
    with computation(FORWARD), interval(3):
        out = 7.0
    with computation(BACKWARD):
        with interval(start=-1, end=None):
            out = out * 2.0
        with interval(1, -1):
            out = out + 0.5 * out[0, 0, 1]
""",
    "forward_reads_what_is_ahead": """
def forward_reads_what_is_ahead(a: F, b: F):
    with computation(FORWARD), interval(1, -1):
        a = b[0, 0, 1] + a[0, 0, -1]
        b = a - b[0, 0, -1]
""",
    "temporary_between_computations": """
def temporary_between_computations(a: F, out: F):
    with computation(PARALLEL), interval(...):
        t = a * a
    with computation(BACKWARD), interval(0, -1):
        t = t + t[0, 0, 1]
    with computation(PARALLEL), interval(1, -1):
        out = t[1, 0, -1] + t[0, -1, 1]
""",
    "augmented": """
def augmented(a: F, b: F):
    with computation(PARALLEL), interval(...):
        a += 1
        a *= b
        a -= 0.5
        a /= 2.0
        a **= 2
        b %= 0.3
""",
    "operators_change_what_is_passed": """
def operators_change_what_is_passed(a: F, b: F, out: F):
    with computation(PARALLEL), interval(...):
        t = a
        u = scale(t, b)
        out = t + 10.0 * u
        v = scale_within(t, b)
        out = out + 100.0 * t + 1000.0 * v
        w = scale(a + b, t) + scale(2.0, t) + assigned_too(t)
        out = out + 0.1 * t + 0.01 * w
    with computation(FORWARD), interval(1, None):
        x = scale(b, a)
        out = out + x + b[0, 0, -1]
""",
    "dead_assertions": """
def dead_assertions(a: F, out: F):
    from __externals__ import on

    with computation(PARALLEL), interval(...):
        if __INLINED(on):
            compile_assert(COUNT == 3)
            out = a
        else:
            compile_assert(COUNT == 4)
            out = -a
""",
    "declared_twice": """
def declared_twice(a: F, out: F):
    with computation(FORWARD):
        with interval(0, 1):
            t: float32 = a
            out = t
        with interval(1, None):
            t: float32 = a + t[0, 0, -1]
            out = t
""",
    "late_externals": """
def late_externals(a: F, out: F):
    with computation(PARALLEL), interval(...):
        from __externals__ import factor

        if a > 0.0:
            from __externals__ import on

            out = factor * a if on else a
        else:
            out = a
""",
    "level_index": """
def level_index(a: F, w: FK, out: F, n: N):
    with computation(PARALLEL), interval(...):
        n = K
        t = a * K + shifted_index(a)
        out = t[1, 0, 0] - w * (K - 2) if K > 2 else t
    with computation(PARALLEL), interval(2, -1):
        out = out + K % 3
""",
    "level_index_forward": """
def level_index_forward(a: F, out: F):
    with computation(FORWARD):
        with interval(0, 1):
            out = a + K
        with interval(1, None):
            out = out[0, 0, -1] * 0.5 + K * a
    with computation(BACKWARD), interval(0, -2):
        if K < 4:
            out = out + out[0, 0, 1] / (K + 1)
""",
    "regions": """
def regions(a: F, w: FIJ, out: F, b: F):
    with computation(PARALLEL), interval(...):
        t = a
        with horizontal(region[I[0], :], region[I[-1], :]):
            t = a[1, 0, 0] - 2.0 * a
        with horizontal(region[I[0] - 1, J[0]], region[I[-1] + 1 :, : J[0] + 1]):
            t = -a
        out = t[1, 0, 0] - t[-1, 0, 0]
        if a > 0.0:
            with horizontal(region[1 : I[-1], J[-1]]):
                out = w * a[0, -2, 0]
        else:
            out = 0.5 * out
        corner = cornered(a)
        with horizontal(region[:, 0:2]):
            out += corner
    with computation(FORWARD):
        with interval(0, 1):
            b = a
        with interval(1, None):
            b = b[0, 0, -1] + a
            with horizontal(region[I[0] + 1 : I[-1] - 1, J[0] : J[-1]]):
                b = b[0, 0, -1] * 0.5
""",
    "regions_from_externals": """
def regions_from_externals(a: F, out: F):
    from __externals__ import i_start, j_end, away

    with computation(PARALLEL), interval(...), horizontal(region[i_start : i_start + 3, : j_end]):
        out = a
    with computation(PARALLEL), interval(1, None):
        with horizontal(region[:, j_end + 1], region[away, :]):
            out = 7.0
        with horizontal(region[i_start, j_end]):
            out = a[0, 0, -1]
""",
    "planes": """
def planes(a: F, out: F, b: FIJ):
    with computation(FORWARD):
        with interval(0, 1):
            s: Field[IJ, np.float64] = 0.5
        with interval(1, None):
            s = 0.5 * s + a
    with computation(PARALLEL), interval(...):
        out = a - s if K == 2 else s
    with computation(BACKWARD), interval(...):
        s += out
        b = s
""",
    "names_that_might_clash": """
def names_that_might_clash(f0: F, t0: F, np_: F, dtype: F):
    with computation(PARALLEL), interval(...):
        s0 = f0[1, 0, 0] * t0
        array = s0 - np_
        dtype = array + s0[0, 1, 0]
""",
}

GIVEN: dict[str, Any] = {"factor": 3.5, "k0": 1, "on": True}
EXTERNALS: dict[str, dict[str, Any]] = dict.fromkeys(
    ("externals", "dead_assertions", "late_externals"), GIVEN
)
SCALARS: dict[str, dict[str, Any]] = {
    "scalars": {"n": 3, "c": 0.3, "flag": False},
    "vertical_advection": {"dtr": 3.0 / 20.0},
}
#: Those that GT4Py's numpy backend has not, or not in all computations.
BACKENDS = {"level_index_forward": "debug"}
SHAPE = (11, 10, 9)
ORIGIN = (3, 3, 1)
DOMAIN = (5, 4, 7)


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """Yield a module with all programs, which GT4Py wants to read from a file."""
    folder = tmp_path_factory.mktemp("gt4py")
    path = folder / "live_programs.py"
    path.write_text(HEAD + "".join(f"\n{text}" for text in PROGRAMS.values()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config: Any = importlib.import_module("gt4py.cartesian.config")
        config.cache_settings["root_path"] = str(folder)
        module = load(path)
    yield module
    del sys.modules[module.__name__]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("live_programs", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def inputs(stencil: he.Stencil, case: str) -> dict[str, np.ndarray[Any, Any]]:
    """Return rough arrays for every field; `bad` holds NaN and infinities."""
    random = np.random.default_rng(sum(map(ord, case)))
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for field in used_fields(stencil.compiled.program):
        shape = along(SHAPE, field)
        if field.dtype.is_float:
            values = random.normal(size=shape) * random.choice([0.1, 1.0, 2.0], size=shape)
            if field.name == "bad":
                values[random.random(shape) < 0.3] = np.nan
                values[random.random(shape) < 0.3] = np.inf
            if field.written and not field.read:
                values[:] = np.nan
        else:
            values = random.integers(-9, 10, size=shape)
            if field.dtype.value == "bool":
                values = values > 0
        arrays[field.name] = values.astype(field.dtype.value)
    return arrays


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", PROGRAMS)
def test_arrays_are_those_of_gt4py(case: str, peer: ModuleType) -> None:
    gtscript: Any = importlib.import_module("gt4py.cartesian.gtscript")
    name = PROGRAMS[case].split("(", 1)[0].split()[1]
    externals = dict(EXTERNALS.get(case, {}))
    if case == "regions_from_externals":
        i, j = gtscript.I, gtscript.J
        externals |= {"i_start": i[0], "j_end": j[-1], "away": i[0] - 32767}
    theirs = gtscript.stencil(
        backend=BACKENDS.get(case, "numpy"),
        format_source=False,
        definition=getattr(peer, name),
        externals=externals,
    )
    ours = he.stencil(HEAD + PROGRAMS[case], externals=externals, target="reference")
    arrays = inputs(ours, case)
    scalars = SCALARS.get(case, {})
    expected = {name: array.copy() for name, array in arrays.items()}
    origins = {field.name: along(ORIGIN, field) for field in used_fields(ours.compiled.program)}
    theirs(**expected, **scalars, origin=origins, domain=DOMAIN)
    ours(**arrays, **scalars, origin=origins, domain=DOMAIN)
    for field, array in arrays.items():
        single = "float32" in case
        rtol, atol = (2e-6, 2e-6) if single else (1e-12, 1e-13)
        np.testing.assert_allclose(
            array, expected[field], rtol=rtol, atol=atol, equal_nan=True, err_msg=field
        )


def along(numbers: tuple[int, int, int], field: Field) -> tuple[int, ...]:
    """Return the numbers of the axes that a field has."""
    return tuple(numbers["IJK".index(axis)] for axis in field.axes)
