"""Addresses of this service's own datasets, which name what is here and need no download."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

__all__ = ["localised"]

_ID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_PATHS = {
    "job": re.compile(rf"/jobs/({_ID})(?:/results(?:/result(?:\.zarr/?)?)?)?"),
    "upload": re.compile(rf"/uploads/({_ID})(?:\.zarr/?|\.nc)?"),
}


def localised(inputs: Mapping[str, Any], base: str) -> dict[str, Any]:
    """Return inputs with references in place of addresses below `base`, the API's URL.

    >>> job = "00000000-0000-7000-8000-000000000001"
    >>> inputs = {"dataset": f"http://a/jobs/{job}/results/result.zarr", "name": "http://a/jobs/1"}
    >>> localised(inputs, "http://a") == {**inputs, "dataset": f"job:{job}"}
    True
    """
    return {name: _value(value, base) for name, value in inputs.items()}


def _value(given: Any, base: str) -> Any:
    match given:
        case str() if given.startswith(f"{base}/"):
            rest = given.removeprefix(base)
            found = ((scheme, form.fullmatch(rest)) for scheme, form in _PATHS.items())
            return next((f"{scheme}:{match[1]}" for scheme, match in found if match), given)
        case dict():
            return localised(cast("dict[str, Any]", given), base)
        case list():
            return [_value(one, base) for one in cast("list[Any]", given)]
        case _:
            return given
