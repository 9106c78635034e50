"""Names of datasets as users wrote them, in place of paths of the service."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from halocline_engine.errors import HaloclineError
from halocline_service.datasets.references import DatasetRefused, Resolves

__all__ = ["Wording", "wording_of"]

_OWN = "the service's folder"
_OTHER = "a place of the service"
_PATH = re.compile(r"(?<![\w./-])(?:file://)?(?:/[\w.@+~,=-]+){2,}/?")


@dataclass(frozen=True, slots=True)
class Wording:
    """Names of places of this machine in messages; `asked` is what the user wrote."""

    names: Mapping[str, str]
    asked: str = ""

    def told(self, text: str) -> str:
        """Give a text with the users' names for all places in it, the innermost first."""
        for place in sorted(self.names, key=len, reverse=True):
            inner = re.compile(f"(?:file://)?{re.escape(place)}(?![\\w.-])(/?)")
            text = inner.sub(self._name(place), text)
        return _PATH.sub(self._other, text)

    def _name(self, place: str) -> str:
        name = self.names[place].replace("\\", r"\\")
        return rf"{name}\1" if name else ""

    def _other(self, found: re.Match[str]) -> str:
        """Hide a path that nothing is known of, unless the user wrote it or it is none here."""
        path = found[0].removeprefix("file://")
        is_here = os.path.exists("/" + path.split("/")[1])
        return _OTHER if is_here and path not in self.asked else found[0]

    def of(self, error: HaloclineError) -> HaloclineError:
        """Give an error as users are told of it."""
        told = copy.copy(error)
        told.message, told.hint = self.told(error.message), self.told(error.hint)
        return told


def wording_of(
    references: Mapping[str, str], resolver: Resolves, *, root: Path, owner: str
) -> Wording:
    """Make the names for a job that reads some datasets; `root` is the service's own folder."""
    names: dict[str, str] = {}
    for below in resolver.roots:
        names |= dict.fromkeys(_spellings(below), "")  # users write what is below it
    names |= dict.fromkeys(_spellings(root), _OWN)
    for reference in references.values():
        try:
            place = resolver.resolve(reference, owner=owner)
        except DatasetRefused:  # which is told in the words of the user
            continue
        names |= dict.fromkeys(_spellings(place), reference)
    return Wording(names, "\n".join(references.values()))


def _spellings(place: Path) -> set[str]:
    return {str(place), os.path.realpath(place)}
