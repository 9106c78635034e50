"""`dataset.halocline`: jobs from a dataset's own point of view.

Importing `halocline` makes it known to xarray, for datasets and arrays::

    import halocline

    job = dataset.halocline.stencil(program, boundary={"x": "periodic"})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from halocline.accessing.parts import (
    Accessor,
    BandsAccessor,
    StencilsAccessor,
    SystemsAccessor,
    client_or_default,
)

if TYPE_CHECKING:
    from halocline.client import Client
    from halocline.job import Job
    from halocline.transfer.uploads import DatasetLike

__all__ = ["HaloclineAccessor"]


class _Indices(Accessor):
    """Gathers and scatters."""

    def gather(
        self,
        *,
        client: Client | None = None,
        source: str,
        index: str,
        dim: str,
        name: str = "gathered",
        out_of_range: str = "error",
        negative: str = "out_of_range",
        fill: float | None = None,
        target: str = "auto",
        mode: str = "auto",
        chunks: Mapping[str, int] | None = None,
        dry_run: bool = False,
        job_name: str | None = None,
        labels: Sequence[str] = (),
    ) -> Job:
        """Submit a gather from this dataset; see `Client.gather`."""
        return client_or_default(client).gather(
            self._dataset,
            source=source,
            index=index,
            dim=dim,
            name=name,
            out_of_range=out_of_range,
            negative=negative,
            fill=fill,
            target=target,
            mode=mode,
            chunks=chunks,
            dry_run=dry_run,
            job_name=job_name,
            labels=labels,
        )

    def scatter(
        self,
        *,
        client: Client | None = None,
        source: str,
        index: str,
        dim: str,
        size: int,
        name: str = "scattered",
        duplicates: str = "error",
        out_of_range: str = "error",
        negative: str = "out_of_range",
        fill: float | None = None,
        target: str = "auto",
        mode: str = "auto",
        chunks: Mapping[str, int] | None = None,
        dry_run: bool = False,
        job_name: str | None = None,
        labels: Sequence[str] = (),
    ) -> Job:
        """Submit a scatter from this dataset; see `Client.scatter`."""
        return client_or_default(client).scatter(
            self._dataset,
            source=source,
            index=index,
            dim=dim,
            size=size,
            name=name,
            duplicates=duplicates,
            out_of_range=out_of_range,
            negative=negative,
            fill=fill,
            target=target,
            mode=mode,
            chunks=chunks,
            dry_run=dry_run,
            job_name=job_name,
            labels=labels,
        )


class _Products(Accessor):
    """Weights, meshes and products."""

    def regrid(
        self,
        weights: DatasetLike,
        *,
        client: Client | None = None,
        variables: Sequence[str] | None = None,
        missing: str = "renormalise",
        least: float = 0.0,
        dims: Sequence[str] | None = None,
        target_dims: Sequence[str] | None = None,
        target: str = "auto",
        mode: str = "auto",
        chunks: Mapping[str, int] | None = None,
        dry_run: bool = False,
        job_name: str | None = None,
        labels: Sequence[str] = (),
    ) -> Job:
        """Submit the regridding of this dataset; see `Client.regrid`."""
        return client_or_default(client).regrid(
            self._dataset,
            weights,
            variables=variables,
            missing=missing,
            least=least,
            dims=dims,
            target_dims=target_dims,
            target=target,
            mode=mode,
            chunks=chunks,
            dry_run=dry_run,
            job_name=job_name,
            labels=labels,
        )

    def neighbours(
        self,
        mesh: DatasetLike,
        operation: str,
        *,
        client: Client | None = None,
        variables: Sequence[str] | None = None,
        location: str | None = None,
        dim: str | None = None,
        radius: float | None = None,
        target: str = "auto",
        mode: str = "auto",
        chunks: Mapping[str, int] | None = None,
        dry_run: bool = False,
        job_name: str | None = None,
        labels: Sequence[str] = (),
    ) -> Job:
        """Submit an operator on a mesh for this dataset; see `Client.neighbours`."""
        return client_or_default(client).neighbours(
            self._dataset,
            mesh,
            operation,
            variables=variables,
            location=location,
            dim=dim,
            radius=radius,
            target=target,
            mode=mode,
            chunks=chunks,
            dry_run=dry_run,
            job_name=job_name,
            labels=labels,
        )

    def matmul(
        self,
        *,
        client: Client | None = None,
        left: str,
        right: str,
        dim: str,
        name: str = "product",
        target: str = "auto",
        mode: str = "auto",
        chunks: Mapping[str, int] | None = None,
        dry_run: bool = False,
        job_name: str | None = None,
        labels: Sequence[str] = (),
    ) -> Job:
        """Submit a matrix product of this dataset; see `Client.matmul`."""
        return client_or_default(client).matmul(
            self._dataset,
            left=left,
            right=right,
            dim=dim,
            name=name,
            target=target,
            mode=mode,
            chunks=chunks,
            dry_run=dry_run,
            job_name=job_name,
            labels=labels,
        )


class HaloclineAccessor(StencilsAccessor, BandsAccessor, SystemsAccessor, _Indices, _Products):
    """Submit jobs on the dataset or array that it belongs to.

    Each method has the arguments of the client's method of the same name, but the dataset, and
    `client`; by default the service is that of the environment or the settings file.
    """
