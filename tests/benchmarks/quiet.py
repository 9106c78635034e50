"""Whether other work took processor time while something was timed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter, sleep

__all__ = ["QUIET", "Watch"]

#: Less of the machine than this does not disturb.
QUIET = 0.03
_PAUSE = 0.3


class Watch:
    """Knows how busy others keep this machine, where the kernel says so, as Linux does.

    `own` are further processes whose work is not that of others.
    """

    def __init__(self, own: Iterable[int] = ()) -> None:
        self._own = (os.getpid(), *own)
        self._hertz = os.sysconf("SC_CLK_TCK")
        self._processors = os.cpu_count() or 1
        self._then = self._now()

    def others(self) -> tuple[float, float]:
        """Return what others had of all processors since the last call, and all of it, in seconds.

        The kernel counts in hundredths.
        """
        (began, before), self._then = self._then, self._now()
        now, after = self._then
        return (after - before) / self._hertz, (now - began) * self._processors

    def wait(self, deadline: float) -> None:
        """Return when others are quiet, or at the deadline on `perf_counter`."""
        self.others()
        while perf_counter() < deadline:
            sleep(_PAUSE)
            had, every = self.others()
            if had < QUIET * every:
                return

    def _now(self) -> tuple[float, int]:
        """Return the time, and the ticks that others had so far."""
        try:
            # user nice system idle iowait irq softirq steal
            line = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
        except OSError:
            return perf_counter(), 0
        every = sum(map(int, line)) - int(line[3]) - int(line[4])
        return perf_counter(), every - sum(map(_ticks, self._own))


def _ticks(process: int) -> int:
    """Return what a process had, itself and in the kernel; 0 where it has ended."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return 0
    return sum(map(int, text.rpartition(")")[2].split()[11:13]))
