"""Many steps on arrays that change places after each of them, several at once where that is faster.

Where steps are made at once, each array ends with what it would have from steps one by one: an odd
number of them is made, and the last step of all is made by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from halocline_engine.backends.base import (
    Arguments,
    Executable,
    Turning,
    prepare,
)
from halocline_engine.backends.fusing import FusingExecutable
from halocline_engine.schedule.temporal.step import Refused

__all__ = ["make_steps"]

#: Passes of several steps that are worth making code for them.
_PASSES = 2


def make_steps(
    executable: Executable, turns: Sequence[Arguments], steps: int, feedback: Mapping[str, str]
) -> None:
    """Make steps in the order of the two `turns`, over and over, and return when all are queued.

    The second one has the arrays of `feedback` the other way round.
    """
    if 0 in turns[0][3]:
        return
    passes = _passes(executable, turns[0], steps, feedback)
    made = 0
    if passes is not None:
        several, count, each = passes
        _in_turns(executable, [prepare(several, *one) for one in turns], count)
        made = count * each
        turns = (turns[count % 2], turns[(count + 1) % 2])
    other = executable.turned() if isinstance(executable, Turning) else executable
    rest = steps - made
    singles = zip((executable, other), turns[:rest], strict=False)
    _in_turns(executable, [prepare(one, *call) for one, call in singles], rest)


def _passes(
    executable: Executable, call: Arguments, steps: int, feedback: Mapping[str, str]
) -> tuple[Executable, int, int] | None:
    """Return what makes several steps at once, how often, and how many; None where nothing does."""
    if not isinstance(executable, FusingExecutable):
        return None
    each = executable.fused_steps_in_turns(feedback, call[3], call[0])
    count = (steps - 1) // each
    if each == 1 or count < _PASSES:
        return None
    several = cast("Executable | Refused", executable.fused_in_turns(each, feedback))
    return None if isinstance(several, Refused) else (several, count, each)


def _in_turns(executable: Executable, calls: Sequence[Callable[[], None]], times: int) -> None:
    """Make so many calls in turns."""

    def once() -> None:
        for call in calls:
            call()

    once()
    if times > 2:
        executable.repeat(once, (times - 2) // 2)
    if times > 2 and times % 2:
        calls[0]()
