"""The store through which Zarr reads a folder: of regular files only."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from zarr.storage import LocalStore

from halocline_engine.datasets.regular import refuse_special

__all__ = ["RegularFiles"]


class RegularFiles(LocalStore):
    """A Zarr store in a folder, for reading."""

    def __init__(self, root: str | Path) -> None:
        super().__init__(root, read_only=True)

    def _refuse(self, key: str) -> None:
        with suppress(FileNotFoundError, NotADirectoryError):  # an object that is not there
            refuse_special(self.root / key)

    async def get(self, key: str, *arguments: Any, **options: Any) -> Any:
        """Return an object, or None where there is none."""
        self._refuse(key)
        return await super().get(key, *arguments, **options)

    def get_sync(self, key: str, *arguments: Any, **options: Any) -> Any:
        """Return an object, or None where there is none."""
        self._refuse(key)
        return super().get_sync(key, *arguments, **options)

    async def get_partial_values(self, prototype: Any, key_ranges: Iterable[Any]) -> list[Any]:
        """Return parts of objects."""
        ranges = list(key_ranges)
        for key, _ in ranges:
            self._refuse(key)
        return await super().get_partial_values(prototype, ranges)
