"""Programs that can make several steps at once: what may be fused, and how many steps are best."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

from halocline_engine.analysis.boundaries import UNMADE, MadeSides
from halocline_engine.backends.base import Array, Executable, OpenSides
from halocline_engine.ir.nodes import Binary, Call, Expr, Number, Parameter, Read
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.temporal.step import Refused, Step, step_of

__all__ = ["CLOSED", "AskedSteps", "Costs", "FusingExecutable", "Gains", "MakesSteps"]

_Fused = TypeVar("_Fused", bound=Executable)
_Made_co = TypeVar("_Made_co", bound=Executable, covariant=True)
_Domain: TypeAlias = tuple[int, int, int]
_Feedback: TypeAlias = tuple[tuple[str, str], ...]

#: All steps compute the same points.
CLOSED: OpenSides = ((False, False), (False, False), (False, False))
#: How much faster fused steps must be.
_GAIN = 1.15


@dataclass(frozen=True, slots=True)
class Gains:
    """Expected speed of so many steps at once, relative to one by one."""

    by_steps: Mapping[int, float]

    @property
    def most(self) -> int:
        """The most steps that are known."""
        return max(self.by_steps, default=1)

    def best(self, steps: Iterable[int]) -> int:
        """Return the number of steps that gains most, or 1 where none gains much."""
        found = max(steps, key=lambda n: (self.by_steps.get(n, 0.0), -n), default=1)
        return found if self.by_steps.get(found, 0.0) >= _GAIN else 1


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of operations: functions by their names, others, and divisions; of all else 1."""

    functions: Mapping[str, int]
    function: int
    division: int

    def of(self, expr: Expr) -> int:
        """Return the cost of an operation without that of its operands."""
        match expr:
            case Number() | Parameter() | Read():
                return 0
            case Binary("/" | "%"):
                return self.division
            case Call(function):
                return self.functions.get(function, self.function)
            case _:
                return 1


@dataclass(frozen=True, slots=True)
class AskedSteps:
    """Parameters of a request for fused steps.

    `ends` says how ghosts beyond sides follow from cells. With `alternate`, what is beyond sides
    that are not open is that of two arrays in turns, as where they change places after each step.
    """

    steps: int
    feedback: _Feedback
    sides: OpenSides
    ends: MadeSides
    alternate: bool


class MakesSteps(Protocol[_Made_co]):
    """Rules of a target for fused steps."""

    def gains(self, step: Step, domain: _Domain, ends: MadeSides) -> Gains:
        """Return what a model expects, in arrays as the target makes them."""
        ...

    def between_fills(self, step: Step, domain: _Domain, most: int) -> int:
        """Return after how many single steps to fill halos from the same memory."""
        ...

    def may_fuse(self, step: Step, fields: Mapping[str, Array]) -> bool:
        """Whether steps on such arrays can be fused, and are as fast as the model says."""
        ...

    def made(self, step: Step, asked: AskedSteps) -> _Made_co | Refused:
        """Return what makes such steps at once."""
        ...


