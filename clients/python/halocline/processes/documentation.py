"""Docstrings and signatures of methods, from what they share."""

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
    An xarray object, which is uploaded; a Job, whose result is taken; a reference ('upload:...',
    'job:...', 'file:...'); or a path, which is opened and uploaded if it exists on this machine,
    and otherwise looked for by the service below its own folders. Several files, as a list or with
    a pattern ('data_*.nc'), are joined along the dimension in which they differ, and uploaded.
""",
    "indices": """
out_of_range : {'error', 'clip', 'wrap', 'mask'}, default: 'error'
    Rule for indices that name no element.
negative : {'out_of_range', 'from_end'}, default: 'out_of_range'
    Whether -1 is out of range, or the last element.
fill : number, optional
    Value where nothing is moved; by default NaN, or 0 in types without NaN.
""",
    "job": f"{described(JobArguments)}{_ACCEPTED}",
    "submission": f"{described(ComputeArguments)}\n{described(JobArguments)}{_ACCEPTED}",
}


def documented(kind: type) -> Callable[[_Method], _Method]:
    """Complete the docstring of a method, and show what its ``**given`` takes of a kind.

    Each line ``%(name)s`` stands for a paragraph that several methods share.
    """

    def shown(method: _Method) -> _Method:
        return unpacks(kind, SubmissionArguments)(documents(_PARAGRAPHS)(method))

    return shown
