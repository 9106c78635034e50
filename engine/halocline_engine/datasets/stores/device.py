"""Variables that lie in the memory of a device, as CuPy arrays, and stay there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import xarray as xr
from numpy.typing import NDArray

from halocline_engine.copies import of_device
from halocline_engine.datasets.stores.source import InMemory, Region
from halocline_engine.datasets.untyped import is_on_device, variable_data

__all__ = ["BroughtToDevice", "OnDevice"]


@dataclass(frozen=True, slots=True, eq=False)
class OnDevice:
    """A dataset of this process, of which arrays of a device are handed out as they are."""

    dataset: xr.Dataset

    def read(self, name: str, region: Region) -> NDArray[Any]:
        """Return a region: a view on the device, where the variable is there."""
        if is_on_device(self.dataset, name):
            return variable_data(self.dataset, name)[region].data
        return InMemory(self.dataset).read(name, region)


@dataclass(frozen=True, slots=True, eq=False)
class BroughtToDevice:
    """The same, but `bring` brings what is not on the device there."""

    dataset: xr.Dataset
    bring: Callable[[NDArray[Any]], Any]

    def read(self, name: str, region: Region) -> Any:
        """Return a region on the device: a view, where the variable is there."""
        found = OnDevice(self.dataset).read(name, region)
        return found if of_device(found) else self.bring(found)
