"""Transfers and sums of groups on the host's cores, compiled by Numba.

Every function works on a range of elements or groups, so that threads may share the work; the
result does not depend on how it is shared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numba
import numpy as np
from numpy.typing import NDArray

from halocline_engine.kernels.indirect.indices import Groups
from halocline_engine.kernels.indirect.problem import (
    Bytes,
    Direction,
    Duplicates,
    Index,
    Transfer,
    check_transfer,
)
from halocline_engine.kernels.indirect.sparse import Form, Missing, Sparse
from halocline_engine.kernels.threads import spread

__all__ = ["combine", "move", "product"]

#: Elements that are worth a thread of their own.
_SERIAL_BYTES = 1 << 18
_OPERATIONS = {Duplicates.LAST: 0, Duplicates.SUM: 1, Duplicates.MIN: 2, Duplicates.MAX: 3}
_FORMS = {Form.PLAIN: 0, Form.RELATIVE: 1, Form.DEPARTURE: 2}
#: Members of a batch that are computed together, so that weights are read once for them.
_LEVELS = 8
_jit: Callable[..., Any] = cast("Any", numba).njit(
    nogil=True, fastmath=False, error_model="numpy", boundscheck=False
)


def move(
    transfer: Transfer, source: Bytes, target: Bytes, index: Index, *, threads: int = 1
) -> None:
    """Do a transfer; indices are in range or below zero, where nothing is moved.

    No two elements of a scatter go to one place.
    """
    check_transfer(transfer, source, target, index)
    word = np.dtype(_word(transfer.alignment))
    read, written = source.view(word), target.view(word)
    gather = transfer.direction is Direction.GATHER

    def some(first: int, past: int) -> None:
        _move(read, written, index, gather, first, past)

    spread(
        transfer.elements, _threads(source.shape[0] * transfer.element_bytes, index, threads), some
    )


def combine(
    kind: Duplicates,
    source: NDArray[Any],
    target: NDArray[Any],
    groups: Groups,
    *,
    threads: int = 1,
) -> None:
    """Combine the elements of each group; see `reference.combine`."""
    operation = _OPERATIONS[kind]

    def some(first: int, past: int) -> None:
        _combine(source, target, groups.places, groups.starts, groups.order, operation, first, past)

    row = source.shape[0] * source.shape[2] * source.itemsize
    spread(groups.places.size, _threads(row, groups.order, threads), some)


def product(
    matrix: Sparse,
    field: NDArray[Any],
    form: Form,
    missing: Missing,
    least: float,
    *,
    threads: int = 1,
) -> NDArray[Any]:
    """Return the product of a matrix with fields [batch, cell]; see `reference.product`."""
    out = np.empty((field.shape[0], matrix.rows), field.dtype)
    renormalise = missing is Missing.RENORMALISE

    def some(first: int, past: int) -> None:
        _product(
            field,
            out,
            matrix.starts,
            matrix.columns,
            matrix.weights,
            _FORMS[form],
            renormalise,
            least,
            first,
            past,
        )

    row = 8 * field.shape[0]
    spread(matrix.rows, _threads(row, matrix.columns, threads), some)
    return out


def _word(alignment: int) -> str:
    """Return the type that elements are copied in."""
    return "u8" if alignment >= 8 else "u4" if alignment == 4 else "u1"


def _threads(row: int, index: Index, threads: int) -> int:
    """Return how many threads there is enough work for."""
    return max(1, min(threads, row * index.size // _SERIAL_BYTES))


@_jit
def _move(
    source: Any, target: Any, index: Any, gather: bool, first: int, past: int
) -> None:  # pragma: no cover - compiled
    words = source.shape[2]
    for member in range(source.shape[0]):
        for element in range(first, past):
            other = index[element]
            if other < 0:
                continue
            start, end = (other, element) if gather else (element, other)
            for word in range(words):
                target[member, end, word] = source[member, start, word]


@_jit
def _combine(
    source: Any,
    target: Any,
    places: Any,
    starts: Any,
    order: Any,
    operation: int,
    first: int,
    past: int,
) -> None:  # pragma: no cover - compiled
    for member in range(source.shape[0]):
        for group in range(first, past):
            place = places[group]
            for value in range(source.shape[2]):
                held = source[member, order[starts[group]], value]
                for entry in range(starts[group] + 1, starts[group + 1]):
                    other = source[member, order[entry], value]
                    if operation == 1:
                        held = held + other
                    elif operation == 2:
                        if other < held or other != other:
                            held = other
                    elif operation == 3:
                        if other > held or other != other:
                            held = other
                    else:
                        held = other
                target[member, place, value] = held


@_jit
def _product(
    field: Any,
    out: Any,
    starts: Any,
    columns: Any,
    weights: Any,
    form: int,
    renormalise: bool,
    least: float,
    first: int,
    past: int,
) -> None:  # pragma: no cover - compiled
    total = np.empty(_LEVELS)
    valid = np.empty(_LEVELS)
    gone = np.empty(_LEVELS, np.bool_)
    for start in range(0, field.shape[0], _LEVELS):
        levels = min(_LEVELS, field.shape[0] - start)
        for row in range(first, past):
            full = 0.0
            for level in range(levels):
                total[level] = 0.0
                valid[level] = 0.0
                gone[level] = False
            for term in range(starts[row], starts[row + 1]):
                weight = weights[term]
                column = columns[term]
                full += weight
                for level in range(levels):
                    value = np.float64(field[start + level, column])
                    if form != 0:
                        value = value - np.float64(field[start + level, row])
                    if not renormalise:
                        total[level] += weight * value
                    elif value == value:
                        total[level] += weight * value
                        valid[level] += weight
                    else:
                        gone[level] = True
            for level in range(levels):
                value = total[level]
                if gone[level]:
                    left = -valid[level] if full < 0.0 else valid[level]
                    if full != 0.0 and left > 0.0 and left >= least * abs(full):
                        value = value * (full / valid[level])
                    else:
                        value = np.nan
                if starts[row] == starts[row + 1]:
                    value = np.nan
                if form == 2:
                    value = np.float64(field[start + level, row]) + value
                out[start + level, row] = value
