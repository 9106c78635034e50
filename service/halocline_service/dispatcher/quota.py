"""Size of what a job writes: its result and its workspace have a quota of files and bytes."""

from __future__ import annotations

from pathlib import Path

from halocline_engine.errors import OutputError
from halocline_service.datasets.tree import count
from halocline_service.settings import Settings

__all__ = ["check_quota"]


def check_quota(folder: Path, settings: Settings) -> None:
    """Refuse a job whose folder holds more than one may have. Raises `OutputError`."""
    census = count(folder)
    if census.bytes > settings.result_bytes:
        raise OutputError(
            f"The result and its workspace have more than {settings.result_bytes} bytes.",
            hint="Keep fewer steps or variables, or ask the operator for more.",
        )
    if census.keys + census.folders > settings.result_keys:
        raise OutputError(
            f"The result and its workspace have more than {settings.result_keys} files and "
            "folders.",
            hint="Choose larger chunks, or keep fewer steps or variables.",
        )
