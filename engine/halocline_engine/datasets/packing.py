"""Integers that stand for other numbers by their attributes, as files of NetCDF have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["hint_of_conversion", "hint_of_packed", "packing_of"]

#: Attributes by which integers stand for other numbers, or for missing ones.
_ATTRIBUTES = ("scale_factor", "add_offset", "_FillValue", "missing_value")


def packing_of(variable: object) -> list[str]:
    """Return the names of the attributes by which a variable of integers is still packed."""
    kind: str = getattr(getattr(variable, "dtype", None), "kind", "")
    attributes: Mapping[Any, Any] = getattr(variable, "attrs", {})
    return [name for name in _ATTRIBUTES if kind in tuple("iu") and name in attributes]


def hint_of_conversion(variable: object, otherwise: str = "Convert it with astype.") -> str:
    """Return how a variable gets another type: decoded where it is packed.

    >>> import xarray as xr
    >>> hint_of_conversion(xr.Variable((), np.int16(1), {"scale_factor": 0.1}))
    "Its values are packed by 'scale_factor': decode them with xr.decode_cf(dataset), or open the \
dataset with mask_and_scale=True."
    >>> hint_of_conversion(xr.Variable((), np.int16(1)))
    'Convert it with astype.'
    """
    names = [f"'{name}'" for name in packing_of(variable)]
    if not names:
        return otherwise
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return (
        f"Its values are packed by {listed}: decode them with xr.decode_cf(dataset), or open the"
        " dataset with mask_and_scale=True."
    )


def hint_of_packed(variables: Iterable[object]) -> str:
    """Return how the first packed variable of several is decoded, or "" where none is packed."""
    return next((hint_of_conversion(each) for each in variables if packing_of(each)), "")
