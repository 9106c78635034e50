"""Paragraphs that the docstrings of several functions share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["documented"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_DATASET = """
dataset : xarray.Dataset or path
    Dataset, or the path of a Zarr store or a NetCDF file, decoded as xarray does. Values may be
    larger than memory; their types are never converted.
"""
_EXECUTION = """
target : {'auto', 'cuda', 'cpu', 'reference'}, default: 'auto'
    What computes: generated CUDA, compiled loops on the processor, or NumPy. 'auto' is 'cuda' where
    there is a GPU, otherwise 'cpu'.
mode : {'auto', 'streamed'}, default: 'auto'
    How blocks pass through memory. 'streamed' reads, computes and writes them pass by pass; 'auto'
    chooses it. `run` has 'resident' besides: blocks stay in memory and exchange halos; its 'auto'
    chooses that for several steps on blocks that fit.
chunks : mapping of str to int, optional
    Block sizes by dimension. By default they follow from the memory that is free.
cluster : int, str or distributed.Client, optional
    Number of worker processes to start on this machine, address of a Dask scheduler, or a client of
    one. By default this process computes. Workers on other machines must see the same paths.
output : path, optional
    Path of the Zarr store to create, which appears complete or not at all. By default the result is
    in memory.
on_event : callable, optional
    Called with each event of `halocline_engine.distribute.tasks.events`.
cancelled : callable, optional
    Called repeatedly without arguments. Once it returns True, the job stops and raises
    `CancelledError`.
options : Options, optional
    Memory limits, and choices that otherwise follow from the plan.
"""
_PLANS = """
plans : PlanCache, optional
    Keeps the analysis of indices, weights and meshes for later calls.
"""
_ERRORS = """
RequestError
    An argument, a name, a shape or a type is wrong. Nothing has been written.
CapacityError
    A block does not fit into the memory that may be used. Nothing has been written.
"""
_PARAGRAPHS = {
    "dataset": _DATASET,
    "execution": _EXECUTION,
    "plans": _PLANS,
    "errors": _ERRORS,
}


def documented(function: _Function) -> _Function:
    """Replace the lines `%(name)s` of a docstring by the paragraphs of that name.

    >>> def double(x, plans):
    ...     '''Double it.
    ...
    ...     Parameters
    ...     ----------
    ...     x : float
    ...     %(plans)s
    ...     '''
    >>> print(documented(double).__doc__.splitlines()[5].strip())
    plans : PlanCache, optional
    """
    text = function.__doc__ or ""
    for name, paragraph in _PARAGRAPHS.items():
        lines = [f"    {line}" if line else "" for line in paragraph.strip().splitlines()]
        text = text.replace(f"    %({name})s", "\n".join(lines))
    function.__doc__ = text or None
    return function
