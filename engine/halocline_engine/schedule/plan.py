"""Make a schedule: the order of the passes, in one screen."""

from __future__ import annotations

from dataclasses import replace

from halocline_engine.ir.extent import Facts
from halocline_engine.ir.nodes import Program
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.options import Options
from halocline_engine.schedule.passes.flatten import flatten
from halocline_engine.schedule.passes.fusion import fuse
from halocline_engine.schedule.passes.in_place import in_place
from halocline_engine.schedule.passes.inline import inline
from halocline_engine.schedule.passes.piecewise import inline_piecewise
from halocline_engine.schedule.passes.powers import expand_powers
from halocline_engine.schedule.passes.prune import prune
from halocline_engine.schedule.passes.share import share
from halocline_engine.schedule.passes.unordered import unordered
from halocline_engine.schedule.stages import draft
from halocline_engine.schedule.storage.column_fusion import sink
from halocline_engine.schedule.storage.rename import rename
from halocline_engine.schedule.storage.staging import stage
from halocline_engine.schedule.storage.temporaries import place

__all__ = ["plan"]


def plan(program: Program, facts: Facts, options: Options | None = None) -> Schedule:
    """Return the steps that run a program, and the temporaries that live in memory.

    The options change how it is run, never a bit of the result.
    """
    options = options or Options()
    first = flatten(unordered(in_place(draft(program, facts))))
    stages = prune(rename(expand_powers(first)))
    if options.recompute and options.temporaries in ("auto", "recompute"):
        stages = inline(stages, options)
        stages = inline_piecewise(stages, options)
    schedule = place(stages, fuse(stages, merge=options.fuse))
    schedule = share(schedule) if options.share else schedule
    schedule = sink(schedule) if options.sink else schedule
    return stage(replace(schedule, walk=options.walk), options)
