"""Systems of equations and programs from a dataset's own point of view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from halocline.client import Client
from halocline.errors import ArgumentError

if TYPE_CHECKING:
    import xarray as xr

    from halocline.job import Job
    from halocline.processes.stencils import Boundary, Number
    from halocline.transfer.uploads import DatasetLike
    from halocline_engine.language.python.sources import ProgramLike

__all__ = ["Accessor", "BandsAccessor", "StencilsAccessor", "SystemsAccessor", "client_or_default"]


class Accessor:
    """A dataset or an array, of which jobs are submitted."""

    def __init__(self, dataset: xr.Dataset | xr.DataArray) -> None:
        self._dataset = dataset


def client_or_default(given: Client | None) -> Client:
    """Return a client, or one of the service that environment or settings file name."""
    if given is not None and not isinstance(cast("object", given), Client):
        raise ArgumentError(
            f"Argument 'client' must be a Client, got '{type(given).__name__}'.",
            hint="Leave it out, or write client=halocline.Client(...).",
        )
    return Client() if given is None else given


class StencilsAccessor(Accessor):
    """Stencil programs and operators on columns."""

    def stencil(
        self,
        program: ProgramLike,
        *,
        client: Client | None = None,
        fields: Mapping[str, str] | None = None,
        scalars: Mapping[str, Number] | None = None,
        externals: Mapping[str, Any] | None = None,
        dtypes: Mapping[str, Any] | None = None,
        name: str | None = None,
        literal_precision: int | Mapping[str, int] | None = None,
        axes: Mapping[str, str] | None = None,
        boundary: Mapping[str, Boundary] | None = None,
        steps: int = 1,
        feedback: Mapping[str, str] | None = None,
        until: Mapping[str, Any] | None = None,
        every: int | None = None,
        target: str = "auto",
        mode: str = "auto",
        chunks: Mapping[str, int] | None = None,
        order: str | None = None,
        dry_run: bool = False,
        job_name: str | None = None,
        labels: Sequence[str] = (),
    ) -> Job:
        """Submit a stencil program on this dataset; see `Client.stencil`."""
        return client_or_default(client).stencil(
            program,
            self._dataset,
            fields=fields,
            scalars=scalars,
            externals=externals,
            dtypes=dtypes,
            name=name,
            literal_precision=literal_precision,
            axes=axes,
            boundary=boundary,
            steps=steps,
            feedback=feedback,
            until=until,
            every=every,
            target=target,
            mode=mode,
            chunks=chunks,
            order=order,
            dry_run=dry_run,
            job_name=job_name,
            labels=labels,
        )

    def column(
        self,
        expression: str,
        *,
        client: Client | None = None,
        fields: Mapping[str, str] | None = None,
        scalars: Mapping[str, Number] | None = None,
        axis: str | Mapping[str, str] | None = None,
        heights: str | None = None,
        boundary: Mapping[str, str] | None = None,
        dtype: str | None = None,
        name: str = "result",
        target: str = "auto",
        mode: str = "auto",
        chunks: Mapping[str, int] | None = None,
        dry_run: bool = False,
        job_name: str | None = None,
        labels: Sequence[str] = (),
    ) -> Job:
        """Submit operators on staggered columns of this dataset; see `Client.column`."""
        return client_or_default(client).column(
            expression,
            self._dataset,
            fields=fields,
            scalars=scalars,
            axis=axis,
            heights=heights,
            boundary=boundary,
            dtype=dtype,
            name=name,
            target=target,
            mode=mode,
            chunks=chunks,
            dry_run=dry_run,
            job_name=job_name,
            labels=labels,
        )


class BandsAccessor(Accessor):
    """Systems with bands."""

    def tridiagonal(
        self,
        *,
        client: Client | None = None,
        lower: str,
        diagonal: str,
        upper: str,
        rhs: str,
        dim: str,
        periodic: bool = False,
        pivoting: bool = False,
        residual: bool = False,
        name: str = "solution",
        target: str = "auto",
        mode: str = "auto",
        chunks: Mapping[str, int] | None = None,
        dry_run: bool = False,
        job_name: str | None = None,
        labels: Sequence[str] = (),
    ) -> Job:
        """Submit tridiagonal systems of this dataset; see `Client.tridiagonal`."""
        return client_or_default(client).tridiagonal(
            self._dataset,
            lower=lower,
            diagonal=diagonal,
            upper=upper,
            rhs=rhs,
            dim=dim,
            periodic=periodic,
            pivoting=pivoting,
            residual=residual,
            name=name,
            target=target,
            mode=mode,
            chunks=chunks,
            dry_run=dry_run,
            job_name=job_name,
            labels=labels,
        )

    def pentadiagonal(
        self,
        *,
        client: Client | None = None,
        second_lower: str,
        lower: str,
        diagonal: str,
        upper: str,
        second_upper: str,
        rhs: str,
        dim: str,
        pivoting: bool = False,
        residual: bool = False,
        name: str = "solution",
        target: str = "auto",
        mode: str = "auto",
        chunks: Mapping[str, int] | None = None,
        dry_run: bool = False,
        job_name: str | None = None,
        labels: Sequence[str] = (),
    ) -> Job:
        """Submit pentadiagonal systems of this dataset; see `Client.pentadiagonal`."""
        return client_or_default(client).pentadiagonal(
            self._dataset,
            second_lower=second_lower,
            lower=lower,
            diagonal=diagonal,
            upper=upper,
            second_upper=second_upper,
            rhs=rhs,
            dim=dim,
            pivoting=pivoting,
            residual=residual,
            name=name,
            target=target,
            mode=mode,
            chunks=chunks,
            dry_run=dry_run,
            job_name=job_name,
            labels=labels,
        )


class SystemsAccessor(Accessor):
    """Factors, and systems on trees."""

    def factor(
        self,
        *,
        client: Client | None = None,
        lower: str,
        diagonal: str,
        upper: str,
        dim: str,
        periodic: bool = False,
        target: str = "auto",
        mode: str = "auto",
        chunks: Mapping[str, int] | None = None,
        dry_run: bool = False,
        job_name: str | None = None,
        labels: Sequence[str] = (),
    ) -> Job:
        """Submit the elimination of tridiagonal matrices of this dataset; see `Client.factor`."""
        return client_or_default(client).factor(
            self._dataset,
            lower=lower,
            diagonal=diagonal,
            upper=upper,
            dim=dim,
            periodic=periodic,
            target=target,
            mode=mode,
            chunks=chunks,
            dry_run=dry_run,
            job_name=job_name,
            labels=labels,
        )

    def solve(
        self,
        factors: DatasetLike,
        *,
        client: Client | None = None,
        rhs: str | Sequence[str],
        name: str = "solution",
        target: str = "auto",
        mode: str = "auto",
        chunks: Mapping[str, int] | None = None,
        dry_run: bool = False,
        job_name: str | None = None,
        labels: Sequence[str] = (),
    ) -> Job:
        """Submit systems with right-hand sides of this dataset; see `Client.solve`."""
        return client_or_default(client).solve(
            self._dataset,
            factors,
            rhs=rhs,
            name=name,
            target=target,
            mode=mode,
            chunks=chunks,
            dry_run=dry_run,
            job_name=job_name,
            labels=labels,
        )

    def tree(
        self,
        *,
        client: Client | None = None,
        diagonal: str,
        upper: str,
        parent: str,
        rhs: str,
        row_size: str,
        name: str = "solution",
        target: str = "auto",
        mode: str = "auto",
        chunks: Mapping[str, int] | None = None,
        dry_run: bool = False,
        job_name: str | None = None,
        labels: Sequence[str] = (),
    ) -> Job:
        """Submit systems on trees of this dataset; see `Client.tree`."""
        return client_or_default(client).tree(
            self._dataset,
            diagonal=diagonal,
            upper=upper,
            parent=parent,
            rhs=rhs,
            row_size=row_size,
            name=name,
            target=target,
            mode=mode,
            chunks=chunks,
            dry_run=dry_run,
            job_name=job_name,
            labels=labels,
        )
