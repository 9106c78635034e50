"""The part of a schedule's text that says what blocks of points keep for themselves."""

from __future__ import annotations

from collections.abc import Iterator

from halocline_engine.schedule.nodes import Home, Schedule, Staging
from halocline_engine.schedule.storage.temporaries import kernels_of

__all__ = ["home_in_block", "staging_lines"]


def home_in_block(name: str, schedule: Schedule) -> str | None:
    """Return where blocks keep a temporary, or None where they do not."""
    for staging in schedule.staging:
        if name in staging.temporaries:
            return _home(staging)
    return None


def _home(staging: Staging) -> str:
    if staging.home is Home.SHARED:
        return "in shared memory of a block"
    moved = staging.home is Home.MOVED
    base = "first halo point, moved by unused halo," if moved else "first point"
    aligned = f" at {staging.alignment} bytes" if staging.alignment > 1 else ""
    return f"in memory of a block from its {base}{aligned}"


def staging_lines(schedule: Schedule) -> Iterator[str]:
    """Yield what is run block by block, kernels numbered as in the whole text."""
    for staging in schedule.staging:
        first = len(kernels_of(schedule.steps[: staging.first]))
        deep = ", each on all levels" if staging.deep else ""
        yield (
            f"blocks of points run kernels {first} to {first + staging.count - 1} one after the"
            f" other{deep}, where a target has blocks; others keep their temporaries in memory"
        )
