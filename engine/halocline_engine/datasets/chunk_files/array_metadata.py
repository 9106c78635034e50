"""Metadata of Zarr arrays whose files are read without Zarr.

That is done where a file holds one chunk of numbers in this machine's order, the last dimension
fastest, perhaps compressed, and xarray changes no value when it reads them.
"""

from __future__ import annotations

import base64
import json
import math
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from halocline_engine.datasets.regular import open_regular

__all__ = ["About", "Codec", "about_array"]

#: Attributes that make xarray change values when it reads them.
_ENCODED = ("missing_value", "scale_factor", "add_offset", "_Unsigned")
_FILL = "_FillValue"


@dataclass(frozen=True, slots=True)
class Codec:
    """A codec of chunks: its name, and its settings as numcodecs has them."""

    name: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class About:
    """Sizes, those of a chunk, how its file is called, and what its bytes went through, in order.

    `key` is how the name of a file begins, and what is between the numbers of a chunk.
    """

    sizes: tuple[int, ...]
    chunks: tuple[int, ...]
    key: tuple[str, str]
    codecs: tuple[Codec, ...]

    def file(self, index: tuple[int, ...]) -> str:
        """Return how the file of a chunk is called.

        >>> About((9, 9), (3, 3), ("c/", "/"), ()).file((2, 1))
        'c/2/1'
        """
        first, separator = self.key
        return first + separator.join(map(str, index))


def about_array(folder: Path, dtype: str) -> About | None:
    """Return what is said of an array of a type; None where it is anything else."""
    kind = np.dtype(dtype)
    found = _of_third(folder, kind) or _of_second(folder, kind)
    return None if found is None or _is_encoded(found[1], kind) else found[0]


def _of_third(folder: Path, dtype: np.dtype[Any]) -> tuple[About, Mapping[str, Any]] | None:
    """Return what is said of an array of the third format, and its attributes."""
    about = _json(folder / "zarr.json")
    grid: Any = about.get("chunk_grid") or {}
    keys: Any = about.get("chunk_key_encoding") or {}
    plain: bool = (
        about.get("node_type") == "array"
        and about.get("data_type") == dtype.name
        and not about.get("storage_transformers")
        and grid.get("name") == "regular"
        and keys.get("name") == "default"
    )
    codecs = _codecs(about.get("codecs"), dtype) if plain else None
    if codecs is None:
        return None
    sizes: list[int] = about["shape"]
    chunks: list[int] = grid["configuration"]["chunk_shape"]
    configured: Any = keys.get("configuration") or {}
    separator: str = configured.get("separator", "/")
    first = f"c{separator}" if sizes else "c"
    attributes: Mapping[str, Any] = about.get("attributes") or {}
    return About(tuple(sizes), tuple(chunks), (first, separator), codecs), attributes


def _of_second(folder: Path, dtype: np.dtype[Any]) -> tuple[About, Mapping[str, Any]] | None:
    """Return what is said of an array of the second format, and its attributes."""
    about = _json(folder / ".zarray")
    plain: bool = (
        bool(about.get("shape"))
        and about.get("dtype") == dtype.str
        and not about.get("filters")
        and about.get("order") == "C"
    )
    if not plain:
        return None
    compressor: Any = about.get("compressor")
    settings = {} if compressor is None else dict(compressor)
    codecs = () if compressor is None else (Codec(str(settings.pop("id", "")), settings),)
    key = ("", str(about.get("dimension_separator") or "."))
    # Here xarray takes the value of cells that were never written for that of missing ones.
    fill: Any = about.get("fill_value")
    attributes = _json(folder / ".zattrs") | ({} if fill is None else {_FILL: fill})
    return About(tuple(about["shape"]), tuple(about["chunks"]), key, codecs), attributes


def _codecs(given: Any, dtype: np.dtype[Any]) -> tuple[Codec, ...] | None:
    """Return what follows after the bytes of an array in memory; None where those are others."""
    if not isinstance(given, list) or not given:
        return None
    found = [_codec(one) for one in cast("list[Any]", given)]
    order: str = found[0].settings.get("endian", sys.byteorder)
    if found[0].name != "bytes" or (dtype.itemsize > 1 and order != sys.byteorder):
        return None
    return tuple(found[1:])


def _codec(given: Any) -> Codec:
    if not isinstance(given, dict):
        # A name alone means no settings.
        return Codec(str(given).removeprefix("numcodecs."), {})
    about = cast("dict[str, Any]", given)
    settings: Any = about.get("configuration") or {}
    return Codec(str(about.get("name")).removeprefix("numcodecs."), dict(settings))


def _json(file: Path) -> dict[str, Any]:
    """Return what a file says; nothing where it is not there, or no object."""
    try:
        with open_regular(file) as opened:
            found: Any = json.loads(opened.read())
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _is_encoded(attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> bool:
    """Whether xarray changes values when it reads them; NaN stays NaN where that is missing."""
    if any(key in attributes for key in _ENCODED):
        return True
    return _FILL in attributes and not (dtype.kind == "f" and _is_nan(attributes[_FILL]))


def _is_nan(fill: Any) -> bool:
    """Whether an attribute is NaN: as a number, by its name, or as the bytes of a float64."""
    if not isinstance(fill, str):
        return bool(fill != fill)
    try:
        return fill == "NaN" or math.isnan(*struct.unpack("<d", base64.standard_b64decode(fill)))
    except (ValueError, struct.error):
        return False
