"""Docstrings and signatures of functions on datasets, completed with shared paragraphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from halocline_engine.functions.execution import ExecutionArguments
from halocline_engine.signatures import described, documents, unpacks

__all__ = ["documented"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_ERRORS = """
RequestError
    An argument, a name, a shape or a type is wrong. Nothing has been written.
CapacityError
    A block does not fit into the memory that may be used. Nothing has been written.
"""
_PARAGRAPHS = {
    "dataset": """
dataset : xarray.Dataset, path or list of paths
    Dataset, or the path or the address ('https://...') of a Zarr store or a NetCDF file, decoded as
    xarray does. Several files, as a list or with a pattern ('data_*.nc'), are joined along the
    dimension in which they differ, in the order of its coordinate. Values may be larger than
    memory; their types are never converted.
""",
    "execution": described(ExecutionArguments),
    "plans": """
plans : PlanCache, optional
    Keeps the analysis of indices, weights and meshes for later calls.
""",
    "errors": _ERRORS,
    "raises": f"Raises\n------{_ERRORS}",
}


def documented(kind: type, **others: str) -> Callable[[_Function], _Function]:
    """Complete the docstring of a function, and show the arguments of its ``**given``.

    Each line ``%(name)s`` is replaced with a shared paragraph, or with one of `others`.

    >>> import inspect
    >>> @documented(ExecutionArguments)
    ... def double(dataset: xr.Dataset, **given: Unpack[ExecutionArguments]) -> xr.Dataset:
    ...     '''Double it.
    ...
    ...     Parameters
    ...     ----------
    ...     %(dataset)s
    ...     %(execution)s
    ...     '''
    >>> print(double.__doc__.splitlines()[4].strip())
    dataset : xarray.Dataset, path or list of paths
    >>> inspect.signature(double).parameters["target"].default
    'auto'
    """

    def shown(function: _Function) -> _Function:
        return unpacks(kind, ExecutionArguments)(documents(_PARAGRAPHS | others)(function))

    return shown
