"""Checks of a call without the call: all that arguments and metadata show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from halocline_engine.backends.registry import AUTO, resolve
from halocline_engine.datasets.storing.outline import needs_values
from halocline_engine.errors import CapacityError
from halocline_engine.functions.execution import Checking, CheckPassed

__all__ = ["check_call"]


def check_call(function: Callable[..., object], *arguments: Any, **options: Any) -> None:
    """Raise what a function on datasets would raise before it reads a value.

    The arguments are those of the function. Datasets may be known by their outlines only: the
    check ends, and passes, where a value is needed. Nothing is computed, started or written, and
    no device is looked for.

    Parameters
    ----------
    function : callable
        One of the functions on datasets, such as `run` or `column`.
    *arguments
        Its positional arguments.
    **options
        Its keyword arguments.

    Raises
    ------
    HaloclineError
        What the function would raise.

    Examples
    --------
    >>> import xarray as xr
    >>> from halocline_engine.functions.matmul import matmul
    >>> from halocline_engine.functions.reports.checking import check_call
    >>> dataset = xr.Dataset({"a": (("i", "k"), [[1.0, 2.0]]), "b": (("k", "j"), [[3.0], [4.0]])})
    >>> check_call(matmul, dataset, left="a", right="c", dim="k")
    Traceback (most recent call last):
    ...
    halocline_engine.errors.FieldError: The dataset has no variable 'c'. There are 'a', 'b'.

    """
    if (target := options.pop("target", AUTO)) != AUTO:
        resolve(target)
    here = {"target": "reference", "cluster": Checking()}  # which imports no compiler
    try:
        function(*arguments, **options, **here)
    except (CheckPassed, CapacityError):  # room is a matter of the machine that computes
        return
    except Exception as error:
        if not needs_values(error):
            raise
