"""Provenance of a result, in the attributes of its store."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from halocline_service.jobs.job import Job

__all__ = ["add_provenance"]

_ROOT = "zarr.json"
#: What the engine tells of steps whose number follows from the data.
_MEASURED = ("halocline_steps", "halocline_change")


def add_provenance(
    store: Path, job: Job, inputs: Mapping[str, Any], target: str, datasets: Mapping[str, Any]
) -> None:
    """Write into a result's attributes what made it; the newest line of its history names the job.

    Consolidated metadata has no copy of the root's attributes.
    """
    from halocline_engine.functions.reports.provenance import provenance

    document = json.loads((store / _ROOT).read_text("utf-8"))
    attributes: dict[str, Any] = document.get("attributes", {})
    told = _MEASURED if inputs.get("until") else ()
    kept = {n: value for n, value in attributes.items() if n in told or not _is_ours(n)}
    made = provenance(job.process, inputs, target=target, datasets=datasets, job=job.id)
    newest, line_break, older = str(kept.get("history", "")).partition("\n")
    history = f"{newest}, job {job.id}{line_break}{older}" if newest else f"job {job.id}"
    document["attributes"] = {**kept, **made, "history": history}
    part = store / f".{_ROOT}.part"
    part.write_text(json.dumps(document), "utf-8")
    os.replace(part, store / _ROOT)


def _is_ours(name: str) -> bool:
    """Say whether an attribute tells how the dataset was made that a job has read."""
    return name.startswith("halocline_")
