"""Systems of equations in datasets: banded ones along a dimension, and trees."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Required, Unpack

import xarray as xr

from halocline_engine.arguments import MODES, RESIDENT_MODES, check_flags
from halocline_engine.datasets.inputs.opening import DatasetLike, open_source
from halocline_engine.datasets.names import result_name, solution_names
from halocline_engine.distribute.jobs.outputs import open_beside
from halocline_engine.distribute.solves.factor_request import (
    FactorRequest,
    SolveRequest,
    check_factor,
    check_solve,
    factor_job,
    factored_job,
)
from halocline_engine.distribute.solves.partitioned import solve_job
from halocline_engine.distribute.solves.request import (
    BandedRequest,
    TreeRequest,
    check_banded,
    check_tree,
    tree_job,
)
from halocline_engine.functions.documentation import documented
from halocline_engine.functions.execution import Execution, ExecutionArguments, Planning
from halocline_engine.signatures import Default, complete, described

__all__ = ["BandedArguments", "factor", "pentadiagonal", "solve", "tree", "tridiagonal"]

_REASON = "a solve needs one pass"
_EACH = "each right-hand side has a pass"
_TRIDIAGONAL = 3
_PASSES = "the rows are spread over blocks, whose ends are solved for in between"


class BandedArguments(ExecutionArguments, total=False):
    """Right-hand sides of banded systems, and options of the solution.

    Parameters
    ----------
    rhs : str
        Variable of the right-hand sides, of the same type.
    dim : str
        Dimension of the rows, anywhere among the dimensions; it may be chunked in the store.
    pivoting : bool, default: False
        Whether to exchange rows where an element below the pivot is larger, for systems that are
        not diagonally dominant. Such systems are solved whole in a block.
    residual : bool, default: False
        Whether to return the residual of each system.
    name : str, default: 'solution'
        Name of the solution.

    """

    rhs: Required[str]
    dim: Required[str]
    pivoting: Annotated[bool, Default(False)]
    residual: Annotated[bool, Default(False)]
    name: Annotated[str, Default("solution")]


_SOLUTION = """
Returns
-------
xarray.Dataset
    Solution under `name`, on the dimensions of `rhs`, and ``<name>_status``, one byte per
    system: 0 if it is solved, see `flag_meanings`. A singular system does not affect others.
"""
_RESIDUAL = """
    With `residual`, ``<name>_residual`` holds the largest ``|A x - rhs|`` over the largest
    ``|A| |x| + |rhs|`` of each system.
