"""Duration of passes by a rough estimate, and its limit for showing progress.

A finished pass is what a run can go on from, and what its user sees; each costs what goes to a
store and back. There are as many as show that something happens, and so few that they cost a small
part of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from halocline_engine.backends.targets import TARGETS
from halocline_engine.distribute.stencils.memory import Cost

__all__ = ["PROGRESS", "Pace"]

#: Signs of progress that a run gives, at least, where they cost nothing.
PROGRESS = 20
#: Seconds that a pass from store to store may take without showing any.
_UNSEEN_STORED = 0.5
#: Seconds after which a run that is killed shall not have to begin again, where that costs little.
_LOST = 10.0
#: A pass that is there for progress takes so many times as long as it costs.
_WORTH = 20
# Nanoseconds per byte of a store, and of memory.
_STORE_COST = 4.0
_MEMORY_COST = 0.3
# Seconds that a pass takes beside them: arrays are made, and stores.
_PASS_COST = 1e-3
_STORED_PASS_COST = 4e-2


@dataclass(frozen=True, slots=True)
class Pace:
    """Quantities that decide the time of a job: where it computes, its passes, its fields."""

    target: str
    in_memory: bool
    fields: int

    def seconds(self, cost: Cost, rounds: int, passes: int) -> float:
        """Return the time of all passes of so many rounds of blocks each."""
        return (rounds * (self._moving(cost) + self.computing(cost)) + self._each) * passes

    def computing(self, cost: Cost) -> float:
        """Return the time of a block's steps."""
        return cost.cell_steps * self.fields * TARGETS[self.target].cell_cost * 1e-9

    def unseen(self, cost: Cost) -> float:
        """Return how long a block may compute without showing progress."""
        least = TARGETS[self.target].unseen if self.in_memory else _UNSEEN_STORED
        return max(least, _WORTH * (self._moving(cost) + self._each))

    def steps_alone(self, cost: Cost, steps: int) -> int:
        """Return how many of all steps a pass makes where one block has all cells.

        `cost` is that of one step.
        """
        each = self.computing(cost)
        if not each:
            return steps
        shown = steps // PROGRESS
        if not self.in_memory:
            shown = min(shown, int(_LOST / each))
        return min(steps, max(1, shown, int(self.unseen(cost) / each)))

    def moving(self, size: int) -> float:
        """Return the time that so many bytes take to or from where a pass has its fields."""
        return size * (_MEMORY_COST if self.in_memory else _STORE_COST) * 1e-9

    @property
    def _each(self) -> float:
        return _PASS_COST if self.in_memory else _STORED_PASS_COST

    def _moving(self, cost: Cost) -> float:
        return self.moving(cost.fetched + cost.written)
