"""Names of arrays in a store.

An array of a Zarr store is a folder of its name, and a part of an address where the store is read
over HTTP. Other names would end up elsewhere, or nowhere.
"""

from __future__ import annotations

import re

__all__ = ["hint_of_name", "storable"]

#: Bytes of a name, which file systems allow 255 of, with room for a suffix.
_LONGEST = 240
#: What stores call a file of their own; others begin with a dot.
_FILE = "zarr.json"
#: Parts of paths and addresses that do not stand for themselves.
_APART = re.compile(r"[/\\:?#]|%[0-9A-Fa-f]{2}")


def hint_of_name(name: str, otherwise: str) -> str:
    """Return how an array gets a valid name: a shorter one, or else `otherwise`.

    >>> hint_of_name("t" * 241, "Rename it."), hint_of_name("a/b", "Rename it.")
    ('Give it a shorter name: it has 241 bytes, and at most 240 are possible.', 'Rename it.')
    """
    size = len(name.encode("utf-8", "surrogatepass"))
    if size <= _LONGEST:
        return otherwise
    return f"Give it a shorter name: it has {size} bytes, and at most {_LONGEST} are possible."


def storable(name: str) -> bool:
    """Whether an array of a store may have a name.

    >>> names = ("t", "sea surface", "a/b", "..", "", "zarr.json", "t" * 241)
    >>> [storable(name) for name in names]
    [True, True, False, False, False, False, False]
    """
    if not name.isprintable() or _APART.search(name):
        return False
    return name not in ("", _FILE) and name[0] != "." and len(name.encode()) <= _LONGEST
