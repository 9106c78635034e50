"""The arguments of processes, shared by the methods of the client and of `dataset.halocline`.

They equal those of the engine's function of the same name; a test compares both.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Required, TypeAlias, TypedDict

import numpy as np

from halocline_engine.signatures import Default

__all__ = [
    "ColumnArguments",
    "ComputeArguments",
    "FactorArguments",
    "GatherArguments",
    "JobArguments",
    "MatmulArguments",
    "NeighboursArguments",
    "Number",
    "PentadiagonalArguments",
    "ReduceArguments",
    "RegridArguments",
    "ScatterArguments",
    "SequenceArguments",
    "SolveArguments",
    "StencilArguments",
    "SubmissionArguments",
    "TreeArguments",
    "TridiagonalArguments",
]

Number: TypeAlias = bool | int | float | np.number[Any] | np.bool_


class JobArguments(TypedDict, total=False):
    """Options of a job.

    Parameters
    ----------
    dry_run : bool, default: False
        Whether to plan the job only: the returned Job has a `plan()` and no result.
    job_name : str, optional
        Name of the job, which need not be unique.
    labels : sequence of str, optional
        Labels by which jobs can be listed.

    """

    dry_run: Annotated[bool, Default(False)]
    job_name: Annotated[str | None, Default(None)]
    labels: Annotated[Sequence[str], Default(())]


class ComputeArguments(TypedDict, total=False):
    """Options for the computation on a dataset.

    Parameters
    ----------
    target : {'auto', 'cuda', 'cpu', 'reference'}, default: 'auto'
        Target that computes on the workers of the service; 'gpu' means 'cuda'.
    mode : {'auto', 'streamed'}, default: 'auto'
        How blocks pass through memory. `stencil` also has 'resident': blocks stay in memory and
        exchange halos.
    chunks : mapping of str to int, optional
        Block sizes by dimension; by default they follow from the memory of the workers.

    """

    target: Annotated[str, Default("auto")]
    mode: Annotated[str, Default("auto")]
    chunks: Annotated[Mapping[str, int] | None, Default(None)]


class SubmissionArguments(ComputeArguments, JobArguments, total=False):
    """Options for the computation on a dataset, and for its job."""


class StencilArguments(SubmissionArguments, total=False):
    """A stencil program's names, values, boundary and steps."""

    fields: Annotated[Mapping[str, str] | None, Default(None)]
    scalars: Annotated[Mapping[str, Any] | None, Default(None)]
    externals: Annotated[Mapping[str, Any] | None, Default(None)]
    dtypes: Annotated[Mapping[str, Any] | None, Default(None)]
    stencil_name: Annotated[str | None, Default(None)]
    literal_precision: Annotated[int | Mapping[str, int], Default(64)]
    arithmetic: Annotated[str, Default("separate")]
    axes: Annotated[Mapping[str, str | None] | None, Default(None)]
    grid: Annotated[Mapping[str, Mapping[str, str]] | None, Default(None)]
    positions: Annotated[Mapping[str, Sequence[str]] | None, Default(None)]
    boundary: Annotated[Mapping[str, str | Mapping[str, Any]] | None, Default(None)]
    steps: Annotated[int, Default(1)]
    feedback: Annotated[Mapping[str, str] | None, Default(None)]
    until: Annotated[Mapping[str, Any] | None, Default(None)]
    snapshot_every: Annotated[int | None, Default(None)]
    time: Annotated[Mapping[str, Any] | None, Default(None)]
    diagnostics: Annotated[Mapping[str, Mapping[str, Any]] | None, Default(None)]
    order: Annotated[str, Default("auto")]


class ColumnArguments(SubmissionArguments, total=False):
    """Names and types in an expression on columns."""

    fields: Annotated[Mapping[str, str] | None, Default(None)]
    scalars: Annotated[Mapping[str, Number] | None, Default(None)]
    axis: Annotated[str | Mapping[str, str] | None, Default(None)]
    heights: Annotated[str | None, Default(None)]
    boundary: Annotated[Mapping[str, str] | None, Default(None)]
    dtype: Annotated[str | None, Default(None)]
    name: Annotated[str, Default("result")]


class _Solution(SubmissionArguments, total=False):
    name: Annotated[str, Default("solution")]


class FactorArguments(SubmissionArguments, total=False):
    """Tridiagonal matrices."""

    lower: Required[str]
    diagonal: Required[str]
    upper: Required[str]
    dim: Required[str]
    periodic: Annotated[bool, Default(False)]


class _Banded(_Solution, total=False):
    rhs: Required[str]
    pivoting: Annotated[bool, Default(False)]
    residual: Annotated[bool, Default(False)]


class TridiagonalArguments(FactorArguments, _Banded, total=False):
    """Tridiagonal systems."""


class PentadiagonalArguments(_Banded, total=False):
    """Pentadiagonal systems."""

    second_lower: Required[str]
    lower: Required[str]
    diagonal: Required[str]
    upper: Required[str]
    second_upper: Required[str]
    dim: Required[str]


class SolveArguments(_Solution, total=False):
    """Right-hand sides of matrices that were factored."""

    rhs: Required[str | Sequence[str]]


class TreeArguments(_Solution, total=False):
    """Systems on trees."""

    diagonal: Required[str]
    upper: Required[str]
    parent: Required[str]
    rhs: Required[str]
    row_size: Required[str]


class GatherArguments(SubmissionArguments, total=False):
    """Elements and their indices."""

    source: Required[str]
    index: Required[str]
    dim: Required[str]
    name: Annotated[str, Default("gathered")]
    out_of_range: Annotated[str, Default("error")]
    negative: Annotated[str, Default("out_of_range")]
    fill: Annotated[float | None, Default(None)]


class ScatterArguments(GatherArguments, total=False):
    """Elements and the indices of their places."""

    size: Required[int]
    name: Annotated[str, Default("scattered")]
    duplicates: Annotated[str, Default("error")]


class RegridArguments(SubmissionArguments, total=False):
    """Variables, and dimensions of both grids."""

    variables: Annotated[Sequence[str] | None, Default(None)]
    skipna: Annotated[bool, Default(True)]
    na_thres: Annotated[float, Default(1.0)]
    dims: Annotated[Sequence[str] | None, Default(None)]
    target_dims: Annotated[Sequence[str] | None, Default(None)]


class NeighboursArguments(SubmissionArguments, total=False):
    """Variables on a mesh."""

    variables: Annotated[Sequence[str] | None, Default(None)]
    location: Annotated[str | None, Default(None)]
    dim: Annotated[str | None, Default(None)]
    radius: Annotated[float | None, Default(None)]


class MatmulArguments(SubmissionArguments, total=False):
    """Operands of a matrix product."""

    left: Required[str]
    right: Required[str]
    dim: Required[str]
    name: Annotated[str, Default("product")]


class ReduceArguments(SubmissionArguments, total=False):
    """Reductions of a dataset."""


class SequenceArguments(SubmissionArguments, total=False):
    """Steps of a sequence of stages."""

    steps: Annotated[int, Default(1)]
    feedback: Annotated[Mapping[str, str] | None, Default(None)]
    snapshot_every: Annotated[int | None, Default(None)]
    results: Annotated[Sequence[str] | None, Default(None)]
