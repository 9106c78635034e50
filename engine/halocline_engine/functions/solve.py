"""Solve systems of equations that a dataset holds: banded ones along a dimension, and trees.

`tridiagonal` solves, for each row i along `dim` and every point of the other dimensions of `rhs`::

    lower[i] x[i-1] + diagonal[i] x[i] + upper[i] x[i+1] = rhs[i]

`lower`, `diagonal`, `upper` and `rhs` name variables of one type, float32 or float64, which have
`dim`; the bands may lack other dimensions of `rhs`, and are repeated along them. Bands that have no
other dimension are eliminated once. lower at the first row and upper at the last are not looked at,
unless the system is `periodic`, where they couple both ends. `dim` may stand anywhere among the
dimensions and may be chunked in the store. Systems of 2048 rows and more are solved by the
partition method, and their rows may be spread over blocks: `chunks` along `dim` are rounded up to
whole pieces of 1024 rows. Shorter systems are solved whole.

`pentadiagonal` has `second_lower`, which multiplies x[i-2], and `second_upper`, which multiplies
x[i+2], besides. Elements that would lie outside of the matrix are not looked at.

`factor` eliminates tridiagonal matrices once, and `solve` solves for right-hand sides with what it
returned: for one, or for several in a sequence, whose solutions are called `<rhs>_<name>`. The
right-hand sides may have more dimensions than the matrices. The result of `factor` has the
variables "factor_lower", "factor_reciprocal", "factor_upper" and "factor_status", and for
`periodic` matrices "factor_column" and "factor_share"; it may be stored. The bits are those of
`tridiagonal` on the targets 'reference' and 'cpu', but for systems that are long.

`tree` solves symmetric systems on trees, which lie one behind the other as a CF contiguous ragged
array: `row_size` names the count variable, with the attribute `sample_dimension`. For each node i
with the parent p::

    diagonal[i] x[i] + upper[i] x[p] + sum over children k: upper[k] x[k] = rhs[i]

`parent` counts from 0 in each cell, and is -1 (or the node itself) at the root, whose `upper` is
not looked at. Nodes may stand in any order. `diagonal`, `upper` and `rhs` may have more dimensions.
Raises `FieldError` where a cell is not one tree. A cell whose root has a zero diagonal is skipped:
its solution is its right-hand side.

Systems should be diagonally dominant, or be solved with `pivoting` (banded ones, each of them whole
in a block), which exchanges rows where an element below the pivot is larger. The result has
the solution under `name`, on the dimensions of `rhs`, and under `name` + "_status" a byte for each
system, which says what is wrong with it (see `flag_meanings`; 0 is well); a bad system spoils no
other. With `residual`, `name` + "_residual" holds the largest |A x - rhs| over the largest
|A| |x| + |rhs| of each system, which is about the rounding unit where all is well.

`dataset`, `target`, `chunks`, `cluster`, `output`, `on_event`, `cancelled` and `options` are those
of `run`; `chunks` of a tree's cells count cells. A system is solved in the same way in whatever
block it is, so the result does not depend on blocks and workers, bit for bit, on one target. Raises
a `RequestError` or `CapacityError` before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import xarray as xr

from halocline_engine.arguments import check_flags, place_of, sizes_by_name
from halocline_engine.datasets.names import result_name, solution_names
from halocline_engine.datasets.stores.source import open_source
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
from halocline_engine.distribute.tasks.events import Event
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.functions.execution import Execution

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["factor", "pentadiagonal", "solve", "tree", "tridiagonal"]

_REASON = "a solve needs one pass"
_EACH = "each right-hand side has a pass"
_PASSES = "the rows are spread over blocks, whose ends are solved for in between"


def tridiagonal(
    dataset: xr.Dataset | str | Path,
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
    cluster: int | str | Client | None = None,
    output: str | Path | None = None,
    on_event: Callable[[Event], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    options: Options | None = None,
) -> xr.Dataset:
    """Solve tridiagonal systems along a dimension; see the head of the module."""
    execution = Execution(target, mode, cluster, on_event, cancelled, options)
    check_flags(periodic=periodic, pivoting=pivoting, residual=residual)
    request = BandedRequest(
        variables=(lower, diagonal, upper, rhs),
        dim=dim,
        periodic=periodic,
        pivoting=pivoting,
        residual=residual,
        name=result_name(name),
        chunks=sizes_by_name("chunks", chunks),
        output=place_of("output", output),
    )
    checked = check_banded(request, open_source(dataset))
    with execution.pool() as (pool, chosen):
        job = solve_job(checked, pool, chosen)
        reason = _REASON if job.passes == 1 else _PASSES
        return execution.run(job, pool, reason)


def pentadiagonal(
    dataset: xr.Dataset | str | Path,
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
    cluster: int | str | Client | None = None,
    output: str | Path | None = None,
    on_event: Callable[[Event], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    options: Options | None = None,
) -> xr.Dataset:
    """Solve pentadiagonal systems along a dimension; see the head of the module."""
    execution = Execution(target, mode, cluster, on_event, cancelled, options)
    check_flags(pivoting=pivoting, residual=residual)
    request = BandedRequest(
        variables=(second_lower, lower, diagonal, upper, second_upper, rhs),
        dim=dim,
        periodic=False,
        pivoting=pivoting,
        residual=residual,
        name=result_name(name),
        chunks=sizes_by_name("chunks", chunks),
        output=place_of("output", output),
    )
    checked = check_banded(request, open_source(dataset))
    return execution.run_once(partial(solve_job, checked), _REASON)


def factor(
    dataset: xr.Dataset | str | Path,
    *,
    lower: str,
    diagonal: str,
    upper: str,
    dim: str,
    periodic: bool = False,
    target: str = "auto",
    mode: str = "auto",
    chunks: Mapping[str, int] | None = None,
    cluster: int | str | Client | None = None,
    output: str | Path | None = None,
    on_event: Callable[[Event], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    options: Options | None = None,
) -> xr.Dataset:
    """Eliminate tridiagonal matrices once, for `solve`; see the head of the module."""
    execution = Execution(target, mode, cluster, on_event, cancelled, options)
    check_flags(periodic=periodic)
    request = FactorRequest(
        variables=(lower, upper, diagonal),
        dim=dim,
        periodic=periodic,
        chunks=sizes_by_name("chunks", chunks),
        output=place_of("output", output),
    )
    checked = check_factor(request, open_source(dataset))
    return execution.run_once(partial(factor_job, checked), _REASON)


def solve(
    dataset: xr.Dataset | str | Path,
    factors: xr.Dataset | str | Path,
    *,
    rhs: str | Sequence[str],
    name: str = "solution",
    target: str = "auto",
    mode: str = "auto",
    chunks: Mapping[str, int] | None = None,
    cluster: int | str | Client | None = None,
    output: str | Path | None = None,
    on_event: Callable[[Event], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    options: Options | None = None,
) -> xr.Dataset:
    """Solve tridiagonal systems whose matrices `factor` eliminated; see the head of the module."""
    execution = Execution(target, mode, cluster, on_event, cancelled, options)
    request = SolveRequest(
        names=solution_names(rhs, name),
        chunks=sizes_by_name("chunks", chunks),
        output=place_of("output", output),
    )
    beside = open_beside(factors, "factors", output)
    checked = check_solve(request, open_source(dataset), beside)
    with execution.pool() as (pool, chosen):
        job = factored_job(checked, pool, chosen)
        reason = _REASON if job.passes == 1 else _EACH
        return execution.run(job, pool, reason)


def tree(
    dataset: xr.Dataset | str | Path,
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
    cluster: int | str | Client | None = None,
    output: str | Path | None = None,
    on_event: Callable[[Event], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    options: Options | None = None,
) -> xr.Dataset:
    """Solve systems on trees; see the head of the module."""
    execution = Execution(target, mode, cluster, on_event, cancelled, options)
    request = TreeRequest(
        variables=(diagonal, upper, rhs),
        parent=parent,
        row_size=row_size,
        name=result_name(name),
        chunks=sizes_by_name("chunks", chunks),
        output=place_of("output", output),
    )
    checked = check_tree(request, open_source(dataset))
    return execution.run_once(partial(tree_job, checked), _REASON)
