"""Exponentials, logarithms and powers in plain arithmetic: loops with them are vectorised.

The C library takes one element at a time. Libraries of vectors round otherwise than it does for the
elements that are left over, so that bits would depend on where a loop begins. These do the same for
every element. Errors are below 1.2 units in the last place; float32 is computed in float64.

Reduction of arguments: Cody and Waite, "Software Manual for the Elementary Functions" (1980).
The polynomials have the least largest error on their intervals, by the algorithm of Remez.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numba
import numpy as np
from llvmlite import ir  # pyright: ignore[reportMissingTypeStubs] # it has none
from numba import types
from numba.extending import intrinsic as _numba_intrinsic

__all__ = ["exponential", "logarithm", "multiply_add", "power", "select"]

_Function = Callable[..., Any]
#: Numba's decorators have no types of their own.
_intrinsic = cast("Callable[[_Function], _Function]", _numba_intrinsic)
#: LLVM would call what is long, and vectorises no loop with a call.
_jit = cast(
    "Callable[[_Function], _Function]",
    numba.njit(error_model="numpy", nogil=True, forceinline=True),
)
_types, _ir = cast("Any", types), cast("Any", ir)

#: The logarithm of 2: what products with whole numbers of 11 bits are exact with, and the rest.
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
_LOG2_E = 1.4426950408889634
#: Beside 1.5 * 2**52 doubles are whole numbers, which the lowest bits count from there.
_WHOLE = 6755399441055744.0
#: Exponentials beyond these are 0 or infinite; below `_LOW` they may have fewer digits than others.
_LEAST, _LOW, _MOST = -746.0, -708.0, 710.0
#: How many bits lie behind exponents; a low factor, and the exponents of what it and 2 leave of 1.
_FRACTION, _RAISED = np.uint64(52), 2.0**-64
_RAISED_BIAS, _HALF_BIAS = np.uint64(1023 + 64), np.uint64(1022)
#: The bits of the root of 1/2, and 1024 as an exponent, so that no difference is negative.
_ROOT_BITS, _MIDDLE = np.uint64(4604544271217802189), np.uint64(1024 << 52)
#: The bits of 2**52, which counts from there as well, and that number with 1024.
_COUNT_BITS, _COUNT = np.uint64(4841369599423283200), 4503599627370496.0 + 1024.0
#: The smallest number with all its digits, and what makes others such: a power of two.
_SMALLEST, _SCALE, _SCALED = 2.2250738585072014e-308, 18014398509481984.0, 54.0
#: (exp(r) - 1 - r) / r**2 for up to half of the logarithm of 2 on each side of 0.
_E2, _E3, _E4 = 0.5000000000000012, 0.166666666666667, 0.04166666666651542
_E5, _E6, _E7 = 0.008333333333307203, 0.0013888888947016498, 0.00019841269917388965
_E8, _E9 = 2.4801489941722665e-05, 2.7557216296247496e-06
_E10, _E11 = 2.76312804838574e-07, 2.5117862466922306e-08
#: (2 atanh(s) / s - 2) / z, where z is the square of s, from the root of 1/2 to that of 2.
_L1, _L2, _L3 = 0.6666666666666734, 0.3999999999941432, 0.2857142874247499
_L4, _L5, _L6 = 0.22222198563476092, 0.1818356486706799, 0.15314035826947248
_L7 = 0.14796105510224017
#: The same in more digits: 2/3 in two parts, and (... - 2/3) / z.
_THIRDS, _THIRDS_LOW = 0.6666666666666666, 3.700743415417188e-17
_P1, _P2, _P3 = 0.40000000000002256, 0.28571428570099233, 0.222222225199797
_P4, _P5, _P6 = 0.18181784362449857, 0.15386757535422602, 0.1325681320093879
_P7 = 0.13196369314803635
#: Powers with larger exponents are those of 1; products with logarithms; doubles that are all even.
_FAR, _BEYOND, _ALL_EVEN = 1e19, 1000.0, 9007199254740992.0


@_intrinsic
def select(_typing: Any, condition: Any, then: Any, _otherwise: Any) -> Any:
    """Return one of two values, without a branch."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.select(arguments[0], arguments[1], arguments[2])

    return then(condition, then, then), generate


@_intrinsic
def multiply_add(_typing: Any, a: Any, b: Any, c: Any) -> Any:
    """Return `a * b + c`, rounded once: an instruction where the processor has one."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return a(a, b, c), generate


@_intrinsic
def _bits(_typing: Any, _value: Any) -> Any:
    """Return the bits of a double."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _ir.IntType(64))

    return _types.uint64(_types.float64), generate


