"""Systems of equations: banded ones along a dimension, and trees."""

from __future__ import annotations

from typing import Unpack

from halocline.inputs.arguments import names
from halocline.job import Job
from halocline.processes.documentation import documented
from halocline.processes.parameters import (
    FactorArguments,
    PentadiagonalArguments,
    SolveArguments,
    TreeArguments,
    TridiagonalArguments,
)
from halocline.processes.submitting import Submitting
from halocline.transfer.uploads import DatasetLike

__all__ = ["Solves"]


class Solves(Submitting):
    """Methods that submit systems of equations."""

    @documented(TridiagonalArguments)
    def tridiagonal(self, dataset: DatasetLike, **given: Unpack[TridiagonalArguments]) -> Job:
        """Submit tridiagonal systems along a dimension.

        Parameters
        ----------
        %(dataset)s
        lower, diagonal, upper, rhs : str
            Variables of the bands and of the right-hand sides, float32 or float64.
        dim : str
            Dimension of the rows.
        periodic : bool, default: False
            Whether `lower` of the first row and `upper` of the last couple both ends.
        pivoting : bool, default: False
            Whether to exchange rows, for systems that are not diagonally dominant.
        residual : bool, default: False
            Whether to return the residual of each system, as ``<name>_residual``.
        name : str, default: 'solution'
            Name of the solution; ``<name>_status`` has a byte for each system, 0 if it is solved.
        %(submission)s

        Examples
        --------
        >>> names = {"lower": "a", "diagonal": "b", "upper": "c", "rhs": "d"}
        >>> job = client.tridiagonal(dataset, dim="z", **names)
        >>> job.result()["solution"].values.round(12).tolist()
        [1.0, 1.0, 1.0]

        """
        return self._submit(self.tridiagonal, dataset, given, ("lower", "diagonal", "upper", "rhs"))

    @documented(PentadiagonalArguments)
    def pentadiagonal(self, dataset: DatasetLike, **given: Unpack[PentadiagonalArguments]) -> Job:
        """Submit pentadiagonal systems along a dimension.

        Parameters
        ----------
        %(dataset)s
        second_lower, lower, diagonal, upper, second_upper, rhs : str
            Variables of the bands and of the right-hand sides, float32 or float64; `second_lower`
            multiplies the row two before, `second_upper` the row two after.
        dim : str
            Dimension of the rows.
        pivoting : bool, default: False
            Whether to exchange rows, for systems that are not diagonally dominant.
        residual : bool, default: False
            Whether to return the residual of each system, as ``<name>_residual``.
        name : str, default: 'solution'
            Name of the solution; ``<name>_status`` has a byte for each system, 0 if it is solved.
        %(submission)s

        """
        return self._submit(
            self.pentadiagonal,
            dataset,
            given,
            ("second_lower", "lower", "diagonal", "upper", "second_upper", "rhs"),
        )

    @documented(FactorArguments)
    def factor(self, dataset: DatasetLike, **given: Unpack[FactorArguments]) -> Job:
        """Submit the factorisation of tridiagonal matrices, for `solve`.

        Parameters
        ----------
        %(dataset)s
        lower, diagonal, upper : str
            Variables of the bands, float32 or float64.
        dim : str
            Dimension of the rows.
        periodic : bool, default: False
            Whether `lower` of the first row and `upper` of the last couple both ends.
        %(submission)s

        Examples
        --------
        >>> job = client.factor(dataset, lower="a", diagonal="b", upper="c", dim="z")
        >>> job.wait()
        'successful'
        >>> client.solve(dataset, job, rhs="d").result()["solution"].values.round(12).tolist()
        [1.0, 1.0, 1.0]

        """
        return self._submit(self.factor, dataset, given, ("lower", "diagonal", "upper"))

    @documented(SolveArguments)
    def solve(
        self, dataset: DatasetLike, factors: DatasetLike, **given: Unpack[SolveArguments]
    ) -> Job:
        """Submit tridiagonal systems with factored matrices.

        Parameters
        ----------
        %(dataset)s
        factors : dataset
            Result of `factor`, given as `dataset` is: its Job, for example.
        rhs : str or sequence of str
            Variables of the right-hand sides.
        name : str, default: 'solution'
            Name of the solution of one right-hand side, or suffix of several: ``<rhs>_<name>``.
        %(submission)s

        """
        rhs = given.get("rhs", ())
        several = [rhs] if isinstance(rhs, str) else names("rhs", rhs)
        return self._submit(self.solve, dataset, given, needed=several, factors=factors)

    @documented(TreeArguments)
    def tree(self, dataset: DatasetLike, **given: Unpack[TreeArguments]) -> Job:
        """Submit symmetric systems on trees in a contiguous ragged array.

        Parameters
        ----------
        %(dataset)s
        diagonal, upper, rhs : str
            Variables along the nodes; `upper` couples a node with its parent.
        parent : str
            Variable of the parents: indices within the cell, from 0; -1 at the root.
        row_size : str
            Count variable: the nodes of each cell.
        name : str, default: 'solution'
            Name of the solution; ``<name>_status`` has a byte for each cell, 0 if it is solved.
        %(submission)s

        """
        return self._submit(
            self.tree, dataset, given, ("diagonal", "upper", "parent", "rhs", "row_size")
        )
