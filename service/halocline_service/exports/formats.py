"""Formats of files that are made of a result, by their names in `f=`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["FORMATS", "Format"]


@dataclass(frozen=True, slots=True)
class Format:
    """A format: the suffix of its files, their media type and what people call it."""

    suffix: str
    media_type: str
    title: str


FORMATS: Mapping[str, Format] = {
    "netcdf": Format(".nc", "application/x-netcdf", "NetCDF-4"),
    "csv": Format(".csv", "text/csv; charset=utf-8", "CSV"),
}
