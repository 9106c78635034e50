"""Docstrings and signatures of methods, completed with shared paragraphs and arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from halocline.processes.parameters import (
    ComputeArguments,
    JobArguments,
    SubmissionArguments,
)
from halocline_engine.signatures import described, documents, unpacks

__all__ = ["documented"]

_Method = TypeVar("_Method", bound=Callable[..., Any])

_ACCEPTED = """

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
"""
_PARAGRAPHS = {
    "dataset": """
dataset : xarray.Dataset, xarray.DataArray, Job, str, path or list of paths
    An xarray object, which is uploaded; a Job, whose result is read; a reference ('upload:...',
    'job:...', 'file:...'); or a path, which is opened and uploaded if it exists on this machine,
    and otherwise refers to the folders of the service. Several files, as a list or a pattern
    ('data_*.nc'), are joined along the dimension in which they differ, and uploaded.
""",
    "indices": """
out_of_range : {'error', 'clip', 'wrap', 'mask'}, default: 'error'
    Rule for indices out of range.
negative : {'out_of_range', 'from_end'}, default: 'out_of_range'
    Whether -1 is out of range, or the last element.
fill : number, optional
    Value of elements that are not assigned; by default NaN, or 0 for types without NaN.
""",
    "job": f"{described(JobArguments)}{_ACCEPTED}",
    "submission": f"{described(ComputeArguments)}\n{described(JobArguments)}{_ACCEPTED}",
}


def documented(kind: type) -> Callable[[_Method], _Method]:
    """Complete the docstring of a method, and show the arguments of its ``**given``.

    Each line ``%(name)s`` is replaced with a paragraph that several methods share.
    """

    def shown(method: _Method) -> _Method:
        return unpacks(kind, SubmissionArguments)(documents(_PARAGRAPHS)(method))

    return shown
