"""The figures of a run out of core, and the table of them: for `gpu_out_of_core`."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from halocline_engine.distribute.pipeline.schedule import Stage


@dataclass
class Figure:
    """A run; times in seconds, sizes in bytes."""

    steps: int
    rows: int
    slots: int
    blocks: int
    dataset: int
    granted: int
    way: str = "buffers"
    threads: tuple[int, int] = (0, 0)
    at_once: int = 0
    direct_io: int = 0
    first: bool = False
    alone: dict[str, float] = field(default_factory=dict[str, float])
    alone_with_all_threads: dict[str, float] = field(default_factory=dict[str, float])
    wall: float = 0.0
    core_seconds: float = 0.0
    whole_run: float = 0.0
    slowest: str = ""
    locked: int = 0
    unlocking: float = 0.0
    wall_to_slowest: float = 0.0
    wall_to_slowest_with_all_threads: float = 0.0
    sent: int = 0
    pinned_rate: float = 0.0
    send_to_pinned: float = 0.0
    achieved_to_pinned: float = 0.0
    projected: int = 0
    host_peak: int = 0
    device_peak: int = 0


def line(figure: Figure) -> str:
    """Return a row of the table."""
    alone = " | ".join(f"{figure.alone[stage.name.lower()]:.3f}" for stage in Stage)
    seconds = figure.alone_with_all_threads or {"read": math.nan, "write": math.nan}
    every = " | ".join(f"{one:.3f}" for one in seconds.values())
    return (
        f"| {figure.steps} | {figure.rows} | {figure.slots} | {figure.blocks} | {figure.way} |"
        f" {figure.threads[0]} + {figure.threads[1]} | {alone} |"
        f" {figure.wall:.3f} | {figure.core_seconds:.1f} | {figure.slowest} |"
        f" {figure.wall_to_slowest:.3f} | {every} |"
        f" {figure.wall_to_slowest_with_all_threads:.3f} |"
        f" {figure.pinned_rate / 1e9:.1f} |"
        f" {figure.send_to_pinned:.3f} | {figure.achieved_to_pinned:.3f} |"
        f" {figure.host_peak / 1e9:.2f} | {figure.device_peak / 1e9:.2f} |"
        f" {figure.projected / 1e9:.2f} | {figure.whole_run:.1f} |"
    )


HEAD = (
    "| steps | rows | slots | blocks | way | threads | read | send | compute | fetch | write |"
    " wall | core s | slowest | wall / slowest | all read | all write | of all |"
    " pinned GB/s | send / pinned | achieved | host GB | device GB |"
    " projected GB | whole run |"
)


def summaries(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """Return what repeats of each kind of run took: medians, and the least as `least_...`.

    The slowest stage is that of the medians, and `wall_to_slowest` is a ratio of medians.
    """
    kinds: dict[Hashable, list[Figure]] = {}
    for one in figures:
        kind = (one.steps, one.rows, one.slots, one.way, one.threads, one.at_once)
        kinds.setdefault(kind, []).append(one)
    found: list[dict[str, Any]] = []
    for some in kinds.values():
        first, walls = some[0], [one.wall for one in some]
        stages = {name: [one.alone[name] for one in some] for name in first.alone}
        middle = {name: median(seconds) for name, seconds in stages.items()}
        # Brief runs are without these.
        more = [one.alone_with_all_threads for one in some if one.alone_with_all_threads]
        slowest = max(middle, key=lambda name: middle[name])
        found.append(
            {name: getattr(first, name) for name in ("steps", "rows", "slots", "way", "threads")}
            | {
                "at_once": first.at_once,
                "repeats": len(some),
                "alone": middle,
                "alone_with_all_threads": {
                    name: median(one[name] for one in more) for name in (more[0] if more else ())
                },
                "wall": median(walls),
                "core_seconds": median(one.core_seconds for one in some),
                "slowest": slowest,
                "wall_to_slowest": median(walls) / middle[slowest],
                "least_wall": min(walls),
                "most_wall": max(walls),
                "least_slowest": min(stages[slowest]),
                "least_wall_to_slowest": min(walls) / min(stages[slowest]),
                "ratios": [one.wall_to_slowest for one in some],
            }
        )
    return found


def table(cases: Sequence[dict[str, Any]]) -> str:
    """Return a table of such cases."""
    head = (
        "| steps | rows, slots, at once | way | threads | repeats | read | send | compute | fetch |"
        " write | with all threads: read, write | wall (least to most) | core s | slowest (least) |"
        " wall / slowest (of the least) |"
    )
    lines = [head, "|" + "---|" * (head.count("|") - 1)]
    for one in cases:
        alone = " | ".join(f"{one['alone'][stage.name.lower()]:.3f}" for stage in Stage)
        more = ", ".join(f"{s:.3f}" for s in one["alone_with_all_threads"].values())
        reading, writing = one["threads"]
        lines.append(
            f"| {one['steps']} | {one['rows']}, {one['slots']}, {one['at_once']} | {one['way']} |"
            f" {reading} + {writing} | {one['repeats']} | {alone} | {more} |"
            f" {one['wall']:.3f} ({one['least_wall']:.3f} to {one['most_wall']:.3f}) |"
            f" {one['core_seconds']:.1f} | {one['slowest']} ({one['least_slowest']:.3f}) |"
            f" {one['wall_to_slowest']:.3f} ({one['least_wall_to_slowest']:.3f}) |"
        )
    return "\n".join(lines)
