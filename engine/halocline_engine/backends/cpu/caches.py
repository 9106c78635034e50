"""The caches of a processor, as its operating system tells of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FOLDER", "Caches", "read_caches"]

#: Where Linux describes the caches of the first core.
FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class Caches:
    """Bytes of the first two levels of data of one core, of the last level, and of a line.

    The defaults are those of a core of a common server, for systems that do not tell.
    """

    level1: int = 32 << 10
    level2: int = 1 << 20
    last: int = 32 << 20
    line: int = 64


def read_caches(folder: Path = FOLDER) -> Caches:
    """Return the caches that a folder describes; what is missing there is as by default."""
    usual = Caches()
    sizes: dict[int, int] = {}
    lines: list[int] = []
    for level, size, line in _described(folder):
        sizes[level] = size
        lines.append(line)
    return Caches(
        level1=sizes.get(1, usual.level1),
        level2=sizes.get(2, usual.level2),
        last=sizes[max(sizes)] if sizes else usual.last,
        line=lines[0] if lines else usual.line,
    )


def _described(folder: Path) -> Iterator[tuple[int, int, int]]:
    """Yield level, bytes and bytes of a line of each cache that holds data."""
    for cache in sorted(folder.glob("index*")):
        try:
            kind, level, size, line = (
                (cache / name).read_text("ascii").strip()
                for name in ("type", "level", "size", "coherency_line_size")
            )
            found = int(level), _bytes(size), int(line)
        except (OSError, ValueError):
            continue
        if kind != "Instruction" and min(found) > 0:
            yield found


def _bytes(size: str) -> int:
    """Return a size such as 1024K in bytes."""
    unit = _UNITS.get(size[-1:])
    return int(size[:-1]) * unit if unit else int(size)
