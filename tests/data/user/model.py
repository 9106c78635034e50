"""A module of a model, with every word of the language."""

import numpy as np

from halocline import gtscript
from halocline.gtscript import (
    BACKWARD,
    FORWARD,
    IJ,
    IJK,
    IK,
    JK,
    PARALLEL,
    THIS_K,
    Field,
    GlobalTable,
    I,
    J,
    K,
    Table,
    __INLINED,
    abs,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    cbrt,
    ceil,
    compile_assert,
    computation,
    cos,
    cosh,
    erf,
    erfc,
    exp,
    float32,
    float64,
    floor,
    function,
    gamma,
    horizontal,
    int32,
    int64,
    interval,
    isfinite,
    isinf,
    isnan,
    lazy_function,
    lazy_stencil,
    log,
    log10,
    max,
    max_over,
    min,
    min_over,
    mod,
    neighbor_sum,
    region,
    round,
    round_away_from_zero,
    sin,
    sinh,
    sqrt,
    stencil,
    tan,
    tanh,
    trunc,
)

F = Field[np.float64]
F2 = Field[IJ, np.float64]
FK = Field[K, np.float64]
FIK = Field[IK, np.float64]
FJK = Field[JK, np.float64]
Full = Field[IJK, np.float32]
Tracers = Field[(np.float64, (3,))]
Lookup = GlobalTable[(np.float64, (4, 5))]
Near = Table[3]


class Constants:
    GRAVITY = 9.81


@gtscript.enum
class Scheme:
    UPWIND = 1


@function
def average(q: F) -> F:
    return 0.5 * (q[-1, 0, 0] + q[1, 0, 0])


@lazy_function()
def both(q: F, factor: float = 2.0):
    t = q * factor
    return t, -t


@lazy_stencil(backend="numpy")
def unused(a: F):
    with computation(PARALLEL), interval(...):
        a = a + 1.0


@stencil(backend="numpy")
def model(
    a: F,
    b: F,
    out: F,
    c: F2,
    profile: FK,
    side: FIK,
    front: FJK,
    small: Full,
    v: Tracers,
    w: Tracers,
    table: Lookup,
    mask: Field[bool],
    n: Field[np.int64],
    s: float,
    m: int,
    *,
    dt: float = 1.0,
):
    from __externals__ import ORDER  # pyright: ignore[reportMissingImports]

    with computation(PARALLEL), interval(...):
        compile_assert(ORDER > 0)
        t = average(a) * s + abs(a) - Constants.GRAVITY * profile + side + front
        t1, t2 = both(t, factor=3.0)
        if __INLINED(ORDER > 1):
            b = t1 if mask and a > 0.0 else t2
        elif m == Scheme.UPWIND:
            b = a
        else:
            b = sin(a) + cos(a) + tan(a) + asin(a) + acos(a) + atan(a) + atan2(a, t)
            b -= sinh(a) + cosh(a) + tanh(a) + asinh(a) + acosh(a) + atanh(a)
            b *= sqrt(a) + cbrt(a) + exp(a) + log(a) + log10(a) + erf(a) + erfc(a) + gamma(a)
            b /= floor(a) + ceil(a) + trunc(a) + round(a) + round_away_from_zero(a) + mod(a, 2.0)
            b **= 2
        b = min(a, 2.0) + max(a, b) + float32(a) + float64(n) + int32(a) + int64(a) + float(n)
        out = a[I + 1] + a[J - 1] + a[0, 0, n] + a.at(K=m) + a.at(K=n + 1) + K + THIS_K + dt
        v = 2.0 * v
        v[0, 0, 0][1] = v.A[m] + v[0, 0, 0][n] + table.A[1, n] + w.at(K=m, ddim=[1])
        if not (isnan(a) or isinf(a)) and isfinite(a):
            out[0, 0, 0] = small
        with horizontal(region[I[0], :], region[I[-1] - 1 : I[-1], J[0] : J[0] + 2]):
            out = 0.0
    with computation(FORWARD):
        with interval(0, 1):
            c = a
            total: F2 = 0.0
        with interval(1, -1):
            c = c + b[0, 0, -1] + total
            b[0, 0, 1] = c
        with interval(start=-1, end=None):
            k = 0
            while k < 10 and a > 0.0:
                k += 1
            c = k
    with computation(BACKWARD), interval(0, m):
        x: float32 = a
        b = x


def mesh(a: F, near: Near, out: F):
    with computation(PARALLEL), interval(...):
        out = neighbor_sum(a[near]) + max_over(a[near]) + min_over(a[near]) + a[near[0]]
