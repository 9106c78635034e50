"""`dataset.halocline`: submission of jobs as methods of datasets and arrays.

Importing `halocline` registers the accessor with xarray::

    import halocline

    job = dataset.halocline.stencil(program, boundary={"x": "periodic"})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

from halocline.client import Client
from halocline.errors import ArgumentError
from halocline.processes.methods import Methods
from halocline.processes.parameters import (
    ColumnArguments,
    FactorArguments,
    GatherArguments,
    MatmulArguments,
    NeighboursArguments,
    PentadiagonalArguments,
    ReduceArguments,
    RegridArguments,
    ScatterArguments,
    SequenceArguments,
    SolveArguments,
    StencilArguments,
    SubmissionArguments,
    TreeArguments,
    TridiagonalArguments,
)
from halocline_engine.signatures import unpacks, with_answers

if TYPE_CHECKING:
    import xarray as xr

    from halocline.job import Job
    from halocline.transfer.uploads import DatasetLike
    from halocline_engine.language.python.sources import ProgramLike

__all__ = ["HaloclineAccessor"]


@with_answers
class HaloclineAccessor(Methods):
    """Submit jobs on a dataset or an array.

    Each method has the arguments of the client's method of the same name except the dataset, and
    `client`, by default a client of the service in the environment or the settings file.
    """

    _written = "dataset.halocline"

    def __init__(self, dataset: xr.Dataset | xr.DataArray) -> None:
        self._dataset = dataset

    @unpacks(StencilArguments, SubmissionArguments)
    def stencil(
        self,
        program: ProgramLike,
        *,
        client: Client | None = None,
        **given: Unpack[StencilArguments],
    ) -> Job:
        """Submit a stencil program on this dataset; see `Client.stencil`."""
        return _client_or_default(client).stencil(program, self._dataset, **given)

    @unpacks(ColumnArguments, SubmissionArguments)
    def column(
        self, expression: str, *, client: Client | None = None, **given: Unpack[ColumnArguments]
    ) -> Job:
        """Submit operators on staggered columns of this dataset; see `Client.column`."""
        return _client_or_default(client).column(expression, self._dataset, **given)

    @unpacks(SequenceArguments, SubmissionArguments)
    def sequence(
        self,
        stages: Sequence[Mapping[str, Mapping[str, Any]]],
        *,
        client: Client | None = None,
        **given: Unpack[SequenceArguments],
    ) -> Job:
        """Submit stages that follow each other on this dataset; see `Client.sequence`."""
        return _client_or_default(client).sequence(stages, self._dataset, **given)

    @unpacks(TridiagonalArguments, SubmissionArguments)
    def tridiagonal(
        self, *, client: Client | None = None, **given: Unpack[TridiagonalArguments]
    ) -> Job:
        """Submit tridiagonal systems of this dataset; see `Client.tridiagonal`."""
        return _client_or_default(client).tridiagonal(self._dataset, **given)

    @unpacks(PentadiagonalArguments, SubmissionArguments)
    def pentadiagonal(
        self, *, client: Client | None = None, **given: Unpack[PentadiagonalArguments]
    ) -> Job:
        """Submit pentadiagonal systems of this dataset; see `Client.pentadiagonal`."""
        return _client_or_default(client).pentadiagonal(self._dataset, **given)

    @unpacks(FactorArguments, SubmissionArguments)
    def factor(self, *, client: Client | None = None, **given: Unpack[FactorArguments]) -> Job:
        """Submit the elimination of tridiagonal matrices of this dataset; see `Client.factor`."""
        return _client_or_default(client).factor(self._dataset, **given)

    @unpacks(SolveArguments, SubmissionArguments)
    def solve(
        self, factors: DatasetLike, *, client: Client | None = None, **given: Unpack[SolveArguments]
    ) -> Job:
        """Submit systems with right-hand sides of this dataset; see `Client.solve`."""
        return _client_or_default(client).solve(self._dataset, factors, **given)

    @unpacks(TreeArguments, SubmissionArguments)
    def tree(self, *, client: Client | None = None, **given: Unpack[TreeArguments]) -> Job:
        """Submit systems on trees of this dataset; see `Client.tree`."""
        return _client_or_default(client).tree(self._dataset, **given)

    @unpacks(GatherArguments, SubmissionArguments)
    def gather(self, *, client: Client | None = None, **given: Unpack[GatherArguments]) -> Job:
        """Submit a gather from this dataset; see `Client.gather`."""
        return _client_or_default(client).gather(self._dataset, **given)

    @unpacks(ScatterArguments, SubmissionArguments)
    def scatter(self, *, client: Client | None = None, **given: Unpack[ScatterArguments]) -> Job:
        """Submit a scatter from this dataset; see `Client.scatter`."""
        return _client_or_default(client).scatter(self._dataset, **given)

    @unpacks(RegridArguments, SubmissionArguments)
    def regrid(
        self,
        weights: DatasetLike,
        *,
        client: Client | None = None,
        **given: Unpack[RegridArguments],
    ) -> Job:
        """Submit the regridding of this dataset; see `Client.regrid`."""
        return _client_or_default(client).regrid(self._dataset, weights, **given)

    @unpacks(NeighboursArguments, SubmissionArguments)
    def neighbours(
        self,
        mesh: DatasetLike,
        operation: str,
        *,
        client: Client | None = None,
        **given: Unpack[NeighboursArguments],
    ) -> Job:
        """Submit an operator on a mesh for this dataset; see `Client.neighbours`."""
        return _client_or_default(client).neighbours(self._dataset, mesh, operation, **given)

    @unpacks(MatmulArguments, SubmissionArguments)
    def matmul(self, *, client: Client | None = None, **given: Unpack[MatmulArguments]) -> Job:
        """Submit a matrix product of this dataset; see `Client.matmul`."""
        return _client_or_default(client).matmul(self._dataset, **given)

    @unpacks(ReduceArguments, SubmissionArguments)
    def reduce(
        self,
        diagnostics: Mapping[str, Mapping[str, Any]],
        *,
        client: Client | None = None,
        **given: Unpack[ReduceArguments],
    ) -> Job:
        """Submit sums, means, extremes and histograms of this dataset; see `Client.reduce`."""
        return _client_or_default(client).reduce(self._dataset, diagnostics, **given)


def _client_or_default(given: Client | None) -> Client:
    """Return the client, by default of the service in the environment or the settings file."""
    if given is not None and not isinstance(cast("object", given), Client):
        raise ArgumentError(
            f"Argument 'client' must be a Client, got '{type(given).__name__}'.",
            hint="Leave it out, or write client=halocline.Client(...).",
        )
    return Client() if given is None else given