"""
_banded = documented(
    BandedArguments,
    banded=described(BandedArguments),
    solution=f"{_SOLUTION.rstrip()}{_RESIDUAL}",
)
_solved = documented(ExecutionArguments, solution=_SOLUTION)


@_banded
def tridiagonal(
    dataset: DatasetLike,
    *,
    lower: str,
    diagonal: str,
    upper: str,
    periodic: bool = False,
    **given: Unpack[BandedArguments],
) -> xr.Dataset:
    """Solve tridiagonal systems along a dimension.

    For each row i along `dim` and every point of the other dimensions of `rhs`::

        lower[i] x[i-1] + diagonal[i] x[i] + upper[i] x[i+1] = rhs[i]

    Parameters
    ----------
    %(dataset)s
    lower, diagonal, upper : str
        Variables of the bands, float32 or float64, along `dim`. They are repeated along dimensions
        of `rhs` that they lack. `lower` of the first row and `upper` of the last are ignored unless
        the system is periodic.
    periodic : bool, default: False
        Whether `lower` of the first row and `upper` of the last couple both ends.
    %(banded)s
    %(execution)s

    %(solution)s

    %(raises)s

    See Also
    --------
    factor, solve : Systems whose matrix stays the same.

    Notes
    -----
    Systems of up to 2047 rows are solved by the algorithm of Thomas, longer ones by the partition
    method of Wang (1981) in fixed pieces of 1024 rows, which blocks and workers may share. The
    result has the same bits for any blocks and workers on one target, and in both modes.

    Examples
    --------
    >>> import xarray as xr
    >>> import halocline_engine as he
    >>> bands = {"a": [0.0, 1.0, 1.0], "b": [4.0, 4.0, 4.0], "c": [1.0, 1.0, 0.0]}
    >>> dataset = xr.Dataset({name: ("z", values) for name, values in bands.items()})
    >>> dataset["d"] = ("z", [5.0, 6.0, 5.0])
    >>> result = he.tridiagonal(dataset, lower="a", diagonal="b", upper="c", rhs="d", dim="z")
    >>> result["solution"].values.round(12).tolist()
    [1.0, 1.0, 1.0]

    """
    bands = (lower, diagonal, upper)
    return _systems(dataset, bands, periodic=periodic, **complete(tridiagonal, given))


@_banded
def pentadiagonal(
    dataset: DatasetLike,
    *,
    second_lower: str,
    lower: str,
    diagonal: str,
    upper: str,
    second_upper: str,
    **given: Unpack[BandedArguments],
) -> xr.Dataset:
    """Solve pentadiagonal systems along a dimension.

    For each row i along `dim` and every point of the other dimensions of `rhs`::

        second_lower[i] x[i-2] + lower[i] x[i-1] + diagonal[i] x[i]
            + upper[i] x[i+1] + second_upper[i] x[i+2] = rhs[i]

    Parameters
    ----------
    %(dataset)s
    second_lower, lower, diagonal, upper, second_upper : str
        Variables of the bands, float32 or float64, along `dim`. They are repeated along dimensions
        of `rhs` that they lack. Elements outside the matrix are ignored.
    %(banded)s
    %(execution)s

    %(solution)s

    %(raises)s

    Examples
    --------
    >>> import xarray as xr
    >>> import halocline_engine as he
    >>> bands = {name: ("z", [1.0] * 5) for name in ("a2", "a1", "c1", "c2")}
    >>> dataset = xr.Dataset(bands | {"b": ("z", [6.0] * 5)})
    >>> dataset["d"] = ("z", [8.0, 9.0, 10.0, 9.0, 8.0])
    >>> names = {"second_lower": "a2", "lower": "a1", "upper": "c1", "second_upper": "c2"}
    >>> result = he.pentadiagonal(dataset, diagonal="b", rhs="d", dim="z", **names)
    >>> result["solution"].values.round(12).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0]

    """
    bands = (second_lower, lower, diagonal, upper, second_upper)
    return _systems(dataset, bands, **complete(pentadiagonal, given))


@documented(ExecutionArguments)
def factor(
    dataset: DatasetLike,
    *,
    lower: str,
    diagonal: str,
    upper: str,
    dim: str,
    periodic: bool = False,
    **given: Unpack[ExecutionArguments],
) -> xr.Dataset:
    """Factor tridiagonal matrices, for `solve`.

    Parameters
    ----------
    %(dataset)s
    lower, diagonal, upper : str
        Variables of the bands, float32 or float64, along `dim`.
    dim : str
        Dimension of the rows, anywhere among the dimensions; it may be chunked in the store.
    periodic : bool, default: False
        Whether `lower` of the first row and `upper` of the last couple both ends.
    %(execution)s

    Returns
    -------
    xarray.Dataset
        `factor_lower`, `factor_reciprocal`, `factor_upper` and `factor_status`, and for periodic
        matrices `factor_column` and `factor_share`. It may be stored.

    %(raises)s

    Examples
    --------
    >>> import xarray as xr
    >>> import halocline_engine as he
    >>> bands = {"a": ("z", [0.0, 1.0, 1.0]), "b": ("z", [4.0] * 3), "c": ("z", [1.0, 1.0, 0.0])}
    >>> dataset = xr.Dataset(bands)
    >>> factors = he.factor(dataset, lower="a", diagonal="b", upper="c", dim="z")
    >>> sides = xr.Dataset({"d": (("x", "z"), [[5.0, 6.0, 5.0], [10.0, 12.0, 10.0]])})
    >>> he.solve(sides, factors, rhs="d")["solution"].values.round(12).tolist()
    [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]

    """
    execution = Execution(**complete(factor, given))
    check_flags(periodic=periodic)
    request = FactorRequest(
        variables=(lower, upper, diagonal),
        dim=dim,
        periodic=periodic,
        chunks=execution.block_sizes,
        output=execution.place,
    )
    checked = check_factor(request, open_source(dataset))
    job_of = partial(factor_job, checked, mode=_mode(execution))
    return execution.run_job(job_of, _REASON)


@_solved
def solve(
    dataset: DatasetLike,
    factors: xr.Dataset | str | Path,
    *,
    rhs: str | Sequence[str],
    name: str = "solution",
    **given: Unpack[ExecutionArguments],
) -> xr.Dataset:
    """Solve tridiagonal systems with the factored matrices of `factor`.

    Parameters
    ----------
    %(dataset)s
    factors : xarray.Dataset or path
        Result of `factor`.
    rhs : str or sequence of str
        Variables of the right-hand sides, which may have more dimensions than the matrices.
    name : str, default: 'solution'
        Name of the solution of one right-hand side, or suffix of several: ``<rhs>_<name>``.
    %(execution)s

    %(solution)s

    %(raises)s

    Notes
    -----
    On the targets 'cpu' and 'reference' the bits are those of `tridiagonal` for systems of up to
    2047 rows.

    Examples
    --------
    See `factor`.

    """
    execution = Execution(**complete(solve, given))
    request = SolveRequest(
        names=solution_names(rhs, name),
        chunks=execution.block_sizes,
        output=execution.place,
    )
    beside = open_beside(factors, "factors", execution.output)
    checked = check_solve(request, open_source(dataset), beside)
    job_of = partial(factored_job, checked, mode=_mode(execution))
    return execution.run_job(job_of, _REASON, _EACH)


@_solved
def tree(
    dataset: DatasetLike,
    *,
    diagonal: str,
    upper: str,
    parent: str,
    rhs: str,
    row_size: str,
    name: str = "solution",
    **given: Unpack[ExecutionArguments],
) -> xr.Dataset:
    """Solve symmetric systems on trees in a contiguous ragged array.

    For each node i with parent p::

        diagonal[i] x[i] + upper[i] x[p] + sum over children k: upper[k] x[k] = rhs[i]

    Parameters
    ----------
    %(dataset)s
    diagonal, upper, rhs : str
        Variables along the nodes, float32 or float64, possibly with further dimensions.
    parent : str
        Variable of the parents: indices within the cell, from 0; -1, or the node itself, at the
        root, whose `upper` is ignored. Nodes may be in any order.
    row_size : str
        Count variable of the ragged array, with the attribute `sample_dimension`.
    name : str, default: 'solution'
        Name of the solution.
    %(execution)s

    %(solution)s
        A cell whose root has a zero diagonal is skipped: its solution is its right-hand side.

    Raises
    ------
    FieldError
        A cell is not one tree.
    %(errors)s

    Notes
    -----
    The method is that of Hines (1984). `chunks` of the cells count cells.

    Examples
    --------
    >>> import xarray as xr
    >>> import halocline_engine as he
    >>> dataset = xr.Dataset(
    ...     {
    ...         "d": ("node", [3.0, 2.0, 2.0]),
    ...         "u": ("node", [0.0, -1.0, -1.0]),
    ...         "parent": ("node", [-1, 0, 0]),
    ...         "b": ("node", [1.0, 1.0, 1.0]),
    ...         "count": ("cell", [3], {"sample_dimension": "node"}),
    ...     }
    ... )
    >>> names = {"diagonal": "d", "upper": "u", "parent": "parent", "rhs": "b"}
    >>> he.tree(dataset, row_size="count", **names)["solution"].values.tolist()
    [1.0, 1.0, 1.0]

    """
    execution = Execution(**complete(tree, given))
    request = TreeRequest(
        variables=(diagonal, upper, rhs),
        parent=parent,
        row_size=row_size,
        name=result_name(name),
        chunks=execution.block_sizes,
        output=execution.place,
    )
    job_of = partial(tree_job, check_tree(request, open_source(dataset)))
    return execution.run_job(job_of, _REASON)


def _systems(
    dataset: DatasetLike,
    bands: tuple[str, ...],
    *,
    rhs: str,
    dim: str,
    periodic: bool = False,
    pivoting: bool,
    residual: bool,
    name: str,
    **given: Unpack[ExecutionArguments],
) -> xr.Dataset:
    modes = RESIDENT_MODES if len(bands) == _TRIDIAGONAL else MODES
    execution = Execution(**given, modes=modes)
    check_flags(periodic=periodic, pivoting=pivoting, residual=residual)
    request = BandedRequest(
        variables=(*bands, rhs),
        dim=dim,
        periodic=periodic,
        pivoting=pivoting,
        residual=residual,
        name=result_name(name),
        chunks=execution.block_sizes,
        output=execution.place,
    )
    checked = check_banded(request, open_source(dataset))
    job_of = partial(solve_job, checked, mode=_mode(execution))
    return execution.run_job(job_of, _REASON, _PASSES)


def _mode(execution: Execution) -> str:
    """Return the mode, which for a stage of a sequence is always 'streamed'."""
    return "streamed" if isinstance(execution.cluster, Planning) else execution.mode
