"""Folders shared by several attempts at a job."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Workspace", "attempt_of"]


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder for finished passes; `attempt` separates the files of several runs."""

    path: str
    attempt: int = 0

    def __fspath__(self) -> str:
        """Return the path."""
        return self.path


def attempt_of(workspace: object) -> int:
    """Return the number of the attempt: 0 for a plain path.

    >>> attempt_of(Workspace("work", 3)), attempt_of("work")
    (3, 0)
    """
    return workspace.attempt if isinstance(workspace, Workspace) else 0
