"""Variables as all calls take them: each dimension once, and real numbers where those are meant.

No operation says which of two dimensions of one name it means, and NumPy drops imaginary parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.analysis.named import near
from halocline_engine.datasets.dask_blocks import load_region
from halocline_engine.errors import FieldError

__all__ = [
    "check_distinct",
    "check_unpacked",
    "hint_of_conversion",
    "hint_of_packed",
    "is_distinct",
    "named_variable",
    "real_values",
    "stored_chunks",
    "values_of",
    "variable_of",
]

#: Attributes by which integers stand for other numbers, or for missing ones.
_ATTRIBUTES = ("scale_factor", "add_offset", "_FillValue", "missing_value")


def is_distinct(dataset: xr.Dataset, name: str) -> bool:
    """Whether every dimension of a variable of the dataset stands there once."""
    dims = dataset.variables[name].dims
    return len({*dims}) == len(dims)


def check_distinct(dataset: xr.Dataset, name: str) -> None:
    """Raise `FieldError` for a variable that has a dimension twice."""
    if is_distinct(dataset, name):
        return
    dims = [str(dim) for dim in dataset.variables[name].dims]
    twice = next(dim for dim in dims if dims.count(dim) > 1)
    raise FieldError(
        f"Variable '{name}' must have each dimension once, but '{twice}' stands"
        f" {dims.count(twice)} times in ({', '.join(dims)}).",
        hint=f"Give one of them another name: dataset['{name}'] ="
        f" (({', '.join(map(repr, _renamed(dims)))}), dataset['{name}'].values).",
    )


def variable_of(dataset: xr.Dataset, name: str) -> xr.DataArray:
    """Return a variable that is there; raises `FieldError` where it has a dimension twice."""
    check_distinct(dataset, name)
    return dataset[name]


def named_variable(dataset: xr.Dataset, name: str) -> xr.DataArray:
    """Return a variable; raises `FieldError` where there is none, or it has a dimension twice."""
    names = [str(one) for one in dataset.variables]
    if name not in names:
        raise FieldError(
            f"The dataset has no variable '{name}'.", hint=near(name, names) or "Check the name."
        )
    return variable_of(dataset, name)


def stored_chunks(array: xr.DataArray) -> tuple[int, ...]:
    """Return the sizes of the chunks of a variable in its store; nothing where it has none."""
    encoding: Mapping[str, Any] = array.encoding
    chunks = tuple(encoding.get("chunks") or encoding.get("chunksizes") or ())
    return chunks if len(chunks) == array.ndim else ()


def values_of(array: xr.DataArray) -> NDArray[Any]:
    """Return all values; raises `DatasetError` for a block of Dask that is not as declared."""
    if array.chunks is None:
        return np.asarray(array.values)
    data = cast("Any", array).data
    return load_region(str(array.name), data, (slice(None),) * array.ndim)


def _packing_of(variable: object) -> list[str]:
    """Return the packing attributes that an integer variable still has."""
    kind: str = getattr(getattr(variable, "dtype", None), "kind", "")
    attributes: Mapping[Any, Any] = getattr(variable, "attrs", {})
    return [name for name in _ATTRIBUTES if kind in tuple("iu") and name in attributes]


def hint_of_conversion(variable: object, otherwise: str = "Convert it with astype.") -> str:
    """Return how a variable gets another type: decoded where it is packed.

    >>> hint_of_conversion(xr.Variable((), np.int16(1), {"scale_factor": 0.1}))
    "Its values are packed by 'scale_factor': decode them with xr.decode_cf(dataset), or open the \
dataset with mask_and_scale=True."
    >>> hint_of_conversion(xr.Variable((), np.int16(1)))
    'Convert it with astype.'
    """
    names = [f"'{name}'" for name in _packing_of(variable)]
    if not names:
        return otherwise
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return (
        f"Its values are packed by {listed}: decode them with xr.decode_cf(dataset), or open the"
        " dataset with mask_and_scale=True."
    )


def hint_of_packed(variables: Iterable[object]) -> str:
    """Return how the first packed variable of several is decoded, or "" where none is packed."""
    return next((hint_of_conversion(each) for each in variables if _packing_of(each)), "")


def check_unpacked(array: xr.DataArray) -> None:
    """Raise `FieldError` for integers that stand for other numbers by their attributes."""
    if _packing_of(array):
        raise FieldError(
            f"Variable '{array.name}' must hold the numbers themselves, got packed values of the"
            f" type '{array.dtype}'.",
            hint=hint_of_conversion(array),
        )


def real_values(array: xr.DataArray) -> NDArray[np.float64]:
    """Return the values of a variable as doubles; raises `FieldError` unless they are numbers."""
    if array.dtype.kind not in "iuf":
        hint = "Take its real or imaginary part." if array.dtype.kind == "c" else ""
        raise FieldError(
            f"Variable '{array.name}' must hold real numbers, got the type '{array.dtype}'.",
            hint=hint or "Convert it with astype('float64').",
        )
    check_unpacked(array)
    return np.asarray(values_of(array), np.float64)


def _renamed(dims: list[str]) -> list[str]:
    """Return names of which none is there twice.

    >>> _renamed(["x", "y", "x"])
    ['x', 'y', 'x_2']
    """
    return [
        f"{dim}_{dims[: at + 1].count(dim)}" if dim in dims[:at] else dim
        for at, dim in enumerate(dims)
    ]
