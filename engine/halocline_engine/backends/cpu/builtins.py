"""Functions that the generated text calls: memory, choices, and what Numba lacks.

`pointer_float64(address)` makes an integer an address of that type. `load(pointer, offset)` reads
an array that nothing in the function writes; `load_3` and `store_3(pointer, offset, value)` are for
an array that is written, where arrays with different numbers share no byte. Offsets count bytes.
`room(bytes)` is the address of memory of the function itself.

Memory is reached through integers and not through arrays, because an array index may be negative in
Python, and the code that checks for that keeps loops from being vectorised. The numbers are there
because LLVM gives up on a loop where it would have to compare more than a few ranges of addresses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numba
import numpy as np
from llvmlite import ir  # pyright: ignore[reportMissingTypeStubs] # it has none
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic as _numba_intrinsic

from halocline_engine.backends.cpu.elementary import (
    exponential,
    logarithm,
    multiply_add,
    power,
    select,
)
from halocline_engine.ir.types import DType

__all__ = ["SCOPES", "loop_attributes", "namespace"]

#: How many written arrays of a function are told apart: loops that write more are not vectorised,
#: and rows of many arrays that are written by elements push each other out of the cache.
SCOPES = 64
#: Full vectors where the processor has them; Numba's own choice is half of one on many.
_WIDE = '"prefer-vector-width"="512"'
#: Instructions that load from many addresses; elements one by one are put together faster.
_GATHERS, _NO_GATHERS = "+avx2", "+prefer-no-gather"

#: Bytes of a line of the cache.
_LINE = 64

_Function = Callable[..., Any]
#: Numba's decorators have no types of their own.
_intrinsic = cast("Callable[[_Function], _Function]", _numba_intrinsic)
_literal_intrinsic = cast("Any", _numba_intrinsic)(prefer_literal=True)
_jit = cast("Callable[[_Function], _Function]", numba.njit(error_model="numpy", nogil=True))
_types = cast("Any", types)
_cgutils = cast("Any", cgutils)
_ir = cast("Any", ir)


def _pointer(dtype: Any) -> _Function:
    @_intrinsic
    def pointer(_typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return _types.CPointer(dtype)(address), generate

    return pointer


def _load(scope: int | None) -> _Function:
    @_intrinsic
    def load(_typing: Any, pointer: Any, offset: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place = _at(context, builder, signature.return_type, arguments)
            if isinstance(signature.return_type, _types.Boolean):
                return context.unpack_value(builder, signature.return_type, place)
            value = builder.load(place, align=_size(signature.return_type))
            _mark(builder.module, value, scope)
            return value

        return pointer.dtype(pointer, offset), generate

    return load


def _store(scope: int) -> _Function:
    @_intrinsic
    def store(_typing: Any, pointer: Any, offset: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            # llvmlite checks names against a list, which has no attributes of a target.
            *_, features = context.codegen().magic_tuple()
            for one in loop_attributes(features):
                set[str].add(builder.function.attributes, one)
            place = _at(context, builder, pointer.dtype, arguments)
            if isinstance(pointer.dtype, _types.Boolean):
                context.pack_value(builder, pointer.dtype, arguments[2], place)
            else:
                done = builder.store(arguments[2], place, align=_size(pointer.dtype))
                _mark(builder.module, done, scope)
            return context.get_dummy_value()

        return _types.void(pointer, offset, pointer.dtype), generate

    return store


@_literal_intrinsic
def _room(_typing: Any, size: Any) -> Any:
    """Return the address of so many bytes, which are those of the calling function as it runs."""

    def generate(_context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        with builder.goto_entry_block():
            count = _ir.Constant(_ir.IntType(64), size.literal_value)
            room = builder.alloca(_ir.IntType(8), size=count)
            room.align = _LINE
        return builder.ptrtoint(room, _ir.IntType(64))

    return _types.int64(size), generate


def loop_attributes(features: str) -> tuple[str, ...]:
    """Return the attributes of functions with loops, for a processor with such features."""
    if _GATHERS not in features.split(","):
        return (_WIDE,)
    return (_WIDE, f'"target-features"="{features},{_NO_GATHERS}"')


def _size(dtype: Any) -> int:
    return int(dtype.bitwidth) // 8


def _mark(module: Any, access: Any, scope: int | None) -> None:
    """Say what an access may meet: its own array's scope, and none of the others."""
    domain = module.add_metadata(["halocline"])
    scopes = [module.add_metadata([f"halocline {n}", domain]) for n in range(SCOPES)]
    if scope is not None:
        access.set_metadata("alias.scope", module.add_metadata([scopes.pop(scope)]))
    access.set_metadata("noalias", module.add_metadata(scopes))


def _at(context: Any, builder: Any, dtype: Any, arguments: Any) -> Any:
    """Return the address `offset` bytes after a pointer, typed for the data."""
    base = builder.bitcast(arguments[0], _cgutils.voidptr_t)
    moved = builder.gep(base, [arguments[1]], inbounds=True)
    return builder.bitcast(moved, context.get_data_type(dtype).as_pointer())


