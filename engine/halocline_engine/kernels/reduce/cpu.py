"""Reductions on the host's cores, compiled by Numba.

A tile of values is cut into slices of `WIDTH` bits on the grid of digits: beside ``1.5 * 2**52``
units of a digit, the bits of a double count whole units. Sums of these counts are integers, which
loops of vectors add in any order. What three slices leave over is added value by value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numba
import numpy as np
from numpy.typing import NDArray

from halocline_engine.kernels.reduce.states import (
    BITS,
    COUNT,
    DIGITS,
    LOWEST,
    NAN_PLACE,
    NANS,
    NEGATIVE,
    PLACE,
    POSITIVE,
    WIDTH,
    States,
    carrier,
    merged_extremes,
    merged_sums,
    new_extremes,
    new_sums,
)
from halocline_engine.kernels.threads import spread

__all__ = ["add_up", "find_extremes", "round_sums"]

#: First row and the one past the last, first value and the one past the last.
_Cells: TypeAlias = tuple[int, int, int, int]

_jit: Callable[..., Any] = cast("Any", numba).njit(
    nogil=True, fastmath=False, error_model="numpy", boundscheck=False
)
#: Values that are worth a thread of their own.
_SERIAL = 1 << 16
#: Values of a tile, which stay in the first cache from its largest one to its slices, and tiles
#: until digits are carried: sums of fewer than 2**22 slices of 41 bits fit.
_TILE, _TILES = 2048, 1024
_MASK = (1 << WIDTH) - 1
_MAGNITUDE, _INFINITE = (1 << 63) - 1, 0x7FF << 52
_FRACTION = (1 << 52) - 1
#: The digit of whole numbers, and the bits of unsigned ones above it.
_UNIT, _HIGH = -LOWEST // WIDTH, (1 << (64 - WIDTH)) - 1
#: Digits of which three slices begin: those below have no normal numbers on their grid, and above
#: it would overflow.
_FIRST, _LAST = 3, 51
_GRIDS = np.ldexp(1.5, 52 + LOWEST + WIDTH * np.arange(_LAST + 1))
#: Bits of a sum that are rounded: those of a double, one behind them, and whether more follow.
_ROUNDED = 55


def add_up(
    values: NDArray[Any],
    codes: NDArray[np.int64] | None,
    labels: int,
    weights: NDArray[Any] | None = None,
    *,
    threads: int = 1,
) -> States:
    """Return the states of sums; see `reference.add_up`."""
    shape = (len(values), math.prod(values.shape[1:]))
    if codes is not None and weights is not None:
        values, weights = np.multiply(values, weights, dtype=np.float64), None
    plain = _plain(values)
    whole = plain.dtype.kind != "f" and weights is None
    high = _HIGH if plain.dtype == np.uint64 else -1
    if codes is not None or whole:
        plain = np.ascontiguousarray(plain.reshape(shape))
    lines = plain if plain.ndim == 3 else plain[:, np.newaxis]
    factors = None if weights is None else _plain(weights).reshape(lines.shape)

    def some(states: States, cells: _Cells) -> None:
        if codes is not None:
            _add_labelled(plain, codes, labels, whole, high, cells, states)
        elif whole:
            _add_integers(plain, high, cells, states)
        else:
            _add_rows(lines, factors, cells, states)

    found = _shared(shape, labels, threads, new_sums, some)
    return found[0] if len(found) == 1 else merged_sums(found)


def find_extremes(
    values: NDArray[Any],
    codes: NDArray[np.int64] | None,
    labels: int,
    *,
    largest: bool,
    threads: int = 1,
) -> States:
    """Return the states of extremes; see `reference.find_extremes`."""
    plain, wide = _plain(values), carrier(values.dtype)
    labelled = codes is not None
    marks = codes if codes is not None else np.empty((0, 0), np.int64)

    def some(states: States, cells: _Cells) -> None:
        best = np.zeros(len(states), plain.dtype)
        _find(plain, marks, labelled, labels, largest, cells, best, states)
        known = states[:, PLACE] >= 0
        states[known, BITS] = best[known].astype(wide).view(np.int64)

    found = _shared(plain.shape, labels, threads, new_extremes, some)
    return found[0] if len(found) == 1 else merged_extremes(found, values.dtype, largest=largest)


def round_sums(states: States) -> NDArray[np.float64]:
    """Return the rounded sums; see `reference.round_sums`."""
    sums = np.empty(len(states))
    _round(np.ascontiguousarray(states), sums)
    return sums


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Return values of a type that loops are compiled for."""
    if values.dtype == np.bool_:
        return values.view(np.uint8)
    return values.astype(np.float32) if values.dtype == np.float16 else values


