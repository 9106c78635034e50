"""What variables of a result may be called: what a store has a place for, and nothing else there.

An array of a Zarr store is a folder of its name, and a part of an address where the store is read
over HTTP. What is no plain name of a folder would end up elsewhere, or nowhere, and what addresses
mean something else by would be read as if it were not there. Such a name is refused for results in
memory as well.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Collection, Sequence

from halocline_engine.arguments import text
from halocline_engine.errors import FieldError

__all__ = ["check_results", "result_name", "storable"]

#: Bytes of a name, which file systems allow 255 of, with room for what is put behind it.
_LONGEST = 240
#: What stores call a file of their own; others begin with a dot.
_FILE = "zarr.json"
#: What parts of paths and addresses do not stand for themselves.
_APART = re.compile(r"[/\\:?#]|%[0-9A-Fa-f]{2}")


def storable(name: str) -> bool:
    """Whether an array of a store may have a name.

    >>> [storable(name) for name in ("t", "sea surface", "a/b", "..", "", "zarr.json", "t" * 241)]
    [True, True, False, False, False, False, False]
    """
    if not name.isprintable() or _APART.search(name):
        return False
    return name not in ("", _FILE) and name[0] != "." and len(name.encode()) <= _LONGEST


def result_name(given: object) -> str:
    """Return the argument `name`; raises a `RequestError` where no result may be called so."""
    name = text("name", given, "the name of the result")
    check_results([name], ())
    return name


def check_results(names: Sequence[str], taken: Collection[str]) -> None:
    """Raise `FieldError` unless variables may be called so.

    `taken` are the dimensions and coordinates of the result.
    """
    for at, name in enumerate(names):
        shown = reprlib.repr(name)
        if not storable(name):
            raise FieldError(
                f"The result cannot be named {shown}, which is no name of an array in a store.",
                hint="Give a 'name' of letters, digits and underscores.",
            )
        if name in taken:
            raise FieldError(
                f"The result cannot be named {shown}, which is a dimension or coordinate of it.",
                hint="Give another 'name'.",
            )
        if name in names[:at]:
            raise FieldError(
                f"Two variables of the result would be named {shown}.", hint="Give another 'name'."
            )
