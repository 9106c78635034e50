"""Attributes as files hold them: texts with blanks around, single numbers as arrays or texts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

__all__ = ["names_of", "number_of", "text_of", "whole_of"]


def text_of(attributes: Mapping[Any, Any], name: str) -> str:
    """Return an attribute as text without surrounding blanks; '' where it is missing.

    NetCDF holds texts as characters, bytes, strings or arrays of strings.

    >>> text_of({"mesh": " mesh2d "}, "mesh"), text_of({"mesh": [b"a", "b"]}, "mesh")
    ('mesh2d', 'a b')
    """
    return " ".join(filter(None, map(_text, _elements(attributes.get(name)))))


def number_of(attributes: Mapping[Any, Any], name: str) -> float | None:
    """Return an attribute that is one number; None for anything else.

    >>> number_of({"sphere_radius": np.array([1.0])}, "sphere_radius")
    1.0
    """
    elements = _elements(attributes.get(name))
    try:
        number = float(_text(elements[0])) if len(elements) == 1 else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def whole_of(attributes: Mapping[Any, Any], name: str) -> int | None:
    """Return an attribute that is one whole number; None for anything else.

    >>> [whole_of({"start_index": value}, "start_index") for value in (1, "1", [1.0], "one", 0.5)]
    [1, 1, 1, None, None]
    """
    number = number_of(attributes, name)
    return int(number) if number is not None and number.is_integer() else None


def names_of(dataset: xr.Dataset, attributes: Mapping[Any, Any], name: str) -> list[str]:
    """Return the variables that an attribute lists, separated by blanks.

    Names may have blanks themselves: the longest name of a variable is taken first.
    """
    words = text_of(attributes, name).split()
    names: list[str] = []
    while words:
        widths = range(len(words), 0, -1)
        width = next((n for n in widths if " ".join(words[:n]) in dataset.variables), 1)
        names.append(" ".join(words[:width]))
        words = words[width:]
    return names


def _elements(value: Any) -> list[Any]:
    if value is None:
        return []
    return np.ravel(np.asarray(value, object)).tolist()


def _text(value: object) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return text.strip("\0 \t\r\n")
