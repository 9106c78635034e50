"""Variables that lie in the memory of a device, as CuPy arrays, and stay there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import xarray as xr
from numpy.typing import NDArray

from halocline_engine.datasets.stores.source import InMemory, Region
from halocline_engine.datasets.untyped import is_on_device, variable_data

__all__ = ["OnDevice"]


@dataclass(frozen=True, slots=True, eq=False)
class OnDevice:
    """A dataset of this process, of which arrays of a device are handed out as they are."""

    dataset: xr.Dataset

    def read(self, name: str, region: Region) -> NDArray[Any]:
        """Return a region: a view on the device, where the variable is there."""
        if is_on_device(self.dataset, name):
            return variable_data(self.dataset, name)[region].data
        return InMemory(self.dataset).read(name, region)
