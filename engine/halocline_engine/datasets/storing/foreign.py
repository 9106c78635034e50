"""Files of formats that are not read, each with how xarray or pandas opens it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

__all__ = ["refuse_foreign"]

_GRIB = ("GRIB", "xr.open_dataset({path}, engine='cfgrib')")
_TIFF = ("GeoTIFF", "rioxarray.open_rasterio({path}).to_dataset(name='t')")
_TEXT = ("CSV", "pandas.read_csv({path}, index_col=['y', 'x']).to_xarray()")
_NUMPY = ("NumPy", "xr.Dataset({'t': (('y', 'x'), numpy.load({path}))})")
_PARQUET = ("Parquet", "pandas.read_parquet({path}).set_index(['y', 'x']).to_xarray()")
#: Format and code that opens it, by suffix.
_FORMATS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys((".grib", ".grib1", ".grib2", ".grb", ".grb1", ".grb2", ".gb2"), _GRIB),
    **dict.fromkeys((".tif", ".tiff"), _TIFF),
    **dict.fromkeys((".csv", ".tsv"), _TEXT),
    **dict.fromkeys((".npy", ".npz"), _NUMPY),
    ".parquet": _PARQUET,
}
#: The first bytes of files whose names tell nothing.
_MAGIC: Mapping[bytes, tuple[str, str]] = {
    b"GRIB": _GRIB,
    b"II*\0": _TIFF,
    b"MM\0*": _TIFF,
    b"\x93NUM": _NUMPY,
    b"PAR1": _PARQUET,
}


def refuse_foreign(path: Path, refuse: Callable[..., Exception]) -> None:
    """Raise the error made by `refuse` (sentence, `hint`) for a file of a foreign format."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        known = _MAGIC.get(file.read(4)) or _FORMATS.get(path.suffix.lower())
    if known is not None:
        name, code = known
        raise refuse(
            f"The dataset '{path}' is a {name} file, expected NetCDF or Zarr.",
            hint=f"Pass the opened dataset: {code.replace('{path}', repr(str(path)))}.",
        )