@_intrinsic
def _double(_typing: Any, _bits: Any) -> Any:
    """Return the double that has such bits."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _ir.DoubleType())

    return _types.float64(_types.uint64), generate


@_jit
def _exponential(x: Any, more: Any) -> Any:
    """Return the exponential of a sum, of which the second part is small beside 1."""
    near = multiply_add(x, _LOG2_E, _WHOLE)
    times = near - _WHOLE
    r = multiply_add(times, -_LN2_HIGH, x)
    r = multiply_add(times, -_LN2_LOW, r) + more
    # Sums of few terms each, which do not wait for one another.
    r2 = r * r
    r4 = r2 * r2
    first = multiply_add(multiply_add(_E5, r, _E4), r2, multiply_add(_E3, r, _E2))
    second = multiply_add(multiply_add(_E9, r, _E8), r2, multiply_add(_E7, r, _E6))
    sums = multiply_add(multiply_add(multiply_add(_E11, r, _E10), r4, second), r4, first)
    # The power of two lacks a factor: neither 2**1024 is a double nor 2**-1075.
    low = x < _LOW
    factor = select(low, _RAISED, 2.0)
    found = multiply_add(multiply_add(sums, r2, r), factor, factor)
    power = (_bits(near) + select(low, _RAISED_BIAS, _HALF_BIAS)) << _FRACTION
    found = found * _double(power)
    found = select(x > _MOST, np.inf, found)
    return select(x < _LEAST, 0.0, found)


@_jit
def _parts(x: Any) -> Any:
    """Return a positive number as 2**n * (1 + f): n and f, which is smallest about 1."""
    small = x < _SMALLEST
    bits = _bits(select(small, x * _SCALE, x)) + _MIDDLE
    power = (bits - _ROOT_BITS) >> _FRACTION
    f = _double(bits - (power << _FRACTION)) - 1.0
    return _double(_COUNT_BITS + power) - select(small, _COUNT + _SCALED, _COUNT), f


@_jit
def exponential(value: Any) -> Any:
    """Return the exponential, in the type of the value."""
    return type(value)(_exponential(np.float64(value), 0.0))


@_jit
def logarithm(value: Any) -> Any:
    """Return the natural logarithm, in the type of the value."""
    x = np.float64(value)
    times, f = _parts(x)
    s = f / (2.0 + f)
    z = s * s
    z2 = z * z
    first = multiply_add(multiply_add(_L4, z, _L3), z2, multiply_add(_L2, z, _L1))
    second = multiply_add(_L7, z2, multiply_add(_L6, z, _L5))
    sums = multiply_add(second, z2 * z2, first)
    rest = multiply_add(s, multiply_add(sums, -z, f), times * -_LN2_LOW)
    found = multiply_add(times, _LN2_HIGH, f - rest)
    found = select(x == 0.0, -np.inf, found)
    found = select(x < 0.0, np.nan, found)
    return type(value)(select(x < np.inf, found, x))


@_jit
def _long_logarithm(x: Any) -> Any:
    """Return the logarithm of a positive finite number as a sum of two, to 65 bits."""
    times, f = _parts(x)
    d = 2.0 + f
    inverse = 1.0 / d
    s = f * inverse
    s_low = multiply_add(-s, f - (d - 2.0), multiply_add(-s, d, f)) * inverse
    z = s * s
    z_low = multiply_add(2.0 * s, s_low, multiply_add(s, s, -z))
    z2 = z * z
    first = multiply_add(multiply_add(_P4, z, _P3), z2, multiply_add(_P2, z, _P1))
    second = multiply_add(_P7, z2, multiply_add(_P6, z, _P5))
    more = z * multiply_add(second, z2 * z2, first)
    sums = _THIRDS + more
    sums_low = (_THIRDS - sums) + more + _THIRDS_LOW
    cube = s * z
    cube_low = multiply_add(s, z_low, multiply_add(s_low, z, multiply_add(s, z, -cube)))
    rest = cube * sums
    rest_low = multiply_add(cube, sums, -rest)
    rest_low = multiply_add(cube, sums_low, multiply_add(cube_low, sums, rest_low))
    high, twice = times * _LN2_HIGH, 2.0 * s
    whole = high + twice
    found = whole + rest
    low = ((high - whole) + twice) + ((whole - found) + rest)
    return found, low + multiply_add(2.0, s_low, rest_low) + times * _LN2_LOW


@_jit
def power(value: Any, exponent: Any) -> Any:
    """Return a power as C has it, in the type of the value."""
    x, y = np.float64(value), np.float64(exponent)
    size, far = abs(x), abs(y)
    out = (size == 0.0) | (size == np.inf)
    high, low = _long_logarithm(select(out, 1.0, size))
    # Beyond these exponents and products, all powers are 0 or infinite, or that of 1.
    y_in = select(far < _FAR, y, math.copysign(_FAR, y))
    product = y_in * high
    more = multiply_add(y_in, low, multiply_add(y_in, high, -product))
    product = select(product > _BEYOND, _BEYOND, select(product < -_BEYOND, -_BEYOND, product))
    found = _exponential(product, select(abs(more) < 1.0, more, 0.0))
    found = select(out, select((size == 0.0) == (y < 0.0), np.inf, 0.0), found)
    whole = far == np.floor(far)
    odd = whole & (far < _ALL_EVEN) & (far * 0.5 != np.floor(far * 0.5))
    found = select(odd, math.copysign(found, x), found)
    found = select((x < 0.0) & (x > -np.inf) & (not whole), np.nan, found)
    found = select((x != x) | (y != y), np.nan, found)
    found = select((y == 0.0) | (x == 1.0) | ((size == 1.0) & (far == np.inf)), 1.0, found)
    return type(value)(found)
