"""Paragraphs that the docstrings of several methods share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["documented"]

_Method = TypeVar("_Method", bound=Callable[..., Any])

_PARAGRAPHS = {
    "dataset": """
dataset : xarray.Dataset, xarray.DataArray, Job, str or path
    An xarray object, which is uploaded; a Job, whose result is taken; a reference ('upload:...',
    'job:...', 'file:...'); or a path, which is opened and uploaded if it exists on this machine,
    and otherwise looked for by the service below its own folders.
""",
    "indices": """
out_of_range : {'error', 'clip', 'wrap', 'mask'}, default: 'error'
    Rule for indices that name no element.
negative : {'out_of_range', 'from_end'}, default: 'out_of_range'
    Whether -1 is out of range, or the last element.
fill : number, optional
    Value where nothing is moved; by default NaN, or 0 in types without NaN.
""",
    "submission": """
target : {'auto', 'cuda', 'cpu', 'reference'}, default: 'auto'
    What computes on the workers of the service.
mode : {'auto', 'streamed'}, default: 'auto'
    How blocks pass through memory. `stencil` has 'resident' besides: blocks stay there, and
    exchange halos.
chunks : mapping of str to int, optional
    Block sizes by dimension; by default they follow from the memory of the workers.
dry_run : bool, default: False
    Whether to plan the job only: the Job that is returned has a `plan()` and no result.
job_name : str, optional
    Name of the job, which need not be unique.
labels : sequence of str, optional
    Words by which jobs are found.

Returns
-------
Job
    The accepted job, at once.

Raises
------
ProgramError, RequestError
    The service refuses the job.
ServiceError, ConnectionFailed
    The service cannot take jobs now, or does not answer.
""",
}


def documented(method: _Method) -> _Method:
    """Replace the lines `%(name)s` of a docstring by the paragraphs of that name."""
    text = method.__doc__ or ""
    for name, paragraph in _PARAGRAPHS.items():
        lines = [f"        {line}" if line else "" for line in paragraph.strip().splitlines()]
        text = text.replace(f"        %({name})s", "\n".join(lines))
    method.__doc__ = text or None
    return method
