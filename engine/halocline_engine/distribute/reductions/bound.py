"""Diagnostics as they are for a dataset: dimensions, expressions, labels and results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.analysis.named import near
from halocline_engine.datasets.diagnostics import Diagnostic, Kind
from halocline_engine.datasets.variables import named_variable, values_of
from halocline_engine.distribute.reductions.expressions import (
    Expression,
    ordered_dims,
    read_expression,
)
from halocline_engine.errors import ArgumentError, CapacityError, FieldError
from halocline_engine.kernels.reduce.states import (
    COLUMNS,
    EXTREME_COLUMNS,
    States,
    carrier,
    new_extremes,
)

__all__ = ["HELD", "MOST_LABELS", "Reduction", "bind", "labels_of"]

#: Labels of a variable, at most: each has a state.
MOST_LABELS = 100_000
#: Arrays of eight bytes of a block beside its variables: values, weights, products, groups, rows.
HELD = 6
#: Bytes of labels that are read at once.
_PIECE = 64 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """A diagnostic of a dataset; `dims` are those of its expressions and labels.

    `reduced` are the dimensions that go, in their order, `sizes` the sizes of all. `labels` are
    the values of the variable `by`, in rising order.
    """

    asked: Diagnostic
    value: Expression
    weights: Expression | None
    dims: tuple[str, ...]
    reduced: tuple[str, ...]
    sizes: Mapping[str, int]
    labels: NDArray[Any] | None = None

    @property
    def name(self) -> str:
        """Name of the result."""
        return self.asked.name

    @property
    def kept(self) -> tuple[str, ...]:
        """Dimensions that stay."""
        return tuple(dim for dim in self.dims if dim not in self.reduced)

    @property
    def variables(self) -> tuple[str, ...]:
        """Variables that are read."""
        weights = () if self.weights is None else self.weights.variables
        by = () if self.asked.by is None else (self.asked.by,)
        return tuple(dict.fromkeys((*self.value.variables, *weights, *by)))

    @property
    def group_dims(self) -> dict[str, int]:
        """Dimensions of labels and bins, which follow the kept ones."""
        made: dict[str, int] = {}
        if self.asked.by is not None:
            made[self.asked.by] = 0 if self.labels is None else len(self.labels)
        if self.asked.bins:
            made[f"{self.name}_bin"] = len(self.asked.bins) - 1
        return made

    @property
    def groups(self) -> int:
        """Number of groups that a cell may belong to."""
        return math.prod(self.group_dims.values())

    @property
    def columns(self) -> int:
        """Integers of a state."""
        match self.asked.kind:
            case Kind.MIN | Kind.MAX:
                return EXTREME_COLUMNS
            case Kind.MEAN:
                return COLUMNS if self.weights is None else 2 * COLUMNS
            case Kind.COUNT:
                return 1
            case Kind.HISTOGRAM:
                return 1 if self.weights is None else COLUMNS
            case Kind.SUM | Kind.NORM:
                return COLUMNS

    def new_states(self) -> States:
        """Return the states of nothing, of all groups."""
        rows = math.prod(self.sizes[dim] for dim in self.kept) * self.groups
        if self.asked.kind.is_extreme:
            return new_extremes(rows)
        return np.zeros((rows, self.columns), np.int64)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the result: sums of whole numbers, and extremes, are of the values' own kind."""
        own, kind = self.value.dtype, self.asked.kind
        if kind.is_extreme:
            return own
        counts = kind is Kind.COUNT or (kind is Kind.HISTOGRAM and self.weights is None)
        if counts or (kind is Kind.SUM and self.weights is None and own.kind != "f"):
            return carrier(np.dtype(np.int64))
        return np.dtype(np.float64)


def bind(asked: Diagnostic, dataset: xr.Dataset, place: str) -> Reduction:
    """Return a diagnostic for a dataset, without its labels.

    Raises `ProgramError`, `FieldError` or `ArgumentError`, before any values are read.
    """
    value = read_expression(asked.value, dataset)
    weights = None if asked.weights is None else read_expression(asked.weights, dataset)
    named = [value.dims, () if weights is None else weights.dims]
    if asked.by is not None:
        label = named_variable(dataset, asked.by)
        if label.dtype.kind not in "biuf":
            raise FieldError(
                f"Variable '{asked.by}' has labels of type '{label.dtype}', expected numbers.",
                hint="Number the labels, for example with numpy.unique(..., return_inverse=True).",
            )
        named.append(tuple(str(dim) for dim in label.dims))
    known = {str(dim): int(size) for dim, size in dataset.sizes.items()}
    dims = ordered_dims(named)
    reduced = dims if asked.dims is None else asked.dims
    for dim in reduced:
        if dim not in dims:
            raise ArgumentError(
                f"Argument '{place}['dims']' must name dimensions of '{asked.value}', got '{dim}'.",
                hint=near(dim, dims),
            )
    reduced = tuple(dim for dim in dims if dim in reduced)
    sizes = {dim: known[dim] for dim in dims}
    return Reduction(asked, value, weights, dims, reduced, sizes)


def labels_of(name: str, dataset: xr.Dataset) -> NDArray[Any]:
    """Return the different values of a variable but NaN, in rising order.

    Raises `CapacityError` where they are too many.
    """
    found: NDArray[Any] = np.empty(0, dataset[name].dtype)
    for piece in _pieces(dataset[name]):
        values = np.unique(values_of(piece))
        found = np.union1d(found, values[values == values])
        if len(found) > MOST_LABELS:
            raise CapacityError(
                f"Variable '{name}' has more than {MOST_LABELS} different labels.",
                hint="Use a variable with fewer of them.",
                needed=len(found),
                available=MOST_LABELS,
            )
    return found


def _pieces(array: xr.DataArray) -> Iterator[xr.DataArray]:
    if not array.ndim or array.nbytes <= _PIECE:
        yield array
        return
    dim, size = array.dims[0], array.shape[0]
    step = max(1, size * _PIECE // array.nbytes)
    for start in range(0, size, step):
        yield cast("Any", array).isel({dim: slice(start, start + step)})
