"""Whose a data folder is: a file in it names the database, so that no other one works in it.

Jobs and uploads of another database would be unknown here, their results unreachable, and the
files of two databases would lie under one another.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from halocline_service.datasets.layout import Layout
from halocline_service.jobs.job import is_id
from halocline_service.store.base import Store

__all__ = ["MARKER", "ForeignFolder", "adopt", "claim", "is_ours", "unknown"]

MARKER = "halocline.json"
_FORMAT = 1
_WAY_OUT = (
    "Name the database that belongs to it in HALOCLINE_DATABASE_URL, or another folder in "
    "HALOCLINE_DATA_DIR; or, to give the folder to this database, run 'halocline-server adopt'."
)


class ForeignFolder(Exception):
    """The data folder is not this database's; `hint` is the way out."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class _Marker:
    format: int
    installation: str


def claim(layout: Layout, store: Store, *, database: str) -> None:
    """See that the data folder is the database's; mark it where nothing speaks against it.

    `database` is how the database is called in a message. Raises `ForeignFolder`.
    """
    layout.make()
    if _read(layout) is None:
        names = unknown(layout, store)
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise ForeignFolder(
                f"The data folder '{layout.root}' holds '{names[0]}'{more}, which the database "
                f"'{database}' does not know.",
                hint=_WAY_OUT,
            )
        _write(layout, store.identity(), replace=False)
    found = _read(layout)
    if found is not None and found.installation != store.identity():
        raise ForeignFolder(
            f"The data folder '{layout.root}' belongs to another database: its '{MARKER}' names "
            f"installation {found.installation}, and the database '{database}' is "
            f"{store.identity()}.",
            hint=_WAY_OUT,
        )


def adopt(layout: Layout, store: Store) -> None:
    """Give the data folder to the database; what it does not know stays. Raises `ForeignFolder`."""
    layout.make()
    _read(layout)
    _write(layout, store.identity(), replace=True)


def is_ours(layout: Layout, store: Store) -> bool:
    """Say whether the data folder is the database's."""
    try:
        found = _read(layout)
    except ForeignFolder:
        return False
    return found is not None and found.installation == store.identity()


def unknown(layout: Layout, store: Store) -> list[str]:
    """Give what lies among jobs and uploads and was never made by this database."""
    # The folders first: what is made after the rows were read is new, and not unknown.
    jobs, uploads = layout.named()
    removed = store.removed.list(before=float("inf"))
    known_jobs = store.jobs.known() | {each.id for each in removed if each.kind == "job"}
    known = store.uploads.known() | {each.id for each in removed if each.kind == "upload"}
    return [
        *(f"jobs/{name}" for name in sorted(jobs) if not (is_id(name) and name in known_jobs)),
        *(f"uploads/{name}" for name in sorted(uploads) if not _is_of(name, known)),
    ]


def _is_of(name: str, known: Iterable[str]) -> bool:
    path = Path(name)
    return path.suffix in (".open", ".parts", ".zarr") and is_id(path.stem) and path.stem in known


def _read(layout: Layout) -> _Marker | None:
    """Give the marker, or None where there is none. Raises `ForeignFolder`."""
    path = layout.root / MARKER
    try:
        document: object = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        document = None
    fields = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    number, name = fields.get("format"), fields.get("installation")
    if isinstance(number, int) and number > _FORMAT:
        raise ForeignFolder(
            f"The data folder '{layout.root}' is of a newer version of Halocline: its format is "
            f"{number}, and this version knows up to {_FORMAT}.",
            hint="Install that version, or name another folder in HALOCLINE_DATA_DIR.",
        )
    if not isinstance(number, int) or not isinstance(name, str):
        raise ForeignFolder(
            f"The file '{path}' does not say whose folder it is.",
            hint="Restore it, or move it away and run 'halocline-server adopt'.",
        )
    return _Marker(number, name)


def _write(layout: Layout, installation: str, *, replace: bool) -> None:
    """Write the marker in one step; where one is there, it is replaced or left."""
    text = json.dumps({"format": _FORMAT, "installation": installation})
    handle, draft = tempfile.mkstemp(dir=layout.root, prefix=f".{MARKER}.")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(draft, layout.root / MARKER)
        else:
            _link(draft, layout.root / MARKER)
    finally:
        Path(draft).unlink(missing_ok=True)


def _link(draft: str, path: Path) -> None:
    """Give a file another name; one that another process made first stays."""
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without links; who reads a half of it is told to start again
        with suppress(FileExistsError), path.open("xb") as file:
            file.write(Path(draft).read_bytes())
