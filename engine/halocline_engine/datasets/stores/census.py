"""Number and lengths of chunks, by arithmetic: a small file may declare any number."""

from __future__ import annotations

import math
from typing import Any, cast

import xarray as xr

from halocline_engine.errors import CapacityError

__all__ = ["MOST_CHUNKS", "chunk_lengths", "refuse_many_chunks"]

#: Chunks that one variable may have: a plan looks at each that it reads.
MOST_CHUNKS = 10_000_000
_MOST_BYTES = 2**63 - 1


def refuse_many_chunks(dataset: xr.Dataset) -> None:
    """Refuse variables of too many chunks, or larger than any file. Raises `CapacityError`."""
    for name in dataset.variables:
        variable: Any = dataset.variables[name]
        size = math.prod(variable.shape) * int(variable.dtype.itemsize)
        if size > _MOST_BYTES:
            raise CapacityError(
                f"Variable '{name}' declares {size} bytes, but no store holds more than "
                f"{_MOST_BYTES}.",
                hint="Write it with the shape that it has.",
                needed=size,
                available=_MOST_BYTES,
            )
        lengths = chunk_lengths(variable)
        count = math.prod(-(-n // step) for n, step in zip(variable.shape, lengths, strict=True))
        if count > MOST_CHUNKS:
            raise CapacityError(
                f"Variable '{name}' has {count} chunks, but may have {MOST_CHUNKS}.",
                hint="Write it with larger chunks.",
            )


def chunk_lengths(variable: Any) -> tuple[int, ...]:
    """Return the length of a chunk along each dimension; all of one that is not chunked."""
    given = variable.encoding.get("preferred_chunks")
    steps = cast("dict[Any, Any]", given) if isinstance(given, dict) else {}
    return tuple(_step(steps.get(dim), size) for dim, size in variable.sizes.items())


def _step(step: object, size: int) -> int:
    """Give the length of chunks along a dimension; uneven ones are listed by their reader."""
    return step if isinstance(step, int) and step > 0 else max(1, size)
