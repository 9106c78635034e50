"""Provenance of a result: attributes that NetCDF and Zarr can both keep."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping
from typing import Any

from halocline_engine.version import halocline_version

__all__ = ["provenance"]

#: Inputs that are texts, which their digest stands for.
_TEXTS = ("program", "expression")
_LIBRARIES = ("numpy", "xarray", "zarr", "numba", "cupy-cuda12x", "cupy-cuda13x")


def provenance(
    process: str,
    inputs: Mapping[str, Any],
    *,
    target: str,
    datasets: Mapping[str, Mapping[str, str]],
    job: str = "",
) -> dict[str, str]:
    """Return the attributes of a result by which it can be made again.

    Parameters
    ----------
    process : str
        Name of the function on datasets, where 'stencil' is `run`.
    inputs : mapping
        Its arguments as JSON; those that name datasets are left out.
    target : str
        What computed.
    datasets : mapping
        By argument, how the dataset was named and, where known, the SHA-256 of its content.
    job : str, optional
        Identifier of the job at a service.

    Returns
    -------
    dict of str to str
        Attributes whose names begin with 'halocline'.

    Examples
    --------
    >>> inputs = {"program": "...", "scalars": {"strength": 0.2}, "dataset": "sea.nc"}
    >>> datasets = {"dataset": {"reference": "sea.nc"}}
    >>> made = provenance("stencil", inputs, target="cpu", datasets=datasets)
    >>> made["halocline_inputs"], made["halocline_program_sha256"][:8]
    ('{"scalars": {"strength": 0.2}}', 'ab5df625')

    """
    left = {name: value for name, value in inputs.items() if name not in (*_TEXTS, *datasets)}
    made = {
        "halocline_process": process,
        "halocline_version": halocline_version(),
        "halocline_target": target,
        "halocline_inputs": json.dumps(left),
        "halocline_datasets": json.dumps(datasets),
        "halocline_libraries": json.dumps(_versions()),
    }
    for name in _TEXTS:
        if name in inputs:
            digest = hashlib.sha256(str(inputs[name]).encode()).hexdigest()
            made[f"halocline_{name}_sha256"] = digest
    if job:
        made["halocline_job"] = job
    return made


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