def _extreme(operator: str) -> _Function:
    """Return `minimum` or `maximum` as NumPy has them: NaN wins, and of equals the second."""

    @_intrinsic
    def extreme(_typing: Any, one: Any, _two: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            left, right = arguments
            if isinstance(one, _types.Float):
                first = builder.or_(
                    builder.fcmp_ordered(operator, left, right),
                    builder.fcmp_unordered("uno", left, left),
                )
            elif isinstance(one, _types.Boolean):
                first = builder.icmp_unsigned(operator, left, right)
            else:
                first = builder.icmp_signed(operator, left, right)
            return builder.select(first, left, right)

        return one(one, one), generate

    return extreme


def _truncated(dtype: Any) -> _Function:
    """Return the conversion of a float to an integer: the nearest limit beyond it, NaN to 0."""

    @_intrinsic
    def truncated(_typing: Any, value: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            (x,), whole = arguments, _ir.IntType(int(dtype.bitwidth))
            limit = 1 << (int(dtype.bitwidth) - 1)
            above = builder.fcmp_ordered(">=", x, x.type(float(limit)))
            below = builder.fcmp_ordered("<", x, x.type(float(-limit)))
            inside = builder.and_(
                builder.fcmp_ordered("<", x, x.type(float(limit))),
                builder.fcmp_ordered(">=", x, x.type(float(-limit))),
            )
            near = builder.fptosi(builder.select(inside, x, x.type(0.0)), whole)
            high = builder.select(above, whole(limit - 1), near)
            return builder.select(below, whole(-limit), high)

        return dtype(value), generate

    return truncated


@_jit
def _round_away(value: Any) -> Any:
    """Round half away from zero: floor(|x| + 0.5) with the sign of x, in the type of x."""
    half = type(value)(0.5)
    return math.copysign(np.floor(math.fabs(value) + half), value)


@_jit
def _float_remainder(value: Any, divisor: Any) -> Any:
    """Return the remainder with the sign of the divisor, as np.remainder."""
    rest = np.fmod(value, divisor)
    if divisor == 0:
        return rest
    if rest == 0:
        return math.copysign(rest, divisor)
    if (divisor < 0) != (rest < 0):
        return rest + divisor
    return rest


@_intrinsic
def _integer_remainder(_typing: Any, _value: Any, _divisor: Any) -> Any:
    """Return the remainder with the sign of the divisor; 0 where the divisor is 0 or -1.

    Without branches: a hundred of Numba's own took the compiler 13 s and 290 MB.
    """

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        (x, given), zero, one = arguments, _ir.IntType(64)(0), _ir.IntType(64)(1)
        nothing = builder.or_(
            builder.icmp_signed("==", given, zero),
            builder.icmp_signed("==", given, _ir.IntType(64)(-1)),
        )
        by = builder.select(nothing, one, given)
        rest = builder.srem(x, by)
        other = builder.icmp_signed("<", builder.xor(rest, by), zero)
        turned = builder.and_(builder.icmp_signed("!=", rest, zero), other)
        return builder.select(turned, builder.add(rest, by), rest)

    return _types.int64(_types.int64, _types.int64), generate


@_jit
def _integer_power(base: Any, exponent: Any) -> Any:
    """Return the power in wrapping arithmetic; 1 / base**n is truncated, 0 for base 0."""
    if exponent < 0:
        if base == 1:
            return 1
        if base == -1:
            return 1 if exponent % 2 == 0 else -1
        return 0
    result = 1
    factor = np.int64(base)
    while exponent > 0:
        if exponent % 2 == 1:
            result *= factor
        factor *= factor
        exponent //= 2
    return result


def namespace() -> dict[str, Any]:
    """Return the names that generated text may use, and nothing else."""
    pointers = {
        f"pointer_{dtype}": _pointer(getattr(_types, "boolean" if dtype is DType.BOOL else dtype))
        for dtype in DType
    }
    whole = {
        f"truncated_{dtype}": _truncated(getattr(_types, dtype))
        for dtype in DType
        if dtype.is_integer
    }
    return {
        "__builtins__": {"range": range, "max": max, "min": min, "abs": abs},
        "np": np,
        "math": math,
        "load": _load(None),
        **{f"load_{n}": _load(n) for n in range(SCOPES)},
        **{f"store_{n}": _store(n) for n in range(SCOPES)},
        "room": _room,
        "select": select,
        "multiply_add": multiply_add,
        "exponential": exponential,
        "logarithm": logarithm,
        "power": power,
        "minimum": _extreme("<"),
        "maximum": _extreme(">"),
        "round_away": _round_away,
        "float_remainder": _float_remainder,
        "integer_remainder": _integer_remainder,
        "integer_power": _integer_power,
        **whole,
        **pointers,
    }
