"""Links within stores under the roots: a chunk must not be a file that may not be read."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from halocline_engine.errors import DatasetError

__all__ = ["Links"]

_FIRST_SECONDS = 0.25


class Links:
    """Looks for links that lead out of the roots, in two parts.

    A hundred thousand chunks in few folders are looked at in less than a tenth of a second, but
    with a folder for each it takes seconds. So `begin` stops after a moment, before anything is
    read, and `finish` looks at the rest before anything that was read is shown.
    """

    def __init__(self, name: str, store: Path, roots: Sequence[Path]) -> None:
        self._name = name
        self._store = store
        self._roots = [os.path.realpath(root) for root in roots]
        self._folders = self._look()

    def begin(self, *, seconds: float = _FIRST_SECONDS) -> None:
        """Look for links for some seconds at most. Raises `DatasetError`."""
        end = time.monotonic() + seconds
        for _ in self._folders:
            if time.monotonic() > end:
                break

    def finish(self) -> None:
        """Look for links where `begin` did not. Raises `DatasetError`."""
        for _ in self._folders:
            pass

    def _look(self) -> Iterator[str]:
        """Yield each folder when there is no bad link in it; a link to a folder is followed."""
        left, followed = [str(self._store)], {os.path.realpath(self._store)}
        while left:
            folder = left.pop()
            for link in self._links(folder, left):
                real = self._checked(link)
                if os.path.isdir(real) and real not in followed:
                    followed.add(real)
                    left.append(real)
            yield folder

    def _links(self, folder: str, folders: list[str]) -> list[str]:
        """Give the links in a folder, and append the folders in it to `folders`."""
        links: list[str] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif entry.is_symlink():
                        links.append(entry.path)
                    elif not entry.is_file(follow_symlinks=False):
                        raise self._special(entry.path)
        except FileNotFoundError:  # removed meanwhile, so nothing of it is read
            return []
        except PermissionError:
            raise DatasetError(
                f"In dataset '{self._name}', '{os.path.relpath(folder, self._store)}' cannot be "
                "listed.",
                hint="Ask the operator to let the service read it.",
            ) from None
        return links

    def _special(self, path: str) -> DatasetError:
        return DatasetError(
            f"In dataset '{self._name}', '{os.path.relpath(path, self._store)}' is neither a file "
            "nor a folder.",
            hint="Remove it from the dataset.",
        )

    def _checked(self, link: str) -> str:
        real = os.path.realpath(link)
        if os.path.exists(real) and not (os.path.isfile(real) or os.path.isdir(real)):
            raise self._special(link)
        if not any(Path(real).is_relative_to(root) for root in self._roots):
            raise DatasetError(
                f"In dataset '{self._name}', '{os.path.relpath(link, self._store)}' is a link that "
                "leads out of the folders that may be read.",
                hint="Put the file itself there, or ask the operator to add its folder to "
                "HALOCLINE_DATA_ROOTS.",
            )
        return real