def _shared(
    shape: tuple[int, ...],
    labels: int,
    threads: int,
    new: Callable[[int], States],
    some: Callable[[States, _Cells], None],
) -> States:
    """Return the states of parts [part, group, column], which threads make.

    A part has some rows of one state, or where there are few rows some values of all.
    """
    rows, cells = shape
    threads = max(1, min(threads, rows * cells // _SERIAL))
    if rows >= threads:
        states = new(rows * labels)

        def of_rows(first: int, past: int) -> None:
            some(states[first * labels : past * labels], (first, past, 0, cells))

        spread(rows, threads, of_rows)
        return states[np.newaxis]
    parts = np.stack([new(rows * labels) for _ in range(threads)])

    def of_cells(first: int, past: int) -> None:
        for part in range(first, past):
            cut = (part * cells // threads, (part + 1) * cells // threads)
            some(parts[part], (0, rows, *cut))

    spread(threads, threads, of_cells)
    return parts


@_jit
def _add_rows(
    values: Any, weights: Any, cells: Any, states: Any
) -> None:  # pragma: no cover - compiled
    """Add products, or values where `weights` is None, through a tile that stays in the cache."""
    first, past, start, stop = cells
    held, most = np.empty(_TILE), _TILE * _TILES
    for row in range(first, past):
        for begin in range(start, stop, _TILE):
            tile = held[: min(_TILE, stop - begin)]
            if weights is None:
                _fill(tile, values[row], None, begin)
            else:
                _fill(tile, values[row], weights[row], begin)
            _add_values(tile, states, row - first)
            if (begin - start + _TILE) % most == 0:
                _carry(states, row - first)
        _carry(states, row - first)


@_jit
def _fill(tile: Any, values: Any, weights: Any, begin: int) -> None:  # pragma: no cover - compiled
    """Fill a tile from values [line, cell], of which `begin` go before."""
    width = values.shape[1]
    line, at, done = begin // width, begin % width, 0
    while done < tile.size:
        count = min(tile.size - done, width - at)
        for cell in range(count):
            value = np.float64(values[line, at + cell])
            if weights is not None:
                value *= np.float64(weights[line, at + cell])
            tile[done + cell] = value
        line, at, done = line + 1, 0, done + count


@_jit
def _add_values(tile: Any, states: Any, group: int) -> None:  # pragma: no cover - compiled
    largest, nans = 0, 0
    for at in range(tile.size):
        bits = np.float64(tile[at]).view(np.int64) & _MAGNITUDE
        nan = bits > _INFINITE
        nans += nan
        largest = max(largest, 0 if nan else bits)
    digit = max(_FIRST, ((largest >> 52) - 1023 - LOWEST) // WIDTH)
    if digit > _LAST:
        for value in tile:
            _add(value, states, group)
    else:
        states[group, COUNT] += tile.size - nans
        states[group, NANS] += nans
        _add_tile(tile, digit, states, group)


@_jit
def _add_tile(
    tile: Any, digit: int, states: Any, group: int
) -> None:  # pragma: no cover - compiled
    """Add finite values below the digit after this one, and no NaN."""
    one, two, three = _GRIDS[digit], _GRIDS[digit - 1], _GRIDS[digit - 2]
    none_one, none_two = np.float64(one).view(np.int64), np.float64(two).view(np.int64)
    none_three = np.float64(three).view(np.int64)
    sum_one, sum_two, sum_three, left = 0, 0, 0, 0
    for at in range(tile.size):
        rest = np.float64(tile[at])
        rest = rest if rest == rest else 0.0
        moved = rest + one
        sum_one += np.float64(moved).view(np.int64) - none_one
        rest -= moved - one
        moved = rest + two
        sum_two += np.float64(moved).view(np.int64) - none_two
        rest -= moved - two
        moved = rest + three
        sum_three += np.float64(moved).view(np.int64) - none_three
        rest -= moved - three
        left |= np.float64(rest).view(np.int64) & _MAGNITUDE
    states[group, digit] += sum_one
    states[group, digit - 1] += sum_two
    states[group, digit - 2] += sum_three
    if left == 0:
        return
    for value in tile:
        rest = np.float64(value) if value == value else 0.0
        rest -= (rest + one) - one
        rest -= (rest + two) - two
        rest -= (rest + three) - three
        if rest != 0.0:
            _add(rest, states, group)
            states[group, COUNT] -= 1


@_jit
def _add(value: float, states: Any, group: int) -> None:  # pragma: no cover - compiled
    """Add a value to the digits that its bits lie in, of which there are up to three."""
    bits = np.float64(value).view(np.int64)
    exponent = (bits & _MAGNITUDE) >> 52
    if bits & _MAGNITUDE >= _INFINITE:
        column = NANS
        if bits & _FRACTION == 0:
            column = POSITIVE if bits > 0 else NEGATIVE
        states[group, column] += 1
        return
    states[group, COUNT] += 1
    whole = bits & _FRACTION
    if exponent > 0:
        whole |= 1 << 52
    else:
        exponent = 1
    place = exponent - 1075 - LOWEST
    digit, shift = place // WIDTH, place % WIDTH
    low = (whole & ((1 << (WIDTH - shift)) - 1)) << shift
    rest = whole >> (WIDTH - shift)
    sign = 1 if bits >= 0 else -1
    states[group, digit] += sign * low
    states[group, digit + 1] += sign * (rest & _MASK)
    states[group, digit + 2] += sign * (rest >> WIDTH)


@_jit
def _carry(states: Any, group: int) -> None:  # pragma: no cover - compiled
    for digit in range(DIGITS - 1):
        over = states[group, digit] >> WIDTH
        states[group, digit] -= over << WIDTH
        states[group, digit + 1] += over


@_jit
def _add_integers(
    values: Any, high: int, cells: Any, states: Any
) -> None:  # pragma: no cover - compiled
    first, past, start, stop = cells
    for row in range(first, past):
        group = row - first
        for begin in range(start, stop, _TILE * _TILES):
            part = values[row, begin : min(begin + _TILE * _TILES, stop)]
            lower, upper = 0, 0
            for at in range(part.size):
                whole = np.int64(part[at])
                lower += whole & _MASK
                upper += (whole >> WIDTH) & high
            states[group, _UNIT] += lower
            states[group, _UNIT + 1] += upper
            _carry(states, group)
        states[group, COUNT] += stop - start


@_jit
def _add_labelled(
    values: Any, codes: Any, labels: int, integers: bool, high: int, cells: Any, states: Any
) -> None:  # pragma: no cover - compiled
    first, past, start, stop = cells
    added = 0
    for row in range(first, past):
        for at in range(start, stop):
            code = codes[row, at]
            if code < 0:
                continue
            group = (row - first) * labels + code
            if integers:
                whole = np.int64(values[row, at])
                states[group, _UNIT] += whole & _MASK
                states[group, _UNIT + 1] += (whole >> WIDTH) & high
                states[group, COUNT] += 1
            else:
                _add(np.float64(values[row, at]), states, group)
            added += 1
            if added == _TILE * _TILES:
                _carry_all(states)
                added = 0
    _carry_all(states)


@_jit
def _carry_all(states: Any) -> None:  # pragma: no cover - compiled
    for group in range(states.shape[0]):
        _carry(states, group)


@_jit
def _find(
    values: Any,
    codes: Any,
    labelled: bool,
    labels: int,
    largest: bool,
    cells: Any,
    best: Any,
    states: Any,
) -> None:  # pragma: no cover - compiled
    first, past, start, stop = cells
    for row in range(first, past):
        for at in range(start, stop):
            code = codes[row, at] if labelled else 0
            if code < 0:
                continue
            group = (row - first) * labels + code
            value = values[row, at]
            if value != value:
                if states[group, NAN_PLACE] < 0:
                    states[group, NAN_PLACE] = at
            elif (
                states[group, PLACE] < 0
                or (largest and value > best[group])
                or (not largest and value < best[group])
            ):
                best[group] = value
                states[group, PLACE] = at


@_jit
def _round(states: Any, sums: Any) -> None:  # pragma: no cover - compiled
    digits = np.zeros(DIGITS + 2, np.int64)  # two zeros below the lowest digit
    for group in range(states.shape[0]):
        state = states[group]
        if state[POSITIVE] or state[NEGATIVE]:
            high = np.inf if state[POSITIVE] else 0.0
            sums[group] = high - (np.inf if state[NEGATIVE] else 0.0)
            continue
        sign = -1 if state[DIGITS - 1] < 0 else 1
        over, top = 0, -1
        for digit in range(DIGITS):
            held = sign * state[digit] + over
            over = held >> WIDTH
            digits[digit + 2] = held & _MASK
            if digits[digit + 2]:
                top = digit
        if top < 0:
            sums[group] = 0.0
            continue
        sums[group] = sign * _rounded(digits, top)


@_jit
def _rounded(digits: Any, top: int) -> float:  # pragma: no cover - compiled
    """Return the value of digits without a sign, of which the highest is at `top`."""
    first, second, third = digits[top + 2], digits[top + 1], digits[top]
    length = 0
    while first >> length:
        length += 1
    wanted = _ROUNDED - length
    kept, cut = min(wanted, WIDTH), max(0, wanted - WIDTH)
    whole = (first << wanted) | (second >> (WIDTH - kept) << cut) | (third >> (WIDTH - cut))
    more = (second & ((1 << (WIDTH - kept)) - 1)) | (third & ((1 << (WIDTH - cut)) - 1))
    for digit in range(top):
        more |= digits[digit]
    if more:
        whole |= 1
    return math.ldexp(np.float64(whole), LOWEST + WIDTH * top - wanted)
