"""Systems of equations: banded ones along a dimension, and trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from halocline.inputs.arguments import names
from halocline.job import Job
from halocline.processes.documentation import documented
from halocline.processes.submitting import Submitting
from halocline.transfer.submission import How
from halocline.transfer.uploads import DatasetLike, reference

__all__ = ["Solves"]


class Solves(Submitting):
    """Methods that submit systems of equations."""

    @documented
    def tridiagonal(
        self,
        dataset: DatasetLike,
        *,
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
        variables = {"lower": lower, "diagonal": diagonal, "upper": upper, "rhs": rhs}
        others: dict[str, Any] = {"dim": dim, "periodic": periodic, "residual": residual}
        others |= {"pivoting": pivoting}
        others |= {"name": name, "target": target, "mode": mode}
        how = How(dry_run, job_name, labels)
        return self._submit("tridiagonal", dataset, variables, others, chunks, how=how)

    @documented
    def pentadiagonal(
        self,
        dataset: DatasetLike,
        *,
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
        variables = {"second_lower": second_lower, "lower": lower, "diagonal": diagonal}
        variables |= {"upper": upper, "second_upper": second_upper, "rhs": rhs}
        others: dict[str, Any] = {"dim": dim, "pivoting": pivoting, "residual": residual}
        others |= {"name": name, "target": target, "mode": mode}
        how = How(dry_run, job_name, labels)
        return self._submit("pentadiagonal", dataset, variables, others, chunks, how=how)

    @documented
    def factor(
        self,
        dataset: DatasetLike,
        *,
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
        variables = {"lower": lower, "diagonal": diagonal, "upper": upper}
        others: dict[str, Any] = {"dim": dim, "periodic": periodic, "target": target, "mode": mode}
        how = How(dry_run, job_name, labels)
        return self._submit("factor", dataset, variables, others, chunks, how=how)

    @documented
    def solve(
        self,
        dataset: DatasetLike,
        factors: DatasetLike,
        *,
        rhs: str | Sequence[str],
        name: str = "solution",
        target: str = "auto",
        mode: str = "auto",
        chunks: Mapping[str, int] | None = None,
        dry_run: bool = False,
        job_name: str | None = None,
        labels: Sequence[str] = (),
    ) -> Job:
        """Submit tridiagonal systems whose matrices were factored.

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
        several = [rhs] if isinstance(rhs, str) else names("rhs", rhs)
        others: dict[str, Any] = {"rhs": rhs if isinstance(rhs, str) else several}
        others |= {"factors": partial(reference, self._connection, factors, ())}
        others |= {"name": name, "target": target, "mode": mode}
        how = How(dry_run, job_name, labels)
        return self._submit("solve", dataset, {}, others, chunks, several, how=how)

    @documented
    def tree(
        self,
        dataset: DatasetLike,
        *,
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
        variables = {"diagonal": diagonal, "upper": upper, "parent": parent}
        variables |= {"rhs": rhs, "row_size": row_size}
        others = {"name": name, "target": target, "mode": mode}
        how = How(dry_run, job_name, labels)
        return self._submit("tree", dataset, variables, others, chunks, how=how)
