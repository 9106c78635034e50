"""The solvers of a target in this process: loaded once, for the device that is current."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.targets import TARGETS
from halocline_engine.distribute.tasks.kernels import current, device_index

if TYPE_CHECKING:
    from halocline_engine.kernels.tree.problem import Solved as TreeSolved
    from halocline_engine.kernels.tree.topology import Forest
    from halocline_engine.kernels.tridiagonal.problem import Factored, Solved, SolvedBands

__all__ = ["TreeSolver", "TridiagonalSolver", "tree_solver", "tridiagonal_solver"]

_Array = NDArray[Any]


class TridiagonalSolver(Protocol):
    """What every target does with a batch of tridiagonal systems; see `kernels.tridiagonal`."""

    def solve(
        self,
        lower: _Array,
        diagonal: _Array,
        upper: _Array,
        rhs: _Array,
        *,
        periodic: bool,
        pivoting: bool = False,
    ) -> Solved:
        """Solve a batch."""
        ...

    def factor(self, lower: _Array, diagonal: _Array, upper: _Array) -> Factored:
        """Eliminate coefficients."""
        ...

    def solve_factored(self, factored: Factored, rhs: _Array) -> _Array:
        """Solve a batch whose coefficients are eliminated."""
        ...

    def ends(self, lower: _Array, diagonal: _Array, upper: _Array, rhs: _Array) -> _Array:
        """Return the equations of the ends of pieces of rows."""
        ...

    def judge(
        self, *solved: *SolvedBands, beside: Sequence[_Array] | None, residual: bool
    ) -> tuple[NDArray[np.uint8], NDArray[np.float64], NDArray[np.float64]]:
        """Return what is said of solutions."""
        ...

    def solve_pentadiagonal(
        self,
        second_lower: _Array,
        lower: _Array,
        diagonal: _Array,
        upper: _Array,
        second_upper: _Array,
        rhs: _Array,
        *,
        pivoting: bool = False,
    ) -> _Array:
        """Solve a batch of pentadiagonal systems."""
        ...


class TreeSolver(Protocol):
    """What every target does with a ragged batch of tree systems; see `kernels.tree`."""

    def solve(self, forest: Forest, diagonal: _Array, upper: _Array, rhs: _Array) -> TreeSolved:
        """Solve a batch."""
        ...


def tridiagonal_solver(target: str, *, contiguous: bool) -> TridiagonalSolver:
    """Return a target's solver of tridiagonal systems.

    `contiguous` says how a device solves them, whatever the part of the batch that it
    gets: the parts of one batch must be solved alike.
    """
    return cast(
        "TridiagonalSolver", _tridiagonal(target, device_index(target), contiguous=contiguous)
    )


def tree_solver(target: str) -> TreeSolver:
    """Return a target's solver of tree systems."""
    return cast("TreeSolver", _tree(target, device_index(target)))


@functools.lru_cache(maxsize=16)
def _tridiagonal(target: str, device: int, *, contiguous: bool) -> object:
    if not TARGETS[target].on_device:
        return import_module(f"halocline_engine.kernels.tridiagonal.{target}")
    from halocline_engine.kernels.tridiagonal.cuda import CudaTridiagonal

    return CudaTridiagonal(*current(device), contiguous=contiguous)


@functools.lru_cache(maxsize=8)
def _tree(target: str, device: int) -> object:
    if not TARGETS[target].on_device:
        return import_module(f"halocline_engine.kernels.tree.{target}")
    from halocline_engine.device.probe import device_facts
    from halocline_engine.kernels.tree.cuda import CudaTree

    return CudaTree(*current(device), device_facts().multiprocessors)
