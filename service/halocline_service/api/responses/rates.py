"""How fast a job's kernels were on each worker, beside what its machine was measured to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["rates_of"]

_SPENT = ("reading", "sending", "compiling", "computing", "halos", "fetching", "writing")


def rates_of(
    worked: Iterable[Mapping[str, Any]], ceilings: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the rates of each worker from the events that tell of it."""
    measured = {told["worker"]: told for told in ceilings}
    return {"workers": [_rates(told, measured.get(told["worker"])) for told in worked]}


def _rates(told: Mapping[str, Any], ceiling: Mapping[str, Any] | None) -> dict[str, Any]:
    seconds = float(told["computing"])
    moved = _per_second(told["bytes"], seconds)
    copy = 0.0 if ceiling is None else float(ceiling["copy_rate"])
    operations = 0.0 if ceiling is None else float(ceiling["operation_rate"])
    return {
        "worker": told["worker"],
        "rank": told.get("rank"),
        "target": told["target"],
        "blocks": told["blocks"],
        "bytes": told["bytes"],
        "operations": told["operations"],
        "seconds": seconds,
        "bytes_per_second": moved,
        "operations_per_second": _per_second(told["operations"], seconds),
        "copy_bytes_per_second": copy or None,
        "most_operations_per_second": operations or None,
        "share_of_copy": None if moved is None or not copy else moved / copy,
        "spent": {name: told.get(name, 0.0) for name in _SPENT},
    }


def _per_second(number: float, seconds: float) -> float | None:
    return number / seconds if number and seconds > 0 else None
