"""Order of loops as text: widths for a common core, and a picture of the cache.

The text is the same on every machine; a call takes the caches of the machine that it runs on.
"""

from __future__ import annotations

from collections.abc import Iterator

from halocline_engine.backends.cpu.caches import Caches
from halocline_engine.backends.cpu.columns import cut, reuse_of
from halocline_engine.ir.types import Axis, Order
from halocline_engine.ir.walk import accesses_of
from halocline_engine.schedule.nodes import Kernel, Schedule
from halocline_engine.schedule.storage.temporaries import kernels_of
from halocline_engine.schedule.traversal.column_model import Reads
from halocline_engine.schedule.traversal.pictures import Scene, draw_text, sketch

__all__ = ["walk_lines"]

#: A row that no cache holds, and many of them.
_LONG, _MANY = 1 << 24, 1 << 10


def walk_lines(schedule: Schedule) -> Iterator[str]:
    """Yield how kernels over points go through rows that lie along I, and draw the first one."""
    drawn = False
    for number, kernel in enumerate(kernels_of(schedule.steps)):
        reuse = reuse_of(kernel, schedule, Axis.I)
        if kernel.order is not Order.PARALLEL or not reuse.rows:
            continue
        found = cut(reuse, kernel, (_LONG, _MANY, 1), schedule.walk, Caches())
        yield f"kernel {number}: rows read again {reuse.rows} bytes a point; {_width(found.width)}"
        if not drawn:
            yield from draw_text(_scene(kernel, schedule)).splitlines()
            drawn = True


def _width(width: int) -> str:
    if width >= _LONG:
        return "loops walk whole rows"
    size = Caches().level2 >> 10
    return f"with {size} KiB of second-level cache, rows too long for it go in columns of {width}"


def _scene(kernel: Kernel, schedule: Schedule) -> Scene:
    """Return a small grid that is read as the kernel reads a plane."""
    away = [at for section in kernel.sections for _, at in accesses_of(section.body)]
    (before, after), (above, below) = (
        (max(0, -min(at[axis] for at in away)), max(0, *(at[axis] for at in away)))
        for axis in (0, 1)
    )
    return sketch(schedule.walk.order, Reads((above, below), (before, after)))