class FusingExecutable(Generic[_Fused]):
    """An executable that can make several steps of a feedback in one pass through memory.

    `feedback` gives the input that each output becomes in the next step. Steps are fused where
    every statement runs on all levels, and none needs what the same field held a step before. What
    was made or refused once is kept.
    """

    def __init__(self, schedule: Schedule, maker: MakesSteps[_Fused]) -> None:
        self._program, self._facts = schedule.program, schedule.facts
        self._maker = maker
        self._fusing = threading.Lock()
        self._single_steps: dict[_Feedback, Step | Refused] = {}
        self._fused: dict[AskedSteps, _Fused | Refused] = {}
        self._gains: dict[tuple[_Feedback, _Domain, MadeSides], Gains] = {}

    def fused(
        self,
        steps: int,
        feedback: Mapping[str, str],
        open_sides: OpenSides,
        ends: MadeSides = UNMADE,
    ) -> _Fused | Refused:
        """Return an executable whose calls make so many steps, or why there is none.

        A call gives the domain of the last step, and reads the inputs around it: no array that is
        read may be written. The last step's outputs are written on the domain, and nothing else.

        On an open side, earlier steps compute as much more as later ones read: inputs must be
        there for (steps - 1) times the reach of the feedback, the largest extent of an input that
        is fed, and for what a step reads beyond that. On another side all steps compute the same
        points. Beyond them, the first step reads what the arrays of the inputs hold, and so does
        each one where `ends` has no kind of ghosts. Where it has one, later steps read ghosts that
        are made of the points, along I, then J, then K; the domain has all of these. K is never
        open.

        The bits are those of as many calls of one step.
        """
        return self._asked(AskedSteps(steps, tuple(feedback.items()), open_sides, ends, False))

    def fused_steps(
        self,
        feedback: Mapping[str, str],
        domain: _Domain,
        ends: MadeSides = UNMADE,
    ) -> int:
        """Return how many steps at once a model takes for the fastest, 1 where fusing gains little.

        It assumes arrays as `memory` makes them.
        """
        gains = self._expected(feedback, domain, ends=ends)
        return gains.best(range(1, 1 + gains.most))

    def steps_between_fills(self, feedback: Mapping[str, str], domain: _Domain, most: int) -> int:
        """Return after how many steps one by one, `most` at most, halos should be filled.

        They are filled from cells of the same memory, as deep as all steps until the next time
        need; so earlier steps compute more.
        """
        step = self._single_step(tuple(feedback.items()))
        return 1 if isinstance(step, Refused) else self._maker.between_fills(step, domain, most)

    def fused_in_turns(self, steps: int, feedback: Mapping[str, str]) -> _Fused | Refused:
        """Return an executable for an odd number of steps whose arrays change places, or why not.

        After each step an output and the input that it becomes exchange arrays, and what is beyond
        the domain stays in each array: steps find there what one and the other hold, in turns. The
        outputs' arrays hold then what they hold after as many single steps.
        """
        if steps % 2 == 0:
            return Refused("the number of steps is even")
        return self._asked(AskedSteps(steps, tuple(feedback.items()), CLOSED, UNMADE, True))

    def fused_steps_in_turns(
        self, feedback: Mapping[str, str], domain: _Domain, fields: Mapping[str, Array]
    ) -> int:
        """Return how many steps at once a model takes for the fastest; 1 where that is none."""
        gains = self._expected(feedback, domain, fields)
        return gains.best(range(1, 1 + gains.most, 2))

    def _expected(
        self,
        feedback: Mapping[str, str],
        domain: _Domain,
        fields: Mapping[str, Array] | None = None,
        ends: MadeSides = UNMADE,
    ) -> Gains:
        """Return what making steps at once should gain, on arrays that lie as `fields` do."""
        pairs = tuple(feedback.items())
        step = self._single_step(pairs)
        if isinstance(step, Refused) or 0 in domain:
            return Gains({})
        found = self._gains.get((pairs, domain, ends))
        if found is None:
            found = self._gains[pairs, domain, ends] = self._maker.gains(step, domain, ends)
        if not found.by_steps or fields is None or self._maker.may_fuse(step, fields):
            return found
        return Gains({})

    def _single_step(self, feedback: _Feedback) -> Step | Refused:
        found = self._single_steps.get(feedback)
        if found is None:
            found = step_of(self._program, self._facts, dict(feedback))
            self._single_steps[feedback] = found
        return found

    def _asked(self, asked: AskedSteps) -> _Fused | Refused:
        with self._fusing:
            found = self._fused.get(asked)
            if found is None:
                found = self._fused[asked] = self._made_steps(asked)
            return found

    def _made_steps(self, asked: AskedSteps) -> _Fused | Refused:
        step = self._single_step(asked.feedback)
        if isinstance(step, Refused):
            return step
        if asked.steps < 1:
            return Refused("there is no step to make")
        if any(asked.sides[2]):
            return Refused("K is open")
        return self._maker.made(step, asked)
