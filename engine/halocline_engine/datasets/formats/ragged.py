"""CF contiguous ragged arrays: rows of different lengths, one behind the other.

A count variable says how long each row is, and by its attribute `sample_dimension` along which
dimension the rows lie (CF Conventions 9.3.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.arguments import text
from halocline_engine.datasets.attributes import text_of
from halocline_engine.datasets.variables import values_of, variable_of
from halocline_engine.errors import FieldError
from halocline_engine.kernels.whole import whole_numbers

__all__ = ["CELL", "NODE", "Ragged", "ragged_of", "row_size_attributes"]

#: The dimensions that readers give to cells and to their nodes.
CELL = "cell"
NODE = "node"


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """The rows along `samples` are those of `rows`; `sizes` says how long each is."""

    rows: str
    samples: str
    sizes: NDArray[np.int64]

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Position of the first element of each row, and at last the end of the last row."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.sizes)])


def ragged_of(dataset: xr.Dataset, row_size: str) -> Ragged:
    """Return how a dataset's rows lie; reads the count variable.

    Raises `FieldError` where the variable is no count of what its sample dimension has.
    """
    if text("row_size", row_size, "the name of a variable") not in dataset.variables:
        raise FieldError(
            f"There is no variable '{row_size}' that says how many nodes each row has.",
            hint="A contiguous ragged array has one, with the attribute 'sample_dimension'.",
        )
    counts = variable_of(dataset, row_size)
    along = text_of(counts.attrs, "sample_dimension")
    if counts.ndim != 1 or counts.dtype.kind not in "iu":
        raise FieldError(
            f"Count variable '{row_size}' must have one dimension and whole numbers, got"
            f" {counts.ndim} dimensions of {counts.dtype.name}."
        )
    if along not in dataset.sizes:
        raise FieldError(
            f"Count variable '{row_size}' must name the dimension that its rows lie along by the"
            f" attribute 'sample_dimension', got '{along}'."
        )
    sizes, held = whole_numbers(values_of(counts)), int(dataset.sizes[along])
    wrong = np.flatnonzero((sizes < 0) | (sizes > held))
    if wrong.size:
        row = int(wrong[0])
        raise FieldError(
            f"Row {row} of '{row_size}', counted from 0, must have from 0 to {held} elements, got"
            f" {int(counts.values[row])}.",
            hint=f"A row has no more of them than its sample dimension '{along}'.",
        )
    total = int(sizes.sum())
    if total != held:
        raise FieldError(
            f"The rows of '{row_size}' have {total} elements together, but dimension '{along}' has"
            f" {held}.",
            hint="The counts of a contiguous ragged array add up to its sample dimension.",
        )
    return Ragged(str(counts.dims[0]), along, sizes)


def row_size_attributes() -> dict[str, Any]:
    """Return the attributes of a count variable of nodes."""
    return {"long_name": "nodes of a cell", "sample_dimension": NODE}
