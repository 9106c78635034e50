"""Which runs `gpu_out_of_core` measures, and how the threads of each are divided."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias
from unittest.mock import patch

from out_of_core_figures import Figure, summaries

from halocline_engine.distribute.pipeline import resources as belts
from halocline_engine.distribute.pipeline import schedule

#: What brings values from files to the device, and back.
THREADED, BUFFERS = "copy threads", "buffers"
#: Rows of a block, where nothing else is asked for.
ROWS = 1024
#: (Steps of a residency, rows of a block, slots, way) that are measured, the slots that plans take.
Case: TypeAlias = tuple[int, int, int, str]
CASES: tuple[Case, ...] = (
    (1, 1024, 3, THREADED),
    (16, 1024, 3, THREADED),
    (64, 1024, 3, THREADED),
    (128, 1024, 2, THREADED),
    (256, 1024, 2, THREADED),
    (128, 1024, 3, BUFFERS),
    (1, 1024, 3, BUFFERS),
    (64, 1024, 3, BUFFERS),
    (1, 512, 3, THREADED),
)


@dataclass(frozen=True)
class Variant:
    """Threads that read and write (none said: as usual), and what else may differ.

    Brief ones are without stages that have all threads.
    """

    threads: tuple[int, ...] = ()
    rows: int = ROWS
    slots: int = 3
    at_once: int = schedule.AT_ONCE
    brief: bool = False

    @staticmethod
    def of(said: str) -> Variant:
        """Return what someone said: READ+WRITE[/ROWS[/SLOTS[/AT ONCE]]]."""
        division, *rest = said.split("/")
        return Variant(tuple(map(int, division.split("+"))), *map(int, rest), brief=True)

    @contextmanager
    def used(self) -> Generator[None]:
        """Let pipelines be as this says; rows and slots belong to a case."""
        with ExitStack() as stack:
            stack.enter_context(patch.object(schedule, "AT_ONCE", self.at_once))
            if self.threads:
                stack.enter_context(patch.object(belts, "turns", self._turns))
            yield

    def _turns(self, _cores: int) -> tuple[int, ...]:
        return self.threads


def cases(
    arguments: argparse.Namespace, figures: Sequence[Figure]
) -> Iterator[tuple[Case, Variant]]:
    """Yield what is measured: what is compared, in turn, and then the cases with the best of that.

    `figures` are those of what was yielded before.
    """
    wanted: Sequence[str] = arguments.compare
    lengths: Sequence[int] = arguments.compared
    for _, (steps, said) in itertools.product(
        range(arguments.rounds), [(steps, said) for steps in lengths for said in wanted]
    ):
        one = Variant.of(said)
        yield (steps, one.rows, one.slots, THREADED), one
    best = fastest(figures)
    for _, case in itertools.product(range(arguments.repeats), CASES):
        steps, rows, _, way = case
        usual = not arguments.only or (steps in arguments.only and rows == ROWS)
        if usual and (not arguments.ways or way in arguments.ways):
            yield case, best


def fastest(figures: Sequence[Figure]) -> Variant:
    """Return the division of the threads with the least median, of blocks of usual size."""
    usual = Variant()
    alike = (THREADED, ROWS, usual.slots, usual.at_once)
    some = [f for f in figures if (f.way, f.rows, f.slots, f.at_once) == alike]
    if not some:
        return usual
    best: dict[str, Any] = min(summaries(some), key=lambda one: one["wall"])
    return Variant(tuple(best["threads"]))
