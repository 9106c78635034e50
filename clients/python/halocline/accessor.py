"""`dataset.halocline`: jobs from a dataset's own point of view.

Importing this module is what makes the accessor known to xarray::

    import halocline.accessor

    job = dataset.halocline.stencil(program, boundary={"x": "periodic"})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import xarray as xr

from halocline.client import Client

if TYPE_CHECKING:
    from halocline.job import Job
    from halocline.sources import ProgramLike

__all__ = ["HaloclineAccessor"]


class HaloclineAccessor:
    """Submit jobs on the dataset that it belongs to."""

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    def stencil(self, program: ProgramLike, *, client: Client | None = None, **options: Any) -> Job:
        """Submit a stencil program on this dataset; `options` are those of `Client.stencil`."""
        return (client or Client()).stencil(program, self._dataset, **options)


cast("Any", xr).register_dataset_accessor("halocline")(HaloclineAccessor)
