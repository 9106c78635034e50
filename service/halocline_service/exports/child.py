"""A process that makes one file of a result, or looks into one file of an upload.

What it is asked for is JSON in its argument, and the outcome is JSON on its standard output: empty
where all went well, else what went wrong.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from halocline_engine.errors import DatasetError, HaloclineError, InternalError
from halocline_service.exports.limits import limit_growth
from halocline_service.lifetime import end_with

__all__ = ["main"]

_DAMAGED = "Look at it with 'ncdump -h', and send another one."


def main() -> None:
    """Do what the first argument says."""
    end_with(os.getppid())
    asked = json.loads(sys.argv[1])
    told = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what prints does no harm
    limit_growth(int(asked["memory"]))
    told.write(json.dumps(_outcome(asked)))
    told.close()


def _outcome(asked: Mapping[str, Any]) -> dict[str, Any]:
    try:
        if asked["kind"] == "check":
            _check(Path(asked["file"]))
        else:
            _export(asked)
    except InternalError:
        raise
    except HaloclineError as error:
        return {"code": error.code, "detail": error.message, "hint": error.hint}
    except MemoryError:
        return {"limit": "memory"}
    return {}


def _export(asked: Mapping[str, Any]) -> None:
    """Write a file, which appears whole or not at all."""
    from halocline_service.exports.writing import write_export

    path = Path(asked["file"])
    path.parent.mkdir(mode=0o700, exist_ok=True)
    part = path.with_name(f".{path.name}.{secrets.token_hex(16)}.part")
    try:
        write_export(
            Path(asked["store"]),
            asked["form"],
            part,
            most=asked["most"],
            headroom=asked["headroom"],
        )
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _check(path: Path) -> None:
    """Refuse a file that is no NetCDF, refers to others, or declares more than can be read."""
    from halocline_engine.datasets.inputs.opening import open_source

    try:
        open_source(path)
    except DatasetError as error:
        # What xarray could do is of no use to those who sent a file.
        is_of_use = "xarray" not in error.hint
        raise DatasetError(error.message, hint=error.hint if is_of_use else _DAMAGED) from error


if __name__ == "__main__":
    main()
