"""Transfers and sparse products with NumPy: the reference for the other targets."""

from __future__ import annotations

from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from halocline_engine.kernels.indirect import problem
from halocline_engine.kernels.indirect.indices import Groups
from halocline_engine.kernels.indirect.sparse import Form, Missing, Sparse

__all__ = ["combine", "move", "product"]


def move(
    transfer: problem.Transfer, source: problem.Bytes, target: problem.Bytes, index: problem.Index
) -> None:
    """Do a transfer; indices are in range or below zero, where nothing is moved."""
    problem.check_transfer(transfer, source, target, index)
    moved = np.flatnonzero(index >= 0)
    match transfer.direction:
        case problem.Direction.GATHER:
            target[:, moved] = source[:, index[moved]]
        case problem.Direction.SCATTER:
            target[:, index[moved]] = source[:, moved]
        case _:
            assert_never(transfer.direction)


def combine(
    kind: problem.Duplicates, source: NDArray[Any], target: NDArray[Any], groups: Groups
) -> None:
    """Combine the elements of each group; arrays are indexed [batch, element, value].

    Places that no group names keep what they hold. Elements are taken in the order of the groups,
    the first as it is; of equal ones the first stays, and of NaN the last.
    """
    counts = np.diff(groups.starts)
    with np.errstate(all="ignore"):
        for rank in range(int(counts.max(initial=0))):
            some = np.flatnonzero(counts > rank)
            values = source[:, groups.order[groups.starts[some] + rank]]
            places = groups.places[some]
            target[:, places] = _together(kind, target[:, places], values) if rank else values


def product(
    matrix: Sparse, field: NDArray[Any], form: Form, missing: Missing, least: float
) -> NDArray[Any]:
    """Return the product of a matrix with fields [batch, cell], as [batch, row] of their type.

    `least` is the share of its weight that a row needs where missing cells are renormalised; which
    rows are NaN then, `Missing` says.
    """
    rows = np.repeat(np.arange(matrix.rows), np.diff(matrix.starts))
    own = field[:, : matrix.rows].astype(np.float64)
    total, valid = np.zeros((2, field.shape[0], matrix.rows))
    full, gone = np.zeros(matrix.rows), np.zeros(total.shape, bool)
    with np.errstate(all="ignore"):
        values = field[:, matrix.columns].astype(np.float64)
        if form is not Form.PLAIN:
            values = values - own[:, rows]
        terms = matrix.weights * values
        weights = np.broadcast_to(matrix.weights, terms.shape)
        if missing is Missing.RENORMALISE:
            there = ~np.isnan(values)
            terms, weights = np.where(there, terms, 0.0), np.where(there, weights, 0.0)
            for member in range(field.shape[0]):
                gone[member, rows[~there[member]]] = True
        # These add one term after the other, in order.
        np.add.at(full, rows, matrix.weights)
        for member in range(field.shape[0]):
            np.add.at(total[member], rows, terms[member])
            np.add.at(valid[member], rows, weights[member])
        left = np.where(full < 0, -valid, valid)
        enough = (full != 0) & (left > 0) & (left >= least * np.abs(full))
        total = np.where(gone, np.where(enough, total * (full / valid), np.nan), total)
        total[:, matrix.starts[1:] == matrix.starts[:-1]] = np.nan
        return (own + total if form is Form.DEPARTURE else total).astype(field.dtype)


def _together(kind: problem.Duplicates, first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    match kind:
        case problem.Duplicates.SUM:
            return first + second
        case problem.Duplicates.MIN:
            return np.where((second < first) | (second != second), second, first)
        case problem.Duplicates.MAX:
            return np.where((second > first) | (second != second), second, first)
        case problem.Duplicates.LAST | problem.Duplicates.ERROR:
            return second
        case _:
            assert_never(kind)
