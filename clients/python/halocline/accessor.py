"""`dataset.halocline`: jobs from a dataset's own point of view.

Importing this module is what makes the accessor known to xarray::

    import halocline.accessor

    job = dataset.halocline.stencil(program, boundary={"x": "periodic"})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import xarray as xr

from halocline.client import Client
from halocline.errors import ArgumentError

if TYPE_CHECKING:
    from halocline.job import Job
    from halocline.transfer.uploads import DatasetLike
    from halocline_engine.language.python.sources import ProgramLike

__all__ = ["HaloclineAccessor"]


class HaloclineAccessor:
    """Submit jobs on the dataset that it belongs to."""

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    def stencil(self, program: ProgramLike, *, client: Client | None = None, **options: Any) -> Job:
        """Submit a stencil program on this dataset; `options` are those of `Client.stencil`."""
        return _client(client).stencil(program, self._dataset, **options)

    def column(self, expression: str, *, client: Client | None = None, **options: Any) -> Job:
        """Submit operators on staggered columns; `options` are those of `Client.column`."""
        return _client(client).column(expression, self._dataset, **options)

    def tridiagonal(self, *, client: Client | None = None, **options: Any) -> Job:
        """Submit tridiagonal systems; `options` are those of `Client.tridiagonal`."""
        return _client(client).tridiagonal(self._dataset, **options)

    def pentadiagonal(self, *, client: Client | None = None, **options: Any) -> Job:
        """Submit pentadiagonal systems; `options` are those of `Client.pentadiagonal`."""
        return _client(client).pentadiagonal(self._dataset, **options)

    def factor(self, *, client: Client | None = None, **options: Any) -> Job:
        """Submit an elimination; `options` are those of `Client.factor`."""
        return _client(client).factor(self._dataset, **options)

    def solve(self, factors: DatasetLike, *, client: Client | None = None, **options: Any) -> Job:
        """Submit systems with factors; `factors` and `options` are those of `Client.solve`."""
        return _client(client).solve(self._dataset, factors, **options)

    def tree(self, *, client: Client | None = None, **options: Any) -> Job:
        """Submit systems on trees; `options` are those of `Client.tree`."""
        return _client(client).tree(self._dataset, **options)

    def gather(self, *, client: Client | None = None, **options: Any) -> Job:
        """Submit a gather; `options` are those of `Client.gather`."""
        return _client(client).gather(self._dataset, **options)

    def scatter(self, *, client: Client | None = None, **options: Any) -> Job:
        """Submit a scatter; `options` are those of `Client.scatter`."""
        return _client(client).scatter(self._dataset, **options)

    def regrid(self, weights: DatasetLike, *, client: Client | None = None, **options: Any) -> Job:
        """Submit a regridding; `weights` and `options` are those of `Client.regrid`."""
        return _client(client).regrid(self._dataset, weights, **options)

    def neighbours(
        self, mesh: DatasetLike, operation: str, *, client: Client | None = None, **options: Any
    ) -> Job:
        """Submit an operator on a mesh; the rest is that of `Client.neighbours`."""
        return _client(client).neighbours(self._dataset, mesh, operation, **options)

    def matmul(self, *, client: Client | None = None, **options: Any) -> Job:
        """Submit a matrix product; `options` are those of `Client.matmul`."""
        return _client(client).matmul(self._dataset, **options)


def _client(given: Client | None) -> Client:
    if given is not None and not isinstance(cast("object", given), Client):
        raise ArgumentError(
            f"Argument 'client' must be a Client, got '{type(given).__name__}'.",
            hint="Leave it out, or write client=halocline.Client(...).",
        )
    return Client() if given is None else given


cast("Any", xr).register_dataset_accessor("halocline")(HaloclineAccessor)
