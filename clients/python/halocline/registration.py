"""Registers `dataset.halocline` with xarray, without importing xarray.

Importing xarray takes longer than the rest of the client. If it is imported later, the accessors
are registered right after.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, cast

__all__ = ["register", "register_when_imported"]

_XARRAY = "xarray"


def register_when_imported() -> None:
    """Register the accessors now if xarray is imported, and otherwise once it is."""
    if hasattr(sys.modules.get(_XARRAY), "register_dataset_accessor"):
        register()
    elif not any(isinstance(each, _Waiting) for each in sys.meta_path):
        sys.meta_path.insert(0, _Waiting())


def register() -> None:
    """Register the accessors of datasets and arrays."""
    from halocline.accessor import HaloclineAccessor

    xarray = cast("Any", sys.modules[_XARRAY])
    for kind, accept in (
        (xarray.Dataset, xarray.register_dataset_accessor),
        (xarray.DataArray, xarray.register_dataarray_accessor),
    ):
        if getattr(kind, "halocline", None) is not HaloclineAccessor:
            accept("halocline")(HaloclineAccessor)


class _Waiting(MetaPathFinder):
    """Finder for xarray alone; it delegates to the other finders and removes itself."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Return the spec of xarray, with a loader that registers the accessors."""
        if fullname != _XARRAY:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Registering(spec.loader)
        return spec


class _Registering(Loader):
    """Loader that delegates to another one, and then registers the accessors."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        """Return another attribute of the wrapped loader, such as the files of the package."""
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create the module with the wrapped loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, and register the accessors."""
        self._loader.exec_module(module)
        register()
