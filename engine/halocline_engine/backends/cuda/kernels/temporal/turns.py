"""When the last of many blocks ends, where some take longer than the others."""

from __future__ import annotations

from math import floor

__all__ = ["turns"]

_ROUNDED = 1e-9


def turns(places: int, usual: int, longer: int, length: float) -> float:
    """Return when all blocks have ended on so many places, in the time of a usual one.

    Those that take `length` times as long begin first.

    >>> turns(4, 8, 0, 2.0), turns(4, 9, 0, 2.0)
    (2.0, 3.0)
    >>> turns(4, 6, 2, 2.5)
    3.0
    """
    each, more = divmod(longer, places)
    free = [(each * length, places - more), ((each + 1) * length, more)]
    mean = (usual + longer * length) / places

    def made(time: float) -> int:
        return sum(n * max(0, floor(time - begin + _ROUNDED)) for begin, n in free)

    last = free[1][0] if more else free[0][0]
    times = {last} | {
        begin + n
        for begin, _ in free
        for n in range(max(0, floor(mean - begin)), max(0, floor(mean - begin)) + 3)
    }
    return min(time for time in times if time >= last and made(time) >= usual)
