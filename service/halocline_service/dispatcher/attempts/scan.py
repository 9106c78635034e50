"""Files that may be read at all."""

from __future__ import annotations

from pathlib import Path

__all__ = ["scan_file"]


def scan_file(path: Path) -> None:
    """Refuse a file that reads other files. Raises `DatasetError`."""
    from halocline_engine.datasets.stores.hdf5_scan import is_hdf5, refuse_outside

    if is_hdf5(path):
        refuse_outside(path)
