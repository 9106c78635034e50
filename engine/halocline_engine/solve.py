"""Solve systems of equations that a dataset holds: tridiagonal ones along a dimension, and trees.

`tridiagonal` solves, for each row i along `dim` and every point of the other dimensions of `rhs`::

    lower[i] x[i-1] + diagonal[i] x[i] + upper[i] x[i+1] = rhs[i]

`lower`, `diagonal`, `upper` and `rhs` name variables of one type, float32 or float64, which have
`dim`; the bands may lack other dimensions of `rhs`, and are repeated along them. Bands that have no
other dimension are eliminated once. lower at the first row and upper at the last are not looked at,
unless the system is `periodic`, where they couple both ends. `dim` may stand anywhere among the
dimensions and may be chunked in the store; each block has all of it.

`tree` solves symmetric systems on trees, which lie one behind the other as a CF contiguous ragged
array: `row_size` names the count variable, with the attribute `sample_dimension`. For each node i
with the parent p::

    diagonal[i] x[i] + upper[i] x[p] + sum over children k: upper[k] x[k] = rhs[i]

`parent` counts from 0 in each cell, and is -1 (or the node itself) at the root, whose `upper` is
not looked at. Nodes may stand in any order. `diagonal`, `upper` and `rhs` may have more dimensions.
Raises `FieldError` where a cell is not one tree. A cell whose root has a zero diagonal is skipped:
its solution is its right-hand side.

Nothing is pivoted; systems should be diagonally dominant. The result has the solution under `name`,
on the dimensions of `rhs`, and under `name` + "_status" a byte for each system, which says what is
wrong with it (see `flag_meanings`; 0 is well); a bad system spoils no other. With `residual`,
`name` + "_residual" holds the largest |A x - rhs| over the largest |A| |x| + |rhs| of each system,
which is about the rounding unit where all is well.

`dataset`, `target`, `chunks`, `cluster`, `output`, `on_event` and `cancelled` are those of `run`;
`chunks` of a tree's cells count cells. A system is solved in the same way in whatever block it is,
so the result does not depend on blocks and workers, bit for bit, on one target. Raises a
`RequestError` or `CapacityError` before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import xarray as xr

from halocline_engine.datasets.source import open_source
from halocline_engine.distribute.blockwise import run_blockwise
from halocline_engine.distribute.events import Event
from halocline_engine.distribute.pools import open_pool
from halocline_engine.distribute.solve_jobs import (
    TreeRequest,
    TridiagonalRequest,
    check_tree,
    check_tridiagonal,
    tree_job,
    tridiagonal_job,
)
from halocline_engine.errors import ArgumentError

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["tree", "tridiagonal"]

_REASON = "a solve needs one pass"


def tridiagonal(
    dataset: xr.Dataset | str | Path,
    *,
    lower: str,
    diagonal: str,
    upper: str,
    rhs: str,
    dim: str,
    periodic: bool = False,
    residual: bool = False,
    name: str = "solution",
    target: str = "auto",
    mode: str = "auto",
    chunks: Mapping[str, int] | None = None,
    cluster: int | str | Client | None = None,
    output: str | Path | None = None,
    on_event: Callable[[Event], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> xr.Dataset:
    """Solve tridiagonal systems along a dimension; see the head of the module."""
    _check_mode(mode)
    request = TridiagonalRequest(
        variables=(lower, diagonal, upper, rhs),
        dim=dim,
        periodic=periodic,
        residual=residual,
        name=name,
        chunks=chunks or {},
        output=_place(output),
    )
    checked = check_tridiagonal(request, open_source(dataset))
    with ExitStack() as stack:
        pool, chosen = open_pool(cluster, target, stack)
        job = tridiagonal_job(checked, pool, chosen)
        return run_blockwise(job, pool, on_event or _ignore, cancelled, _REASON)


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
) -> xr.Dataset:
    """Solve systems on trees; see the head of the module."""
    _check_mode(mode)
    request = TreeRequest(
        variables=(diagonal, upper, rhs),
        parent=parent,
        row_size=row_size,
        name=name,
        chunks=chunks or {},
        output=_place(output),
    )
    checked = check_tree(request, open_source(dataset))
    with ExitStack() as stack:
        pool, chosen = open_pool(cluster, target, stack)
        job = tree_job(checked, pool, chosen)
        return run_blockwise(job, pool, on_event or _ignore, cancelled, _REASON)


def _check_mode(mode: str) -> None:
    if mode not in ("auto", "streamed"):
        raise ArgumentError(
            f"The mode of a solve must be 'auto' or 'streamed', got {mode!r}.", hint="Leave it out."
        )


def _place(output: str | Path | None) -> Path | None:
    return None if output is None else Path(output).expanduser().absolute()


def _ignore(event: Event) -> None:
    """Tell nobody."""
