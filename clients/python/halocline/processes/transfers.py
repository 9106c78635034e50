"""Gathers, scatters, regridding, operators on meshes and matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from halocline.inputs.arguments import names
from halocline.job import Job
from halocline.processes.documentation import documented
from halocline.processes.parameters import (
    GatherArguments,
    MatmulArguments,
    NeighboursArguments,
    RegridArguments,
    ScatterArguments,
)
from halocline.processes.submitting import Submitting
from halocline.transfer.uploads import DatasetLike

__all__ = ["Transfers"]


class Transfers(Submitting):
    """Methods that submit indices, weights, meshes and products."""

    @documented(GatherArguments)
    def gather(self, dataset: DatasetLike, **given: Unpack[GatherArguments]) -> Job:
        """Submit a gather of elements along a dimension by an array of indices.

        Parameters
        ----------
        %(dataset)s
        source, index : str
            Variables of the elements and of the indices, which count from 0. The dimensions of the
            index replace `dim`; dimensions of both are taken pairwise.
        dim : str
            Dimension of `source` that is indexed.
        name : str, default: 'gathered'
            Name of the result.
        %(indices)s
        %(submission)s

        Examples
        --------
        >>> job = client.gather(dataset, source="cells", index="at", dim="cell")
        >>> job.result()["gathered"].values.tolist()
        [12.0, 10.0]

        """
        return self._submit(self.gather, dataset, given, ("source", "index"))

    @documented(ScatterArguments)
    def scatter(self, dataset: DatasetLike, **given: Unpack[ScatterArguments]) -> Job:
        """Submit a scatter of elements into a new dimension by an array of indices.

        Parameters
        ----------
        %(dataset)s
        source, index : str
            Variables of the elements and of the indices, which count from 0.
        dim : str
            Name of the new dimension, which replaces those of the index.
        size : int
            Length of the new dimension.
        name : str, default: 'scattered'
            Name of the result.
        duplicates : {'error', 'last', 'sum', 'min', 'max'}, default: 'error'
            Rule for several elements with one index.
        %(indices)s
        %(submission)s

        """
        return self._submit(self.scatter, dataset, given, ("source", "index"))

    @documented(RegridArguments)
    def regrid(
        self, dataset: DatasetLike, weights: DatasetLike, **given: Unpack[RegridArguments]
    ) -> Job:
        """Submit a regridding by precomputed weights.

        Parameters
        ----------
        %(dataset)s
        weights : dataset
            Weights as ESMF and SCRIP write them, given as `dataset` is.
        variables : sequence of str, optional
            Variables to regrid; by default all on the source grid.
        skipna : bool, default: True
            Whether to skip NaN in the source: the other cells take over its weight. Otherwise
            target cells with NaN among their source cells are NaN.
        na_thres : float, default: 1.0
            With `skipna`, the share of the weight that may be missing, from 0 to 1: a target cell
            with more is NaN.
        dims : sequence of str, optional
            Dimensions of the source grid; by default they follow from coordinates or sizes.
        target_dims : sequence of str, optional
            Dimensions of the target grid.
        %(submission)s

        Examples
        --------
        >>> job = client.regrid(dataset, weights, variables=["cells"], target_dims=["station"])
        >>> job.result()["cells"].values.tolist()
        [10.5, 12.0]

        """
        needed = _variables(given.get("variables"))
        return self._submit(self.regrid, dataset, given, needed=needed, weights=weights)

    @documented(NeighboursArguments)
    def neighbours(
        self,
        dataset: DatasetLike,
        mesh: DatasetLike,
        operation: str,
        **given: Unpack[NeighboursArguments],
    ) -> Job:
        """Submit an operator on an unstructured mesh of the sphere.

        Parameters
        ----------
        %(dataset)s
        mesh : dataset
            Mesh in UGRID or MPAS, given as `dataset` is.
        operation : str
            'sum', 'mean', 'gradient', 'laplacian', 'divergence' (of the eastward and northward
            components that `variables` names), or for vectors by their components normal to edges
            'normal_gradient', 'normal_divergence' and 'normal_curl'.
        variables : sequence of str, optional
            Variables of the operator; by default all on the mesh.
        location : {'face', 'node', 'edge'}, optional
            Location of the values, by default 'face'.
        dim : str, optional
            Dimension of the mesh in the dataset.
        radius : float, optional
            Radius of the sphere in metres; by default that of the mesh, or 6371229.
        %(submission)s

        Examples
        --------
        >>> client.neighbours(faces, mesh, "sum").result()["t_sum"].values.tolist()
        [5.0, 2.0]

        """
        needed = _variables(given.get("variables"))
        return self._submit(
            self.neighbours, dataset, given, needed=needed, mesh=mesh, operation=operation
        )

    @documented(MatmulArguments)
    def matmul(self, dataset: DatasetLike, **given: Unpack[MatmulArguments]) -> Job:
        """Submit a matrix product, summed over a dimension.

        Parameters
        ----------
        %(dataset)s
        left, right : str
            Variables of the operands, float32 or float64. Dimensions of both besides `dim` are
            taken pairwise.
        dim : str
            Dimension to sum over.
        name : str, default: 'product'
            Name of the result.
        %(submission)s

        Examples
        --------
        >>> job = client.matmul(dataset, left="left", right="right", dim="k")
        >>> job.result()["product"].values.tolist()
        [[21.0], [43.0]]

        """
        return self._submit(self.matmul, dataset, given, ("left", "right"))


def _variables(given: Sequence[str] | None) -> Sequence[str]:
    return () if given is None else names("variables", given)
